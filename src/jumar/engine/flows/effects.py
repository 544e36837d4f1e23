"""Making a call: attempts, retries, and what becomes of one that may have happened.

A read is run and recorded in one advance.  Anything else commits STARTED first, so that whoever takes the run over
knows that it may have been sent.  How each end is judged stands in `core.uncertain`; this file only carries it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from jumar.core.changes import CallChange, Hold
from jumar.core.failures import Sorted, backoff
from jumar.core.identities import did_nothing, is_freed
from jumar.core.naming import is_in_step
from jumar.core.records import EventRecord, Failure
from jumar.core.requests import Attempt, Flow, Sleep
from jumar.core.states import CallState, Effect, ErrorClass, EventKind, Strategy
from jumar.core.strategies import is_made_again
from jumar.core.triggers import BEFORE_CALL, ON_RETRYABLE_ERROR, retries
from jumar.core.uncertain import Ended, Judgement, judge
from jumar.engine.flows.actions import frees_of, held, take_of
from jumar.engine.flows.advance import advance
from jumar.engine.flows.approving import ask_approval
from jumar.engine.flows.keeping import ready
from jumar.engine.flows.outcomes import (
    drops_of,
    failure_of,
    how_ended,
    new_record,
    raised,
    record_failure,
    record_success,
)
from jumar.engine.flows.settling import note_given_up, note_uncertain, settle_external
from jumar.engine.halting import Wait
from jumar.engine.logs import WARNING, log

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call


class Record(Protocol):
    """What records the value that a read returned, and answers what is made of it."""

    def __call__(
        self, call: Call, attempt: int, value: Any, started_at: int, ended_at: int, *, new: bool
    ) -> Flow[Any]: ...


def make_read(call: Call, attempt: int, *, new: bool, record: Record = record_success) -> Flow[Any]:
    """Run a read and record its result; try again after a passing error while the tool's retries last."""
    live = call.live
    first = attempt
    while True:
        live.before_dispatch()
        live.begin(call.seq, call.policy.timeout)
        try:
            ended: Attempt = yield call.invocation(attempt)
        finally:
            live.end(call.seq)
        error = None if ended.timed_out else ended.error
        if error is None and not ended.timed_out:
            return (yield from record(call, attempt, ended.value, ended.started_at, ended.ended_at, new=new))
        if error is not None and not isinstance(error, Exception):
            note_given_up(call, attempt, error, CallState.FAILED, new=new, ended=ended)
            raise error
        how, sorted_error = how_ended(call, ended, live.wall())
        failure = failure_of(call, how, sorted_error, error)
        if not is_made_again(Effect.READ, how, call.strategy) or attempt >= last_attempt(call, first):
            note_returning(call)
            yield from record_failure(call, attempt, failure, ended.started_at, ended.ended_at, new=new)
            raise raised(call, failure) from error
        new = yield from pause(call, attempt, failure, sorted_error, new=new)
        attempt += 1


def make_effect(call: Call, attempt: int, *, new: bool) -> Flow[Any]:
    """Commit STARTED, send, record; and where the end leaves it open whether it happened, settle that first."""
    live = call.live
    last = last_attempt(call, attempt)
    # Whether it surely did nothing so far, so that it gives its name up should it fail.
    freed = did_nothing(call.policy.effect, attempt - 1, None if call.record is None else call.record.failure)
    while True:
        live.before_dispatch()
        dispatch_by = yield from start(call, attempt, new=new)
        new = False
        if dispatch_by is None:
            try:
                found = yield from held(call, attempt - 1)
            except BaseException as given_up:
                note_given_up(call, attempt - 1, given_up, CallState.FAILED, new=False)
                raise
            if found is not None:
                return found.value
            continue
        ended = yield from send(call, attempt, dispatch_by)
        if live.run.workspace is not None:
            live.dirty = True  # whatever else it did, it may have changed files
        error = None if ended is None or ended.timed_out else ended.error
        if error is not None and not isinstance(error, Exception):
            assert ended is not None
            left = CallState.UNCERTAIN if ended.sent else CallState.FAILED
            note_given_up(call, attempt, error, left, new=False, ended=ended, freed=freed and not ended.sent)
            raise error
        how, sorted_error = (Ended.NOT_SENT, None) if ended is None else how_ended(call, ended, live.wall())
        freed = freed and is_freed(call.policy.effect, how)
        judgement = judge(call.policy.effect, how)
        if judgement is Judgement.SUCCEEDED:
            assert ended is not None
            return (yield from record_success(call, attempt, ended.value, ended.started_at, ended.ended_at, new=False))
        failure = not_sent(call) if ended is None else failure_of(call, how, sorted_error, error)
        if judgement is Judgement.UNCERTAIN:
            assert ended is not None
            yield from note_uncertain(call, attempt, failure, ended.over_at)
            settled = yield from settle_external(call, attempt, None, dispatch_by, ended)
            if settled.known:
                return settled.value
            if attempt < last and call.strategy in (None, Strategy.RETRY):
                if call.needs_yes:
                    raise (yield from ask_approval(call, attempt, new=False))
                attempt += 1
                continue
        if attempt >= last or not is_made_again(call.policy.effect, how, call.strategy):
            note_returning(call)
            times = (0, live.wall()) if ended is None else (ended.started_at, ended.ended_at)
            yield from record_failure(call, attempt, failure, *times, new=False, freed=freed)
            raise raised(call, failure) from error
        yield from pause(call, attempt, failure, sorted_error, new=False, freed=freed)
        attempt += 1


def note_returning(call: Call) -> None:
    """The call fails for good; should the run fail with it, that goes back where the call's strategy says so."""
    if call.strategy is Strategy.ROLLBACK:
        call.live.returning[call.seq] = last_attempt(call, 1) - 1


def last_attempt(call: Call, attempt: int) -> int:
    """The number of the last attempt: those of earlier processes and before long pauses count too, but one is made."""
    most = call.policy.retries
    if most is None:
        most = retries(call.live.settings.triggers, call.policy.effect, in_step=is_in_step(call.step))
    return max(attempt, 1 + most)


def invoke(call: Call, attempt: int) -> Flow[Attempt]:
    """Run the body once, known to the renewal thread meanwhile."""
    live = call.live
    live.begin(call.seq, call.policy.timeout)
    try:
        ended: Attempt = yield call.invocation(attempt)
        return ended
    finally:
        live.end(call.seq)


def start(
    call: Call, attempt: int, *, new: bool, before: bytes | None = None, holds: tuple[Hold, ...] = ()
) -> Flow[int | None]:
    """Commit STARTED; answers the deadline on the lease clock past which the call must not be sent, or None where
    another call holds the name of the action, or one of the paths, and this one waits.  `before` is the snapshot of the
    files that it may write.
    """
    live = call.live
    if live.must_look:
        yield from ready(live, BEFORE_CALL[call.policy.effect])
    live.ride_checkpoint(BEFORE_CALL[call.policy.effect], call.step, live.kept_context())
    now = live.clock()
    dispatch_by = now + live.settings.dispatch_ms
    wall = live.wall()
    told = (EventRecord(EventKind.CALL_STARTED, wall, call.seq, live.epoch, f"attempt {attempt}"),)
    if new:
        record, artifacts = new_record(
            call, CallState.STARTED, attempt, boot=live.run.boot, dispatch_by=dispatch_by, started_at=wall
        )
        if before is not None or call.undone:
            record = replace(record, before=before, undone=call.undone)
        takes = take_of(call)
        ack = yield from advance(live, calls=(record,), artifacts=artifacts, events=told, takes=takes, holds=holds)
        return None if ack.taken else dispatch_by
    change = CallChange(
        seq=call.seq,
        state=CallState.STARTED,
        attempt=attempt,
        epoch=live.epoch,
        boot=live.run.boot,
        dispatch_by=dispatch_by,
        started_at=wall,
        checksum=call.checksum(CallState.STARTED),
        identity=call.identity,
        identity_scope=None if call.identity is None else call.identity_scope,
        before=before,
        undone=call.undone,
    )
    takes, frees = take_of(call), frees_of(call)
    ack = yield from advance(live, changes=(change,), events=told, takes=takes, frees=frees, holds=holds)
    return None if ack.taken else dispatch_by


def send(call: Call, attempt: int, dispatch_by: int) -> Flow[Attempt | None]:
    """Run the body; None where it must not be sent any more."""
    live = call.live
    if live.halt is not None:
        # Another branch stopped the run while STARTED was on its way to disk; this call was not sent, and the record
        # says so.
        yield from plan(call, attempt, not_sent(call), new=False)
        raise live.halt.signal()
    if live.clock() > dispatch_by:
        return None
    return (yield from invoke(call, attempt))


def not_sent(call: Call) -> Failure:
    return Failure(
        "NotApplied", f"{call.policy.name} was not sent: its deadline for being sent had passed", ErrorClass.TRANSIENT
    )


def pause(
    call: Call, attempt: int, failure: Failure, sorted_error: Sorted | None, *, new: bool, freed: bool = False
) -> Flow[bool]:
    """Wait before the next attempt: in place, or, longer than a lease, as a run that waits with `wake_at`.

    Answers whether the call still has no row.  An effect that is tried again is put back to PLANNED first, so that a
    crash during the pause leaves nothing uncertain.
    """
    from random import random  # a retry is rare, and `import jumar` is not

    live = call.live
    asked = sorted_error.retry_after if sorted_error is not None else None
    seconds = backoff(attempt, asked, random())
    if live.must_look:
        yield from ready(live, ON_RETRYABLE_ERROR)
    live.ride_checkpoint_after(ON_RETRYABLE_ERROR, call.step)
    live.ride_event(
        EventKind.RETRY, call.seq, f"attempt {attempt} {failure.error_class.label} {failure.type_name[:40]}"
    )
    why = f"{failure.type_name}: {failure.message}"
    log(WARNING, live.run_id, call.call_id, "attempt %d failed (%s); the next is in %.2f s", attempt, why, seconds)
    is_long = seconds > live.settings.lease_ttl
    if is_long or call.policy.effect is not Effect.READ:
        yield from plan(call, attempt, failure, new=new)
        new = False
    if is_long:
        wake_at = live.wall() + int(seconds * 1000)
        raise live.wait(Wait(f"call {call.call_id} is tried again later", None, wake_at), call.branch)
    try:
        yield from Sleep(seconds)
    except BaseException as error:
        note_given_up(call, attempt, error, CallState.FAILED, new=new, freed=freed)
        raise
    return new


def plan(call: Call, attempt: int, failure: Failure, *, new: bool) -> Flow[None]:
    """Record that this attempt came to nothing and that another may follow."""
    if new:
        checksum = call.checksum(CallState.PLANNED, failure=failure)
        record, artifacts = new_record(call, CallState.PLANNED, attempt, failure=failure, checksum=checksum)
        yield from advance(call.live, calls=(record,), artifacts=artifacts)
        return
    change = CallChange(
        seq=call.seq,
        state=CallState.PLANNED,
        attempt=attempt,
        epoch=call.live.epoch,
        failure=failure,
        checksum=call.checksum(CallState.PLANNED, failure=failure),
    )
    yield from advance(call.live, changes=(change,), drops=drops_of(call))
