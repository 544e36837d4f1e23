"""Objects of workspaces in a PostgreSQL database, for the hosts that share it.

Each put is one function call, so one round trip and one transaction; rows are sorted by digest, so that two hosts that
put the same at once wait for each other in one order.  Nothing is ever changed in place and a put can be made again, so
where the connection is lost the same is simply asked once more: a server that restarts in the middle of a snapshot
costs that snapshot a pause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jumar.core.objects import Kind, ObjectRows, Pin
from jumar.errors import StoreError
from jumar.stores.postgres.connecting import Connections
from jumar.stores.postgres.statements import statements

_ASKED_AT_ONCE = 4096  # digests


class PostgresObjects:
    """The objects in one schema; see `jumar.core.objects.SharedObjects` for its methods."""

    def __init__(self, connections: Connections, schema: str) -> None:
        self._connections = connections
        self._sql = statements(schema)
        self._identity: str | None = None

    def identity(self) -> str:
        """Which store this is."""
        if self._identity is None:
            ((found,),) = self._asked("object_store", ())
            self._identity = str(found)
        return self._identity

    def server(self) -> str:
        """Which server this is; "" where this role may not know."""
        try:
            ((found,),) = self._asked("objects_server", ())
        except StoreError:
            return ""
        return str(found)

    def put(self, rows: ObjectRows) -> None:
        """Keep all of them in one transaction, on disk when this returns."""
        if not rows:
            return
        blobs, nodes, snapshots = sorted(rows.blobs), sorted(rows.nodes), sorted(rows.snapshots)
        pins = sorted(rows.pins, key=lambda pin: (pin[1], pin[0]))
        columns = (*_columns(blobs, 4), *_columns(nodes, 2), *_columns(snapshots, 3), *_columns(pins, 2))
        self._asked("objects_put", columns)

    def unpin(self, pin: Pin) -> None:
        """Take back a pin."""
        self._connections.tried(lambda connection: connection.execute(self._sql["objects_unpin"], pin))

    def missing(self, kind: Kind, digests: Sequence[bytes]) -> list[bytes]:
        """Those that are not there, in the order given."""
        gone = {bytes(digest) for (digest,) in self._in_batches(f"{kind}_missing", digests)}
        return [digest for digest in digests if digest in gone]

    def get(self, kind: Kind, digests: Sequence[bytes]) -> list[tuple[bytes, int, bytes]]:
        """Those that are there."""
        return [(bytes(name), number, bytes(data)) for name, number, data in self._in_batches(f"{kind}_get", digests)]

    def pins(self, beginning: str) -> list[Pin]:
        """The pins whose reasons begin so."""
        return [(bytes(digest), reason) for digest, reason in self._asked("objects_pins", (beginning, beginning))]

    def every(self, kind: Kind, after: bytes, limit: int) -> Iterable[tuple[bytes, int, bytes]]:
        """The next ones in the order of their digests."""
        rows = self._asked(f"{kind}_every", (after, limit))
        return [(bytes(digest), number, bytes(data)) for digest, number, data in rows]

    def size(self) -> int:
        """Bytes on the server's disk."""
        ((found,),) = self._asked("objects_size", ())
        return int(found)

    def _in_batches(self, statement: str, digests: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
        for at in range(0, len(digests), _ASKED_AT_ONCE):
            yield from self._asked(statement, (list(digests[at : at + _ASKED_AT_ONCE]),))

    def _asked(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        text = self._sql[statement]
        return self._connections.tried(lambda connection: connection.execute(text, values, binary=True).fetchall())


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> tuple[list[Any], ...]:
    return tuple(list(column) for column in zip(*rows, strict=True)) if rows else tuple([] for _ in range(width))
