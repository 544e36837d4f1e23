"""Where the holder of an action's name stands, whose yes covers a retry, and which call a person means."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from jumar.core.approvals import earlier_yes, needs_a_yes, newest_yes
from jumar.core.identities import Standing, standing
from jumar.core.naming import meant
from jumar.core.records import CallRecord, Failure, RequestRecord
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, RequestKind, Verdict
from jumar.core.uncertain import over_at
from jumar.errors import RequestNotFound

CALL = CallRecord(
    seq=1,
    call_id="pay.1",
    branch="",
    step="",
    ordinal=1,
    kind=CallKind.TOOL,
    tool="pay",
    effect=Effect.EXTERNAL,
    state=CallState.PLANNED,
    attempt=1,
    epoch=1,
    generation=0,
    args_digest=b"",
)
NOT_APPLIED = Failure("NotApplied", "full", ErrorClass.TRANSIENT)

DONE = (CallState.SUCCEEDED, CallState.COMPENSATED)
NOTHING_DONE = (CallState.FAILED, CallState.REJECTED)


@pytest.mark.parametrize(("state", "same"), list(product(CallState, [True, False])), ids=str)
def test_a_holder_stands_where_the_protocol_says(state: CallState, same: bool) -> None:
    for effect in (Effect.EXTERNAL, Effect.IDEMPOTENT):
        found = standing(replace(CALL, state=state, effect=effect), same).value
        if state not in DONE + NOTHING_DONE:
            assert found == "under way"
        elif state in DONE:
            assert found == ("done" if same else "conflict")
        elif effect is Effect.EXTERNAL:
            assert found == "gone once sure"
        else:
            assert found == ("gone" if same else "conflict")


def test_nothing_that_is_under_way_is_ever_taken_the_place_of() -> None:
    may_take = (Standing.GONE, Standing.GONE_ONCE_SURE)
    for state in (CallState.STARTED, CallState.UNCERTAIN, CallState.PLANNED, CallState.AWAITING):
        assert standing(replace(CALL, state=state), True) not in may_take


def asked(attempt: int, verdict: Verdict | None, kind: RequestKind = RequestKind.APPROVAL) -> RequestRecord:
    return RequestRecord(f"r{kind}{attempt}", 1, "pay.1", attempt, kind, 0, verdict)


def test_a_yes_covers_the_retry_of_an_attempt_that_was_not_applied_and_no_other() -> None:
    given = [asked(1, Verdict.APPROVE), asked(2, Verdict.REJECT), asked(9, Verdict.HAPPENED, RequestKind.RESOLVE)]
    retried = replace(CALL, failure=NOT_APPLIED)
    assert earlier_yes(retried, given) == given[0]
    assert earlier_yes(CALL, given) is None  # its run was reopened
    for state in CallState:
        if state is not CallState.PLANNED:
            assert earlier_yes(replace(retried, state=state), given) is None


def test_the_newest_yes_is_what_was_sent_last() -> None:
    given = [asked(3, Verdict.APPROVE), asked(1, Verdict.APPROVE), asked(4, None)]
    assert newest_yes(given) == given[0]
    assert newest_yes([asked(1, None), asked(2, Verdict.REJECT)]) is None


def test_a_planned_call_needs_a_yes_before_its_first_attempt_and_after_its_run_was_reopened() -> None:
    assert needs_a_yes(replace(CALL, attempt=0, failure=NOT_APPLIED))
    assert needs_a_yes(CALL)
    assert not needs_a_yes(replace(CALL, failure=NOT_APPLIED))


def test_a_call_is_meant_by_its_own_id_before_any_that_ends_so() -> None:
    ids = ["pay.1", "late.pay.1", "late.pay.2"]
    assert meant("pay.1", ids) == {"pay.1"}
    assert meant("pay.2", ids) == {"late.pay.2"}
    assert meant("pay.3", ids) == set()
    assert meant("ay.2", ids) == set()
    with pytest.raises(RequestNotFound, match=r"may mean any of a\.pay\.1, b\.pay\.1"):
        meant("pay.1", ["b.pay.1", "a.pay.1"])


def test_an_attempt_of_another_boot_is_over_and_one_of_this_boot_only_when_its_row_says_so() -> None:
    started = replace(CALL, boot=b"this", over_at=None)
    assert over_at(started, b"this") is None
    assert over_at(replace(started, over_at=7), b"this") == 7
    assert over_at(started, b"another") == 0
