"""What the tests of both demonstrations share: running them as a user does, and reading what they leave."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from jumar import Harness
from jumar.demo.counts import count
from jumar.demo.figures import DemoResult
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
    teller.table(result)
    teller.close(result, is_kept=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def counted_again(kept: Kept, witness: Path, book: Path) -> DemoResult:
    figures = kept.figures
    with Harness(figures["store"]) as harness:
        view = harness.show("last")
    takeovers = tuple(Takeover(**takeover) for takeover in figures["takeovers"])
    return DemoResult(
        kept.piece,
        figures["run_id"],
        view.run.status,
        figures["store"],
        figures["directory"],
        1.0,
        count(witness, book),
        takeovers,
        view,
    )
