"""Two at work on one store, in every order, and nobody dies: a driver, and an operator or another driver who acts
between two of its steps.  No answer is lost, nothing spins, and each order ends in a legal state."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from jumar.core.states import RequestKind
from jumar.testing.crash_clock import StoppedClock
from tests.crash.cast import Stage, chance_of_its_own
from tests.crash.steering import Operator, Steered, judge_cancelled
from tests.crash.tales import OTHER, RUN, Tale, Told, counted, judge_laws, judge_tale, plain

PAIRS = 12  # of points, in a short run


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


def steered(stage: Stage, deeds: dict[int, str]) -> tuple[Tale, Any]:
    """The tale in which these things are done at these points of its only life."""
    tale = stage.tale()
    operator = Operator(tale)
    with Told(tale):
        results = tale.live(world=Steered(tale, {point: operator.deed(what) for point, what in deeds.items()}))
        nothing_spun(tale, stage, len(deeds))
        if "cancel" in deeds.values():
            judge_cancelled(tale, results, stage.whole)
        else:
            judge_tale(tale, results, stage.whole)
    return tale, results


def nothing_spun(tale: Tale, stage: Stage, deeds: int) -> None:
    """Each deed costs a driver no more than going through its agent once more."""
    assert tale.points <= (1 + deeds) * stage.whole.points, f"{tale.points} requests, and not {stage.whole.points}"


def answered_at_every_point(stage: Stage, like: str = "") -> None:
    """Whatever is asked is answered at a point, in turn at each that is like this."""
    for point in stage.points_like(like):
        steered(stage, {point: "answer"})


@pytest.mark.parametrize("name", ["questions", "asks", "loops"])
def test_an_answer_that_comes_at_any_moment_is_not_lost(
    folder: Path, clock: StoppedClock, waits: bool, name: str
) -> None:
    stage = Stage(folder, clock, name, waits=waits)
    answered_at_every_point(stage, like="" if name == "questions" else "Commit.*(AWAITING|ask about|WAITING)")


ORDERS = [("answer", "cancel"), ("pause", "answer"), ("pause", "cancel"), ("answer", "pause"), ("cancel", "pause")]


@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_two_things_done_at_any_two_moments_come_to_something_legal(
    folder: Path, clock: StoppedClock, waits: bool, first: str, second: str
) -> None:
    stage = Stage(folder, clock, "questions", waits=waits)
    for one, other in chance_of_its_own().sample(list(_pairs(stage.points)), k=PAIRS):
        steered(stage, {one: first, other: second})


@pytest.mark.sweep
@pytest.mark.parametrize(("first", "second"), ORDERS)
def test_two_things_done_at_half_of_all_two_moments_come_to_something_legal(
    folder: Path, clock: StoppedClock, first: str, second: str
) -> None:
    stage = Stage(folder, clock, "questions", waits=False)
    pairs = list(_pairs(stage.points[::2]))  # what is after one request is before the next
    for one, other in chance_of_its_own().sample(pairs, k=len(pairs) // 2):
        steered(stage, {one: first, other: second})


def _pairs(points: range) -> Iterable[tuple[int, int]]:
    return itertools.combinations(points, 2)


def test_of_a_yes_and_a_no_the_first_counts(folder: Path, clock: StoppedClock, waits: bool) -> None:
    stage = Stage(folder, clock, "questions", waits=waits)
    asked = stage.points_like("after Commit.*pay.1 AWAITING")[0]
    for one in range(asked, asked + 4):
        for other in range(one + 1, asked + 8):
            for verdicts in (("approve", "reject"), ("reject", "approve")):
                tale = stage.tale()
                operator = Operator(tale)
                with Told(tale):
                    deeds = {one: operator.deed(verdicts[0]), other: operator.deed(verdicts[1])}
                    results: Any = tale.live(world=Steered(tale, deeds))
                    judge_laws(tale)
                    given = [each for each in tale.reader().requests(1) if each.kind is RequestKind.APPROVAL]
                    assert given[0].verdict is not None and given[0].verdict.label == verdicts[0]
                    sent = counted(tale.witness.lines()).get("pay rent", 0)
                    assert sent == (verdicts[0] == "approve") == (plain(results[RUN].output)[0] is not None)


def test_of_two_runs_that_want_the_same_action_with_other_arguments_one_does_it_in_whatever_order_they_come(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    stage = Stage(folder, clock, "rivals", waits=waits)
    for point in stage.points:
        results = _other_works_at(stage, point)
        outputs = [plain(results[run_id].output)[0] for run_id in (RUN, OTHER)]
        assert sum(output == "a conflict" for output in outputs) == 1
        assert outputs[0] in ("a conflict", {"what": "T", "cents": 1})
        assert outputs[1] in ("a conflict", {"what": "T", "cents": 2})


def test_two_runs_that_want_the_same_action_do_it_once_at_a_sample_of_points(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    stage = Stage(folder, clock, "errands", waits=waits)
    for point in chance_of_its_own().sample(stage.points, k=PAIRS):
        _the_same_for_both(stage, _other_works_at(stage, point))


@pytest.mark.sweep
def test_two_runs_that_want_the_same_action_do_it_once_in_whatever_order_they_come(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    stage = Stage(folder, clock, "errands", waits=waits)
    for point in stage.points:
        _the_same_for_both(stage, _other_works_at(stage, point))


def _other_works_at(stage: Stage, point: int) -> Any:
    """The other run is started, or taken up, by a worker of its own at a point, and goes as far as it can."""
    tale = stage.tale()
    with Told(tale):
        results = tale.live(world=Steered(tale, {point: Operator(tale, OTHER).works}))
        judge_laws(tale)
        assert counted(tale.witness.lines()) == stage.whole.effects
    return results


def _the_same_for_both(stage: Stage, results: Any) -> None:
    assert {run_id: plain(result.output) for run_id, result in results.items()} == stage.whole.outputs


@pytest.mark.parametrize("name", ["questions", "fails"])
def test_a_run_taken_up_by_another_worker_the_moment_it_is_left_is_answered_as_it_then_stands(
    folder: Path, clock: StoppedClock, waits: bool, name: str
) -> None:
    stage = Stage(folder, clock, name, waits=waits)
    for point in stage.points_like("FAILED|WAITING|after Load"):
        tale = stage.tale()
        with Told(tale):
            results = tale.live(world=Steered(tale, {point: Operator(tale).works}))
            judge_tale(tale, results, stage.whole)
