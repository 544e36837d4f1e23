"""The floors: what SQLite alone needs for the same promise.

They use Jumar's own schema and the very texts of its statements, with parameters that are built before the clock
runs, and nothing of Jumar around them: no codec, no queue, no lease keeper, no replay table.  So a ratio to them is
the price of Jumar's layers, and not of another schema or another way to commit.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from jumar.core.changes import Ack, Create
from jumar.core.checksums import checksum_of
from jumar.core.codec import codec_for, digest, encode_arguments
from jumar.core.naming import uuid7
from jumar.core.phases import PHASE_BEFORE, STATUS_BEFORE
from jumar.core.records import Artifact, CallRecord
from jumar.core.states import CallKind, CallState, Effect, EventKind, Phase, Status, mask
from jumar.stores.clock import BOOT, lease_ms, wall_ms
from jumar.stores.packing import pack
from jumar.stores.rows import plain_call_row
from jumar.stores.sqlite.connection import connect
from jumar.stores.sqlite.store import SQLiteStore
from jumar.stores.sqlite.tables import SQL

RESULT = "The pump in hall 4 reported 71.3 degrees; the valve was open, the log shows no alarm. " * 12
RESULT = RESULT[:1022]  # 1 KiB as JSON, with its quotes
DATA = codec_for(str).encode(RESULT)
OWNER = "a-host-name/12345/0123abcd/1"
YEAR_MS = 365 * 24 * 3600 * 1000
_INPUT = codec_for(int).encode(0)

_ADVANCE = SQL["run_advance_quietly"]
_INSERT = SQL["call_insert_plain"]

Parameters = tuple[Sequence[Any], Sequence[Any]]


class Inserts:
    """One INSERT and COMMIT of 1 KiB after the other, as a program would write them with sqlite3."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE record (number INTEGER PRIMARY KEY, data BLOB NOT NULL)")
        self._connection.commit()

    def work(self, count: int) -> None:
        """Commit so many rows."""
        connection, data = self._connection, DATA
        for _ in range(count):
            connection.execute("INSERT INTO record (data) VALUES (?)", (data,))
            connection.commit()

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


class Guarded:
    """The bare guarded transaction of one run: UPDATE run, INSERT call, COMMIT."""

    def __init__(self, path: Path) -> None:
        store = SQLiteStore(str(path))
        outcome = store.write([new_run()])[0]
        store.close()
        assert isinstance(outcome, Ack)
        self._run_no = outcome.run_no
        self._connection = connect(str(path))
        self._done = 0

    def prepare(self, count: int) -> list[Parameters]:
        """The parameters of the next so many calls."""
        first = self._done
        self._done += count
        return [step_parameters(self._run_no, number) for number in range(first, self._done)]

    def work(self, prepared: list[Parameters]) -> None:
        """Commit these calls."""
        connection = self._connection
        for update, insert in prepared:
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute(_ADVANCE, update).rowcount != 1:
                raise AssertionError("the guard of the floor matched nothing")
            connection.execute(_INSERT, insert)
            connection.execute("COMMIT")

    def fetch(self) -> int:
        """Read every call with the statement that a resume uses; answers how many there are."""
        return len(self._connection.execute(SQL["calls"], (self._run_no, 0)).fetchall())

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


class Crowd:
    """Runs in threads of their own, each of whose commits is one transaction behind one lock."""

    def __init__(self, path: Path) -> None:
        SQLiteStore(str(path)).close()
        self._connection = connect(str(path))
        self._lock = threading.Lock()
        self.done = 0  # runs, under the lock

    def work(self, runs: int, steps: int) -> None:
        """Create so many runs, commit so many steps of each, and finish them."""
        prepared = [(new_run(), [step_parameters(0, number) for number in range(steps)]) for _ in range(runs)]
        threads = [threading.Thread(target=self._one, args=args) for args in prepared]
        done = self.done
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.done != done + runs:
            raise AssertionError("a run of the floor failed")

    def _one(self, creation: Create, steps: list[Parameters]) -> None:
        connection = self._connection
        with self._transaction():
            run_no = connection.execute(SQL["run_create"], _creation_parameters(creation)).fetchone()[0]
            self._artifact_and_event(run_no, EventKind.CREATED)
        for update, insert in steps:
            with self._transaction():
                if connection.execute(_ADVANCE, (*update[:4], run_no, *update[5:])).rowcount != 1:
                    raise AssertionError("the guard of the floor matched nothing")
                connection.execute(_INSERT, (run_no, *insert[1:]))
        with self._transaction():
            if connection.execute(SQL["run_leave"], _leave_parameters(run_no, len(steps))).fetchone() is None:
                raise AssertionError("the guard of the floor matched nothing")
            self._artifact_and_event(run_no, EventKind.COMPLETED)
            self.done += 1

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")

    def _artifact_and_event(self, run_no: int, kind: EventKind) -> None:
        self._connection.execute(SQL["artifact_insert"], (run_no, digest(_INPUT), *pack(_INPUT)))
        self._connection.execute(SQL["event_insert"], (run_no, int(kind), wall_ms(), None, 1, ""))

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


def step_parameters(run_no: int, number: int) -> Parameters:
    """What the two statements of a run's call number `number`, counted from 0, are given: the values that Jumar gives
    them for `read(number)`.
    """
    now, wall = lease_ms(), wall_ms()
    phase = Phase.IN_CODE
    update = (
        int(phase),
        0,
        now + YEAR_MS,
        wall,
        run_no,
        OWNER,
        1,
        number,
        BOOT,
        now,
        PHASE_BEFORE[phase],
        0,
        0,
    )
    return update, plain_call_row(run_no, _record(number, wall), number + 1)


def _record(number: int, wall: int) -> CallRecord:
    args = encode_arguments({"number": number})
    name, args_digest = f"read.{number + 1}", digest(args)
    record = CallRecord(
        number + 1,
        name,
        "",
        "",
        number + 1,
        CallKind.TOOL,
        "read",
        Effect.READ,
        CallState.SUCCEEDED,
        1,
        1,
        0,
        args_digest,
        args,
        result=DATA,
        started_at=wall,
        ended_at=wall,
    )
    return replace(record, checksum=checksum_of(record))


def new_run() -> Create:
    return Create(
        run_id=uuid7(wall_ms(), os.urandom(10)),
        agent="reader",
        agent_version="0123456789ab",
        task="reader",
        phase=Phase.IN_CODE,
        input=Artifact(digest(_INPUT), _INPUT),
        at=wall_ms(),
        owner=OWNER,
        ttl_ms=YEAR_MS,
    )


def _creation_parameters(new: Create) -> dict[str, Any]:
    return {
        "run_id": new.run_id,
        "reversed_id": new.run_id[::-1],
        "agent": new.agent,
        "agent_version": new.agent_version,
        "task": new.task,
        "status": int(Status.RUNNING),
        "phase": int(new.phase),
        "owner": new.owner,
        "epoch": 1,
        "boot": BOOT,
        "lease_until": lease_ms() + new.ttl_ms,
        "input_digest": new.input.digest,
        "workspace": None,
        "at": new.at,
    }


def _leave_parameters(run_no: int, version: int) -> dict[str, Any]:
    return {
        "phase": int(Phase.STOPPED),
        "step": 0,
        "status": int(Status.COMPLETED),
        "wake_at": None,
        "waiting_on": None,
        "output_digest": digest(_INPUT),
        "error_class": None,
        "error_type": None,
        "error_message": None,
        "failed_calls": None,
        "at": wall_ms(),
        "run_no": run_no,
        "owner": OWNER,
        "epoch": 1,
        "version": version,
        "boot": BOOT,
        "now": lease_ms(),
        "phase_before": PHASE_BEFORE[Phase.STOPPED],
        "status_before": STATUS_BEFORE[Status.COMPLETED] & mask(Status.RUNNING),
        "control": 0,
        "answers": 0,
        "is_final": True,
    }
