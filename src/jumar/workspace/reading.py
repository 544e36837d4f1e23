"""Reading one file so that what was read is what the file was, or is known not to be.

The file's times are looked at before the read and again after.  In the other order, or with only one look, a change of
the same size goes unseen for ever: the old content would be remembered under the new times.  A file that changes
meanwhile is read again, and after the last try recorded as torn.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from hashlib import sha256
from operator import attrgetter
from typing import TypeAlias

from msgspec import Struct

from jumar.workspace.packing import PART_BYTES

# What tells that a file is another than it was: type and mode, size, mtime, ctime, inode, device.
Stat: TypeAlias = tuple[int, int, int, int, int, int]
stat_of: Callable[[os.stat_result], Stat] = attrgetter(
    "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev"
)

TRIES = 3
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a FIFO in its place never blocks


class Reading(Struct, frozen=True, gc=False):
    """A file as it was read: its stat before the read, the digest and size of its content, and whether it is torn.

    `parts` are the digests of a large file's parts; () where the content was given whole.
    """

    stat: Stat
    digest: bytes
    size: int
    torn: bool
    parts: tuple[bytes, ...] = ()


def read_file(name: bytes | str, folder: int, keep: Callable[[bytes, bytes], None]) -> Reading | None:
    """Read the file `name` in the open folder; `keep` gets (digest, bytes) of its content, or of each of its parts.

    None where the name is no regular file (any more).  OSError where it can't be read, FileNotFoundError where it is
    gone.
    """
    reading = None
    for number in range(TRIES):
        file = os.open(name, _OPEN, dir_fd=folder)
        try:
            reading = _read_once(file, keep, last=number == TRIES - 1)
        finally:
            os.close(file)
        if reading is None or not reading.torn:
            return reading
    return reading


def _read_once(file: int, keep: Callable[[bytes, bytes], None], last: bool) -> Reading | None:
    before = stat_of(os.fstat(file))
    if not stat.S_ISREG(before[0]):
        return None
    if before[1] > PART_BYTES:
        return _read_parts(file, before, keep)
    data = os.read(file, before[1] + 1)
    if len(data) < before[1]:
        data = _rest(file, data, before[1])
    torn = len(data) != before[1] or stat_of(os.fstat(file)) != before
    digest = sha256(data).digest()
    if not torn or last:
        keep(digest, data)
    return Reading(before, digest, len(data), torn)


def _rest(file: int, data: bytes, size: int) -> bytes:
    """Go on where one read gave less than was asked for, to the file's end or one byte past the size it had."""
    while len(data) <= size and (more := os.read(file, size + 1 - len(data))):
        data += more
    return data


def _read_parts(file: int, before: Stat, keep: Callable[[bytes, bytes], None]) -> Reading:
    whole, size = sha256(), 0
    parts: list[bytes] = []
    while size <= before[1]:  # one that grows as fast as it is read is left at that
        wanted = min(PART_BYTES, before[1] + 1 - size)
        data = _rest(file, b"", wanted - 1)
        digest = sha256(data).digest()
        if data or not parts:
            keep(digest, data)
            parts.append(digest)
        whole.update(data)
        size += len(data)
        if len(data) < wanted:
            break
    torn = size != before[1] or stat_of(os.fstat(file)) != before
    return Reading(before, whole.digest(), size, torn, tuple(parts))
