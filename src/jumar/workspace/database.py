"""The one SQLite file that holds a workspace's objects: opening it, its schema, and what its errors mean.

Several processes use it at once: WAL, every commit on disk before it is answered, and a wait of up to a minute for the
others.  Turning on WAL takes a lock that SQLite's own busy handler does not wait for, so opening is tried again.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from jumar import errors

APPLICATION_ID = 0x4A554D4F  # "JUMO", in the file's header
WAIT_SECONDS = 60.0
_PACKAGE = "jumar.workspace"
_PAGE_BYTES = 16_384  # contents are larger than rows usually are
_WAL_BYTES = 64 << 20  # what is written before it is moved into the database


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the objects at `path`, made with its schema where it is new.

    StoreUnavailable where the folder is missing or can't be used, SchemaMismatch where the file belongs to another
    program or to a newer version.
    """
    with translated(path):
        connection = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _settle(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def _settle(connection: sqlite3.Connection, path: Path) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            _check_owner(connection, path)
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a file that is made now
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_BYTES // _PAGE_BYTES}")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA temp_store = MEMORY")
            _migrate(connection, path)
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) or time.monotonic() >= give_up:
                raise
        time.sleep(random.uniform(0.001, 0.01))


def _number(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _check_owner(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file of another program, or of a newer version, before anything in it is changed."""
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    number = _number(connection)
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    if owner != APPLICATION_ID and (owner or tables or number):
        raise errors.SchemaMismatch(
            f"{path} belongs to another program", hint="Keep the objects in a file of their own."
        )
    newest = _migrations()[-1][0]
    if number > newest:
        raise errors.SchemaMismatch(f"{path} has schema {number}; this version of Jumar knows schemas up to {newest}")


def _migrations() -> list[tuple[int, str]]:
    folder = files(_PACKAGE).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name.split("_", 1)[0]), folder.joinpath(name).read_text(encoding="utf-8")) for name in names]


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    newest = _migrations()[-1][0]
    if _number(connection) == newest:
        return
    with transaction(connection):
        _check_owner(connection, path)  # again, under the lock: another process may have come first
        before = _number(connection)
        for number, text in _migrations():
            for statement in _statements(text) if number > before else ():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _statements(text: str) -> Iterator[str]:
    pending = ""
    for line in text.splitlines():
        pending += "" if line.lstrip().startswith("--") else line + "\n"
        if pending.strip() and sqlite3.complete_statement(pending):
            yield pending.strip()
            pending = ""


@contextmanager
def transaction(connection: sqlite3.Connection, *, on_disk: bool = True) -> Iterator[None]:
    """One transaction that writes: committed at the end, rolled back where anything is raised.

    Without `on_disk` it is on disk only when a later transaction is, which brings along all that came before it.
    """
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
        raise _meaning(error, path) from error


def _code(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def _meaning(error: sqlite3.Error, path: Path) -> errors.JumarError:
    code = _code(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return errors.StoreBusy(f"other processes kept {path} locked for too long")
    if code == sqlite3.SQLITE_FULL:
        return errors.StoreFull(f"there is no room left for {path}")
    if code == sqlite3.SQLITE_READONLY:
        return errors.StoreReadOnly(f"{path} cannot be written ({error})")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return errors.IntegrityError(f"{path} is damaged or no SQLite database ({error})")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_IOERR):
        return errors.StoreUnavailable(f"{path} cannot be opened or read ({error})")
    return errors.StoreError(f"{path} refused a statement ({error})")
