"""Snapshots of declared paths alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar.core import trees
from jumar.core.trees import SkipReason
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace
from tests.workspace.files import File, Folder, Link, Pipe, Tree, read, write
from tests.workspace.snapshots import reads, skipped, tree_of, wait_for_the_clock

FILES: Tree = {
    b"conf": Folder(0o750),
    b"conf/a.ini": File(b"a", 0o600),
    b"conf/b.ini": File(b"b"),
    b"conf/c.txt": File(b"c"),
    b"conf/sub": Folder(),
    b"conf/sub/d.ini": File(b"d"),
    b"other": Folder(),
    b"other/e": File(b"e"),
    b"star*": File(b"f"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    write(folder, FILES)
    return folder


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    with Objects(tmp_path / "objects.db") as opened:
        yield opened


def of(*paths: bytes) -> Tree:
    return {path: thing for path, thing in FILES.items() if path in paths}


@pytest.mark.parametrize(
    ("globs", "expected"),
    [
        ([b"conf/a.ini"], of(b"conf", b"conf/a.ini")),
        ([b"conf/a.ini", b"other/e"], of(b"conf", b"conf/a.ini", b"other", b"other/e")),
        ([b"conf/*.ini"], of(b"conf", b"conf/a.ini", b"conf/b.ini")),
        ([b"conf"], {path: thing for path, thing in FILES.items() if path.startswith(b"conf")}),
        ([b"conf/sub/**"], of(b"conf", b"conf/sub", b"conf/sub/d.ini")),
        ([rb"star\*"], of(b"star*")),
        ([b"star*"], of(b"star*")),
        ([b"conf/none", b"none/at/all"], of(b"conf")),
        ([b"."], FILES),
        ([b"**"], FILES),
    ],
)
def test_only_what_the_globs_name_is_captured(root: Path, objects: Objects, globs: list[bytes], expected: Tree) -> None:
    snapshot = Workspace(root, objects).capture(globs)
    assert tree_of(objects, snapshot) == expected
    assert snapshot.scope == tuple(globs) and snapshot.complete


def test_a_glob_that_goes_deep_finds_files_and_the_folders_above_them(root: Path, objects: Objects) -> None:
    tree = tree_of(objects, Workspace(root, objects).capture([b"**/*.ini"]))
    assert {path for path, thing in tree.items() if isinstance(thing, File)} == {
        b"conf/a.ini",
        b"conf/b.ini",
        b"conf/sub/d.ini",
    }


def test_what_is_beside_a_declared_path_is_not_read_and_it_always_is(
    root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(root, objects, slack=0.0)
    wait_for_the_clock(root)
    workspace.capture()
    with reads(monkeypatch) as names:
        workspace.capture([b"conf/a.ini"])
        workspace.capture([b"conf/a.ini"])
        assert names == [b"a.ini", b"a.ini"]
        names.clear()
        workspace.capture()
        assert names == [], "and the cache of the whole is not touched"


def test_a_declared_path_is_captured_even_if_it_is_ignored(root: Path, objects: Objects) -> None:
    write(
        root,
        {
            b".gitignore": File(b"build/\n*.tmp\n"),
            b"build/out": File(b"1"),
            b"build/beside": File(b"2"),
            b"other/x.tmp": File(b"3"),
            b"other/.gitignore": File(b"e\n"),
        },
    )
    workspace = Workspace(root, objects)
    assert tree_of(objects, workspace.capture([b"build/out"])).keys() == {b"build", b"build/out"}
    assert tree_of(objects, workspace.capture([b"build"])).keys() == {b"build", b"build/out", b"build/beside"}
    other = workspace.capture([b"other"])
    assert tree_of(objects, other).keys() == {b"other", b"other/.gitignore"}
    assert {rule.folder for rule in other.rules} == {b"", b"other"}
    again = workspace.capture([b"other"], rules=other.rules)
    assert again.root == other.root and again.rules == other.rules
    assert tree_of(objects, workspace.capture([b"other"], rules=())).keys() >= {b"other/e", b"other/x.tmp"}


def test_a_path_that_leads_through_a_link_is_not_followed(tmp_path: Path, root: Path, objects: Objects) -> None:
    write(tmp_path / "outside", {b"a.ini": File(b"secret")})
    write(root, {b"link": Link(os.fsencode(tmp_path / "outside"))})
    snapshot = Workspace(root, objects).capture([b"link/a.ini"])
    assert tree_of(objects, snapshot) == {}
    assert skipped(snapshot) == {b"link": SkipReason.LINKED} and not snapshot.complete
    whole = Workspace(root, objects).capture([b"link"])
    assert tree_of(objects, whole) == {b"link": Link(os.fsencode(tmp_path / "outside"))}
    globbed = Workspace(root, objects).capture([b"*/a.ini"])
    assert globbed.complete and b"conf/a.ini" in tree_of(objects, globbed)


def test_a_declared_path_that_is_no_file_or_a_repositorys_own_is_skipped(root: Path, objects: Objects) -> None:
    write(root, {b"conf/pipe": Pipe(), b".git/config": File(b"x")})
    snapshot = Workspace(root, objects).capture([b"conf/pipe", b".git/config", b"other/e/below"])
    assert skipped(snapshot) == {b"conf/pipe": SkipReason.FIFO, b".git": SkipReason.GIT}
    assert tree_of(objects, snapshot) == of(b"conf", b"other")


def test_declared_snapshots_differ_only_where_their_files_do(root: Path, objects: Objects) -> None:
    workspace = Workspace(root, objects)
    before = workspace.capture([b"conf/*.ini"])
    (root / "conf" / "b.ini").unlink()
    (root / "conf" / "new.ini").write_bytes(b"n")
    (root / "conf" / "c.txt").write_bytes(b"changed")
    after = workspace.capture([b"conf/*.ini"])
    assert [change.path for change in workspace.diff(before, after)] == [b"conf/b.ini", b"conf/new.ini"]
    assert trees.find(objects.load, after.root, b"conf/new.ini") is not None
    assert read(root)[b"conf/c.txt"] == File(b"changed")
