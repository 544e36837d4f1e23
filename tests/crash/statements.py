"""Stepping in between a store and its database, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import jumar.stores.sqlite.store as sqlite_store
from jumar.testing.crash import Crashed


class Statements:
    """A connection whose statements pass through `execute`; all else is the connection's own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> Any:
        """Carry one statement out."""
        return self._connection.execute(statement, *values)


class Dying(Statements):
    """A connection that is cut just before its n-th statement; None only counts."""

    def __init__(self, connection: Any, at: int | None) -> None:
        super().__init__(connection)
        self.at = at
        self.count = 0
        self.last = ""

    def execute(self, statement: str, *values: Any) -> Any:
        """Carry one statement out, or die."""
        if self.at is not None and self.count >= self.at:
            raise Crashed(f"cut before {statement}")
        self.count += 1
        self.last = " ".join(statement.split()[:3])
        if self.count == self.at:
            raise Crashed(f"cut before {statement}")
        return super().execute(statement, *values)


class Rewriting(Statements):
    """A connection that hands each statement to a function, which says what is carried out instead."""

    def __init__(self, connection: Any, rewrite: Callable[[Any, str, Any], Any]) -> None:
        super().__init__(connection)
        self._rewrite = rewrite

    def execute(self, statement: str, *values: Any) -> Any:
        """Carry one statement out as rewritten."""
        return self._rewrite(self._connection, statement, values)


@contextmanager
def rewritten(rewrite: Callable[[Any, str, Any], Any]) -> Generator[None, None, None]:
    """Every SQLite store opened in the block has its statements rewritten."""
    real = sqlite_store.connect
    sqlite_store.connect = lambda path: Rewriting(real(path), rewrite)  # type: ignore[assignment,return-value]
    try:
        yield
    finally:
        sqlite_store.connect = real
