"""What every write has in common: the statements, the undoing, and the rows that any of them may touch."""

from __future__ import annotations

import sqlite3

from jumar.core.call_states import ENDED, STATE_BEFORE
from jumar.core.changes import CallChange, Refusal
from jumar.core.checksums import failure_bytes
from jumar.core.records import RunRecord
from jumar.core.states import CallState, EventKind
from jumar.database.queries import named_statements
from jumar.stores import refusals
from jumar.stores.packing import pack
from jumar.stores.rows import run_record, usage_bytes

SQL = named_statements("jumar.stores.sqlite") | named_statements("jumar.stores.sqlite", "moving.sql")


class Undo(Exception):
    """A guard failed after rows were written; the transaction must be rolled back.  `refusal` is the change's
    answer.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


def call_change(connection: sqlite3.Connection, run_no: int, change: CallChange, version: int) -> None:
    """Give a call its next state; where its present one does not allow that, everything is undone."""
    if not call_changed(connection, run_no, change, version):
        raise Undo(refusals.cannot_become(change.seq, change.state))


def call_changed(connection: sqlite3.Connection, run_no: int, change: CallChange, version: int) -> bool:
    """Give a call its next state, and say whether its present one allowed that."""
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
        "identity": change.identity,
        "identity_scope": None if change.identity_scope is None else int(change.identity_scope),
        "before": change.before,
        "after": change.after,
        "undone": change.undone,
        "state_before": STATE_BEFORE[change.state],
    }
    return connection.execute(SQL["call_change"], values).rowcount == 1


def artifact(connection: sqlite3.Connection, run_no: int, digest: bytes, data: bytes) -> None:
    """Keep bytes of a run, where it does not have them yet."""
    connection.execute(SQL["artifact_insert"], (run_no, digest, *pack(data)))


def event(
    connection: sqlite3.Connection,
    run_no: int,
    kind: EventKind,
    at: int,
    call_seq: int | None = None,
    epoch: int = 0,
    detail: str = "",
) -> None:
    """Add a line to a run's trace."""
    connection.execute(SQL["event_insert"], (run_no, int(kind), at, call_seq, epoch, detail))


def run_by_id(connection: sqlite3.Connection, run_id: str) -> RunRecord | None:
    """One run by its id."""
    row = connection.execute(SQL["run_by_id"], (run_id,)).fetchone()
    return None if row is None else run_record(row)


def run_by_no(connection: sqlite3.Connection, run_no: int) -> RunRecord | None:
    """One run by its number."""
    row = connection.execute(SQL["run_by_no"], (run_no,)).fetchone()
    return None if row is None else run_record(row)
