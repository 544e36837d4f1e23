"""No change goes unseen, however it is timed: the stat cache, racy files, files that change while they are read."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jumar.core import trees
from jumar.workspace import reading
from jumar.workspace.objects import Objects
from jumar.workspace.packing import PART_BYTES
from jumar.workspace.probing import filesystem_time, stamps_folders
from jumar.workspace.workspace import Workspace
from tests.workspace.files import File, Folder, Link, read, write
from tests.workspace.snapshots import reads, tree_of, wait_for_the_clock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    with Objects(tmp_path / "objects.db") as opened:
        yield opened


def test_a_change_of_the_same_size_with_its_mtime_set_back_is_seen(root: Path, objects: Objects) -> None:
    write(root, {b"f": File(b"old"), b"g": File(b"same")})
    workspace = Workspace(root, objects, slack=0.0)
    wait_for_the_clock(root)
    workspace.capture()
    before = (root / "f").stat()
    (root / "f").write_bytes(b"new")
    os.utime(root / "f", ns=(before.st_atime_ns, before.st_mtime_ns))
    after = (root / "f").stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
    assert tree_of(objects, workspace.capture()) == read(root)


def test_a_file_put_in_anothers_place_with_the_same_size_and_times_is_seen(root: Path, objects: Objects) -> None:
    write(root, {b"f": File(b"old"), b"new": File(b"new")})
    for name in ("f", "new"):
        os.utime(root / name, ns=(1, 1))
    workspace = Workspace(root, objects, slack=0.0)
    wait_for_the_clock(root)
    workspace.capture()
    (root / "new").rename(root / "f")
    assert tree_of(objects, workspace.capture()) == {b"f": File(b"new")}


def test_a_change_that_moves_no_time_is_seen_because_the_file_was_racy(root: Path, objects: Objects) -> None:
    (root / "f").write_bytes(b"." * mmap.PAGESIZE)
    workspace = Workspace(root, objects)
    with (root / "f").open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"1"  # the first store to a clean page stamps the file ...
        assert tree_of(objects, workspace.capture()) == read(root)
        before = (root / "f").stat()
        memory[0:1] = b"2"  # ... a second one to the same page does not
        after = (root / "f").stat()
        assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
        assert tree_of(objects, workspace.capture()) == read(root)


def test_racy_files_are_read_again_and_settled_ones_are_not(
    root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {b"f": File(b"1")})
    with reads(monkeypatch) as names:
        for _ in range(3):
            Workspace(root, objects, slack=3600.0).capture()
        assert names == [b"f"] * 3
        wait_for_the_clock(root)
        Workspace(root, objects, slack=0.0).capture()
        Workspace(root, objects, slack=0.0).capture()
    assert names == [b"f"] * 4


def test_racy_folders_are_listed_and_racy_links_read_again_and_settled_ones_are_not(
    root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {b"d/link": Link(b"x")})
    calls: list[str] = []
    list_names, read_link = os.listdir, os.readlink
    monkeypatch.setattr(os, "listdir", lambda folder: void(calls.append("list")) or list_names(folder))
    monkeypatch.setattr(os, "readlink", lambda *link, **at: void(calls.append("read")) or read_link(*link, **at))

    def made(slack: float) -> list[str]:
        workspace = Workspace(root, objects, slack=slack)
        calls.clear()
        workspace.capture()
        return sorted(calls)

    assert made(3600.0) == made(3600.0) == ["list", "list", "read"]
    wait_for_the_clock(root)
    assert made(0.0) == ["list", "list", "read"]
    settled = made(0.0)
    assert settled == ([] if stamps_folders(root) else ["list", "list"])


def test_a_file_from_the_future_is_always_read(root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, {b"f": File(b"1")})
    future = filesystem_time(root, root) + 10**15
    os.utime(root / "f", ns=(future, future))
    wait_for_the_clock(root)
    with reads(monkeypatch) as names:
        for _ in range(2):
            Workspace(root, objects, slack=0.0).capture()
    assert names == [b"f"] * 2


def test_a_name_that_comes_or_goes_is_seen_even_if_the_folders_mtime_is_set_back(root: Path, objects: Objects) -> None:
    write(root, {b"d/a": File(b"1"), b"d/b": File(b"2")})
    workspace = Workspace(root, objects, slack=0.0)
    wait_for_the_clock(root)
    for _ in range(2):
        workspace.capture()
    before = (root / "d").stat()
    (root / "d" / "a").unlink()
    (root / "d" / "c").write_bytes(b"1")
    os.utime(root / "d", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tree_of(objects, workspace.capture()) == read(root)


class Meddling:
    """Does something after a file was read and before it is looked at again, as often as it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, what: Callable[[], None], times: int) -> None:
        self._what = what
        self._left = times
        self._read = os.read
        monkeypatch.setattr(reading.os, "read", self)

    def __call__(self, file: int, size: int) -> bytes:
        data = self._read(file, size)
        if self._left:
            self._left -= 1
            self._what()
        return data


@pytest.mark.parametrize("content", [b"new", b"longer than before", b""])
def test_a_file_that_changes_while_it_is_read_is_read_again(
    root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    write(root, {b"f": File(b"old")})
    wait_for_the_clock(root)
    workspace = Workspace(root, objects, slack=0.0)
    Meddling(monkeypatch, lambda: void((root / "f").write_bytes(content)), 1)
    snapshot = workspace.capture()
    assert tree_of(objects, snapshot) == {b"f": File(content)}
    assert snapshot.complete and not snapshot.torn


@pytest.mark.parametrize("size", [5, PART_BYTES + 5])
def test_a_file_that_never_stops_changing_is_torn_and_looked_at_again_next_time(
    root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    write(root, {b"f": File(b"." * size), b"g": File(b"calm")})
    wait_for_the_clock(root)
    workspace = Workspace(root, objects, slack=0.0)

    def append() -> None:
        with (root / "f").open("ab") as file:
            file.write(b"+")

    with monkeypatch.context() as patched:
        Meddling(patched, append, 1000)
        snapshot = workspace.capture()
    assert snapshot.torn == (b"f",) and not snapshot.complete
    held = tree_of(objects, snapshot)
    assert held.keys() == {b"f", b"g"}, "what was read last is there all the same"
    again = workspace.capture()
    assert again.complete and not again.torn
    assert tree_of(objects, again) == read(root)


def test_a_file_that_goes_while_it_is_captured_is_simply_not_there(
    root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, {b"a": File(b"1"), b"b": File(b"2"), b"c/d": File(b"3")})
    Meddling(monkeypatch, lambda: remove(root / "a", root / "b", root / "c" / "d"), 1)
    snapshot = Workspace(root, objects).capture()
    assert snapshot.complete and not snapshot.skipped
    assert tree_of(objects, snapshot) == {b"c": Folder()}
    assert (snapshot.files, snapshot.size) == (0, 0)


KILLED = """
import sys
from pathlib import Path
from jumar.workspace import scanning
from jumar.workspace.collecting import Collector
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace

left, real = int(sys.argv[3]), Collector.keep_blob

def stopping(self, digest, data):
    global left
    real(self, digest, data)
    self.flush()
    left -= 1
    if left == 0:
        print("here", flush=True)
        sys.stdin.read()

Collector.keep_blob = stopping
Workspace(sys.argv[1], Objects(sys.argv[2])).capture()
"""


@pytest.mark.parametrize("number", [1, 5, 12])
def test_a_capture_that_is_killed_leaves_the_workspace_as_it_is_and_the_objects_whole(
    root: Path, tmp_path: Path, number: int
) -> None:
    write(root, {b"d%d/f%d" % (i, j): File(b"%d" % (i * 4 + j)) for i in range(3) for j in range(4)})
    before = read(tmp_path / "root")
    command = [sys.executable, "-c", KILLED, str(root), str(tmp_path / "objects.db"), str(number)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "here\n"
        child.send_signal(signal.SIGKILL)
    assert read(root) == before
    with Objects(tmp_path / "objects.db") as objects:
        assert objects.stat_rows(os.fsencode(root)) == {}
        snapshot = Workspace(root, objects).capture()
        assert tree_of(objects, snapshot) == before


def test_a_damaged_stat_cache_costs_time_and_nothing_else(root: Path, objects: Objects) -> None:
    write(root, {b"d/f": File(b"1")})
    wait_for_the_clock(root)
    workspace = Workspace(root, objects, slack=0.0)
    first = workspace.capture()
    with objects._lock:
        objects._db.execute("UPDATE stat_cache SET row = x'01'")
    assert workspace.capture().root == first.root == workspace.capture().root
    with objects._lock:
        objects._db.execute("DELETE FROM nodes WHERE digest = ?", (first.root,))
    objects.load.cache_clear()  # type: ignore[attr-defined]
    (root / "d" / "g").write_bytes(b"2")
    assert tree_of(objects, workspace.capture()) == read(root)
    assert trees.find(objects.load, workspace.capture().root, b"d/g") is not None


def remove(*files: Path) -> None:
    for file in files:
        file.unlink()


def void(_: object) -> None:
    """For lambdas that are called for what they do."""
