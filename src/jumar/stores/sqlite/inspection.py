"""What `doctor` looks at in a SQLite store: the database's own check, and then its rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from jumar.core.store import Finding, Inspection
from jumar.stores import inspection
from jumar.stores.sqlite.tables import SQL

_MOST_LINES = 100  # of SQLite's own findings
_KEYS: inspection.Keys = {"every_artifact": (0,), "every_identity": (0,), "every_hold": inspection.FIRST_HOLD}


def inspect(reader: sqlite3.Connection) -> Inspection:
    """Read the whole store once and report what does not agree."""
    return inspection.inspect(
        lambda name, values: reader.execute(SQL[name], values), _KEYS, _own_check(reader), sqlite3.DatabaseError
    )


def _own_check(reader: sqlite3.Connection) -> Iterator[Finding]:
    try:
        for (line,) in reader.execute(f"PRAGMA integrity_check({_MOST_LINES})"):
            if line != "ok":
                yield Finding("database", line)
    except sqlite3.DatabaseError as error:
        yield Finding("database", str(error))
