"""The names of actions: each is held by one call, within its run or within the whole store.

A name is taken by one statement on its unique index: the row is inserted, or it is the call's own already, or it is
that of the holder whose place may be taken.  A statement that did none of these found the name with another call.
"""

from __future__ import annotations

import sqlite3

from jumar.core.changes import Take
from jumar.core.records import IdentityRecord
from jumar.core.states import IdentityScope
from jumar.stores.sqlite.tables import SQL

_NOBODY = (-1, -1)  # no run and no call has these numbers


def take(connection: sqlite3.Connection, run_no: int, wanted: Take) -> bool:
    """Take a name for a call of the run; False where another call holds it."""
    instead_run, instead_seq = wanted.instead_of or _NOBODY
    values = {
        "scope_run": _scope_run(wanted.scope, run_no),
        "key": wanted.key,
        "run_no": run_no,
        "call_seq": wanted.seq,
        "args_digest": wanted.args_digest,
        "undone": wanted.undone,
        "instead_run": instead_run,
        "instead_seq": instead_seq,
    }
    return connection.execute(SQL["identity_take"], values).fetchone() is not None


def free(connection: sqlite3.Connection, run_no: int, seq: int, *, undone: bool = False) -> None:
    """Give up whatever names a call holds; with `undone` because what it did was undone, which is counted."""
    if not undone:
        connection.execute(SQL["identity_free"], (run_no, seq))
    connection.execute(SQL["identity_left"], {"run_no": run_no, "call_seq": seq, "undone": undone})


def holder(connection: sqlite3.Connection, scope: IdentityScope, run_no: int, key: str) -> IdentityRecord | None:
    """Who holds a name, or held it before it was undone, where somebody did."""
    row = connection.execute(SQL["identity_by_key"], (_scope_run(scope, run_no), key)).fetchone()
    return None if row is None else IdentityRecord(scope, key, *row)


def _scope_run(scope: IdentityScope, run_no: int) -> int:
    return 0 if scope is IdentityScope.STORE else run_no
