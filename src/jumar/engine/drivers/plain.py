"""The plain driver: carries out a flow's requests one by one in the calling thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import iscoroutine
from typing import Any, TypeVar

from jumar.core.changes import Advance
from jumar.core.limits import MAX_WORKERS
from jumar.core.requests import (
    Attempt,
    Capture,
    Commit,
    Fan,
    Flow,
    Flush,
    Graft,
    Invoke,
    Load,
    Look,
    Materialise,
    Now,
    Occupy,
    Request,
    Restore,
    Sleep,
)
from jumar.engine.io import IO
from jumar.engine.scope import current_scope, this_thread
from jumar.engine.threads import not_cancelled, not_run, run_body, start
from jumar.errors import NotApplied, UsageError

T = TypeVar("T")


def drive(flow: Flow[T], io: IO) -> T:
    """Run a flow to its end in this thread."""
    answer: Any = None
    error: BaseException | None = None
    watcher = io.watcher
    while True:
        try:
            request = flow.send(answer) if error is None else flow.throw(error)
        except StopIteration as stop:
            value: T = stop.value
            return value
        error = None
        try:
            if watcher is not None:
                watcher.before(request)
            answer = _CARRY_OUT[type(request)](request, io)
            if watcher is not None:
                watcher.after(request, answer)
        except BaseException as raised:
            error = raised


def _commit(request: Commit, io: IO) -> Any:
    if request.hot is None:
        return io.queue.submit(request.change, request.lane)
    assert request.lane is not None and isinstance(request.change, Advance)
    return io.queue.submit_hot(request.change, request.lane, request.hot)


def _flush(request: Flush, io: IO) -> None:
    io.queue.flush(request.lane)


def _load(request: Load[Any], io: IO) -> Any:
    return request.read(io.store)


def _now(request: Now, io: IO) -> Any:
    return io.now()


def _sleep(request: Sleep, io: IO) -> None:
    time.sleep(request.seconds)


def _work_on_files(request: Request[Any], io: IO) -> Any:
    return io.carry_out(request)


def _invoke(request: Invoke, io: IO) -> Attempt:
    attempt = Attempt()
    scope = request.scope
    if request.timeout is not None:
        return _in_thread(request, io, attempt)
    if scope.call is None:
        scope.settle_in(this_thread())
    wall = io.wall
    token = current_scope.set(scope)
    attempt.started_at = wall()
    try:
        value = request.body(*request.args, **request.kwargs)
        if iscoroutine(value):
            value.close()
            raise _needs_async(request.body)
        attempt.value = value
    except BaseException as error:
        attempt.error = not_cancelled(error)
    finally:
        current_scope.reset(token)
    attempt.ended_at = wall()
    attempt.over_at = io.clock()
    return attempt


def _plainly(request: Invoke) -> Any:
    """What the body answers; an async one is refused, as nobody here would await it."""
    value = request.body(*request.args, **request.kwargs)
    if iscoroutine(value):
        value.close()
        raise _needs_async(request.body)
    return value


def _needs_async(body: Callable[..., Any]) -> UsageError:
    name = getattr(body, "__name__", repr(body))
    return UsageError(
        f"{name} is an async function, and this agent is a plain one",
        hint="Write the agent with `async def`, or the tool without.",
    )


def _in_thread(request: Invoke, io: IO, attempt: Attempt) -> Attempt:
    done = threading.Event()
    lock = threading.Lock()

    def work() -> None:
        current_scope.set(request.scope)
        ran = Attempt()
        run_body(ran, partial(_plainly, request), io.clock, io.wall)
        with lock:
            if attempt.error is None:  # else whoever waited was interrupted, and has been answered
                attempt.value, attempt.error = ran.value, ran.error
                attempt.started_at, attempt.ended_at = ran.started_at, ran.ended_at
            attempt.over_at = ran.over_at
            done.set()
            late = attempt.late
        if late is not None:
            late()

    attempt.started_at = io.wall()
    try:
        start(copy_context(), work, "jumar-call")
    except NotApplied as error:
        return not_run(attempt, error, io.clock, io.wall)
    interrupted: BaseException | None = None
    try:
        done.wait(request.timeout)
    except BaseException as error:
        interrupted = error
    with lock:
        if interrupted is not None:
            attempt.error = interrupted
        elif not done.is_set():
            attempt.timed_out = True
        if not done.is_set():
            attempt.ended_at = io.wall()
    return attempt


def look(request: Look, io: IO) -> Attempt:
    """Run a function aside, and wait for it no longer than it may take."""
    return _in_thread(Invoke(request.body, (), {}, request.scope, request.timeout), io, Attempt())


def _fan(request: Fan, io: IO) -> list[Attempt]:
    """One thread an item, at most 64 at once; this thread waits for all of them."""
    attempts = [Attempt() for _ in request.bodies]
    waiting = iter(list(zip(request.bodies, attempts, strict=True)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                item = next(waiting, None)
            if item is None:
                return
            invoke, attempt = item
            invoke.scope.settle_in(this_thread())
            current_scope.set(invoke.scope)
            run_body(attempt, partial(_plainly, invoke), io.clock, io.wall)

    threads = []
    with suppress(NotApplied):  # fewer threads than wanted do the same work, and without any this one does it
        for number in range(min(MAX_WORKERS, len(attempts))):
            threads.append(start(copy_context(), work, f"jumar-branch-{number}"))
    if not threads:
        copy_context().run(work)
    for thread in threads:
        thread.join()
    return attempts


_CARRY_OUT: dict[type, Callable[[Any, IO], Any]] = {
    Commit: _commit,
    Flush: _flush,
    Load: _load,
    Now: _now,
    Sleep: _sleep,
    Invoke: _invoke,
    Fan: _fan,
    Look: look,
    Occupy: _work_on_files,
    Capture: _work_on_files,
    Restore: _work_on_files,
    Graft: _work_on_files,
    Materialise: _work_on_files,
}
