"""Random workspaces and random changes: every snapshot is what a plain walk finds, cache or no cache."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from jumar.core import trees
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace
from tests.workspace.files import File, Folder, Tree, read, without_git, write
from tests.workspace.snapshots import tree_of

NAMES = [b"a", b"b", b"c.txt", b"d e", b".hidden", b"\xff", "é".encode(), b"aux", b"new\nline", b"-rf", b"*", b".git"]
MODES = [0o644, 0o600, 0o444, 0o755, 0o000]


class Meddler:
    """Changes files below a root at random."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self._root = root
        self._draw = draw

    def _some(self) -> Path | None:
        found = sorted(self._root.rglob("*"))
        return self._draw.choice(found) if found else None

    def _new(self) -> Path:
        folders = [each for each in sorted(self._root.rglob("*")) if each.is_dir() and not each.is_symlink()]
        return self._draw.choice([self._root, *folders]) / os.fsdecode(self._draw.choice(NAMES))

    def change(self) -> str:
        """Change something, or try to; what."""
        what = self._draw.choice([self.write, self.write, self.chmod, self.rename, self.delete, self.link, self.mkdir])
        try:
            what()
        except OSError as error:
            return f"{what.__name__}: {error}"
        return what.__name__

    def write(self) -> None:
        path = self._some() if self._draw.random() < 0.6 else self._new()
        if path is not None and not path.is_symlink():
            path.write_bytes(self._draw.randbytes(self._draw.choice([0, 1, 1, 50, 3000])))

    def chmod(self) -> None:
        path = self._some()
        if path is not None and not path.is_symlink():
            path.chmod(self._draw.choice(MODES))

    def rename(self) -> None:
        path = self._some()
        if path is not None:
            path.rename(self._new())

    def delete(self) -> None:
        path = self._some()
        if path is None:
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def link(self) -> None:
        self._new().symlink_to(self._draw.choice(["a", "../b", "nowhere", "."]))

    def mkdir(self) -> None:
        self._new().mkdir(self._draw.choice([0o755, 0o700, 0o750]))


def agree(root: Path, cached: Workspace, fresh: Objects) -> None:
    """What the cached workspace captures is what a plain walk finds, and has the digest of one that knows nothing."""
    snapshot = cached.capture()
    expected = without_git(read(root))
    assert tree_of(cached.objects, snapshot) == expected
    assert snapshot.complete
    assert snapshot.root == Workspace(root, fresh).capture().root
    kinds = [type(thing) for thing in expected.values()]
    assert (snapshot.files, snapshot.dirs) == (kinds.count(File), kinds.count(Folder))
    assert snapshot.size == sum(len(thing.data) for thing in expected.values() if isinstance(thing, File))


def try_once(seed: int, base: Path, rounds: int, slack: float) -> None:
    print(f"seed {seed}")
    draw = random.Random(seed)
    root = base / "root"
    root.mkdir()
    meddler = Meddler(root, draw)
    with Objects(base / "objects.db") as objects:
        workspace = Workspace(root, objects, slack=slack)
        known: list[tuple[trees.Snapshot, Tree]] = []
        for number in range(rounds):
            print([meddler.change() for _ in range(draw.choice([1, 1, 3, 12]))])
            with Objects(base / f"fresh{number}.db") as fresh:
                agree(root, workspace, fresh)
            known.append((workspace.capture(), without_git(read(root))))
        for (one, before), (other, after) in pairwise(known):
            changed = {change.path for change in workspace.diff(one, other)}
            assert changed == {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        for snapshot, tree in known:
            assert tree_of(objects, snapshot) == tree, "a snapshot stays what it was"


@pytest.mark.parametrize("seed", range(6))
def test_a_snapshot_is_what_is_there_after_any_changes(seed: int, tmp_path: Path) -> None:
    try_once(seed, tmp_path, 12, slack=2.0)


@pytest.mark.sweep
def test_a_snapshot_is_what_is_there_after_very_many_changes(tmp_path: Path) -> None:
    for seed in range(1000, 1120):
        (tmp_path / str(seed)).mkdir()
        try_once(seed, tmp_path / str(seed), 15, slack=0.1)


PATTERNS = [
    b"*", b"*.o", b"!keep.o", b"build/", b"build", b"!build/", b"foo/*", b"!foo/bar", b"/a", b"/a/b", b"a/**",
    b"**/foo", b"a/**/b", b"!*/", b"!*.py", b"# c", b"\\#x", b"", b"foo", b"!foo/", b"b/", b"[ab]", b"!a", b"?",
    b"*.py", b"q\\ r", b"!/foo/bar/", b"foo/**", b"!**/keep.o", b"a/*/b", b"!a/b", b"x.o\r", b"q r   ",
]  # fmt: skip
PLAIN = [b"a", b"b", b"foo", b"bar", b"build", b"x.o", b"y.py", b"keep.o", b".env", b"q r"]


@pytest.mark.parametrize("seed", range(10))
def test_what_git_ignores_is_ignored(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    print(f"seed {seed}")
    root = tmp_path / "root"
    root.mkdir()
    folders = [b""]
    files: Tree = {}
    for _ in range(40):
        path = trees.join(draw.choice(folders), draw.choice(PLAIN))
        if path in folders or path in files:
            continue
        if draw.random() < 0.4:
            folders.append(path)
        else:
            files[path] = File(b"")
    for folder in folders:
        if not folder or draw.random() < 0.3:
            files[trees.join(folder, b".gitignore")] = File(b"\n".join(draw.sample(PATTERNS, draw.randrange(1, 5))))
    write(root, files)
    with Objects(tmp_path / "objects.db") as objects:
        captured = tree_of(objects, Workspace(root, objects).capture())
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "init", "-q", root], env=clean, check=True)
    command = ["git", "-c", "core.excludesFile=/dev/null", "ls-files", "-o", "--exclude-standard", "-z"]
    said = subprocess.run(command, cwd=root, env=clean, check=True, capture_output=True).stdout
    assert {path for path, thing in captured.items() if isinstance(thing, File)} == set(said.split(b"\0")) - {b""}
