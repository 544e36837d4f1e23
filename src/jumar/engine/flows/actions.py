"""Actions with a name: taking it, and what to do where another call holds it.

A name is taken in the advance that commits STARTED.  Where another call holds it that advance makes this call AWAITING
instead, and the holder decides: done with the same arguments, its result is this call's too; done with others, that is
a conflict; under way, this call waits, in place where the holder is of the same run, else as a run that waits with
`wake_at`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.core import exceptions
from jumar.core.changes import Take
from jumar.core.codec import digest
from jumar.core.identities import Standing, check_identity, standing
from jumar.core.records import CallRecord, IdentityRecord
from jumar.core.requests import Flow, Sleep
from jumar.core.states import Effect, ErrorClass, EventKind
from jumar.engine.flows.outcomes import load, raised, record_failure, record_success
from jumar.engine.flows.settling import Settled, until_sure
from jumar.engine.halting import Wait
from jumar.errors import IdentityConflict, IntegrityError, JumarError, NotStorable, UsageError

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call

_LOOK_SECONDS = 0.05
_NOBODY = (0, 0)  # what an action that was undone is held by


def named(call: Call) -> str | None:
    """The name of the action that a call asks for, from the arguments it is sent with."""
    policy = call.policy
    if policy.identity is None:
        return None
    try:
        name = policy.identity(*call.args, **call.kwargs)
    except Exception as error:
        raise UsageError(
            f"the identity of {policy.name} raised {type(error).__name__}: {error}",
            hint="identity= gets the tool's own arguments, and answers a text.",
        ) from error
    return check_identity(policy.name, name)


def take_of(call: Call) -> tuple[Take, ...]:
    """What the STARTED advance takes."""
    if call.identity is None:
        return ()
    scope, instead = call.identity_scope, call.instead_of
    take = Take(
        seq=call.seq,
        scope=scope,
        key=call.identity,
        args_digest=call.effective,
        instead_of=instead,
        undone=call.undone,
    )
    return (take,)


def frees_of(call: Call) -> tuple[int, ...]:
    """What the STARTED advance gives up: the name of an earlier attempt, where a person has made another action of the
    call since.  That of an `idempotent` call is kept, because the attempt may have done what it names.
    """
    record = call.record
    if record is None or record.identity in (None, call.identity) or call.policy.effect is Effect.IDEMPOTENT:
        return ()
    return (call.seq,)


def held(call: Call, made: int) -> Flow[Settled | None]:
    """Another call holds the name.  Answers that call's result, recorded as this one's, or None where the name may be
    tried for again; raises where this call must wait, or conflicts.
    """
    live = call.live
    live.ride_event(EventKind.IDENTITY_HELD, call.seq, "")
    while True:
        live.check()
        holder = yield from _holder(call)
        if holder is None:
            return None
        record = yield from _call_of(call, holder)
        stands = standing(record, holder.args_digest == call.effective)
        if stands is Standing.DONE:
            return (yield from _same_again(call, holder, record, made))
        if stands is Standing.CONFLICT:
            raise (yield from _conflict(call, holder, record, made))
        if stands is Standing.UNDER_WAY:
            yield from _wait(call, holder, record)
            continue
        if stands is Standing.GONE_ONCE_SURE:
            _wait_until_sure(call, holder, record)
        call.instead_of = (holder.run_no, holder.call_seq)
        return None


def _holder(call: Call) -> Flow[IdentityRecord | None]:
    """Who holds the name; None where nobody does any more, or this call itself.  With it comes how often the action was
    undone, which the next attempt to take the name must know.
    """
    run_no, scope, key = call.live.run.run_no, call.identity_scope, call.identity
    assert key is not None
    holder = yield from load(call.live, lambda store: store.identity(scope, run_no, key))
    call.undone = 0 if holder is None else holder.undone
    return None if holder is None or (holder.run_no, holder.call_seq) in ((run_no, call.seq), _NOBODY) else holder


def _call_of(call: Call, holder: IdentityRecord) -> Flow[CallRecord]:
    record = yield from load(call.live, lambda store: store.call(holder.run_no, holder.call_seq))
    if record is None:
        raise call.live.stop(IntegrityError(f"the call that holds the identity {holder.key} is missing"))
    return record


def _wait(call: Call, holder: IdentityRecord, record: CallRecord) -> Flow[None]:
    """The holder is under way: wait for it in place where this process makes it, else let the run wait."""
    live = call.live
    if holder.run_no == live.run.run_no:
        if any(given_up.seq == record.seq for given_up in live.given_up):
            from jumar.engine.flows.giving_up import settle_given_up

            yield from settle_given_up(live)
            return
        if live.is_making(record.seq):
            yield from Sleep(_LOOK_SECONDS)
            return
    reason = f"{holder.key} is under way as {record.call_id} of run {holder.run_id}"
    raise live.wait(Wait(reason, call.call_id, live.wall() + live.ttl_ms), call.branch)


def _wait_until_sure(call: Call, holder: IdentityRecord, record: CallRecord) -> None:
    """Somebody said of a call, when its run had ended, that it did not happen: as in a run that goes on, that counts
    once nothing of the attempt can act any more.
    """
    live = call.live
    left = until_sure(call, record, record.dispatch_by, None) - live.clock()
    if left > 0:
        reason = f"{record.call_id} of run {holder.run_id} may still act for {left / 1000:.0f} s"
        raise live.wait(Wait(reason, call.call_id, live.wall() + left), call.branch)


def _same_again(call: Call, holder: IdentityRecord, record: CallRecord, made: int) -> Flow[Settled]:
    value = yield from _result(call, holder, record)
    return Settled(True, (yield from record_success(call, made, value, 0, call.live.wall(), new=False)))


def _result(call: Call, holder: IdentityRecord, record: CallRecord) -> Flow[Any]:
    """What the holder returned, read by this tool's type; as an error where there is nothing to be read."""
    data = record.result
    if data is None and record.result_artifact is not None:
        name = record.result_artifact
        data = yield from load(call.live, lambda store: store.artifact(holder.run_no, name))
        if data is None or digest(data) != name:
            raise call.live.stop(IntegrityError(f"the result of {record.call_id} of run {holder.run_id} is lost"))
    if data is None:
        return NotStorable(f"{record.call_id} of run {holder.run_id} happened, and its result could not be recorded")
    try:
        return call.policy.codec.decode(data)
    except NotStorable as error:
        return error


def _conflict(call: Call, holder: IdentityRecord, record: CallRecord, made: int) -> Flow[Exception]:
    where = f"{record.call_id} of run {holder.run_id}"
    error: JumarError = IdentityConflict(
        f"{holder.key} was asked for with other arguments by {where}", holder=f"{holder.run_id}/{record.call_id}"
    )
    failure = exceptions.failure_of(error, ErrorClass.PERMANENT, (IdentityConflict,))
    yield from record_failure(call, made, failure, 0, call.live.wall(), new=False)
    return raised(call, failure)
