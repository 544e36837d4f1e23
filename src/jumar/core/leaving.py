"""What an operator's order leaves behind, decided from the calls and requests of the run.

Whoever takes a run out of RUNNING by an order settles what can be settled without its agent.  A call that may have
happened gets the request that a person answers, where it has none yet.  A run that ends for good also takes the
answers already given, because nobody will look at them afterwards, and gives up the names of what was never sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from jumar.core.changes import CallChange
from jumar.core.checksums import call_checksum, failure_bytes
from jumar.core.identities import did_nothing
from jumar.core.naming import request_id
from jumar.core.open_requests import attempt_asked
from jumar.core.records import CallRecord, EventRecord, Failure, RequestRecord, RunRecord
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, EventKind, RequestKind, Verdict

_TO_COME = (CallState.PLANNED, CallState.AWAITING)
_CUT_OFF = Failure("Cancelled", "the run was cancelled before the call was made again", ErrorClass.CANCELLED)


class LeftBehind(Struct, frozen=True):
    """The rows that go with the advance that leaves."""

    changes: tuple[CallChange, ...] = ()
    requests: tuple[RequestRecord, ...] = ()
    events: tuple[EventRecord, ...] = ()
    frees: tuple[int, ...] = ()


def left_behind(
    run: RunRecord, calls: Sequence[CallRecord], requests: Sequence[RequestRecord], at: int, *, final: bool
) -> LeftBehind:
    """What goes with an order's advance at wall-clock `at`; `final` where the run ends for good."""
    given = {(asked.call_seq, asked.kind, asked.attempt): asked for asked in requests}
    changes: list[CallChange] = []
    asks: list[RequestRecord] = []
    frees: list[int] = []
    for call in calls:
        change = (settled_by(call, _about(call, given), at) or _left_open(call, at)) if final else None
        if change is not None:
            changes.append(change)
        if call.identity is not None and final and _gives_up(call, change):
            frees.append(call.seq)
        asked = (call.seq, RequestKind.RESOLVE, call.attempt)
        if change is None and _is_worth_asking(call, final) and asked not in given:
            identifier = request_id(run.run_id, call.seq, call.attempt, RequestKind.RESOLVE)
            asks.append(RequestRecord(identifier, call.seq, call.call_id, call.attempt, RequestKind.RESOLVE, at))
    events = tuple(EventRecord(EventKind.REQUESTED, at, asked.call_seq, run.epoch, asked.kind.label) for asked in asks)
    return LeftBehind(tuple(changes), tuple(asks), events, tuple(frees))


def _is_worth_asking(call: CallRecord, final: bool) -> bool:
    """Whether somebody should say if the call happened.  What a run that goes on repeats anyway is not asked about."""
    if call.state is not CallState.UNCERTAIN:
        return False
    return call.effect is not Effect.READ if final else call.effect is Effect.EXTERNAL


def _about(call: CallRecord, given: dict[tuple[int, RequestKind, int], RequestRecord]) -> RequestRecord | None:
    """The request that concerns the call as it stands."""
    if call.state is CallState.UNCERTAIN:
        kind = RequestKind.RESOLVE
    elif call.state is not CallState.AWAITING:
        return None
    else:
        kind = RequestKind.ASK if call.kind is CallKind.ASK else RequestKind.APPROVAL
    return given.get((call.seq, kind, attempt_asked(kind, call)))


def settled_by(call: CallRecord, request: RequestRecord | None, at: int) -> CallChange | None:
    """What an answer makes of its call without the agent's help; None where it settles nothing."""
    if request is None:
        return None
    match request.verdict:
        case Verdict.HAPPENED | Verdict.VALUE:
            return _changed(
                call, CallState.SUCCEEDED, at, result=request.value if request.value is not None else b"null"
            )
        case Verdict.NOT_HAPPENED:
            failure = Failure("NotApplied", "somebody said that it did not happen", ErrorClass.TRANSIENT)
            return _changed(call, CallState.FAILED, at, failure=failure)
        case Verdict.REJECT:
            return _changed(call, CallState.REJECTED, at, failure=rejection(call.call_id, request))
        case _:
            return None


def rejection(call_id: str, request: RequestRecord) -> Failure:
    """What is kept of a person's no, as the exception that the agent gets for it."""
    from jumar.core.exceptions import failure_of
    from jumar.errors import CallRejected

    who = request.by or "somebody"
    why = f": {request.note}" if request.note else ""
    error = CallRejected(f"call {call_id} was rejected by {who}{why}", call_id=call_id, note=request.note or "")
    return failure_of(error, ErrorClass.PERMANENT, (CallRejected,))


def _left_open(call: CallRecord, at: int) -> CallChange | None:
    """A call that was to be made again, and whose earlier attempts may have happened, has failed: it keeps its name,
    and whoever asks for the same may repeat it.
    """
    if call.identity is None or call.state not in _TO_COME or did_nothing(call.effect, call.attempt, call.failure):
        return None
    return _changed(call, CallState.FAILED, at, failure=call.failure or _CUT_OFF)


def _gives_up(call: CallRecord, change: CallChange | None) -> bool:
    """Whether the call holds a name for nothing from now on."""
    if change is None:
        return call.state in _TO_COME
    # A call of which somebody has said that it did not happen may still act for a while: whoever asks for the action
    # next sees from its row when that is over.
    return change.state is CallState.REJECTED and did_nothing(call.effect, call.attempt, call.failure)


def _changed(
    call: CallRecord, state: CallState, at: int, *, result: bytes | None = None, failure: Failure | None = None
) -> CallChange:
    checksum = call_checksum(
        call.call_id, call.args_digest, call.kind, call.effect, state, result, failure_bytes(failure)
    )
    return CallChange(
        seq=call.seq,
        state=state,
        attempt=call.attempt,
        epoch=call.epoch,
        result=result,
        failure=failure,
        over_at=call.over_at,
        ended_at=at,
        checksum=checksum,
    )
