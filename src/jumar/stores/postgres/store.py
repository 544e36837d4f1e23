"""The PostgreSQL store: a few connections, each used by one thread at a time.

A change that was sent and not answered, because the connection was lost, may be on disk or not: that is CommitUnknown,
and the queue above asks `read_back`.  A change that was surely not sent, because there was no connection, waits until
there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

import psycopg

from jumar import errors
from jumar.core.changes import Change, Outcome
from jumar.core.records import LeaseTime, RunExport
from jumar.core.store import CommitUnknown, Inspection, Watch
from jumar.stores.postgres.address import parse
from jumar.stores.postgres.clock import ServerClock
from jumar.stores.postgres.connecting import Connection, Connections, Patience, close
from jumar.stores.postgres.exporting import export
from jumar.stores.postgres.failures import is_lost, translated
from jumar.stores.postgres.inspection import inspect
from jumar.stores.postgres.migrating import migrate
from jumar.stores.postgres.objects import PostgresObjects
from jumar.stores.postgres.reading import Reading, rows_of
from jumar.stores.postgres.settling import read_back
from jumar.stores.postgres.watching import PostgresWatch
from jumar.stores.postgres.writes import apply_batch

T = TypeVar("T")


class PostgresStore(Reading):
    """A store in one schema of a PostgreSQL database.  See `jumar.core.store.Store` for its methods."""

    def __init__(self, address: str) -> None:
        place = parse(address)
        self.schema = place.schema
        self._where = place.shown
        self._clock = ServerClock()
        super().__init__(Connections(place), place.schema)
        self.objects = PostgresObjects(self._connections, place.schema)  # of workspaces, for all hosts
        self.migrated = self._migrate()

    def _migrate(self) -> tuple[int, int]:
        patience = Patience(self._connections.opening_seconds, self._where)
        while True:
            connection = self._connections.open_one(patience)
            try:
                done = migrate(connection, self.schema, self._where, self._clock)
            except psycopg.Error as error:  # the connection was lost
                close(connection)
                patience.pause(error)
                continue
            except BaseException:
                close(connection)
                raise
            self._connections.give(connection)
            return done

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        """See `Store.write`."""
        try:
            return self._transaction(changes, wait)
        except CommitUnknown:
            raise
        except Exception as error:
            # Without a connection no part of the batch fares better than the whole.
            if isinstance(error, (errors.StoreUnavailable, errors.StoreBusy)):
                raise
            if len(changes) == 1:
                return [self._answer_for(error)]
            if not wait:
                raise errors.StoreBusy(f"some changes have to be written to {self._where} one by one") from error
        return [self._by_itself(change) for change in changes]

    def _by_itself(self, change: Change) -> Outcome | Exception:
        try:
            return self._transaction([change], True)[0]
        except CommitUnknown:
            raise
        except Exception as error:
            return self._answer_for(error)

    def _answer_for(self, error: Exception) -> Exception:
        return translated(error, self._where) if isinstance(error, psycopg.Error) else error

    def _transaction(self, changes: Sequence[Change], wait: bool) -> list[Outcome | Exception]:
        with self._connections.lent(wait=wait) as connection:
            try:
                return list(apply_batch(connection, self._sql, changes, self._clock.learn))
            except psycopg.Error as error:
                if is_lost(error) or connection.closed:
                    raise CommitUnknown(f"the connection to {self._where} was lost") from error
                raise

    def now(self) -> LeaseTime:
        """See `Store.now`.  It costs a round trip where nothing was heard of the server's clock for some seconds."""
        if not self._clock.is_fresh:
            self._read_clock()
        return self._clock.now()

    def lease_ms(self) -> int:
        """The lease clock in milliseconds, as far as it is known; never a round trip."""
        return self._clock.ms()

    def _read_clock(self) -> None:
        try:
            with self._connections.lent(wait=False) as connection:
                read = rows_of(connection, self._sql["clock"], ())[0][0]
        except (psycopg.Error, errors.StoreBusy):
            return  # this host's clock has not run away from it meanwhile
        self._clock.learn(read)

    def watch(self) -> Watch:
        """See `Store.watch`."""
        return PostgresWatch(self._connections, f"jumar_{self.schema}")

    def export(self, run_id: str) -> RunExport | None:
        """See `Store.export`."""
        return self._connections.tried(lambda connection: export(connection, self._sql, run_id))

    def inspect(self) -> Inspection:
        """See `Store.inspect`."""
        return inspect(self._rows)

    def read_back(self, change: Change) -> Outcome | None:
        """See `Store.read_back`."""
        return self._connections.tried(lambda connection: read_back(connection, self._sql, change))

    def at_once(self, read: Callable[[], T]) -> T:
        """Read, in a thread that may not wait: StoreBusy where a connection would have to be waited for."""
        with self._connections.hurried():
            return read()

    def connected(self) -> AbstractContextManager[Connection]:
        """A connection in autocommit mode for the block, with errors as the store's."""
        return self._connections.lent_translating()

    def close(self) -> None:
        """See `Store.close`."""
        self._connections.close()
