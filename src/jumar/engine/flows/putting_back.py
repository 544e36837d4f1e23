"""Putting files back as they were before a write that did not come to a good end.

A forced restore of what the write declared: whatever stands there now is in the restore's safety snapshot.  A path
that cannot be put back (something else is in its place, or it is being changed again) leaves the call UNCERTAIN and its
paths held, and the run waits: nobody is told that files are back which are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.core.changes import CallChange
from jumar.core.checksums import call_checksum, failure_bytes
from jumar.core.failures import short_message
from jumar.core.records import CallRecord, Failure
from jumar.core.requests import Flow, Load, Restore, Sleep
from jumar.core.states import CallState, Control, Effect, ErrorClass, EventKind, Strategy
from jumar.core.strategies import of_call
from jumar.engine.behind import unwritten
from jumar.engine.flows.advance import advance
from jumar.engine.flows.outcomes import raised, record_failure
from jumar.engine.flows.places import ended, taken, taken_at_rest
from jumar.engine.flows.settling import note_given_up
from jumar.engine.halting import Wait
from jumar.engine.live import LiveRun
from jumar.engine.logs import WARNING, log
from jumar.engine.scope import Branch
from jumar.errors import IntegrityError, WorkspaceError

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call

_LEFT = Failure("CutOff", "it was cut off, and its files are left as they are", ErrorClass.POLLUTED)
_TRIES = 3  # restores, where files are changed again while they are put back
_LOOK_SECONDS = 0.1


def put_back(live: LiveRun, root: str, seq: int, call_id: str, before: bytes, branch: Branch | None) -> Flow[None]:
    """Restore the snapshot `before` in a place that the caller has taken; raises where the run must wait for it."""
    try:
        left = yield from restored(live, root, seq, call_id, before)
    except Exception as error:
        raise live.stop(unwritten(error)) from error
    if left is not None:
        reason = f"the files of {call_id} cannot be put back: {left}"
        raise live.wait(Wait(reason, call_id, live.wall() + live.ttl_ms), branch)


def restored(live: LiveRun, root: str, seq: int, call_id: str, before: bytes) -> Flow[str | None]:
    """Restore the snapshot `before`; answers what could not be put back, or None.  What is not about the files
    themselves is raised as it is.
    """
    left: str | None = None
    for number in range(_TRIES):
        if number:
            yield from Sleep(_LOOK_SECONDS)
        live.check_lease()
        try:
            report: Any = yield from Restore(root, before, force=True, skip=True)
        except WorkspaceError as error:
            left = error.what
            continue
        live.progress_at = live.clock()
        left = _left(report)
        if left is None:
            live.ride_event(EventKind.PUT_BACK, seq, f"{len(report.paths)} paths")
            log(WARNING, live.run_id, call_id, "its files are put back (%d paths)", len(report.paths))
            return None
    live.ride_event(EventKind.PUT_BACK, seq, "incomplete")
    log(WARNING, live.run_id, call_id, "its files could not be put back: %s", left)
    return left


def _left(report: Any) -> str | None:
    from jumar.core.restoring import Outcome

    if report.complete:
        return None
    stuck = [each for each in report.paths if each.outcome in (Outcome.CONFLICT, Outcome.FAILED)]
    more = f" and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    return f"{stuck[0].text} ({stuck[0].reason}){more}"


def after_cut_off(call: Call, record: CallRecord) -> Flow[None]:
    """Do what the strategy says about a write that may have been cut off: return where the call is to be made again,
    its files put back unless a strategy wants them left; raise where it is to fail as it stands.
    """
    live, number = call.live, record.attempt
    strategy = of_call(Effect.WRITE, ErrorClass.POLLUTED, call.strategy)
    try:
        if strategy is Strategy.ROLLBACK:
            yield from put_back_uncertain(call, record)
            return
        live.dirty = True
        yield from ended(live, live.io.going_on.get((live.run_id, record.seq, number)), call.branch, call.call_id)
    except BaseException as given_up:
        note_given_up(call, number, given_up, CallState.UNCERTAIN, new=False, over_at=record.over_at)
        raise
    if strategy is Strategy.FORWARD:
        failure = record.failure or _LEFT
        yield from record_failure(call, number, failure, record.started_at, live.wall(), new=False, freed=True)
        raise raised(call, failure)


def put_back_uncertain(call: Call, record: CallRecord) -> Flow[None]:
    """Put the files of a write back that may have been cut off, by another process or earlier in this one."""
    live, root = call.live, call.live.run.workspace
    if record.before is None or root is None:
        raise live.stop(IntegrityError(f"what the files were like before {record.call_id} is not recorded"))
    yield from ended(live, live.io.going_on.get((live.run_id, record.seq, record.attempt)), call.branch, call.call_id)
    place = yield from taken(live, root, record.seq, (), call.branch, call.call_id, record.before)
    try:
        yield from put_back(live, root, record.seq, record.call_id, record.before, call.branch)
    finally:
        place.leave()
    live.io.going_on.pop((live.run_id, record.seq, record.attempt), None)


# --- A run that is left. ---------------------------------------------------------------------------------------------

_CUT_OFF = Failure("CutOff", "it was cut off, and its files are put back", ErrorClass.CANCELLED)


def settle_writes(live: LiveRun) -> Flow[None]:
    """Put back the files of every write that may have been cut off, before the run is left by an order, or as one that
    has failed.  What cannot be put back stays UNCERTAIN, and its paths held: whoever takes the run up again tries anew,
    and of a run that has ended a person is asked.
    """
    run_no, root = live.run.run_no, live.run.workspace
    assert root is not None
    for record in (yield from Load(lambda store: store.calls(run_no))):
        if record.effect is not Effect.WRITE or record.state is not CallState.UNCERTAIN or record.before is None:
            continue
        try:
            left = yield from _restored_at_rest(live, root, record)
        except Exception as error:  # what it was like before cannot be read, say; that must keep nobody from leaving
            left = short_message(error)
        if left is None:
            live.io.going_on.pop((live.run_id, record.seq, record.attempt), None)
            yield from _settled(live, record)
        else:
            log(WARNING, live.run_id, record.call_id, "its files are not put back: %s", left)


def _restored_at_rest(live: LiveRun, root: str, record: CallRecord) -> Flow[str | None]:
    """Put back what a write may have written; answers why that cannot be done now, or None."""
    assert record.before is not None
    place = yield from taken_at_rest(live, root, record)
    if place is None:
        return "they are still being written"
    try:
        return (yield from restored(live, root, record.seq, record.call_id, record.before))
    finally:
        place.leave()


def _settled(live: LiveRun, record: CallRecord) -> Flow[None]:
    """A write whose files are put back: it is to be made again, or, where the run ends or its agent gave it up, has
    failed.
    """
    failure = record.failure or _CUT_OFF
    final = live.control == Control.CANCEL or failure.cancelled
    state = CallState.FAILED if final else CallState.PLANNED
    packed = failure_bytes(failure)
    change = CallChange(
        seq=record.seq,
        state=state,
        attempt=record.attempt,
        epoch=live.epoch,
        failure=failure,
        ended_at=live.wall() if final else None,
        checksum=call_checksum(record.call_id, record.args_digest, record.kind, record.effect, state, None, packed),
    )
    frees = (record.seq,) if final and record.identity is not None else ()
    yield from advance(live, changes=(change,), frees=frees, drops=(record.seq,))
