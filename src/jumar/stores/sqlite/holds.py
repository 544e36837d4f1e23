"""Paths of workspaces that open writes hold, each with all that lies below it.

Two paths are in each other's way where one is the other or a folder above it.  Those above are few and asked for by
name; those below lie side by side in the index, between `path/` and the byte after the slash.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from jumar.core.changes import Hold
from jumar.core.records import HoldRecord
from jumar.stores.sqlite.tables import SQL

_AFTER_SLASH = b"0"  # the byte that follows b"/"


def take(connection: sqlite3.Connection, run_no: int, wanted: Hold) -> bool:
    """Hold a path for a call of the run; False where another call, of this run or of another, is in the way."""
    if not is_free(connection, run_no, wanted):
        return False
    insert(connection, run_no, wanted)
    return True


def is_free(connection: sqlite3.Connection, run_no: int, wanted: Hold) -> bool:
    """Whether no other call than this one is in the way."""
    mine = (run_no, wanted.seq)
    found = overlapping(connection, wanted.workspace, wanted.path)
    return all((holder.run_no, holder.call_seq) == mine for holder in found)


def insert(connection: sqlite3.Connection, run_no: int, wanted: Hold) -> None:
    """Hold a path that is free."""
    connection.execute(SQL["hold_insert"], (wanted.workspace, wanted.path, run_no, wanted.seq))


def drop(connection: sqlite3.Connection, run_no: int, seq: int) -> None:
    """Give up whatever paths a call holds."""
    connection.execute(SQL["hold_drop"], (run_no, seq))


def overlapping(connection: sqlite3.Connection, workspace: str, path: bytes) -> Iterator[HoldRecord]:
    """Who holds a path, one above or one below it."""
    if not path:
        rows = connection.execute(SQL["holds_of_workspace"], (workspace,)).fetchall()
    else:
        rows = connection.execute(SQL["holds_below"], (workspace, path + b"/", path + _AFTER_SLASH)).fetchall()
        for above in _with_those_above(path):
            rows += connection.execute(SQL["holds_at"], (workspace, above)).fetchall()
    for row in rows:
        yield HoldRecord(*row)


def _with_those_above(path: bytes) -> Iterator[bytes]:
    yield path
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path
    yield b""
