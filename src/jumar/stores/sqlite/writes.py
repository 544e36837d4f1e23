"""Applying one change inside an open transaction.

Each function runs its guarded statement first and writes every other row from what that returned, so that nothing
lands where the guard matched nothing.  A guard that fails after something was written raises `Undo`: the caller rolls
back.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from msgspec.structs import replace

from jumar.core.call_states import STATE_FIRST
from jumar.core.changes import (
    Ack,
    Adopt,
    Advance,
    Answer,
    Arrive,
    Change,
    Claim,
    Claimed,
    Create,
    Depart,
    Ending,
    Fork,
    Guard,
    Order,
    Outcome,
    Refusal,
    Renew,
)
from jumar.core.checksums import sealed
from jumar.core.phases import FINAL, PHASE_BEFORE, STATUS_BEFORE
from jumar.core.records import LeaseTime, RunRecord
from jumar.core.states import CallState, EventKind, Phase, Status, mask
from jumar.stores import refusals
from jumar.stores.clock import BOOT, lease_ms
from jumar.stores.rows import call_row, is_plain, numbers_text, plain_call_row
from jumar.stores.sqlite import forking, holds, keeping, moving, operators, taking
from jumar.stores.sqlite.tables import SQL, Undo, artifact, call_change, event, run_by_id, run_by_no

_ADVANCE = SQL["run_advance"]
_ADVANCE_QUIETLY = SQL["run_advance_quietly"]
_CALL_INSERT = SQL["call_insert"]
_CALL_INSERT_PLAIN = SQL["call_insert_plain"]

_FINAL = mask(*FINAL)
_OPEN_DECISION = (Phase.DECISION_RECORDED, Phase.AWAITING_RESULTS)
_NUMBER = {phase: phase.value for phase in Phase}  # reading .value of an enum member costs a microsecond in Python 3.11


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
        return operators.answer(connection, change)
    if isinstance(change, Order):
        return operators.order(connection, change)
    if isinstance(change, Fork):
        return forking.fork(connection, change)
    if isinstance(change, (Adopt, Arrive, Depart)):
        return moving.apply(connection, change)
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
            "workspace": new.workspace,
        },
    ).fetchone()
    if row is None:
        return Refusal(Guard.EXISTS, f"run {new.run_id} is already there", run_by_id(connection, new.run_id))
    run_no: int = row[0]
    artifact(connection, run_no, new.input.digest, new.input.data)
    event(connection, run_no, EventKind.CREATED, new.at)
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
            "early": claim.early,
            "resumes": claim.resumes,
            "epoch": claim.epoch,
            "version": claim.version,
            "intent": claim.intent,
            "workspace": claim.workspace,
            "final": _FINAL,
            "at": claim.at,
        },
    ).fetchone()
    if row is None:
        return refusals.claim_refused(before, LeaseTime(BOOT, now), claim)
    run = run_by_id(connection, claim.run_id)
    assert run is not None
    if claim.workspace is not None and claim.workspace != before.workspace:
        connection.execute(SQL["holds_moved"], (claim.workspace, run.run_no))
    marked = _mark(connection, run)
    taken_over = before.owner is not None
    event(connection, run.run_no, EventKind.TAKEN_OVER if taken_over else EventKind.CLAIMED, claim.at, epoch=run.epoch)
    for seq, _call_id, attempt in marked:
        detail = f"attempt {attempt}"
        event(connection, run.run_no, EventKind.CALL_UNCERTAIN, claim.at, seq, run.epoch, detail)
    if claim.intent is not None:
        event(connection, run.run_no, EventKind.ROLLBACK_STARTED, claim.at, epoch=run.epoch)
    for wanted in claim.holds:
        if not holds.take(connection, run.run_no, wanted):
            raise Undo(taking.in_the_way(connection, run.run_no, wanted, before))
    for change in claim.reopens:
        call_change(connection, run.run_no, change, run.version)
        event(connection, run.run_no, EventKind.REOPENED, claim.at, change.seq, run.epoch)
    return Claimed(run, taken_over, len(marked))


def _mark(connection: sqlite3.Connection, run: RunRecord) -> list[Any]:
    """Mark what may have happened under an older epoch; answers number, id and attempt of each call, in order.

    A decision that is open has planned its calls, and its reads leave no other row before their result: such a one may
    have been made, and is counted as if it was.
    """
    values = {"run_no": run.run_no, "epoch": run.epoch}
    marked = connection.execute(SQL["calls_uncertain"], values).fetchall()
    if run.phase in _OPEN_DECISION:
        marked += connection.execute(SQL["reads_uncertain"], values).fetchall()
    return sorted(marked)


def _advance(connection: sqlite3.Connection, advance: Advance) -> Outcome:
    now = lease_ms()
    if advance.head is not None or advance.settles:
        row = _rebase(connection, advance, now)
    elif advance.ending is None:
        row = _go_on(connection, advance, now)
    else:
        row = _leave(connection, advance, advance.ending, now)
    if row is None:
        return refusals.advance_refused(run_by_no(connection, advance.run_no), LeaseTime(BOOT, now), advance)
    version = advance.version + 1
    run_no = advance.run_no
    gives_or_takes = advance.takes or advance.holds or advance.frees or advance.drops
    taken = taking.give_and_take(connection, advance) if gives_or_takes else ()
    if advance.intent is not None and not connection.execute(SQL["run_intent"], (advance.intent, run_no)).rowcount:
        raise Undo(refusals.no_intent())
    for record in advance.calls:
        if not STATE_FIRST >> record.state & 1:
            raise Undo(refusals.cannot_begin(record.call_id, record.state))
        if taken and record.seq in taken:
            record = replace(record, state=CallState.AWAITING, attempt=record.attempt - 1)
        if is_plain(record):
            connection.execute(_CALL_INSERT_PLAIN, plain_call_row(run_no, record, version))
        else:
            connection.execute(_CALL_INSERT, call_row(run_no, record, version))
    for change in advance.changes:
        if taken and change.seq in taken:
            change = replace(change, state=CallState.AWAITING, attempt=change.attempt - 1)
        call_change(connection, run_no, change, version)
    for kept in advance.artifacts:
        artifact(connection, run_no, kept.digest, kept.data)
    if advance.before is not None:
        keeping.keep(connection, run_no, sealed(advance.before, advance.version))
    if advance.after is not None:
        keeping.keep(connection, run_no, sealed(advance.after, version))
    for request in advance.requests:
        values = (
            request.request_id,
            request.call_seq,
            request.call_id,
            request.attempt,
            int(request.kind),
            request.created_at,
            request.expires_at,
        )
        connection.execute(SQL["request_insert"], (run_no, *values))
    for request_id in advance.withdraws:
        connection.execute(SQL["request_withdraw"], {"request_id": request_id, "run_no": run_no, "at": advance.at})
    for line in advance.events:
        if taken and line.kind is EventKind.CALL_STARTED and line.call_seq in taken:
            continue  # this attempt is not made
        event(connection, run_no, line.kind, line.at, line.call_seq, line.epoch, line.detail)
    if advance.ending is not None or advance.head is not None:
        _nothing_open(connection, run_no, Status.RUNNING if advance.ending is None else advance.ending.status)
    return Ack(run_no, version, advance.epoch, row[0], row[1], taken)


def _phase_before(advance: Advance) -> int:
    return PHASE_BEFORE[advance.through[0] if advance.through else advance.phase]


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
        PHASE_BEFORE[advance.through[0] if advance.through else phase],
    )
    seen = (advance.control, advance.answers)
    if connection.execute(_ADVANCE_QUIETLY, values + seen).rowcount == 1:
        return seen
    return connection.execute(_ADVANCE, values).fetchone()


def _rebase(connection: sqlite3.Connection, advance: Advance, now: int) -> Any:
    """End a rollback: with a new head, or, where only files were put back, as the run was."""
    ending = advance.ending or Ending(status=Status.RUNNING)
    return connection.execute(
        SQL["run_rebase"],
        {
            **_ending_values(advance, ending, now),
            "base": None if advance.head is None else advance.head.base,
            "lease_until": now + advance.ttl_ms,
        },
    ).fetchone()


def _leave(connection: sqlite3.Connection, advance: Advance, ending: Ending, now: int) -> Any:
    return connection.execute(
        SQL["run_leave"],
        {
            **_ending_values(advance, ending, now),
            "phase_before": _phase_before(advance),
            "status_before": STATUS_BEFORE[ending.status] & mask(Status.RUNNING),
            "is_final": ending.status in FINAL,
        },
    ).fetchone()


def _ending_values(advance: Advance, ending: Ending, now: int) -> dict[str, Any]:
    return {
        "phase": int(advance.phase),
        "step": advance.step,
        "status": int(ending.status),
        "wake_at": ending.wake_at,
        "waiting_on": ending.waiting_on,
        "output_digest": ending.output_digest,
        "error_class": None if ending.error_class is None else int(ending.error_class),
        "error_type": ending.error_type,
        "error_message": ending.error_message,
        "failed_calls": numbers_text(ending.failed_calls),
        "at": advance.at,
        "run_no": advance.run_no,
        "owner": advance.owner,
        "epoch": advance.epoch,
        "version": advance.version,
        "boot": BOOT,
        "now": now,
        "control": advance.control,
        "answers": advance.answers,
    }


def _nothing_open(connection: sqlite3.Connection, run_no: int, status: Status) -> None:
    """No call is STARTED; and where the run is completed, of none is it unknown whether it happened."""
    for call_id, state in connection.execute(SQL["run_open_calls"], (run_no,)):
        if state == CallState.STARTED or status is Status.COMPLETED:
            raise Undo(refusals.still_open(call_id, CallState(state), status))


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
