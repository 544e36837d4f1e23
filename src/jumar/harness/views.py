"""From records to what a person or a program is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from jumar.core.codec import digest
from jumar.core.leases import seconds_left
from jumar.core.lines import Heads, counts, is_leftover, is_on_line
from jumar.core.moving import shown_message
from jumar.core.naming import idempotency_key
from jumar.core.open_requests import is_open
from jumar.core.phases import FINAL
from jumar.core.records import CallRecord, CheckpointRecord, EventRecord, RequestRecord, RunRecord
from jumar.core.states import CallKind, CallState, Effect, EventKind, RequestKind, Status, Storage, Verdict
from jumar.core.store import Store
from jumar.errors import IntegrityError
from jumar.harness.results import (
    AnswerView,
    CallView,
    CheckpointView,
    HolderView,
    NotUndone,
    RequestView,
    Rollback,
    RunInfo,
    RunView,
    TraceLine,
    WaitingOn,
)

if TYPE_CHECKING:
    from jumar.engine.flows.rolling_back import Rolled
    from jumar.engine.recovering import Planned

_decode = msgspec.json.Decoder().decode


def run_info(run: RunRecord, store: Store) -> RunInfo:
    """A run for a list; `lease_seconds` is what is left of a live lease."""
    left = seconds_left(run, store.now())
    return RunInfo(
        run.run_id,
        run.agent,
        run.task,
        run.status.name,
        run.phase.name,
        run.step,
        run.version,
        run.epoch,
        run.owner,
        left or None,
        run.wake_at,
        run.waiting_on,
        run.error_type,
        shown_message(run),
        run.created_at,
        run.updated_at,
        run.control.label,
        run.ordered_by,
        run.order_note,
        run.generation,
        run.line,
        run.workspace,
        _target(run),
        run.forked_from,
    )


def _target(run: RunRecord) -> int | None:
    """The version that a rollback goes back to which is under way; -1 where that cannot be read."""
    if run.intent is None:
        return None
    from jumar.core.intents import intent_of  # which a program that rolls nothing back never loads

    try:
        intent = intent_of(run)
    except IntegrityError:  # told when the run is taken up; it must not keep the others from being listed
        return -1
    return None if intent is None else intent.target


def waiting_on(run: RunRecord, store: Store) -> list[WaitingOn]:
    """What is still asked of somebody in a run, oldest first."""
    said = _Said(store)
    found = []
    for request in store.requests(run.run_no, unanswered=True):
        call = store.call(run.run_no, request.call_seq)
        if call is not None and is_open(request, call, run.status):
            found.append(asked_for(request, call, store, run, said))
    return found


def rollback_view(planned: Planned, rolled: Rolled | None, store: Store) -> Rollback:
    """What a rollback did; where it was only planned, what it would do."""
    point, run = planned.point, planned.run if rolled is None else rolled.run
    stand = planned.undoing.stand if rolled is None else (*planned.undoing.stand, *rolled.left)
    undone = planned.undoing.undo if rolled is None else rolled.undone
    return Rollback(
        run.run_id,
        point.version,
        point.name,
        run.version,
        run.status.name,
        planned.report if rolled is None else rolled.report,
        tuple(call.call_id for call in undone),
        tuple(NotUndone(call.call_id, call.tool, why) for call, why in stand),
        planned.withdrawn if rolled is None else rolled.withdrawn,
        rolled is None,
        () if rolled is None or rolled.over else tuple(waiting_on(run, store)),
        point.damaged,
    )


class _Said:
    """What the probes said last, out of the trace; each run's is read once, and only where it is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[int, dict[int, EventRecord]] = {}

    def about(self, run: RunRecord, call: CallRecord) -> EventRecord | None:
        """What was said last about this attempt of a call."""
        if run.run_no not in self._runs:
            events = self._store.events(run.run_no)
            self._runs[run.run_no] = {
                each.call_seq: each for each in events if each.kind is EventKind.PROBED and each.call_seq is not None
            }
        last = self._runs[run.run_no].get(call.seq)
        return last if last is not None and last.at >= call.started_at else None


def asked_for(request: RequestRecord, call: CallRecord, store: Store, run: RunRecord, said: _Said) -> WaitingOn:
    """One open request, with what its call tells of it."""
    data = call.args
    if data is None and call.args_artifact is not None:
        data = store.artifact(run.run_no, call.args_artifact)
    if request.kind is RequestKind.RESOLVE:
        sent = _approved_arguments(store.requests(run.run_no, call.seq)).get(call.seq)
        data = data if sent is None else sent
    else:
        sent = None
    args = _value(data)
    details = args if call.kind is CallKind.ASK and isinstance(args, dict) else {}
    choices = details.get("choices")
    probed = said.about(run, call) if request.kind is RequestKind.RESOLVE else None
    return WaitingOn(
        request.call_id,
        request.kind.label,
        request.attempt,
        request.created_at,
        request.request_id,
        call.tool,
        args,
        details.get("question"),
        None if choices is None else tuple(choices),
        request.expires_at,
        _key(run, call, sent),
        call.started_at,
        _failure(call),
        None if probed is None else probed.detail,
        0 if probed is None else probed.at,
        call.state.name,
    )


def _failure(call: CallRecord) -> str | None:
    return None if call.failure is None else f"{call.failure.type_name}: {call.failure.message}"


def _approved_arguments(requests: Iterable[RequestRecord]) -> dict[int, bytes]:
    """The arguments that a person put in place of those asked for, by the numbers of the calls sent with them."""
    given = [each for each in requests if each.kind is RequestKind.APPROVAL and each.verdict is Verdict.APPROVE]
    newest = {each.call_seq: each.value for each in sorted(given, key=lambda each: each.attempt)}
    return {seq: value for seq, value in newest.items() if value is not None}


def _key(run: RunRecord, call: CallRecord, sent: bytes | None) -> str:
    args = call.args_digest if sent is None else digest(sent)
    run_id = run.origin or run.run_id
    return idempotency_key(run_id, call.call_id, args, call.identity, call.identity_scope, call.undone)


def open_requests(store: Store, limit: int) -> list[RequestView]:
    """The open requests of all runs, oldest first.

    Some that nobody answered are asked no longer, because the tool's probe has; so more are looked at where too few of
    the first ones are.
    """
    most = limit
    said = _Said(store)
    while True:
        unanswered = store.open_requests(most)
        found = [view for view in (_request_view(store, said, *each) for each in unanswered) if view is not None]
        if len(found) >= limit or len(unanswered) < most:
            return found[:limit]
        most *= 4


def _request_view(store: Store, said: _Said, run_id: str, request: RequestRecord) -> RequestView | None:
    run = store.run(run_id)
    call = None if run is None else store.call(run.run_no, request.call_seq)
    if run is None or call is None or not is_open(request, call, run.status):
        return None
    return RequestView(run_id, asked_for(request, call, store, run, said))


ContentOf: TypeAlias = Callable[[bytes], bytes | None]  # a snapshot's digest -> that of the files in it


def _unknown(snapshot: bytes) -> bytes | None:
    return None


def run_view(run: RunRecord, store: Store, content_of: ContentOf = _unknown) -> RunView:
    """A run with its calls, checkpoints, what it waits for and what was answered."""
    events = store.events(run.run_no)
    doubts = Counter(event.call_seq for event in events if event.kind is EventKind.CALL_UNCERTAIN)
    held = {event.call_seq for event in events if event.kind is EventKind.FILES_HELD}
    output = _artifact(store, run, run.output_digest) if run.status in FINAL else None
    requests, calls = store.requests(run.run_no), store.calls(run.run_no)
    sent = _approved_arguments(requests)
    failed = frozenset(run.failed_calls if run.status is Status.FAILED else ())
    return RunView(
        run_info(run, store),
        tuple(
            call_view(
                record,
                store,
                run,
                doubts[record.seq],
                sent.get(record.seq),
                content_of,
                files_held=record.seq in held,
            )
            for record in calls
        ),
        tuple(checkpoint_view(record, run.line, content_of) for record in store.checkpoints(run.run_no)),
        tuple(waiting_on(run, store)),
        tuple(_event_line(event, {}) for event in events if event.kind is EventKind.TAKEN_OVER),
        _artifact(store, run, run.input_digest),
        output,
        tuple(_answer_view(request) for request in requests if request.verdict is not None),
        tuple(_event_line(event, {}) for event in events if event.kind in _ORDERS),
        tuple(record.call_id for record in calls if record.seq in failed),
    )


_ORDERS = (EventKind.ORDERED, EventKind.PAUSED, EventKind.CANCELLED, EventKind.ROLLED_BACK)


def _answer_view(request: RequestRecord) -> AnswerView:
    assert request.verdict is not None
    return AnswerView(
        request.call_id,
        request.attempt,
        request.verdict.label,
        _value(request.value),
        request.by,
        request.note,
        request.answered_at or 0,
        request.kind.label,
    )


def call_view(
    record: CallRecord,
    store: Store,
    run: RunRecord,
    doubts: int,
    sent: bytes | None = None,
    content_of: ContentOf = _unknown,
    *,
    files_held: bool = False,
) -> CallView:
    """One call, with its arguments and result as JSON; `sent` are those a person put in their place."""
    failure = record.failure
    return CallView(
        record.seq,
        record.call_id,
        record.kind.label,
        record.tool,
        record.step,
        record.effect.label,
        record.state.name,
        record.attempt,
        record.epoch,
        record.started_at,
        record.ended_at,
        _value(record.args) if record.args is not None else _artifact(store, run, record.args_artifact),
        _value(record.result) if record.result is not None else _artifact(store, run, record.result_artifact),
        _failure(record),
        None if record.usage is None else msgspec.to_builtins(record.usage),
        record.started_version,
        record.ended_version,
        doubts,
        _key(run, record, sent),
        _holder_of_files(record, store, run) if files_held else _holder(record, store, run),
        None if failure is None else failure.error_class.label,
        _content(record.before, content_of),
        _content(record.after, content_of),
        record.generation,
        bool(run.line) and not counts(run.line, record),
        bool(run.line) and is_leftover(run.line, record),
    )


def _holder_of_files(record: CallRecord, store: Store, run: RunRecord) -> HolderView | None:
    """Which call, or rollback, holds files that this one waits to write; None where none does, or several may."""
    if record.state is not CallState.AWAITING or run.workspace is None:
        return None
    holds = {(each.run_no, each.call_seq): each for each in store.holds(run.workspace, b"")}
    holds.pop((run.run_no, record.seq), None)
    if len(holds) != 1:
        return None
    (held,) = holds.values()
    call = store.call(held.run_no, held.call_seq)
    return HolderView(held.run_id, "", "") if call is None else HolderView(held.run_id, call.call_id, call.state.name)


def _content(snapshot: bytes | None, content_of: ContentOf) -> str | None:
    found = None if snapshot is None else content_of(snapshot)
    return None if found is None else found.hex()


def _holder(record: CallRecord, store: Store, run: RunRecord) -> HolderView | None:
    """Which call holds the name that a call waits for; None where it waits for none, or the name has become free."""
    if record.state is not CallState.AWAITING or record.identity is None or record.identity_scope is None:
        return None
    held = store.identity(record.identity_scope, run.run_no, record.identity)
    if held is None or (held.run_no, held.call_seq) == (run.run_no, record.seq):
        return None
    call = store.call(held.run_no, held.call_seq)
    return None if call is None else HolderView(held.run_id, call.call_id, call.state.name)


def checkpoint_view(record: CheckpointRecord, heads: Heads = (), content_of: ContentOf = _unknown) -> CheckpointView:
    """One restore point of a run with this line."""
    return CheckpointView(
        record.version,
        record.name,
        record.level.label,
        record.trigger,
        record.refs,
        record.created_at,
        _content(record.tree, content_of),
        Storage.COLD.label,  # wherever its trigger would keep it: hot stores are to come
        record.storage.label,
        record.base_version,
        not is_on_line(heads, record.version),
    )


def _artifact(store: Store, run: RunRecord, name: bytes | None) -> Any:
    return None if name is None else _value(store.artifact(run.run_no, name))


def _value(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return "(damaged)"


def trace_lines(run: RunRecord, store: Store) -> list[TraceLine]:
    """The trace: calls and events in the order of time, without prompts, arguments or results."""
    calls = store.calls(run.run_no)
    names = {record.seq: record.call_id for record in calls}
    lines = [_event_line(event, names) for event in store.events(run.run_no)]
    for record in calls:
        lines.extend(_call_lines(record))
    # Of what the clock cannot tell apart, a step's or a run's end comes after the calls.
    return sorted(lines, key=lambda line: (line.at, line.call_id is None and line.what in _ENDS))


_ENDS = frozenset(
    kind.label
    for kind in (
        EventKind.STEP_ENDED,
        EventKind.COMPLETED,
        EventKind.FAILED,
        EventKind.WAITING,
        EventKind.RELEASED,
        EventKind.PAUSED,
        EventKind.CANCELLED,
    )
)


def _event_line(event: EventRecord, names: dict[int, str]) -> TraceLine:
    call = None if event.call_seq is None else names.get(event.call_seq)
    return TraceLine(event.at, event.kind.label, call, event.epoch, event.detail)


def _call_lines(record: CallRecord) -> list[TraceLine]:
    detail = f"attempt {record.attempt}" if record.attempt > 1 else ""
    lines = []
    # The starts of an effect are events, one an attempt; its row knows the last alone.
    if record.started_at and record.effect is Effect.READ:
        lines.append(TraceLine(record.started_at, "started", record.call_id, record.epoch, detail))
    if record.ended_at is not None and record.state is not CallState.UNCERTAIN:
        lines.append(TraceLine(record.ended_at, record.state.label, record.call_id, record.epoch, detail))
    return lines


def status_named(text: str) -> Status | None:
    """The status a person means."""
    return next((status for status in Status if status.name == text.upper()), None)
