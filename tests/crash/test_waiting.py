"""The sweep over agents that wait, are asked about, share the names of actions, fail and are taken up again, and over
loop agents: killed at every point, and again in their recovery, they end as if nothing had happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.testing.crash_clock import StoppedClock
from tests.crash.cast import CAST, Stage, chance_of_its_own

SOME = 8  # points, and pairs of points, of each tale in a short run
PAIRS = 100  # about as many in a long one
SWEPT = [name for name in CAST if name != "rivals"]  # of which one wins and one loses, as it comes


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@pytest.fixture(params=SWEPT)
def stage(folder: Path, clock: StoppedClock, request: pytest.FixtureRequest, waits: bool) -> Stage:
    """Where a tale is told."""
    return Stage(folder, clock, request.param, waits=waits)


def test_a_run_killed_at_a_sample_of_points_and_again_in_its_recovery_ends_as_if_nothing_had_happened(
    stage: Stage,
) -> None:
    chance = chance_of_its_own()
    for point in chance.sample(stage.points, k=SOME):
        stage.told(point)
    for _ in range(SOME // 2):
        stage.told(chance.choice(stage.points), chance.choice(stage.points), chance.choice(stage.points))


@pytest.mark.sweep
def test_a_run_killed_at_any_point_ends_as_if_nothing_had_happened(stage: Stage) -> None:
    for point in stage.points[chance_of_its_own().choice((0, 1)) :: 2]:  # what is after one request is before the next
        stage.told(point)


@pytest.mark.sweep
def test_a_recovery_killed_at_many_points_ends_as_if_nothing_had_happened(stage: Stage) -> None:
    for first, second in stage.pairs(chance_of_its_own(), PAIRS):
        stage.told(first, second)
