"""The sweeps on PostgreSQL: a sample of them, as each story costs connections and round trips.  Leases run out on the
server's clock there, which is stopped in the schema of each test and moves with the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar.testing.crash_clock import StoppedClock
from tests.crash.cast import CAST, Stage, chance_of_its_own
from tests.crash.places import all_at
from tests.crash.test_writes import Whole, Written
from tests.crash.worlds import Story, Unbroken, judge

SOME, MANY = 5, 40  # stories of a kind of agent
FEW = 3
SWEPT = [name for name in CAST if name != "rivals"]  # of which one wins and one loses, as it comes


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@pytest.fixture(autouse=True)
def on_the_server(postgres_address: str, clock: StoppedClock) -> Iterator[None]:
    """All runs are kept on the server, whose clock stands still."""
    with all_at(postgres_address, clock):
        yield


def lives_and_dies(folder: Path, clock: StoppedClock, waits: bool, stories: int, lives: int) -> None:
    """So many stories of a run that dies so often, at points drawn from the whole run, judged."""
    chance = chance_of_its_own()
    (folder / "unbroken").mkdir()
    unbroken = Unbroken(folder / "unbroken", clock, waits=waits)
    for number in range(stories):
        (folder / str(number)).mkdir()
        story = Story(folder / str(number), clock, waits=waits)
        points = [chance.randint(1, unbroken.points) for _ in range(chance.randint(1, lives))]
        try:
            # A life that takes over has fewer points, and may reach the end.
            judge(
                story,
                next((result for point in points if (result := story.live(point))), None) or story.live(),
                unbroken,
            )
        except AssertionError as error:
            error.add_note(f"its lives ended: {story.trail}")
            raise


def test_a_run_killed_at_a_sample_of_points_and_again_in_its_recovery_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    lives_and_dies(folder, clock, waits, SOME, lives=2)


@pytest.mark.sweep
def test_a_run_killed_at_many_points_again_and_again_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    lives_and_dies(folder, clock, waits, MANY, lives=4)


@pytest.mark.sweep
@pytest.mark.parametrize("name", SWEPT)
def test_a_run_that_waits_killed_at_a_sample_of_points_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, waits: bool, name: str
) -> None:
    stage, chance = Stage(folder, clock, name, waits=waits), chance_of_its_own()
    for _ in range(FEW):
        stage.told(chance.choice(stage.points), chance.choice(stage.points))


@pytest.mark.sweep
def test_a_run_that_writes_killed_at_a_sample_of_points_ends_with_the_same_files(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    chance = chance_of_its_own()
    (folder / "whole").mkdir()
    whole = Whole(folder / "whole", clock, waits=waits)
    for number in range(2 * SOME):
        (folder / str(number)).mkdir()
        story = Written(folder / str(number), clock, waits=waits)
        whole.judge(story, story.live(chance.randint(1, whole.points)) or story.live())
