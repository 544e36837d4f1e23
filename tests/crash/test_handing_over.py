"""A worker that is told to let go at every point of a run: whoever goes on at once ends it as if nobody had let go.

Nothing is killed here, so nothing may be left in doubt either: no call is repeated, none is left open, and none is
counted as a crash.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness, RunResult
from jumar.core.requests import Request
from jumar.core.states import CallState
from jumar.engine.places import Place
from jumar.errors import RunExists
from jumar.testing.crash_clock import StoppedClock
from tests.crash import agents
from tests.crash.test_writes import Whole, Written
from tests.crash.worlds import AGENT, RUN, TASK, Life, Story, Unbroken, answer_wire, judge

_MANY = 10**6  # crashes after which nobody gives up here
_LIVES = 400


class Leaving(Life):
    """A life at a point of which the worker is told to let go of the run."""

    def __init__(self, story: Story, point: int | None) -> None:
        super().__init__(story, None)
        self.point = point
        self.place: Place | None = None
        self.was_told = False

    def before(self, request: Request[Any]) -> None:
        """Go on, and perhaps be told."""
        super().before(request)
        self._tell()

    def after(self, request: Request[Any], answer: Any) -> None:
        """Go on, and perhaps be told."""
        super().after(request, answer)
        self._tell()

    def _tell(self) -> None:
        if self.points == self.point and self.place is not None:
            self.was_told = True
            self.place.leave()


def works(story: Story, point: int | None) -> tuple[RunResult[Any] | None, bool]:
    """A worker's life: the run is started where it is not there, and driven until it has ended, or the worker, told at
    this point, has let go.  Answers the result, None where somebody else is to go on, and whether it was told.
    """
    story.look_around()
    world = Leaving(story, point)
    harness = story.harness_in(world)
    try:
        try:
            harness.start(AGENT, TASK, run_id=RUN)
        except RunExists:
            pass
        while True:
            result = _driven(harness, world)
            if result.status == "COMPLETED":
                return result, world.was_told
            if result.status == "QUEUED":
                assert world.was_told, "it let go and was not told to"
                return None, True
            assert result.status == "WAITING", f"the run is {result.status}: {result.error_type}"
            if result.wake_at is not None:
                story.clock.move_to_wall(result.wake_at)
            else:
                answer_wire(harness, result, story.witness)
    finally:
        harness.close()
        story.trail.append(f"told at {point}")


def _driven(harness: Harness, world: Leaving) -> RunResult[Any]:
    operations = harness._open()
    world.place = Place(operations.run_record(RUN))
    return operations.worked(harness.agents[AGENT], world.place, _MANY)


def let_go_at(story: Story, *points: int) -> tuple[RunResult[Any], int]:
    """The run, handed over at each of these points of a life of its own; at the end somebody finishes it.  Answers the
    result, and how often the run was handed over.
    """
    for times, point in enumerate(points):
        result, was_told = works(story, point)
        if result is not None:
            return result, times
        assert was_told
        run, open_calls = story.run(), [row for row in story.rows().values() if row.state is CallState.STARTED]
        assert run is not None and (run.status.name, run.owner, run.crashes) == ("QUEUED", None, 0)
        assert not open_calls, "a call was left on its way"
    for _ in range(_LIVES):
        result, _ = works(story, None)
        if result is not None:
            return result, len(points)
    raise AssertionError("nobody finished the run")


Begin = Callable[[str], Story]
Judge = Callable[[Story, Any], None]


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


class Calls:
    """Runs of the agent whose tools read and act outside."""

    def __init__(self, folder: Path, clock: StoppedClock, waits: bool) -> None:
        self._folder, self._clock, self._waits = folder, clock, waits
        (folder / "unbroken").mkdir()
        self._unbroken = Unbroken(folder / "unbroken", clock, waits=waits, make=agents.opened)
        self.points = self._unbroken.points

    def told(self, *points: int) -> int:
        """The run, handed over at these points, and judged; answers how often that was."""
        folder = self._folder / "-".join(map(str, points))
        folder.mkdir()
        story = Story(folder, self._clock, waits=self._waits, make=agents.opened)
        result, times = let_go_at(story, *points)
        judge(story, result, self._unbroken)
        story.remove()
        return times


class Writes:
    """Runs of the agent whose tools write files."""

    def __init__(self, folder: Path, clock: StoppedClock, waits: bool) -> None:
        self._folder, self._clock, self._waits = folder, clock, waits
        (folder / "unbroken").mkdir()
        self._unbroken = Whole(folder / "unbroken", clock, waits=waits)
        self.points = self._unbroken.points

    def told(self, *points: int) -> int:
        """The run, handed over at these points, and judged, its files too; answers how often that was."""
        folder = self._folder / "-".join(map(str, points))
        folder.mkdir()
        story = Written(folder, self._clock, waits=self._waits)
        result, times = let_go_at(story, *points)
        self._unbroken.judge(story, result)
        story.remove()
        return times


@pytest.fixture(params=[Calls, Writes], ids=["calls", "writes"])
def runs(request: pytest.FixtureRequest, folder: Path, clock: StoppedClock, waits: bool) -> Any:
    """What is told again and again."""
    return request.param(folder, clock, waits)


def chance_of_its_own() -> random.Random:
    """Chance that can be repeated."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


def test_a_run_that_is_handed_over_at_a_sample_of_points_ends_as_if_nobody_had_let_go(runs: Any) -> None:
    chance = chance_of_its_own()
    assert sum(runs.told(point) for point in chance.sample(range(10, runs.points // 2), k=3)) >= 2


def test_a_run_that_is_handed_over_again_and_again_ends_as_if_nobody_had_let_go(runs: Any) -> None:
    chance = chance_of_its_own()
    assert runs.told(*(chance.randint(10, 40) for _ in range(6))) >= 3


@pytest.mark.sweep
def test_a_run_that_is_handed_over_at_any_point_ends_as_if_nobody_had_let_go(runs: Any) -> None:
    every = runs.points // 30
    points = range(chance_of_its_own().randint(1, every), runs.points + 1, every)
    assert sum(map(runs.told, points)) > len(points) // 2
