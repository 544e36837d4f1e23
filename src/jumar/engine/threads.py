"""Worker threads: for a plain body with a timeout, and for the items of `gather` and `map`.

They are daemon threads, because a body that never returns must not keep the process from ending; its call is
uncertain, and the run's next owner settles it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

from jumar.core.requests import Attempt
from jumar.errors import NotApplied


class StrayCancellation(Exception):
    """A cancellation that nobody sent to the call came out of its body, because a loop or task of the body's own was
    cancelled.  It is a failure like any other: only a call that the agent cancelled is given up.  It is of no built-in
    kind, so that no tool's list of declared errors means it by chance.
    """


def not_cancelled(error: BaseException) -> BaseException:
    """What came out of a body that nobody cancelled: the error itself, or StrayCancellation for a cancellation."""
    if isinstance(error, Exception) or all(kind.__name__ != "CancelledError" for kind in type(error).__mro__):
        return error
    stray = StrayCancellation(f"{type(error).__name__} came out of a body that nobody had cancelled")
    stray.__cause__ = error
    return stray


def stops_process(error: BaseException) -> bool:
    """Whether whoever drives the run is being stopped himself, and not only the run."""
    return isinstance(error, (KeyboardInterrupt, SystemExit)) or type(error).__name__ == "CancelledError"


def run_body(attempt: Attempt, body: Callable[[], Any], clock: Callable[[], int], wall: Callable[[], int]) -> None:
    """Run a body and file on `attempt` how it ended."""
    attempt.started_at = wall()
    try:
        attempt.value = body()
    except BaseException as error:
        attempt.error = not_cancelled(error)  # no cancellation reaches a thread
    attempt.ended_at = wall()
    attempt.over_at = clock()


def start(context: Context, work: Callable[[], None], name: str) -> threading.Thread:
    """Do `work` in a thread of its own, under a copy of the caller's context; NotApplied where there is none left."""
    thread = threading.Thread(target=context.run, args=(work,), name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise NotApplied(f"no thread could be started ({error})") from error
    return thread


def not_run(attempt: Attempt, error: BaseException, clock: Callable[[], int], wall: Callable[[], int]) -> Attempt:
    """An attempt that ended before its body began."""
    attempt.error = error
    attempt.sent = False
    attempt.started_at = attempt.ended_at = wall()
    attempt.over_at = clock()
    return attempt
