"""Requests: what a call waits for somebody to say.

A request is written in the same advance that makes its call wait, and the run then waits as a whole, once what is in
flight has settled.  The answer stands in the request; the run finds it there when it goes through its agent again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.core.changes import Ack, Answer, CallChange, Refusal
from jumar.core.naming import request_id
from jumar.core.open_requests import newest
from jumar.core.records import CallRecord, EventRecord, RequestRecord
from jumar.core.requests import Commit, Flow
from jumar.core.states import CallState, EventKind, RequestKind, Verdict
from jumar.engine.flows.advance import advance
from jumar.engine.flows.outcomes import load, new_record, record_success, replayed
from jumar.engine.halting import Wait
from jumar.errors import IntegrityError, JumarError, NotStorable

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call

_EXPIRED = "expiry"  # who is said to have answered where the default was taken


def ask_for(
    call: Call, kind: RequestKind, attempt: int, *, made: int, new: bool, expires_at: int | None = None
) -> Flow[RequestRecord]:
    """Make the call wait for an answer: one advance, with the request about (or for) this attempt.  Answers that."""
    live = call.live
    at = live.wall()
    identifier = request_id(live.run_id, call.seq, attempt, kind)
    request = RequestRecord(identifier, call.seq, call.call_id, attempt, kind, at, expires_at=expires_at)
    event = EventRecord(EventKind.REQUESTED, at, call.seq, live.epoch, kind.label)
    if new:
        record, artifacts = new_record(call, CallState.AWAITING, made, started_at=at)
        yield from advance(live, calls=(record,), artifacts=artifacts, requests=(request,), events=(event,))
        return request
    change = CallChange(
        seq=call.seq,
        state=CallState.AWAITING,
        attempt=made,
        epoch=live.epoch,
        checksum=call.checksum(CallState.AWAITING),
    )
    yield from advance(live, changes=(change,), requests=(request,), events=(event,))
    return request


def newest_request(call: Call, kind: RequestKind) -> Flow[RequestRecord | None]:
    """The newest request of a kind about a call."""
    run_no, seq = call.live.run.run_no, call.seq
    asked = yield from load(call.live, lambda store: store.requests(run_no, seq))
    return newest(asked, kind)


def waits_for(call: Call, request: RequestRecord | None = None, reason: str = "an answer") -> BaseException:
    """Latch that the run waits for what is asked about this call; answers the signal to raise."""
    wake_at = None if request is None else request.expires_at
    return call.live.wait(Wait(f"call {call.call_id} waits for {reason}", call.call_id, wake_at), call.branch)


# --- ask. ----------------------------------------------------------------------------------------------------------


class Question:
    """What an ask needs beyond its call: seconds until it expires, and the default's JSON."""

    __slots__ = ("default", "expires")

    def __init__(self, expires: float | None, default: bytes | None) -> None:
        self.expires = expires
        self.default = default


def ask(call: Call, question: Question) -> Flow[Any]:
    """Ask somebody, once; answers what was recorded, or raises the signal that the run waits."""
    live, record = call.live, call.record
    live.check_asking()
    if record is None:
        _refuse_another(call)
        expires_at = None if question.expires is None else live.wall() + int(question.expires * 1000)
        asked = yield from ask_for(call, RequestKind.ASK, 1, made=1, new=True, expires_at=expires_at)
        raise waits_for(call, asked)
    if record.state is not CallState.AWAITING:
        return (yield from replayed(call, record))
    while True:
        request = yield from newest_request(call, RequestKind.ASK)
        if request is None:
            raise live.stop(IntegrityError(f"what {call.call_id} asked is lost"))
        if request.verdict is Verdict.VALUE:
            return (yield from _answered(call, record, request))
        if request.expires_at is None or live.wall() < request.expires_at:
            raise waits_for(call, request)
        if question.default is None:  # which it had when it was asked, under its key
            raise waits_for(call)
        yield from _take_default(call, request, question.default)


def _refuse_another(call: Call) -> None:
    """A question that is worded otherwise than the one on record, with the time in it, say, is another question."""
    left = None if call.branch is None else call.branch.table.first_ask()
    if left is None:
        return
    from jumar.engine.flows.calls import diverged, shown

    error = diverged(left, f"{call.call_id}({shown(call.args_json)})")
    error.hint = (
        "Ask in the same words on every replay: take what changes, such as the time, through run.value(...), or give "
        "the question a key=."
    )
    raise call.live.stop(error)


def _answered(call: Call, record: CallRecord, request: RequestRecord) -> Flow[Any]:
    """Record the answer; one that is not of the type asked for is asked for again."""
    live = call.live
    data = request.value if request.value is not None else b"null"
    try:
        value = call.policy.codec.decode(data)
    except NotStorable:
        number, expires_at = request.attempt + 1, request.expires_at
        asked = yield from ask_for(call, RequestKind.ASK, number, made=number, new=False, expires_at=expires_at)
        raise waits_for(call, asked, "an answer of its type") from None
    return (yield from record_success(call, record.attempt, value, record.started_at, live.wall(), new=False))


def _take_default(call: Call, request: RequestRecord, default: bytes) -> Flow[None]:
    """The time is over: the default answers, unless somebody does so first."""
    live = call.live
    answer = Answer(
        run_no=live.run.run_no,
        request_id=request.request_id,
        verdict=Verdict.VALUE,
        value=default,
        by=_EXPIRED,
        note=None,
        at=live.wall(),
    )
    try:
        outcome = yield from Commit(answer)
    except JumarError as error:
        raise live.stop(error) from error
    if isinstance(outcome, Ack):
        if outcome.answers == live.answers + 1:  # else somebody else's came too, which nobody has looked at
            live.answers = outcome.answers
        return
    assert isinstance(outcome, Refusal)
