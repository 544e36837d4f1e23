"""Settling a change whose commit had an unknown outcome: the run's row is locked, then read.

A transaction that is still on its way holds that lock, so it is waited for; and what it wrote is seen, since each
statement looks anew.  A run that is not there yet has no row to lock: its creation is then waited for where it is made
again, on the index of its id.
"""

from __future__ import annotations

from typing import Any

from jumar.core.changes import Adopt, Arrive, Change, Claim, Create, Depart, Fork, Order, Outcome
from jumar.core.records import RunRecord
from jumar.stores.landed import landed
from jumar.stores.postgres.writes import BEGIN, Connection, Statements
from jumar.stores.rows import run_record


def read_back(connection: Connection, sql: Statements, change: Change) -> Outcome | None:
    """The answer of a change that is on disk, else None; a Refusal where it can no longer be made."""
    rows = _Rows(connection, sql)
    connection.execute(BEGIN)
    try:
        _lock(rows, change)
        return landed(rows, change)
    finally:
        if not connection.closed:
            connection.execute("ROLLBACK")


class _Rows:
    """See `jumar.stores.landed.Rows`."""

    def __init__(self, connection: Connection, sql: Statements) -> None:
        self._connection = connection
        self._sql = sql

    def first(self, name: str, *values: Any) -> tuple[Any, ...] | None:
        return self._connection.execute(self._sql[name], values).fetchone()

    def run_by_id(self, run_id: str) -> RunRecord | None:
        row = self.first("landed_by_id", run_id)
        return None if row is None else run_record(row)

    def run_by_no(self, run_no: int) -> RunRecord | None:
        row = self.first("landed_by_no", run_no)
        return None if row is None else run_record(row)

    def call_state(self, run_no: int, seq: int) -> int | None:
        row = self.first("call_state", run_no, seq)
        return None if row is None else row[0]

    def answer(self, request_id: str, run_no: int) -> tuple[Any, ...] | None:
        return self.first("request_found", request_id, run_no)


def _lock(rows: _Rows, change: Change) -> None:
    if isinstance(change, Adopt):
        rows.first("lock_run_by_id", change.export.run.run_id)
    elif isinstance(change, (Create, Fork, Claim, Order, Arrive, Depart)):
        rows.first("lock_run_by_id", change.run_id)
    else:
        rows.first("lock_run_by_no", change.run_no)
