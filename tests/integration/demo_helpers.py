"""What the tests of both demonstrations share: running them as a user does, and reading what they leave."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from jumar import Harness
from jumar.demo.counts import count
from jumar.demo.figures import ActResult, DemoResult
from jumar.demo.piece import Piece, Takeover
from jumar.demo.telling import Teller

PATIENCE = 60.0  # seconds after which something that was waited for will not come


class Kept(NamedTuple):
    """A piece performed with `--json` and `--keep`: its directory, figures, and how the command ended."""

    piece: Piece
    directory: Path
    figures: dict[str, Any]
    done: subprocess.CompletedProcess[str]


def python(*args: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], capture_output=True, text=True, env=os.environ | settings, timeout=PATIENCE
    )


@contextmanager
def started(*args: str, **settings: str) -> Iterator[subprocess.Popen[str]]:
    """A process whose output is read later; it is ended where nobody does."""
    process = subprocess.Popen(
        [sys.executable, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | settings,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def running_in(directory: Path) -> list[int]:
    """The processes whose working directory is this one or below it, removed ones included."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            place = (entry / "cwd").readlink()
        except OSError:  # it has just ended
            continue
        if str(place).startswith(str(directory)):
            found.append(int(entry.name))
    return found


def told(result: DemoResult) -> str:
    console = Console(file=io.StringIO(), width=100)
    teller = Teller(console)
    for act in result.acts:
        teller.table(act)
    teller.close(result, is_kept=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def counted_again(kept: Kept, instead: Path | None = None) -> DemoResult:
    """The figures made once more of what is kept; the witnesses' files in the folder `instead` come first."""
    figures = kept.figures
    acts = []
    with Harness(figures["store"]) as harness:
        for act, of_act in zip(kept.piece.acts, (figures, figures["fix"]), strict=True):
            view = harness.show(of_act["run_id"])
            files = [
                file if instead is None or not (instead / file.name).exists() else instead / file.name
                for file in act.files(kept.directory)
            ]
            takeovers = tuple(Takeover(**takeover) for takeover in of_act["takeovers"])
            acts.append(ActResult(act, view.run.run_id, view.run.status, count(*files), takeovers, view))
    return DemoResult(kept.piece, figures["store"], figures["directory"], 1.0, tuple(acts))


def with_another(kept: Kept, name: str, part: str, tmp_path: Path) -> DemoResult:
    """The figures where a line of one of the witnesses' files, the first with this part, stood there a second time."""
    written = (kept.directory / name).read_text("utf-8").splitlines()
    more = [*written, next(line for line in written if part in line)]
    (tmp_path / name).write_text("\n".join(more) + "\n", "utf-8")
    result = counted_again(kept, tmp_path)
    (tmp_path / name).unlink()
    return result
