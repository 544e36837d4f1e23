"""Ctrl-C and SIGTERM: a command that they end says how the run stands and how to go on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from jumar.cli.messages import Interrupted, Terminated

Told = Callable[[type[Interrupted]], Interrupted]


@contextmanager
def interruptible(told: Told) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into the error that `told` makes of their kind."""
    terminated = threading.Event()
    try:
        with _sigterm_as_ctrl_c(terminated):
            yield
    except KeyboardInterrupt:
        raise told(Terminated if terminated.is_set() else Interrupted) from None


@contextmanager
def _sigterm_as_ctrl_c(terminated: threading.Event) -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, to whoever handles that at the moment, and leave a mark that it was SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        terminated.set()
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # shells start background jobs with Ctrl-C ignored
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
