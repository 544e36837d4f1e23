"""What a resume costs for each recorded call, from `resume` to the body of the first call that is not recorded.

Beside it stands what it costs to fetch the same rows from SQLite and do nothing with them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.floors import RESULT, Guarded
from benchmarks.measuring import Blocks, Figure
from benchmarks.sizes import Sizes
from jumar import AsyncRun, Harness, Run

FETCH, JUMAR = "fetch", "jumar"


class _Left(BaseException):
    """The process is told to stop, as by Ctrl-C: the run is left to be resumed."""


class _Live:
    """The first call that is not recorded: tells that it is made, and leaves the run."""

    def __init__(self) -> None:
        self.reached: Callable[[], None] = lambda: None

    def __call__(self) -> int:
        self.reached()
        raise _Left


def measure_resume(directory: Path, sizes: Sizes) -> list[Figure]:
    """A plain agent."""
    harness, live = Harness(f"sqlite:///{directory / 'jumar.db'}"), _Live()

    @harness.tool(effect="read")
    def read(number: int) -> str:
        return RESULT

    @harness.tool(effect="read")
    def look() -> int:
        return live()

    @harness.agent(tools=[read, look])
    def reader(run: Run, count: int) -> int:
        for number in range(count):
            run.call(read, number)
        return run.call(look)

    blocks = _resumed(directory, sizes, harness, live)
    return [_figure("resume", f"resume of {sizes.recorded:,} calls, a call", blocks)]


def measure_async_resume(directory: Path, sizes: Sizes) -> list[Figure]:
    """An async agent."""
    harness, live = Harness(f"sqlite:///{directory / 'jumar.db'}"), _Live()

    @harness.tool(effect="read")
    async def read(number: int) -> str:
        return RESULT

    @harness.tool(effect="read")
    async def look() -> int:
        return live()

    @harness.agent(tools=[read, look])
    async def reader(run: AsyncRun, count: int) -> int:
        for number in range(count):
            await run.call(read, number)
        return await run.call(look)

    blocks = _resumed(directory, sizes, harness, live)
    return [_figure("resume-asyncio", f"resume of {sizes.recorded:,} calls under asyncio, a call", blocks)]


def _resumed(directory: Path, sizes: Sizes, harness: Harness, live: _Live) -> Blocks:
    blocks = Blocks(FETCH, JUMAR)
    guarded = Guarded(directory / "guarded.db")
    guarded.work(guarded.prepare(sizes.recorded))
    with harness:
        with suppress(_Left):
            harness.run("reader", sizes.recorded)
        run_id = harness.find("last")
        for side in blocks.turns(sizes.resumes):
            if side == FETCH:
                with blocks.timed(FETCH, sizes.recorded):
                    guarded.fetch()
                continue
            with suppress(_Left), blocks.timed(JUMAR, sizes.recorded) as block:
                live.reached = block.stop
                harness.resume(run_id)
    guarded.close()
    return blocks


def _figure(row: str, what: str, blocks: Blocks) -> Figure:
    us = blocks.median(JUMAR) * 1e6
    note = f"the floor fetches the same rows; processor time {blocks.processor(JUMAR, FETCH)}"
    return Figure(row, what, "us", 20.0, us, None, blocks.median(FETCH) * 1e6, us, (note,))
