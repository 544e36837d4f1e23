"""Bytes on disk for each step, with a history that grows.

At each step the agent asks a model, which is given a line about every step so far, and then makes a read that returns
1 KiB.  The store's file is measured after a checkpoint that empties the write-ahead log, whole: schema, indexes and
all.  What grows with the history shows as a figure that grows with the number of steps.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from benchmarks.floors import RESULT
from benchmarks.measuring import Figure
from benchmarks.sizes import Sizes
from jumar import Harness, Run


def measure_disk(directory: Path, sizes: Sizes) -> list[Figure]:
    """Bytes a step at several lengths of a run."""
    found = {steps: _bytes_on_disk(directory / f"{steps}.db", steps) / steps for steps in sizes.disk_steps}
    told = ", ".join(f"{steps:,} steps: {size:,.0f}" for steps, size in found.items())
    what = "bytes on disk a step, history growing"
    return [Figure("disk", what, "bytes", 2048.0, max(found.values()), notes=(told,))]


def _bytes_on_disk(path: Path, steps: int) -> int:
    harness = Harness(f"sqlite:///{path}")
    prompts = 0

    def model(history: list[str]) -> str:
        nonlocal prompts
        prompts += len(history)
        return f"read {len(history)}"

    @harness.tool(effect="read")
    def read(wanted: str) -> str:
        return RESULT

    @harness.agent(tools=[read])
    def thinker(run: Run, count: int) -> int:
        history: list[str] = []
        for number in range(count):
            wanted = run.decide(model, history)
            found = run.call(read, wanted)
            history.append(f"step {number}: {wanted}: {found[:20]}")
        return len(history)

    with harness:
        harness.run(thinker, steps).unwrap()
    if prompts != steps * (steps - 1) // 2:
        raise AssertionError("the history given to the model did not grow with every step")
    return _checkpointed_size(path)


def _checkpointed_size(path: Path) -> int:
    connection = sqlite3.connect(path)
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise AssertionError(f"{path} could not be checkpointed")
    files = [file for file in path.parent.iterdir() if file.name in (path.name, f"{path.name}-wal")]
    size = sum(file.stat().st_size for file in files)
    connection.close()
    return size
