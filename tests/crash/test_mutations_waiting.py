"""The sweeps of waiting, steered and loop agents, tested: each way to break one rule of theirs is noticed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar.errors import JumarError, Stopped
from jumar.testing.crash_clock import stopped_clock
from tests.crash import test_interleavings, test_reopening, test_steering
from tests.crash.cast import Stage
from tests.crash.mutations_waiting import WAITING

Check = Callable[[Stage], None]
_SENT = r"after Invoke\("


def swept(like: str) -> Check:
    """The sweep, at the points that are like this.

    Where threads run side by side a point's number is another one in some tellings; its name is the same in all.
    """

    def check(stage: Stage) -> None:
        points = stage.points_like(like)
        for point in points:
            stage.told(point)
        for name in dict.fromkeys(stage.whole.path[point - 1] for point in points):
            stage.told(re.escape(name))

    return check


def ordered(how: Callable[..., object], like: str) -> Check:
    """A run that is ordered to end, at the points that are like this."""

    def check(stage: Stage) -> None:
        for point in stage.points_like(like):
            how(stage, point, "cancel")

    return check


# By the name of the mutation: which tale, and what is done with it.
CHECKS: dict[str, tuple[str, Check]] = {
    "an_approval_covers_an_attempt_after_one_that_may_have_happened": ("approvals", swept(r"before Invoke\(pay")),
    "a_rejected_call_is_sent_all_the_same": ("approvals", swept("before Commit.*pay.3 AWAITING")),
    "a_name_is_not_taken_when_its_call_is_sent": ("names", swept(_SENT + "(title|bill)")),
    "a_name_is_given_up_when_nobody_knows": ("names", swept(_SENT + "title")),
    "an_operator_marks_nothing": ("errands", ordered(test_steering.ordered_after_a_death, _SENT + "reserve")),
    "a_run_waits_without_looking_for_news": (
        "errands",
        lambda stage: test_interleavings.answered_at_every_point(stage, like="before Commit.*WAITING"),
    ),
    "an_order_is_seen_and_the_run_goes_on": ("errands", ordered(test_steering.ordered_at, "before Commit.*STARTED")),
    "a_sleep_begins_anew_when_it_is_taken_up": ("asks", swept("sleep.1 AWAITING")),
    "a_failed_run_is_reopened_although_something_was_done_about_it": (
        "apologises",
        lambda stage: test_reopening.refused_at(stage, None),
    ),
    "a_decision_plans_its_calls_in_an_advance_of_their_own": ("loops", swept("after Commit.*decide.1 SUCCEEDED")),
    "a_claim_does_not_count_the_reads_of_an_open_decision": ("loops", swept("after Invoke.*look")),
}


def told(folder: Path, name: str) -> None:
    """Carry the check for a mutation out."""
    cast, check = CHECKS[name]
    with stopped_clock() as clock:
        check(Stage(folder, clock, cast, waits=False))


def test_every_mutation_has_its_check() -> None:
    assert CHECKS.keys() == WAITING.keys()


@pytest.mark.parametrize("name", CHECKS)
def test_the_protocol_as_it_is_passes_the_check(folder: Path, name: str) -> None:
    told(folder, name)


@pytest.mark.parametrize("name", CHECKS)
def test_the_protocol_broken_in_one_spot_is_caught(folder: Path, name: str) -> None:
    caught: BaseException | None = None
    with WAITING[name]() as spot, tempfile.TemporaryDirectory(dir=folder) as inside:
        try:
            told(Path(inside), name)
        except (AssertionError, JumarError, Stopped) as error:
            caught = error
    assert spot.hits > 0, "the mutation broke nothing that the check comes by"
    assert caught is not None, "the check did not notice"
    print(f"caught by {type(caught).__name__}: {caught}")
