"""Objects that several hosts share: a host's own file of them stands before those of the store, which are the truth.

What is written goes to the store first and into the file then, so that whatever is in the file is in the store as well:
another host can be given a digest at once, and what is in the file need not be sent again.  What is read is looked for
in the file, and fetched where it is not there; it is checked against its name before it is kept.  The file is a hint
that costs a host nothing but time to lose, and knows the host's stat cache besides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from jumar.core import trees
from jumar.core.objects import BlobRow, Kind, ObjectRows, Pin, SharedObjects
from jumar.core.trees import EntryKind, Node, Snapshot
from jumar.errors import IntegrityError
from jumar.workspace import database, packing
from jumar.workspace.objects import SQL, Inspected, Objects, StatRows

T = TypeVar("T")

_ASK_FROM = 256 << 10  # bytes: what is less is sent without asking whether it is there
_FETCH_BYTES = 16 << 20  # of contents fetched at once, before packing
_FETCH_ROWS = 2048
_LOOKED_AT: dict[Kind, int] = {"blob": 8, "node": 512, "snapshot": 512}  # at once
_WHERE = "the store's objects"
_WITH = "with:"  # a pin of this host's alone, of no snapshot: the server that it has what is here
_KINDS: tuple[Kind, ...] = ("blob", "node", "snapshot")
_NAMES: dict[Kind, str] = {"blob": "content", "node": "folder", "snapshot": "snapshot"}


class CachedObjects(Objects):
    """The objects of `shared` with this host's file of them at `path`.  `place` is what tells this host's workspaces
    from another's of the same path.
    """

    def __init__(self, path: Path | str, shared: SharedObjects, place: str = "") -> None:
        super().__init__(path)
        self.shared = shared
        self.place = place.encode()
        self._send_again()

    # --- Writing. ---

    def _send_again(self) -> None:
        """Where the store is on another server than this file was last used with, that one may have lost what was put
        last; so all that is here is offered to it.
        """
        server = self.shared.server()
        known = {reason for _, reason in super().pins(_WITH)}
        if not server or known == {_WITH + server}:
            return
        if known:
            for kind in _KINDS:
                self._offer(kind)
        with self.using() as db, database.transaction(db):
            for reason in known:
                db.execute(SQL["drop_pin"], (b"", reason))
            db.execute(SQL["add_pin"], (b"", _WITH + server))

    def _offer(self, kind: Kind) -> None:
        batch: list[tuple[bytes, int, bytes]] = []
        size = 0
        for row in self.every(kind):
            batch.append(row)
            size += len(row[2])
            if size >= _FETCH_BYTES or len(batch) >= _FETCH_ROWS:
                self._offered(kind, batch)
                batch, size = [], 0
        self._offered(kind, batch)

    def _offered(self, kind: Kind, batch: Sequence[tuple[bytes, int, bytes]]) -> None:
        lacking = set(self.shared.missing(kind, [row[0] for row in batch]))
        rows = [row for row in batch if row[0] in lacking]
        if kind == "blob":
            found = (self._row_of(*row) for row in rows)
            self.shared.put(ObjectRows(blobs=[row for row in found if row is not None]))
        elif kind == "node":
            self.shared.put(ObjectRows(nodes=[(digest, data) for digest, _, data in rows]))
        else:
            kept = [(digest, trees.unpack_snapshot(data).at, data) for digest, _, data in rows]
            self.shared.put(ObjectRows(snapshots=kept))

    def _row_of(self, digest: bytes, how: int, data: bytes) -> BlobRow | None:
        try:
            return digest, sum(map(len, self.parts(digest))), how, data
        except IntegrityError:
            return None  # damaged here, so that nobody would have anything of it

    def _keep(self, rows: ObjectRows, cache: StatRows | None = None, *, on_disk: bool = True) -> None:
        self.shared.put(self._unsent(rows))
        super()._keep(rows, cache, on_disk=False)  # what this host loses with its power, it fetches

    def _unsent(self, rows: ObjectRows) -> ObjectRows:
        """What is not in the store for all that this host knows, or, where that would be much, what really is not."""
        unknown = set(self._missing_here("node", [digest for digest, _ in rows.nodes]))
        blobs = list({row[0]: row for row in rows.blobs}.values())
        nodes = list({digest: (digest, data) for digest, data in rows.nodes if digest in unknown}.values())
        if sum(len(row[3]) for row in blobs) + sum(len(data) for _, data in nodes) >= _ASK_FROM:
            lacking = set(self.shared.missing("blob", [row[0] for row in blobs]))
            blobs = [row for row in blobs if row[0] in lacking]
            lacking = set(self.shared.missing("node", [row[0] for row in nodes]))
            nodes = [row for row in nodes if row[0] in lacking]
        return ObjectRows(blobs, nodes, rows.snapshots, rows.pins)

    def put_parts(self, digest: bytes, size: int, parts: Sequence[bytes]) -> None:
        """Keep a large content of which the parts are there already."""
        if self._missing_here("blob", [digest]):
            super().put_parts(digest, size, parts)

    def unpin(self, digest: bytes, reason: str) -> None:
        """Take back a pin."""
        self.shared.unpin((digest, reason))
        super().unpin(digest, reason)

    # --- Reading. ---

    def missing(self, digests: Sequence[bytes]) -> list[bytes]:
        """Those contents that are nowhere."""
        return self.shared.missing("blob", self._missing_here("blob", digests))

    def pins(self, beginning: str = "") -> set[Pin]:
        """Those of every host."""
        return set(self.shared.pins(beginning))

    def get_node(self, digest: bytes) -> bytes:
        """A folder's packed entries."""
        return self._mended("node", digest, super().get_node)

    def get_snapshot(self, digest: bytes) -> Snapshot:
        """A snapshot by its digest."""
        return self._mended("snapshot", digest, super().get_snapshot)

    def _mended(self, kind: Kind, digest: bytes, get: Callable[[bytes], T]) -> T:
        """What is damaged in this host's file is fetched again."""
        try:
            return get(digest)
        except IntegrityError:
            if not self._dropped(kind, digest):
                raise
        return get(digest)

    def _checked(self, digest: bytes, how: int, packed: bytes) -> bytes:
        try:
            return super()._checked(digest, how, packed)
        except IntegrityError:
            fresh = self._fetched("blob", digest) if self._dropped("blob", digest) else None
            if fresh is None:
                raise
        return super()._checked(digest, int(fresh[0]), bytes(fresh[1]))

    def _dropped(self, kind: Kind, digest: bytes) -> bool:
        """Whether this host's file had an object, which it has no more."""
        with self.using() as db, database.transaction(db, on_disk=False):
            return db.execute(SQL[f"drop_{kind}"], (digest,)).rowcount > 0

    def _found(self, kind: Kind, digest: bytes) -> tuple[bytes, ...] | None:
        return super()._found(kind, digest) or self._fetched(kind, digest)

    def _fetched(self, kind: Kind, digest: bytes) -> tuple[bytes, ...] | None:
        found = self.shared.get(kind, [digest])
        if not found:
            return None
        if kind == "blob":
            self._keep_fetched(blobs=found)
        elif kind == "node":
            self._keep_fetched(nodes=found)
        else:
            (_, at, data) = found[0]
            self._check(trees.digest_of(data), digest, kind)
            super()._keep(ObjectRows(snapshots=((digest, at, data),)), on_disk=False)
        return super()._found(kind, digest)

    def bring(self, snapshot: Snapshot) -> None:
        """Have all that a snapshot names in this host's file, in few round trips; IntegrityError where something is
        damaged or not there.
        """
        folders, wanted = [snapshot.root], dict[bytes, int]()
        seen = {snapshot.root}
        while folders:
            self._bring_folders(folders)
            deeper = []
            for folder in folders:
                for entry in self.load(folder):
                    if entry.kind is EntryKind.FILE and entry.digest is not None:
                        wanted[entry.digest] = entry.size
                    elif entry.kind is EntryKind.DIR and entry.digest is not None and entry.digest not in seen:
                        seen.add(entry.digest)
                        deeper.append(entry.digest)
            folders = deeper
        lacking = self._missing_here("blob", list(wanted))
        for digests in _batches([(digest, wanted[digest]) for digest in lacking]):
            found = self.shared.get("blob", digests)
            self._check_all("blob", digests, found)
            self._keep_fetched(blobs=found)

    def _bring_folders(self, folders: Sequence[bytes]) -> None:
        lacking = self._missing_here("node", folders)
        for at in range(0, len(lacking), _FETCH_ROWS):
            asked = lacking[at : at + _FETCH_ROWS]
            found = self.shared.get("node", asked)
            self._check_all("node", asked, found)
            self._keep_fetched(nodes=found)

    def _keep_fetched(
        self, blobs: Sequence[tuple[bytes, int, bytes]] = (), nodes: Sequence[tuple[bytes, int, bytes]] = ()
    ) -> None:
        """Keep what was fetched, each checked, in this host's file alone."""
        for digest, _, data in nodes:
            self._check(trees.digest_of(data), digest, "node")
        rows = [self._whole(digest, how, data) for digest, how, data in blobs]
        super()._keep(ObjectRows(rows, [(digest, data) for digest, _, data in nodes]), on_disk=False)

    def _whole(self, digest: bytes, how: int, data: bytes) -> BlobRow:
        """The row of a content that agrees with its name; of a large one the parts are fetched and kept as well."""
        if how != packing.PARTS:
            return digest, len(self._checked(digest, how, data)), how, data
        whole, size = sha256(), 0
        for part in (data[at : at + 32] for at in range(0, len(data), 32)):
            for piece in self.parts(part):
                whole.update(piece)
                size += len(piece)
        self._check(whole.digest(), digest, "blob")
        return digest, size, how, data

    def _check(self, found: bytes, digest: bytes, kind: Kind) -> None:
        if found != digest:
            raise self._damaged(digest, _NAMES[kind])

    def _check_all(self, kind: Kind, asked: Sequence[bytes], found: Sequence[tuple[bytes, int, bytes]]) -> None:
        lacking = set(asked) - {row[0] for row in found}
        if lacking:
            raise IntegrityError(f"the {_NAMES[kind]} {min(lacking).hex()} is not in {self.where}")

    def inspected(self) -> Inspected:
        """What the store has, without this host's file."""
        return SharedView(self.shared, self.place)

    @property
    def where(self) -> str:
        """Where the objects are, for people."""
        return _WHERE


class SharedView:
    """What the store has, to be looked at as a whole; nothing of it is kept."""

    where = _WHERE

    def __init__(self, shared: SharedObjects, place: bytes) -> None:
        self.place = place
        self._shared = shared

    def every(self, kind: Kind) -> Iterator[tuple[bytes, int, bytes]]:
        """Every object of a kind, as it is kept."""
        last = b""
        while rows := list(self._shared.every(kind, last, _LOOKED_AT[kind])):
            yield from rows
            last = rows[-1][0]

    def own_check(self) -> list[str]:
        """A server checks itself."""
        return []

    def load(self, digest: bytes) -> Node:
        """A folder's entries."""
        return trees.unpack_node(self._get("node", digest))

    def get_snapshot(self, digest: bytes) -> Snapshot:
        """A snapshot by its digest."""
        return trees.unpack_snapshot(self._get("snapshot", digest))

    def missing(self, digests: Sequence[bytes]) -> list[bytes]:
        """Those contents that are not there."""
        return self._shared.missing("blob", digests)

    def pins(self, beginning: str = "") -> set[Pin]:
        """The pins whose reasons begin so."""
        return set(self._shared.pins(beginning))

    def size(self) -> int:
        """Bytes on the server's disk."""
        return self._shared.size()

    def _get(self, kind: Kind, digest: bytes) -> bytes:
        found = self._shared.get(kind, [digest])
        if not found:
            raise IntegrityError(f"the {_NAMES[kind]} {digest.hex()} is not in {_WHERE}")
        if trees.digest_of(found[0][2]) != digest:
            raise IntegrityError(f"the {_NAMES[kind]} {digest.hex()} in {_WHERE} does not agree with its checksum")
        return found[0][2]


def _batches(sizes: Sequence[tuple[bytes, int]]) -> Iterator[list[bytes]]:
    """Digests in batches whose contents are of bounded size; one that is larger than that stands alone."""
    batch: list[bytes] = []
    total = 0
    for digest, size in sizes:
        if batch and (total + size > _FETCH_BYTES or len(batch) >= _FETCH_ROWS):
            yield batch
            batch, total = [], 0
        batch.append(digest)
        total += size
    if batch:
        yield batch
