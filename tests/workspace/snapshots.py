"""Snapshots as the plain trees of `tests.workspace.files`, and small helps around capturing."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from jumar.core import trees
from jumar.core.trees import EntryKind, SkipReason, Snapshot
from jumar.workspace import scanning
from jumar.workspace.objects import Objects
from jumar.workspace.probing import filesystem_time
from tests.workspace.files import File, Folder, Link, Tree

T = TypeVar("T")

NOBODY = 65534


def tree_of(objects: Objects, snapshot: Snapshot) -> Tree:
    """What a snapshot holds, contents and all."""
    found: Tree = {}
    for path, entry in trees.walk(objects.load, snapshot.root):
        if entry.kind is EntryKind.DIR:
            found[path] = Folder(entry.mode)
        elif entry.kind is EntryKind.LINK:
            assert entry.target is not None
            found[path] = Link(entry.target)
        else:
            assert entry.digest is not None
            found[path] = File(objects.get_blob(entry.digest), entry.mode)
            assert len(objects.get_blob(entry.digest)) == entry.size
    return dict(sorted(found.items()))


def skipped(snapshot: Snapshot) -> dict[bytes, SkipReason]:
    """Why each path is missing."""
    return {each.path: each.reason for each in snapshot.skipped}


def wait_for_the_clock(root: Path) -> None:
    """Wait until the filesystem's clock has gone on, a few milliseconds, so that files written later are stamped so."""
    begun = filesystem_time(root, root)
    give_up = time.monotonic() + 30
    while filesystem_time(root, root) <= begun:
        assert time.monotonic() < give_up


@contextmanager
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """The names of the files that are read for a capture, as they are."""
    names: list[bytes] = []
    real = scanning.read_file

    def counted(name: bytes | str, folder: int, keep: Callable[[bytes, bytes], None]) -> object:
        names.append(os.fsencode(name))
        return real(name, folder, keep)

    with monkeypatch.context() as patched:
        patched.setattr(scanning, "read_file", counted)
        yield names


def as_nobody(work: Callable[[], T]) -> T:
    """What `work` answers in a child process of a user without rights; what it raises is raised here."""

    def without_rights() -> T:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return work()

    return in_a_fork(without_rights)


def in_a_fork(work: Callable[[], T]) -> T:
    """What `work` answers in a forked process; what it raises is raised here."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        answer: tuple[bool, object] = (False, RuntimeError("no answer"))
        try:
            answer = (True, work())
        except BaseException as error:
            answer = (False, error)
        finally:
            with os.fdopen(theirs, "wb") as pipe:
                pickle.dump(answer, pipe)
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        done, value = pickle.load(pipe)
    os.waitpid(child, 0)
    if not done:
        raise value
    return value  # type: ignore[no-any-return]


def open_to_all(folder: Path) -> Path:
    """A folder that every user may enter and write, its parents included."""
    for each in (folder, *folder.parents):
        if each.stat().st_uid == os.getuid() and len(each.parts) > 2:
            each.chmod(each.stat().st_mode | 0o055)
    folder.chmod(0o777)
    return folder
