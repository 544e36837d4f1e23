"""The sweeps on a store in a folder of files: a sample of them; and that a search whose result was committed is made
once in a whole run, though its process is killed and another one takes the run over.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar import Harness
from jumar.testing.crash_clock import StoppedClock
from tests.crash.places import in_folders
from tests.crash.test_postgres import Whole, Written, lives_and_dies, waits
from tests.crash.test_sigkill import swept

__all__ = ["waits"]


@pytest.fixture
def kept_in_folders() -> Iterator[None]:
    """The runs of each story are kept in a folder of files."""
    with in_folders():
        yield


@pytest.mark.usefixtures("kept_in_folders")
def test_a_run_killed_at_a_sample_of_points_and_again_in_its_recovery_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    lives_and_dies(folder, clock, waits, 3, lives=2)


@pytest.mark.sweep
@pytest.mark.usefixtures("kept_in_folders")
def test_a_run_killed_at_many_points_again_and_again_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    lives_and_dies(folder, clock, waits, 8, lives=4)


@pytest.mark.sweep
@pytest.mark.usefixtures("kept_in_folders")
def test_a_run_that_writes_killed_at_a_sample_of_points_ends_with_the_same_files(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    (folder / "whole").mkdir()
    whole = Whole(folder / "whole", clock, waits=waits)
    for number in range(1, whole.points, 40):
        (folder / str(number)).mkdir()
        story = Written(folder / str(number), clock, waits=waits)
        whole.judge(story, story.live(number) or story.live())


@pytest.mark.sweep
def test_a_run_whose_processes_are_killed_over_and_over_ends_as_if_nothing_had_happened(
    tmp_path: Path, waits: bool
) -> None:
    swept(tmp_path, waits=waits, exact=True, points=2, again=2, store="file:{folder}/run")


RUN = "01890a5d-ac96-774b-bcce-b302099a8057"
RUNNER = """
import os, signal, sys
from pathlib import Path
from jumar import Harness, Run

folder = Path(sys.argv[1])
harness = Harness(f"file:{folder / 'store'}", lease_ttl=1.0)

@harness.tool(effect="read")
def search(query: str) -> list[str]:
    with open(folder / "searches", "a") as file:
        file.write(query + "\\n")
    return ["hit"]

@harness.agent(tools=[search])
def look(run: Run, task: str) -> str:
    found = run.call(search, task)
    if sys.argv[2] == "first":
        os.kill(os.getpid(), signal.SIGKILL)
    return found[0]

if sys.argv[2] == "first":
    harness.run(look, "ERROR", run_id=sys.argv[3])
else:
    result = harness.resume(sys.argv[3])
    print(result.status, result.output)
harness.close()
"""


def test_a_search_whose_result_was_committed_is_made_once_though_another_process_ends_the_run(tmp_path: Path) -> None:
    def runner(which: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", RUNNER, str(tmp_path), which, RUN]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    assert runner("first").returncode == -9
    with Harness(f"file:{tmp_path / 'store'}") as harness:
        left = harness.show(RUN)
        assert left.run.status == "RUNNING"
        assert [call.state for call in left.calls] == ["SUCCEEDED"]
    second = runner("second")
    assert (second.stdout.split(), second.stderr) == (["COMPLETED", "hit"], "")
    assert (tmp_path / "searches").read_text() == "ERROR\n"
    files = sorted((tmp_path / "store" / "runs" / RUN).glob("0*.json"))
    states = [call["state"] for file in files for call in json.loads(file.read_text())["entry"].get("call", ())]
    assert states == ["succeeded"]
    with Harness(f"file:{tmp_path / 'store'}") as harness:
        assert harness.show(RUN).run.epoch == 2
        assert harness.doctor().sound
