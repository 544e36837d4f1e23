"""What only reads in a PostgreSQL store: each method is one statement, and one round trip.

A statement that is alone is a transaction of its own, so none sees half of another's.  Where the connection is lost, it
is made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import psycopg

from jumar import errors
from jumar.core.checksums import checkpoint_agrees
from jumar.core.phases import FINAL
from jumar.core.records import (
    CallRecord,
    CheckpointRecord,
    EventRecord,
    HoldRecord,
    IdentityRecord,
    RequestRecord,
    RunRecord,
)
from jumar.core.states import CallKind, IdentityScope, mask
from jumar.core.store import RunFilter
from jumar.stores.packing import unpack
from jumar.stores.postgres.connecting import Connection, Connections
from jumar.stores.postgres.statements import statements
from jumar.stores.rows import Row, call_record, event_record, listed_checkpoint, request_record, run_record

_LAST = "~"  # sorts after every run id
_AFTER_SLASH = b"0"  # the byte that follows b"/"
_ALL = 1 << 31 - 1


class Reading:
    """The reading half of the store; see `jumar.core.store.Store` for the methods."""

    def __init__(self, connections: Connections, schema: str) -> None:
        self._connections = connections
        self._sql = statements(schema)

    def _rows(self, name: str, values: Any) -> list[Row]:
        statement = self._sql[name]
        try:
            return self._connections.tried(lambda connection: rows_of(connection, statement, values))
        except UnicodeEncodeError:
            return []  # asked for by a text that no row can hold

    def run(self, run_id: str) -> RunRecord | None:
        """See `Store.run`."""
        found = self._rows("run_by_id", (run_id,))
        return run_record(found[0]) if found else None

    def find(self, ending: str, limit: int) -> list[str]:
        """See `Store.find`."""
        if not ending:
            return [row[0] for row in self._rows("run_newest", (limit,))]
        first = ending[::-1]
        return [row[0] for row in self._rows("run_ending", {"first": first, "beyond": first + _LAST, "limit": limit})]

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
        return [run_record(row) for row in self._rows(name, values)]

    def due(self, wall_ms: int, limit: int, agents: Sequence[str] | None = None) -> list[str]:
        """See `Store.due`."""
        values = {"wall": wall_ms, "limit": limit, "agents": None if agents is None else list(agents)}
        # One may be due by its order and by its time.
        return list(dict.fromkeys(row[0] for row in self._rows("due", values)))[:limit]

    def next_due(self, wall_ms: int) -> int | None:
        """See `Store.next_due`."""
        found: int | None = self._rows("due_next", {"wall": wall_ms})[0][0]
        return None if found is None else max(0, found)

    def calls(self, run_no: int, since: int = 0) -> list[CallRecord]:
        """See `Store.calls`."""
        return [call_record(row) for row in self._rows("calls", (run_no, since))]

    def call(self, run_no: int, seq: int) -> CallRecord | None:
        """See `Store.call`."""
        found = self._rows("call", (run_no, seq))
        return call_record(found[0]) if found else None

    def last_call(self, run_no: int, kind: CallKind) -> CallRecord | None:
        """See `Store.last_call`."""
        found = self._rows("last_call", (run_no, int(kind)))
        return call_record(found[0]) if found else None

    def identity(self, scope: IdentityScope, run_no: int, key: str) -> IdentityRecord | None:
        """See `Store.identity`."""
        found = self._rows("identity_by_key", (0 if scope is IdentityScope.STORE else run_no, key))
        return IdentityRecord(scope, key, *found[0]) if found else None

    def shared(self, run_no: int, seq: int) -> bool:
        """See `Store.shared`."""
        return bool(self._rows("call_shared", {"run_no": run_no, "seq": seq})[0][0])

    def artifact(self, run_no: int, digest: bytes) -> bytes | None:
        """See `Store.artifact`."""
        packed = self._rows("artifact", (run_no, digest))
        data = _sound(packed, digest)
        if data is None:  # most have their own, and need not look at whose fork they are
            packed += self._rows("artifact_of_family", (run_no, digest))
            data = _sound(packed, digest)
        if data is None and packed:
            raise errors.IntegrityError(f"artifact {digest.hex()[:12]} is damaged")
        return data

    def checkpoints(self, run_no: int) -> list[CheckpointRecord]:
        """See `Store.checkpoints`."""
        return list(_listed(self._rows("checkpoints", (run_no,))))

    def last_snapshot(self, run_no: int) -> CheckpointRecord | None:
        """See `Store.last_snapshot`."""
        newest = self._rows("last_snapshot", (run_no, 1))
        found = _first_sound(newest)
        return found if found is not None or not newest else _first_sound(self._rows("last_snapshot", (run_no, _ALL)))

    def holds(self, workspace: str, path: bytes) -> list[HoldRecord]:
        """See `Store.holds`."""
        if path:
            above = list(_with_those_above(path))
            values = {"workspace": workspace, "below": path + b"/", "beyond": path + _AFTER_SLASH, "above": above}
            found = self._rows("holds_overlapping", values)
        else:
            found = self._rows("holds_of_workspace", (workspace,))
        held = [HoldRecord(*row) for row in found]
        return sorted(held, key=lambda holder: (holder.path, holder.run_no, holder.call_seq))

    def requests(self, run_no: int, call_seq: int | None = None, *, unanswered: bool = False) -> list[RequestRecord]:
        """See `Store.requests`."""
        name = "requests_unanswered" if unanswered else "requests"
        if call_seq is None:
            return [request_record(row) for row in self._rows(name, (run_no,))]
        return [request_record(row) for row in self._rows(f"{name}_of_call", (run_no, call_seq))]

    def open_requests(self, limit: int) -> list[tuple[str, RequestRecord]]:
        """See `Store.open_requests`."""
        found = self._rows("requests_open", {"final": mask(*FINAL), "limit": limit})
        return [(row[0], request_record(row[1:])) for row in found]

    def events(self, run_no: int) -> list[EventRecord]:
        """See `Store.events`."""
        lines = map(event_record, self._rows("events", (run_no,)))
        return [line for line in lines if line is not None]


def rows_of(connection: Connection, statement: str, values: Any) -> list[Row]:
    """What a statement selects; asked for in binary, as bytes in text would be twice as long."""
    try:
        return list(connection.execute(statement, values, binary=True).fetchall())
    except psycopg.DataError as error:
        if error.sqlstate is None:  # psycopg's own: there is a NUL in a text
            return []
        raise


def _listed(rows: Iterable[Row]) -> Iterator[CheckpointRecord]:
    return (kept for row in rows if (kept := listed_checkpoint(row)) is not None)


def _first_sound(rows: Iterable[Row]) -> CheckpointRecord | None:
    """The first checkpoint that agrees with its checksum."""
    return next((each for each in _listed(rows) if checkpoint_agrees(each)), None)


def _sound(packed: Iterable[Row], digest: bytes) -> bytes | None:
    """The bytes of this digest, from the first that still hold them."""
    for packing, data in packed:
        with suppress(ValueError):
            unpacked = unpack(packing, data)
            if sha256(unpacked).digest() == digest:
                return unpacked
    return None


def _with_those_above(path: bytes) -> Iterator[bytes]:
    yield path
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path
    yield b""
