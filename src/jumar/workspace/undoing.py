"""Taking back a restore that failed or was cut off, so that every file is again what and where it was.

What was done is read from the files themselves.  Every slot was whole before the first of them was used, so a slot
that holds the new content has not been used yet, or has been taken back already; one that holds anything else holds the
old file.  Each step asks before it acts, so taking back may itself be cut off anywhere and is begun anew.

Somebody may have changed files since.  A restored file that is no longer as it was restored is theirs: it stays, and is
told; the one it replaced is in the safety snapshot.
"""

from __future__ import annotations

import errno
import stat
from collections.abc import Sequence

from jumar.core.file_operations import OWNER_MAY_CHANGE, OWNER_ONLY, Act, Operation
from jumar.core.restoring import Outcome, PathOutcome
from jumar.core.trees import MODE_BITS, Entry, EntryKind
from jumar.workspace.folders import NO_FOLDER, Folders
from jumar.workspace.slots import keep, older_slot, touched_folders


class Undoer:
    """Takes operations back in one workspace; `left` are the paths that somebody else changed meanwhile."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self.left: list[PathOutcome] = []

    def undo(self, operations: Sequence[Operation], *, applied: bool) -> None:
        """Take them back; OSError where it can't be done.  `applied`: every slot was whole, so they may be begun."""
        self._folders.forget()
        for folder in sorted(touched_folders(operations)):
            self._reopen(folder)
        for operation in reversed(operations):
            try:
                self._undo(operation, applied)
            except OSError as error:
                if error.errno not in NO_FOLDER:
                    raise
                self._leave(operation, "its folder is gone")
        for operation in sorted(operations, key=lambda each: each.path, reverse=True):
            self._undo_mode(operation)
        for folder in sorted(touched_folders(operations)):
            self._folders.sync(folder)

    def _leave(self, operation: Operation, why: str) -> None:
        self.left.append(PathOutcome(operation.path, Outcome.CONFLICT, why))

    def _reopen(self, folder: bytes) -> None:
        found = self._folders.stat(folder)
        if found is not None and stat.S_ISDIR(found.st_mode) and found.st_mode & OWNER_MAY_CHANGE != OWNER_MAY_CHANGE:
            self._folders.set_mode(folder, found.st_mode & MODE_BITS | OWNER_ONLY, EntryKind.DIR)

    def _undo(self, operation: Operation, applied: bool) -> None:
        match operation.act:
            case Act.SWAP | Act.PLACE if not applied:
                self._folders.unlink(operation.slot)
            case _ if not applied:
                pass
            case Act.SWAP:
                self._undo_swap(operation)
            case Act.PLACE:
                self._undo_place(operation)
            case Act.ASIDE | Act.RMDIR:
                self._undo_aside(operation.slot, operation)
            case Act.MKDIR:
                self._undo_make(operation)
            case Act.OPEN | Act.CHMOD:
                pass  # the modes come last

    def _undo_swap(self, operation: Operation) -> None:
        if self._folders.stat(older_slot(operation)) is not None:  # where two names could not change places at once
            self._undo_place(operation)
            self._undo_aside(older_slot(operation), operation)
            return
        path, slot, after = operation.path, operation.slot, _some(operation.after)
        if self._folders.stat(slot) is None:
            return
        if self._folders.holds(slot, after):
            self._folders.unlink(slot)
            return
        try:
            self._folders.exchange(slot, path)
        except FileNotFoundError:  # the restored one was removed: the old one is all there is
            self._folders.move(slot, path)
            return
        if self._folders.is_untouched(slot, after):
            self._folders.unlink(slot)
            return
        try:
            self._folders.exchange(slot, path)
            self._give_up(slot, operation)
        except FileNotFoundError:  # and what was there before is removed as well: what they wrote is all there is
            self._folders.move(slot, path)
            self._leave(operation, "it was changed after it had been put back")

    def _undo_place(self, operation: Operation) -> None:
        path, slot = operation.path, operation.slot
        if self._folders.stat(slot) is not None:
            if self._folders.are_one(slot, path):
                self._folders.unlink(path)  # cut off while it had both names
            self._folders.unlink(slot)
            return
        if self._folders.stat(path) is None:
            return
        self._folders.move(path, slot)
        if self._folders.is_untouched(slot, _some(operation.after)):
            self._folders.unlink(slot)
            return
        try:
            self._folders.move(slot, path)
            self._leave(operation, "it was changed after it had been put back")
        except FileExistsError:
            self._leave(operation, f"it was changed, then made anew; the first is kept as {self._keep(slot)}")

    def _undo_aside(self, slot: bytes, operation: Operation) -> None:
        if self._folders.stat(slot) is None:
            return
        if self._folders.are_one(slot, operation.path):
            self._folders.unlink(slot)  # cut off while it had both names
            return
        self._folders.forget()
        try:
            self._folders.move(slot, operation.path)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR):
                raise
            self._give_up(slot, operation)

    def _give_up(self, slot: bytes, operation: Operation) -> None:
        """Somebody has something new at the path.  What was there is in the safety snapshot, unless it was changed."""
        before = _some(operation.before)
        if before.kind is EntryKind.DIR and self._folders.is_empty(slot):
            folder, name = self._folders.at(slot)
            self._folders.calls.rmdir(name, folder)
            self._leave(operation, "something else was put in its place")
        elif before.kind is not EntryKind.DIR and self._folders.is_untouched(slot, before):
            self._folders.unlink(slot)
            self._leave(operation, "it was changed after it had been put back")
        else:
            self._leave(
                operation, f"it was changed in the meantime; what was there before is kept as {self._keep(slot)}"
            )

    def _keep(self, slot: bytes) -> str:
        return keep(self._folders, slot)

    def _undo_make(self, operation: Operation) -> None:
        try:
            folder, name = self._folders.at(operation.path)
            self._folders.calls.rmdir(name, folder)
            self._folders.forget()
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                self._folders.set_mode(operation.path, _some(operation.after).mode, EntryKind.DIR)
                self._leave(operation, "somebody else put files into it")
            elif error.errno not in NO_FOLDER:
                raise

    def _undo_mode(self, operation: Operation) -> None:
        entry = operation.before
        if entry is None or operation.act not in (Act.OPEN, Act.CHMOD, Act.RMDIR):
            return
        found = self._folders.stat(operation.path)
        if found is None or found.st_mode & MODE_BITS == entry.mode:
            return
        try:
            self._folders.set_mode(operation.path, entry.mode, entry.kind)
        except FileNotFoundError:
            self._leave(operation, "something else was put in its place")


def _some(entry: Entry | None) -> Entry:
    assert entry is not None
    return entry
