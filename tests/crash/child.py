"""One life of the agent that is crashed at every point, in a process of its own that really dies."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from jumar import Harness, RunResult
from jumar.core.requests import Request
from jumar.errors import RunEnded, RunNotFound
from jumar.testing.crash import World, inhabit
from jumar.testing.witness import Witness
from tests.concurrency.workers import Line
from tests.crash.agents import opened
from tests.crash.worlds import AGENT, RUN, TASK, answer_wire

TTL = 0.4
STALL = 0.5
SETTLE = 0.1


class Announced(World):
    """A world that tells each point as it is passed, and stands still at one of them, waiting to be killed."""

    def __init__(self, line: Line, at: int | None) -> None:
        super().__init__(at, freezes=True)
        self._line = line

    def before(self, request: Request[Any]) -> None:
        """Tell."""
        self._line.tell(".")
        super().before(request)

    def after(self, request: Request[Any], answer: Any) -> None:
        """Tell."""
        self._line.tell(".")
        super().after(request, answer)

    def _reached(self) -> None:
        super()._reached()
        self._line.tell("here")


def live(line: Line, folder: str, waits: bool, at: int | None) -> str:
    """Start the run or take it over, and drive it to its end."""
    harness = opened(Path(folder), waits=waits, ttl=TTL, stall=STALL, settle=SETTLE)
    inhabit(harness, Announced(line, at))
    with harness:
        return _to_the_end(harness, Witness(Path(folder) / "witness")).status


def _to_the_end(harness: Harness, witness: Witness) -> RunResult[Any]:
    try:
        result = harness.resume(RUN)
    except RunNotFound:
        result = harness.run(AGENT, TASK, run_id=RUN)
    except RunEnded:
        return RunResult(RUN, "COMPLETED")
    while result.status == "WAITING":
        if result.wake_at is not None:
            time.sleep(max(0.0, result.wake_at / 1000 - time.time()))  # it waits for nothing but time
        else:
            answer_wire(harness, result, witness)
        result = harness.resume(RUN)
    return result
