"""Whether a path lies on a filesystem where SQLite's locks and the host's lease clock can be relied on.

On a network filesystem file locks are not what WAL needs, and a second host would read the leases of the first with
another clock.  Such a path is refused at opening.  The decision reads a mount table's text, so it is tested without
mounting.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_TABLE = Path("/proc/self/mountinfo")

NETWORK: frozenset[str] = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "coda", "9p", "virtiofs"),
        *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "ocfs2", "gfs2", "orangefs", "davfs", "s3fs", "vboxsf"),
        *("fuse.sshfs", "fuse.s3fs", "fuse.glusterfs", "fuse.ceph", "fuse.rclone", "fuse.gcsfuse", "fuse.davfs2"),
        *("fuse.cifs", "fuse.nfs", "fuse.smbnetfs", "fuse.juicefs", "fuse.mountpoint-s3", "fuse.blobfuse2"),
    }
)


def network_filesystem(path: Path) -> str | None:
    """The type of the network filesystem `path` (or its nearest existing parent) lies on, or None."""
    kind = filesystem(path)
    return kind if kind in NETWORK else None


def filesystem(path: Path) -> str | None:
    """The type of the filesystem `path` (or its nearest existing parent) lies on; None where that can't be told."""
    try:
        table = os.fsdecode(_TABLE.read_bytes())
    except OSError:
        return None  # a system without this table; nothing is known, so nothing is refused
    return filesystem_of(os.path.realpath(path), table)


class _Mount(NamedTuple):
    number: str
    parent: str
    point: str
    kind: str


def filesystem_of(path: str, mountinfo: str) -> str | None:
    """The filesystem type of the mount that holds `path`, by a table in the format of proc(5)'s mountinfo.

    The way to the path is walked from the root: at each folder, what is mounted there on the mount walked so far comes
    next, and so on where mounts are stacked.  So a mount that another hides counts for nothing.  In a container the
    table may begin in the middle, with mounts on parents that it does not list.
    """
    mounts = [mount for line in mountinfo.split("\n") if (mount := _mount(line)) is not None]
    numbers = {mount.number for mount in mounts}
    folders = [*map(str, reversed(PurePosixPath(path).parents)), path]
    roots = [mount for mount in mounts if mount.parent not in numbers or mount.parent == mount.number]
    here = max((root for root in roots if root.point in folders), key=lambda root: len(root.point), default=None)
    for folder in folders:
        while here is not None:
            above = [mount for mount in mounts if (mount.parent, mount.point) == (here.number, folder)]
            if not above or above[-1] is here:
                break
            here = above[-1]
    return None if here is None else here.kind


def _mount(line: str) -> _Mount | None:
    before, dash, after = line.partition(" - ")
    fields = before.split(" ")
    if not dash or len(fields) < 5:
        return None
    return _Mount(fields[0], fields[1], _unescape(fields[4]), after.split(" ", 1)[0])


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
