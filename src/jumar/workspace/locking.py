"""The one lock of a workspace: who holds it may put files back, or run a tool that writes.

It is the operating system's (flock), so it ends with the process that holds it, however that ends.  Each taking opens
the lock file anew, so two threads of one process keep each other out as two processes do.  The file is closed on exec,
and in a forked child right away: a child that lives on would otherwise hold its parent's lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from weakref import WeakSet

from jumar.errors import WorkspaceBusy, WorkspaceError

_PAUSE = 0.02  # seconds between two tries; a lock is held for the length of a tool's call or of a restore
_open: WeakSet[WorkspaceLock] = WeakSet()  # those that have the lock, or wait for it


class WorkspaceLock:
    """The lock of one workspace, as one holder takes it; a context manager that gives it back.

    `wait` is how many seconds to wait for another holder: 0 for not at all, None for as long as it takes.
    WorkspaceBusy where it could not be had in that time.  `taken` is called each time once it is held; the lock
    is given back where that raises.
    """

    _file: int | None = None

    def __init__(self, path: Path, *, wait: float | None = 0.0, taken: Callable[[], object] = lambda: None) -> None:
        self._path = path
        self._wait = wait
        self._taken = taken
        self._held = False

    def __del__(self) -> None:
        """An interrupt may come between the taking of the lock and whatever would have given it back."""
        if self._file is not None:
            os.close(self._file)

    @property
    def held(self) -> bool:
        """Whether this object holds the lock now."""
        return self._held

    def acquire(self) -> None:
        """Take the lock."""
        if self._file is not None:
            raise WorkspaceError("this holder has the workspace's lock already", hint="Take it once.")
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WorkspaceError(f"the lock {self._path} cannot be opened ({error.strerror})") from error
        try:
            _open.add(self)  # first: a child that is forked meanwhile must not keep what is about to be had
            self._take(self._file)
            self._held = True
            self._taken()
        except BaseException:
            self.release()
            raise

    def _take(self, file: int) -> None:
        if self._wait is None:
            fcntl.flock(file, fcntl.LOCK_EX)
            return
        give_up = time.monotonic() + self._wait
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise WorkspaceError(f"the lock {self._path} cannot be taken ({error.strerror})") from error
            if time.monotonic() >= give_up:
                raise WorkspaceBusy("somebody else is writing into the workspace, or putting its files back")
            time.sleep(min(_PAUSE, max(0.0, give_up - time.monotonic())))

    def release(self) -> None:
        """Give the lock back; nothing where it is not held."""
        if self._file is None:
            return
        fcntl.flock(self._file, fcntl.LOCK_UN)  # said aloud: a child on its way to exec may still have the file open
        file = self._let_go()
        if file is not None:
            os.close(file)

    def _let_go(self) -> int | None:
        file, self._file, self._held = self._file, None, False
        _open.discard(self)
        return file

    def forget(self) -> None:
        """In a forked child: the lock is the parent's, which closing the file leaves it and unlocking would not."""
        file = self._let_go()
        if file is not None:
            os.close(file)

    def __enter__(self) -> WorkspaceLock:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def _in_child() -> None:
    for lock in list(_open):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
