"""What the tests of agents share: an interruption on the way, and what is recorded of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from jumar import Harness


class Interruption:
    """Interrupts whoever passes a place, as Ctrl-C does, the first time it is passed.

    The run is then left where it is, for `resume`: the next time the same code goes on.
    """

    def __init__(self) -> None:
        self._passed: set[str] = set()

    def __call__(self, place: str = "") -> None:
        if place not in self._passed:
            self._passed.add(place)
            raise KeyboardInterrupt(place)


def interrupted(harness: Harness, agent: Any, value: Any = "x") -> str:
    """Run an agent that is interrupted on its way; answers the run's id."""
    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, value)
    return harness.find("last")


def ids(harness: Harness, run_id: str = "last") -> list[str]:
    """The ids of a run's calls, in the order in which they were first recorded."""
    return [call.call_id for call in harness.show(run_id).calls]


def states(harness: Harness, run_id: str = "last") -> dict[str, str]:
    """The state of each of a run's calls."""
    return {call.call_id: call.state for call in harness.show(run_id).calls}


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Look again and again until something is so that nothing signals."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.005)
