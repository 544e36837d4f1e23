"""A run that Jumar recorded, written once more without it: the same transactions, statements and rows, no more.

What each transaction writes is taken from the rows of the recorded run.  The statements and their parameters are those
that the store makes of it, noted before the clock runs, when it writes the same into a database aside.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from benchmarks.floors import OWNER, YEAR_MS
from jumar.core.changes import Ack, Advance, CallChange, Create
from jumar.core.checksums import checksum_of
from jumar.core.records import CallRecord, CheckpointRecord, EventRecord
from jumar.core.states import CallState, EventKind, Phase
from jumar.stores.sqlite.connection import connect
from jumar.stores.sqlite.store import SQLiteStore
from jumar.stores.sqlite.writes import apply

Statement = tuple[str, Any]  # with its parameters
Transaction = list[Statement]


class Bare:
    """A run in a database of its own that repeats, transaction by transaction, what a recorded one did."""

    def __init__(self, path: Path, recorded: Path, run_id: str, new: Create) -> None:
        self.calls, self._checkpoints, self.workspace = _rows(recorded, run_id)
        aside = path.with_suffix(".aside")
        self._run_no = _created(path, new)
        assert _created(aside, new) == self._run_no
        self._connection = connect(str(path))
        self._noting = sqlite3.connect(aside, isolation_level=None, factory=_Noting)
        self._noting.execute("PRAGMA synchronous = OFF")
        self._version = 0

    def work(self, prepared: list[Transaction]) -> None:
        """Commit them."""
        connection = self._connection
        for (guard, values), *others in prepared:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute(guard, values).rowcount != 1:
                raise AssertionError("the guard of the floor matched nothing")
            for statement, parameters in others:
                connection.execute(statement, parameters)
            connection.execute("COMMIT")

    def close(self) -> None:
        """Close the databases."""
        self._connection.close()
        self._noting.close()

    def advance(self, step: int, phase: Phase, **rows: Any) -> Advance:
        """The next advance, with the checkpoint that the recorded run kept before it."""
        version = self._version
        self._version += 1
        return Advance(
            run_no=self._run_no,
            owner=OWNER,
            epoch=1,
            version=version,
            phase=phase,
            step=step,
            ttl_ms=YEAR_MS,
            at=self.calls[0].started_at,
            before=self._checkpoints.get(version),
            **rows,
        )

    def statements(self, change: Advance) -> Transaction:
        """What the store executes for a change."""
        noting = self._noting
        noting.execute("BEGIN IMMEDIATE")
        noting.noted = []
        outcome = apply(noting, change)
        noted, noting.noted = noting.noted, []
        noting.execute("COMMIT")
        if not isinstance(outcome, Ack):
            raise AssertionError(f"the store refuses what the floor writes: {outcome}")
        return noted


class _Noting(sqlite3.Connection):
    """A connection that notes what it is told to execute."""

    noted: Transaction

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.noted = []

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        self.noted.append((statement, values))
        return super().execute(statement, values)


def _created(path: Path, new: Create) -> int:
    """A database with this run; its number there."""
    store = SQLiteStore(str(path))
    outcome = store.write([new])[0]
    store.close()
    assert isinstance(outcome, Ack)
    return outcome.run_no


def change_of(call: CallRecord, state: CallState, **more: Any) -> CallChange:
    """What makes a call that state, as it was recorded."""
    checksum = checksum_of(replace(call, state=state, result=more.get("result")))
    return CallChange(
        seq=call.seq, state=state, attempt=1, epoch=1, started_at=call.started_at, checksum=checksum, **more
    )


def started(call: CallRecord) -> EventRecord:
    """The trace's line about a call that is on its way."""
    return EventRecord(EventKind.CALL_STARTED, call.started_at, call.seq, 1, "attempt 1")


def _rows(path: Path, run_id: str) -> tuple[list[CallRecord], dict[int, CheckpointRecord], str]:
    """The calls of a recorded run, its checkpoints by their versions, and its workspace."""
    store = SQLiteStore(str(path))
    run = store.run(run_id)
    assert run is not None
    checkpoints = {each.version: each for each in store.checkpoints(run.run_no)}
    found = store.calls(run.run_no), checkpoints, run.workspace or ""
    store.close()
    return found
