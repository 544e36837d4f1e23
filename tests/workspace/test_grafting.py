"""Whole snapshots brought up to date by one of declared paths: the same as capturing the whole again."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from msgspec import structs

from jumar.core.grafting import graft
from jumar.core.scopes import covers
from jumar.core.trees import SkipReason, Snapshot
from jumar.workspace.objects import Objects
from tests.workspace import files
from tests.workspace.files import File, Link, Pipe, Tree
from tests.workspace.scene import Scene
from tests.workspace.snapshots import as_nobody, open_to_all, skipped, tree_of

NAMES = [b"a", b"a", b"b", b"b", b"A", b"x.ini", b"aux", b"build", b".git", b".gitignore", b".jumar-x"]
GLOBS = [b"*", b"**", b"*.ini", b"?", b"[ab]"]
RULES = [b"build\n", b"*.ini\n", b"!x.ini\n", b"b/\n", b"/a/b\n", b"build/\n!build/a\n"]


def grafted(scene: Scene, base: Snapshot, scope: list[bytes]) -> Snapshot:
    """The base with those paths as they are now, given back by the objects."""
    made = scene.workspace.graft(base, scene.workspace.capture(scope, rules=base.rules))
    tree_of(scene.objects, made)  # every node is there
    return made


def timeless(snapshot: Snapshot) -> Snapshot:
    return structs.replace(snapshot, at=0)


class Draw:
    """Random trees, and changes of the paths of a scope or of the folders above them."""

    def __init__(self, scene: Scene, seed: int) -> None:
        print(f"seed {seed}")
        self.random = random.Random(seed)
        self._root = scene.root

    def path(self) -> bytes:
        return b"/".join(self.random.choices(NAMES, k=self.random.choice([1, 2, 2, 3])))

    def scope(self) -> list[bytes]:
        return [self._glob() for _ in range(self.random.choice([1, 1, 2, 3]))]

    def _glob(self) -> bytes:
        parts = self.path().split(b"/")
        return b"/".join(self.random.choice(GLOBS) if self.random.random() < 0.2 else part for part in parts)

    def change(self, path: bytes) -> None:
        """Make something at a path, or make it go; nothing where a file is in the way."""
        place = self._root / os.fsdecode(path)
        try:
            self.random.choice([self._write, self._write, self._mkdir, self._chmod, self._delete, self._odd])(place)
        except (FileExistsError, NotADirectoryError, FileNotFoundError, IsADirectoryError):
            pass

    def clear_the_way(self, glob: bytes) -> None:
        """Have a folder on the way to what a glob names go, or come in a pipe's place."""
        names = glob.split(b"/")
        place = self._root / os.fsdecode(b"/".join(names[: self.random.randrange(len(names))]))
        if any(each.is_symlink() for each in (place, *place.parents)) or place == self._root:
            return
        if place.is_dir():
            shutil.rmtree(place)
        elif place.is_fifo():
            place.unlink()
            place.mkdir()

    def _write(self, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink() and not place.is_fifo():
            data = b"".join(self.random.sample(RULES, 2)) if place.name == ".gitignore" else self.random.randbytes(9)
            place.write_bytes(data)

    def _mkdir(self, place: Path) -> None:
        place.mkdir(parents=True)

    def _chmod(self, place: Path) -> None:
        if not place.is_symlink():
            place.chmod(self.random.choice([0o755, 0o700, 0o750]))

    def _delete(self, place: Path) -> None:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()

    def _odd(self, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        if self.random.random() < 0.5:
            os.mkfifo(place)
        else:
            place.symlink_to(self.random.choice(["a", "..", "nowhere"]))


def inside(root: Path, path: bytes) -> bool:
    """Whether a path leads through no link, so that it is what it says."""
    return not any((root / os.fsdecode(path)).parents[up].is_symlink() for up in range(path.count(b"/")))


def try_once(scene: Scene, seed: int, steps: int) -> None:
    draw = Draw(scene, seed)
    for _ in range(draw.random.choice([10, 40, 80])):
        path = draw.path()
        if inside(scene.root, path):
            draw.change(path)
    base = scene.workspace.capture()
    for _ in range(steps):
        scope = draw.scope()
        covered = covers(tuple(scope))
        paths = [path for path in (draw.path() for _ in range(60)) if covered(path)]
        changed = [path for path in paths[: draw.random.choice([0, 1, 2, 8])] if inside(scene.root, path)]
        if draw.random.random() < 0.2:
            draw.clear_the_way(draw.random.choice(scope))
            changed = []
        for path in changed:
            if inside(scene.root, path):
                draw.change(path)
        print(scope, changed)
        made = grafted(scene, base, scope)
        assert timeless(made) == timeless(scene.workspace.capture(rules=base.rules))
        if scene.workspace.capture().rules == base.rules:
            read = scene.workspace.graft(base, scene.workspace.capture(scope))
            assert timeless(read) == timeless(made), "rules that were read anew and are the old ones decide the same"
        base = made


@pytest.mark.parametrize("seed", range(8))
def test_a_graft_is_what_capturing_the_whole_again_would_give(seed: int, quick_path: Path) -> None:
    for number in range(12):
        folder = quick_path / str(number)
        folder.mkdir()
        scene = Scene(folder)
        try_once(scene, seed * 1000 + number, 6)
        scene.objects.close()


@pytest.mark.sweep
def test_very_many_grafts_are_what_capturing_the_whole_again_would_give(quick_path: Path) -> None:
    for seed in range(100_000, 101_000):
        folder = quick_path / str(seed)
        folder.mkdir()
        scene = Scene(folder)
        try_once(scene, seed, 6)
        scene.objects.close()
        shutil.rmtree(folder)


FILES: Tree = {b"conf/a": File(b"1"), b"conf/b": File(b"2"), b"other/c": File(b"3"), b"other/deep/d": File(b"4")}


def test_only_the_folders_above_what_changed_are_new(scene: Scene) -> None:
    scene.become(FILES)
    base = scene.workspace.capture()
    scene.put({b"conf/a": File(b"changed")})
    part = scene.workspace.capture([b"conf/a"], rules=base.rules)
    made, nodes = graft(scene.objects.load, base, part)
    assert len(nodes) == 2, "conf and the root"
    assert made.root in dict(nodes) and (made.files, made.size) == (4, 3 + len(b"changed"))
    assert scene.workspace.graft(base, part) == made
    assert graft(scene.objects.load, made, part) == (made, []), "a second time changes nothing"


def test_what_did_not_change_makes_nothing_new(scene: Scene) -> None:
    scene.become(FILES)
    base = scene.workspace.capture()
    made, nodes = graft(scene.objects.load, base, scene.workspace.capture([b"conf/*"], rules=base.rules))
    assert nodes == [] and timeless(made) == timeless(base)


def test_a_file_that_a_parts_own_rules_hide_stays_as_the_whole_knew_it(scene: Scene) -> None:
    scene.become(FILES)
    base = scene.workspace.capture()
    scene.put({b"conf/.gitignore": File(b"a\n"), b"conf/new": File(b"n")})
    scene.remove("conf/b")
    tree = tree_of(scene.objects, scene.workspace.graft(base, scene.workspace.capture([b"conf"])))
    assert tree.keys() & {b"conf/a", b"conf/b", b"conf/new", b"conf/.gitignore"} == {
        b"conf/a",
        b"conf/new",
        b"conf/.gitignore",
    }


def test_a_declared_file_that_the_whole_ignores_is_not_in_the_graft(scene: Scene) -> None:
    scene.become({b".gitignore": File(b"build\n"), b"build/out": File(b"1")})
    base = scene.workspace.capture()
    scene.put({b"build/out": File(b"2")})
    assert timeless(grafted(scene, base, [b"build/out"])) == timeless(base)


def test_a_part_of_the_whole_root_is_the_answer_and_a_base_that_is_a_part_is_refused(scene: Scene) -> None:
    scene.become(FILES)
    whole, part = scene.workspace.capture(), scene.workspace.capture([b"conf"])
    assert graft(scene.objects.load, whole, whole) == (whole, [])
    assert timeless(grafted(scene, whole, [b"."])) == timeless(whole)
    with pytest.raises(ValueError, match="whole"):
        graft(scene.objects.load, part, part)


def test_a_part_that_is_partial_makes_the_whole_partial_until_a_later_part_is_complete(quick_path: Path) -> None:
    open_to_all(quick_path)

    def play() -> list[tuple[bool, dict[bytes, SkipReason], set[bytes]]]:
        told = []
        with Objects(quick_path / "objects.db") as objects:
            scene = Scene(quick_path, objects, name="mine")
            files.write(scene.root, {b"conf/a": File(b"1"), b"conf/b": File(b"2"), b"other/c": File(b"3")})
            snapshot = scene.workspace.capture()
            for mode in (0o000, 0o644):
                (scene.root / "conf" / "a").chmod(mode)
                snapshot = grafted(scene, snapshot, [b"conf/a"])
                told.append((snapshot.complete, skipped(snapshot), set(tree_of(objects, snapshot))))
        return told

    partial, whole = as_nobody(play)
    assert partial == (False, {b"conf/a": SkipReason.UNREADABLE}, {b"conf", b"conf/b", b"other", b"other/c"})
    assert whole == (True, {}, {b"conf", b"conf/a", b"conf/b", b"other", b"other/c"})


def test_a_link_in_the_way_is_told_only_where_the_whole_did_not_know_it(scene: Scene) -> None:
    scene.become({b"link": Link(b"elsewhere"), b"conf/a": File(b"1"), b"pipe": Pipe()})
    base = scene.workspace.capture()
    assert grafted(scene, base, [b"link/a", b"pipe/x"]).complete
    scene.remove("conf")
    scene.put({b"conf": Link(b"elsewhere")})
    made = grafted(scene, base, [b"conf/a"])
    assert not made.complete and skipped(made) == {b"conf": SkipReason.LINKED, b"pipe": SkipReason.FIFO}
    assert tree_of(scene.objects, made).keys() == {b"link"}
