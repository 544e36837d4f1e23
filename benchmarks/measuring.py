"""Blocks that take turns, and what is made of their times.

The disk and the other users of a machine change from second to second, so two sides measured one after the other tell
little.  Here they take turns in short blocks, forwards in one round and backwards in the next; each side's figure is
the median of its blocks' means, and a ratio is told with the quartiles of the ratios of the single rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles
from time import perf_counter, process_time


class Block:
    """A clock that runs for one block, or until it is stopped."""

    def __init__(self) -> None:
        self._began = perf_counter(), process_time()
        self.taken: tuple[float, float] | None = None

    def stop(self) -> None:
        """Note the seconds passed and those that the process had a processor, unless that is done."""
        if self.taken is None:
            self.taken = perf_counter() - self._began[0], process_time() - self._began[1]


class Blocks:
    """The times of several sides, in seconds for each thing done."""

    def __init__(self, *sides: str) -> None:
        self._seconds: dict[str, list[float]] = {side: [] for side in sides}
        self._processor: dict[str, list[float]] = {side: [] for side in sides}

    def turns(self, rounds: int) -> Iterator[str]:
        """The sides in turn: one round that is thrown away, to warm up, then so many that count."""
        sides = list(self._seconds)
        yield from sides
        for seconds in (*self._seconds.values(), *self._processor.values()):
            seconds.clear()
        for number in range(rounds):
            yield from sides if number % 2 else reversed(sides)

    @contextmanager
    def timed(self, side: str, count: int) -> Iterator[Block]:
        """Time a block in which `side` does `count` things."""
        block = Block()
        try:
            yield block
        finally:
            block.stop()
            assert block.taken is not None
            self._seconds[side].append(block.taken[0] / count)
            self._processor[side].append(block.taken[1] / count)

    def median(self, side: str) -> float:
        """The median of a side's block means, in seconds."""
        return median(self._seconds[side])

    def ratio(self, side: str, floor: str) -> float:
        """One side's median over another's."""
        return self.median(side) / self.median(floor)

    def processor(self, side: str, floor: str) -> str:
        """The medians of the time that two sides had a processor, for people."""
        return (
            f"{median(self._processor[side]) * 1e6:.0f} us, the floor's {median(self._processor[floor]) * 1e6:.0f} us"
        )

    def spread(self, side: str, floor: str) -> tuple[float, float]:
        """The quartiles of the ratios of the single rounds."""
        return quartiles([one / other for one, other in self._rounds(side, floor)])

    def differences(self, side: str, floor: str) -> list[float]:
        """What one side took more than another, round by round, in seconds."""
        return [one - other for one, other in self._rounds(side, floor)]

    def _rounds(self, side: str, floor: str) -> Iterator[tuple[float, float]]:
        return zip(self._seconds[side], self._seconds[floor], strict=True)


def quartiles(values: list[float]) -> tuple[float, float]:
    """The first and the third quartile."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, third


@dataclass(frozen=True)
class Figure:
    """One line of the table.  `budget` (None where nothing is promised) and `measured` (None where it could not be, and
    the notes say why) are in `unit`; `floor_us` and
    `jumar_us` are microseconds for each thing done, where there are such.
    """

    row: str
    what: str
    unit: str
    budget: float | None
    measured: float | None
    spread: tuple[float, float] | None = None
    floor_us: float | None = None
    jumar_us: float | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def is_met(self) -> bool:
        """Whether the promise is kept."""
        return self.budget is None or self.measured is None or self.measured <= self.budget

    @property
    def verdict(self) -> str:
        """Met, or by how much not; nothing where nothing is promised."""
        if self.budget is None or self.measured is None:
            return ""
        return "met" if self.is_met else f"not met, by {self.measured / self.budget - 1:.0%}"


def compared(row: str, what: str, budget: float | None, blocks: Blocks, side: str, floor: str, *notes: str) -> Figure:
    """The line that compares a side with its floor."""
    return Figure(
        row,
        what,
        "x",
        budget,
        blocks.ratio(side, floor),
        blocks.spread(side, floor),
        blocks.median(floor) * 1e6,
        blocks.median(side) * 1e6,
        (f"processor time {blocks.processor(side, floor)}", *notes),
    )
