"""Making one advance of a live run."""

from __future__ import annotations

from msgspec.structs import replace

from jumar.core.changes import Ack, Advance, CallChange, Ending, Guard, Hold, Refusal, Take
from jumar.core.phases import check_path, check_phase
from jumar.core.records import Artifact, CallRecord, CheckpointRecord, EventRecord, RequestRecord
from jumar.core.requests import Commit, Flow, Flush
from jumar.core.states import Phase
from jumar.engine.behind import behind_of, unwritten
from jumar.engine.live import LiveRun
from jumar.engine.riders import Riders


def advance(
    live: LiveRun,
    *,
    calls: tuple[CallRecord, ...] = (),
    changes: tuple[CallChange, ...] = (),
    artifacts: tuple[Artifact, ...] = (),
    requests: tuple[RequestRecord, ...] = (),
    events: tuple[EventRecord, ...] = (),
    after: CheckpointRecord | None = None,
    takes: tuple[Take, ...] = (),
    frees: tuple[int, ...] = (),
    holds: tuple[Hold, ...] = (),
    drops: tuple[int, ...] = (),
    phase: Phase | None = None,
    through: tuple[Phase, ...] = (),
    hot: bool = False,
) -> Flow[Ack]:
    """Record facts of a run that goes on.  Raises Stopped where a guard refuses or the store fails.

    With a `phase` the run goes to it, passing `through` others in the same commit.  A `hot` advance is not waited for,
    unless something rides along that has to be.
    """
    halt = live.halt
    if halt is not None and not halt.ours:
        raise halt.signal()
    if phase is not None:
        check_path(live.phase, *through, phase)
    at = live.wall()
    change = Advance(
        run_no=live.run.run_no,
        owner=live.owner,
        epoch=live.epoch,
        phase=live.phase if phase is None else phase,
        step=live.step_index,
        ttl_ms=live.ttl_ms,
        at=at,
        control=live.control,
        answers=live.answers,
        calls=calls,
        changes=changes,
        artifacts=artifacts,
        requests=requests,
        events=events,
        after=after,
    )
    if through or takes or frees:
        # Apart, because Python builds a dict for a call that names more than fifteen arguments.
        change = replace(change, through=through, takes=takes, frees=frees)
    if holds or drops:
        change = replace(change, holds=holds, drops=drops)
    riders = live.take_riders()
    if riders is not None:
        change = _laden(change, riders)
    sent_at = live.clock()
    hot = hot and (riders is None or riders.may_be_hot)
    told = behind_of(live).told(sent_at, None if after is None else calls[0].seq) if hot else None
    try:
        outcome = yield Commit(change, live.lane, told)
    except Exception as error:
        raise live.stop(unwritten(error)) from error
    if type(outcome) is Ack:
        if hot:
            live.progress_at = sent_at  # what the store says of the lease is told later
        else:
            live.seen(sent_at)
        if phase is not None:
            live.phase = phase
        if change.calls:
            live.newest_seq = max(live.newest_seq, change.calls[-1].seq)
        if outcome.control > live.control:
            live.order(outcome.control)
        return outcome
    raise live.refused(outcome)


def leave(
    live: LiveRun,
    phase: Phase,
    ending: Ending,
    artifacts: tuple[Artifact, ...],
    events: tuple[EventRecord, ...],
    *,
    changes: tuple[CallChange, ...] = (),
    requests: tuple[RequestRecord, ...] = (),
    frees: tuple[int, ...] = (),
) -> Flow[Ack | None]:
    """Take a run out of RUNNING; None where an operator's answer or order came in between, which `live` has seen
    then.
    """
    check_phase(live.phase, phase)
    if live.behind is not None:
        yield from flushed(live)
        live.behind.tell(events[0].at if events else live.wall())
    change = Advance(
        run_no=live.run.run_no,
        owner=live.owner,
        epoch=live.epoch,
        phase=phase,
        step=max(live.step_index, live.run.step),
        ttl_ms=live.ttl_ms,
        at=live.wall(),
        control=live.control,
        answers=live.answers,
        artifacts=artifacts,
        events=events,
        ending=ending,
        changes=changes,
        requests=requests,
        frees=frees,
    )
    riders = live.take_riders()
    try:
        outcome = yield Commit(change if riders is None else _laden(change, riders), live.lane)
    except Exception as error:
        raise live.stop(unwritten(error)) from error
    if type(outcome) is Ack:
        return outcome
    assert isinstance(outcome, Refusal)
    if outcome.guard is Guard.NEWS and outcome.run is not None:
        # Nothing was written: the version given to this advance is the next one's, and what rode along rides again.
        live.lane.version -= 1
        live.put_back(riders)
        live.answers = outcome.run.answers
        if outcome.run.control > live.control:
            live.order(outcome.run.control)
        return None
    raise live.refused(outcome)


def flushed(live: LiveRun) -> Flow[None]:
    """Wait until what the run has written hot is on disk.  Raises Stopped where that takes longer than its lease may be
    trusted.
    """
    try:
        yield from Flush(live.lane)
    except Exception as error:
        raise live.stop(unwritten(error)) from error


def _laden(change: Advance, riders: Riders) -> Advance:
    """The advance with the rows that ride along."""
    return replace(
        change,
        before=riders.before,
        calls=change.calls + tuple(riders.calls),
        changes=change.changes + tuple(riders.changes),
        artifacts=change.artifacts + riders.context,
        events=tuple(riders.events) + change.events,
        frees=change.frees + tuple(riders.frees),
        drops=change.drops + tuple(riders.drops),
    )
