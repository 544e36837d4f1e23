"""Where the files of a restore wait: the names of slots, and the folders they are in."""

from __future__ import annotations

from collections.abc import Iterable

from jumar.core.file_operations import SLOT_PREFIX, Operation
from jumar.core.restoring import shown
from jumar.core.trees import join
from jumar.workspace.folders import Folders


def older_slot(operation: Operation) -> bytes:
    """Where the old file waits when it can't change places with the new one at once."""
    return operation.slot + b"-old"


def keep(folders: Folders, slot: bytes) -> str:
    """Give what is in a slot a name that nobody empties; answers its path for people."""
    folder, _, name = slot.rpartition(b"/")
    kept = join(folder, SLOT_PREFIX + b"kept-" + name.removeprefix(SLOT_PREFIX))
    folders.move(slot, kept)
    return shown(kept)


def touched_folders(operations: Iterable[Operation]) -> set[bytes]:
    """The folders in which operations give or take names."""
    paths = (path for each in operations for path in (each.path, each.slot) if path)
    return {path.rpartition(b"/")[0] for path in paths}
