"""The places of a worker, in each of which one run is driven; and what a worker is told, and tells."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from jumar.core.records import RunRecord
from jumar.core.working import DEFAULT_CONCURRENCY, DEFAULT_GRACE, DEFAULT_MAX_CRASHES, DEFAULT_POLL, is_suspect

if TYPE_CHECKING:
    from jumar.engine.live import LiveRun


class Stop:
    """Tells a worker to stop, once, or a second time to leave at once.  It may be told in a signal handler."""

    def __init__(self) -> None:
        self.asked = 0
        self.wakes: Callable[[], None] | None = None

    def set(self) -> None:
        """Tell it."""
        self.asked += 1
        wakes = self.wakes
        if wakes is not None:
            wakes()

    def is_set(self) -> bool:
        """Whether it was told."""
        return self.asked > 0


class Told(Protocol):
    """What tells a worker to stop: a `Stop`, or an event such as `threading.Event`."""

    def is_set(self) -> bool: ...


class Options(Struct, frozen=True):
    """How a worker works; times are seconds."""

    concurrency: int = DEFAULT_CONCURRENCY
    poll: float = DEFAULT_POLL
    grace: float = DEFAULT_GRACE
    max_crashes: int = DEFAULT_MAX_CRASHES
    until_idle: bool = False


class Happening(Struct, frozen=True):
    """Something a worker tells: that it takes a run up, how it was left (`result`), that it could not be driven on
    (`error`), that its place was given up because it hangs; or, of no run, that the worker ends, with so many runs
    `under_way`, and that it now hands these over.
    """

    kind: str  # "taken-up", "left", "not-driven", "given-up"; "stopping", "handing-over"
    run: RunRecord | None = None
    result: Any = None
    error: BaseException | None = None
    under_way: int = 0


class Place:
    """Where one run is driven: how the worker and the run's thread know of each other."""

    def __init__(self, run: RunRecord, tell: Callable[[Place, RunRecord], None] | None = None) -> None:
        self.run = run
        self._as_claimed: RunRecord | None = None
        self._tell = tell
        self._lock = threading.Lock()
        self._live: LiveRun | None = None
        self._leaves = False

    def claimed(self, run: RunRecord) -> None:
        """The run is this process's."""
        self._as_claimed = run
        if self._tell is not None:
            self._tell(self, run)

    @property
    def is_claimed(self) -> bool:
        """Whether the run is, or was, this process's."""
        return self._as_claimed is not None

    @property
    def is_suspect(self) -> bool:
        """Whether the run may be what ends its process, and has recorded nothing new here yet."""
        live = self._live
        return is_suspect(self._as_claimed or self.run, 0 if live is None else live.newest_seq)

    def drives(self, live: LiveRun) -> None:
        """The run is driven here, from now on in this guise."""
        live.is_worked = True
        with self._lock:
            self._live = live
            leaves = self._leaves
        if leaves:
            live.leave_soon()

    def leave(self) -> None:
        """Have the run left to others as soon as what it has in flight has settled."""
        with self._lock:
            self._leaves = True
            live = self._live
        if live is not None:
            live.leave_soon()

    def is_lost(self, now: int) -> bool:
        """Whether the lease was given up because nothing happened, or ran out unnoticed."""
        live = self._live
        return live is not None and now >= live.trusted_until + live.settings.margin_ms
