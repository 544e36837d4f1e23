"""Opening a workspace's folders one segment at a time, and looking at what is in them.

Every folder is opened from the one above it and never through a link, so whatever a path looks like, what is opened
lies inside the workspace.  What is asked of a file is answered from the opened file, not from its name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from jumar.core.trees import MODE_BITS, Entry, EntryKind
from jumar.workspace.calls import FOLDER, READING, FileCalls

CHUNK = 1 << 20
NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # what opening a folder answers that is gone, or is none
_PATH_ONLY = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC


class Folders:
    """The open folders of one workspace; a context manager.  OSError where a path can't be reached without a link."""

    def __init__(self, root: bytes, calls: FileCalls) -> None:
        self.calls = calls
        self._root_path = root
        self._root = -1
        self._last: tuple[bytes, int] | None = None  # neighbours come one after another

    def __enter__(self) -> Folders:
        self._root = self.calls.open(self._root_path, FOLDER)
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()
        root, self._root = self._root, -1  # first: an interrupt may leave a folder open, but none is closed twice
        if root >= 0:
            os.close(root)

    def forget(self) -> None:
        """Open the next folder anew."""
        last, self._last = self._last, None
        if last is not None:
            os.close(last[1])

    def at(self, path: bytes) -> tuple[int, bytes]:
        """The open folder that `path` lies in, and its name there; open until the next folder is asked for."""
        folder, _, name = path.rpartition(b"/")
        return self.folder(folder), name

    @contextmanager
    def both(self, one: bytes, other: bytes) -> Iterator[tuple[bytes, int, bytes, int]]:
        """Name and open folder of each of two paths, in the order in which calls on two names take them."""
        folder, name = self.at(one)
        above, _, other_name = other.rpartition(b"/")
        if above == one.rpartition(b"/")[0]:
            yield name, folder, other_name, folder
            return
        second = self.open(above)
        try:
            yield name, folder, other_name, second
        finally:
            os.close(second)

    def exchange(self, one: bytes, other: bytes) -> bool:
        """Let what is at two paths change places in one instant; False where the system can't do that."""
        with self.both(one, other) as names:
            return self.calls.exchange(*names)

    def move(self, path: bytes, to: bytes) -> None:
        """Rename to a name that nothing has; FileExistsError where something has it."""
        with self.both(path, to) as names:
            if self.calls.rename_new(*names):
                return
            name, folder = names[:2]
            if stat.S_ISDIR(self.calls.lstat(name, folder).st_mode):
                self.calls.rename(*names)  # takes the place of an empty folder at most
                return
            self.calls.link(*names)  # refuses a name that is taken, as rename alone would not
            self.calls.unlink(name, folder)

    def unlink(self, path: bytes) -> None:
        """Remove a file or link; nothing where it is gone."""
        try:
            folder, name = self.at(path)
            self.calls.unlink(name, folder)
        except FileNotFoundError:
            pass
        except OSError:
            if self.stat(path) is not None:  # else a filesystem that refuses to remove even what is not there
                raise

    def sync(self, path: bytes) -> None:
        """Have the names in the folder at `path` on disk; nothing where no folder is there."""
        try:
            self.calls.fsync(self.folder(path))
        except OSError as error:
            if error.errno not in NO_FOLDER:
                raise

    def folder(self, path: bytes) -> int:
        """The folder at `path`, open until the next is asked for."""
        if not path:
            return self._root
        if self._last is not None and self._last[0] == path:
            return self._last[1]
        self.forget()
        self._last = (path, self.open(path))
        return self._last[1]

    def open(self, path: bytes) -> int:
        """The folder at `path`, which the caller closes."""
        file = self.calls.open(b".", FOLDER, folder=self._root)
        try:
            for name in path.split(b"/") if path else ():
                above, file = file, self.calls.open(name, FOLDER, folder=file)
                os.close(above)
        except BaseException:
            os.close(file)
            raise
        return file

    def stat(self, path: bytes) -> os.stat_result | None:
        """What is at `path` (a link itself, not what it leads to); None where nothing is."""
        try:
            folder, name = self.at(path)
            return self.calls.lstat(name, folder) if name else self.calls.fstat(folder)
        except OSError as error:
            if error.errno in NO_FOLDER:
                return None
            raise

    def are_one(self, one: bytes, other: bytes) -> bool:
        """Whether two paths are names of the same file."""
        first, second = self.stat(one), self.stat(other)
        return first is not None and second is not None and os.path.samestat(first, second)

    def entry(self, path: bytes) -> Entry | None:
        """What is at `path` as an entry without its content; None for nothing, and for FIFOs and the like."""
        found = self.stat(path)
        kind = None if found is None else kind_of(found.st_mode)
        if found is None or kind is None:
            return None
        return Entry(path.rpartition(b"/")[2], kind, found.st_mode & MODE_BITS)

    def holds(self, path: bytes, entry: Entry) -> bool:
        """Whether the file or link at `path` has the entry's content, whatever its mode."""
        found = self.stat(path)
        if found is None or kind_of(found.st_mode) is not entry.kind:
            return False
        folder, name = self.at(path)
        if entry.kind is EntryKind.LINK:
            return self.calls.readlink(name, folder) == entry.target
        return found.st_size == entry.size and self._digest(name, folder) == entry.digest

    def is_untouched(self, path: bytes, entry: Entry) -> bool:
        """Whether the file or link at `path` has the entry's content and nobody is about to change it."""
        found = self.stat(path)
        if found is None or kind_of(found.st_mode) is not entry.kind:
            return False
        if entry.kind is EntryKind.FILE:
            folder, name = self.at(path)
            file = self.calls.open(name, READING, folder=folder)
            try:
                if self.calls.has_writer(file):
                    return False
            finally:
                os.close(file)
        return self.holds(path, entry)

    def is_empty(self, path: bytes) -> bool:
        """Whether the folder at `path` has nothing in it, captured or not."""
        with os.scandir(self.folder(path)) as entries:
            return next(entries, None) is None

    def set_mode(self, path: bytes, mode: int, kind: EntryKind) -> None:
        """Give what is at `path` this mode, where it is of this kind; OSError where it is not or may not be changed."""
        folder, name = self.at(path)
        calls = self.calls
        try:
            file = calls.open(name or b".", READING, folder=folder)
        except PermissionError:
            self._set_mode_unread(name, folder, mode, kind)
            return
        try:
            self._check_kind(file, kind)
            calls.fchmod(file, mode)
            calls.fsync(file)
        finally:
            os.close(file)

    def _set_mode_unread(self, name: bytes, folder: int, mode: int, kind: EntryKind) -> None:
        """A file whose owner may not read it still gets its mode."""
        file = self.calls.open(name, _PATH_ONLY, folder=folder)
        try:
            self._check_kind(file, kind)
            self.calls.chmod_opened(file, mode)
        finally:
            os.close(file)

    def _check_kind(self, file: int, kind: EntryKind) -> None:
        if kind_of(self.calls.fstat(file).st_mode) is not kind:
            raise FileNotFoundError(errno.ENOENT, "it is another kind of thing now")

    def _digest(self, name: bytes, folder: int) -> bytes:
        digest = sha256()
        file = self.calls.open(name, READING, folder=folder)
        try:
            while chunk := self.calls.read(file, CHUNK):
                digest.update(chunk)
        finally:
            os.close(file)
        return digest.digest()


def kind_of(mode: int) -> EntryKind | None:
    """The kind of thing with this `st_mode`; None for what is never captured."""
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.DIR
    return EntryKind.LINK if stat.S_ISLNK(mode) else None
