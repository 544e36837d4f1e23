"""The sweep: a run that is killed at every point of its life, and again at every point of its recovery, ends as if
nothing had happened, and the outside world has seen each effect once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from jumar.testing.crash_clock import StoppedClock
from tests.crash.worlds import Story, Unbroken, judge

CHUNKS = 12  # of the full sweep, so that each test stays short


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@pytest.fixture
def unbroken(folder: Path, clock: StoppedClock, waits: bool) -> Unbroken:
    """The run that never dies."""
    (folder / "unbroken").mkdir()
    return Unbroken(folder / "unbroken", clock, waits=waits)


def died_at(folder: Path, clock: StoppedClock, waits: bool, point: int) -> Story:
    """A story whose first life ended at a point."""
    folder.mkdir()
    story = Story(folder, clock, waits=waits)
    assert story.live(point) is None, f"the run has fewer than {point} points"
    return story


def test_a_run_killed_at_any_point_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, unbroken: Unbroken, waits: bool
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    # What is after one request is before the next; the sweep's lives end at every single point.
    for point in range(random.Random(seed).choice((1, 2)), unbroken.points + 1, 2):
        story = died_at(folder / str(point), clock, waits, point)
        with told(story):
            judge(story, story.live(), unbroken)


def test_a_recovery_killed_at_a_sample_of_points_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, unbroken: Unbroken, waits: bool
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(8):
        story = died_at(folder / str(number), clock, waits, chance.randint(1, unbroken.points))
        points = recovered(story, unbroken)
        for point in chance.sample(range(1, points + 1), k=min(3, points)):
            dies_again(story, point, unbroken)


@pytest.mark.sweep
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_recovery_killed_at_any_point_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, unbroken: Unbroken, waits: bool, chunk: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    firsts = range(1 + chunk, unbroken.points + 1, CHUNKS)
    for first in firsts[chance.choice((0, 1)) :: 2] if waits else firsts:  # one flow serves both drivers
        story = died_at(folder / str(first), clock, waits, first)
        # What is after one request is before the next, so every second point is every moment, or nearly so.
        for point in range(chance.choice((1, 2)), recovered(story, unbroken) + 1, 2):
            dies_again(story, point, unbroken)


def test_a_run_that_dies_again_and_again_still_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, unbroken: Unbroken, waits: bool
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(5):
        (folder / str(number)).mkdir()
        story = Story(folder / str(number), clock, waits=waits)
        result = None
        while result is None:
            # Most lives are short, so that a run has many of them; none so short that it could get nowhere for ever.
            result = story.live(chance.randint(5, 30) if len(story.trail) < 40 else None)
        with told(story):
            judge(story, result, unbroken)


def recovered(story: Story, unbroken: Unbroken) -> int:
    """How many points the recovery of a story has, judged on a copy of it that goes on to the end."""
    ending = story.copy_to(story.folder.with_name(f"{story.folder.name}-end"))
    with told(ending):
        judge(ending, ending.live(), unbroken)
    return ending.points


def dies_again(story: Story, point: int, unbroken: Unbroken) -> None:
    """A copy of a story dies again at a point of its second life, and is judged at the end of its third."""
    again = story.copy_to(story.folder.with_name(f"{story.folder.name}-{point}"))
    with told(again):
        # A branch may have been a point further when the recovery was measured; then this life simply reaches the end.
        judge(again, again.live(point) or again.live(), unbroken)
    again.remove()


class told:
    """Where the story of a failure went."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            error.add_note(f"its lives ended: {self._story.trail}")
