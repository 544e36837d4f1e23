"""Finishing a rollback: files first, then what was done outside, then the new head.

The intent was committed with the claim that began it, so whoever takes the run over goes on here, whatever was done
before: files that are back already need nothing, each compensation is a recorded call, and the head's own commit ends
the intent.  An order that comes meanwhile is obeyed after that.  Where somebody must say what becomes of a call that
could not be undone, the run waits in the middle of it.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from jumar.core.changes import Ack, Advance, Ending, Guard, Head, Refusal
from jumar.core.intents import Intent, pack_intent
from jumar.core.naming import checkpoint_name
from jumar.core.records import CallRecord, CheckpointRecord, EventRecord, RunRecord
from jumar.core.requests import Commit, Flow, Load
from jumar.core.restoring import Report
from jumar.core.rollbacks import closing
from jumar.core.states import CallKind, CallState, Control, EventKind, Level, Status
from jumar.engine.flows.advance import leave
from jumar.engine.flows.compensating import Compensation, Undoers, compensate
from jumar.engine.flows.ended import reread
from jumar.engine.flows.orders import obey
from jumar.engine.flows.restoring import known_after, put_files_back
from jumar.engine.halting import Wait
from jumar.engine.live import LiveRun
from jumar.engine.logs import INFO, log
from jumar.errors import IntegrityError

TRIGGER = "rollback"  # of the checkpoint that a new head begins with


class Rolled(Struct, frozen=True):
    """What became of a rollback: the run as it stands, calls that were undone and that are left (with why), calls about
    which nothing is asked any more, and what was done with the files.  It is `over` unless the run waits in it.
    """

    run: RunRecord
    over: bool
    undone: tuple[CallRecord, ...] = ()
    left: tuple[tuple[CallRecord, str], ...] = ()
    withdrawn: tuple[str, ...] = ()
    report: Report | None = None


def finish(live: LiveRun, intent: Intent, undoers: Undoers, *, waits: bool, goes_on: bool) -> Flow[Rolled]:
    """Carry out a rollback, or what is left of it.

    With `goes_on` the run stays RUNNING under the same lease, unless an order says otherwise; else it is left as the
    intent says.  `waits` where compensations are awaited.
    """
    live.defers = True
    report = None
    if intent.tree is not None and not intent.restored:
        restored = yield from put_files_back(live, intent)
        if isinstance(restored, Wait):
            return (yield from _waiting(live, restored, Rolled(live.run, over=False)))
        report = restored
        if not intent.only_files:
            intent = replace(intent, restored=True)
            told = (EventRecord(EventKind.RESTORED, live.wall(), None, live.epoch, f"version {intent.target}"),)
            yield from _write(live, replace(_next(live), intent=pack_intent(intent), drops=(0,), events=told))
    if intent.only_files:
        return (yield from _settled(live, intent, (yield from known_after(live, intent)), report))
    while True:
        rolled, wait = yield from _undone(live, intent, undoers, report, waits=waits)
        if wait is not None:
            rolled = yield from _waiting(live, wait, rolled)
            if rolled.run is not live.run:
                return rolled
            continue  # an answer has come meanwhile
        return (yield from _headed(live, intent, rolled, goes_on=goes_on or intent.goes_on))


def _undone(
    live: LiveRun, intent: Intent, undoers: Undoers, report: Report | None, *, waits: bool
) -> Flow[tuple[Rolled, Wait | None]]:
    """Undo one call after the other, the newest first, until all are dealt with or one waits."""
    run_no = live.run.run_no
    calls = {call.seq: call for call in (yield from Load(lambda store: store.calls(run_no)))}
    live.go_on_after(max(calls, default=0))
    begun = {call.key: call for call in calls.values() if call.kind is CallKind.COMPENSATION}
    undone: list[CallRecord] = []
    left: list[tuple[CallRecord, str]] = []
    wait: Wait | None = None
    for seq in intent.undo:
        original = calls.get(seq)
        if original is None:
            raise IntegrityError(f"call number {seq} of run {live.run_id}, which is to be undone, is missing")
        record = begun.get(original.call_id)
        done = Compensation(undone=True)
        if original.state is not CallState.COMPENSATED:
            with live.making(seq):
                done = yield from compensate(live, original, record, undoers, waits=waits)
        wait = done.wait
        if wait is not None:
            break
        if done.undone:
            undone.append(original)
        else:
            left.append((original, done.why))
    return Rolled(live.run, over=False, undone=tuple(undone), left=tuple(left), report=report), wait


def _waiting(live: LiveRun, wait: Wait, rolled: Rolled) -> Flow[Rolled]:
    """Leave the run waiting in the middle of its rollback; as it was (`live.run`) where an answer came meanwhile."""
    ending = Ending(status=Status.WAITING, wake_at=wait.wake_at, waiting_on=wait.waiting_on)
    event = EventRecord(EventKind.WAITING, live.wall(), None, live.epoch)
    answers = live.answers
    while (yield from leave(live, live.phase, ending, (), (event,))) is None:
        if live.answers != answers:
            return rolled  # else an order came, which waits until the rollback is over
    log(INFO, live.run_id, None, "the run waits in the middle of its rollback: %s", wait.reason)
    return replace(rolled, run=(yield from reread(live)))


# --- The new head. ---------------------------------------------------------------------------------------------------


def _headed(live: LiveRun, intent: Intent, rolled: Rolled, *, goes_on: bool) -> Flow[Rolled]:
    withdrawn = yield from _closed(live, intent)
    while True:
        at = live.wall()
        event = EventRecord(EventKind.ROLLED_BACK, at, None, live.epoch, f"version {intent.target}")
        stays = goes_on or live.control == Control.CANCEL
        change = replace(
            _next(live),
            phase=intent.phase,
            step=intent.step,
            drops=(0,),
            events=(event,),
            head=Head(base=intent.target),
            after=_checkpoint(live, intent, at),
            ending=None if stays else Ending(status=Status.PAUSED),
        )
        if (yield from _write(live, change)) is not None:
            break
    log(INFO, live.run_id, None, "the run is back at version %d", intent.target)
    live.phase, live.step_index = intent.phase, intent.step
    live.defers = False
    run = yield from reread(live)
    if stays and live.control:  # an order that came meanwhile
        live.run = run
        live.order(live.control)
        run = (yield from obey(live)).run
    return replace(rolled, run=run, over=True, withdrawn=withdrawn)


def _closed(live: LiveRun, intent: Intent) -> Flow[tuple[str, ...]]:
    """Close what will not be made, in an advance before the new head, which thereby leaves that end behind too; answers
    the ids of the calls about which nothing is asked any more.
    """
    run_no = live.run.run_no
    calls = yield from Load(lambda store: store.calls(run_no))
    requests = yield from Load(lambda store: store.requests(run_no, unanswered=True))
    closed = closing(live.run.line, intent.target, calls, requests, live.wall())
    if closed.changes or closed.withdraws:
        identifiers = tuple(each.request_id for each in closed.withdraws)
        rows = {"changes": closed.changes, "frees": closed.frees, "withdraws": identifiers}
        yield from _write(live, replace(_next(live), **rows))
    return tuple(dict.fromkeys(each.call_id for each in closed.withdraws))


def _checkpoint(live: LiveRun, intent: Intent, at: int) -> CheckpointRecord:
    return CheckpointRecord(
        checkpoint_name(live.run.task, TRIGGER, Level.TASK, at),
        Level.TASK,
        TRIGGER,
        base_version=intent.target,
        step=intent.step,
        phase=intent.phase,
        context=intent.context,
        created_at=at,
        tree=intent.tree,
        environment=intent.environment,
    )


def _settled(live: LiveRun, intent: Intent, tree: bytes | None, report: Report | None) -> Flow[Rolled]:
    """Only files were put back, so that they are as in `tree` now: the run is left as it was."""
    former = intent.former
    status = Status.QUEUED if former.status is Status.RUNNING else former.status
    ending = Ending(
        status=status,
        wake_at=former.wake_at,
        waiting_on=former.waiting_on,
        output_digest=former.output_digest,
        error_class=former.error_class,
        error_type=former.error_type,
        error_message=former.error_message,
        failed_calls=former.failed_calls,
    )
    told = EventRecord(EventKind.RESTORED, live.wall(), None, live.epoch, f"paths of version {intent.target}")
    at, run = live.wall(), live.run
    kept = CheckpointRecord(
        checkpoint_name(run.task, TRIGGER, Level.TOOL, at),
        Level.TOOL,
        TRIGGER,
        base_version=run.line[-1][1] if run.line else 0,
        step=run.step,
        phase=run.phase,
        created_at=at,
        tree=tree,
    )
    change = replace(_next(live), settles=True, drops=(0,), events=(told,), ending=ending)
    if tree is not None:
        change = replace(change, after=kept)
    answers = live.answers
    while (yield from _write(live, change)) is None:
        if live.answers != answers and status is Status.WAITING:  # what it waited for has come
            ending = Ending(status=Status.QUEUED)
        change = replace(change, control=live.control, answers=live.answers, ending=ending)
    return Rolled((yield from reread(live)), over=True, report=report)


def _next(live: LiveRun) -> Advance:
    """An advance that changes nothing yet."""
    return Advance(
        run_no=live.run.run_no,
        owner=live.owner,
        epoch=live.epoch,
        phase=live.phase,
        step=live.run.step,
        ttl_ms=live.ttl_ms,
        at=live.wall(),
        control=live.control,
        answers=live.answers,
    )


def _write(live: LiveRun, change: Advance) -> Flow[Ack | None]:
    """Commit it; None where an order or an answer has come, which `live` has seen then."""
    live.check()
    sent_at = live.clock()
    outcome = yield from Commit(change, live.lane)
    if isinstance(outcome, Ack):
        live.seen(sent_at)
        if outcome.control > live.control:
            live.order(outcome.control)
        return outcome
    assert isinstance(outcome, Refusal)
    if outcome.guard is not Guard.NEWS or outcome.run is None:
        raise live.refused(outcome)
    live.lane.version -= 1
    live.answers = outcome.run.answers
    if outcome.run.control > live.control:
        live.order(outcome.run.control)
    return None
