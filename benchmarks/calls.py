"""One recorded read call, plain and asyncio, against the bare guarded transaction and against one INSERT and COMMIT.

The blocks of both floors run inside the agent's own body, between the blocks of its recorded calls, so all sides see
the same seconds of the same disk.
"""

from __future__ import annotations

from itertools import count, islice
from pathlib import Path

from benchmarks.floors import RESULT, Guarded, Inserts
from benchmarks.measuring import Blocks, Figure, compared
from benchmarks.sizes import Sizes
from jumar import AsyncRun, Harness, Run

GUARDED, INSERT, JUMAR = "guarded", "insert", "jumar"


def measure_calls(directory: Path, sizes: Sizes) -> list[Figure]:
    """One recorded read call of a plain agent."""
    blocks = _plain(directory, sizes)
    over_insert = "a recorded read, over INSERT and COMMIT of 1 KiB"
    return [
        compared("call", "a recorded read, over the bare guarded transaction", 1.25, blocks, JUMAR, GUARDED),
        compared("call-insert", over_insert, 2.0, blocks, JUMAR, INSERT),
    ]


def measure_async_calls(directory: Path, sizes: Sizes) -> list[Figure]:
    """One recorded read call of an async agent, one after the other."""
    blocks = _asyncio(directory, sizes)
    note = f"{blocks.ratio(JUMAR, GUARDED):.2f}x the bare guarded transaction"
    what = "a recorded read under asyncio, over INSERT and COMMIT of 1 KiB"
    return [compared("call-asyncio", what, 2.5, blocks, JUMAR, INSERT, note)]


def _plain(directory: Path, sizes: Sizes) -> Blocks:
    harness = Harness(f"sqlite:///{directory / 'jumar.db'}")
    blocks = Blocks(GUARDED, INSERT, JUMAR)
    floors = Guarded(directory / "guarded.db"), Inserts(directory / "insert.db")

    @harness.tool(effect="read")
    def read(number: int) -> str:
        return RESULT

    @harness.agent(tools=[read])
    def reader(run: Run, first: int) -> int:
        numbers = count(first)
        for side in blocks.turns(sizes.rounds):
            if side != JUMAR:
                _floor_block(side, *floors, blocks, sizes.block)
                continue
            with blocks.timed(JUMAR, sizes.block):
                for number in islice(numbers, sizes.block):
                    run.call(read, number)
        return next(numbers)

    with harness:
        harness.run(reader, 0).unwrap()
    _close(*floors)
    return blocks


def _asyncio(directory: Path, sizes: Sizes) -> Blocks:
    harness = Harness(f"sqlite:///{directory / 'jumar.db'}")
    blocks = Blocks(GUARDED, INSERT, JUMAR)
    floors = Guarded(directory / "guarded.db"), Inserts(directory / "insert.db")

    @harness.tool(effect="read")
    async def read(number: int) -> str:
        return RESULT

    @harness.agent(tools=[read])
    async def reader(run: AsyncRun, first: int) -> int:
        numbers = count(first)
        for side in blocks.turns(sizes.rounds):
            if side != JUMAR:
                _floor_block(side, *floors, blocks, sizes.block)
                continue
            with blocks.timed(JUMAR, sizes.block):
                for number in islice(numbers, sizes.block):
                    await run.call(read, number)
        return next(numbers)

    with harness:
        harness.run(reader, 0).unwrap()
    _close(*floors)
    return blocks


def _floor_block(side: str, guarded: Guarded, inserts: Inserts, blocks: Blocks, block: int) -> None:
    if side == INSERT:
        with blocks.timed(INSERT, block):
            inserts.work(block)
        return
    prepared = guarded.prepare(block)
    with blocks.timed(GUARDED, block):
        guarded.work(prepared)


def _close(guarded: Guarded, inserts: Inserts) -> None:
    guarded.close()
    inserts.close()
