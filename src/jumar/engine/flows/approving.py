"""Approval: a person is asked before an attempt is sent.

The request is made for the attempt to come.  A yes is used up by the STARTED advance and covers the retries after
attempts that were not applied.  It never covers an attempt after one that may have happened: then the person is asked
again.  What the person changed in the arguments is what is sent; the call is still matched by what was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.core.changes import CallChange
from jumar.core.identities import did_nothing
from jumar.core.leaving import rejection
from jumar.core.records import CallRecord, RequestRecord
from jumar.core.requests import Flow
from jumar.core.states import CallState, RequestKind, Verdict
from jumar.engine.flows.advance import advance
from jumar.engine.flows.asking import ask_for, waits_for
from jumar.engine.flows.outcomes import load, raised
from jumar.errors import NotStorable, ReplayDiverged, UsageError

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call

_REASON = "approval"


def ask_approval(call: Call, made: int, *, new: bool) -> Flow[BaseException]:
    """Ask for the attempt after the `made`-th; answers the signal to raise."""
    call.live.check_asking()
    yield from ask_for(call, RequestKind.APPROVAL, made + 1, made=made, new=new)
    return waits_for(call, None, _REASON)


def may_go_out(call: Call, record: CallRecord) -> Flow[None]:
    """Return where the next attempt of a call that has a record may be sent; raise where nobody has said so yet, or
    somebody has said no.
    """
    run_no, seq = call.live.run.run_no, call.seq
    asked = yield from load(call.live, lambda store: store.requests(run_no, seq))
    approvals = {each.attempt: each for each in asked if each.kind is RequestKind.APPROVAL}
    request = approvals.get(record.attempt + 1)
    if request is not None and request.verdict is None:
        raise waits_for(call, request, _REASON)
    if request is not None and request.verdict is Verdict.REJECT:
        yield from _rejected(call, record, request)
    yes = request if request is not None else _earlier_yes(record, approvals)
    if yes is None:
        if call.policy.approval:
            raise (yield from ask_approval(call, record.attempt, new=False))
        return
    call.approved = True
    use_edits(call, yes)


def _earlier_yes(record: CallRecord, approvals: dict[int, RequestRecord]) -> RequestRecord | None:
    """The yes that covers a retry: of a call whose last attempt was not applied, which its failure tells."""
    if record.state is not CallState.PLANNED or record.failure is None:
        return None
    given = [each for each in approvals.values() if each.verdict is Verdict.APPROVE]
    return max(given, key=lambda each: each.attempt, default=None)


def remember_edits(call: Call) -> Flow[None]:
    """Give a call that was sent before the arguments it was sent with."""
    run_no, seq = call.live.run.run_no, call.seq
    asked = yield from load(call.live, lambda store: store.requests(run_no, seq))
    given = [each for each in asked if each.kind is RequestKind.APPROVAL and each.verdict is Verdict.APPROVE]
    if given:
        use_edits(call, max(given, key=lambda each: each.attempt))


def use_edits(call: Call, request: RequestRecord) -> None:
    """What the person changed is what is sent."""
    if request.value is None:
        return
    try:
        call.sent_with(request.value)
    except (UsageError, NotStorable) as error:
        raise call.live.stop(
            ReplayDiverged(
                f"the arguments approved for {call.call_id} are not those of {call.policy.name} any more: {error.what}",
                recorded=f"approved arguments of {call.call_id}",
                asked=f"{call.policy.name}, of another signature",
                hint="Give the tool its old signature back until this run has ended.",
            )
        ) from error


def _rejected(call: Call, record: CallRecord, request: RequestRecord) -> Flow[None]:
    failure = rejection(record, request)
    change = CallChange(
        seq=call.seq,
        state=CallState.REJECTED,
        attempt=record.attempt,
        epoch=call.live.epoch,
        failure=failure,
        ended_at=call.live.wall(),
        checksum=call.checksum(CallState.REJECTED, failure=failure),
    )
    freed = record.identity is not None and did_nothing(record.effect, record.attempt, record.failure)
    frees = (call.seq,) if freed else ()
    yield from advance(call.live, changes=(change,), frees=frees, phase=call.phase_after)
    raise raised(call, failure)
