"""Opening a store's SQLite database; what is the same for every database is in `jumar.database.opening`."""

from __future__ import annotations

import sqlite3

from jumar.database import opening
from jumar.database.opening import MEMORY, WAIT_SECONDS, Schema, patiently, schema_number

__all__ = [
    "APPLICATION_ID",
    "MEMORY",
    "WAIT_SECONDS",
    "check_schema",
    "connect",
    "migrate",
    "newest_schema",
    "patiently",
    "schema_number",
]

APPLICATION_ID = 0x4A554D52  # "JUMR", in the file's header
_SCHEMA = Schema("jumar.stores.sqlite", APPLICATION_ID, "Give Jumar a file of its own with --store.")


def connect(path: str) -> sqlite3.Connection:
    """A connection with the store's settings, whose transactions are begun and ended by hand."""
    return opening.connect(path, lambda connection: _settle(connection, path))


def _settle(connection: sqlite3.Connection, path: str) -> None:
    check_schema(connection, path)  # before anything is set: turning on WAL writes into the file
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")


def newest_schema() -> int:
    """The number of the newest schema this version knows."""
    return _SCHEMA.newest


def migrate(connection: sqlite3.Connection, path: str) -> tuple[int, int]:
    """Bring the schema up to date; answers its number before and after."""
    return _SCHEMA.migrate(connection, path)


def check_schema(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a database of another program or of a newer Jumar, before anything in it is changed."""
    _SCHEMA.check(connection, path)
