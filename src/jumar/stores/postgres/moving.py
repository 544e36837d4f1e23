"""Runs that come from another store or go to one.

An arrival and a departure are one call of one function, like other changes.  An adoption brings a whole run, which may
be large: its rows are sent in pipelines of inserts, in a transaction of its own that no other change shares.  It locks
in the order of all others: the run, then names and workspaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import psycopg

from jumar.core.changes import Ack, Adopt, Arrive, Depart, Outcome, Refusal
from jumar.core.held_paths import overlap
from jumar.core.moving import epoch_after, is_elsewhere, may_replace
from jumar.core.phases import FINAL
from jumar.core.records import HoldRecord, IdentityRecord, LeaseTime, RunExport, RunRecord
from jumar.core.states import EventKind, IdentityScope, mask
from jumar.stores.packing import pack
from jumar.stores.refusals import adopt_refused, arrive_refused, depart_refused, name_held, path_held
from jumar.stores.rows import checkpoint_row, copied_call_row, request_row, run_record, run_row

Connection: TypeAlias = psycopg.Connection[Any]
Statements: TypeAlias = Mapping[str, str]

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_FINAL = mask(*FINAL)
_FORGET = ("calls", "artifacts", "checkpoints", "requests", "events", "holds", "names", "names_within")


class _Refused(Exception):
    """A guard did not hold; the transaction is rolled back."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def adopt(connection: Connection, sql: Statements, change: Adopt) -> Outcome:
    """Adopt a run, in a transaction of its own."""
    run = change.export.run
    connection.execute(_BEGIN)
    try:
        run_no = _place(connection, sql, run)
        _lock(connection, sql, change.export)
        _add_rows(connection, sql, run_no, change.export)
        _take_names(connection, sql, run_no, change.export.identities)
        _hold_paths(connection, sql, run_no, change.export.holds)
        connection.execute("COMMIT")
    except _Refused as refused:
        connection.execute("ROLLBACK")
        return refused.refusal
    except BaseException:
        if not connection.closed and connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
        raise
    return Ack(run_no, run.version, run.epoch, run.control, run.answers)


def _place(connection: Connection, sql: Statements, run: RunRecord) -> int:
    """Write the run's own row and answer its number: a new one, or that of the run it replaces, whose rows go."""
    there = _locked(connection, sql, run.run_id)
    if there is None:
        row = connection.execute(sql["run_adopt"], run_row(run)).fetchone()
        if row is not None:
            return int(row[0])
        there = _locked(connection, sql, run.run_id)  # which another transaction has just made
        assert there is not None
    if not is_elsewhere(there) or not may_replace(run, there):
        raise _Refused(adopt_refused(there))
    with connection.pipeline():
        for what in _FORGET:
            connection.execute(sql[f"forget_{what}"], (there.run_no,))
        connection.execute(sql["run_replace"], (*run_row(run), there.run_no))
    return there.run_no


def _locked(connection: Connection, sql: Statements, run_id: str) -> RunRecord | None:
    row = connection.execute(sql["run_locked"], (run_id,), binary=True).fetchone()
    return None if row is None else run_record(row)


def _lock(connection: Connection, sql: Statements, export: RunExport) -> None:
    """Lock all names and workspaces that the run wants, at once and so in the order of everyone else."""
    spaces = list({held.workspace for held in export.holds})
    names = [name.key for name in export.identities if name.scope is IdentityScope.STORE]
    if spaces or names:
        connection.execute(sql["lock_wanted"], (spaces, names))


def _add_rows(connection: Connection, sql: Statements, run_no: int, export: RunExport) -> None:
    events = ((run_no, int(line.kind), line.at, line.call_seq, line.epoch, line.detail) for line in export.events)
    artifacts = ((run_no, kept.digest, *pack(kept.data)) for kept in export.artifacts)
    _insert(connection, sql["call_adopt"], (copied_call_row(run_no, call) for call in export.calls))
    _insert(connection, sql["checkpoint_adopt"], (checkpoint_row(run_no, kept) for kept in export.checkpoints))
    _insert(connection, sql["request_adopt"], (request_row(run_no, asked) for asked in export.requests))
    _insert(connection, sql["event_adopt"], events)
    _insert(connection, sql["artifact_adopt"], artifacts)


def _insert(connection: Connection, statement: str, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows in this order, in a pipeline."""
    with connection.cursor() as cursor:
        cursor.executemany(statement, rows)


def _take_names(connection: Connection, sql: Statements, run_no: int, names: Sequence[IdentityRecord]) -> None:
    """Names of the run's own, and such as nobody holds, whose count of undoings is kept."""
    for name in names:
        scope_run = 0 if name.scope is IdentityScope.STORE else run_no
        mine = 0 if name.run_no == 0 else run_no
        values = (scope_run, name.key, mine, name.call_seq, name.args_digest, name.undone)
        if connection.execute(sql["identity_adopt"], values).fetchone() is not None or not mine:
            continue
        row = connection.execute(sql["identity_holder"], (scope_run, name.key)).fetchone()
        raise _Refused(name_held(name.key, "" if row is None else row[0]))


def _hold_paths(connection: Connection, sql: Statements, run_no: int, holds: Sequence[HoldRecord]) -> None:
    spaces = sorted({held.workspace for held in holds})
    for space in spaces:
        others = connection.execute(sql["holds_of"], (space,), binary=True).fetchall()
        for held in holds:
            for path, other, run_id, seq in others:
                if held.workspace == space and other != run_no and overlap(held.path, path):
                    raise _Refused(path_held(path, run_id, seq, None))
    _insert(connection, sql["hold_adopt"], ((held.workspace, held.path, run_no, held.call_seq) for held in holds))


# --- What the two other changes send, and what their refusals mean. ---


def arrive_values(change: Arrive) -> tuple[Any, ...]:
    """The parameters of an arrival."""
    return (
        *(change.run_id, change.epoch, change.version, change.answers, int(change.control), int(change.status)),
        *(epoch_after(change), change.wake_at, change.waiting_on),
        *(None if change.error_class is None else int(change.error_class), change.error_type, change.error_message),
        *(change.at, int(EventKind.ARRIVED)),
    )


def depart_values(change: Depart) -> tuple[Any, ...]:
    """The parameters of a departure."""
    return (
        *(change.run_id, change.epoch, change.version, change.answers, int(change.control), change.message, _FINAL),
        *(change.at, int(EventKind.MOVED_AWAY)),
    )


def refused(change: Arrive | Depart, now: LeaseTime, run: RunRecord | None) -> Refusal:
    """Name the guard."""
    return arrive_refused(run, change) if isinstance(change, Arrive) else depart_refused(run, now, change)
