"""A clock that stands still until a test moves it.

Leases, settling times and timers are all read from the functions of `jumar.stores.clock`: the lease clock, in two
units, and the wall clock.  `stopped_clock()` puts one number of milliseconds in their place, wherever a module of Jumar
has taken them by name, so that a test can let a lease run out without waiting.  It holds for harnesses opened
inside the block; a body's own timeout and the lease keeper's pauses stay real.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from jumar.stores import clock

CLOCKS = ("lease_ms", "lease_ns", "wall_ms")  # the functions of `jumar.stores.clock` that are put aside


class StoppedClock:
    """The lease clock and the wall clock, in step, moved by hand."""

    def __init__(self) -> None:
        self._wall_ahead = clock.wall_ms() - clock.lease_ms()
        self.ms = clock.lease_ms()
        self.followers: list[Callable[[int], None]] = []  # other clocks that are to show the same

    def move(self, seconds: float) -> None:
        """Let so many seconds pass, rounded up to a millisecond."""
        self._show(self.ms - int(-seconds * 1000 // 1))

    def move_to_wall(self, wall_ms: int) -> None:
        """Let time pass until the wall clock shows this; nothing where it does already."""
        self._show(max(self.ms, wall_ms - self._wall_ahead))

    def _show(self, ms: int) -> None:
        self.ms = ms
        for follow in self.followers:
            follow(ms)

    def lease_ms(self) -> int:
        """What the lease clock shows."""
        return self.ms

    def lease_ns(self) -> int:
        """The same, in nanoseconds."""
        return self.ms * 1_000_000

    def wall_ms(self) -> int:
        """What the wall clock shows."""
        return self.ms + self._wall_ahead


@contextmanager
def stopped_clock() -> Generator[StoppedClock, None, None]:
    """Stop the clocks for harnesses opened in the block."""
    stopped = StoppedClock()
    pairs = [(name, getattr(clock, name), getattr(stopped, name)) for name in CLOCKS]
    for name, real, ours in pairs:
        put(name, real, ours)
    try:
        yield stopped
    finally:
        for name, real, ours in pairs:
            put(name, ours, real)


def put(name: str, old: Any, new: Any) -> None:
    """Replace a function wherever a module of Jumar has it, modules imported meanwhile included."""
    for module in [module for key, module in sys.modules.items() if key.partition(".")[0] == "jumar"]:
        if module.__dict__.get(name) is old:
            setattr(module, name, new)
