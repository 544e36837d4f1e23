"""A run that is ordered to pause, or is cancelled, at every point of its life, by an operator who may die as well: it
obeys, what it did stays done, nothing is done twice, and nothing is sent afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.testing.crash_clock import StoppedClock
from tests.crash.cast import Stage, chance_of_its_own
from tests.crash.steering import Operator, Steered, judge_cancelled
from tests.crash.tales import RUN, Tale, Told, judge_tale

SOME = 4  # points of each tale in a short run
STEERED = ("errands", "approvals", "names", "fails", "loops", "loops_one_by_one")


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@pytest.fixture(params=STEERED)
def stage(folder: Path, clock: StoppedClock, request: pytest.FixtureRequest, waits: bool) -> Stage:
    """Where a tale is told."""
    return Stage(folder, clock, request.param, waits=waits)


def judged(tale: Tale, results: object, stage: Stage, control: str) -> None:
    """A paused run was resumed by its id, and ended as ever; a cancelled one may have ended early."""
    if control == "pause":
        judge_tale(tale, results, stage.whole)
    else:
        judge_cancelled(tale, results, stage.whole)


def obeyed(tale: Tale, control: str) -> None:
    """An order that is on record was obeyed, or came when the agent had ended already."""
    told = tale.chronicle.told
    order = f"ordered to {control}"
    if order not in told:
        return
    later = told[told.index(order) :]
    assert any(word in later for word in ("PAUSED", "CANCELLED", "COMPLETED")), f"nobody obeyed: {later}"


def ordered_at(stage: Stage, point: int, control: str, dies_at: int | None = None) -> None:
    """The order comes at a point of a life that goes on; the operator may die at a point of his own."""
    tale = stage.tale()
    operator = Operator(tale)
    with Told(tale):
        results = tale.live(world=Steered(tale, {point: lambda: operator.orders(control, dies_at)}))
        obeyed(tale, control)
        judged(tale, results, stage, control)


def ordered_after_a_death(stage: Stage, point: int, control: str, dies_at: int | None = None) -> int:
    """The driver dies at a point, and the operator finds nobody who drives the run; he may die too, and then gives the
    order once more.  Answers how many points he has.
    """
    tale = stage.tale()
    operator = Operator(tale)
    with Told(tale):
        results = tale.live(point)
        if results is None:
            done = operator.orders(control, dies_at)
            points = operator.points
            if dies_at is not None:
                tale.clock.move(31)
                tale.look_around()
                done = operator.orders(control) or done
            run = tale.reader().run(RUN)
            if done and run is not None:
                expected = {"pause": ("PAUSED", "CANCELLED"), "cancel": ("CANCELLED",)}[control]
                assert run.status.name in expected, f"the run is {run.status.name} after the order"
            results = tale.live()
        else:
            points = 0
        judged(tale, results, stage, control)
    return points


def ordered_and_dies(stage: Stage, point: int, later: int, control: str) -> None:
    """The order comes at a point, and the driver dies a few points later, whether it has obeyed or not."""
    tale = stage.tale()
    operator = Operator(tale)
    with Told(tale):
        world = Steered(tale, {point: lambda: operator.orders(control)}, at=point + later)
        results = tale.live(world=world) or tale.live()
        if control == "cancel":
            obeyed(tale, control)
        judged(tale, results, stage, control)


@pytest.mark.parametrize("control", ["pause", "cancel"])
def test_an_order_at_a_sample_of_points_is_obeyed(stage: Stage, control: str) -> None:
    chance = chance_of_its_own()
    for point in chance.sample(stage.points, k=SOME):
        ordered_at(stage, point, control)
    for point in chance.sample(stage.points, k=SOME // 2):
        ordered_after_a_death(stage, point, control)
        ordered_and_dies(stage, point, chance.randint(0, 6), control)


@pytest.mark.sweep
@pytest.mark.parametrize("control", ["pause", "cancel"])
def test_an_order_at_any_point_is_obeyed(stage: Stage, control: str) -> None:
    for point in stage.points[::2]:  # what is after one request is before the next
        ordered_at(stage, point, control)


@pytest.mark.sweep
@pytest.mark.parametrize("control", ["pause", "cancel"])
def test_an_order_at_any_point_at_which_the_driver_has_died_is_carried_out_by_the_operator(
    stage: Stage, control: str
) -> None:
    for point in stage.points[::4]:
        ordered_after_a_death(stage, point, control)


@pytest.mark.sweep
@pytest.mark.parametrize("control", ["pause", "cancel"])
def test_a_driver_that_dies_soon_after_an_order_leaves_it_to_the_next_one(stage: Stage, control: str) -> None:
    chance = chance_of_its_own()
    for point in stage.points[::4]:
        ordered_and_dies(stage, point, chance.randint(0, 8), control)


@pytest.mark.parametrize("control", ["pause", "cancel"])
def test_an_operator_who_dies_leaves_a_run_that_can_be_ordered_again(
    folder: Path, clock: StoppedClock, waits: bool, control: str
) -> None:
    stage = Stage(folder, clock, "questions", waits=waits)
    operator_dies(stage, chance_of_its_own().choice(stage.points[4:]), control)


@pytest.mark.sweep
@pytest.mark.parametrize("control", ["pause", "cancel"])
def test_an_operator_who_dies_at_any_moment_leaves_a_run_that_can_be_ordered_again(stage: Stage, control: str) -> None:
    chance = chance_of_its_own()
    for _ in range(3):
        operator_dies(stage, chance.choice(stage.points[4:]), control)


def operator_dies(stage: Stage, point: int, control: str) -> None:
    """The operator dies at each of his own points, where the driver is at this one of its, or has died there."""
    points = ordered_after_a_death(stage, point, control)
    for dies_at in range(1, points + 1):
        ordered_after_a_death(stage, point, control, dies_at)
    for dies_at in range(1, 11, 3):
        ordered_at(stage, point, control, dies_at)
