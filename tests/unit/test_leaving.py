"""What an order's advance leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.call_states import CALL_STATES
from jumar.core.checksums import call_agrees
from jumar.core.codec import digest
from jumar.core.leaving import LeftBehind, left_behind, settled_by
from jumar.core.naming import request_id
from jumar.core.records import CallRecord, Failure, RequestRecord
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, IdentityScope, RequestKind, Verdict
from tests.unit.test_reopening import failed_run

NOT_APPLIED = Failure("NotApplied", "busy", ErrorClass.TRANSIENT)
CUT = Failure("ConnectionError", "cut", ErrorClass.TRANSIENT)


def call(state: CallState, effect: Effect = Effect.EXTERNAL, **more: Any) -> CallRecord:
    """A call of a run that is to be left."""
    record = CallRecord(1, "pay.1", "", "", 1, CallKind.TOOL, "pay", effect, state, 1, 1, 0, digest(b"{}"), args=b"{}")
    return replace(record, **more)


def named(state: CallState, effect: Effect = Effect.EXTERNAL, **more: Any) -> CallRecord:
    """A call of an action with a name."""
    return call(state, effect, identity="pay:a", identity_scope=IdentityScope.STORE, **more)


def request(
    kind: RequestKind, attempt: int, verdict: Verdict | None = None, value: bytes | None = None
) -> RequestRecord:
    """A request about that call."""
    return RequestRecord(f"run/1/{kind.label}/{attempt}", 1, "pay.1", attempt, kind, 0, verdict, value)


def left(record: CallRecord, *requests: RequestRecord, final: bool = True) -> LeftBehind:
    """What is left of one call."""
    return left_behind(failed_run(), [record], requests, 5, final=final)


# --- Requests. -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("final", [True, False])
@pytest.mark.parametrize("effect", list(Effect))
@pytest.mark.parametrize("state", list(CallState))
def test_what_may_have_happened_is_asked_about_unless_it_is_repeated_anyway(
    state: CallState, effect: Effect, final: bool
) -> None:
    asks = left(call(state, effect), final=final).requests
    if state is CallState.UNCERTAIN and (effect is Effect.EXTERNAL or (final and effect is not Effect.READ)):
        (asked,) = asks
        assert (asked.request_id, asked.kind) == (request_id("run", 1, 1, RequestKind.RESOLVE), RequestKind.RESOLVE)
        assert (asked.attempt, asked.created_at, asked.verdict) == (1, 5, None)
    else:
        assert asks == ()


def test_what_is_asked_already_is_not_asked_again() -> None:
    assert left(call(CallState.UNCERTAIN), request(RequestKind.RESOLVE, 1)).requests == ()
    later = left(call(CallState.UNCERTAIN, attempt=2), request(RequestKind.RESOLVE, 1, Verdict.NOT_HAPPENED))
    assert [asked.attempt for asked in later.requests] == [2]


# --- Answers already given. ------------------------------------------------------------------------------------------

GIVEN = [
    (CallState.UNCERTAIN, 1, request(RequestKind.RESOLVE, 1, Verdict.HAPPENED, b"5"), CallState.SUCCEEDED),
    (CallState.UNCERTAIN, 1, request(RequestKind.RESOLVE, 1, Verdict.HAPPENED), CallState.SUCCEEDED),
    (CallState.UNCERTAIN, 1, request(RequestKind.RESOLVE, 1, Verdict.NOT_HAPPENED), CallState.FAILED),
    (CallState.UNCERTAIN, 2, request(RequestKind.RESOLVE, 1, Verdict.NOT_HAPPENED), None),
    (CallState.AWAITING, 0, request(RequestKind.APPROVAL, 1, Verdict.REJECT), CallState.REJECTED),
    (CallState.AWAITING, 1, request(RequestKind.APPROVAL, 2, Verdict.REJECT), CallState.REJECTED),
    (CallState.AWAITING, 1, request(RequestKind.APPROVAL, 1, Verdict.REJECT), None),
    (CallState.AWAITING, 0, request(RequestKind.APPROVAL, 1, Verdict.APPROVE), None),
    (CallState.AWAITING, 0, request(RequestKind.APPROVAL, 1), None),
    (CallState.SUCCEEDED, 1, request(RequestKind.RESOLVE, 1, Verdict.NOT_HAPPENED), None),
]


@pytest.mark.parametrize(("state", "attempt", "given", "after"), GIVEN)
def test_an_answer_is_carried_out_where_the_run_ends_and_it_is_about_the_call_as_it_stands(
    state: CallState, attempt: int, given: RequestRecord, after: CallState | None
) -> None:
    record = call(state, attempt=attempt)
    assert left(record, given, final=False).changes == ()
    changes = left(record, given).changes
    if after is None:
        assert changes == ()
        return
    (change,) = changes
    assert (change.state, change.attempt, change.ended_at) == (after, attempt, 5)
    assert after in CALL_STATES[state]
    written = replace(record, state=after, result=change.result, failure=change.failure, checksum=change.checksum or 0)
    assert call_agrees(written)


def test_a_question_takes_its_answer() -> None:
    asks = call(CallState.AWAITING, Effect.READ, kind=CallKind.ASK)
    (change,) = left(asks, request(RequestKind.ASK, 1, Verdict.VALUE, b'"yes"')).changes
    assert (change.state, change.result) == (CallState.SUCCEEDED, b'"yes"')
    assert left(asks, request(RequestKind.ASK, 1)).changes == ()


def test_without_a_request_nothing_is_settled() -> None:
    assert settled_by(call(CallState.UNCERTAIN), None, 5) is None


# --- Names. ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(CallState))
def test_a_pause_gives_no_name_up(state: CallState) -> None:
    assert left(named(state), final=False).frees == ()


@pytest.mark.parametrize("state", list(CallState))
def test_an_end_gives_up_the_name_of_what_was_still_to_be_made(state: CallState) -> None:
    to_come = state in (CallState.PLANNED, CallState.AWAITING)
    assert left(named(state)).frees == ((1,) if to_come else ())
    assert left(call(state)).frees == ()


@pytest.mark.parametrize("state", [CallState.PLANNED, CallState.AWAITING])
@pytest.mark.parametrize(
    ("attempt", "failure", "kept"),
    [(0, None, False), (1, NOT_APPLIED, False), (1, CUT, True), (1, None, True), (2, NOT_APPLIED, True)],
)
def test_what_may_have_been_done_with_a_key_fails_and_keeps_its_name(
    state: CallState, attempt: int, failure: Failure | None, kept: bool
) -> None:
    found = left(named(state, Effect.IDEMPOTENT, attempt=attempt, failure=failure))
    assert found.frees == (() if kept else (1,))
    assert [change.state for change in found.changes] == ([CallState.FAILED] if kept else [])
    for change in found.changes:
        assert change.failure is not None and CallState.FAILED in CALL_STATES[state]


@pytest.mark.parametrize(
    ("given", "effect", "attempt", "freed"),
    [
        # It may still act for a while: whoever asks for the action next sees from the row when that is over.
        (request(RequestKind.RESOLVE, 1, Verdict.NOT_HAPPENED), Effect.EXTERNAL, 1, False),
        (request(RequestKind.RESOLVE, 1, Verdict.NOT_HAPPENED), Effect.IDEMPOTENT, 1, False),
        (request(RequestKind.RESOLVE, 1, Verdict.HAPPENED), Effect.EXTERNAL, 1, False),
        (request(RequestKind.APPROVAL, 1, Verdict.REJECT), Effect.EXTERNAL, 0, True),
        (request(RequestKind.APPROVAL, 1, Verdict.REJECT), Effect.IDEMPOTENT, 0, True),
        (request(RequestKind.APPROVAL, 2, Verdict.REJECT), Effect.EXTERNAL, 1, True),
        (request(RequestKind.APPROVAL, 2, Verdict.REJECT), Effect.IDEMPOTENT, 1, False),
    ],
)
def test_a_rejection_gives_the_name_up_where_nothing_was_done(
    given: RequestRecord, effect: Effect, attempt: int, freed: bool
) -> None:
    state = CallState.UNCERTAIN if given.kind is RequestKind.RESOLVE else CallState.AWAITING
    assert left(named(state, effect, attempt=attempt), given).frees == ((1,) if freed else ())
