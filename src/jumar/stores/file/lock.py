"""The one lock of a store: whoever has it writes, in whatever process.

It is the operating system's (`flock`), so it goes with the process that has it, however that ends.  It is waited for
with short pauses drawn at random, so that no process wins over and over.  A forked child gives its copy of the lock
file back at once, since a lock lasts as long as any copy of the file is open.
"""

from __future__ import annotations

import os
import random
import time
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock

from jumar import errors
from jumar.database.opening import WAIT_SECONDS


class StoreLock:
    """The lock at one path.  Used by one thread at a time."""

    def __init__(self, path: str, where: str) -> None:
        self._path = path
        self._where = where
        self._file: int | None = None

    def acquire(self, wait: bool = True) -> None:
        """Take the lock, waiting for it up to a minute, or with `wait=False` not at all: then StoreBusy."""
        file = self._opened()
        give_up = time.monotonic() + WAIT_SECONDS
        pause = 0.0002
        while True:
            try:
                return flock(file, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                if not wait or time.monotonic() >= give_up:
                    raise errors.StoreBusy(f"other processes kept {self._where} locked for too long") from None
            time.sleep(random.uniform(pause / 2, pause))
            pause = min(pause * 1.5, 0.01)

    def release(self) -> None:
        """Give the lock back, where it was taken."""
        if self._file is not None:
            flock(self._file, LOCK_UN)

    def close(self) -> None:
        """Give the lock file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        """The lock file; opened anew where it is another one by now, whose lock the others take."""
        if self._file is not None and not _is_at(self._file, self._path):
            self.close()
        if self._file is None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return self._file


def _is_at(file: int, path: str) -> bool:
    try:
        there, ours = os.stat(path), os.fstat(file)  # noqa: PTH116
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
