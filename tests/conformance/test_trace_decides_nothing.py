"""The trace is for looking: events deleted, doubled, mixed up or late change nothing about a recovery.

A real process is killed at each of several points.  Its database is copied, the copies' events are tampered with, and
each copy is resumed: calls, output, effects, checkpoints and requests must be those of the copy that was left alone.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jumar import Happened
from jumar.stores.opening import open_store
from tests.conformance.traced_agent import POINTS, RUN, build

ROOT = Path(__file__).parents[2]


def change(folder: Path, *statements: str) -> None:
    with sqlite3.connect(folder / "runs.db") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def expire(folder: Path) -> None:
    """Let the dead process's lease be over; waiting for it is tested elsewhere."""
    change(folder, "UPDATE run SET lease_until = 0")


def nothing(folder: Path) -> None:
    pass


def delete_all(folder: Path) -> None:
    change(folder, "DELETE FROM event")


def double_all(folder: Path) -> None:
    copied = "run_no, kind, at, call_seq, epoch, detail"
    change(folder, f"INSERT INTO event ({copied}) SELECT {copied} FROM event")


def mix_up(folder: Path) -> None:
    """Every event gets another's content and a nonsense time."""
    seed = 20300317
    with sqlite3.connect(folder / "runs.db") as connection:
        rows = connection.execute("SELECT event_no, kind, at, call_seq, epoch, detail FROM event").fetchall()
        contents = [row[1:] for row in rows]
        random.Random(seed).shuffle(contents)
        for (number, *_), (kind, _, call_seq, epoch, detail) in zip(rows, contents, strict=True):
            values = (kind, -1, call_seq, epoch + 7, detail[::-1], number)
            connection.execute(
                "UPDATE event SET kind = ?, at = ?, call_seq = ?, epoch = ?, detail = ? WHERE event_no = ?", values
            )
    connection.close()


def make_nonsense(folder: Path) -> None:
    change(folder, "UPDATE event SET kind = 999, detail = x'ff00', call_seq = 123456")


def keep_none(folder: Path) -> None:
    """What is told from now on is lost, too."""
    change(
        folder,
        "DELETE FROM event",
        "CREATE TRIGGER lost AFTER INSERT ON event BEGIN DELETE FROM event WHERE event_no = NEW.event_no; END",
    )


def keep_two(folder: Path) -> None:
    """What is told from now on is told twice."""
    double_all(folder)
    change(
        folder,
        "CREATE TRIGGER twice AFTER INSERT ON event WHEN NEW.detail NOT LIKE '%(again)' BEGIN "
        "INSERT INTO event (run_no, kind, at, call_seq, epoch, detail) "
        "VALUES (NEW.run_no, NEW.kind, NEW.at, NEW.call_seq, NEW.epoch, NEW.detail || '(again)'); END",
    )


def delay(folder: Path) -> None:
    """What is told comes only when all is over: until then it is kept elsewhere."""
    change(
        folder,
        "CREATE TABLE later AS SELECT * FROM event",
        "DELETE FROM event",
        "CREATE TRIGGER late AFTER INSERT ON event BEGIN INSERT INTO later SELECT * FROM event WHERE "
        "event_no = NEW.event_no; DELETE FROM event WHERE event_no = NEW.event_no; END",
    )


TAMPERINGS: dict[str, Callable[[Path], None]] = {
    "deleted": delete_all,
    "doubled": double_all,
    "mixed-up": mix_up,
    "nonsense": make_nonsense,
    "lost-from-now-on": keep_none,
    "doubled-from-now-on": keep_two,
    "late": delay,
}


@pytest.fixture(scope="module", params=POINTS)
def dead(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a process left when it died at a point."""
    folder = tmp_path_factory.mktemp("dead")
    command = [sys.executable, "-m", "tests.conformance.traced_agent", str(folder), request.param]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (9, "")
    expire(folder)
    return folder


@pytest.fixture(scope="module")
def control(dead: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What comes of it when the trace is left alone."""
    return recovered(dead, tmp_path_factory.mktemp("control"), nothing)


def recovered(dead: Path, folder: Path, tamper: Callable[[Path], None]) -> dict[str, Any]:
    """Resume a copy of what the dead process left, the trace tampered with before and whenever the run waits."""
    shutil.copytree(dead, folder, dirs_exist_ok=True)
    tamper(folder)
    with build(folder) as harness:
        statuses = []
        result = harness.resume(RUN)
        statuses.append(result.status)
        if result.status == "WAITING":
            harness.close()
            if tamper in (delete_all, double_all, mix_up, make_nonsense):
                tamper(folder)
            harness.resolve(RUN, "wire.1", Happened("wired 300"), by="kim")
            result = harness.resume(RUN)
            statuses.append(result.status)
        shown = harness.show(RUN)
        assert harness.doctor().findings == ()
        harness.trace(RUN)
    return {
        "statuses": statuses,
        "output": result.unwrap(),
        "effects": (folder / "effects.log").read_text(),
        "shown": [(call.call_id, call.state, call.attempt) for call in shown.calls],
        **rows(folder),
    }


def rows(folder: Path) -> dict[str, Any]:
    """All rows of the run but for the trace, without times and the names of processes."""
    store = open_store(f"sqlite:///{folder / 'runs.db'}")
    run = store.run(RUN)
    assert run is not None
    found = {
        "run": replace(run, updated_at=0, lease_until=0, owner=None),
        "calls": [replace(call, started_at=0, ended_at=0, dispatch_by=None) for call in store.calls(run.run_no)],
        "checkpoints": [replace(kept, name="", created_at=0, checksum=b"") for kept in store.checkpoints(run.run_no)],
        "requests": [replace(asked, created_at=0, answered_at=0) for asked in store.requests(run.run_no)],
    }
    store.close()
    return found


@pytest.mark.parametrize("tamper", TAMPERINGS.values(), ids=TAMPERINGS.keys())
def test_a_tampered_trace_changes_nothing_about_a_recovery(
    dead: Path, control: dict[str, Any], tmp_path: Path, tamper: Callable[[Path], None]
) -> None:
    assert recovered(dead, tmp_path, tamper) == control


def test_the_control_recovers_as_it_should(dead: Path, control: dict[str, Any]) -> None:
    """Each effect once, whatever the point of death: else the comparison would compare nothing."""
    effects = control["effects"].splitlines()
    assert control["statuses"][-1] == "COMPLETED"
    assert [effects.count(f"pay {cents}") for cents in (100, 250)] == [1, 1]
    assert effects.count("wire 300") == 1
    assert control["output"]["receipts"] == ["receipt 100", "receipt 250"]
    assert control["output"]["said"] == "REPORT"
    assert control["run"].epoch == 2 + (len(control["statuses"]) - 1)


def test_the_tamperings_do_change_the_trace(dead: Path, tmp_path: Path) -> None:
    seen = []
    for name, tamper in TAMPERINGS.items():
        folder = tmp_path / name
        shutil.copytree(dead, folder)
        tamper(folder)
        store = open_store(f"sqlite:///{folder / 'runs.db'}")
        seen.append(store.events(1))
        store.close()
    untouched = open_store(f"sqlite:///{dead / 'runs.db'}")
    events = untouched.events(1)
    untouched.close()
    assert events
    assert events not in seen
