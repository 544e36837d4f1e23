"""What a snapshot of a whole workspace holds, what it leaves out, and what it says of that."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from jumar import errors
from jumar.core import trees
from jumar.core.ignoring import Ignoring
from jumar.core.trees import EntryKind, RuleText, SkipReason
from jumar.workspace import collecting
from jumar.workspace.collecting import Budget, Collector, Progress
from jumar.workspace.objects import Objects
from jumar.workspace.packing import PART_BYTES
from jumar.workspace.reading import stat_of
from jumar.workspace.scanning import FOLDER, Scanner
from jumar.workspace.workspace import Workspace
from tests.workspace.files import File, Folder, Link, Pipe, Tree, read, without_git, write
from tests.workspace.snapshots import as_nobody, open_to_all, reads, skipped, tree_of, wait_for_the_clock

ODD: Tree = {
    b"a": File(b"1", 0o600),
    b"b": File(b"", 0o444),
    b"c": File(b"x" * 100_000, 0o755),
    b"closed": Folder(0o750),
    b"closed/empty": Folder(0o700),
    b"dangling": Link(b"nowhere/../at all"),
    b"line\nfeed": File(b"2"),
    b"not \xff\xfe unicode": File(b"3"),
    b"set": File(b"4", 0o4755),
    b"sticky": Folder(0o1777),
    b"up": Link(b".."),
    "ünïcode ☃".encode(): Folder(0o755),
    "ünïcode ☃/in".encode(): File(b"5"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def objects(tmp_path: Path) -> Iterator[Objects]:
    with Objects(tmp_path / "objects.db") as opened:
        yield opened


def test_a_snapshot_holds_every_byte_mode_link_and_empty_folder(root: Path, objects: Objects) -> None:
    write(root, ODD)
    root.chmod(0o711)
    snapshot = Workspace(root, objects).capture()
    assert tree_of(objects, snapshot) == read(root) == ODD
    assert snapshot.mode == 0o711
    assert snapshot.complete and not snapshot.skipped and not snapshot.torn
    assert (snapshot.files, snapshot.dirs, snapshot.links) == (7, 4, 2)
    assert snapshot.size == sum(len(each.data) for each in ODD.values() if isinstance(each, File))
    assert objects.get_snapshot(trees.snapshot_digest(snapshot)) == snapshot


def test_an_empty_workspace_has_a_snapshot_too(root: Path, objects: Objects) -> None:
    snapshot = Workspace(root, objects).capture()
    assert snapshot.root == trees.EMPTY_DIGEST and snapshot.complete
    assert tree_of(objects, snapshot) == {}


def test_the_same_files_have_the_same_digest_wherever_and_whenever(tmp_path: Path) -> None:
    digests = set()
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, ODD)
        with Objects(tmp_path / f"{name}.db") as objects:
            digests.update(Workspace(folder, objects).capture().root for _ in range(2))
    assert len(digests) == 1


def test_a_large_file_is_kept_in_parts_and_comes_back_whole(root: Path, objects: Objects) -> None:
    data = os.urandom(1000) * (PART_BYTES // 1000) + b"and a bit more" * 1000
    write(root, {b"large": File(data), b"exact": File(data[:PART_BYTES])})
    snapshot = Workspace(root, objects).capture()
    assert tree_of(objects, snapshot) == {b"exact": File(data[:PART_BYTES]), b"large": File(data)}
    entry = trees.find(objects.load, snapshot.root, b"large")
    assert entry is not None and entry.digest is not None
    assert max(map(len, objects.parts(entry.digest))) <= PART_BYTES


def test_what_is_no_file_is_skipped_with_its_reason(root: Path, objects: Objects) -> None:
    write(root, {b"pipe": Pipe(), b"sub/pipe": Pipe(), b"file": File(b"1")})
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "sock"))
        for snapshot in (Workspace(root, objects).capture(), Workspace(root, objects).capture()):
            assert skipped(snapshot) == {
                b"pipe": SkipReason.FIFO,
                b"sub/pipe": SkipReason.FIFO,
                b"sock": SkipReason.SOCKET,
            }
            assert snapshot.complete, "what can never be captured is not missing"
            assert tree_of(objects, snapshot) == {b"file": File(b"1"), b"sub": Folder()}


def test_what_cannot_be_read_makes_the_snapshot_partial_until_it_can(tmp_path: Path) -> None:
    base = open_to_all(tmp_path)
    root = base / "root"
    write(
        root, {b"open": File(b"1"), b"locked": File(b"2", 0o000), b"shut": Folder(0o000), b"list only": Folder(0o744)}
    )
    (root / "list only" / "in").write_bytes(b"3")

    def capture() -> tuple[bool, dict[bytes, SkipReason], Tree]:
        with Objects(base / "objects.db") as objects:
            snapshot = Workspace(root, objects).capture()
            return snapshot.complete, skipped(snapshot), tree_of(objects, snapshot)

    unreadable = dict.fromkeys([b"locked", b"shut", b"list only/in"], SkipReason.UNREADABLE)
    for _ in range(2):
        complete, missing, tree = as_nobody(capture)
        assert not complete
        assert missing == unreadable
        assert tree == {b"open": File(b"1"), b"list only": Folder(0o744)}
    (root / "locked").chmod(0o644)
    (root / "shut").chmod(0o755)
    (root / "list only").chmod(0o755)
    complete, missing, tree = as_nobody(capture)
    assert complete and not missing
    assert tree == read(root)


def test_git_folders_are_left_alone_and_nested_repositories_are_captured(root: Path, objects: Objects) -> None:
    files: Tree = {
        b".git/config": File(b"[core]"),
        b".git/index": File(b"DIRC"),
        b"lib/.git/HEAD": File(b"ref: refs/heads/none"),  # a repository without commits
        b"lib/code": File(b"1"),
        b"worktree/.git": File(b"gitdir: elsewhere"),
        b"worktree/code": File(b"2"),
        b".github/flow": File(b"3"),
    }
    write(root, files)
    before = read(root)
    snapshot = Workspace(root, objects).capture()
    assert tree_of(objects, snapshot) == without_git(before)
    assert skipped(snapshot) == dict.fromkeys([b".git", b"lib/.git", b"worktree/.git"], SkipReason.GIT)
    assert snapshot.complete
    assert read(root) == before
    (root / "lib" / "code").write_bytes(b"changed")
    changes = [
        change.path for change in trees.diff(objects.load, snapshot.root, Workspace(root, objects).capture().root)
    ]
    assert changes == [b"lib/code"]


def test_links_are_stored_and_never_followed(tmp_path: Path, root: Path, objects: Objects) -> None:
    write(tmp_path / "outside", {b"secret": File(b"no")})
    write(root, {b"out": Link(os.fsencode(tmp_path / "outside")), b"loop": Link(b"loop"), b"here": Link(b".")})
    assert tree_of(objects, Workspace(root, objects).capture()) == read(root)


def test_other_filesystems_are_not_entered(root: Path, objects: Objects) -> None:
    write(root, {b"mounted/file": File(b"1"), b"file": File(b"2")})
    here = os.open(root, FOLDER)
    collector = Collector(objects, Budget(), None)
    elsewhere = root.stat().st_dev + 1
    digest = Scanner(collector, {}, 0, elsewhere).folder(here, b"", stat_of(root.stat()), Ignoring())
    os.close(here)
    collector.flush()
    assert [entry.name for entry in objects.load(digest)] == [b"file"]
    assert [(each.path, each.reason) for each in collector.skipped] == [(b"mounted", SkipReason.OTHER_FILESYSTEM)]


def test_jumars_own_files_are_never_captured(root: Path) -> None:
    write(root, {b"file": File(b"1"), b"state/other": File(b"2"), b"runs.db": File(b"x"), b"runs.db-wal": File(b"y")})
    (root / "own").mkdir()
    with Objects(root / "state" / "objects.db") as objects:
        wait_for_the_clock(root)
        workspace = Workspace(root, objects, own=[root / "runs.db", root / "own"], slack=0.0)
        with workspace._restorer.lock():
            snapshot = workspace.capture()
        assert tree_of(objects, snapshot) == {b"file": File(b"1"), b"state": Folder(), b"state/other": File(b"2")}
        assert snapshot.complete
        assert set(skipped(snapshot).values()) == {SkipReason.OWN_FILE}
        assert {b"runs.db", b"runs.db-wal", b"own", b"state/objects.db"} <= skipped(snapshot).keys()
        fewer = Workspace(root, objects, slack=0.0).capture()
        assert {b"runs.db", b"own"} <= tree_of(objects, fewer).keys()


def test_ignored_files_are_left_out_and_the_rules_are_frozen_in(root: Path, objects: Objects) -> None:
    write(
        root,
        {
            b".gitignore": File(b"*.log\nbuild/\n"),
            b"a.log": File(b"1"),
            b"build/deep/x": File(b"2"),
            b"sub/.gitignore": File(b"!keep.log\n/only\n"),
            b"sub/keep.log": File(b"3"),
            b"sub/only": File(b"4"),
            b"sub/given": File(b"5"),
        },
    )
    workspace = Workspace(root, objects, ignore=["given"])
    for _ in range(2):
        snapshot = workspace.capture()
        assert tree_of(objects, snapshot).keys() == {b".gitignore", b"sub", b"sub/.gitignore", b"sub/keep.log"}
        assert snapshot.complete and not snapshot.skipped
        assert snapshot.rules == (
            RuleText(b"", b"*.log\nbuild/\n"),
            RuleText(b"sub", b"!keep.log\n/only\n"),
            RuleText(b"", b"given\n"),
        )


def test_a_rule_that_comes_later_counts_at_once_and_an_earlier_snapshots_rules_can_be_asked_for(
    root: Path, objects: Objects
) -> None:
    write(root, {b"sub/a.tmp": File(b"1"), b"sub/b": File(b"2")})
    workspace = Workspace(root, objects)
    first = workspace.capture()
    write(root, {b"sub/.gitignore": File(b"*.tmp\n"), b"sub/new.tmp": File(b"3")})
    assert tree_of(objects, workspace.capture()).keys() == {b"sub", b"sub/.gitignore", b"sub/b"}
    again = workspace.capture(rules=first.rules)
    assert tree_of(objects, again) == read(root)
    assert again.rules == first.rules == ()
    (root / "sub" / ".gitignore").write_bytes(b"b\n")
    assert tree_of(objects, workspace.capture()).keys() == {b"sub", b"sub/.gitignore", b"sub/a.tmp", b"sub/new.tmp"}
    (root / "sub" / ".gitignore").unlink()
    assert tree_of(objects, workspace.capture()) == read(root)


def test_rules_are_bytes_as_names_are(root: Path, objects: Objects) -> None:
    write(root, {b".gitignore": File(b"*.\xff\n\xe9t\xe9\n"), b"a.\xff": File(b"1"), b"\xe9t\xe9": File(b"2")})
    snapshot = Workspace(root, objects, ignore=["b.\udcfe"]).capture()
    assert tree_of(objects, snapshot).keys() == {b".gitignore"}
    assert objects.get_snapshot(trees.snapshot_digest(snapshot)).rules == snapshot.rules
    assert snapshot.rules[1].text == b"b.\xfe\n"


def test_a_rule_that_changes_further_up_counts_in_folders_where_nothing_changed(root: Path, objects: Objects) -> None:
    write(root, {b"sub/deep/a.tmp": File(b"1"), b"sub/deep/b": File(b"2")})
    wait_for_the_clock(root)
    workspace = Workspace(root, objects, slack=0.0)
    assert tree_of(objects, workspace.capture()) == read(root)
    given = Workspace(root, objects, ignore=["*.tmp"], slack=0.0)
    assert tree_of(objects, given.capture()).keys() == {b"sub", b"sub/deep", b"sub/deep/b"}
    assert tree_of(objects, workspace.capture()) == read(root)
    write(root, {b".gitignore": File(b"deep\n")})
    assert tree_of(objects, workspace.capture()).keys() == {b".gitignore", b"sub"}
    (root / ".gitignore").unlink()
    assert tree_of(objects, workspace.capture()) == read(root)


def test_names_that_windows_cannot_hold_are_told_and_captured(root: Path, objects: Objects) -> None:
    write(
        root, {b"sub/aux.txt": File(b"1"), b"a:b": File(b"2"), b"X": File(b"3"), b"x": File(b"4"), b"fine": File(b"5")}
    )
    for _ in range(2):
        snapshot = Workspace(root, objects).capture()
        assert snapshot.unportable == (b"a:b", b"sub/aux.txt", b"x")
        assert tree_of(objects, snapshot) == read(root)


def test_a_tree_deeper_than_a_walk_goes_is_partial_and_says_where(root: Path, objects: Objects) -> None:
    deep = b"/".join([b"d"] * 150)
    write(root, {deep: Folder()})
    snapshot = Workspace(root, objects).capture()
    assert not snapshot.complete
    assert [each.reason for each in snapshot.skipped] == [SkipReason.DEEP]
    assert deep.startswith(snapshot.skipped[0].path + b"/")


MANY: Tree = {b"d%d/f%d" % (i, j): File(b"x" * 10) for i in range(4) for j in range(5)}


@pytest.mark.parametrize(
    ("budget", "files"), [(Budget(files=7), 7), (Budget(bytes=79), 7), (Budget(files=0), 0), (Budget(seconds=0.0), 0)]
)
def test_past_its_budget_a_capture_is_refused_or_partial_as_was_asked(
    root: Path, objects: Objects, budget: Budget, files: int
) -> None:
    write(root, MANY)
    wait_for_the_clock(root)
    workspace = Workspace(root, objects, slack=0.0)
    with pytest.raises(errors.BudgetExceeded):
        workspace.capture(budget=budget)
    partial = workspace.capture(budget=structs.replace(budget, partial=True))
    assert not partial.complete and partial.files == files
    assert {each.reason for each in partial.skipped} == {SkipReason.BUDGET}
    tree, missing = tree_of(objects, partial), skipped(partial).keys()
    for path in MANY:
        gone = path in missing or path.partition(b"/")[0] in missing
        assert (path in tree) is not gone, "what a partial snapshot lacks it names"
    whole = workspace.capture(budget=Budget(files=20, bytes=200))
    assert whole.complete and tree_of(objects, whole) == read(root)
    with pytest.raises(errors.BudgetExceeded):
        workspace.capture(budget=budget)
    again = workspace.capture(budget=structs.replace(budget, partial=True))
    assert tree_of(objects, again) == tree, "what is remembered of the whole does not widen it"


def test_a_capture_that_takes_long_tells_how_far_it_is(
    root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, MANY)
    told: list[Progress] = []
    Workspace(root, objects).capture(progress=told.append)
    assert told == [], "a short one says nothing"
    monkeypatch.setattr(collecting, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(collecting, "_EVERY_SECONDS", 0.0)
    snapshot = Workspace(root, objects).capture(progress=told.append)
    assert told and told[-1].files == snapshot.files and told[-1].bytes == snapshot.size
    assert [each.files for each in told] == sorted(each.files for each in told)


def test_what_did_not_change_is_not_read_again(root: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, MANY)
    workspace = Workspace(root, objects, slack=0.0)
    wait_for_the_clock(root)
    with reads(monkeypatch) as names:
        first = workspace.capture()
        assert len(names) == len(MANY)
        names.clear()
        second = workspace.capture()
        (root / "d1" / "f2").write_bytes(b"other")
        third = workspace.capture()
    assert second.root == first.root != third.root
    assert names == [b"f2"]
    assert (third.files, third.dirs, third.size) == (20, 4, 195)
    changes = list(workspace.diff(second, third))
    assert [(each.path, each.after.size if each.after else None) for each in changes] == [(b"d1/f2", 5)]


def test_folders_that_are_gone_are_forgotten(root: Path, objects: Objects) -> None:
    write(root, {b"a/b/c": File(b"1"), b"d": Folder()})
    workspace = Workspace(root, objects)
    workspace.capture()
    assert objects.stat_rows(os.fsencode(workspace.root)).keys() == {b"", b"a", b"a/b", b"d"}
    (root / "a" / "b" / "c").unlink()
    (root / "a" / "b").rmdir()
    snapshot = workspace.capture()
    assert objects.stat_rows(os.fsencode(workspace.root)).keys() == {b"", b"a", b"d"}
    assert tree_of(objects, snapshot) == {b"a": Folder(), b"d": Folder()}


def test_a_file_that_becomes_a_folder_and_back_is_seen(root: Path, objects: Objects) -> None:
    workspace = Workspace(root, objects)
    write(root, {b"x": File(b"1")})
    assert tree_of(objects, workspace.capture()) == {b"x": File(b"1")}
    (root / "x").unlink()
    write(root, {b"x/in": File(b"2")})
    assert tree_of(objects, workspace.capture()) == {b"x": Folder(), b"x/in": File(b"2")}
    (root / "x" / "in").unlink()
    (root / "x").rmdir()
    write(root, {b"x": Link(b"y")})
    snapshot = workspace.capture()
    assert tree_of(objects, snapshot) == {b"x": Link(b"y")}
    entry = trees.find(objects.load, snapshot.root, b"x")
    assert entry is not None and entry.kind is EntryKind.LINK
