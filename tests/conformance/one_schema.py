"""A store in PostgreSQL for each of many short tests: one schema a process, emptied between them, since making a schema
anew costs more than such a test does.
"""

from __future__ import annotations

import atexit
import secrets
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from jumar.core.store import Store
from jumar.stores.postgres.address import parse
from jumar.stores.postgres.connecting import Connection
from jumar.stores.postgres.migrating import newest_schema
from jumar.stores.postgres.store import PostgresStore
from jumar.testing.conformance_suite import SECOND_FOLDER
from jumar.testing.postgres import drop_schema, server, with_schema

TABLES = ("run", "call", "artifact", "checkpoint", "request", "event", "identity", "hold")


class OneSchema:
    """A schema with its tables, dropped when the process ends."""

    def __init__(self) -> None:
        self.name = f"t_{secrets.token_hex(6)}"
        there = server().address
        self.address = with_schema(there, self.name)
        PostgresStore(self.address).close()
        self.beside: psycopg.Connection[Any] = psycopg.connect(parse(self.address).uri, autocommit=True)
        atexit.register(self._drop, there)
        self._emptied_for: set[object] = set()
        self._spare: list[Connection] = []

    def store_of(self, owner: object) -> Store:
        """The store that stands for `owner`, a folder: an empty one at first, the same one when asked again."""
        if owner not in self._emptied_for:
            self._emptied_for.add(owner)
            self.empty()
        return _Reusing(self.address, self._spare)

    def empty(self) -> None:
        """Take every row away."""
        self.execute(";".join(f"DELETE FROM {{schema}}.{table}" for table in TABLES))

    def execute(self, text: str) -> psycopg.Cursor[Any]:
        """Carry out statements beside any store; {schema} is the schema's name."""
        return self.beside.execute(text.replace("{schema}", self.name).encode())

    def _drop(self, there: str) -> None:
        for connection in (self.beside, *self._spare):
            connection.close()
        drop_schema(there, self.name)


class _Reusing(PostgresStore):
    """A store that begins with connections of one before it, and does not look whether its tables are there: a new
    connection has to learn all functions anew, which takes longer than most tests.
    """

    def __init__(self, address: str, spare: list[Connection]) -> None:
        self._spare = spare
        super().__init__(address)

    def _migrate(self) -> tuple[int, int]:
        if not self._spare:
            return super()._migrate()
        self._connections.give(self._spare.pop())
        self.now()  # which is what a migration finds out besides
        return newest_schema(), newest_schema()

    def close(self) -> None:
        while (connection := self._connections._pop()) is not None:
            self._spare.append(connection)
        super().close()


@cache
def shared() -> OneSchema:
    """The schema of this process's tests."""
    return OneSchema()


@cache
def second() -> OneSchema:
    """Another, for tests of two stores."""
    return OneSchema()


def store_in(folder: Path) -> Store:
    """The store that stands for a test's folder, or for the folder of the second store that it makes in that."""
    return (second() if folder.name == SECOND_FOLDER else shared()).store_of(folder)


@cache
def clocked() -> OneSchema:
    """One whose lease clock stands still until `set_clock`."""
    schema = OneSchema()
    schema.execute(
        "CREATE TABLE {schema}.clock (ms bigint NOT NULL);"
        "INSERT INTO {schema}.clock VALUES (0);"
        "CREATE OR REPLACE FUNCTION {schema}.lease_ms() RETURNS bigint LANGUAGE sql VOLATILE AS"
        " 'SELECT ms FROM {schema}.clock'"
    )
    return schema


def set_clock(ms: int) -> None:
    """What the lease clock of `clocked` reads from now on."""
    clocked().execute(f"UPDATE {{schema}}.clock SET ms = {ms}")
