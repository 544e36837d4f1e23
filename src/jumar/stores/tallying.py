"""Counting what a queue of commits does.  Whoever leads counts, or whoever has the queue locked; so nothing here needs
a lock of its own.
"""

from __future__ import annotations

from jumar.core.statistics import StoreStats, Times


class Clocked:
    """Seconds, summed up."""

    __slots__ = ("count", "longest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.total += seconds
        if seconds > self.longest:
            self.longest = seconds

    def times(self) -> Times:
        """The same in milliseconds."""
        return Times(self.count, self.total * 1000 / max(self.count, 1), self.longest * 1000)


class Tally:
    """What is counted; see `core.statistics.StoreStats`."""

    __slots__ = ("cold", "commits", "hot", "lost", "retried", "waited")

    def __init__(self) -> None:
        self.commits = 0
        self.hot = Clocked()
        self.cold = Clocked()
        self.retried = 0
        self.waited = 0.0
        self.lost = 0

    def alone(self, seconds: float) -> None:
        """One change was committed by itself, in so many seconds."""
        cold = self.cold
        self.commits += 1
        cold.count += 1
        cold.total += seconds
        if seconds > cold.longest:
            cold.longest = seconds

    def stats(self, pending: int) -> StoreStats:
        """What was counted so far."""
        return StoreStats(
            writes=self.cold.count,
            commits=self.commits,
            hot_ms=self.hot.times(),
            cold_ms=self.cold.times(),
            pending=pending,
            retried=self.retried,
            waited_ms=self.waited * 1000,
            lost=self.lost,
        )
