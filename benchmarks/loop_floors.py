"""The floor of a loop agent's turns: the transactions of a run that Jumar recorded, written once more without it.

A turn is a decision that plans one call, and that call.  Its decision and the planned call are one transaction, the
call's result is another, and of an external call the note that it is on its way is one between them.  What each of them
writes is taken from the rows of the recorded run; the statements and their parameters are those that the store makes of
it, kept before the clock runs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from benchmarks.floors import OWNER, YEAR_MS, new_run
from jumar.core.changes import Ack, Advance, CallChange, Create
from jumar.core.checksums import checksum_of
from jumar.core.records import CallRecord, CheckpointRecord, EventRecord
from jumar.core.states import CallState, Effect, EventKind, Phase
from jumar.stores.sqlite.connection import connect
from jumar.stores.sqlite.store import SQLiteStore
from jumar.stores.sqlite.writes import apply

Statement = tuple[str, Any]  # with its parameters
Transaction = list[Statement]

_READY = (Phase.RESULTS_RECORDED, Phase.READY_TO_DECIDE)  # what a decision passes through after the first turn


class Turns:
    """The turns of one run, as so many bare guarded transactions."""

    def __init__(self, path: Path, recorded: Path, run_id: str) -> None:
        self._calls, self._checkpoints = _rows(recorded, run_id)
        store = SQLiteStore(str(path))
        outcome = store.write([_new_loop_run()])[0]
        store.close()
        assert isinstance(outcome, Ack)
        self._run_no = outcome.run_no
        self._connection = connect(str(path))
        self._done = 0
        self._version = 0

    def prepare(self, count: int) -> list[Transaction]:
        """The transactions of the next so many turns."""
        found: list[Transaction] = []
        for number in range(self._done, self._done + count):
            decision, call = self._calls[2 * number : 2 * number + 2]
            found += [self._statements(change) for change in self._turn(number + 1, decision, call)]
        self._done += count
        return found

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
        """Close the database."""
        self._connection.close()

    def _turn(self, number: int, decision: CallRecord, call: CallRecord) -> list[Advance]:
        planned = replace(
            call,
            state=CallState.PLANNED,
            attempt=0,
            result=None,
            boot=None,
            dispatch_by=None,
            started_at=0,
            ended_at=None,
        )
        planned = replace(planned, checksum=checksum_of(planned))
        decided = self._advance(
            number,
            Phase.DECISION_RECORDED,
            calls=(decision, planned),
            through=() if number == 1 else _READY,
        )
        changes = [decided]
        if call.effect is Effect.EXTERNAL:
            told = EventRecord(EventKind.CALL_STARTED, call.started_at, call.seq, 1, "attempt 1")
            sent = _change(call, CallState.STARTED, boot=call.boot, dispatch_by=call.dispatch_by)
            changes.append(self._advance(number, Phase.DECISION_RECORDED, changes=(sent,), events=(told,)))
        ended = _change(call, CallState.SUCCEEDED, result=call.result, ended_at=call.ended_at)
        return [*changes, self._advance(number, Phase.RESULTS_RECORDED, changes=(ended,))]

    def _advance(self, step: int, phase: Phase, **rows: Any) -> Advance:
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
            at=self._calls[0].started_at,
            control=0,
            answers=0,
            before=self._checkpoints.get(version),
            **rows,
        )

    def _statements(self, change: Advance) -> Transaction:
        """What the store would execute for a change."""
        kept = _Kept()
        apply(cast(sqlite3.Connection, kept), change)
        return kept.statements


class _Kept:
    """Stands for a connection: keeps what it is told to execute, as if each statement had found its row."""

    rowcount = 1

    def __init__(self) -> None:
        self.statements: Transaction = []

    def execute(self, statement: str, values: Sequence[Any] | dict[str, Any]) -> _Kept:
        self.statements.append((statement, values))
        return self


def _change(call: CallRecord, state: CallState, **more: Any) -> CallChange:
    checksum = checksum_of(replace(call, state=state, result=more.get("result")))
    return CallChange(
        seq=call.seq, state=state, attempt=1, epoch=1, started_at=call.started_at, checksum=checksum, **more
    )


def _rows(path: Path, run_id: str) -> tuple[list[CallRecord], dict[int, CheckpointRecord]]:
    """The calls of a recorded run, and its checkpoints by their versions."""
    store = SQLiteStore(str(path))
    run = store.run(run_id)
    assert run is not None
    found = store.calls(run.run_no), {each.version: each for each in store.checkpoints(run.run_no)}
    store.close()
    return found


def _new_loop_run() -> Create:
    return replace(new_run(), phase=Phase.READY_TO_DECIDE)
