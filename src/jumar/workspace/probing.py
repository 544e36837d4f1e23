"""What must be known about the filesystem that holds a workspace: its clock, and whether it stamps folders.

Whether a file may have changed after it was read without its times telling so is a question about the clock that
stamps files, which on a network is another machine's.  So a file is made on that filesystem and its time read: one
without a name where the system can do that, else one beside the objects if they share the filesystem, else one in the
root for an instant.  Where nothing can be written, this machine's clock must do.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from jumar.database.mounts import filesystem

_UNSURE_NS = 1_000_000_000  # what this machine's clock may be ahead of a filesystem's that could not be asked


def filesystem_time(root: Path, beside: Path) -> int:
    """Nanoseconds since 1970 by the clock of the filesystem that holds `root`; `beside` is the objects' folder."""
    unnamed = getattr(os, "O_TMPFILE", None)
    if unnamed is not None:
        try:
            return _stamp(os.open(root, unnamed | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError:
            pass  # not on this filesystem
    for folder in (beside, root):
        try:
            if folder.stat().st_dev == root.stat().st_dev:
                file, name = tempfile.mkstemp(prefix=".jumar-probe-", dir=folder)
                os.unlink(name)  # noqa: PTH108
                return _stamp(file)
        except OSError:
            continue
    return time.time_ns() - _UNSURE_NS


def _stamp(file: int) -> int:
    try:
        os.write(file, b"x")
        return os.fstat(file).st_mtime_ns
    finally:
        os.close(file)


# Filesystems of which it is known that a name that comes or goes stamps its folder, always.
_STAMPS_FOLDERS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "tmpfs", "overlay"})


def stamps_folders(root: Path) -> bool:
    """Whether a folder's unchanged times prove that it holds the same names; False where that is not known."""
    return filesystem(root) in _STAMPS_FOLDERS
