"""Settling a call that may have happened: evidence, the tool's probe, a person.

In this order: a late result of the attempt itself; an answer that a person has given; the tool's probe.  "It
happened" counts at once.  "It did not happen" counts only when the attempt can no longer act
(`core.uncertain.sure_of_not_happened_at`); a probe asked before that is asked again after it.  Where nobody knows,
the run waits for a person.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from jumar.core.changes import Answer, CallChange
from jumar.core.codec import digest
from jumar.core.failures import short_message
from jumar.core.limits import INLINE_BYTES, check_size
from jumar.core.naming import request_id
from jumar.core.records import Artifact, CallRecord, EventRecord, Failure, RequestRecord
from jumar.core.requests import Attempt, Flow, Invoke, Sleep
from jumar.core.states import CallState, Effect, ErrorClass, EventKind, RequestKind, Verdict
from jumar.core.uncertain import over_at
from jumar.core.verdicts import Happened, NotHappened, Unknown
from jumar.engine.flows.advance import advance
from jumar.engine.flows.outcomes import drops_of, load, new_record, record_success, reject
from jumar.engine.halting import Wait
from jumar.engine.logs import WARNING, log
from jumar.errors import JumarError, NotApplied, NotStorable

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call

_GIVEN_UP = Failure("CancelledError", "the agent gave the call up", ErrorClass.CANCELLED, cancelled=True)
_LOOK_SECONDS = 0.2  # how often a wait in place looks for a late result


class Settled(Struct, frozen=True):
    """Whether the call is known to have happened, and then what the agent gets; otherwise it surely did not."""

    known: bool
    value: Any = None


class _Verdict(Struct, frozen=True):
    answer: Happened[Any] | NotHappened | Unknown
    stored: bytes | None = None  # a person's answer is JSON already
    rejected: RequestRecord | None = None  # somebody's no: it did not happen, and is not to be made again


def note_uncertain(call: Call, attempt: int, failure: Failure, over_at: int | None) -> Flow[None]:
    """Record that this attempt may have happened, exactly as a claim does after a crash; and when it was over, where
    that is known, so that no later process reckons with it for longer.
    """
    live = call.live
    change = CallChange(
        seq=call.seq,
        state=CallState.UNCERTAIN,
        attempt=attempt,
        epoch=live.epoch,
        failure=failure,
        over_at=over_at,
        checksum=call.checksum(CallState.UNCERTAIN, failure=failure),
    )
    event = EventRecord(EventKind.CALL_UNCERTAIN, live.wall(), call.seq, live.epoch, f"attempt {attempt}")
    yield from advance(live, changes=(change,), events=(event,))
    why = f"{failure.type_name}: {failure.message}"
    log(WARNING, live.run_id, call.call_id, "attempt %d ended without saying whether it happened (%s)", attempt, why)


def note_given_up(
    call: Call,
    attempt: int,
    error: BaseException,
    state: CallState,
    *,
    new: bool,
    ended: Attempt | None = None,
    over_at: int | None = None,
    result: bytes | None = None,
    freed: bool = False,
) -> None:
    """The agent cancelled the call from outside, as `asyncio.wait_for` does; `state` is what is left of it, and
    `result` what its row has for one.  Its attempt was over at `over_at`, where that is known; `freed` gives up the
    name of its action, where it has one.

    That matters only where the agent goes on, so the mark is set aside until it does.  On replay the call waits to be
    given up again; one left UNCERTAIN is settled before the run ends.  Where the run stops instead, one that was not
    sent after its STARTED goes back to PLANNED.  So it is in an item of a `gather` or `map` that waits, whatever the
    others do: what it had in flight beside was cancelled because it stops.  Any other error than a cancellation means
    that the process is being torn down.
    """
    if type(error).__name__ != "CancelledError":
        return
    at = call.live.wall()
    times = (at, at) if ended is None else (ended.started_at, ended.ended_at)
    stops = call.branch is not None and call.branch.stops
    checksum = call.checksum(state, result, _GIVEN_UP)
    if new:
        record, _ = new_record(
            call, state, attempt, failure=_GIVEN_UP, started_at=times[0], ended_at=times[1], checksum=checksum
        )
        with call.live.lock:
            if not stops:
                call.live.set_aside().calls.append(record)
        return
    change = CallChange(
        seq=call.seq,
        state=state,
        attempt=attempt,
        epoch=call.live.epoch,
        failure=_GIVEN_UP,
        over_at=over_at if ended is None else ended.over_at,
        ended_at=times[1],
        checksum=checksum,
    )
    back = _left_behind(call, change, ended)
    with call.live.lock:
        _set_aside(call, change, back, stops=stops, freed=freed)


def _left_behind(call: Call, change: CallChange, ended: Attempt | None) -> CallChange | None:
    """What is due of a given-up call where the run stops instead of going on: what a crash would leave of one that may
    have happened, and PLANNED for one that surely was not sent.
    """
    if change.state is CallState.UNCERTAIN:
        return replace(change, failure=None, ended_at=None, checksum=call.checksum(change.state))
    if ended is None or ended.sent:
        return None
    failure = Failure("NotApplied", f"{call.policy.name} was not sent: it was given up", ErrorClass.TRANSIENT)
    checksum = call.checksum(CallState.PLANNED, failure=failure)
    return replace(change, state=CallState.PLANNED, failure=failure, over_at=None, ended_at=None, checksum=checksum)


def _set_aside(call: Call, change: CallChange, back: CallChange | None, *, stops: bool, freed: bool) -> None:
    """Set the mark of a given-up call aside; the caller holds the run's lock."""
    live = call.live
    aside = live.set_aside()
    if back is not None:
        aside.unmarked.append(back)
    if change.state is CallState.UNCERTAIN:
        event = EventRecord(EventKind.CALL_UNCERTAIN, live.wall(), call.seq, live.epoch, "cancelled")
        aside.events.append(event)
    if stops:
        if back is not None:
            aside.changes.append(back)
            aside.drops += drops_of(call) if back.state is CallState.PLANNED else ()
        return
    aside.changes.append(change)
    if freed and call.identity is not None:
        aside.frees.append(call.seq)
    if change.state is CallState.FAILED:
        aside.drops += drops_of(call)
    if change.state is CallState.UNCERTAIN:
        live.given_up.append(call)


def settle_external(
    call: Call, number: int, record: CallRecord | None, dispatch_by: int | None, attempt: Attempt | None = None
) -> Flow[Settled]:
    """Find out whether attempt `number` happened.  `attempt` is given where it was made by this process."""
    try:
        return (yield from _settle(call, number, record, dispatch_by, attempt))
    except BaseException as error:
        seen = record if attempt is None else attempt
        over_at = None if seen is None else seen.over_at
        note_given_up(call, number, error, CallState.UNCERTAIN, new=False, over_at=over_at)
        raise


def _settle(
    call: Call, number: int, record: CallRecord | None, dispatch_by: int | None, attempt: Attempt | None
) -> Flow[Settled]:
    live = call.live
    place = (live.run_id, call.seq, number)
    if attempt is None:
        attempt = live.io.going_on.get(place)
    elif attempt.over_at is None:
        live.io.going_on[place] = attempt
    sat_out = False
    while True:
        # What a probe says holds for when it was asked: the attempt may have ended, and acted, while it was answering.
        asked_at, going_on = live.clock(), attempt is not None and attempt.over_at is None
        verdict = yield from _verdict(call, number, attempt)
        answer = verdict.answer
        if isinstance(answer, Happened):
            live.io.going_on.pop(place, None)
            return (yield from _happened(call, number, verdict))
        if going_on and attempt is not None and attempt.over_at is not None:
            continue
        left = until_sure(call, record, dispatch_by, attempt) - asked_at
        if isinstance(answer, NotHappened) and (left <= 0 or _surely_not(call, attempt)):
            live.io.going_on.pop(place, None)
            if verdict.rejected is not None:
                raise (yield from reject(call, number, verdict.rejected, freed=call.identity is not None))
            return Settled(False)
        if isinstance(answer, NotHappened) and left <= live.settings.ttl_ms and not (going_on and sat_out):
            yield from _sit_out(call, attempt, live.clock() + left)
            sat_out = True  # a body that still goes on then may do so for ever
            continue
        raise (yield from _wait(call, number, attempt, left if isinstance(answer, NotHappened) else None))


def _sit_out(call: Call, attempt: Attempt | None, until: int) -> Flow[None]:
    """Wait in place until the lease clock reads `until`, or a late result is there."""
    live = call.live
    while (left := until - live.clock()) > 0:
        live.check()
        if attempt is not None and attempt.timed_out and attempt.over_at is not None:
            return
        yield from Sleep(min(left / 1000, _LOOK_SECONDS))


def _verdict(call: Call, number: int, attempt: Attempt | None) -> Flow[_Verdict]:
    if attempt is not None and attempt.over_at is not None and attempt.timed_out:
        if attempt.error is None:
            return _Verdict(Happened(attempt.value))
        if _surely_not(call, attempt):
            return _Verdict(NotHappened())
    run_no, seq = call.live.run.run_no, call.seq
    for request in (yield from load(call.live, lambda store: store.requests(run_no, seq))):
        if request.attempt != number or request.kind is not RequestKind.RESOLVE:
            continue
        if request.verdict is Verdict.HAPPENED:
            return _Verdict(Happened(None), request.value)
        if request.verdict is Verdict.NOT_HAPPENED:
            return _Verdict(NotHappened())
        if request.verdict is Verdict.REJECT:
            return _Verdict(NotHappened(), rejected=request)
    return _Verdict((yield from _probe(call, number)))


def _surely_not(call: Call, attempt: Attempt | None) -> bool:
    """Whether a late end of the attempt says that it was not applied."""
    if attempt is None or attempt.over_at is None or attempt.error is None:
        return False
    return isinstance(attempt.error, (NotApplied, *call.policy.not_applied, *call.policy.errors))


def _probe(call: Call, number: int) -> Flow[Happened[Any] | NotHappened | Unknown]:
    """Ask the tool's probe; one that fails, or answers something else, does not know."""
    probe = call.policy.probe
    if probe is None:
        return Unknown()
    live = call.live
    scope = call.scope(number)
    live.before_dispatch()
    live.begin(call.seq, call.policy.timeout)
    try:
        ended: Attempt = yield Invoke(probe, call.args, call.kwargs, scope, call.policy.timeout, call.policy.threaded)
    finally:
        live.end(call.seq)
    if ended.error is not None and not isinstance(ended.error, Exception):
        raise ended.error
    answer, how = _understood(ended)
    live.ride_event(EventKind.PROBED, call.seq, how)
    if how != type(answer).__name__:
        why = f": {short_message(ended.error)}" if ended.error is not None else ""
        log(
            WARNING, live.run_id, call.call_id, "the probe %s%s, so it is not known whether the call happened", how, why
        )
    return answer


def _understood(ended: Attempt) -> tuple[Happened[Any] | NotHappened | Unknown, str]:
    """What a probe answered, and the word for it; where the class itself was returned it can mean only one thing."""
    answer = NotHappened() if ended.value is NotHappened else ended.value
    if ended.timed_out:
        return Unknown(), "timed out"
    if ended.error is not None:
        return Unknown(), f"raised {type(ended.error).__name__[:40]}"
    if isinstance(answer, (Happened, NotHappened, Unknown)):
        return answer, type(answer).__name__
    return Unknown(), "answered no verdict"


def _happened(call: Call, number: int, verdict: _Verdict) -> Flow[Settled]:
    answer = verdict.answer
    assert isinstance(answer, Happened)
    value = answer.result
    if verdict.stored is not None:
        try:
            value = call.policy.codec.decode(verdict.stored)
        except NotStorable as error:
            # Given where the tool was not known, or its type has changed since.  That it happened still holds.
            value = error
    decoded = yield from record_success(call, number, value, 0, call.live.wall(), new=False)
    return Settled(True, decoded)


def until_sure(call: Call, record: CallRecord | None, dispatch_by: int | None, attempt: Attempt | None) -> int:
    """The lease-clock millisecond from which NotHappened counts."""
    live = call.live
    ended_at = attempt.over_at if attempt is not None else None
    if attempt is None and record is not None:
        ended_at = over_at(record, live.run.boot)
    if attempt is not None and ended_at is None:
        dispatch_by = live.clock()  # still going on in this very process
    return call.policy.sure_at(live.settings, ended_at, dispatch_by or 0)


def settle_given_up_call(call: Call, record: CallRecord) -> Flow[None]:
    """Settle a call that the agent gave up: it keeps that mark, and becomes SUCCEEDED or FAILED."""
    live = call.live
    mark = record.failure
    if call.policy.effect is Effect.IDEMPOTENT:
        yield from _marked(call, record.attempt, CallState.FAILED, mark)
        return
    if call.policy.effect is Effect.WRITE:
        from jumar.engine.flows.putting_back import put_back_uncertain  # which a run without files never needs

        yield from put_back_uncertain(call, record)
        yield from _marked(call, record.attempt, CallState.FAILED, mark)
        return
    while True:
        asked_at = live.clock()
        verdict = yield from _verdict(call, record.attempt, None)
        if isinstance(verdict.answer, Happened):
            yield from _marked(call, record.attempt, CallState.SUCCEEDED, mark, _data_of(call, verdict))
            return
        left = until_sure(call, record, record.dispatch_by, None) - asked_at
        is_not = isinstance(verdict.answer, NotHappened)
        if is_not and left <= 0:
            yield from _marked(call, record.attempt, CallState.FAILED, mark)
            return
        if is_not and left <= live.settings.ttl_ms:
            yield from _sit_out(call, None, live.clock() + left)
            continue
        raise (yield from _wait(call, record.attempt, None, left if is_not else None))


def _data_of(call: Call, verdict: _Verdict) -> bytes | None:
    """What a call that happened returned, for another that asks for the same action; None where it cannot be stored."""
    assert isinstance(verdict.answer, Happened)
    try:
        data = verdict.stored or call.policy.codec.round_trip(verdict.answer.result)[0]
        check_size(data)
    except Exception:  # as in record_success: a type's own hooks may raise anything
        return None
    return data


def _marked(call: Call, attempt: int, state: CallState, mark: Failure | None, data: bytes | None = None) -> Flow[None]:
    name = digest(data) if data is not None and len(data) > INLINE_BYTES else None
    checksum = call.checksum(state, data if name is None else name, mark)
    change = CallChange(
        seq=call.seq,
        state=state,
        attempt=attempt,
        epoch=call.live.epoch,
        result=data if name is None else None,
        result_artifact=name,
        failure=mark,
        ended_at=call.live.wall(),
        checksum=checksum,
    )
    kept = () if data is None or name is None else (Artifact(name, data),)
    freed = state is CallState.FAILED and call.policy.effect is not Effect.IDEMPOTENT and call.identity is not None
    frees, drops = (call.seq,) if freed else (), drops_of(call)
    yield from advance(call.live, changes=(change,), artifacts=kept, frees=frees, drops=drops)


def _wait(call: Call, number: int, attempt: Attempt | None, left_ms: int | None) -> Flow[BaseException]:
    """Write the request that a person, or a late result, may answer; answers the signal to raise."""
    live = call.live
    identifier = request_id(live.run_id, call.seq, number, RequestKind.RESOLVE)
    run_no, seq = live.run.run_no, call.seq
    known = yield from load(live, lambda store: store.requests(run_no, seq))
    if all(request.request_id != identifier for request in known):
        request = RequestRecord(identifier, call.seq, call.call_id, number, RequestKind.RESOLVE, live.wall())
        event = EventRecord(EventKind.REQUESTED, live.wall(), call.seq, live.epoch, RequestKind.RESOLVE.label)
        yield from advance(live, requests=(request,), events=(event,))
    if attempt is not None and attempt.timed_out:
        attempt.late = lambda: _file_late(call, number, identifier, attempt)
        if attempt.over_at is not None:
            _file_late(call, number, identifier, attempt)
    if left_ms is None:
        reason = f"nobody knows yet whether call {call.call_id} happened"
        return live.wait(Wait(reason, waiting_on=call.call_id), call.branch)
    reason = f"call {call.call_id} may still act for {left_ms / 1000:.0f} s"
    return live.wait(Wait(reason, waiting_on=call.call_id, wake_at=live.wall() + left_ms), call.branch)


def _file_late(call: Call, number: int, identifier: str, attempt: Attempt) -> None:
    """A late result of the attempt, under the same epoch, is its own evidence; runs in the attempt's thread.  Where the
    run has been cancelled meanwhile, it settles the call.
    """
    if attempt.error is not None:
        return
    live = call.live
    try:
        data, _ = call.policy.codec.round_trip(attempt.value)
        answer = Answer(
            run_no=live.run.run_no,
            request_id=identifier,
            verdict=Verdict.HAPPENED,
            value=data,
            by="late-result",
            note=None,
            at=live.wall(),
            epoch=live.epoch,
            settles=CallChange(
                seq=call.seq,
                state=CallState.SUCCEEDED,
                attempt=number,
                epoch=live.epoch,
                result=data,
                ended_at=live.wall(),
                checksum=call.checksum(CallState.SUCCEEDED, data),
            ),
        )
        live.io.queue.submit(answer)
    except JumarError:
        return  # the request stays open, and a person settles it
