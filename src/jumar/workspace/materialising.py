"""A snapshot as a folder of its own.

Everything is written into a hidden folder beside the one that is asked for, brought to disk, and then takes its name in
one instant: there is the whole tree or none of it.  A process that dies on the way leaves the hidden folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from jumar.core.file_operations import OWNER_ONLY, SLOT_PREFIX
from jumar.core.trees import Entry, EntryKind, Snapshot, walk
from jumar.errors import WorkspaceError
from jumar.workspace.calls import MAKING, FileCalls, write_content
from jumar.workspace.folders import Folders
from jumar.workspace.objects import Objects

_WAITED_FOR_AT_ONCE = 128  # files on their way to disk


def materialise(snapshot: Snapshot, folder: Path, objects: Objects) -> None:
    """Make `folder`, which is not there or is empty, what the snapshot says: contents, modes, links, empty folders.

    WorkspaceError where something is in it or it can't be written, IntegrityError where an object is damaged; either
    way nothing was made.
    """
    place = folder.absolute()
    beside = place.parent / f"{os.fsdecode(SLOT_PREFIX)}{secrets.token_hex(8)}"
    try:
        if os.path.lexists(place) and (place.is_symlink() or not place.is_dir() or any(place.iterdir())):
            raise WorkspaceError(f"{folder} is there and not empty", hint="Name a new folder, or an empty one.")
        beside.mkdir(OWNER_ONLY)
        with Folders(os.fsencode(beside), FileCalls()) as folders:
            _fill(folders, snapshot, objects)
        with Folders(os.fsencode(place.parent), FileCalls()) as folders:
            beside.rename(place)
            folders.sync(b"")
    except OSError as error:
        raise WorkspaceError(
            f"{folder} can't be made ({error.strerror})", hint="Mend it, or name another folder."
        ) from error
    finally:
        if beside.exists():
            shutil.rmtree(beside, ignore_errors=True)


def _fill(folders: Folders, snapshot: Snapshot, objects: Objects) -> None:
    made = [(b"", snapshot.mode)]
    waiting: list[int] = []
    try:
        for path, entry in walk(objects.load, snapshot.root):
            folder, name = folders.at(path)
            if entry.kind is EntryKind.DIR:
                folders.calls.mkdir(name, OWNER_ONLY, folder)
                made.append((path, entry.mode))
            elif entry.kind is EntryKind.LINK:
                folders.calls.symlink(entry.target or b"", name, folder)
            else:
                waiting.append(folders.calls.open(name, MAKING, folder=folder))
                _write(folders.calls, waiting[-1], entry, objects)
            if len(waiting) == _WAITED_FOR_AT_ONCE:
                _to_disk(folders.calls, waiting)
        _to_disk(folders.calls, waiting)
    finally:
        for file in waiting:
            folders.calls.close(file)
    for path, mode in reversed(made):
        folders.set_mode(path, mode, EntryKind.DIR)  # and to disk with it


def _write(calls: FileCalls, file: int, entry: Entry, objects: Objects) -> None:
    write_content(calls, file, objects.parts(entry.digest or b""))
    calls.fchmod(file, entry.mode)
    calls.start_writing(file)


def _to_disk(calls: FileCalls, waiting: list[int]) -> None:
    """Wait until these files are on disk, and close them.  Begun together, they wait for the disk together."""
    while waiting:
        calls.fsync(waiting[-1])
        calls.close(waiting.pop())
