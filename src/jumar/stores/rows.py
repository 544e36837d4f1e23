"""Rows to records and back.  Enums are looked up by their number, which is what makes long histories load
fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from jumar.core.call_states import ENDED
from jumar.core.checksums import failure_bytes
from jumar.core.records import (
    CallRecord,
    CheckpointRecord,
    EventRecord,
    Failure,
    RequestRecord,
    RunRecord,
    Usage,
)
from jumar.core.states import (
    CallKind,
    CallState,
    Control,
    Effect,
    ErrorClass,
    EventKind,
    IdentityScope,
    Level,
    Phase,
    RequestKind,
    Status,
    Storage,
    Verdict,
)
from jumar.errors import IntegrityError

Row = Sequence[Any]

_KINDS = {kind.value: kind for kind in CallKind}
_EFFECTS = {effect.value: effect for effect in Effect}
_SCOPES = {scope.value: scope for scope in IdentityScope}
_STATES = {state.value: state for state in CallState}
_SCOPE = -4  # where among the last columns of a call the scope of its name stands
_NUMBER = {member: member.value for vocabulary in (CallKind, Effect, CallState) for member in vocabulary}
_failure = msgspec.json.Decoder(Failure).decode
_usage = msgspec.json.Decoder(Usage).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def run_record(row: Row) -> RunRecord:
    """A row of `run` as selected by the queries."""
    try:
        values = list(row)
        values[5], values[6], values[14] = Status(row[5]), Phase(row[6]), Control(row[14])
        values[20] = None if row[20] is None else ErrorClass(row[20])
        values[25] = _numbers(row[25])
        values[28] = _line(row[28])
        return RunRecord(*values)
    except (ValueError, TypeError) as error:
        raise IntegrityError(f"the row of run {row[1]} is damaged ({error})") from error


def run_row(record: RunRecord) -> list[Any]:
    """The values of a run's row as a copy takes them over: in the order of the queries, without the number."""
    values = list(astuple(record))
    values[5], values[6], values[14] = int(record.status), int(record.phase), int(record.control)
    values[20] = None if record.error_class is None else int(record.error_class)
    values[25] = numbers_text(record.failed_calls)
    values[28] = " ".join(f"{first}:{base}" for first, base in record.line) or None
    return values[1:]


def _numbers(text: str | None) -> tuple[int, ...]:
    return () if text is None else tuple(int(number) for number in text.split(" "))


def _line(text: str | None) -> tuple[tuple[int, int], ...]:
    if text is None:
        return ()
    pairs = (pair.split(":") for pair in text.split(" "))
    return tuple((int(first), int(base)) for first, base in pairs)


def numbers_text(numbers: tuple[int, ...]) -> str | None:
    """Numbers as they are stored: spaces between them, and nothing for none."""
    return " ".join(map(str, numbers)) or None


def call_record(row: Row) -> CallRecord:
    """A row of `call` as selected by the queries."""
    (seq, call_id, branch, step, ordinal, kind, tool, effect, state, attempt, epoch, generation, *rest) = row
    digest, args, args_artifact, key, result, result_artifact, failure, usage, *last = rest
    try:
        if last[_SCOPE] is not None:
            last[_SCOPE] = _SCOPES[last[_SCOPE]]
        return CallRecord(
            seq,
            call_id,
            branch,
            step,
            ordinal,
            _KINDS[kind],
            tool,
            _EFFECTS[effect],
            _STATES[state],
            attempt,
            epoch,
            generation,
            digest,
            args,
            args_artifact,
            key,
            result,
            result_artifact,
            None if failure is None else _failure(failure),
            None if usage is None else _usage(usage),
            *last,
        )
    except (KeyError, TypeError, msgspec.MsgspecError) as error:
        raise IntegrityError(f"the row of call {call_id} is damaged ({error})") from error


def is_plain(record: CallRecord) -> bool:
    """Whether the call ended with a result that sits in its row, as most reads do; then half the columns are null."""
    return (
        record.failure is None
        and record.result is not None
        and record.args is not None
        and record.boot is None
        and record.dispatch_by is None
        and record.over_at is None
        and record.usage is None
        and record.key is None
        and record.args_artifact is None
        and record.result_artifact is None
        and record.ended_at is not None
        and record.identity is None
        and record.before is None
        and record.after is None
        and not record.undone
    )


def plain_call_row(run_no: int, record: CallRecord, version: int) -> Row:
    """The values of a new `call` row that `is_plain`.  Binding a null costs sqlite3 a look-up, so those are left
    out.
    """
    return (
        run_no,
        record.seq,
        record.call_id,
        record.branch,
        record.step,
        record.ordinal,
        _NUMBER[record.kind],
        record.tool,
        _NUMBER[record.effect],
        _NUMBER[record.state],
        record.attempt,
        record.epoch,
        record.generation,
        record.args_digest,
        record.args,
        record.result,
        record.started_at,
        record.ended_at,
        version,
        version,
        record.checksum,
    )


def call_row(run_no: int, record: CallRecord, version: int) -> Row:
    """The values of a new `call` row; `version` is the one that the advance writing it makes."""
    return (
        run_no,
        record.seq,
        record.call_id,
        record.branch,
        record.step,
        record.ordinal,
        _NUMBER[record.kind],
        record.tool,
        _NUMBER[record.effect],
        _NUMBER[record.state],
        record.attempt,
        record.epoch,
        record.generation,
        record.args_digest,
        record.args,
        record.args_artifact,
        record.key,
        record.result,
        record.result_artifact,
        failure_bytes(record.failure),
        None if record.usage is None else _encode(record.usage),
        record.boot,
        record.dispatch_by,
        record.started_at,
        record.ended_at,
        version,
        version if record.state in ENDED else None,
        record.checksum,
        record.over_at,
        record.identity,
        None if record.identity_scope is None else int(record.identity_scope),
        record.before,
        record.after,
        record.undone,
    )


def copied_call_row(run_no: int, record: CallRecord) -> Row:
    """The values of a `call` row that is taken over from another store, with the versions it has there."""
    *first, _started, _ended, checksum, over_at, identity, scope, before, after, undone = call_row(run_no, record, 0)
    last = (checksum, over_at, identity, scope, before, after, undone)
    return (*first, record.started_version, record.ended_version, *last)


def request_row(run_no: int, record: RequestRecord) -> Row:
    """The values of a `request` row that is taken over from another store."""
    return (
        run_no,
        record.request_id,
        record.call_seq,
        record.call_id,
        record.attempt,
        int(record.kind),
        record.created_at,
        None if record.verdict is None else int(record.verdict),
        record.value,
        record.by,
        record.note,
        record.answered_at,
        record.expires_at,
    )


def usage_bytes(usage: Usage | None) -> bytes | None:
    """Usage as it is stored."""
    return None if usage is None else _encode(usage)


def checkpoint_record(row: Row) -> CheckpointRecord:
    """A row of `checkpoint` as selected by the queries."""
    version, base, name, level, trigger, refs, step, phase, context, created, checksum, tree, environment, storage = row
    try:
        return CheckpointRecord(
            name,
            Level(level),
            trigger,
            version,
            base,
            tuple(refs.split(" ")) if refs else (),
            step,
            Phase(phase),
            context,
            created,
            checksum,
            tree,
            environment,
            Storage(storage),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise IntegrityError(f"the row of checkpoint {name} is damaged ({error})") from error


def listed_checkpoint(row: Row) -> CheckpointRecord | None:
    """A row of `checkpoint` for a list of them all, which one damaged row does not spoil: a row that cannot be read
    comes as a checkpoint that does not agree with its checksum, or, where not even its version is one, as None.
    """
    if not isinstance(row[0], int):
        return None
    try:
        return checkpoint_record(row)
    except IntegrityError:
        return CheckpointRecord(row[2] if isinstance(row[2], str) else "", Level.TASK, "unreadable", row[0])


def checkpoint_row(run_no: int, record: CheckpointRecord) -> Row:
    """The values of a new `checkpoint` row; references hold no spaces, so a space separates them."""
    return (
        run_no,
        record.version,
        record.base_version,
        record.name,
        int(record.level),
        record.trigger,
        " ".join(record.refs),
        record.step,
        int(record.phase),
        record.context,
        record.created_at,
        record.checksum,
        record.tree,
        record.environment,
        int(record.storage),
    )


def request_record(row: Row) -> RequestRecord:
    """A row of `request` as selected by the queries."""
    request_id, seq, call_id, attempt, kind, created, verdict, *rest = row
    try:
        known = None if verdict is None else Verdict(verdict)
        return RequestRecord(request_id, seq, call_id, attempt, RequestKind(kind), created, known, *rest)
    except ValueError as error:
        raise IntegrityError(f"the row of a request about call {call_id} is damaged ({error})") from error


def event_record(row: Row) -> EventRecord | None:
    """A row of `event`, or None for one that cannot be read: the trace decides nothing, so a bad line is left out."""
    try:
        return EventRecord(EventKind(row[0]), *row[1:])
    except ValueError:
        return None
