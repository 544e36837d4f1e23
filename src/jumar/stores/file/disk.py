"""Every call to the filesystem that the file store makes, in one place, so that a test can stop the world at each.

What is written comes into being whole: under another name first, flushed, and then renamed.  A rename lasts once its
folder was flushed.
"""

from __future__ import annotations

import os
import shutil

TEMPORARY = ".tmp"  # ends the name of a file that is being written


class Disk:
    """The calls themselves.  Paths are text; errors are OSError."""

    def create(self, path: str) -> int:
        """An empty file, open for writing; what was in it is gone."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def write(self, file: int, data: bytes) -> int:
        """Write some of the data; answers how much."""
        return os.write(file, data)

    def fsync(self, file: int) -> None:
        """Have all that was written to a file, or to a folder, on disk."""
        os.fsync(file)

    def rename(self, old: str, new: str) -> None:
        """Give a file or folder its name; a file of that name is replaced."""
        os.rename(old, new)  # noqa: PTH104 - paths are text here, as everywhere that is passed at each advance

    def mkdir(self, path: str) -> None:
        """A new folder."""
        os.mkdir(path)  # noqa: PTH102

    def open_folder(self, path: str) -> int:
        """A folder, to be flushed."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def open_end(self, path: str) -> int:
        """A file to append to, made where there is none."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def remove(self, path: str) -> None:
        """A file is gone."""
        os.unlink(path)  # noqa: PTH108

    def remove_tree(self, path: str) -> None:
        """A folder with all in it is gone."""
        shutil.rmtree(path)

    def put(self, path: str, data: bytes) -> None:
        """A file with this content, in the place of one that may be there; it lasts once its folder was flushed."""
        self.write_flushed(path + TEMPORARY, data)
        self.rename(path + TEMPORARY, path)

    def write_flushed(self, path: str, data: bytes) -> None:
        """A file with this content, which is on disk when this returns; its name need not be."""
        file = self.create(path)
        try:
            self._write_all(file, data)
            self.fsync(file)
        finally:
            os.close(file)

    def append(self, path: str, data: bytes) -> None:
        """Add to the end of a file; it need not last."""
        file = self.open_end(path)
        try:
            self._write_all(file, data)
        finally:
            os.close(file)

    def flush(self, folder: str) -> None:
        """Have the names in a folder on disk."""
        file = self.open_folder(folder)
        try:
            self.fsync(file)
        finally:
            os.close(file)

    def _write_all(self, file: int, data: bytes) -> None:
        written = self.write(file, data)
        while written < len(data):
            written += self.write(file, data[written:])


def read(path: str) -> bytes:
    """All of a file."""
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()
