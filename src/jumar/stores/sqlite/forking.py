"""A new run out of another one: the run's row from a guarded statement, and copies of what the fork begins with.

Calls are copied as they ended, checkpoints as they stand.  Artifacts stay the other run's; they are looked for along
`forked_from`.  Of the names that reach within a run the fork holds those that its calls hold there, and knows how
often the rest were undone: the idempotency key of a call is made of that count.
"""

from __future__ import annotations

import sqlite3

from jumar.core.changes import Ack, Fork, Outcome
from jumar.core.states import EventKind
from jumar.stores import refusals
from jumar.stores.sqlite.tables import SQL, Undo, event, run_by_id, run_by_no


def fork(connection: sqlite3.Connection, change: Fork) -> Outcome:
    """Make the fork, where its source still stands as it did."""
    values = {
        "run_id": change.run_id,
        "reversed_id": change.run_id[::-1],
        "source_no": change.source_no,
        "version": change.version,
        "base": change.base,
        "phase": int(change.phase),
        "step": change.step,
        "at": change.at,
        "workspace": change.workspace,
    }
    row = connection.execute(SQL["run_fork"], values).fetchone()
    if row is None:
        there = run_by_id(connection, change.run_id)
        return refusals.fork_refused(run_by_no(connection, change.source_no), there, change)
    run_no, version = row
    source = change.source_no
    for seq in change.calls:
        if connection.execute(SQL["fork_call"], (run_no, source, seq)).rowcount != 1:
            raise Undo(refusals.not_ended(seq))
        connection.execute(SQL["fork_name"], {"run_no": run_no, "source_no": source, "seq": seq})
    connection.execute(SQL["fork_names_undone"], {"run_no": run_no, "source_no": source})
    connection.executemany(SQL["fork_checkpoint"], ((run_no, source, each) for each in change.checkpoints))
    event(connection, run_no, EventKind.FORKED, change.at, detail=f"at version {change.base}")
    return Ack(run_no, version, 0)
