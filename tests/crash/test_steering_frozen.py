"""A driver frozen at any point, as by SIGSTOP, whose run is cancelled by an operator who waits until that is so: the
thawed driver writes nothing, and sends nothing but what it was sending already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jumar.testing.crash_clock import StoppedClock
from tests.crash.cast import Stage, chance_of_its_own
from tests.crash.steering import Operator, judge_cancelled
from tests.crash.tales import RUN, Tale, Told, judge_tale
from tests.crash.test_frozen import Frozen, ended_well

SOME = 10


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@pytest.fixture(params=["questions", "errands", "loops_one_by_one"])
def stage(folder: Path, clock: StoppedClock, request: pytest.FixtureRequest, waits: bool) -> Stage:
    """Where a tale is told."""
    return Stage(folder, clock, request.param, waits=waits)


def cancelled_while_frozen(stage: Stage, point: int) -> None:
    """Freeze the driver at a point, cancel its run, and let it go on."""
    tale = stage.tale()
    with Told(tale):
        frozen = Frozen(tale, point)
        try:
            done = Operator(tale).acts(lambda harness: harness.cancel(RUN, wait=True))
            before = stands(tale)
        finally:
            held = frozen.thaw()
        assert ended_well(frozen), f"the thawed driver ended with {frozen.error!r}"
        status, rows, lines = before
        if done:
            assert status == "CANCELLED"
            assert stands(tale)[:2] == (status, rows)
        results = tale.live()
        if not done:
            judge_tale(tale, results, stage.whole)
            return
        late = [line for line in tale.witness.lines()[len(lines) :] if line.by == RUN and line.call_id not in held]
        assert not late, f"the thawed driver still did this: {late}"
        if not held:
            judge_cancelled(tale, results, stage.whole)


def stands(tale: Tale) -> tuple[Any, ...]:
    """The run's status and calls as they are on disk, and what the witness has seen."""
    run = tale.reader().run(RUN)
    return (run and run.status.name, tale.rows_of(RUN), tale.witness.lines())


def test_a_driver_frozen_at_a_sample_of_points_does_nothing_more_once_its_run_is_cancelled(stage: Stage) -> None:
    for point in chance_of_its_own().sample(stage.points, k=SOME):
        cancelled_while_frozen(stage, point)


@pytest.mark.sweep
def test_a_driver_frozen_at_any_point_does_nothing_more_once_its_run_is_cancelled(stage: Stage) -> None:
    for point in stage.points:
        cancelled_while_frozen(stage, point)
