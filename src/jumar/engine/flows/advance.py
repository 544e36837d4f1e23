"""Making one advance of a live run."""

from __future__ import annotations

from jumar.core.changes import Ack, Advance, CallChange, Ending, Guard, Refusal
from jumar.core.codec import digest, encode_arguments
from jumar.core.phases import check_phase
from jumar.core.records import Artifact, CallRecord, CheckpointRecord, EventRecord, RequestRecord
from jumar.core.requests import Commit, Flow
from jumar.core.states import Phase
from jumar.engine.live import LiveRun
from jumar.errors import NotStorable, StoreError


def advance(
    live: LiveRun,
    *,
    calls: tuple[CallRecord, ...] = (),
    changes: tuple[CallChange, ...] = (),
    artifacts: tuple[Artifact, ...] = (),
    requests: tuple[RequestRecord, ...] = (),
    events: tuple[EventRecord, ...] = (),
    after: CheckpointRecord | None = None,
) -> Flow[Ack]:
    """Record facts of a run that goes on.  Raises Stopped where a guard refuses or the store fails."""
    outcome = yield from _commit(live, calls, changes, artifacts, requests, events, after, live.phase, None)
    if type(outcome) is Ack:
        return outcome
    raise live.refused(outcome)


def leave(
    live: LiveRun, phase: Phase, ending: Ending, artifacts: tuple[Artifact, ...], events: tuple[EventRecord, ...]
) -> Flow[Ack | None]:
    """Take a run out of RUNNING; None where an operator's answer or order came in between, which `live` has seen then."""
    check_phase(live.phase, phase)
    outcome = yield from _commit(live, (), (), artifacts, (), events, None, phase, ending)
    if type(outcome) is Ack:
        return outcome
    assert isinstance(outcome, Refusal)
    if outcome.guard is Guard.NEWS and outcome.run is not None:
        # Nothing was written, so the version given to this advance is the next one's.
        live.lane.version -= 1
        live.control, live.answers = outcome.run.control, outcome.run.answers
        return None
    raise live.refused(outcome)


def _commit(
    live: LiveRun,
    calls: tuple[CallRecord, ...],
    changes: tuple[CallChange, ...],
    artifacts: tuple[Artifact, ...],
    requests: tuple[RequestRecord, ...],
    events: tuple[EventRecord, ...],
    after: CheckpointRecord | None,
    phase: Phase,
    ending: Ending | None,
) -> Flow[Ack | object]:
    halt = live.halt
    if halt is not None and halt.error is not None:
        raise halt.signal()
    before = None
    riders = live.take_riders()
    if riders is not None:
        calls += tuple(riders.calls)
        changes += tuple(riders.changes)
        events += tuple(riders.events)
        before = riders.before
    if (before is not None or after is not None) and live.context:
        before, after, kept = _with_context(live, before, after)
        artifacts += kept
    change = Advance(
        run_no=live.run.run_no,
        owner=live.owner,
        epoch=live.epoch,
        phase=phase,
        step=live.step_index,
        ttl_ms=live.settings.ttl_ms,
        at=live.wall(),
        calls=calls,
        changes=changes,
        artifacts=artifacts,
        before=before,
        after=after,
        requests=requests,
        events=events,
        ending=ending,
    )
    sent_at = live.clock()
    try:
        outcome = yield Commit(change, live.lane)
    except StoreError as error:
        raise live.stop(error) from error
    if type(outcome) is Ack:
        live.seen(outcome, sent_at)
    return outcome


def _with_context(
    live: LiveRun, before: CheckpointRecord | None, after: CheckpointRecord | None
) -> tuple[CheckpointRecord | None, CheckpointRecord | None, tuple[Artifact, ...]]:
    from msgspec.structs import replace

    try:
        data = encode_arguments(live.context)
    except NotStorable as error:
        raise NotStorable(f"run.context: {error.what}", path=error.path, hint=error.hint) from error
    name = digest(data)
    before = None if before is None else replace(before, context=name)
    after = None if after is None else replace(after, context=name)
    return before, after, (Artifact(name, data),)
