"""One read recorded behind the agent's back, `durability="hot"`, against one that is waited for.

What the agent waits for is a block of hot reads.  What it costs until all of them are on disk is the same block and the
value behind it, which is waited for; so nothing of one block is left to be written in the next.
"""

from __future__ import annotations

from itertools import count, islice
from pathlib import Path

from benchmarks.floors import RESULT
from benchmarks.measuring import Blocks, Figure, compared
from benchmarks.sizes import Sizes
from jumar import Harness, Run

SYNC, HOT, FLUSHED = "sync", "hot", "hot and flushed"


def measure_hot_calls(directory: Path, sizes: Sizes) -> list[Figure]:
    """One hot read call of a plain agent; nothing is promised."""
    blocks = _measured(directory, sizes)
    note = f"until all are on disk {blocks.ratio(FLUSHED, SYNC):.2f}x, {blocks.median(FLUSHED) * 1e6:.0f} us"
    return [compared("call-hot", "a hot read, over a read that is waited for", None, blocks, HOT, SYNC, note)]


def _measured(directory: Path, sizes: Sizes) -> Blocks:
    harness = Harness(f"sqlite:///{directory / 'jumar.db'}")
    blocks = Blocks(SYNC, HOT, FLUSHED)

    @harness.tool(effect="read")
    def read(number: int) -> str:
        return RESULT

    hot = read.using(durability="hot")

    @harness.agent(tools=[read])
    def reader(run: Run, first: int) -> int:
        numbers = count(first)
        for side in blocks.turns(sizes.rounds):
            tool = read if side == SYNC else hot
            with blocks.timed(side, sizes.block):
                for number in islice(numbers, sizes.block):
                    run.call(tool, number)
                if side == FLUSHED:
                    run.value("written", next(numbers))
            run.value("written", next(numbers))
        return next(numbers)

    with harness:
        harness.run(reader, 0).unwrap()
    return blocks
