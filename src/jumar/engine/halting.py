"""Why a run stops: what it waits for, and the signal that is latched where it must not go on."""

from __future__ import annotations

from copy import copy

from jumar.core.states import Control
from jumar.errors import IntegrityError, JumarError, ReplayDiverged, Stopped


class Wait:
    """Why a run waits: for somebody's answer to `waiting_on`, until `wake_at`, or both."""

    __slots__ = ("reason", "waiting_on", "wake_at")

    def __init__(self, reason: str, waiting_on: str | None = None, wake_at: int | None = None) -> None:
        self.reason = reason
        self.waiting_on = waiting_on
        self.wake_at = wake_at


class Halt:
    """A latched stopping signal.  Nothing new is sent after one.

    While the lease is `ours` (the run waits, its code has diverged, a record is damaged) what is in flight is still
    recorded; after any other error nothing more may be written.  Once the run is `over` in this process there is no
    agent left to stop: whoever still holds on to it gets the ordinary error.
    """

    __slots__ = ("error", "leaves", "order", "over", "wait")

    def __init__(
        self,
        wait: Wait | None,
        error: JumarError | None,
        *,
        over: bool = False,
        order: Control | None = None,
        leaves: bool = False,
    ) -> None:
        self.wait = wait
        self.error = error
        self.over = over
        self.order = order  # an operator's: to pause, or to cancel
        self.leaves = leaves  # for another worker to go on with: the one that drives it is to end

    @property
    def ours(self) -> bool:
        """Whether the run may still be written under this lease."""
        return not self.over and (self.error is None or isinstance(self.error, (ReplayDiverged, IntegrityError)))

    def signal(self) -> BaseException:
        """A fresh exception to raise; one instance raised in several threads would mix up their tracebacks."""
        if self.error is not None:
            return copy(self.error) if self.over else Stopped(self.error.what, self.error)
        if self.order is not None:
            return Stopped(f"an operator asked to {self.order.label} the run")
        if self.leaves:
            return Stopped("the worker that drives the run is to end")
        return Stopped(self.wait.reason if self.wait is not None else "the run stopped")


def both(one: Wait, other: Wait) -> Wait:
    """What a run waits for that waits for two things: the earlier of them wakes it."""
    moments = [wait.wake_at for wait in (one, other) if wait.wake_at is not None]
    names = [wait.waiting_on for wait in (one, other) if wait.waiting_on]
    return Wait(one.reason, ", ".join(dict.fromkeys(names)) or None, min(moments, default=None))
