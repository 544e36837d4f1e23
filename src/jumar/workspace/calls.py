"""The calls that change or read files while they are put back: one thin name for each, and nothing else.

Everything a restore asks of the filesystem passes here, so that a test can stop the world before or after any of it.
All names are relative to an open folder, and none of the calls follows a link in the last segment of a path.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
from collections.abc import Iterable
from functools import cache
from typing import Any

_NOREPLACE, _EXCHANGE = 1, 2  # renameat2(2)
_HOLE = 1 << 16  # bytes; a part of fewer is written whatever it holds
_NO_SUCH_CALL = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_NO_LEASES = frozenset({errno.EINVAL, errno.EACCES, errno.EPERM, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # not blocking: a FIFO is never waited for
MAKING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileCalls:
    """The real calls.  Each raises OSError as the system does; `folder` is always an open folder."""

    def open(self, name: bytes, flags: int, mode: int = 0o600, *, folder: int | None = None) -> int:
        return os.open(name, flags, mode, dir_fd=folder)

    def close(self, file: int) -> None:
        os.close(file)

    def read(self, file: int, size: int) -> bytes:
        return os.read(file, size)

    def write(self, file: int, data: bytes | memoryview) -> int:
        return os.write(file, data)

    def write_all(self, file: int, data: bytes) -> None:
        """Write all of it, in as many calls as it takes."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.write(file, rest) :]

    def skip(self, file: int, size: int) -> None:
        """Leave so many bytes out, which then read as zeros and take no space."""
        os.lseek(file, size, os.SEEK_CUR)

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def start_writing(self, file: int) -> None:
        """Have the disk begin with what was written, so that whoever waits for many files waits for all at once."""
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        except (AttributeError, OSError):
            pass  # a hint, and not every system takes it

    def fsync(self, file: int) -> None:
        os.fsync(file)

    def fstat(self, file: int) -> os.stat_result:
        return os.fstat(file)

    def lstat(self, name: bytes, folder: int) -> os.stat_result:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def readlink(self, name: bytes, folder: int) -> bytes:
        return os.readlink(name, dir_fd=folder)

    def symlink(self, target: bytes, name: bytes, folder: int) -> None:
        os.symlink(target, name, dir_fd=folder)

    def mkdir(self, name: bytes, mode: int, folder: int) -> None:
        os.mkdir(name, mode, dir_fd=folder)

    def rmdir(self, name: bytes, folder: int) -> None:
        os.rmdir(name, dir_fd=folder)

    def unlink(self, name: bytes, folder: int) -> None:
        os.unlink(name, dir_fd=folder)

    def rename(self, name: bytes, folder: int, to: bytes, to_folder: int) -> None:
        os.rename(name, to, src_dir_fd=folder, dst_dir_fd=to_folder)

    def link(self, name: bytes, folder: int, to: bytes, to_folder: int) -> None:
        os.link(name, to, src_dir_fd=folder, dst_dir_fd=to_folder, follow_symlinks=False)

    def fchmod(self, file: int, mode: int) -> None:
        os.fchmod(file, mode)

    def chmod_opened(self, file: int, mode: int) -> None:
        """Change the mode of what was opened with O_PATH, which its owner may not read."""
        os.chmod(f"/proc/self/fd/{file}", mode)  # noqa: PTH101 - every other call here is of os

    def fchown(self, file: int, user: int, group: int) -> None:
        os.fchown(file, user, group)

    def rename_new(self, name: bytes, folder: int, to: bytes, to_folder: int) -> bool:
        """Rename where nothing has the new name (FileExistsError otherwise); False where the system can't do that."""
        return _renameat2(name, folder, to, to_folder, _NOREPLACE)

    def exchange(self, name: bytes, folder: int, to: bytes, to_folder: int) -> bool:
        """Let two names change places in one instant; False where the system can't do that."""
        return _renameat2(name, folder, to, to_folder, _EXCHANGE)

    def has_writer(self, file: int) -> bool:
        """Whether some process has the file open for writing; False also where the system does not tell.

        A read lease is refused while anybody may write.  It is given back at once; should somebody come in between,
        the system would tell this process by a signal that, unlike the usual one, does nothing.
        """
        try:
            fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return True
            if error.errno in _NO_LEASES:
                return False
            raise
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False


def write_content(calls: FileCalls, file: int, parts: Iterable[bytes]) -> None:
    """Write a new file's content; long runs of zeros become holes, as in the sparse file they mostly come from."""
    size, hole = 0, False
    for part in parts:
        hole = len(part) >= _HOLE and part[0] == 0 and part == bytes(len(part))
        if hole:
            calls.skip(file, len(part))
        else:
            calls.write_all(file, part)
        size += len(part)
    if hole:
        calls.truncate(file, size)


@cache
def _c_library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _renameat2(name: bytes, folder: int, to: bytes, to_folder: int, flags: int) -> bool:
    call = getattr(_c_library(), "renameat2", None)
    if call is None:
        return False
    if call(folder, ctypes.c_char_p(name), to_folder, ctypes.c_char_p(to), ctypes.c_uint(flags)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_SUCH_CALL:
        return False
    raise OSError(number, os.strerror(number), os.fsdecode(name), None, os.fsdecode(to))
