"""What a capture gathers on its way: objects on their way to disk, counts, budget, and what is to be told.

Contents and folders go to the objects in batches, contents first, so that memory stays small however large the
workspace is.  What they add up to becomes visible only with the snapshot, which comes last and is the only one of the
writes that waits for the disk: it brings along what was written before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from jumar import errors
from jumar.core import trees
from jumar.core.trees import RuleText, Skipped, SkipReason
from jumar.workspace.objects import Objects
from jumar.workspace.reading import Reading

_BATCH_BYTES = 16 << 20
_BATCH_FILES = 8192
QUIET_SECONDS = 2.0  # how long a capture says nothing
_EVERY_SECONDS = 0.5


class Budget(Struct, frozen=True):
    """How much a capture may cost: files in the tree, bytes of their content, seconds from its start.

    Past one of them it raises BudgetExceeded, or with `partial` answers a snapshot that says it is partial and names
    what it lacks.  None is no limit.
    """

    files: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    partial: bool = False


class Progress(Struct, frozen=True):
    """How far a capture is: files and bytes of content in the tree so far, seconds since its start."""

    files: int
    bytes: int
    seconds: float


class Collector:
    """The state of one capture."""

    def __init__(self, objects: Objects, budget: Budget, progress: Callable[[Progress], None] | None) -> None:
        self.objects = objects
        self.files = self.dirs = self.links = self.size = 0
        self.skipped: list[Skipped] = []
        self.torn: list[bytes] = []
        self.unportable: list[bytes] = []
        self.rules: list[RuleText] = []
        self.spent = False  # past the budget: nothing more is taken
        self.nodes: list[tuple[bytes, bytes]] = []
        self._blobs: dict[bytes, bytes] = {}
        self._waiting = 0
        self._budget = budget
        self._progress = progress
        self._begun = time.monotonic()
        self._tell_at = self._begun + QUIET_SECONDS if progress is not None else float("inf")
        self._end_at = float("inf") if budget.seconds is None else self._begun + budget.seconds
        self._look_at = min(self._tell_at, self._end_at)

    # --- Budget and progress. ----------------------------------------------------------------------------------------

    def take(self, files: int, size: int) -> bool:
        """Count files and bytes into the tree; False where the budget does not allow them."""
        if self.spent:
            return False
        limit = self._budget
        if limit.files is not None and self.files + files > limit.files:
            return self._exceeded(f"{limit.files} files")
        if limit.bytes is not None and self.size + size > limit.bytes:
            return self._exceeded(f"{limit.bytes} bytes")
        self.files += files
        self.size += size
        return True

    def untake(self, files: int, size: int) -> None:
        """Take back what was counted and turned out not to be there."""
        self.files -= files
        self.size -= size

    def has_room(self, files: int, size: int) -> bool:
        """Whether `take` would count them all; nothing is counted."""
        limit = self._budget
        return (
            not self.spent
            and (limit.files is None or self.files + files <= limit.files)
            and (limit.bytes is None or self.size + size <= limit.bytes)
        )

    def tick(self) -> None:
        """To be called often: tells how far the capture is, and ends it where its time is over."""
        now = time.monotonic()
        if now < self._look_at:
            return
        if now >= self._end_at and not self.spent:
            self._exceeded(f"{self._budget.seconds} seconds")
        if now >= self._tell_at and self._progress is not None:
            self._progress(Progress(self.files, self.size, now - self._begun))
            self._tell_at = now + _EVERY_SECONDS
        self._look_at = min(self._tell_at, float("inf") if self.spent else self._end_at)

    def _exceeded(self, what: str) -> bool:
        if not self._budget.partial:
            raise errors.BudgetExceeded(f"the workspace holds more than its budget of {what}")
        self.spent = True
        return False

    def skip(self, path: bytes, reason: SkipReason) -> None:
        """Note a path that is not captured."""
        self.skipped.append(Skipped(path, reason))

    @property
    def complete(self) -> bool:
        """Whether nothing that could belong to the snapshot is missing so far."""
        return not self.torn and not any(each.reason in trees.LACKING for each in self.skipped)

    # --- Objects. ----------------------------------------------------------------------------------------------------

    def keep_blob(self, digest: bytes, data: bytes) -> None:
        """Keep a content."""
        self._blobs[digest] = data
        self._waiting += len(data)
        if self._waiting >= _BATCH_BYTES or len(self._blobs) >= _BATCH_FILES:
            self.flush()

    def keep_parts(self, reading: Reading) -> None:
        """Keep a large content whose parts were given before."""
        self.flush()
        self.objects.put_parts(reading.digest, reading.size, reading.parts)

    def keep_node(self, packed: bytes) -> bytes:
        """Keep a folder; its digest."""
        digest = trees.digest_of(packed)
        self.nodes.append((digest, packed))
        return digest

    def flush(self) -> None:
        """Hand over what waits, contents before folders; the snapshot brings it all to disk."""
        blobs, nodes = self._blobs, self.nodes
        self._blobs, self.nodes, self._waiting = {}, [], 0
        self.objects.put_many(blobs.items(), nodes, on_disk=False)
        self.tick()
