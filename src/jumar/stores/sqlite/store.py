"""The SQLite store: one connection that writes and one that reads, each used by one thread at a time.

In WAL mode readers never wait for the writer.  A database in memory has no WAL and no second connection: there the
writer reads too.  Locks of other processes are waited for here, with short random pauses, so that no "database is
locked" reaches a user while the others are making progress.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from threading import RLock
from typing import TypeVar

from msgspec import json

from jumar import errors
from jumar.core.changes import Change, Outcome
from jumar.core.checksums import checkpoint_agrees
from jumar.core.phases import FINAL
from jumar.core.records import (
    CallRecord,
    CheckpointRecord,
    EventRecord,
    HoldRecord,
    IdentityRecord,
    LeaseTime,
    RequestRecord,
    RunExport,
    RunRecord,
)
from jumar.core.states import CallKind, IdentityScope, mask
from jumar.core.store import CommitUnknown, Inspection, RunFilter, Watch
from jumar.database import forks
from jumar.database.failures import is_busy, primary_code, translated
from jumar.stores.clock import lease_now
from jumar.stores.packing import unpack
from jumar.stores.rows import Row, call_record, event_record, listed_checkpoint, request_record, run_record
from jumar.stores.sqlite import moving
from jumar.stores.sqlite.connection import MEMORY, connect, migrate, patiently
from jumar.stores.sqlite.holds import overlapping
from jumar.stores.sqlite.inspection import inspect
from jumar.stores.sqlite.landed import landed
from jumar.stores.sqlite.names import holder
from jumar.stores.sqlite.tables import SQL, Undo, run_by_id
from jumar.stores.sqlite.writes import apply
from jumar.stores.watching import Watching

T = TypeVar("T")

_BEGIN, _COMMIT = "BEGIN IMMEDIATE", "COMMIT"
_LAST = "~"  # sorts after every run id


class SQLiteStore:
    """A store in one SQLite file, or in memory for the path ":memory:".  See `jumar.core.store.Store` for its
    methods.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._where = "the database in memory" if path == MEMORY else path
        self._writing = RLock()
        self._writer = connect(path)
        try:
            self.migrated = migrate(self._writer, self._where)
            self._reading, self._reader = (self._writing, self._writer) if path == MEMORY else (RLock(), connect(path))
        except BaseException:
            self._writer.close()
            raise
        self._watching = Watching(None if path == MEMORY else self._version)
        self._file = None if path == MEMORY else forks.file_id(path)
        forks.watch(self, SQLiteStore._forked)

    def _forked(self) -> None:
        """Leave the parent's connections alone; see `jumar.database.forks`."""
        forks.keep((self._reader, self._writer))
        if self._file is not None:
            forks.inherit(self._file)

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        """See `Store.write`."""
        answers = self._written(changes, wait)
        self._watching.tell(changes, answers)
        return answers

    def _written(self, changes: Sequence[Change], wait: bool) -> list[Outcome | Exception]:
        with self._writing:
            try:
                return self._transaction(changes, wait)
            except CommitUnknown:
                raise
            except Exception as error:
                if isinstance(error, sqlite3.Error) and is_busy(error):
                    raise translated(error, self._where) from error
                if len(changes) == 1:
                    return [self._answer_for(error)]
                if not wait:
                    # One of them has to fail alone, and each of the others would take the lock again.
                    raise errors.StoreBusy(f"some changes have to be written to {self._where} one by one") from error
            return [self._alone(change) for change in changes]

    def _alone(self, change: Change) -> Outcome | Exception:
        try:
            return self._transaction([change], True)[0]
        except CommitUnknown:
            raise
        except Exception as error:
            return self._answer_for(error)

    def _answer_for(self, error: Exception) -> Outcome | Exception:
        if isinstance(error, Undo):
            return error.refusal
        return translated(error, self._where) if isinstance(error, sqlite3.Error) else error

    def _transaction(self, changes: Sequence[Change], wait: bool) -> list[Outcome | Exception]:
        """All of the changes or none.

        An interrupt can come between any two steps here, even in the rollback of a change that was interrupted before.
        So BEGIN is guarded like what follows it, and what is found open at the start is rolled back.
        """
        connection = self._writer
        if connection.in_transaction:
            self._roll_back()
        committing = False
        try:
            self._begin(wait)
            outcomes: list[Outcome | Exception] = [apply(connection, change) for change in changes]
            committing = True
            connection.execute(_COMMIT)
        except BaseException as error:
            self._roll_back()
            if committing and isinstance(error, sqlite3.Error) and primary_code(error) == sqlite3.SQLITE_IOERR:
                raise CommitUnknown(str(error)) from error
            raise
        return outcomes

    def _begin(self, wait: bool) -> None:
        try:
            self._writer.execute(_BEGIN)
        except sqlite3.OperationalError as error:
            if not wait or not is_busy(error):
                raise
            patiently(lambda: self._writer.execute(_BEGIN))

    def _roll_back(self) -> None:
        # After some errors SQLite has rolled back by itself, and after others nothing more can be done here.
        with suppress(sqlite3.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def read_back(self, change: Change) -> Outcome | None:
        """See `Store.read_back`."""
        with self._writing:
            try:
                self._roll_back()  # as in `_transaction`
                try:
                    self._begin(wait=True)
                    return landed(self._writer, change)
                finally:
                    self._roll_back()
            except sqlite3.Error as error:
                raise translated(error, self._where) from error

    def now(self) -> LeaseTime:
        """See `Store.now`."""
        return lease_now()

    def run(self, run_id: str) -> RunRecord | None:
        """See `Store.run`."""
        return self._read(lambda reader: run_by_id(reader, run_id))

    def find(self, ending: str, limit: int) -> list[str]:
        """See `Store.find`."""
        if not ending:
            return self._read(lambda reader: [row[0] for row in reader.execute(SQL["run_newest"], (limit,))])
        first = ending[::-1]
        values = {"first": first, "beyond": first + _LAST, "limit": limit}
        return self._read(lambda reader: [row[0] for row in reader.execute(SQL["run_ending"], values)])

    def runs(self, which: RunFilter) -> list[RunRecord]:
        """See `Store.runs`."""
        name = "runs"
        if which.status is not None:
            name += "_of_status"
        if which.agent is not None:
            name += "_and_agent" if which.status is not None else "_of_agent"
        values = {
            "status": None if which.status is None else int(which.status),
            "agent": which.agent,
            "before": which.before if which.before is not None else _LAST,
            "limit": which.limit,
        }
        return self._read(lambda reader: [run_record(row) for row in reader.execute(SQL[name], values)])

    def due(self, wall_ms: int, limit: int, agents: Sequence[str] | None = None) -> list[str]:
        """See `Store.due`."""
        now = self.now()
        known = None if agents is None else json.encode(sorted(set(agents))).decode()
        values = {"wall": wall_ms, "boot": now.boot, "now": now.ms, "limit": limit, "agents": known}
        begun = ("due_ordered", "due_waiting", "due_expired")
        rows = self._read(lambda reader: [row for name in begun for row in reader.execute(SQL[name], values)])
        # One may be due by its order and by its time, or have moved on between the statements.
        found = list(dict.fromkeys(row[0] for row in rows))
        if len(found) < limit:
            found += [run_id for run_id in self._queued(limit, agents) if run_id not in found]
        return found[:limit]

    def _queued(self, limit: int, agents: Sequence[str] | None) -> list[str]:
        """The oldest that nobody has begun; of each agent by itself, so that none reads through another's."""
        if agents is None:
            return self._read(lambda reader: [row[0] for row in reader.execute(SQL["due_queued"], {"limit": limit})])
        query = SQL["due_queued_of_agent"]
        rows = self._read(
            lambda reader: [
                row for agent in set(agents) for row in reader.execute(query, {"agent": agent, "limit": limit})
            ]
        )
        return sorted(row[0] for row in rows)

    def next_due(self, wall_ms: int) -> int | None:
        """See `Store.next_due`."""
        now = self.now()
        wake, lapse = self._read(
            lambda reader: (
                reader.execute(SQL["next_wake"]).fetchone(),
                reader.execute(SQL["next_lapse"], {"boot": now.boot}).fetchone(),
            )
        )
        moments = [] if wake is None else [wake[0] - wall_ms]
        if lapse[0] is not None:
            moments.append(lapse[0] - now.ms)
        return max(0, min(moments)) if moments else None

    def watch(self) -> Watch:
        """See `Store.watch`."""
        return self._watching.watch()

    def _version(self) -> int:
        """A number that differs from when it was last asked where anybody has written meanwhile."""
        number: int = self._read(lambda reader: reader.execute(SQL["data_version"]).fetchone()[0])
        return number

    def export(self, run_id: str) -> RunExport | None:
        """See `Store.export`."""
        return self._read(lambda reader: moving.export(reader, run_id))

    def calls(self, run_no: int, since: int = 0) -> list[CallRecord]:
        """See `Store.calls`."""
        return self._read(lambda reader: [call_record(row) for row in reader.execute(SQL["calls"], (run_no, since))])

    def call(self, run_no: int, seq: int) -> CallRecord | None:
        """See `Store.call`."""
        row = self._read(lambda reader: reader.execute(SQL["call"], (run_no, seq)).fetchone())
        return None if row is None else call_record(row)

    def last_call(self, run_no: int, kind: CallKind) -> CallRecord | None:
        """See `Store.last_call`."""
        row = self._read(lambda reader: reader.execute(SQL["last_call"], (run_no, int(kind))).fetchone())
        return None if row is None else call_record(row)

    def identity(self, scope: IdentityScope, run_no: int, key: str) -> IdentityRecord | None:
        """See `Store.identity`."""
        return self._read(lambda reader: holder(reader, scope, run_no, key))

    def shared(self, run_no: int, seq: int) -> bool:
        """See `Store.shared`."""
        values = {"run_no": run_no, "seq": seq}
        return bool(self._read(lambda reader: reader.execute(SQL["call_shared"], values).fetchone())[0])

    def artifact(self, run_no: int, digest: bytes) -> bytes | None:
        """See `Store.artifact`."""
        packed = self._packed("artifact", run_no, digest)
        data = _sound(packed, digest)
        if data is None:  # most have their own, and need not look at whose fork they are
            packed += self._packed("artifact_of_family", run_no, digest)
            data = _sound(packed, digest)
        if data is None and packed:
            raise errors.IntegrityError(f"artifact {digest.hex()[:12]} is damaged")
        return data

    def _packed(self, query: str, run_no: int, digest: bytes) -> list[tuple[int, bytes]]:
        return self._read(lambda reader: reader.execute(SQL[query], (run_no, digest)).fetchall())

    def checkpoints(self, run_no: int) -> list[CheckpointRecord]:
        """See `Store.checkpoints`."""
        rows = self._read(lambda reader: reader.execute(SQL["checkpoints"], (run_no,)).fetchall())
        return [kept for row in rows if (kept := listed_checkpoint(row)) is not None]

    def last_snapshot(self, run_no: int) -> CheckpointRecord | None:
        """See `Store.last_snapshot`."""
        return self._read(lambda reader: _first_sound(reader.execute(SQL["last_snapshot"], (run_no,))))

    def holds(self, workspace: str, path: bytes) -> list[HoldRecord]:
        """See `Store.holds`."""
        held = self._read(lambda reader: list(overlapping(reader, workspace, path)))
        return sorted(held, key=lambda holder: (holder.path, holder.run_no, holder.call_seq))

    def requests(self, run_no: int, call_seq: int | None = None, *, unanswered: bool = False) -> list[RequestRecord]:
        """See `Store.requests`."""
        values: tuple[int, ...] = (run_no,) if call_seq is None else (run_no, call_seq)
        if unanswered:
            name = "requests_unanswered" if call_seq is None else "requests_unanswered_of_call"
        else:
            name = "requests" if call_seq is None else "requests_of_call"
        return self._read(lambda reader: [request_record(row) for row in reader.execute(SQL[name], values)])

    def open_requests(self, limit: int) -> list[tuple[str, RequestRecord]]:
        """See `Store.open_requests`."""
        values = {"final": mask(*FINAL), "limit": limit}
        rows = self._read(lambda reader: reader.execute(SQL["requests_open"], values).fetchall())
        return [(row[0], request_record(row[1:])) for row in rows]

    def events(self, run_no: int) -> list[EventRecord]:
        """See `Store.events`."""
        rows = self._read(lambda reader: reader.execute(SQL["events"], (run_no,)).fetchall())
        return [event for event in map(event_record, rows) if event is not None]

    def inspect(self) -> Inspection:
        """See `Store.inspect`."""
        return self._read(inspect)

    def close(self) -> None:
        """See `Store.close`."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()
            self._file = None

    def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        with self._reading:
            try:
                return patiently(lambda: read(self._reader))
            except sqlite3.Error as error:
                raise translated(error, self._where) from error


def _first_sound(rows: Iterable[Row]) -> CheckpointRecord | None:
    """The first checkpoint that agrees with its checksum; the rest are not read."""
    kept = (listed_checkpoint(row) for row in rows)
    return next((each for each in kept if each is not None and checkpoint_agrees(each)), None)


def _sound(packed: list[tuple[int, bytes]], digest: bytes) -> bytes | None:
    """The bytes of this digest, from the first that still hold them."""
    for packing, data in packed:
        with suppress(ValueError):
            unpacked = unpack(packing, data)
            if sha256(unpacked).digest() == digest:
                return unpacked
    return None
