"""Writes and real SIGKILLs: of a process in the middle of a body, and of two that want the same file."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar import Harness
from jumar.core.call_states import ENDED
from jumar.testing import Restart, restart_sweep
from jumar.testing.crash_clock import stopped_clock
from tests.crash.worlds import AGENT, RUN, TASK, Unbroken, judge_outside
from tests.crash.writing_agents import opened
from tests.workspace.files import read

PROGRAM = """
import os, signal, sys
from pathlib import Path
from jumar import Harness

root = Path("site")
harness = Harness("sqlite:///runs.db", workspace=root, lease_ttl=1.0)

@harness.tool(effect="write", paths=["{name}"])
def rewrite(name: str, text: str) -> str:
    seen = (root / name).read_text()
    (root / name).write_text(text[: len(text) // 2])
    (root / "undeclared").write_text("stays")
    (root / name).chmod(0o600)
    if Path("dies").exists():
        print("half", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    (root / name).write_text(text)
    return seen

@harness.agent
def work(run, task):
    return run.call(rewrite, "a.txt", task)

if __name__ == "__main__":
    result = harness.run(work, sys.argv[1]) if sys.argv[1] != "resume" else harness.resume(sys.argv[2])
    print(result.status, result.output, flush=True)
"""


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.sweep)], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with the program, its workspace, and the word that processes are to die in the middle of their body."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/a.txt").write_text("as it was\n")
    (tmp_path / "site/a.txt").chmod(0o640)
    (tmp_path / "dies").touch()
    yield tmp_path


def started(place: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "program.py", *args]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=120, check=False)


def newest(place: Path) -> str:
    with Harness(f"sqlite:///{place / 'runs.db'}") as harness:
        return harness.find("last")


def test_a_process_killed_in_the_middle_of_a_write_is_followed_by_one_that_puts_the_file_back(place: Path) -> None:
    killed = started(place, "the new text\n")
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "half\n")
    assert (place / "site/a.txt").read_text() == "the ne"
    (place / "dies").unlink()
    resumed = started(place, "resume", newest(place))
    assert resumed.stdout == "COMPLETED as it was\n\n", resumed.stderr
    assert (place / "site/a.txt").read_text() == "the new text\n"
    assert (place / "site/undeclared").read_text() == "stays"


def test_a_write_killed_half_way_never_takes_a_confirmed_write_of_another_run_away(place: Path) -> None:
    killed = started(place, "of the one that dies\n")
    assert killed.returncode == -signal.SIGKILL
    dead = newest(place)
    (place / "dies").unlink()
    other = started(place, "confirmed\n")
    assert other.stdout == "WAITING None\n", "it wrote where another write had been cut off and was not put back"
    waiting = newest(place)
    resumed = started(place, "resume", dead)
    assert resumed.stdout == "COMPLETED as it was\n\n", resumed.stderr
    statuses = [started(place, "resume", waiting).stdout.split(" ", 1)[0]]
    while statuses[-1] == "WAITING":
        statuses.append(started(place, "resume", waiting).stdout.split(" ", 1)[0])
    assert statuses[-1] == "COMPLETED"
    assert (place / "site/a.txt").read_text() == "confirmed\n"


def test_the_lock_of_the_workspace_goes_with_the_process_and_the_paths_stay_held(place: Path) -> None:
    assert started(place, "half").returncode == -signal.SIGKILL
    (place / "dies").unlink()
    run_id = newest(place)
    with Harness(f"sqlite:///{place / 'runs.db'}", workspace=place / "site") as harness:
        run = harness.store.run(run_id)
        assert run is not None and run.workspace is not None
        assert [hold.path for hold in harness.store.holds(run.workspace, b"")] == [b"a.txt"]
        opened_here = harness._open()._engine.files.of(run.workspace)
        with opened_here.workspace.lock() as lock:
            assert lock.held


# --- Sweeps of real processes. ---------------------------------------------------------------------------------------


def swept(folder: Path, *, waits: bool, exact: bool, points: int, again: int) -> None:
    """Have runs that write killed, and each judged by its records and its files."""
    with stopped_clock() as clock:
        (folder / "unbroken").mkdir()
        unbroken = Unbroken(folder / "unbroken", clock, waits=waits, make=opened)
    files = read(folder / "unbroken/site")

    def check(restart: Restart) -> None:
        assert restart.run_id == RUN
        ended = frozenset(call.call_id for call in restart.calls_before if call.state in {each.name for each in ENDED})
        judge_outside(restart.folder, restart.output, [(len(restart.witness_before), ended)], unbroken)
        assert read(restart.folder / "site") == files

    seed = random.randrange(2**32)
    print(f"seed {seed}")
    sweep = restart_sweep(
        f"tests.crash.writing_app:{'waiting' if waits else 'plain'}:{AGENT}",
        TASK,
        folder=folder / "sweep",
        store="sqlite:///{folder}/run.db",
        points=points,
        seed=seed,
        again=again,
        exact=exact,
        witness="witness",
        check=check,
    )
    assert sweep.restarts


def test_a_run_that_writes_and_whose_processes_are_killed_ends_as_if_nothing_had_happened(
    tmp_path: Path, waits: bool
) -> None:
    swept(tmp_path, waits=waits, exact=True, points=1, again=1)


@pytest.mark.sweep
@pytest.mark.parametrize("exact", [True, False], ids=["at the point", "soon after it"])
def test_a_run_that_writes_and_is_killed_at_any_of_its_points_ends_as_if_nothing_had_happened(
    tmp_path: Path, waits: bool, exact: bool
) -> None:
    swept(tmp_path, waits=waits, exact=exact, points=20, again=3)
