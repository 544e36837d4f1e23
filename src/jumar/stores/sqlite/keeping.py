"""Checkpoints: each is read back and compared in the transaction that writes it.

A recovery stands on them, so one that the database did not take as it was given must be known while the run still
stands at it.  That costs a read of the page just written and one sha256, some ten microseconds.
"""

from __future__ import annotations

import sqlite3

from jumar.core.checksums import checkpoint_agrees
from jumar.core.records import CheckpointRecord
from jumar.errors import IntegrityError
from jumar.stores.rows import Row, checkpoint_record, checkpoint_row
from jumar.stores.sqlite.tables import SQL


def keep(connection: sqlite3.Connection, run_no: int, record: CheckpointRecord) -> None:
    """Write a sealed checkpoint, unless its version has one already; IntegrityError where it does not come back."""
    is_new = connection.execute(SQL["checkpoint_insert"], checkpoint_row(run_no, record)).rowcount == 1
    row = connection.execute(SQL["checkpoint"], (run_no, record.version)).fetchone()
    if row is not None and (not is_new or _is_as_written(row, record)):
        return
    raise IntegrityError(f"checkpoint {record.name} did not come back from the store as it was written")


def _is_as_written(row: Row, record: CheckpointRecord) -> bool:
    kept = checkpoint_record(row)
    return kept.checksum == record.checksum and checkpoint_agrees(kept)
