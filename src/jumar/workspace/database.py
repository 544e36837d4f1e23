"""The one SQLite file that holds a workspace's objects: its settings, its transactions, and what its errors mean.

Several processes use it at once: WAL, every commit on disk before it is answered, and a wait of up to a minute for the
others.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jumar.database import failures, opening
from jumar.database.opening import WAIT_SECONDS, Schema

APPLICATION_ID = 0x4A554D4F  # "JUMO", in the file's header
_PAGE_BYTES = 16_384  # contents are larger than rows usually are
_WAL_BYTES = 64 << 20  # what is written before it is moved into the database
_SCHEMA = Schema("jumar.workspace", APPLICATION_ID, "Keep the objects in a file of their own.")


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the objects at `path`, made with its schema where it is new.

    StoreUnavailable where the folder is missing or can't be used, or lies on a network filesystem, or where the
    process that this one was forked from has the file open; SchemaMismatch where it belongs to another program or to a
    newer version.
    """
    where = str(path)
    connection = opening.connect(where, lambda opened: _settle(opened, where), timeout=WAIT_SECONDS)
    try:
        _SCHEMA.migrate(connection, where)
    except BaseException:
        connection.close()
        raise
    return connection


def _settle(connection: sqlite3.Connection, path: str) -> None:
    _SCHEMA.check(connection, path)  # before anything is set: turning on WAL writes into the file
    connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a file that is made now
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_BYTES // _PAGE_BYTES}")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")


@contextmanager
def transaction(connection: sqlite3.Connection, *, on_disk: bool = True) -> Iterator[None]:
    """One transaction that writes: committed at the end, rolled back where anything is raised.

    Without `on_disk` it is on disk only when a later transaction is, which brings along all that came before it.
    """
    if connection.in_transaction:
        connection.execute("ROLLBACK")  # of somebody who was interrupted between two steps
    connection.execute(f"PRAGMA synchronous = {'FULL' if on_disk else 'NORMAL'}")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as those a person can do something about."""
    try:
        yield
    except sqlite3.Error as error:
        raise failures.translated(error, str(path)) from error
