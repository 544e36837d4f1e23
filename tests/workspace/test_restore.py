"""Putting files back: what comes back, what goes, and what is left alone."""

from __future__ import annotations

import pytest

from jumar.core.restoring import Outcome
from jumar.errors import WorkspaceConflict
from tests.workspace import files
from tests.workspace.files import File, Folder, Link, Pipe, Tree, without_git
from tests.workspace.scene import Scene, leftovers

BEFORE: Tree = {
    b"closed": Folder(0o500),
    b"closed/in": File(b"1"),
    b"conf": Folder(0o750),
    b"conf/secret": File(b"s3cret", 0o600),
    b"conf/site.ini": File(b"port=80\n", 0o444),
    b"empty": Folder(0o700),
    b"file-then-folder": File(b"f"),
    b"folder-then-file": Folder(),
    b"folder-then-file/a": File(b"a"),
    b"folder-then-file/b": Folder(0o555),
    b"folder-then-file/b/c": File(b"c", 0o4755),
    b"folder-then-link": Folder(),
    b"link": Link(b"conf/site.ini"),
    b"link-then-file": Link(b"/nowhere"),
    b"run.sh": File(b"#!/bin/sh\n", 0o755),
    b"same": File(b"same"),
    b"\xff\xfe odd\nname": File(b"odd"),
}
AFTER: Tree = {
    b"closed": Folder(0o700),
    b"conf": Folder(0o755),
    b"conf/secret": File(b"s3cret", 0o644),
    b"conf/site.ini": File(b"", 0o644),
    b"file-then-folder": Folder(),
    b"file-then-folder/x": File(b"x"),
    b"file-then-folder/y": Folder(0o500),
    b"file-then-folder/y/z": Link(b"../x"),
    b"folder-then-file": File(b"f"),
    b"folder-then-link": Link(b"conf"),
    b"link": Link(b"run.sh"),
    b"link-then-file": File(b"l"),
    b"made": Folder(0o555),
    b"made/by": Folder(),
    b"made/by/run": File(b"new"),
    b"same": File(b"same"),
    b"run.sh": File(b"#!/bin/sh\nexit 1\n", 0o755),
}


def test_contents_modes_links_and_empty_folders_come_back(scene: Scene) -> None:
    scene.become(BEFORE)
    target = scene.workspace.capture()
    scene.become(AFTER)
    report = scene.restore(target, scene.workspace.capture())
    assert scene.read() == BEFORE
    assert leftovers(scene) == []
    assert report.complete
    assert set(report.of(Outcome.DELETED)) == {
        "file-then-folder/x",
        "file-then-folder/y",
        "file-then-folder/y/z",
        "made",
        "made/by",
        "made/by/run",
    }
    assert {"conf/site.ini", "conf/secret", "empty", "run.sh", "link"} < set(report.of(Outcome.RESTORED))
    assert "same" not in {each.text for each in report.paths}


def test_a_restore_can_be_undone_from_its_safety_snapshot(scene: Scene) -> None:
    scene.become(BEFORE)
    target = scene.workspace.capture()
    scene.become(AFTER)
    report = scene.restore(target, scene.workspace.capture())
    assert report.safety is not None
    assert report.safety in {digest for digest, _ in scene.objects.pins()}
    scene.restore(scene.objects.get_snapshot(report.safety), target)
    assert scene.read() == AFTER


def test_a_plan_touches_nothing_and_says_what_would_be_done(scene: Scene) -> None:
    scene.become({b"a": File(b"1"), b"b": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"a": File(b"2"), b"c": File(b"1")})
    known = scene.workspace.capture()
    scene.put({b"c": File(b"theirs")})
    here = scene.read()
    plan = scene.workspace.plan(target, known)
    assert {step.path: step.verdict.value for step in plan.steps} == {b"a": "write", b"b": "write", b"c": "conflict"}
    assert [step.path for step in plan.conflicts] == [b"c"]
    assert scene.read() == here
    assert scene.objects.pins() == set()


def test_where_nothing_changed_nothing_is_done(scene: Scene) -> None:
    scene.become(BEFORE)
    target = scene.workspace.capture()
    report = scene.restore(target, target)
    assert (report.paths, report.safety) == ((), None)
    assert scene.objects.pins() == set()


def test_an_edit_after_the_agents_refuses_the_whole_restore(scene: Scene) -> None:
    scene.become({b"a": File(b"1"), b"b": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"a": File(b"2"), b"b": File(b"2")})
    known = scene.workspace.capture()
    scene.put({b"a": File(b"a person's")})
    with pytest.raises(WorkspaceConflict) as refused:
        scene.restore(target, known)
    assert refused.value.paths == ("a",)
    assert "a (it was changed since)" in refused.value.what
    assert scene.read() == {b"a": File(b"a person's"), b"b": File(b"2")}


def test_a_conflict_that_is_skipped_stays_and_is_told(scene: Scene) -> None:
    scene.become({b"a": File(b"1"), b"b": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"a": File(b"2"), b"b": File(b"2")})
    known = scene.workspace.capture()
    scene.put({b"a": File(b"a person's")})
    report = scene.restore(target, known, skip=True)
    assert scene.read() == {b"a": File(b"a person's"), b"b": File(b"1")}
    assert (report.of(Outcome.CONFLICT), report.of(Outcome.RESTORED)) == (("a",), ("b",))
    assert not report.complete


def test_a_forced_conflict_can_be_undone(scene: Scene) -> None:
    scene.become({b"a": File(b"1"), b"gone": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"a": File(b"2"), b"gone": File(b"2")})
    known = scene.workspace.capture()
    scene.become({b"a": File(b"a person's", 0o640), b"note": File(b"a person's too")})
    theirs = scene.read()
    report = scene.restore(target, known, force=True)
    assert scene.read() == {b"a": File(b"1"), b"gone": File(b"1")}
    assert report.safety is not None
    scene.restore(scene.objects.get_snapshot(report.safety), target)
    assert scene.read() == theirs


def test_an_edit_made_between_the_plan_and_the_restore_is_seen(scene: Scene) -> None:
    scene.become({b"a": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"a": File(b"2")})
    plan = scene.workspace.plan(target, scene.workspace.capture())
    assert plan.conflicts == ()
    scene.put({b"a": File(b"3")})
    with pytest.raises(WorkspaceConflict):
        scene.workspace.restore(plan)
    assert scene.read() == {b"a": File(b"3")}


def test_another_programs_untracked_file_is_never_deleted_unforced(scene: Scene) -> None:
    scene.become({b"a": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"a": File(b"2")})
    known = scene.workspace.capture()
    scene.put({b"theirs/log": File(b"untracked")})
    with pytest.raises(WorkspaceConflict):
        scene.restore(target, known)
    scene.restore(target, known, skip=True)
    assert scene.read() == {b"a": File(b"1"), b"theirs": Folder(), b"theirs/log": File(b"untracked")}


def test_a_file_ignored_when_the_target_was_taken_is_left_alone(scene: Scene) -> None:
    scene.become({b".gitignore": File(b"*.log\nbuild/\n"), b"a": File(b"1"), b"x.log": File(b"old")})
    target = scene.workspace.capture()
    ignored: Tree = {b"x.log": File(b"new"), b"y.log": File(b"y"), b"build/out": File(b"o")}
    scene.put({b"a": File(b"2"), b".gitignore": File(b""), **ignored})
    report = scene.restore(target, scene.workspace.capture(), force=True)
    assert scene.read() == {
        b".gitignore": File(b"*.log\nbuild/\n"),
        b"a": File(b"1"),
        b"build": Folder(),
        **ignored,
    }
    assert report.complete


def test_an_ignore_rule_added_later_neither_hides_a_captured_file_nor_deletes_an_ignored_one(scene: Scene) -> None:
    scene.become({b"a.log": File(b"captured")})
    target = scene.workspace.capture()
    scene.put({b".gitignore": File(b"*.log\n"), b"a.log": File(b"captured"), b"new.log": File(b"ignored now")})
    known = scene.workspace.capture()
    report = scene.restore(target, known)
    assert scene.read() == {b"a.log": File(b"captured"), b"new.log": File(b"ignored now")}
    assert report.of(Outcome.UNCAPTURED) == ("new.log",)
    scene.put({b".gitignore": File(b"*.log\n"), b"a.log": File(b"changed while ignored")})
    with pytest.raises(WorkspaceConflict) as refused:  # nobody knows what it was last
        scene.restore(target, known)
    assert refused.value.paths == ("a.log",)
    scene.restore(target, known, force=True)
    assert scene.read() == {b"a.log": File(b"captured"), b"new.log": File(b"ignored now")}


def test_a_folder_that_holds_ignored_files_stays_with_them(scene: Scene) -> None:
    scene.become({b".gitignore": File(b"*.o\n")})
    target = scene.workspace.capture()
    scene.put({b"src/a.c": File(b"c"), b"src/a.o": File(b"o")})
    report = scene.restore(target, scene.workspace.capture())
    assert scene.read() == {b".gitignore": File(b"*.o\n"), b"src": Folder(), b"src/a.o": File(b"o")}
    assert (report.of(Outcome.DELETED), report.of(Outcome.UNCAPTURED)) == (("src/a.c",), ("src",))


def test_a_nested_repositorys_files_come_back_and_its_git_is_never_touched(scene: Scene) -> None:
    git: Tree = {
        b".git/index": File(b"mine"),
        b"lib/.git/HEAD": File(b"ref: refs/heads/main\n"),  # a repository without a commit
        b"lib/.git/objects": Folder(),
    }
    scene.become({b"lib/code.py": File(b"1"), **git})
    target = scene.workspace.capture()
    scene.put({b"lib/code.py": File(b"2"), b"lib/new.py": File(b"3"), b"vendored/.git/HEAD": File(b"x")})
    scene.put({b"vendored/v.py": File(b"4"), b".git/index": File(b"mine, later")})
    before = scene.read()
    report = scene.restore(target, scene.workspace.capture())
    now = scene.read()
    assert without_git(now) == {b"lib": Folder(), b"lib/code.py": File(b"1"), b"vendored": Folder()}
    assert {path: now[path] for path in now.keys() - without_git(now).keys()} == {
        path: before[path] for path in before.keys() - without_git(before).keys()
    }
    assert report.of(Outcome.UNCAPTURED) == ("vendored",)


def test_a_fifo_in_a_files_place_cannot_be_forced_away(scene: Scene) -> None:
    scene.become({b"a": File(b"1"), b"b": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"a": Pipe(), b"b": File(b"2")})
    with pytest.raises(WorkspaceConflict) as refused:
        scene.restore(target, scene.workspace.capture(), force=True)
    assert refused.value.paths == ("a",)
    report = scene.restore(target, scene.workspace.capture(), force=True, skip=True)
    assert scene.read() == {b"a": Pipe(), b"b": File(b"1")}
    assert report.of(Outcome.CONFLICT) == ("a",)


def test_only_the_paths_that_were_asked_for_are_put_back(scene: Scene) -> None:
    scene.become({b"conf/a": File(b"1"), b"conf/b": File(b"1"), b"data": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"conf/a": File(b"2"), b"conf/new": File(b"2"), b"data": File(b"2")})
    plan = scene.workspace.plan(target, scene.workspace.capture(), paths=[b"conf/[an]*"])
    scene.workspace.restore(plan)
    assert scene.read() == {b"conf": Folder(), b"conf/a": File(b"1"), b"data": File(b"2")}


def test_a_snapshot_of_declared_paths_puts_back_those_alone(scene: Scene) -> None:
    scene.become({b"conf/a": File(b"1", 0o600), b"other": File(b"1")})
    before = scene.workspace.capture([b"conf/a", b"conf/new/deep", b"gone/*"])
    scene.put({b"conf/a": File(b"2"), b"conf/new/deep": File(b"2"), b"gone/x": File(b"2"), b"other": File(b"2")})
    known = scene.workspace.capture([b"conf/a", b"conf/new/deep", b"gone/*"])
    scene.restore(before, known)
    assert scene.read() == {b"conf": Folder(), b"conf/a": File(b"1", 0o600), b"other": File(b"2")}


def test_a_declared_path_comes_back_even_if_the_folders_above_it_are_gone(scene: Scene) -> None:
    scene.become({b"conf": Folder(0o750), b"conf/d": Folder(0o700), b"conf/d/a": File(b"1"), b"conf/d/b": File(b"1")})
    before = scene.workspace.capture([b"conf/d/a"])
    scene.remove("conf")
    scene.restore(before, None)
    assert scene.read() == {b"conf": Folder(0o750), b"conf/d": Folder(0o700), b"conf/d/a": File(b"1")}


def test_a_link_on_the_way_to_a_file_is_never_followed(scene: Scene) -> None:
    outside = scene.root.parent / "outside"
    outside.mkdir()
    (outside / "a").write_bytes(b"outside")
    scene.become({b"d/a": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"d": Link(b"../outside")})
    scene.restore(target, scene.workspace.capture())
    assert scene.read() == {b"d": Folder(), b"d/a": File(b"1")}
    assert (outside / "a").read_bytes() == b"outside"
    assert [each.name for each in outside.iterdir()] == ["a"]


def test_a_file_of_several_parts_comes_back(scene: Scene) -> None:
    large = bytes(range(256)) * 40_000  # 10 MB
    scene.become({b"large": File(large, 0o640)})
    target = scene.workspace.capture()
    scene.become({b"large": File(large[:-1] + b"!")})
    scene.restore(target, scene.workspace.capture())
    assert scene.read() == {b"large": File(large, 0o640)}


def test_a_closed_roots_mode_comes_back_too(scene: Scene) -> None:
    scene.become({b"a": File(b"1"), b"gone": File(b"1")})
    scene.root.chmod(0o555)
    target = scene.workspace.capture()
    scene.root.chmod(0o500)
    scene.remove("gone")
    scene.put({b"a": File(b"2"), b"new": File(b"2")})
    report = scene.restore(target, scene.workspace.capture())
    assert scene.read() == {b"a": File(b"1"), b"gone": File(b"1")}
    assert files.look(scene.root) == Folder(0o555)
    assert report.of(Outcome.RESTORED) == (".", "a", "gone")
    assert leftovers(scene) == []


def test_a_folder_on_the_way_to_a_declared_path_keeps_the_mode_that_others_gave_it(scene: Scene) -> None:
    scene.become({b"conf": Folder(0o755), b"conf/a": File(b"1")})
    before = scene.workspace.capture([b"conf/a"])
    scene.become({b"conf": Folder(0o700), b"conf/a": File(b"2")})
    scene.root.chmod(0o711)
    scene.restore(before, scene.workspace.capture([b"conf/a"]))
    assert scene.read() == {b"conf": Folder(0o700), b"conf/a": File(b"1")}
    assert files.look(scene.root) == Folder(0o711)
