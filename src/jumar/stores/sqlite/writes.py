"""Applying one change inside an open transaction.

Each function runs its guarded statement first and writes every other row from what that returned, so that nothing
lands where the guard matched nothing.  A guard that fails after something was written raises `Undo`: the caller rolls
back.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from jumar.core.call_states import ENDED, STATE_BEFORE, STATE_FIRST
from jumar.core.changes import (
    Ack,
    Advance,
    Answer,
    CallChange,
    Change,
    Claim,
    Claimed,
    Create,
    Ending,
    Guard,
    Outcome,
    Refusal,
    Renew,
)
from jumar.core.checksums import failure_bytes, sealed
from jumar.core.phases import FINAL, PHASE_BEFORE, STATUS_BEFORE
from jumar.core.records import RunRecord
from jumar.core.states import CallState, EventKind, Phase, Status, mask
from jumar.stores.clock import BOOT, lease_ms
from jumar.stores.packing import pack
from jumar.stores.queries import named_statements
from jumar.stores.sqlite.rows import call_row, checkpoint_row, is_plain, plain_call_row, run_record, usage_bytes

SQL = named_statements("jumar.stores.sqlite")

_ADVANCE = SQL["run_advance"]
_ADVANCE_QUIETLY = SQL["run_advance_quietly"]
_CALL_INSERT = SQL["call_insert"]
_CALL_INSERT_PLAIN = SQL["call_insert_plain"]

_NUMBER = {phase: phase.value for phase in Phase}  # reading .value of an enum member costs a microsecond in Python 3.11


class Undo(Exception):
    """A guard failed after rows were written; the transaction must be rolled back.  `refusal` is the change's
    answer.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def apply(connection: sqlite3.Connection, change: Change) -> Outcome:
    """Apply one change and answer it."""
    if type(change) is Advance:
        return _advance(connection, change)
    if isinstance(change, Create):
        return _create(connection, change)
    if isinstance(change, Claim):
        return _claim(connection, change)
    if isinstance(change, Renew):
        return _renew(connection, change)
    if isinstance(change, Answer):
        return _answer(connection, change)
    raise TypeError(f"{type(change).__name__} is no change")


def _create(connection: sqlite3.Connection, new: Create) -> Outcome:
    running = new.owner is not None
    row = connection.execute(
        SQL["run_create"],
        {
            "run_id": new.run_id,
            "reversed_id": new.run_id[::-1],
            "agent": new.agent,
            "agent_version": new.agent_version,
            "task": new.task,
            "status": int(Status.RUNNING if running else Status.QUEUED),
            "phase": int(new.phase),
            "owner": new.owner,
            "epoch": 1 if running else 0,
            "boot": BOOT,
            "lease_until": lease_ms() + new.ttl_ms if running else 0,
            "input_digest": new.input.digest,
            "at": new.at,
        },
    ).fetchone()
    if row is None:
        return Refusal(Guard.EXISTS, f"run {new.run_id} is already there", run_by_id(connection, new.run_id))
    run_no: int = row[0]
    _artifact(connection, run_no, new.input.digest, new.input.data)
    _event(connection, run_no, EventKind.CREATED, new.at)
    return Ack(run_no, 0, 1 if running else 0)


def _claim(connection: sqlite3.Connection, claim: Claim) -> Outcome:
    before = run_by_id(connection, claim.run_id)
    if before is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run {claim.run_id}")
    now = lease_ms()
    row = connection.execute(
        SQL["run_claim"],
        {
            "run_id": claim.run_id,
            "owner": claim.owner,
            "boot": BOOT,
            "now": now,
            "lease_until": now + claim.ttl_ms,
            "statuses": claim.statuses,
            "at": claim.at,
        },
    ).fetchone()
    if row is None:
        return _claim_refused(before, now, claim)
    run = run_by_id(connection, claim.run_id)
    assert run is not None
    marked = sorted(connection.execute(SQL["calls_uncertain"], {"run_no": run.run_no, "epoch": run.epoch}).fetchall())
    taken_over = before.owner is not None
    _event(connection, run.run_no, EventKind.TAKEN_OVER if taken_over else EventKind.CLAIMED, claim.at, epoch=run.epoch)
    for seq, _call_id, attempt in marked:
        detail = f"attempt {attempt}"
        _event(connection, run.run_no, EventKind.CALL_UNCERTAIN, claim.at, seq, run.epoch, detail)
    return Claimed(run, taken_over, len(marked))


def _claim_refused(run: RunRecord, now: int, claim: Claim) -> Refusal:
    if run.owner is not None and run.boot == BOOT and run.lease_until > now:
        left = (run.lease_until - now) / 1000
        return Refusal(Guard.HELD, f"run {run.run_id} is held by {run.owner} for another {left:.1f} s", run)
    if run.status in FINAL:
        return Refusal(Guard.ENDED, f"run {run.run_id} is {run.status.label}", run)
    if run.status is Status.WAITING and not (run.wake_at is not None and run.wake_at <= claim.at):
        return Refusal(Guard.NOT_DUE, f"run {run.run_id} is still waiting", run)
    return Refusal(Guard.TRANSITION, f"run {run.run_id} is {run.status.label} and cannot be claimed so", run)


def _advance(connection: sqlite3.Connection, advance: Advance) -> Outcome:
    now = lease_ms()
    if advance.ending is None:
        row = _go_on(connection, advance, now)
    else:
        row = _leave(connection, advance, advance.ending, now)
    if row is None:
        return _advance_refused(connection, advance, now)
    version = advance.version + 1
    run_no = advance.run_no
    for record in advance.calls:
        if not STATE_FIRST >> record.state & 1:
            raise Undo(Refusal(Guard.TRANSITION, f"call {record.call_id} cannot begin as {record.state.label}"))
        if is_plain(record):
            connection.execute(_CALL_INSERT_PLAIN, plain_call_row(run_no, record, version))
        else:
            connection.execute(_CALL_INSERT, call_row(run_no, record, version))
    for change in advance.changes:
        _call_change(connection, run_no, change, version)
    for artifact in advance.artifacts:
        _artifact(connection, run_no, artifact.digest, artifact.data)
    if advance.before is not None:
        connection.execute(SQL["checkpoint_insert"], checkpoint_row(run_no, sealed(advance.before, advance.version)))
    if advance.after is not None:
        connection.execute(SQL["checkpoint_insert"], checkpoint_row(run_no, sealed(advance.after, version)))
    for request in advance.requests:
        values = (
            request.request_id,
            request.call_seq,
            request.call_id,
            request.attempt,
            int(request.kind),
            request.created_at,
        )
        connection.execute(SQL["request_insert"], (run_no, *values))
    for event in advance.events:
        _event(connection, run_no, event.kind, event.at, event.call_seq, event.epoch, event.detail)
    if advance.ending is not None:
        _nothing_open(connection, run_no, advance.ending.status)
    return Ack(run_no, version, advance.epoch, row[0], row[1])


def _go_on(connection: sqlite3.Connection, advance: Advance, now: int) -> Any:
    """The guarded update of a run that goes on; answers control and answers.

    They hardly ever change, and reading them back costs as much as the update itself.  So the first try takes them as
    last seen; where that matches nothing, they may be what has changed, and the second try reads them.
    """
    phase = advance.phase
    values = (
        _NUMBER[phase],
        advance.step,
        now + advance.ttl_ms,
        advance.at,
        advance.run_no,
        advance.owner,
        advance.epoch,
        advance.version,
        BOOT,
        now,
        PHASE_BEFORE[phase],
    )
    seen = (advance.control, advance.answers)
    if connection.execute(_ADVANCE_QUIETLY, values + seen).rowcount == 1:
        return seen
    return connection.execute(_ADVANCE, values).fetchone()


def _leave(connection: sqlite3.Connection, advance: Advance, ending: Ending, now: int) -> Any:
    return connection.execute(
        SQL["run_leave"],
        {
            "phase": int(advance.phase),
            "step": advance.step,
            "status": int(ending.status),
            "wake_at": ending.wake_at,
            "waiting_on": ending.waiting_on,
            "output_digest": ending.output_digest,
            "error_class": None if ending.error_class is None else int(ending.error_class),
            "error_type": ending.error_type,
            "error_message": ending.error_message,
            "at": advance.at,
            "run_no": advance.run_no,
            "owner": advance.owner,
            "epoch": advance.epoch,
            "version": advance.version,
            "boot": BOOT,
            "now": now,
            "phase_before": PHASE_BEFORE[advance.phase],
            "status_before": STATUS_BEFORE[ending.status] & mask(Status.RUNNING),
            "control": advance.control,
            "answers": advance.answers,
        },
    ).fetchone()


def _nothing_open(connection: sqlite3.Connection, run_no: int, status: Status) -> None:
    """No call is STARTED; and where the run is completed, of none is it unknown whether it happened."""
    for call_id, state in connection.execute(SQL["run_open_calls"], (run_no,)):
        if state == CallState.STARTED or status is Status.COMPLETED:
            name = CallState(state).label
            raise Undo(Refusal(Guard.TRANSITION, f"call {call_id} is {name}, so the run cannot become {status.label}"))


def _advance_refused(connection: sqlite3.Connection, advance: Advance, now: int) -> Refusal:
    """Name the guard that an advance met, the most telling one first."""
    run = run_by_no(connection, advance.run_no)
    if run is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run number {advance.run_no}")
    if run.status in FINAL and run.epoch == advance.epoch:
        return Refusal(Guard.ENDED, f"run {run.run_id} is {run.status.label}", run)
    if run.owner != advance.owner or run.epoch != advance.epoch:
        return Refusal(
            Guard.LEASE,
            f"run {run.run_id} has been taken over (epoch {run.epoch}, this process had {advance.epoch})",
            run,
        )
    if run.boot != BOOT or run.lease_until <= now:
        return Refusal(Guard.LEASE, f"the lease on run {run.run_id} ran out", run)
    if run.version != advance.version:
        return Refusal(Guard.VERSION, f"run {run.run_id} is at version {run.version}, not {advance.version}", run)
    ending = advance.ending
    if ending is not None and (run.control != advance.control or run.answers != advance.answers):
        return Refusal(Guard.NEWS, f"run {run.run_id} was given an answer or an order meanwhile", run)
    after = run.phase.label if ending is None else ending.status.label
    return Refusal(
        Guard.TRANSITION,
        f"run {run.run_id} in phase {run.phase.label} cannot go to {advance.phase.label} ({after})",
        run,
    )


def _call_change(connection: sqlite3.Connection, run_no: int, change: CallChange, version: int) -> None:
    values = {
        "run_no": run_no,
        "seq": change.seq,
        "state": int(change.state),
        "attempt": change.attempt,
        "epoch": change.epoch,
        "result": change.result,
        "result_artifact": change.result_artifact,
        "failure": failure_bytes(change.failure),
        "usage": usage_bytes(change.usage),
        "boot": change.boot,
        "dispatch_by": change.dispatch_by,
        "over_at": change.over_at,
        "started_at": change.started_at,
        "ended_at": change.ended_at,
        "started_version": version if change.state is CallState.STARTED else None,
        "ended_version": version if change.state in ENDED else None,
        "checksum": change.checksum,
        "state_before": STATE_BEFORE[change.state],
    }
    if connection.execute(SQL["call_change"], values).rowcount != 1:
        raise Undo(Refusal(Guard.TRANSITION, f"call number {change.seq} cannot become {change.state.label}"))


def _renew(connection: sqlite3.Connection, renew: Renew) -> Outcome:
    now = lease_ms()
    row = connection.execute(
        SQL["run_renew"],
        {
            "run_no": renew.run_no,
            "owner": renew.owner,
            "epoch": renew.epoch,
            "boot": BOOT,
            "now": now,
            "lease_until": now + renew.ttl_ms,
        },
    ).fetchone()
    if row is None:
        return Refusal(Guard.LEASE, "the lease ran out or was taken over", run_by_no(connection, renew.run_no))
    return Ack(renew.run_no, row[0], renew.epoch, row[1], row[2])


def _answer(connection: sqlite3.Connection, answer: Answer) -> Outcome:
    values = {
        "verdict": int(answer.verdict),
        "value": answer.value,
        "by": answer.by,
        "note": answer.note,
        "at": answer.at,
        "request_id": answer.request_id,
        "run_no": answer.run_no,
        "epoch": answer.epoch,
    }
    row = connection.execute(SQL["request_answer"], values).fetchone()
    if row is None:
        return Refusal(
            Guard.ANSWERED,
            "this request was answered before, or is no longer asked",
            run_by_no(connection, answer.run_no),
        )
    version, epoch, control, answers = connection.execute(
        SQL["run_answered"], {"run_no": answer.run_no, "at": answer.at}
    ).fetchone()
    _event(connection, answer.run_no, EventKind.ANSWERED, answer.at, row[0], epoch, answer.verdict.label)
    return Ack(answer.run_no, version, epoch, control, answers)


def _artifact(connection: sqlite3.Connection, run_no: int, digest: bytes, data: bytes) -> None:
    connection.execute(SQL["artifact_insert"], (run_no, digest, *pack(data)))


def _event(
    connection: sqlite3.Connection,
    run_no: int,
    kind: EventKind,
    at: int,
    call_seq: int | None = None,
    epoch: int = 0,
    detail: str = "",
) -> None:
    connection.execute(SQL["event_insert"], (run_no, int(kind), at, call_seq, epoch, detail))


def run_by_id(connection: sqlite3.Connection, run_id: str) -> RunRecord | None:
    """One run by its id."""
    row = connection.execute(SQL["run_by_id"], (run_id,)).fetchone()
    return None if row is None else run_record(row)


def run_by_no(connection: sqlite3.Connection, run_no: int) -> RunRecord | None:
    """One run by its number."""
    row = connection.execute(SQL["run_by_no"], (run_no,)).fetchone()
    return None if row is None else run_record(row)
