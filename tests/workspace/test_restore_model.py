"""Random operations, a snapshot, more operations, a restore: held against a plain dict."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar.errors import WorkspaceConflict
from jumar.workspace.objects import Objects
from tests.workspace.files import File
from tests.workspace.scene import Scene, leftovers
from tests.workspace.walking import Walk, restored


def walks(base: Path, rounds: int, tell: Callable[[Scene, Walk], None]) -> None:
    """So many walks, each with a seed of its own, which is printed."""
    first = random.randrange(1 << 32)
    with Objects(base / "objects.db") as objects:
        for number in range(rounds):
            print(f"seed {first + number}")
            scene = Scene(base, objects, name=f"site{number}")
            walk = Walk(scene.root, random.Random(first + number))
            walk.go(40)
            tell(scene, walk)


def restored_and_undone(scene: Scene, walk: Walk) -> None:
    """A forced restore gives back every byte, mode, link and empty folder; its undoing does too."""
    target, then = scene.workspace.capture(), dict(walk.model)
    walk.go(15)
    known = scene.workspace.capture()
    walk.go(random.Random(len(then)).randrange(4))
    now = dict(sorted(walk.model.items()))
    assert scene.read() == now
    report = scene.restore(target, known, force=True, skip=True)
    expected = restored(then, now)
    assert scene.read() == expected
    assert leftovers(scene) == []
    if report.safety is not None:
        scene.restore(scene.objects.get_snapshot(report.safety), scene.workspace.capture(), skip=True)
        assert scene.read() == restored(now, expected)


def refused_or_kept(scene: Scene, walk: Walk) -> None:
    """Unforced, nothing is lost that was changed after it was last known."""
    target, then = scene.workspace.capture(), dict(walk.model)
    walk.go(10)
    known, last = scene.workspace.capture(), dict(walk.model)
    walk.go(3)
    now = dict(sorted(walk.model.items()))
    theirs = {path: thing for path, thing in now.items() if isinstance(thing, File) and last.get(path) != thing}
    try:
        scene.restore(target, known)
    except WorkspaceConflict as conflict:
        assert conflict.paths
        assert scene.read() == now
        scene.restore(target, known, skip=True)
        after = scene.read()
    else:
        after = scene.read()
        assert after == restored(then, now)
    assert {path: after.get(path) for path in theirs} == theirs


@pytest.mark.parametrize("tell", [restored_and_undone, refused_or_kept])
def test_random_states_come_back(quick_path: Path, tell: Callable[[Scene, Walk], None]) -> None:
    walks(quick_path, 60, tell)


@pytest.mark.sweep
@pytest.mark.parametrize("tell", [restored_and_undone, refused_or_kept])
def test_very_many_random_states_come_back(quick_path: Path, tell: Callable[[Scene, Walk], None]) -> None:
    walks(quick_path, 1500, tell)
