"""Which folder may be a workspace, and what in it is Jumar's own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Iterator
from pathlib import Path

from jumar import errors

_BESIDE = ("", "-wal", "-shm", "-journal")  # what SQLite keeps beside a database


def checked(root: Path | str) -> Path:
    """The real path of a root, links resolved once and for all.

    RootRefused for `/`, for a home directory and for what contains one: a snapshot of those would be a copy of
    somebody's whole life, and a restore a danger to it.  Also for what is no directory.
    """
    path = Path(os.path.realpath(root))
    if not path.is_dir():
        raise errors.RootRefused(f"{root} is no directory", hint="Give the folder that the agent works in.")
    if path.parent == path:
        raise errors.RootRefused(
            f"{root} is the root of the filesystem", hint="Give the folder that the agent works in."
        )
    for home in _homes():
        if home == path or path in home.parents:
            raise errors.RootRefused(
                f"{root} is the home directory {home}, or contains it", hint="Give a folder inside it."
            )
    return path


def _homes() -> Iterator[Path]:
    """The home directory, by the environment and by the system's own list, which may differ."""
    named = [os.environ.get("HOME", "")]
    try:
        named.append(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        pass  # a user that the system does not know
    for home in named:
        if home and home != "/":
            yield Path(os.path.realpath(home))


def own_paths(root: Path, own: Iterable[Path | str]) -> frozenset[bytes]:
    """Those of Jumar's own files (or folders) that lie in the root, relative to it."""
    inside: set[bytes] = set()
    for each in own:
        path = Path(os.path.realpath(Path(each).parent)) / Path(each).name
        if root in path.parents:
            relative = os.fsencode(path.relative_to(root))
            inside.update(relative + end.encode() for end in _BESIDE)
    return frozenset(inside)
