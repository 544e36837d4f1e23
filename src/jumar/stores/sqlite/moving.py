"""Runs that come from another store or go to one: the rows of a run as a whole.

What is adopted is written as it was read elsewhere, but for the run's number; where the run is here already and may be
replaced, it keeps its number, so that nothing which names it loses it.
"""

from __future__ import annotations

import sqlite3

from jumar.core.changes import Ack, Adopt, Arrive, Depart, Hold, Outcome
from jumar.core.moving import check_export, epoch_after, is_elsewhere, may_replace
from jumar.core.phases import FINAL
from jumar.core.records import Artifact, HoldRecord, IdentityRecord, LeaseTime, RunExport
from jumar.core.states import EventKind, IdentityScope, mask
from jumar.errors import IntegrityError
from jumar.stores.clock import BOOT, lease_ms
from jumar.stores.packing import unpack
from jumar.stores.refusals import adopt_refused, arrive_refused, depart_refused, name_held
from jumar.stores.rows import (
    call_record,
    checkpoint_record,
    checkpoint_row,
    copied_call_row,
    event_record,
    request_record,
    request_row,
    run_row,
)
from jumar.stores.sqlite import holds, names, taking
from jumar.stores.sqlite.tables import SQL, Undo, artifact, event, run_by_id

_FINAL = mask(*FINAL)
_FORGET = tuple(name for name in SQL if name.startswith("forget_"))


def apply(connection: sqlite3.Connection, change: Adopt | Arrive | Depart) -> Outcome:
    """Apply one of the three changes and answer it."""
    if isinstance(change, Adopt):
        return _adopt(connection, change.export)
    return _arrive(connection, change) if isinstance(change, Arrive) else _depart(connection, change)


def _adopt(connection: sqlite3.Connection, export: RunExport) -> Outcome:
    there = run_by_id(connection, export.run.run_id)
    if there is not None:
        if not is_elsewhere(there) or not may_replace(export.run, there):
            return adopt_refused(there)
        for name in _FORGET:
            connection.execute(SQL[name], {"run_no": there.run_no})
    run, number = export.run, None if there is None else there.run_no
    row = connection.execute(SQL["run_adopt"], (number, run.run_id[::-1], *run_row(run))).fetchone()
    run_no: int = row[0]
    _adopt_rows(connection, run_no, export)
    for identity in export.identities:
        _adopt_name(connection, run_no, identity)
    for held in export.holds:
        wanted = Hold(seq=held.call_seq, workspace=held.workspace, path=held.path)
        if not holds.take(connection, run_no, wanted):
            raise Undo(taking.in_the_way(connection, run_no, wanted, there))
    return Ack(run_no, run.version, run.epoch, run.control, run.answers)


def _adopt_rows(connection: sqlite3.Connection, run_no: int, export: RunExport) -> None:
    connection.executemany(SQL["call_insert"], (copied_call_row(run_no, call) for call in export.calls))
    connection.executemany(SQL["checkpoint_insert"], (checkpoint_row(run_no, kept) for kept in export.checkpoints))
    connection.executemany(SQL["request_adopt"], (request_row(run_no, asked) for asked in export.requests))
    for kept in export.artifacts:
        artifact(connection, run_no, kept.digest, kept.data)
    for line in export.events:
        event(connection, run_no, line.kind, line.at, line.call_seq, line.epoch, line.detail)


def _adopt_name(connection: sqlite3.Connection, run_no: int, name: IdentityRecord) -> None:
    """A name of the run's own, or one that nobody holds and whose count of undoings is kept."""
    scope_run = 0 if name.scope is IdentityScope.STORE else run_no
    mine = 0 if name.run_no == 0 else run_no
    values = (scope_run, name.key, mine, name.call_seq, name.args_digest, name.undone)
    if connection.execute(SQL["identity_adopt"], values).fetchone() is not None or not mine:
        return
    holder = names.holder(connection, name.scope, run_no, name.key)
    raise Undo(name_held(name.key, "" if holder is None else holder.run_id))


def _arrive(connection: sqlite3.Connection, arrive: Arrive) -> Outcome:
    epoch = epoch_after(arrive)
    row = connection.execute(
        SQL["run_arrive"],
        {
            "run_id": arrive.run_id,
            "epoch": arrive.epoch,
            "epoch_after": epoch,
            "version": arrive.version,
            "answers": arrive.answers,
            "control": int(arrive.control),
            "status": int(arrive.status),
            "wake_at": arrive.wake_at,
            "waiting_on": arrive.waiting_on,
            "error_class": None if arrive.error_class is None else int(arrive.error_class),
            "error_type": arrive.error_type,
            "error_message": arrive.error_message,
        },
    ).fetchone()
    if row is None:
        return arrive_refused(run_by_id(connection, arrive.run_id), arrive)
    if arrive.status not in FINAL:
        event(connection, row[0], EventKind.ARRIVED, arrive.at, epoch=epoch)
    return Ack(row[0], arrive.version, epoch, arrive.control, arrive.answers)


def _depart(connection: sqlite3.Connection, depart: Depart) -> Outcome:
    now = lease_ms()
    row = connection.execute(
        SQL["run_depart"],
        {
            "run_id": depart.run_id,
            "epoch": depart.epoch,
            "version": depart.version,
            "answers": depart.answers,
            "control": int(depart.control),
            "message": depart.message,
            "final": _FINAL,
            "boot": BOOT,
            "now": now,
            "at": depart.at,
        },
    ).fetchone()
    if row is None:
        return depart_refused(run_by_id(connection, depart.run_id), LeaseTime(BOOT, now), depart)
    run_no: int = row[0]
    connection.execute(SQL["forget_holds"], {"run_no": run_no})
    connection.execute(SQL["requests_withdraw"], {"run_no": run_no, "at": depart.at})
    event(connection, run_no, EventKind.MOVED_AWAY, depart.at, epoch=depart.epoch)
    return Ack(run_no, depart.version, depart.epoch, depart.control, depart.answers)


def export(connection: sqlite3.Connection, run_id: str) -> RunExport | None:
    """All there is of a run, from one snapshot of the database."""
    connection.execute("BEGIN")
    try:
        return _export(connection, run_id)
    finally:
        connection.execute("ROLLBACK")


def _export(connection: sqlite3.Connection, run_id: str) -> RunExport | None:
    run = run_by_id(connection, run_id)
    if run is None:
        return None
    of_run = (run.run_no,)
    whose = {"run_no": run.run_no, "run_id": run_id}
    lines = map(event_record, connection.execute(SQL["events"], of_run))
    return check_export(
        RunExport(
            run,
            tuple(map(call_record, connection.execute(SQL["calls"], (run.run_no, 0)))),
            tuple(map(checkpoint_record, connection.execute(SQL["checkpoints"], of_run))),
            tuple(map(request_record, connection.execute(SQL["requests"], of_run))),
            tuple(line for line in lines if line is not None),
            tuple(_artifact(*row) for row in connection.execute(SQL["artifacts_of_run"], of_run)),
            tuple(
                IdentityRecord(IdentityScope(row[0]), *row[1:])
                for row in connection.execute(SQL["identities_of_run"], whose)
            ),
            tuple(HoldRecord(*row) for row in connection.execute(SQL["holds_of_run"], whose)),
        )
    )


def _artifact(digest: bytes, packing: int, data: bytes) -> Artifact:
    try:
        return Artifact(digest, unpack(packing, data))
    except ValueError as error:
        raise IntegrityError(f"artifact {digest.hex()[:12]} is damaged ({error})") from error
