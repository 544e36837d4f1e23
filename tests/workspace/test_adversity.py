"""What disks, people and signals do to a workspace while it is captured and put back."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import errors
from jumar.core.restoring import Outcome
from jumar.core.trees import SkipReason, snapshot_digest
from jumar.errors import RestoreFailed, StoreFull
from tests.workspace.crashing import Counting
from tests.workspace.files import File, Folder, Link, Tree, only_git
from tests.workspace.scene import Scene, leftovers
from tests.workspace.snapshots import skipped, tree_of

BEFORE: Tree = {b"a": File(b"1", 0o600), b"d": Folder(0o750), b"d/x": File(b"x"), b"gone": File(b"g"), b"l": Link(b"a")}
AFTER: Tree = {b"a": File(b"2"), b"d": File(b"no folder"), b"l": Link(b"d"), b"new": Folder(), b"new/y": File(b"y")}


class Interrupted(Counting):
    """Somebody presses Ctrl-C right before, or right after, one of the calls; `again` calls later once more."""

    def __init__(self, at: int, *, after: bool, again: int | None = None) -> None:
        super().__init__()
        self._at, self._after = (at, at if again is None else at + again), after

    def _step(self, number: int, name: str, call: Any, *args: Any, **rest: Any) -> Any:
        if number in self._at and not self._after:
            raise KeyboardInterrupt
        try:
            return call(*args, **rest)
        finally:
            if number in self._at:
                raise KeyboardInterrupt


def interrupted_everywhere(scene: Scene, look: Callable[[object], None], again: int | None, step: int) -> None:
    scene.become(BEFORE)
    target = scene.workspace.capture()
    scene.become(AFTER)
    known = scene.workspace.capture()
    calls = Counting()
    workspace = scene.reopen(calls)
    workspace.restore(workspace.plan(target, known))
    for at in range(0, len(calls.made), step):
        for after in (False, True):
            scene.become(AFTER)
            workspace = scene.reopen(Interrupted(at, after=after, again=again))
            with pytest.raises(KeyboardInterrupt):
                workspace.restore(workspace.plan(target, known))
            look((at, after))


def check_interrupts(scene: Scene, step: int) -> None:
    ends = set()

    def look(where: object) -> None:
        now = scene.read()
        slots = {path for path in now if path.rpartition(b"/")[2].startswith(b".jumar-")}
        seen = {path: thing for path, thing in now.items() if path not in slots}
        assert seen in (BEFORE, AFTER), where
        assert not slots or seen == BEFORE, "what is taken back leaves nothing"
        scene.reopen()
        assert (scene.read(), leftovers(scene)) == (seen, []), where
        ends.add(seen == BEFORE)

    interrupted_everywhere(scene, look, None, step)
    assert ends == {True, False}


@pytest.fixture
def quick(quick_path: Path) -> Iterator[Scene]:
    made = Scene(quick_path)
    yield made
    made.objects.close()


def test_a_restore_that_is_interrupted_takes_itself_back_or_has_come_to_its_end(quick: Scene) -> None:
    check_interrupts(quick, 3)


@pytest.mark.sweep
def test_a_restore_interrupted_anywhere_takes_itself_back_or_has_come_to_its_end(quick: Scene) -> None:
    check_interrupts(quick, 1)


@pytest.mark.parametrize("again", [1, 4])
def test_a_restore_interrupted_again_while_it_is_taken_back_comes_right_at_the_next_open(
    quick: Scene, again: int
) -> None:
    check_second_interrupts(quick, again, 5)


@pytest.mark.sweep
@pytest.mark.parametrize("again", range(1, 12))
def test_a_restore_interrupted_again_anywhere_comes_right_at_the_next_open(quick: Scene, again: int) -> None:
    check_second_interrupts(quick, again, 1)


def check_second_interrupts(scene: Scene, again: int, step: int) -> None:
    def look(where: object) -> None:
        scene.reopen()
        assert scene.read() in (BEFORE, AFTER), where
        assert leftovers(scene) == [], where

    interrupted_everywhere(scene, look, again, step)


def test_a_transaction_that_was_left_open_by_an_interrupt_is_rolled_back_by_the_next(scene: Scene) -> None:
    scene.become(BEFORE)
    with scene.objects.using() as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO pins (digest, reason) VALUES (x'00', 'half done')")
    snapshot = scene.workspace.capture()
    assert tree_of(scene.objects, snapshot) == BEFORE
    assert scene.objects.pins() == set()


def test_a_full_disk_under_the_objects_refuses_and_changes_nothing_until_there_is_room(scene: Scene) -> None:
    scene.become(BEFORE)
    target = scene.workspace.capture()
    scene.become(AFTER)
    known = scene.workspace.capture()
    scene.put({b"a": File(random.Random(1).randbytes(300_000))})
    with scene.objects.using() as db:
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
    before = scene.read()
    with pytest.raises(StoreFull):
        scene.workspace.capture()
    with pytest.raises(StoreFull):
        scene.restore(target, known, force=True)
    assert (scene.read(), leftovers(scene)) == (before, [])
    with scene.objects.using() as db:
        db.execute("PRAGMA max_page_count = 1000000")
    report = scene.restore(target, known, force=True)
    assert report.complete and scene.read() == BEFORE


class ReadOnly(Counting):
    """A filesystem that was mounted read-only: it refuses to remove even what is not there."""

    changing = frozenset({"symlink", "mkdir", "rmdir", "unlink", "rename", "link", "fchmod", "rename_new", "exchange"})

    def __init__(self, objects: Path) -> None:
        super().__init__()
        self._journal = os.fsencode(objects.name)  # which its journal is named after

    def _step(self, number: int, name: str, call: Any, *args: Any, **rest: Any) -> Any:
        making = name == "open" and bool(args[1] & os.O_CREAT)
        if (making or name in self.changing) and not any(self._journal in each for each in args if type(each) is bytes):
            raise OSError(30, os.strerror(30))
        return call(*args, **rest)


@pytest.mark.parametrize("skip", [False, True])
def test_a_root_that_can_only_be_read_is_left_as_it_is_and_told(scene: Scene, skip: bool) -> None:
    scene.become({b"a": File(b"1"), b"b": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"a": File(b"2"), b"new": File(b"2")})
    known = scene.workspace.capture()
    workspace = scene.reopen(ReadOnly(scene.objects.path))
    if skip:
        report = workspace.restore(workspace.plan(target, known), skip=True)
        assert report.of(Outcome.FAILED) == ("a", "b", "new")
    else:
        with pytest.raises(RestoreFailed, match="Read-only") as failed:
            workspace.restore(workspace.plan(target, known))
        assert "as they were" in failed.value.safe
    assert scene.read() == {b"a": File(b"2"), b"new": File(b"2")}
    assert leftovers(scene) == []


def test_a_journal_that_finds_the_disk_full_leaves_no_draft_behind(scene: Scene) -> None:
    class Full(Counting):
        def _step(self, number: int, name: str, call: Any, *args: Any, **rest: Any) -> Any:
            if name == "write":
                raise OSError(28, os.strerror(28))
            return call(*args, **rest)

    scene.become({b"a": File(b"1")})
    target = scene.workspace.capture()
    scene.put({b"a": File(b"2")})
    known = scene.workspace.capture()
    workspace = scene.reopen(Full())
    with pytest.raises(RestoreFailed, match="No space"):
        workspace.restore(workspace.plan(target, known))
    assert [each.name for each in scene.objects.path.parent.iterdir() if each.name.startswith(".jumar-")] == []
    assert scene.objects.pins() == set()


def test_a_sparse_file_comes_back_with_its_holes(scene: Scene) -> None:
    def make() -> None:
        with (scene.root / "sparse").open("wb") as file:
            file.write(b"head")
            file.seek(30 << 20)
            file.write(b"middle")
            file.truncate(60 << 20)

    make()
    before = scene.workspace.capture()
    (scene.root / "sparse").write_bytes(b"short")
    scene.restore(before, scene.workspace.capture())
    assert scene.workspace.capture().root == before.root
    status = (scene.root / "sparse").stat()
    assert status.st_size == 60 << 20
    assert status.st_blocks * 512 < 20 << 20


def test_two_names_of_one_file_both_get_back_what_they_held(scene: Scene) -> None:
    scene.become({b"one": File(b"1")})
    os.link(scene.root / "one", scene.root / "two")
    target = scene.workspace.capture()
    (scene.root / "one").write_bytes(b"2")
    assert scene.read() == {b"one": File(b"2"), b"two": File(b"2")}
    scene.restore(target, scene.workspace.capture())
    assert scene.read() == {b"one": File(b"1"), b"two": File(b"1")}


def test_a_rename_that_changes_only_the_case_is_undone(scene: Scene) -> None:
    before: Tree = {b"readme": File(b"1"), b"Docs": Folder(), b"Docs/A": File(b"a")}
    scene.become(before)
    target = scene.workspace.capture()
    (scene.root / "readme").rename(scene.root / "README")
    (scene.root / "Docs").rename(scene.root / "docs")
    scene.restore(target, scene.workspace.capture())
    assert scene.read() == before


def test_links_that_lead_in_a_circle_or_out_of_the_root_are_just_links(scene: Scene) -> None:
    before: Tree = {
        b"circle": Link(b"circle"),
        b"d": Folder(),
        b"d/up": Link(b".."),
        b"out": Link(os.fsencode(scene.root.parent)),
    }
    scene.become(before)
    target = scene.workspace.capture()
    assert target.complete and tree_of(scene.objects, target) == before
    scene.become({b"circle": Folder(), b"out": File(b"x")})
    scene.restore(target, scene.workspace.capture())
    assert scene.read() == before


def test_a_root_that_another_folder_took_the_place_of_is_captured_as_it_is_now(scene: Scene) -> None:
    scene.become(BEFORE)
    target = scene.workspace.capture()
    scene.root.rename(scene.root.with_name("moved away"))
    with pytest.raises(errors.WorkspaceError):
        scene.workspace.capture()
    scene.root.symlink_to(scene.root.with_name("moved away"))
    with pytest.raises(errors.WorkspaceError):
        scene.workspace.capture()
    scene.root.unlink()
    scene.root.mkdir()
    assert tree_of(scene.objects, scene.workspace.capture()) == {}
    scene.restore(target, None, force=True)
    assert scene.read() == BEFORE


def test_times_that_lie_in_the_past_and_in_the_future_hide_no_change(scene: Scene) -> None:
    scene.become({b"old": File(b"1"), b"far": File(b"1")})
    for name, at in (("old", 0), ("far", 2**33)):
        os.utime(scene.root / name, (at, at))
    scene.workspace.capture()
    for name, at in (("old", 0), ("far", 2**33)):
        (scene.root / name).write_bytes(b"2")
        os.utime(scene.root / name, (at, at))
    assert tree_of(scene.objects, scene.workspace.capture()) == {b"old": File(b"2"), b"far": File(b"2")}


def test_thousands_of_files_in_one_folder_and_folders_in_folders_come_back(scene: Scene) -> None:
    wide: Tree = {b"wide/%d" % number: File(b"%d" % number) for number in range(1500)}
    deep: Tree = {b"/".join([b"d"] * depth): Folder() for depth in range(1, 111)}
    before = {b"wide": Folder(), **wide, **deep, b"/".join([b"d"] * 110) + b"/leaf": File(b"x")}
    scene.become(before)
    target = scene.workspace.capture()
    assert target.complete
    scene.remove("d")
    for number in range(0, 1500, 30):
        scene.remove(f"wide/{number}")
    scene.restore(target, scene.workspace.capture())
    assert scene.read() == dict(sorted(before.items()))


def test_what_lies_deeper_than_a_walk_goes_is_told_and_left_alone(scene: Scene) -> None:
    bottom = scene.root
    bottom.joinpath(*["d"] * 200).mkdir(parents=True)
    (bottom.joinpath(*["d"] * 200) / "leaf").write_bytes(b"x")
    target = scene.workspace.capture()
    assert not target.complete and list(skipped(target).values()) == [SkipReason.DEEP]
    scene.put({b"a": File(b"new")})
    report = scene.restore(target, scene.workspace.capture())
    assert report.of(Outcome.DELETED) == ("a",)
    assert (bottom.joinpath(*["d"] * 200) / "leaf").read_bytes() == b"x"


RESTORING = """
import random, sys
from pathlib import Path
from jumar.errors import WorkspaceBusy, WorkspaceConflict
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace

root, objects, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
targets = [bytes.fromhex(each) for each in sys.argv[4:]]
drawn, done = random.Random(seed), 0
with Objects(objects) as opened:
    workspace = Workspace(root, opened)
    while done < 12:
        target = opened.get_snapshot(drawn.choice(targets))
        try:
            with workspace.lock(wait=60.0) as held:
                workspace.restore(workspace.plan(target, workspace.capture()), force=True, held=held)
            done += 1
        except WorkspaceBusy:
            continue
print("done")
"""


def test_two_processes_that_restore_all_the_time_leave_one_of_their_targets(scene: Scene) -> None:
    trees, digests = [BEFORE, AFTER, {b"d": Folder(), b"d/x": Link(b"x")}], []
    for tree in trees:
        scene.become(tree)
        digests.append(snapshot_digest(scene.workspace.capture()))
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    command = [sys.executable, "-c", RESTORING, str(scene.root), str(scene.objects.path)]
    running = [
        subprocess.Popen(
            [*command, str(seed + number), *(each.hex() for each in digests)], stdout=subprocess.PIPE, text=True
        )
        for number in range(2)
    ]
    assert [process.communicate(timeout=120)[0] for process in running] == ["done\n", "done\n"]
    assert scene.read() in trees
    assert leftovers(scene) == []


def git(root: Path, *arguments: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    named = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.excludesFile=/dev/null"]
    done = subprocess.run(["git", *named, *arguments], cwd=root, env=clean, check=True, capture_output=True, text=True)
    return done.stdout


def test_a_real_repository_is_never_touched_and_agrees_again_after_a_restore(scene: Scene) -> None:
    scene.become({b"code.py": File(b"1\n"), b"lib/inner.py": File(b"1\n"), b".gitignore": File(b"*.log\n")})
    git(scene.root, "init", "-q")
    git(scene.root, "add", "code.py")
    git(scene.root, "commit", "-q", "-m", "first")
    git(scene.root, "init", "-q", "nested")  # without a commit
    scene.put({b"nested/file": File(b"1\n"), b"out.log": File(b"ignored")})
    status = git(scene.root, "status", "--porcelain", "--ignored")
    target = scene.workspace.capture()
    scene.put({b"code.py": File(b"2\n"), b"lib/inner.py": File(b""), b"nested/file": File(b"2\n"), b"x": File(b"x")})
    known = scene.workspace.capture()
    untouched = only_git(scene.read())
    stamps = {each: each.stat().st_mtime_ns for each in (scene.root / ".git").rglob("*")}
    scene.restore(target, known)
    assert only_git(scene.read()) == untouched
    assert {each: each.stat().st_mtime_ns for each in (scene.root / ".git").rglob("*")} == stamps
    assert git(scene.root, "status", "--porcelain", "--ignored") == status
    assert git(scene.root, "fsck") == ""


PATIENT = """
import gc, random, signal, sys
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace

root, objects, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
targets = [bytes.fromhex(each) for each in sys.argv[4:]]
drawn, interrupts = random.Random(seed), 0
opened = Objects(objects)
signal.signal(signal.SIGALRM, signal.default_int_handler)
while interrupts < 40:
    try:
        signal.setitimer(signal.ITIMER_REAL, drawn.uniform(0.0005, 0.03), 0.5)  # again where nobody could be told
        workspace = Workspace(root, opened)
        while True:
            target = opened.get_snapshot(drawn.choice(targets))
            workspace.restore(workspace.plan(target, workspace.capture()), force=True)
    except KeyboardInterrupt:
        interrupts += 1
    gc.collect()  # what an interrupt left between two steps, and that held the lock, goes with its traceback
signal.signal(signal.SIGALRM, signal.SIG_IGN)
workspace = Workspace(root, opened)
workspace.restore(workspace.plan(opened.get_snapshot(targets[0]), None), force=True)
print("done")
"""


def check_real_interrupts(scene: Scene, seed: int) -> None:
    print(f"seed {seed}")
    digests = []
    for tree in (BEFORE, AFTER):
        scene.become(tree)
        digests.append(snapshot_digest(scene.workspace.capture()).hex())
    command = [sys.executable, "-c", PATIENT, str(scene.root), str(scene.objects.path), str(seed), *digests]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr
    assert (scene.read(), leftovers(scene)) == (BEFORE, [])


def test_a_process_that_is_interrupted_all_the_time_goes_on_with_files_lock_and_objects_sound(quick: Scene) -> None:
    check_real_interrupts(quick, random.randrange(1 << 30))


@pytest.mark.sweep
def test_processes_that_are_interrupted_all_the_time_go_on_soundly(quick: Scene) -> None:
    for _ in range(12):
        check_real_interrupts(quick, random.randrange(1 << 30))
