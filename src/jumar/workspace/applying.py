"""Carrying out the operations of a restore, so that another program writing meanwhile never loses a byte.

First every slot is filled and on disk: what can go wrong for want of space or rights goes wrong while nothing has been
touched.  Then the operations follow one another.  What is moved into a slot is looked at only there, where no other
program finds it by its name any more: if it is not what the safety snapshot has, or somebody still has it open for
writing, it is moved back, and the path is a conflict.  Nothing is taken by name where somebody may have made something
new: a file is put only where nothing is.  The slots are emptied at the very end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence

from msgspec import structs

from jumar.core.file_operations import OWNER_MAY_CHANGE, OWNER_ONLY, Act, Operation
from jumar.core.restoring import Outcome, PathOutcome
from jumar.core.trees import EntryKind
from jumar.errors import JumarError
from jumar.workspace.calls import MAKING, write_content
from jumar.workspace.folders import NO_FOLDER, Folders
from jumar.workspace.slots import keep, older_slot, touched_folders
from jumar.workspace.undoing import Undoer

_TOGETHER = 64  # files written before the first of them is waited for: the disk takes them in one go
_FILLED = (Act.SWAP, Act.PLACE)


class Touched(Exception):
    """Somebody else changed a path in the meantime."""


class Applier:
    """Carries out operations in one workspace.  `contents` answers a file's bytes, in parts, by their digest."""

    def __init__(self, folders: Folders, contents: Callable[[bytes], Iterable[bytes]]) -> None:
        self._folders = folders
        self._calls = folders.calls
        self._contents = contents

    # --- Filling the slots ---------------------------------------------------------------------------------------

    def stage(self, operations: Sequence[Operation]) -> dict[bytes, PathOutcome]:
        """Open what must be opened and fill the slots; answers the paths for which it could not be done.

        Their slots may hold a part: `drop` what is about them before anything else is done.
        """
        failed: dict[bytes, PathOutcome] = {}
        for operation in operations:
            if operation.act is Act.OPEN:
                self._attempt(operation, self._open, failed)
        waiting: list[int] = []
        try:
            for operation in operations:
                if operation.act in _FILLED:
                    self._attempt(operation, lambda each: self._fill(each, waiting), failed)
                if len(waiting) >= _TOGETHER:
                    self._flush(waiting)
            self._flush(waiting)
        finally:
            for file in waiting:
                os.close(file)
        return failed

    def drop(self, operations: Sequence[Operation], failed: Iterable[bytes]) -> tuple[Operation, ...]:
        """The operations without those about failed paths and what is below these, whose slots are emptied."""
        gone = tuple(failed)
        kept: list[Operation] = []
        dropped: list[Operation] = []
        for operation in operations:
            about = any(operation.path == path or operation.path.startswith(path + b"/") for path in gone)
            (dropped if about and operation.act not in (Act.OPEN, Act.CHMOD) else kept).append(operation)
        for operation in dropped:
            if operation.act in _FILLED:
                self._folders.unlink(operation.slot)
        return tuple(kept)

    def _open(self, operation: Operation) -> None:
        assert operation.before is not None
        self._folders.set_mode(operation.path, operation.before.mode | OWNER_ONLY, EntryKind.DIR)

    def _fill(self, operation: Operation, waiting: list[int]) -> None:
        entry = operation.after
        assert entry is not None
        folder, name = self._folders.at(operation.slot)
        if entry.kind is EntryKind.LINK:
            self._calls.symlink(entry.target or b"", name, folder)
            return
        file = self._calls.open(name, MAKING, folder=folder)
        waiting.append(file)
        write_content(self._calls, file, self._contents(entry.digest or b""))
        self._give_owner(file, operation.path)
        self._calls.fchmod(file, entry.mode)  # after the owner, which takes setuid away

    def _give_owner(self, file: int, path: bytes) -> None:
        """A file that takes another's place belongs to whom that belonged, where this process may give it away."""
        found, made = self._folders.stat(path), self._calls.fstat(file)
        if found is None or (found.st_uid, found.st_gid) == (made.st_uid, made.st_gid):
            return
        try:
            self._calls.fchown(file, found.st_uid, found.st_gid)
        except PermissionError:
            pass

    def _flush(self, waiting: list[int]) -> None:
        for file in waiting:
            self._calls.start_writing(file)
        while waiting:
            self._calls.fsync(waiting[-1])
            os.close(waiting.pop())

    # --- The operations -------------------------------------------------------------------------------------------

    def apply(self, operations: Sequence[Operation], *, skip: bool) -> dict[bytes, PathOutcome]:
        """Carry them out; answers what could not be done.  Without `skip` the first such path is the last one tried."""
        failed: dict[bytes, PathOutcome] = {}
        wanted = {each.path for each in operations if each.act in (Act.PLACE, Act.MKDIR)}
        for operation in operations:
            self._attempt(operation, self._act, failed)
            outcome = failed.get(operation.path)
            if outcome is None:
                continue
            if outcome.outcome is Outcome.UNCAPTURED:  # a folder that is not empty may stay
                if operation.path not in wanted:
                    continue
                failed[operation.path] = structs.replace(outcome, outcome=Outcome.FAILED)
            if not skip:
                break
            if operation.slot and outcome.outcome is Outcome.FAILED:
                # A call may fail and have been carried out all the same: what was moved is looked for, and put back.
                Undoer(self._folders).undo([operation], applied=True)
        self.sync(operations)
        return failed

    def _attempt(
        self, operation: Operation, act: Callable[[Operation], None], failed: dict[bytes, PathOutcome]
    ) -> None:
        path = operation.path
        if path in failed and failed[path].outcome is not Outcome.UNCAPTURED:
            return
        try:
            act(operation)
        except Touched as error:
            failed[path] = PathOutcome(path, Outcome.CONFLICT, str(error))
        except _Kept as error:
            failed[path] = PathOutcome(path, Outcome.UNCAPTURED, str(error))
        except OSError as error:
            failed[path] = PathOutcome(path, Outcome.FAILED, error.strerror or str(error))
        except JumarError as error:
            failed[path] = PathOutcome(path, Outcome.FAILED, error.what)

    def _act(self, operation: Operation) -> None:
        match operation.act:
            case Act.ASIDE:
                self._aside(operation)
            case Act.RMDIR:
                self._remove_folder(operation)
            case Act.MKDIR:
                self._make_folder(operation)
            case Act.SWAP:
                self._swap(operation)
            case Act.PLACE:
                self._place(operation)
            case Act.CHMOD:
                self._set_mode(operation)
            case Act.OPEN:
                pass  # done before the slots were filled

    def _aside(self, operation: Operation) -> None:
        path, slot, before = operation.path, operation.slot, operation.before
        assert before is not None
        try:
            self._folders.move(path, slot)
        except FileNotFoundError:
            return  # somebody removed it: so be it
        if not self._folders.is_untouched(slot, before):
            self._put_back(slot, path)
            raise Touched("it was changed in the meantime")

    def _put_back(self, slot: bytes, path: bytes) -> None:
        try:
            self._folders.move(slot, path)
        except FileExistsError:
            kept = keep(self._folders, slot)
            raise Touched(f"it was changed in the meantime, and then made anew; the first is kept as {kept}") from None

    def _remove_folder(self, operation: Operation) -> None:
        path, slot = operation.path, operation.slot
        try:
            if not self._folders.is_empty(path):
                raise _Kept("it holds files that stay")
            self._folders.forget()
            self._folders.move(path, slot)
        except FileNotFoundError:
            return
        if not self._folders.is_empty(slot):
            self._folders.forget()
            self._put_back(slot, path)
            raise _Kept("it holds files that stay")
        self._folders.forget()

    def _make_folder(self, operation: Operation) -> None:
        folder, name = self._folders.at(operation.path)
        try:
            self._calls.mkdir(name, OWNER_ONLY, folder)
        except FileExistsError:
            raise Touched("something was put in its place in the meantime") from None

    def _swap(self, operation: Operation) -> None:
        path, slot, before = operation.path, operation.slot, operation.before
        assert before is not None
        try:
            exchanged = self._folders.exchange(slot, path)
        except FileNotFoundError:
            raise Touched("it was removed in the meantime") from None
        if not exchanged:
            self._swap_in_two(operation)
        elif not self._folders.is_untouched(slot, before):
            self._swap_back(operation)
            raise Touched("it was changed in the meantime")

    def _swap_back(self, operation: Operation) -> None:
        """What somebody changed goes back to its place; the new file stood there for a moment, so look at that too."""
        path, slot, after = operation.path, operation.slot, operation.after
        assert after is not None
        try:
            self._folders.exchange(slot, path)
        except FileNotFoundError:
            self._put_back(slot, path)
            return
        if not self._folders.is_untouched(slot, after):
            kept = keep(self._folders, slot)
            raise Touched(f"it was changed twice in the meantime; the second is kept as {kept}")

    def _swap_in_two(self, operation: Operation) -> None:
        """Where two names can't change places at once, the path has nothing for a moment."""
        self._aside(_older(operation))
        try:
            self._place(operation)
        except Touched:
            self._put_back(older_slot(operation), operation.path)
            raise

    def _place(self, operation: Operation) -> None:
        try:
            self._folders.move(operation.slot, operation.path)
        except FileExistsError:
            raise Touched("something was put in its place in the meantime") from None

    def _set_mode(self, operation: Operation) -> None:
        assert operation.after is not None
        try:
            self._folders.set_mode(operation.path, operation.after.mode, operation.after.kind)
        except OSError as error:
            if error.errno not in NO_FOLDER:
                raise
            if operation.before != operation.after:  # else it was only opened for a while, and has been removed since
                raise Touched("it was removed in the meantime") from None

    # --- The end --------------------------------------------------------------------------------------------------

    def sync(self, operations: Iterable[Operation]) -> None:
        """Have every name that was given or taken on disk."""
        for folder in sorted(touched_folders(operations)):
            self._folders.sync(folder)

    def clean(self, operations: Sequence[Operation]) -> None:
        """Empty the slots: what is in them is in the safety snapshot, or was never used."""
        closed = _closed_in_the_end(operations)
        for folder in sorted(closed):
            self._give_mode(folder, closed[folder] | OWNER_ONLY)
        for operation in operations:
            if operation.act is Act.RMDIR:
                self._drop_folder(operation)
            elif operation.slot:
                self._folders.unlink(operation.slot)
                self._folders.unlink(older_slot(operation))
        for folder in sorted(closed, reverse=True):
            self._give_mode(folder, closed[folder])
        self.sync(operations)

    def _give_mode(self, folder: bytes, mode: int) -> None:
        try:
            self._folders.set_mode(folder, mode, EntryKind.DIR)
        except OSError as error:
            if error.errno not in NO_FOLDER:
                raise

    def _drop_folder(self, operation: Operation) -> None:
        try:
            folder, name = self._folders.at(operation.slot)
            self._calls.rmdir(name, folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            keep(self._folders, operation.slot)  # somebody who stood in it made a file there


class _Kept(Exception):
    """A folder was left because something that is not part of the restore is in it."""


def _closed_in_the_end(operations: Iterable[Operation]) -> dict[bytes, int]:
    """The folders with slots in them that may not be written any more once the modes are set, and their modes."""
    holding = {each.slot.rpartition(b"/")[0] for each in operations if each.slot}
    return {
        each.path: each.after.mode
        for each in operations
        if each.act is Act.CHMOD
        and each.after is not None
        and each.after.kind is EntryKind.DIR
        and each.path in holding
        and each.after.mode & OWNER_MAY_CHANGE != OWNER_MAY_CHANGE
    }


def _older(operation: Operation) -> Operation:
    return Operation(Act.ASIDE, operation.path, operation.before, None, older_slot(operation))
