"""Which requests somebody may still answer."""

from __future__ import annotations

import itertools

import pytest

from jumar.core.open_requests import is_open, still_open
from jumar.core.phases import FINAL
from jumar.core.records import CallRecord, RequestRecord
from jumar.core.states import CallKind, CallState, Effect, RequestKind, Status, Verdict


def call(state: CallState, attempt: int = 1, seq: int = 1) -> CallRecord:
    """A call as it stands."""
    return CallRecord(
        seq, f"pay.{seq}", "", "", 1, CallKind.TOOL, "pay", Effect.EXTERNAL, state, attempt, 1, 0, b"digest"
    )


def request(kind: RequestKind, attempt: int = 1, verdict: Verdict | None = None, seq: int = 1) -> RequestRecord:
    """A request about a call."""
    return RequestRecord(f"run/{seq}/{kind.label}/{attempt}", seq, f"pay.{seq}", attempt, kind, 0, verdict)


@pytest.mark.parametrize("status", list(Status))
def test_what_may_have_happened_is_asked_in_every_status(status: Status) -> None:
    assert is_open(request(RequestKind.RESOLVE), call(CallState.UNCERTAIN), status)


@pytest.mark.parametrize("status", list(Status))
def test_an_approval_and_a_question_are_asked_until_the_run_has_ended(status: Status) -> None:
    goes_on = status not in FINAL
    assert is_open(request(RequestKind.ASK), call(CallState.AWAITING), status) is goes_on
    assert is_open(request(RequestKind.APPROVAL), call(CallState.AWAITING, attempt=0), status) is goes_on


# What failed to undo a call is planned until somebody says what becomes of it.
ASKED_OF_UNCERTAIN = {
    RequestKind.RESOLVE: (CallState.UNCERTAIN,),
    RequestKind.UNDO: (CallState.UNCERTAIN, CallState.PLANNED),
}


@pytest.mark.parametrize(("kind", "asked", "made"), list(itertools.product(RequestKind, range(3), range(3))))
def test_a_request_is_about_the_attempt_that_was_made_or_for_the_one_to_come(
    kind: RequestKind, asked: int, made: int
) -> None:
    state = CallState.AWAITING if kind not in ASKED_OF_UNCERTAIN else CallState.UNCERTAIN
    about = made + 1 if kind is RequestKind.APPROVAL else made
    assert is_open(request(kind, asked), call(state, made), Status.WAITING) is (asked == about)


@pytest.mark.parametrize(("kind", "state"), list(itertools.product(RequestKind, CallState)))
def test_a_call_that_has_moved_on_is_asked_about_no_longer(kind: RequestKind, state: CallState) -> None:
    asked = request(kind, 2 if kind is RequestKind.APPROVAL else 1)
    wanted = ASKED_OF_UNCERTAIN.get(kind, (CallState.AWAITING,))
    assert is_open(asked, call(state), Status.WAITING) is (state in wanted)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_what_was_answered_is_asked_no_longer(verdict: Verdict) -> None:
    assert not is_open(request(RequestKind.RESOLVE, verdict=verdict), call(CallState.UNCERTAIN), Status.WAITING)


def test_of_several_the_open_ones_stay_in_their_order() -> None:
    calls = [call(CallState.UNCERTAIN, seq=1), call(CallState.AWAITING, 0, seq=2), call(CallState.SUCCEEDED, seq=3)]
    asked = [
        request(RequestKind.APPROVAL, seq=2),
        request(RequestKind.RESOLVE, seq=3),
        request(RequestKind.RESOLVE, seq=1),
        request(RequestKind.RESOLVE, seq=4),  # about a call that is not there
    ]
    assert still_open(asked, calls, Status.WAITING) == [asked[0], asked[2]]
    assert still_open(asked, calls, Status.CANCELLED) == [asked[2]]
