"""What an error of the filesystem means to a person: the same kinds as a database's."""

from __future__ import annotations

import errno

from jumar import errors

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_RENAME_REFUSED = FULL | READ_ONLY | {errno.ENOENT, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST, errno.EISDIR}


class Damaged(Exception):
    """A file of a run is not as it was written.  `file` is its path in the store's folder."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(f"{file} {why}")
        self.file = file
        self.why = why


def translated(error: OSError, where: str) -> errors.JumarError:
    """The error a person sees for an error of the filesystem in the folder `where`."""
    said = error.strerror or str(error)
    if error.errno in FULL:
        return errors.StoreFull(f"there is no room left for {where} ({said})")
    if error.errno in READ_ONLY:
        return errors.StoreReadOnly(f"{where} cannot be written ({said})")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        missing = f": {error.filename}" if error.filename else ""
        return errors.StoreUnavailable(f"a file or folder of {where} has gone ({said}{missing})")
    return errors.StoreUnavailable(
        f"the disk under {where} reported an error ({said})", hint="Check the disk and its free space, then resume."
    )


def surely_not_done(error: OSError) -> bool:
    """Whether a rename that failed so changed nothing.  After other errors nobody knows."""
    return error.errno in _RENAME_REFUSED
