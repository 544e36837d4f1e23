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


def run_body(attempt: Attempt, body: Callable[[], Any], clock: Callable[[], int], wall: Callable[[], int]) -> None:
    """Run a body and file on `attempt` how it ended."""
    attempt.started_at = wall()
    try:
        attempt.value = body()
    except BaseException as error:
        attempt.error = error
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
    attempt.started_at = attempt.ended_at = wall()
    attempt.over_at = clock()
    return attempt
