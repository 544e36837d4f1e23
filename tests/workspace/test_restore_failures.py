"""A file that can't be put back: everything else is taken back too, or that file alone is left out."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.core.restoring import Outcome
from jumar.core.trees import Snapshot, digest_of, find, pack_snapshot
from jumar.errors import IntegrityError, RestoreFailed, WorkspaceError
from jumar.workspace.workspace import Workspace
from tests.workspace.crashing import Counting
from tests.workspace.files import File, Folder, Tree
from tests.workspace.scene import Scene, leftovers


class Failing(Counting):
    """The n-th call of one name fails, and all later ones with `for_good`."""

    def __init__(self, failing: str, nth: int, number: int, *, for_good: bool = False) -> None:
        super().__init__()
        self._failing, self._nth, self._number, self._for_good = failing, nth, number, for_good

    def _step(self, number: int, name: str, call: Any, *args: Any, **rest: Any) -> Any:
        times = self.made.count(self._failing)
        if name == self._failing and (times == self._nth or (self._for_good and times > self._nth)):
            raise OSError(self._number, os.strerror(self._number))
        return call(*args, **rest)


BEFORE: Tree = {b"a": File(b"1"), b"b": File(b"1"), b"c": File(b"1"), b"d": Folder(0o500), b"d/e": File(b"1")}
AFTER: Tree = {b"a": File(b"2"), b"b": File(b"2"), b"c": File(b"2"), b"d": Folder(0o500), b"f": Folder(0o700)}


def begun(scene: Scene) -> tuple[Snapshot, Snapshot]:
    scene.become(BEFORE)
    target = scene.workspace.capture()
    scene.become(AFTER)
    return target, scene.workspace.capture()


@pytest.mark.parametrize(
    ("call", "nth", "number"),
    [
        ("write", 4, errno.ENOSPC),  # the first is the journal's
        ("write", 2, errno.EDQUOT),
        ("fsync", 5, errno.EIO),
        ("exchange", 2, errno.EPERM),
        ("rename_new", 2, errno.EBUSY),
        ("fchmod", 1, errno.EROFS),
        ("fchmod", 6, errno.EPERM),
    ],
)
def test_a_restore_that_fails_takes_itself_back(scene: Scene, call: str, nth: int, number: int) -> None:
    target, known = begun(scene)
    workspace = scene.reopen(Failing(call, nth, number))
    with pytest.raises(RestoreFailed) as failed:
        workspace.restore(workspace.plan(target, known))
    assert os.strerror(number) in failed.value.what
    assert scene.read() == AFTER
    assert (leftovers(scene), scene.objects.pins()) == ([], set())
    scene.restore(target, known)
    assert scene.read() == BEFORE


def test_a_file_that_fails_is_left_out_where_that_was_asked_for(scene: Scene) -> None:
    target, known = begun(scene)
    workspace = scene.reopen(Failing("exchange", 2, errno.EPERM))
    report = workspace.restore(workspace.plan(target, known), skip=True)
    assert scene.read() == {**BEFORE, b"b": File(b"2")}
    assert report.of(Outcome.FAILED) == ("b",)
    assert not report.complete
    assert leftovers(scene) == []


def test_a_restore_that_can_not_be_taken_back_either_is_taken_back_at_the_next_open(scene: Scene) -> None:
    target, known = begun(scene)
    workspace = scene.reopen(Failing("exchange", 2, errno.EIO, for_good=True))
    with pytest.raises(RestoreFailed) as failed:
        workspace.restore(workspace.plan(target, known))
    assert "the next open" in failed.value.hint
    assert scene.read() != AFTER
    scene.reopen()
    assert scene.read() == AFTER
    assert leftovers(scene) == []


def damage(scene: Scene, snapshot: Snapshot, path: bytes) -> None:
    entry = find(scene.objects.load, snapshot.root, path)
    assert entry is not None
    with scene.objects._lock:
        scene.objects._db.execute("UPDATE blobs SET data = x'00', packing = 0 WHERE digest = ?", (entry.digest,))


def test_a_damaged_content_is_found_before_anything_is_touched(scene: Scene) -> None:
    scene.become({b"a": File(b"first"), b"b": File(b"second")})
    target = scene.workspace.capture()
    scene.become({b"a": File(b"2"), b"b": File(b"2")})
    known = scene.workspace.capture()
    damage(scene, target, b"b")
    with pytest.raises(RestoreFailed) as failed:
        scene.restore(target, known)
    assert failed.value.paths == ("b",)
    assert scene.read() == {b"a": File(b"2"), b"b": File(b"2")}
    report = scene.restore(target, known, skip=True)
    assert (report.of(Outcome.RESTORED), report.of(Outcome.FAILED)) == (("a",), ("b",))
    assert scene.read() == {b"a": File(b"first"), b"b": File(b"2")}
    assert leftovers(scene) == []


def test_a_folder_is_kept_for_a_file_whose_place_it_takes_when_that_is_damaged(scene: Scene) -> None:
    scene.become({b"p": File(b"was a file")})
    target = scene.workspace.capture()
    scene.become({b"p": Folder(), b"p/x": File(b"2")})
    known = scene.workspace.capture()
    damage(scene, target, b"p")
    report = scene.restore(target, known, skip=True)
    assert scene.read() == {b"p": Folder(), b"p/x": File(b"2")}
    assert report.of(Outcome.FAILED) == ("p",)


def test_a_damaged_journal_stops_everything_and_changes_nothing(scene: Scene) -> None:
    target, known = begun(scene)
    scene.restore(target, known)
    journal = scene.workspace._restorer.journal.path
    journal.write_bytes(b"jumar restore 1\n" + b"x" * 100)
    for act in (scene.reopen, scene.workspace.capture, lambda: scene.workspace.lock().acquire()):
        with pytest.raises(IntegrityError):
            act()
    assert scene.read() == BEFORE
    journal.unlink()
    with scene.workspace.lock():
        pass


AS_ANOTHER_USER = """
import os, sys
from jumar.errors import JumarError
from jumar.workspace import packing
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace
root, objects, target, known, how = sys.argv[1:]
packing.packer()  # what is imported late may not be readable for others
with Objects(objects) as opened:
    if os.geteuid() == 0:
        os.setgroups([]); os.setgid(4321); os.setuid(4321)
    workspace = Workspace(root, opened)
    snapshots = [opened.get_snapshot(bytes.fromhex(digest)) for digest in (target, known)]
    try:
        report = workspace.restore(workspace.plan(*snapshots), skip=how == "skip")
        print(*(f"{each.text}={each.outcome.value}" for each in report.paths))
    except JumarError as error:
        print(type(error).__name__, *error.paths)
"""


def restored_by_another_user(scene: Scene, target: Snapshot, known: Snapshot, how: str = "") -> str:
    """What a process without root's rights says of a restore; all files but those in `roots` become its own."""
    scene.objects.close()
    if os.geteuid() == 0:
        give(scene.root.parent)
    digests = [digest_of(pack_snapshot(each)).hex() for each in (target, known)]
    command = [sys.executable, "-c", AS_ANOTHER_USER, str(scene.root), str(scene.objects.path), *digests, how]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def give(folder: Path) -> None:
    for place in (folder, *folder.rglob("*")):
        if "roots" not in place.parts:
            os.chown(place, 4321, 4321, follow_symlinks=False)


@pytest.fixture
def reachable(quick_path: Path) -> Path:
    """A folder that another user reaches."""
    quick_path.chmod(0o755)
    return quick_path


@pytest.fixture
def theirs(reachable: Path) -> Scene:
    return Scene(reachable)


def test_closed_folders_and_unreadable_files_come_back_without_roots_rights(theirs: Scene) -> None:
    before: Tree = {
        b"a": File(b"1", 0o444),
        b"closed": Folder(0o500),
        b"closed/in": File(b"1", 0o400),
        b"closed/inner": Folder(0o555),
        b"closed/inner/b": File(b"1"),
        b"goes": File(b"1"),
    }
    theirs.become(before)
    target = theirs.workspace.capture()
    after: Tree = {
        b"a": File(b"2", 0o400),
        b"closed": Folder(0o555),
        b"closed/in": File(b"2", 0o444),
        b"made": Folder(0o555),
        b"made/by": Folder(0o500),
        b"made/by/run": File(b"2", 0o400),
        b"goes": Folder(0o500),
    }
    theirs.become(after)
    said = restored_by_another_user(theirs, target, theirs.workspace.capture())
    assert "=failed" not in said
    assert "closed/inner/b=restored" in said
    assert theirs.read() == before
    assert {(theirs.root / os.fsdecode(path)).stat().st_uid for path in before} == {os.geteuid() or 4321}


if os.geteuid() == 0:  # only root can make a file that is not its own

    def test_a_file_that_may_not_be_touched_takes_the_restore_back_without_roots_rights(theirs: Scene) -> None:
        before: Tree = {b"a": File(b"1"), b"roots": Folder(), b"roots/r": File(b"1")}
        after: Tree = {b"a": File(b"2"), b"roots": Folder(), b"roots/r": File(b"2")}
        theirs.become(before)
        target = theirs.workspace.capture()
        theirs.become(after)
        known = theirs.workspace.capture()
        assert restored_by_another_user(theirs, target, known) == "RestoreFailed roots/r"
        assert theirs.read() == after
        assert restored_by_another_user(theirs, target, known, "skip") == "a=restored roots/r=failed"
        assert theirs.read() == {**after, b"a": File(b"1")}
        assert leftovers(theirs) == []


def test_a_file_that_takes_anothers_place_belongs_to_whom_that_belonged(scene: Scene) -> None:
    target, known = begun(scene)
    uid = os.geteuid() or 4321
    os.chown(scene.root / "a", uid, os.getegid())
    scene.restore(target, known)
    assert (scene.root / "a").stat().st_uid == uid
    assert scene.read() == BEFORE


def test_a_root_that_is_gone_is_told(scene: Scene) -> None:
    target, known = begun(scene)
    workspace: Workspace = scene.workspace
    plan = workspace.plan(target, known)
    scene.root.rename(scene.root.with_name("elsewhere"))
    with pytest.raises(WorkspaceError, match="can't be opened"):
        workspace.restore(plan)
