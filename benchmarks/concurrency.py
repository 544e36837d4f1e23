"""Many runs side by side on one file, against the same commits one by one behind a lock.

Both sides create every run, record its reads and finish it.  The floor gives each run a thread and each commit a turn
at the lock; Jumar's runs are tasks of one event loop, or threads, whose commits go to disk together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.floors import RESULT, Crowd
from benchmarks.measuring import Blocks, Figure, compared
from benchmarks.sizes import Sizes
from jumar import AsyncRun, Harness, Run

LOCKED, JUMAR = "locked", "jumar"


def measure_async_runs(directory: Path, sizes: Sizes) -> list[Figure]:
    """Runs that are tasks of one event loop."""
    harness = Harness(f"sqlite:///{directory / 'jumar.db'}")

    @harness.tool(effect="read")
    async def read(number: int) -> str:
        return RESULT

    @harness.agent(tools=[read])
    async def reader(run: AsyncRun, steps: int) -> int:
        for number in range(steps):
            await run.call(read, number)
        return 0

    async def together() -> None:
        results = await asyncio.gather(*(harness.arun(reader, sizes.run_steps) for _ in range(sizes.runs)))
        for result in results:
            result.unwrap()

    with harness:
        blocks = _side_by_side(directory, sizes, lambda: asyncio.run(together()))
    what = f"{sizes.runs} runs under asyncio, over one commit a step behind a lock"
    return [compared("runs-asyncio", what, 0.4, blocks, JUMAR, LOCKED)]


def measure_threaded_runs(directory: Path, sizes: Sizes) -> list[Figure]:
    """Runs in threads."""
    harness = Harness(f"sqlite:///{directory / 'jumar.db'}")

    @harness.tool(effect="read")
    def read(number: int) -> str:
        return RESULT

    @harness.agent(tools=[read])
    def reader(run: Run, steps: int) -> int:
        for number in range(steps):
            run.call(read, number)
        return 0

    with harness, ThreadPoolExecutor(sizes.runs) as pool:

        def together() -> None:
            for result in pool.map(lambda _: harness.run(reader, sizes.run_steps), range(sizes.runs)):
                result.unwrap()

        blocks = _side_by_side(directory, sizes, together)
    what = f"{sizes.runs} runs in threads, over one commit a step behind a lock"
    return [compared("runs-threads", what, 0.4, blocks, JUMAR, LOCKED)]


def _side_by_side(directory: Path, sizes: Sizes, together: Callable[[], None]) -> Blocks:
    blocks = Blocks(LOCKED, JUMAR)
    crowd = Crowd(directory / "locked.db")
    commits = sizes.runs * (sizes.run_steps + 2)
    for side in blocks.turns(sizes.run_rounds):
        with blocks.timed(side, commits):
            if side == LOCKED:
                crowd.work(sizes.runs, sizes.run_steps)
            else:
                together()
    crowd.close()
    return blocks
