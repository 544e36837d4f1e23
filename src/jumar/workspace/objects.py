"""Objects: the contents, folders and snapshots of workspaces, in one SQLite file beside them.

An object is named by the sha256 of its bytes, so that the same bytes are kept once whoever brings them, and every read
is checked against the name.  Objects come in transactions, contents before the folders that name them and folders
before the snapshot: a process that dies leaves objects that nothing names, never a name without its object.  A file of
more than `PART_BYTES` is kept in parts, so that no reader has to hold it whole.

Several processes may use the file at once, and several threads one `Objects`.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from jumar import errors
from jumar.core import trees
from jumar.core.objects import BlobRow, Kind, ObjectRows, Pin
from jumar.core.trees import Node, Snapshot
from jumar.database import forks
from jumar.database.queries import named_statements
from jumar.workspace import database, packing

_ASKED_AT_ONCE = 500  # digests looked up by one statement
_NODES_KEPT = 4096  # decoded folders kept in memory
_MOST_LINES = 100  # of SQLite's own findings

SQL = named_statements("jumar.workspace")


class Inspected(Protocol):
    """Where all objects are, to be looked at as a whole; see `Objects` for what these do."""

    place: bytes

    @property
    def where(self) -> str: ...
    def every(self, kind: Kind) -> Iterator[tuple[bytes, int, bytes]]: ...
    def own_check(self) -> list[str]: ...
    def load(self, digest: bytes, /) -> Node: ...
    def get_snapshot(self, digest: bytes) -> Snapshot: ...
    def missing(self, digests: Sequence[bytes]) -> list[bytes]: ...
    def pins(self, beginning: str = "") -> set[Pin]: ...
    def size(self) -> int: ...


class Objects:
    """The objects at `path`, a file that is made where it is missing; its folder must be there.

    Errors are the store's (`StoreError` and its kin), and IntegrityError where what is read does not agree with its
    name or is not there.
    """

    place = b""  # what tells the workspaces of this host from another's, where several share the objects

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).absolute()
        self._lock = threading.RLock()
        self._inherited = False
        self._db = database.connect(self.path)
        self._file = forks.file_id(str(self.path))
        forks.watch(self, Objects._forked)
        self._pack: Callable[[bytes], tuple[int, bytes]] | None = None
        self.load = lru_cache(maxsize=_NODES_KEPT)(self._load)

    def _forked(self) -> None:
        """Leave the parent's connection alone; see `jumar.database.forks`."""
        self._lock = threading.RLock()
        if self._file is None:
            return  # it was closed before
        self._inherited = True
        forks.keep(self._db)
        forks.inherit(self._file)

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """The connection, for this thread alone."""
        if self._inherited:
            raise errors.StoreUnavailable(
                f"{self.path} was open in the process that this one was forked from, and cannot be used here",
                safe="Nothing was read or written.",
                hint="Close the harness before the fork, or start processes with the 'spawn' method.",
            )
        with self._lock, database.translated(self.path):
            yield self._db

    def close(self) -> None:
        """Close the file; a second time does nothing.  In a forked process it is the parent's, and stays open."""
        with self._lock:
            if not self._inherited:
                self._db.close()
                self._file = None

    def __enter__(self) -> Objects:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Writing: each of these is one transaction, on disk when it returns. -----------------------------------------

    def put_many(
        self,
        blobs: Iterable[tuple[bytes, bytes]] = (),
        nodes: Iterable[tuple[bytes, bytes]] = (),
        *,
        on_disk: bool = True,
    ) -> None:
        """Keep contents and packed folders, given as (digest, bytes); those that are there already cost a look-up.

        Without `on_disk` a later write brings them to disk: for what a snapshot that is still to come will name.
        """
        rows = ObjectRows(self._packed(dict(blobs)), list(nodes))
        if rows:
            self._keep(rows, on_disk=on_disk)

    def put_blob(self, data: bytes) -> bytes:
        """Keep one content of any size; its digest."""
        digest = trees.digest_of(data)
        if len(data) > packing.PART_BYTES:
            size = packing.PART_BYTES
            parts = [data[at : at + size] for at in range(0, len(data), size)]
            names = [trees.digest_of(part) for part in parts]
            self.put_many(zip(names, parts, strict=True))
            self.put_parts(digest, len(data), names)
        else:
            self.put_many([(digest, data)])
        return digest

    def put_parts(self, digest: bytes, size: int, parts: Sequence[bytes]) -> None:
        """Keep a large content of which the parts, named by their digests, are there already."""
        self._keep(ObjectRows([(digest, size, packing.PARTS, b"".join(parts))]))

    def put_snapshot(
        self,
        snapshot: Snapshot,
        nodes: Iterable[tuple[bytes, bytes]] = (),
        cache: StatRows | None = None,
        pin: str | None = None,
    ) -> bytes:
        """Keep a snapshot, with the last of its folders and what was learnt about its files; its digest.

        With `pin` it is pinned for that reason in the same transaction.
        """
        data = trees.pack_snapshot(snapshot)
        digest = trees.digest_of(data)
        pins = () if pin is None else ((digest, pin),)
        self._keep(ObjectRows((), list(nodes), ((digest, snapshot.at, data),), pins), cache)
        return digest

    def pin(self, digest: bytes, reason: str) -> None:
        """Keep a snapshot and all it names from being collected, for as long as the reason stands."""
        self._keep(ObjectRows(pins=((digest, reason),)))

    def unpin(self, digest: bytes, reason: str) -> None:
        """Take back a pin; one that is not there is taken for done."""
        with self.using() as db, database.transaction(db):
            db.execute(SQL["drop_pin"], (digest, reason))

    def _keep(self, rows: ObjectRows, cache: StatRows | None = None, *, on_disk: bool = True) -> None:
        with self.using() as db, database.transaction(db, on_disk=on_disk):
            db.executemany(SQL["add_blob"], rows.blobs)
            db.executemany(SQL["add_node"], rows.nodes)
            db.executemany(SQL["add_snapshot"], rows.snapshots)
            if cache is not None:
                cache.write(db)
            db.executemany(SQL["add_pin"], rows.pins)

    def _packed(self, blobs: dict[bytes, bytes]) -> list[BlobRow]:
        """Rows for those contents that are not there yet; packed before the transaction, which others wait for."""
        with self.using():
            missing = self._missing_here("blob", list(blobs))
            if self._pack is None and missing:
                self._pack = packing.packer()
            pack = self._pack
            return [(digest, len(data := blobs[digest]), *pack(data)) for digest in missing] if pack is not None else []

    # --- Reading: everything is checked against its name. ------------------------------------------------------------

    def get_blob(self, digest: bytes) -> bytes:
        """A content, whole."""
        return b"".join(self.parts(digest))

    def parts(self, digest: bytes) -> Iterator[bytes]:
        """A content piece by piece, at most `PART_BYTES` each.

        Each piece is checked before it is given; that they make up the whole is known only once the last was taken.
        """
        row = self._row("blob", digest, "content")
        how, data = int(row[0]), bytes(row[1])
        if how != packing.PARTS:
            yield self._checked(digest, how, data)
            return
        whole = sha256()
        for at in range(0, len(data), 32):
            part = data[at : at + 32]
            row = self._row("blob", part, "part of a content")
            piece = self._checked(part, int(row[0]), bytes(row[1]))
            whole.update(piece)
            yield piece
        if whole.digest() != digest:
            raise self._damaged(digest, "content")

    def get_node(self, digest: bytes) -> bytes:
        """A folder's packed entries."""
        data = bytes(self._row("node", digest, "folder")[0])
        if trees.digest_of(data) != digest:
            raise self._damaged(digest, "folder")
        return data

    def get_snapshot(self, digest: bytes) -> Snapshot:
        """A snapshot by its digest."""
        data = bytes(self._row("snapshot", digest, "snapshot")[0])
        if trees.digest_of(data) != digest:
            raise self._damaged(digest, "snapshot")
        return trees.unpack_snapshot(data)

    def has_blob(self, digest: bytes) -> bool:
        """Whether a content is there; it is not read."""
        return not self.missing([digest])

    def missing(self, digests: Sequence[bytes]) -> list[bytes]:
        """Those contents that are not there, in the order given; none is read."""
        return self._missing_here("blob", digests)

    def _missing_here(self, kind: Kind, digests: Sequence[bytes]) -> list[bytes]:
        there: set[bytes] = set()
        for at in range(0, len(digests), _ASKED_AT_ONCE):
            asked = digests[at : at + _ASKED_AT_ONCE]
            statement = SQL[f"{kind}s_there"].replace(":digests", ",".join("?" * len(asked)))
            with self.using() as db:
                there.update(row[0] for row in db.execute(statement, asked))
        return [digest for digest in digests if digest not in there]

    @property
    def where(self) -> str:
        """Where the objects are, for people."""
        return str(self.path)

    def bring(self, snapshot: Snapshot) -> None:
        """Have all that a snapshot names at hand: here it is."""

    # --- Being looked at as a whole. ---------------------------------------------------------------------------------

    def inspected(self) -> Inspected:
        """What is to be looked at where all objects are."""
        return self

    def every(self, kind: Kind) -> Iterator[tuple[bytes, int, bytes]]:
        """Every object of a kind, of which as few as can be are held in memory at once: its digest, of a content the
        packing, and its bytes as they are kept.
        """
        last = 0
        while True:
            with self.using() as db:
                rows = db.execute(SQL[f"every_{kind}"], (last,)).fetchall()
            if not rows:
                return
            yield from ((bytes(digest), how, bytes(data)) for _, digest, how, data in rows)
            last = rows[-1][0]

    def own_check(self) -> list[str]:
        """What SQLite finds wrong with the file."""
        with self.using() as db:
            lines = [line for (line,) in db.execute(f"PRAGMA integrity_check({_MOST_LINES})")]
        return [line for line in lines if line != "ok"]

    def size(self) -> int:
        """Bytes on disk."""
        return sum(each.stat().st_size for each in self.files() if each.exists())

    def files(self) -> tuple[Path, ...]:
        """The database file and what SQLite keeps beside it while it is open."""
        return (self.path, *(self.path.with_name(self.path.name + end) for end in ("-wal", "-shm")))

    def pins(self, beginning: str = "") -> set[Pin]:
        """The pins whose reasons begin so, as (digest, reason)."""
        with self.using() as db:
            rows = db.execute(SQL["pins"], (len(beginning), beginning)).fetchall()
        return {(bytes(digest), reason) for digest, reason in rows}

    def stat_rows(self, root: bytes) -> dict[bytes, bytes]:
        """What is known about a root's folders, packed, by their path; empty where nothing is."""
        with self.using() as db:
            return dict(db.execute(SQL["stat_rows"], (root,)))

    def _load(self, digest: bytes) -> Node:
        return trees.unpack_node(self.get_node(digest))

    def _row(self, kind: Kind, digest: bytes, what: str) -> tuple[bytes, ...]:
        row = self._found(kind, digest)
        if row is None:
            raise errors.IntegrityError(f"the {what} {digest.hex()} is not in {self.where}")
        return row

    def _found(self, kind: Kind, digest: bytes) -> tuple[bytes, ...] | None:
        with self.using() as db:
            row: tuple[bytes, ...] | None = db.execute(SQL[kind], (digest,)).fetchone()
        return row

    def _checked(self, digest: bytes, how: int, packed: bytes) -> bytes:
        try:
            data = packing.unpack(how, packed)
        except ValueError as error:
            raise self._damaged(digest, "content") from error
        if trees.digest_of(data) != digest:
            raise self._damaged(digest, "content")
        return data

    def _damaged(self, digest: bytes, what: str) -> errors.IntegrityError:
        return errors.IntegrityError(f"the {what} {digest.hex()} in {self.where} does not agree with its checksum")


class StatRows:
    """What a scan learnt about the folders of a root: rows that changed, and folders that are gone."""

    def __init__(self, root: bytes, changed: Sequence[tuple[bytes, bytes]], gone: Sequence[bytes]) -> None:
        self._root = root
        self._changed = changed
        self._gone = gone

    def write(self, db: sqlite3.Connection) -> None:
        """Write them, inside the transaction that is open."""
        if not self._changed and not self._gone:
            return
        db.execute(SQL["add_root"], (self._root,))
        (number,) = db.execute(SQL["root_no"], (self._root,)).fetchone()
        db.executemany(SQL["put_stat_row"], ((number, folder, row) for folder, row in self._changed))
        db.executemany(SQL["drop_stat_row"], ((number, folder) for folder in self._gone))
