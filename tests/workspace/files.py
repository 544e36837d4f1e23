"""Folders of files as plain dicts, for tests: read and written without any of the code under test."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple, TypeAlias


class File(NamedTuple):
    """A regular file."""

    data: bytes
    mode: int = 0o644


class Folder(NamedTuple):
    """A directory; what it holds has paths of its own."""

    mode: int = 0o755


class Link(NamedTuple):
    """A symbolic link, as it is written."""

    target: bytes


class Pipe(NamedTuple):
    """A FIFO."""


Tree: TypeAlias = dict[bytes, File | Folder | Link | Pipe]  # by path, `/`-separated; the root is not in it


def read(root: Path) -> Tree:
    """Everything below `root`."""
    found: Tree = {}
    waiting = [root]
    while waiting:
        for each in waiting.pop().iterdir():
            thing = look(each)
            found[os.fsencode(each.relative_to(root))] = thing
            if isinstance(thing, Folder):
                waiting.append(each)
    return dict(sorted(found.items()))


def look(place: Path) -> File | Folder | Link | Pipe:
    """What is at one place."""
    status = place.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return Folder(mode)
    if stat.S_ISLNK(status.st_mode):
        return Link(os.fsencode(place.readlink()))
    return Pipe() if stat.S_ISFIFO(status.st_mode) else File(place.read_bytes(), mode)


def write(root: Path, tree: Tree) -> None:
    """Make what the tree says below `root`, which may hold other things already."""
    for path, thing in sorted(tree.items()):
        place = root / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        match thing:
            case Folder():
                place.mkdir(exist_ok=True)
            case File(data, mode):
                place.write_bytes(data)
                place.chmod(mode)
            case Link(target):
                place.symlink_to(os.fsdecode(target))
            case Pipe():
                os.mkfifo(place)
    for path, thing in sorted(tree.items(), reverse=True):
        if isinstance(thing, Folder):
            (root / os.fsdecode(path)).chmod(thing.mode)


def without_git(tree: Tree) -> Tree:
    """The tree without every `.git` and what is in it."""
    return {path: thing for path, thing in tree.items() if b".git" not in path.split(b"/")}


def only_git(tree: Tree) -> Tree:
    """Every `.git` and what is in it."""
    return {path: thing for path, thing in tree.items() if b".git" in path.split(b"/")}
