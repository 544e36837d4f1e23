"""A process cut off in the middle of a transaction: what is on disk is always what stood between two commits,
cursor, calls, checkpoints and requests together."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from jumar import Harness, Run
from jumar.core.requests import Commit, Request
from jumar.core.store import Store
from jumar.testing.crash import Crashed, World, inhabit
from jumar.testing.crash_clock import StoppedClock
from tests.crash.statements import Dying
from tests.crash.worlds import RUN

TABLES = ("run", "call", "artifact", "checkpoint", "request", "event")


class CutOff(World):
    """A world whose database connection is cut before its n-th statement, counted from the first after its opening."""

    def __init__(self, folder: Path, at: int | None) -> None:
        super().__init__()
        self.stood: list[Any] = []
        self._folder = folder
        self._cut = at

    def around(self, store: Store) -> Store:
        """The store, whose writer is watched."""
        self.writer = Dying(store._writer, self._cut)  # type: ignore[attr-defined]
        store._writer = self.writer  # type: ignore[attr-defined]
        return store

    def after(self, request: Request[Any], answer: Any) -> None:
        """After a commit, note what stands on disk."""
        if type(request) is Commit:
            self.stood.append(on_disk(self._folder))


def on_disk(folder: Path) -> dict[str, list[Any]]:
    """Every row there is.  Only the owner's name is drawn at random, so it is left out."""
    with sqlite3.connect(folder / "run.db") as reader:
        found = {}
        for table in TABLES:
            cursor = reader.execute(f"SELECT * FROM {table} ORDER BY 1")
            names = [column[0] for column in cursor.description]
            found[table] = [
                [value for name, value in zip(names, row, strict=True) if name != "owner"] for row in cursor
            ]
    reader.close()
    return found


def harness_in(folder: Path) -> Harness:
    """A harness whose agent makes an advance of each kind, and draws nothing at random."""
    harness = Harness(f"sqlite:///{folder / 'run.db'}", stall_timeout=1.0)

    @harness.tool(effect="read")
    def read(size: int) -> str:
        return "x" * size

    @harness.tool(effect="external", settle=0)
    def pay(cents: int) -> int:
        raise ConnectionError("the line is dead")

    @harness.agent
    def work(run: Run, task: str) -> list[Any]:
        with run.step("look"):
            found = [run.call(read, 3), run.call(read, 5000)]
        run.checkpoint("so far", refs=["claim:c-1"])
        return [*found, run.call(pay, 5)]

    return harness


def lived(folder: Path, at: int | None) -> CutOff:
    """The run in a fresh folder up to a statement."""
    folder.mkdir()
    world = CutOff(folder, at)
    harness = harness_in(folder)
    inhabit(harness, world)
    try:
        result = harness.run("work", "go", run_id=RUN)
        assert result.status == "WAITING"
    except Crashed:
        pass
    finally:
        harness.close()
    return world


def cut_everywhere(folder: Path, clock: StoppedClock) -> None:
    """Cut the run before each of its statements; what is on disk then must be what stood between two commits."""
    began = clock.ms
    unbroken = lived(folder / "unbroken", None)
    stood = [{table: [] for table in TABLES}, *unbroken.stood]
    assert len(unbroken.stood) == 8
    for point in range(1, unbroken.writer.count + 1):
        clock.ms = began
        world = lived(folder / str(point), point)
        left = on_disk(folder / str(point))
        assert left in stood, f"cut before statement {point} ({world.writer.last}) the database holds half a change"


def test_a_process_cut_off_at_any_statement_leaves_what_stood_between_two_commits(
    folder: Path, clock: StoppedClock
) -> None:
    cut_everywhere(folder, clock)
