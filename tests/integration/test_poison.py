"""A run that ends its process each time does not take the runs beside it along into the dead letters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jumar import Harness
from tests.integration.worker_helpers import PATIENCE

APP = """
import os, sys, time
from jumar import Harness

harness = Harness(f"sqlite:///{sys.argv[1]}", lease_ttl=0.5)

@harness.tool(effect="read")
def poison() -> str:
    os._exit(9)

@harness.tool(effect="read")
def think(number: int) -> int:
    time.sleep(0.5)  # a model's
    return number

@harness.agent
def dies(run, task):
    return run.call(poison)

@harness.agent
def lives(run, task):
    return run.call(think, task)

if __name__ == "__main__":
    harness.work(until_idle=True, poll=0.05)
"""
_MOST = 40  # processes


def test_a_run_that_ends_its_process_over_and_over_is_given_up_alone(tmp_path: Path) -> None:
    app, database = tmp_path / "app.py", tmp_path / "runs.db"
    app.write_text(APP, "utf-8")
    with Harness(f"sqlite:///{database}") as harness:

        @harness.agent
        def dies(run: object, task: int) -> None: ...

        @harness.agent
        def lives(run: object, task: int) -> None: ...

        poisoned = harness.start(dies, 0)
        beside = [harness.start(lives, number) for number in range(3)]
        for _ in range(_MOST):
            code = subprocess.run([sys.executable, str(app), str(database)], timeout=PATIENCE).returncode
            unfinished = [run for run in harness.runs() if run.status not in ("COMPLETED", "FAILED")]
            if code == 0 and not unfinished:
                break
        assert {run.run_id: run.status for run in harness.runs()} == {
            poisoned: "FAILED",
            **dict.fromkeys(beside, "COMPLETED"),
        }
