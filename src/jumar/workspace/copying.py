"""Bringing snapshots from one store's objects into another's.

Contents come before the folders that name them, and the snapshot last, as in a capture: what breaks off leaves objects
that nothing names.  A snapshot that is there already has all it names with it, and costs one look-up.
"""

from __future__ import annotations

from jumar.core import trees
from jumar.core.trees import EntryKind
from jumar.errors import IntegrityError
from jumar.workspace.objects import Objects

_BATCH_BYTES = 16 << 20
_BATCH_OBJECTS = 4096


class Copier:
    """Copies snapshots from `source` to `target`; what it has brought once it does not look at again."""

    def __init__(self, source: Objects, target: Objects) -> None:
        self._source = source
        self._target = target
        self._brought: set[bytes] = set()
        self._blobs: dict[bytes, bytes] = {}
        self._nodes: list[tuple[bytes, bytes]] = []
        self._waiting = 0

    def bring(self, digest: bytes) -> bool:
        """Have a snapshot in the target, with all it names; False where it was there.

        IntegrityError where something of it is damaged in the source or not there.
        """
        if digest in self._brought or self._is_there(digest):
            self._brought.add(digest)
            return False
        snapshot = self._source.get_snapshot(digest)
        self._source.bring(snapshot)
        folders: set[bytes] = set()
        try:
            self._bring_folder(snapshot.root, folders)
            self._flush()
        finally:
            self._blobs, self._nodes, self._waiting = {}, [], 0
        self._brought |= folders
        kept = self._target.put_snapshot(snapshot)
        if kept != digest:
            raise IntegrityError(f"the snapshot {digest.hex()} was written by a version that packs it otherwise")
        self._brought.add(digest)
        return True

    def _is_there(self, digest: bytes) -> bool:
        try:
            self._target.get_snapshot(digest)
        except IntegrityError:
            return False
        return True

    def _bring_folder(self, digest: bytes, folders: set[bytes]) -> None:
        """A folder with all below it; those below come first."""
        if digest in self._brought or digest in folders:
            return
        packed = self._source.get_node(digest)
        entries = trees.unpack_node(packed)
        files = [entry.digest for entry in entries if entry.kind is EntryKind.FILE and entry.digest is not None]
        for content in self._target.missing(list(dict.fromkeys(files))):
            if content not in self._blobs:
                self._bring_content(content)
        for entry in entries:
            if entry.kind is EntryKind.DIR and entry.digest is not None:
                self._bring_folder(entry.digest, folders)
        self._nodes.append((digest, packed))
        self._wait_for(len(packed))
        folders.add(digest)

    def _bring_content(self, digest: bytes) -> None:
        """A content; a large one piece by piece."""
        names: list[bytes] = []
        size, last = 0, b""
        for piece in self._source.parts(digest):
            if names:
                self._keep(names[-1], last)
            names.append(trees.digest_of(piece))
            last, size = piece, size + len(piece)
        if names == [digest]:
            self._keep(digest, last)
            return
        self._keep(names[-1], last)
        self._flush()
        self._target.put_parts(digest, size, names)

    def _keep(self, digest: bytes, data: bytes) -> None:
        self._blobs[digest] = data
        self._wait_for(len(data))

    def _wait_for(self, size: int) -> None:
        self._waiting += size
        if self._waiting >= _BATCH_BYTES or len(self._blobs) + len(self._nodes) >= _BATCH_OBJECTS:
            self._flush()

    def _flush(self) -> None:
        """Write what waits; the snapshot brings it all to disk."""
        blobs, nodes = self._blobs, self._nodes
        self._blobs, self._nodes, self._waiting = {}, [], 0
        self._target.put_many(blobs.items(), nodes, on_disk=False)
