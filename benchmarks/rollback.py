"""Rolling a run back over a thousand changed files, beside `git checkout-index` and `cp -a` of as many.

Each side has a folder of its own with the same files, all of which are changed before its turn.  Jumar's are changed
by the run itself, in a call that may write anywhere; its rollback then looks at the whole folder twice, keeps what is
there in a snapshot, puts every file back through a journal, on disk, and commits the new head.  git and cp only write
files, and leave it to the system when they come to disk.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

from benchmarks.files import Git, Processor, change, make_files
from benchmarks.measuring import Blocks, Figure
from benchmarks.sizes import Sizes
from jumar import Harness, Run

CP, GIT, JUMAR = "cp", "git", "jumar"


def measure_rollback(directory: Path, sizes: Sizes) -> list[Figure]:
    """A rollback of so many files, over git's and with cp's told."""
    roots = {side: directory / side for side in (CP, GIT, JUMAR)}
    paths = {side: make_files(root, sizes.restored, Random(1)) for side, root in roots.items()}
    kept = directory / "kept"
    shutil.copytree(roots[CP], kept)
    git = Git(roots[GIT], directory / "git-dir")
    git.capture()
    rolled = _Rolled(directory / "runs.db", roots[JUMAR], paths[JUMAR])
    blocks, processor = Blocks(CP, GIT, JUMAR), Processor()
    with rolled.harness:
        for side in blocks.turns(sizes.rollbacks):
            if side == JUMAR:
                rolled.change()
            else:
                change(paths[side], b" z")
            with blocks.timed(side, 1), processor.of(side):
                if side == JUMAR:
                    rolled.back()
                elif side == GIT:
                    git.check_out()
                else:
                    subprocess.run(["cp", "-a", f"{kept}/.", str(roots[CP])], check=True)
    _check_alike(kept, roots)
    return [_figure(len(paths[JUMAR]), blocks, processor)]


class _Rolled:
    """A run that changes every file of a folder, and goes back."""

    def __init__(self, store: Path, root: Path, paths: list[Path]) -> None:
        self.harness = Harness(f"sqlite:///{store}", workspace=root)
        self._run_id = ""

        @self.harness.tool(effect="write")
        def edit() -> int:
            change(paths, b" z")
            return len(paths)

        @self.harness.agent(tools=[edit])
        def editor(run: Run, task: str) -> int:
            return run.call(edit)

    def change(self) -> None:
        """Have the run made, or made again from where it went back to."""
        if not self._run_id:
            self._run_id = self.harness.run("editor", "x").run_id
        else:
            self.harness.resume(self._run_id).unwrap()

    def back(self) -> None:
        """Go back to where the run began."""
        self.harness.rollback(self._run_id, to=0)


def _check_alike(kept: Path, roots: dict[str, Path]) -> None:
    for side, root in roots.items():
        if subprocess.run(["diff", "-r", kept, root], check=False, stdout=subprocess.DEVNULL).returncode:
            raise AssertionError(f"{side} has not put everything back")


def _figure(files: int, blocks: Blocks, processor: Processor) -> Figure:
    taken = {side: processor.median(side) * 1e3 for side in (JUMAR, GIT, CP)}
    return Figure(
        "rollback-1000",
        f"a rollback of {files:,} changed files, over git checkout-index",
        "x",
        None,
        blocks.ratio(JUMAR, GIT),
        blocks.spread(JUMAR, GIT),
        blocks.median(GIT) * 1e6,
        blocks.median(JUMAR) * 1e6,
        (
            f"{blocks.ratio(JUMAR, CP):.1f}x cp -a; neither of the two flushes to disk",
            f"processor time {taken[JUMAR]:.0f} ms, git's {taken[GIT]:.0f} ms, cp's {taken[CP]:.0f} ms",
        ),
    )
