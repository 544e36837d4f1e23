"""Snapshots of many files, beside `git add -A` and `git write-tree` on the same files.

git works in a folder of its own (GIT_DIR elsewhere), as an undo that is built on it would.  The two take turns: first
snapshots with nothing known before, then with nothing changed, then with ten files changed, which each of them sees
once.  A snapshot of one declared path and the putting back of files have no such neighbour and are told as they are.
Processor time counts that of the processes started, so that git's is not left out.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import process_time

from benchmarks.measuring import Blocks, Figure
from benchmarks.sizes import Sizes
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace

GIT, JUMAR = "git", "jumar"
CHANGED = 10
_IN_A_FOLDER = 25
_MEAN_BYTES = 3_100
_WORDS = 3_000


def measure_files(directory: Path, sizes: Sizes) -> list[Figure]:
    """First, none changed, ten changed, one declared path, and putting files back."""
    draw = random.Random(1)
    root = directory / "files"
    paths = make_files(root, sizes.files, draw)
    first, processor = Blocks(GIT, JUMAR), Processor()
    for number, side in enumerate(first.turns(sizes.first_snapshots)):
        with first.timed(side, 1), processor.of(side):
            _first(side, root, directory / f"first-{number}")
    with Objects(directory / "objects.db") as objects:
        workspace = Workspace(root, objects)
        git = Git(root, directory / "git")
        figures = [_compared(f"first snapshot of {sizes.files:,} files", 0.4, first, processor)]
        figures += _again(workspace, git, paths, sizes, draw)
        figures.append(_declared(workspace, root, paths, sizes))
        figures.append(_restored(workspace, paths, sizes, draw))
    return figures


def make_files(root: Path, count: int, draw: random.Random) -> list[Path]:
    """Text of a few kilobytes in folders of 25 files, three levels deep; the files' paths."""
    words = [bytes(draw.choices(range(97, 123), k=draw.randrange(3, 9))) for _ in range(_WORDS)]
    paths = []
    for number in range(count):
        folder, name = divmod(number, _IN_A_FOLDER)
        place = root / f"part{folder // 900}" / f"module{folder // 30 % 30}" / f"section{folder % 30}"
        if name == 0:
            place.mkdir(parents=True)
        path = place / f"file_{name}.py"
        path.write_bytes(b" ".join(draw.choices(words, k=1 + int(draw.expovariate(6 / _MEAN_BYTES)))))
        paths.append(path)
    return paths


class Git:
    """The same files through git, with everything it keeps in `folder`."""

    def __init__(self, root: Path, folder: Path) -> None:
        told = {"GIT_DIR": str(folder), "GIT_WORK_TREE": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
        self._environment = {**os.environ, **told, "GIT_CONFIG_GLOBAL": os.devnull}
        self._run("init", "--quiet")
        self._run("config", "gc.auto", "0")

    def capture(self) -> bytes:
        """Everything as it is now; the tree's name."""
        self._run("add", "--all")
        return self._run("write-tree")

    def check_out(self) -> None:
        """Every file as it was last captured."""
        self._run("checkout-index", "--all", "--force")

    def _run(self, *arguments: str) -> bytes:
        done = subprocess.run(["git", *arguments], env=self._environment, check=True, stdout=subprocess.PIPE)
        return done.stdout


class Processor:
    """The seconds that each side had a processor, itself or in processes it started."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    @contextmanager
    def of(self, side: str) -> Iterator[None]:
        """Count one turn of a side."""
        before = _used()
        yield
        self.seconds.setdefault(side, []).append(_used() - before)

    def median(self, side: str) -> float:
        """The median turn of a side."""
        taken = sorted(self.seconds[side])
        return taken[len(taken) // 2]


def _used() -> float:
    children = getrusage(RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def _first(side: str, root: Path, place: Path) -> None:
    place.mkdir()
    if side == GIT:
        Git(root, place / "git").capture()
    else:
        with Objects(place / "objects.db") as objects:
            Workspace(root, objects).capture()


def _again(workspace: Workspace, git: Git, paths: list[Path], sizes: Sizes, draw: random.Random) -> list[Figure]:
    capture: dict[str, Callable[[], object]] = {GIT: git.capture, JUMAR: workspace.capture}
    figures = []
    for changed, budget in ((0, 1.0), (CHANGED, 1.0)):
        for each in capture.values():
            each()
        blocks, processor = Blocks(GIT, JUMAR), Processor()
        for number, side in enumerate(blocks.turns(sizes.snapshots)):
            if number % 2 == 0:
                change(draw.sample(paths, min(changed, len(paths))), b" x")
            with blocks.timed(side, 1), processor.of(side):
                capture[side]()
        figures.append(_compared(f"snapshot, {changed or 'none'} changed", budget, blocks, processor))
    return figures


def change(paths: list[Path], more: bytes) -> None:
    """Add to each of the files."""
    for path in paths:
        with path.open("ab") as file:
            file.write(more)


def _compared(what: str, budget: float, blocks: Blocks, processor: Processor) -> Figure:
    taken = {side: processor.median(side) * 1e3 for side in (JUMAR, GIT)}
    return Figure(
        "files",
        what,
        "x",
        budget,
        blocks.ratio(JUMAR, GIT),
        blocks.spread(JUMAR, GIT),
        blocks.median(GIT) * 1e6,
        blocks.median(JUMAR) * 1e6,
        (f"processor time {taken[JUMAR]:.0f} ms, git's {taken[GIT]:.0f} ms",),
    )


def _declared(workspace: Workspace, root: Path, paths: list[Path], sizes: Sizes) -> Figure:
    blocks = Blocks(JUMAR)
    scope = [os.fsencode(paths[0].relative_to(root))]
    for _ in blocks.turns(sizes.snapshots * 5):
        change(paths[:1], b" y")
        with blocks.timed(JUMAR, 1):
            workspace.capture(scope)
    return _alone("snapshot of one declared path", 5.0, blocks)


def _restored(workspace: Workspace, paths: list[Path], sizes: Sizes, draw: random.Random) -> Figure:
    blocks = Blocks(JUMAR)
    known = workspace.capture()
    some = draw.sample(paths, min(sizes.restored, len(paths)))
    for _ in blocks.turns(sizes.restores):
        change(some, b" z")
        now = workspace.capture()
        with blocks.timed(JUMAR, 1):
            workspace.restore(workspace.plan(known, now))
    return _alone(f"{len(some):,} files put back", None, blocks)


def _alone(what: str, budget: float | None, blocks: Blocks) -> Figure:
    taken = blocks.median(JUMAR)
    return Figure("files", what, "ms", budget, taken * 1e3, None, None, taken * 1e6)
