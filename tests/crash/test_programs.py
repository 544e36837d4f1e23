"""Agents drawn at random, killed at random, over and over: each ends as it would have without a death."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from jumar.testing import StoppedClock
from tests.crash.programs import drawn, maker
from tests.crash.worlds import Story, Unbroken, judge


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


def lived_and_judged(folder: Path, clock: StoppedClock, seed: int, *, waits: bool, deaths: int) -> None:
    """Draw an agent, let its run die so often, and judge how it ends."""
    chance = random.Random(seed)
    program = drawn(chance)
    make = maker(program)
    (folder / "unbroken").mkdir(parents=True)
    unbroken = Unbroken(folder / "unbroken", clock, waits=waits, make=make)
    (folder / "broken").mkdir()
    story = Story(folder / "broken", clock, waits=waits, make=make)
    result = None
    while result is None:
        # Later lives have more to replay, and less left to do.
        point = chance.randint(1, unbroken.points)
        result = story.live(point if len(story.trail) < deaths else None)
    try:
        judge(story, result, unbroken)
    except BaseException as error:
        error.add_note(f"seed {seed}, its lives ended {story.trail}, the program was {program}")
        raise


def test_a_sample_of_agents_drawn_at_random_end_as_if_they_had_not_died(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    first = random.randrange(2**32)
    print(f"seed {first}")
    for number in range(12):
        lived_and_judged(folder / str(number), clock, first + number, waits=waits, deaths=4)


@pytest.mark.sweep
def test_many_agents_drawn_at_random_end_as_if_they_had_not_died(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    first = random.randrange(2**32)
    print(f"seed {first}")
    for number in range(200):
        lived_and_judged(folder / str(number), clock, first + number, waits=waits, deaths=8)
