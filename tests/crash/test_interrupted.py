"""A run that is interrupted, not killed: its code unwinds, and may still record and release.  Wherever that
happens, the run goes on later as if nothing had happened, and waits for nothing that never comes."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness
from jumar.core.requests import Request, Sleep
from jumar.testing.crash_clock import StoppedClock
from tests.crash.agents import TTL
from tests.crash.worlds import AGENT, RUN, TASK, Life, Story, Unbroken, judge

Interrupt = Callable[["Interrupted"], None]


class Interrupted(Life):
    """A life that is interrupted at a point, once, and goes on unwinding."""

    def __init__(self, story: Story, point: int, interrupt: Interrupt) -> None:
        super().__init__(story, None)
        self.point = point
        self.task: asyncio.Task[Any] | None = None
        self._interrupt = interrupt

    def before(self, request: Request[Any]) -> None:
        """Interrupt before a request is carried out."""
        super().before(request)
        self._look()

    def after(self, request: Request[Any], answer: Any) -> None:
        """Interrupt after a request was carried out."""
        super().after(request, answer)
        self._look()

    def _look(self) -> None:
        if self.points == self.point:
            self._interrupt(self)


class Patient(Life):
    """A life in which nobody waits for ever."""

    def before(self, request: Request[Any]) -> None:
        """Refuse to wait for what does not come."""
        assert not (type(request) is Sleep and request.seconds >= 3600), "the run waits to be given up again"
        super().before(request)


def with_a_signal(life: Interrupted) -> None:
    """Ctrl-C, as the interpreter raises it."""
    raise KeyboardInterrupt


def by_cancelling(life: Interrupted) -> None:
    """The task that drives the run is cancelled, as servers do when they shut down."""
    assert life.task is not None
    asyncio.get_running_loop().call_soon(life.task.cancel)


def run_once(harness: Harness, life: Interrupted) -> None:
    """Run in an event loop of the test's own, so that the run's task is known."""

    async def main() -> None:
        life.task = asyncio.current_task()
        await harness.arun(AGENT, TASK, run_id=RUN)

    asyncio.run(main())


def interrupted_everywhere(
    folder: Path, clock: StoppedClock, interrupt: Interrupt, *, waits: bool, chosen: Callable[[list[int]], list[int]]
) -> None:
    """Interrupt a run at the chosen points, let it be resumed, and judge it."""
    (folder / "unbroken").mkdir()
    unbroken = Unbroken(folder / "unbroken", clock, waits=waits)
    for point in chosen(list(range(1, unbroken.points + 1))):
        (folder / str(point)).mkdir()
        story = Story(folder / str(point), clock, waits=waits)
        life = Interrupted(story, point, interrupt)
        harness = story.harness_in(life)
        with harness, pytest.raises((KeyboardInterrupt, asyncio.CancelledError)):
            run_once(harness, life) if waits else harness.run(AGENT, TASK, run_id=RUN)
            raise KeyboardInterrupt  # the interruption came too late for anything to notice
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("jumar-branch")]
        clock.move(TTL + 0.001)
        try:
            judge(story, story.live(world=Patient(story, None)), unbroken)
        except BaseException as error:
            error.add_note(f"interrupted {life.trail[point - 1]}, and then: {life.trail[point:]}")
            raise


WAYS = [(with_a_signal, False), (with_a_signal, True), (by_cancelling, True)]
NAMES = ["plain-signal", "asyncio-signal", "asyncio-cancelled"]


@pytest.mark.parametrize(("interrupt", "waits"), WAYS, ids=NAMES)
def test_a_run_interrupted_at_a_sample_of_points_goes_on_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, interrupt: Interrupt, waits: bool
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    interrupted_everywhere(
        folder, clock, interrupt, waits=waits, chosen=lambda points: chance.sample(points, len(points) // 4)
    )


@pytest.mark.sweep
@pytest.mark.parametrize(("interrupt", "waits"), WAYS, ids=NAMES)
def test_a_run_interrupted_at_any_point_goes_on_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, interrupt: Interrupt, waits: bool
) -> None:
    interrupted_everywhere(folder, clock, interrupt, waits=waits, chosen=list)
