"""Opening a SQLite database of Jumar's: the file, its owner, its schema.

Several processes may open a fresh file at once.  Turning on WAL and closing the last connection take locks that
SQLite's own busy handler does not wait for, so every step here is tried again while the database is busy.  Migrations
run inside one immediate transaction that reads the schema's number first: the process that comes second finds the
work done.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from jumar import errors
from jumar.database import forks
from jumar.database.failures import is_busy, primary_code, translated
from jumar.database.mounts import network_filesystem
from jumar.database.queries import migrations, statements

T = TypeVar("T")

MEMORY = ":memory:"
WAIT_SECONDS = 60.0  # how long a lock held by other processes is waited for
_OLDEST_SQLITE = (3, 35, 0)  # RETURNING


class Schema(NamedTuple):
    """What kind of database a file is: the package with its migrations, the id in its header, and where to keep it."""

    package: str
    application_id: int
    hint: str  # told where the file is another program's

    @property
    def newest(self) -> int:
        """The number of the newest schema this version knows."""
        return newest_number(self.package)

    def check(self, connection: sqlite3.Connection, path: str) -> None:
        """Refuse a database of another program or of a newer Jumar, before anything in it is changed."""
        tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
        number = schema_number(connection)
        # Looked at last: another process may be making the schema, and what has tables by then has its owner.
        owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
        if owner != self.application_id and (owner or tables or number):
            raise errors.SchemaMismatch(f"{path} belongs to another program", hint=self.hint)
        if number > self.newest:
            raise errors.SchemaMismatch(
                f"{path} has schema {number}; this version of Jumar knows schemas up to {self.newest}"
            )

    def migrate(self, connection: sqlite3.Connection, path: str) -> tuple[int, int]:
        """Bring the schema up to date; answers its number before and after."""
        try:
            number = patiently(lambda: schema_number(connection))
            if number == self.newest:
                return number, number
            return patiently(lambda: self._migrate(connection, path))
        except sqlite3.Error as error:
            raise translated(error, path) from error

    def _migrate(self, connection: sqlite3.Connection, path: str) -> tuple[int, int]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            self.check(connection, path)
            before = after = schema_number(connection)
            for number, text in migrations(self.package):
                if number <= before:
                    continue
                for statement in statements(text):
                    connection.execute(statement)
                after = number
            connection.execute(f"PRAGMA user_version = {after}")
            connection.execute(f"PRAGMA application_id = {self.application_id}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return before, after


@cache
def newest_number(package: str) -> int:
    """The number of a package's newest migration."""
    return migrations(package)[-1][0]


def schema_number(connection: sqlite3.Connection) -> int:
    """The number of the schema the database has; 0 for a fresh one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def patiently(work: Callable[[], T], seconds: float = WAIT_SECONDS) -> T:
    """Do `work`, again while the database is busy, for at most so many seconds.

    The pauses are short and drawn at random: SQLite's own handler sleeps up to 100 ms at a time, which is long beside a
    commit and lets the lucky process win over and over.
    """
    give_up = time.monotonic() + seconds
    pause = 0.0002
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= give_up:
                raise
        time.sleep(random.uniform(pause / 2, pause))
        pause = min(pause * 1.5, 0.01)


def connect(path: str, settle: Callable[[sqlite3.Connection], None], *, timeout: float = 0.0) -> sqlite3.Connection:
    """A connection whose transactions are begun and ended by hand; `settle` looks at the database and sets it up.

    `timeout` is how many seconds SQLite's own handler waits for a lock.  Errors are the store's (`StoreError` and its
    kin), also where the path can't hold a database, or was opened by the process that this one was forked from.
    """
    try:
        check_path(path)
    except OSError as error:
        raise errors.StoreUnavailable(f"{path} cannot be opened ({error.strerror})") from error
    try:
        # Some builds of SQLite read any name that begins with "file:" as a URI; an absolute path never does.
        name = path if path == MEMORY else str(Path(path).absolute())
        connection = sqlite3.connect(name, timeout=timeout, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise _not_opened(error, path) from error
    try:
        patiently(lambda: settle(connection))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        connection.close()
        raise _not_opened(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _not_opened(error: sqlite3.Error | UnicodeDecodeError, path: str) -> errors.JumarError:
    """SQLite says of a disk that cannot be written only that the file could not be opened."""
    file = Path(path)
    unopened = isinstance(error, sqlite3.Error) and primary_code(error) == sqlite3.SQLITE_CANTOPEN
    if unopened and not all(os.access(place, os.W_OK) for place in (file, file.parent) if place.exists()):
        return errors.StoreReadOnly(f"{path} cannot be written, nor what SQLite keeps beside it ({error})")
    return translated(error, path)


def check_path(path: str) -> None:
    """Refuse what cannot hold a database: an old SQLite, a missing folder, a folder, a network filesystem."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise errors.StoreUnavailable(
            f"this Python has SQLite {sqlite3.sqlite_version}; 3.35 or newer is needed", hint="Use a newer Python."
        )
    if path == MEMORY:
        return
    if forks.is_inherited(path):
        raise errors.StoreUnavailable(
            f"{path} was open in the process that this one was forked from, and cannot be opened here",
            safe="The file was not opened.",
            hint="Close the harness before the fork, or start processes with the 'spawn' method.",
        )
    file = Path(path)
    if file.is_dir():
        raise errors.StoreUnavailable(f"{path} is a folder, not a database file")
    if not file.parent.is_dir():
        raise errors.StoreUnavailable(
            f"the folder of {path} does not exist", hint=f"Make the folder {file.parent} first."
        )
    kind = network_filesystem(file)
    if kind is not None:
        raise errors.StoreUnavailable(
            f"{path} lies on a network filesystem ({kind}), where its locks and leases cannot be relied on",
            safe="The file was not opened.",
            hint="Keep the database on a local disk.",
        )
