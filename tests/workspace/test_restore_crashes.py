"""A restore that is cut off: at the next open the files are as before or as after, and nothing else.

The sweep stops the world before and after every single call on the filesystem, with a write half done, then opens the
workspace again; and it stops that opening as well.  A few real processes are killed on top.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from jumar.core.trees import Snapshot, digest_of, pack_snapshot
from jumar.errors import JumarError, RestoreFailed
from jumar.workspace.objects import Objects
from tests.workspace.crashing import Counting, Crash, Crashing, FailingThenCrashing, WithoutRenameat2
from tests.workspace.files import File, Folder, Link, Tree
from tests.workspace.scene import Scene, leftovers

GIT: Tree = {b".git": Folder(), b".git/index": File(b"index"), b"n/.git": Folder(), b"n/.git/HEAD": File(b"head")}
BEFORE: Tree = {
    **GIT,
    b"a": File(b"1", 0o600),
    b"b": File(b"2", 0o444),
    b"closed": Folder(0o500),
    b"closed/in": File(b"1", 0o400),
    b"closed/out": File(b"1", 0o400),
    b"d": Folder(0o750),
    b"d/x": File(b"x"),
    b"e": Folder(0o700),
    b"l": Link(b"a"),
    b"n": Folder(),
    b"n/f": File(b"f"),
    b"p": File(b"pp"),
    b"q": Folder(),
    b"q/1": File(b"1"),
    b"q/r": Folder(0o555),
    b"q/r/2": Link(b"2"),
}
AFTER: Tree = {
    **GIT,
    b"a": File(b"one", 0o644),
    b"b": File(b"2", 0o644),
    b"closed": Folder(0o500),
    b"closed/in": File(b"2", 0o400),
    b"closed/new": File(b"2", 0o400),
    b"d": Folder(0o500),
    b"d/y": File(b"y"),
    b"l": Link(b"b"),
    b"n": Folder(),
    b"n/f": File(b"g", 0o755),
    b"new": Folder(0o555),
    b"new/f": Link(b"zz"),
    b"p": Folder(),
    b"p/m": Folder(0o500),
    b"p/m/z": File(b"z"),
    b"q": File(b"q"),
}


class Stage:
    """Restores of one pair of snapshots, each in a root of its own that holds AFTER; `mixed_in` changes its calls."""

    def __init__(self, base: Path, mixed_in: tuple[type, ...]) -> None:
        self._mixed_in = mixed_in
        self._base = base
        self._objects = Objects(base / "objects.db")
        self._numbers = count()
        self.target = self._snapshot(BEFORE)
        self.known = self._snapshot(AFTER)

    def _snapshot(self, tree: Tree) -> Snapshot:
        return self.scene(tree).workspace.capture()

    def scene(self, tree: Tree = AFTER) -> Scene:
        made = Scene(self._base, self._objects, name=f"site{next(self._numbers)}")
        made.become(tree)
        return made

    def crashing(self, at: int, *, after: bool) -> Crashing:
        calls: Crashing = type("Mixed", (*self._mixed_in, Crashing), {})(at, after=after)
        return calls

    def failing_then_crashing(self, failing: int, at: int, *, done: bool, after: bool) -> Crashing:
        mixed = type("Mixed", (*self._mixed_in, FailingThenCrashing), {})
        calls: Crashing = mixed(failing, at, done=done, after=after)
        return calls

    def counting(self) -> Counting:
        calls: Counting = type("Mixed", (*self._mixed_in, Counting), {})()
        return calls

    def calls_of_a_restore(self) -> list[str]:
        """The calls of one that is not cut off."""
        calls = self.counting()
        scene = self.scene()
        workspace = scene.reopen(calls)
        workspace.restore(workspace.plan(self.target, self.known))
        assert scene.read() == BEFORE
        return calls.made

    @staticmethod
    def digest(snapshot: Snapshot) -> str:
        return digest_of(pack_snapshot(snapshot)).hex()

    def cut_off(self, at: int, *, after: bool) -> Scene:
        """A root in which a restore was stopped at one of its calls."""
        scene = self.scene()
        workspace = scene.reopen(self.crashing(at, after=after))
        with pytest.raises(Crash):
            workspace.restore(workspace.plan(self.target, self.known))
        return scene

    def close(self) -> None:
        self._objects.close()


@pytest.fixture(params=[(), (WithoutRenameat2,)], ids=["renameat2", "without renameat2"])
def stage(request: pytest.FixtureRequest, quick_path: Path) -> Iterator[Stage]:
    made = Stage(quick_path, request.param)
    yield made
    made.close()


def points(stage: Stage, wanted: Callable[[int], bool]) -> list[tuple[int, bool]]:
    """Before and after each of the calls that are wanted."""
    return [(at, after) for at in range(len(stage.calls_of_a_restore())) if wanted(at) for after in (False, True)]


def check_as_before_or_after(scene: Scene, where: object) -> bool:
    """The files are as before the restore or as after it, and nothing is left of it; whether they are as after."""
    now = scene.read()
    assert now in (BEFORE, AFTER), where
    assert leftovers(scene) == [], where
    return now == BEFORE


def sweep(stage: Stage, wanted: Callable[[int], bool]) -> None:
    ends = set()
    for at, after in points(stage, wanted):
        scene = stage.cut_off(at, after=after)
        scene.reopen(stage.counting())
        ends.add(check_as_before_or_after(scene, (at, after)))
    assert ends == {True, False}  # some were taken back, some had come to their end


def test_a_restore_cut_off_at_any_call_leaves_the_files_as_before_or_as_after(stage: Stage) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    drawn = random.Random(seed)
    sweep(stage, lambda at: at % 4 == seed % 4 or drawn.random() < 0.05)


@pytest.mark.sweep
def test_a_restore_cut_off_at_every_call_leaves_the_files_as_before_or_as_after(stage: Stage) -> None:
    sweep(stage, lambda at: True)


def fail_and_cut_off(stage: Stage, times: int) -> None:
    """Let one call fail, and stop what takes the restore back; the failing call and the stop are drawn at random."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    drawn = random.Random(seed)
    calls = len(stage.calls_of_a_restore())
    ends = set()
    for _ in range(times):
        failing = drawn.randrange(calls)
        where = (failing, failing + 1 + drawn.randrange(drawn.choice([3, 30, calls])))
        how = {"done": drawn.random() < 0.5, "after": drawn.random() < 0.5}
        scene = stage.scene()
        try:
            workspace = scene.reopen(stage.failing_then_crashing(*where, **how))
            workspace.restore(workspace.plan(stage.target, stage.known))
        except (Crash, JumarError) as error:
            ends.add(type(error))
        scene.reopen(stage.counting())
        check_as_before_or_after(scene, (where, how))
    assert {Crash, RestoreFailed} <= ends


def test_a_restore_that_fails_and_is_cut_off_while_it_is_taken_back_is_taken_back_later(stage: Stage) -> None:
    fail_and_cut_off(stage, 100)


@pytest.mark.sweep
def test_restores_that_fail_and_are_cut_off_everywhere_are_taken_back_later(stage: Stage) -> None:
    fail_and_cut_off(stage, 1500)


def recoveries_cut_off(stage: Stage, at: int, after: bool, *, first: int = 0, every: int = 1) -> int:
    """Stop the recovery of one restore at its calls, and recover once more; where it came to its end."""
    for number in count(first, every):
        scene = stage.cut_off(at, after=after)
        try:
            scene.reopen(stage.crashing(number, after=bool(number % 2)))
        except Crash:
            scene.reopen(stage.counting())
            check_as_before_or_after(scene, (at, after, number))
        else:
            check_as_before_or_after(scene, (at, after, number))
            return number
    raise AssertionError


def test_a_recovery_cut_off_at_any_call_is_begun_anew(stage: Stage) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    calls = stage.calls_of_a_restore()
    moves = [at for at, name in enumerate(calls) if name in ("exchange", "rename_new", "fchmod", "unlink")]
    at = random.Random(seed).choice(moves)
    print(f"at call {at}, {calls[at]}")
    assert recoveries_cut_off(stage, at, True, first=seed % 3, every=3) > 0


@pytest.mark.sweep
def test_a_recovery_of_a_restore_cut_off_anywhere_is_begun_anew_from_anywhere(stage: Stage) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    drawn = random.Random(seed)
    most = 0
    for at, after in points(stage, lambda at: at % 12 == seed % 12):
        most = max(most, recoveries_cut_off(stage, at, after, first=drawn.randrange(7), every=7))
    assert most > 50


KILLED = """
import os, signal, sys
from pathlib import Path
from jumar.workspace.calls import FileCalls
from jumar.errors import JumarError, RestoreFailed
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace
from tests.workspace.crashing import Counting

root, objects, target, known, at = sys.argv[1:]

class Killing(Counting):
    def _step(self, number, name, call, *args, **rest):
        if number == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **rest)

with Objects(objects) as opened:
    workspace = Workspace(root, opened, calls=Killing())
    snapshots = [opened.get_snapshot(bytes.fromhex(digest)) for digest in (target, known)]
    workspace.restore(workspace.plan(*snapshots))
"""


@pytest.mark.parametrize("stage", [()], indirect=True, ids=["renameat2"])
def test_a_process_killed_during_a_restore_leaves_a_lock_that_is_free_and_files_that_come_right(
    stage: Stage,
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    calls = len(stage.calls_of_a_restore())
    digests = [stage.digest(each) for each in (stage.target, stage.known)]
    for at in random.Random(seed).sample(range(calls), 3):
        scene = stage.scene()
        command = [sys.executable, "-c", KILLED, str(scene.root), str(scene.objects.path), *digests, str(at)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
        assert done.returncode == -9, done.stderr
        with scene.workspace.lock():
            check_as_before_or_after(scene, at)
