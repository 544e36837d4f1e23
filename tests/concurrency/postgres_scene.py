"""Two at one row of PostgreSQL: a transaction that is held open, and changes of a store that wait for it.

Nothing sleeps: that a change waits is asked of the server.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg

from jumar.core.changes import Change, Outcome
from jumar.core.store import Store
from jumar.stores.postgres.address import parse
from jumar.stores.postgres.statements import statements
from jumar.stores.postgres.writes import BEGIN, call_for, outcome
from tests.conformance.one_schema import OneSchema

_SECONDS = 60.0


class Held:
    """A transaction that somebody else has open."""

    def __init__(self, schema: OneSchema) -> None:
        self._schema = schema
        self.connection: psycopg.Connection[Any] = psycopg.connect(parse(schema.address).uri, autocommit=True)
        self.connection.execute(BEGIN)

    def make(self, change: Change) -> Outcome:
        """Make a change in it."""
        call = call_for(change)
        row = self.connection.execute(statements(self._schema.name)[call.name], call.parameters).fetchone()
        assert row is not None
        return outcome(change, row[0])

    def lock(self, run_no: int) -> None:
        """Lock a run's row, and leave it as it is."""
        self.connection.execute(f"SELECT 1 FROM {self._schema.name}.run WHERE run_no = {run_no} FOR UPDATE".encode())

    def until_waited_for(self, many: int = 1) -> None:
        """Go on once so many others wait for it."""
        pid, deadline = self.connection.info.backend_pid, time.monotonic() + _SECONDS
        asks = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        while (found := self._schema.beside.execute(asks, (pid,)).fetchone()) is None or found[0] < many:
            assert time.monotonic() < deadline, "nobody waits"

    def commit(self) -> None:
        """End it, and keep what it did."""
        self.connection.execute("COMMIT")

    def roll_back(self) -> None:
        """End it, and keep nothing."""
        self.connection.execute("ROLLBACK")


@contextmanager
def held(schema: OneSchema) -> Iterator[Held]:
    """An open transaction; rolled back at the end unless it ended before."""
    transaction = Held(schema)
    try:
        yield transaction
    finally:
        transaction.connection.close()


@contextmanager
def meanwhile(store: Store, *changes: Change) -> Iterator[Future[list[Outcome | Exception]]]:
    """Another thread asks for changes; the block need not wait for its answer."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(store.write, changes)
