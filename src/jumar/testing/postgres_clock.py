"""The lease clock of a PostgreSQL store in a test's schema, moved by hand.

The store's functions read the server's clock through one function, `lease_ms()`.  In a schema made for a test another
one takes its place, which shows what a row says: that number itself, or the real clock and so much more.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from jumar.stores.postgres.address import parse

_TABLES = ("run", "call", "artifact", "checkpoint", "request", "event", "identity", "hold")
_REAL = "(date_part('epoch', clock_timestamp()) * 1000)::bigint"


class MovedClock:
    """The clock of the store at an address, which has its tables already: stopped at 0, or ahead of the server's.

    What it is set to stays when this is closed, for the next process; nothing sets it back.
    """

    def __init__(self, address: str, *, stopped: bool) -> None:
        self._schema = parse(address).schema
        self._connection = _connected(address)
        shown = (
            "SELECT ms FROM {schema}.moved_clock"
            if stopped
            else f"SELECT {_REAL} + (SELECT ms FROM {{schema}}.moved_clock)"
        )
        self._do("CREATE TABLE IF NOT EXISTS {schema}.moved_clock (ms bigint NOT NULL)")
        self._do("INSERT INTO {schema}.moved_clock SELECT 0 WHERE NOT EXISTS (SELECT FROM {schema}.moved_clock)")
        self._do(
            f"CREATE OR REPLACE FUNCTION {{schema}}.lease_ms() RETURNS bigint LANGUAGE sql VOLATILE AS $${shown}$$"
        )

    def show(self, ms: int) -> None:
        """What it shows from now on, where it is stopped; how far it is ahead, where it is not."""
        self._do("UPDATE {schema}.moved_clock SET ms = %s", ms)

    def move(self, ms: int) -> None:
        """Let so many milliseconds pass."""
        self._do("UPDATE {schema}.moved_clock SET ms = ms + %s", ms)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _do(self, text: str, *values: Any) -> None:
        self._connection.execute(text.replace("{schema}", self._schema), values or None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def emptied(address: str) -> None:
    """Remove all runs from the store at an address, which nobody uses just now."""
    schema = parse(address).schema
    with _connected(address) as connection:
        names = ", ".join(f"{schema}.{table}" for table in _TABLES)
        connection.execute(f"TRUNCATE {names} RESTART IDENTITY")


def _connected(address: str) -> Any:
    import psycopg

    return psycopg.connect(parse(address).uri, autocommit=True)
