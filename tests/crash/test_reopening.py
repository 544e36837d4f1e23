"""A run that has failed is taken up again where it failed, whatever died meanwhile; and is refused where the code that
saw the failure has done something about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.errors import CannotReopen
from jumar.testing.crash_clock import StoppedClock
from tests.crash.cast import Stage
from tests.crash.tales import RUN, Told, dies, judge_tale


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


def refused_at(stage: Stage, point: int | None) -> None:
    """The tale with a death at a point; the run then fails, and cannot be reopened although the cause is mended."""
    tale = stage.tale()
    with Told(tale):
        judge_tale(tale, dies(tale, point), stage.whole)
        tale.witness.note("mended", "")
        with tale.make(tale.folder, waits=tale.waits) as harness:
            with pytest.raises(CannotReopen, match=r"order\.1"):
                harness.resume(RUN)
            assert harness.show(RUN).run.status == "FAILED"
        judge_tale(tale, dies(tale), stage.whole)


def test_a_failure_that_was_answered_by_an_effect_is_never_made_again(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    stage = Stage(folder, clock, "apologises", waits=waits)
    for point in stage.points:
        refused_at(stage, point)


@pytest.mark.parametrize("name", ["fails", "fails_in_a_map"])
def test_a_reopened_run_killed_at_any_point_of_its_reopening_ends_as_if_it_had_never_failed(
    folder: Path, clock: StoppedClock, waits: bool, name: str
) -> None:
    stage = Stage(folder, clock, name, waits=waits)
    failed = stage.points_like(r"Advance: FAILED\)")[0]
    for point in range(failed - 3, len(stage.points) + 1):
        stage.told(point)
