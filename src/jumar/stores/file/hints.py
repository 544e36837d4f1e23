"""The file in which writers say which runs they are about to change, so that other processes need not look at every
head to find what is new.

It is only a hint: a line is appended before anything is written, so whoever reads it in between finds the old head,
and looks again until it has changed (or until he has the lock, under which nothing is on its way).  Each line begins
with the end of the one before, which may have been cut short.  When the file has grown long its next writer puts an
empty one in its place; whoever finds another file, or one with lines that make no sense, looks at every head once.
"""

from __future__ import annotations

import os

from jumar.stores.file.disk import Disk

_LONG = 1 << 16  # bytes


class Hints:
    """The hints of one store as one process has read them.  Used by one thread at a time."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: int | None = None
        self._read = 0

    def news(self) -> dict[str, int] | None:
        """The folders of runs said to change since the last time, each with the number of that commit; None where
        every head has to be looked at.
        """
        if self._file is not None:
            found = self._since()
            if found is not None:
                return found
        self._reopen()
        return None

    def add(self, folder: str, commit: int) -> None:
        """Say that a run is about to change.  Called with the store's lock held."""
        if self._read > _LONG:
            self._disk.put(self._path, b"")
            self._reopen()
        self._disk.append(self._path, f"\n{folder} {commit}\n".encode())

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _reopen(self) -> None:
        self.close()
        self._read = 0
        try:
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            pass

    def _since(self) -> dict[str, int] | None:
        """What was appended since; None where it is another file by now.  While this one is open, no other can have its
        number.
        """
        assert self._file is not None
        try:
            there, ours = os.stat(self._path), os.fstat(self._file)  # noqa: PTH116
        except OSError:
            return None
        if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino) or there.st_size < self._read:
            return None
        if there.st_size == self._read:
            return {}
        begin = max(self._read - 1, 0)  # the end of the line before, by which a file that was edited is known
        data = os.pread(self._file, there.st_size - begin, begin)
        if self._read and not data.startswith(b"\n"):
            return None
        lines, newline, _ = data[self._read - begin :].rpartition(b"\n")
        self._read += len(lines) + len(newline)
        found: dict[str, int] = {}
        try:
            for line in lines.decode().split("\n"):
                if not line:
                    continue
                folder, commit = line.split(" ")
                found[folder] = max(int(commit), found.get(folder, 0))
        except ValueError:
            return None
        return found
