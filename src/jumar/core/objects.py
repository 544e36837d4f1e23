"""Objects of workspaces that several hosts share: what a store must do that keeps them.

An object is named by the sha256 of its bytes and never changes, so whoever puts one that is there already does nothing.
Contents are given as they are packed; what is read is checked by whoever asked for it, not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["blob", "node", "snapshot"]
BlobRow: TypeAlias = tuple[bytes, int, int, bytes]  # digest, size unpacked, packing, packed bytes
NodeRow: TypeAlias = tuple[bytes, bytes]  # digest, packed entries
SnapshotRow: TypeAlias = tuple[bytes, int, bytes]  # digest, taken at (ms since 1970), packed
Pin: TypeAlias = tuple[bytes, str]  # the digest of a snapshot, and why it is kept


class ObjectRows(Struct, frozen=True):
    """What is put at once: contents, then the folders that name them, then snapshots and their pins."""

    blobs: Sequence[BlobRow] = ()
    nodes: Sequence[NodeRow] = ()
    snapshots: Sequence[SnapshotRow] = ()
    pins: Sequence[Pin] = ()

    def __bool__(self) -> bool:
        return bool(self.blobs or self.nodes or self.snapshots or self.pins)


class SharedObjects(Protocol):
    """The objects of one store.  Used from several threads at once; every method may raise StoreError."""

    def identity(self) -> str:
        """Which store this is: a slug that is the same for every host, and another one for every other store."""
        ...

    def server(self) -> str:
        """Whose disk they are on: a slug, and another one where what was put last may be lost, as after a failover;
        "" where that is not known.
        """
        ...

    def put(self, rows: ObjectRows) -> None:
        """Keep all of them, in one transaction that is on disk when this returns; what is there already stays."""
        ...

    def unpin(self, pin: Pin) -> None:
        """Take back a pin; one that is not there is taken for done."""
        ...

    def missing(self, kind: Kind, digests: Sequence[bytes]) -> list[bytes]:
        """Those that are not there, in the order given."""
        ...

    def get(self, kind: Kind, digests: Sequence[bytes]) -> list[tuple[bytes, int, bytes]]:
        """Of each one that is there its digest, a number and its bytes.  The number is a content's packing, and of a
        snapshot when it was taken; of a folder it says nothing."""
        ...

    def pins(self, beginning: str) -> list[Pin]:
        """The pins whose reasons begin so, by their reasons."""
        ...

    def every(self, kind: Kind, after: bytes, limit: int) -> Iterable[tuple[bytes, int, bytes]]:
        """All there are, `limit` at a time, in the order of their digests: those beyond the digest `after`."""
        ...

    def size(self) -> int:
        """What they take on the server's disk, in bytes."""
        ...
