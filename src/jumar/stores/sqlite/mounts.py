"""Whether a path lies on a filesystem where SQLite's locks and the host's lease clock can be relied on.

On a network filesystem file locks are not what WAL needs, and a second host would read the leases of the first with
another clock.  Such a path is refused at opening.  The decision reads a mount table's text, so it is tested without
mounting.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

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
    try:
        table = _TABLE.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None  # a system without this table; nothing is known, so nothing is refused
    kind = filesystem_of(os.path.realpath(path), table)
    return kind if kind in NETWORK else None


def filesystem_of(path: str, mountinfo: str) -> str | None:
    """The filesystem type of the mount that holds `path`, by a table in the format of proc(5)'s mountinfo."""
    best: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if not dash or len(fields) < 5:
            continue
        point = _unescape(fields[4])
        # A later line over the same point hides the earlier one, hence >=.
        if _lies_under(path, point) and (best is None or len(point) >= best[0]):
            best = (len(point), after.split(" ", 1)[0])
    return best[1] if best else None


def _lies_under(path: str, point: str) -> bool:
    return PurePosixPath(path).is_relative_to(point)


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
