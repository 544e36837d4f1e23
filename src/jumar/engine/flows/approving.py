"""Approval: a person is asked before an attempt is sent.

The request is made for the attempt to come.  A yes is used up by the STARTED advance and covers the retries after
attempts that were not applied.  It never covers an attempt after one that may have happened: then the person is asked
again.  What the person changed in the arguments is what is sent; the call is still matched by what was asked for.
Changes that the tool cannot take are no yes: the person is asked again, about the next attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.core.approvals import earlier_yes, newest_yes
from jumar.core.identities import did_nothing
from jumar.core.open_requests import attempt_asked
from jumar.core.records import CallRecord, RequestRecord
from jumar.core.requests import Flow
from jumar.core.states import RequestKind, Verdict
from jumar.engine.flows.actions import named
from jumar.engine.flows.asking import ask_for, waits_for
from jumar.engine.flows.outcomes import load, reject
from jumar.engine.logs import WARNING, log
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
    to_come = attempt_asked(RequestKind.APPROVAL, record)
    request = next((each for each in asked if (each.kind, each.attempt) == (RequestKind.APPROVAL, to_come)), None)
    if request is not None and request.verdict is None:
        raise waits_for(call, request, _REASON)
    if request is not None and request.verdict is Verdict.REJECT:
        freed = record.identity is not None and did_nothing(record.effect, record.attempt, record.failure)
        raise (yield from reject(call, record.attempt, request, freed=freed))
    yes = request if request is not None else earlier_yes(record, asked)
    if yes is None:
        if call.needs_yes:
            raise (yield from ask_approval(call, record.attempt, new=False))
        return
    call.approved = True
    if yes is request and (misfit := _misfit(call, yes)) is not None:
        log(WARNING, call.live.run_id, call.call_id, "the arguments that were approved do not fit: %s", misfit)
        raise (yield from ask_approval(call, record.attempt + 1, new=False))  # that attempt counts as one not sent
    use_edits(call, yes)


def _misfit(call: Call, request: RequestRecord) -> str | None:
    """Why a call that was approved cannot be sent with the arguments that the person gave: where the tool is not known,
    nobody can check them when they are given.
    """
    if request.value is None:
        return None
    try:
        call.sent_with(request.value)
        named(call)
    except (UsageError, NotStorable) as error:
        return error.what
    return None


def remember_edits(call: Call) -> Flow[None]:
    """Give a call that was sent before the arguments it was sent with."""
    run_no, seq = call.live.run.run_no, call.seq
    asked = yield from load(call.live, lambda store: store.requests(run_no, seq))
    yes = newest_yes(asked)
    if yes is not None:
        use_edits(call, yes)


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
