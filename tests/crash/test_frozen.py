"""A worker frozen at any point, as by SIGSTOP, and thawed when its lease is long over: it must write nothing and
send nothing.

One thing no protocol can prevent: a worker frozen between its last look at the clock and the sending itself sends
when it thaws.  Only a service that honours the idempotency key closes that, so those calls, and no others, may be
seen then.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import RunResult
from jumar.core.states import Status
from jumar.errors import JumarError
from jumar.testing.crash_clock import StoppedClock
from tests.crash.agents import TTL
from tests.crash.worlds import Life, Story, Unbroken, judge

Check = Callable[[Story, "Frozen", Unbroken], None]

AFTER_THE_CLAIM = r"after Commit\(Claim\)"


class Frozen:
    """A life of a story, in a thread of its own, frozen at a point."""

    def __init__(self, story: Story, point: int | str) -> None:
        self.world = Life(story, point, freezes=True)
        self._story = story
        self._harness = story.harness_in(self.world)
        self.result: RunResult[Any] | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        assert self.world.frozen.wait(60), "the run never came to that point"

    def _work(self) -> None:
        try:
            self.result = self._story.to_the_end(self._harness)
        except BaseException as error:
            self.error = error

    def thaw(self) -> set[str]:
        """Let it go on to its end; answers the calls whose bodies had been begun and not ended."""
        begun = [_call(entry) for entry in self.world.trail if entry.startswith("before Invoke(")]
        for entry in self.world.trail:
            if entry.startswith("after Invoke("):
                begun.remove(_call(entry))
        self.world.thaw()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._harness.close()
        return {call_id for call_id in begun if call_id}


def _call(entry: str) -> str:
    """The call in an entry of a world's trail, empty for the agent itself."""
    return entry.partition(" of ")[2].partition(",")[0]


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


def frozen_at_each_point(
    folder: Path,
    clock: StoppedClock,
    waits: bool,
    check: Check,
    *,
    like: str = "",
    chosen: Callable[[list[int]], list[int]] = list,
) -> None:
    """Freeze a run at each of its points in turn, or at those chosen of the ones that are `like` that, let its
    lease run out, and check what comes then.
    """
    (folder / "unbroken").mkdir()
    unbroken = Unbroken(folder / "unbroken", clock, waits=waits)
    for point in chosen(unbroken.points_like(like)):
        (folder / str(point)).mkdir()
        story = Story(folder / str(point), clock, waits=waits)
        frozen = Frozen(story, point)
        clock.move(TTL + 0.001)
        try:
            check(story, frozen, unbroken)
        except BaseException as error:
            error.add_note(f"frozen {frozen.world.trail[point - 1]}")
            frozen.thaw()
            raise


def taken_over(story: Story, frozen: Frozen, unbroken: Unbroken) -> None:
    """The run is taken over and finished by another worker before the frozen one thaws."""
    result = story.live()
    judge(story, result, unbroken)
    rows, run, lines = story.rows(), story.run(), story.witness.lines()
    held = frozen.thaw()
    assert story.rows() == rows
    assert story.run() == run
    late = [line for line in story.witness.lines()[len(lines) :] if line.call_id not in held]
    assert not late, f"the thawed worker still did this: {late}"
    assert ended_well(frozen), f"the thawed worker ended with {frozen.error!r}"


def overtaken(story: Story, frozen: Frozen, unbroken: Unbroken) -> None:
    """Another worker has claimed the run, and is in the middle of it, when the frozen one thaws."""
    run = story.run()
    if run is None or run.status is Status.COMPLETED:
        frozen.thaw()
        return
    story.look_around()
    other = Frozen(story, AFTER_THE_CLAIM)
    rows, run, lines = story.rows(), story.run(), story.witness.lines()
    held = frozen.thaw()
    try:
        assert story.rows() == rows
        assert story.run() == run
        late = [line for line in story.witness.lines()[len(lines) :] if line.call_id not in held]
        assert not late, f"the thawed worker still did this: {late}"
        assert isinstance(frozen.error, JumarError), f"the thawed worker ended with {frozen.error!r}"
    finally:
        other.thaw()
    assert other.error is None, f"the other worker ended with {other.error!r}"
    if not held:
        judge(story, other.result, unbroken)


def left_alone(story: Story, frozen: Frozen, unbroken: Unbroken) -> None:
    """Nobody has taken the run over when the frozen worker thaws: its lease is over all the same."""
    rows, run, lines = story.rows(), story.run(), story.witness.lines()
    held = frozen.thaw()
    if run is not None:
        assert story.run() == run
        assert story.rows() == rows
    late = [line for line in story.witness.lines()[len(lines) :] if line.call_id not in held]
    assert not late or run is None, f"the thawed worker still did this: {late}"
    assert ended_well(frozen), f"the thawed worker ended with {frozen.error!r}"
    judge(story, story.live(), unbroken)


def ended_well(frozen: Frozen) -> bool:
    """A thawed worker finds its run ended, or ends with an ordinary error; no signal leaks out of it."""
    return frozen.error is None or isinstance(frozen.error, JumarError)


HOWS = [taken_over, overtaken, left_alone]


@pytest.mark.parametrize("how", HOWS)
def test_a_worker_frozen_at_a_sample_of_points_writes_and_sends_nothing_when_it_thaws(
    folder: Path, clock: StoppedClock, waits: bool, how: Check
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    frozen_at_each_point(folder, clock, waits, how, chosen=lambda points: chance.sample(points, len(points) // 6))


@pytest.mark.sweep
@pytest.mark.parametrize("how", HOWS)
def test_a_worker_frozen_at_any_point_writes_and_sends_nothing_when_it_thaws(
    folder: Path, clock: StoppedClock, waits: bool, how: Check
) -> None:
    frozen_at_each_point(folder, clock, waits, how)
