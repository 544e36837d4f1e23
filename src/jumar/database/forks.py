"""What a forked process must not go on with: its parent's connections, leases and locks.

Whatever is `watch`ed is told in the child, right after the fork, so that nobody has to ask for the process's number
on every call.  A connection that the child inherits is neither used nor closed there, and a file that the parent had
open is not opened again: SQLite remembers for the whole process which locks it holds on a file, and in a child those
are the parent's.  A connection opened there would believe itself protected, the parent would delete the log under it
when it closes, and what the child commits then would be lost without a word.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

FileId = tuple[int, int]  # device and inode

_watched: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()
_inherited: set[FileId] = set()
_kept: list[object] = []  # what must not be closed by being forgotten


def watch(thing: T, told: Callable[[T], None]) -> None:
    """Call `told(thing)` in every process that is forked from this one while `thing` lives.

    No other thread runs there yet, and locks may be held by threads that are not there.
    """
    _watched[thing] = told


def keep(thing: object) -> None:
    """Hold on to what the parent goes on using."""
    _kept.append(thing)


def file_id(path: str) -> FileId | None:
    """What a file is known by whatever its path; None where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - importing pathlib takes milliseconds of every start
    except OSError:
        return None
    return found.st_dev, found.st_ino


def inherit(file: FileId) -> None:
    """The parent has this file open."""
    _inherited.add(file)


def is_inherited(path: str) -> bool:
    """Whether the process that this one was forked from had the file open at that time."""
    return bool(_inherited) and file_id(path) in _inherited


def _in_child() -> None:
    for thing, told in list(_watched.items()):
        told(thing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
