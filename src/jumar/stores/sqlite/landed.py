"""Whether a change whose commit had an unknown outcome is on disk; asked inside a write transaction."""

from __future__ import annotations

import sqlite3
from typing import Any

from jumar.core.changes import Change, Outcome
from jumar.core.records import RunRecord
from jumar.stores import landed as shared
from jumar.stores.sqlite.tables import SQL, run_by_id, run_by_no


def landed(connection: sqlite3.Connection, change: Change) -> Outcome | None:
    """The answer of a change that is on disk, else None; a Refusal where it can no longer be made."""
    return shared.landed(_Rows(connection), change)


class _Rows:
    """See `jumar.stores.landed.Rows`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run_by_id(self, run_id: str) -> RunRecord | None:
        return run_by_id(self._connection, run_id)

    def run_by_no(self, run_no: int) -> RunRecord | None:
        return run_by_no(self._connection, run_no)

    def call_state(self, run_no: int, seq: int) -> int | None:
        row = self._connection.execute(SQL["call_state"], (run_no, seq)).fetchone()
        return None if row is None else row[0]

    def answer(self, request_id: str, run_no: int) -> tuple[Any, ...] | None:
        row = self._connection.execute(SQL["request_found"], (request_id, run_no)).fetchone()
        return None if row is None else tuple(row)
