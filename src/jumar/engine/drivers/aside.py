"""Bodies that an asyncio driver runs aside, so that their timeout can be kept: in a task, or in a worker thread.

However such a body ends, and whatever arrives meanwhile, the driver answers an attempt and raises nothing.  A plain
body may answer an awaitable; it is then awaited in the loop, under the same timeout.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import isawaitable, iscoroutine
from typing import Any, TypeVar

from jumar.core.requests import Attempt, Invoke
from jumar.engine.io import IO
from jumar.engine.scope import current_scope
from jumar.engine.threads import StrayCancellation, not_cancelled, not_run, run_body, start
from jumar.errors import NotApplied

T = TypeVar("T")

_LINGER_SECONDS = 1.0  # how long a timed-out task is given to end after it was cancelled


def ended_with(error: BaseException) -> BaseException:
    """What came out of a body that this task ran or waited for: a cancellation only where the task is cancelled."""
    task = asyncio.current_task()
    return error if task is not None and task.cancelling() else not_cancelled(error)


async def in_task(request: Invoke, io: IO) -> Attempt:
    """An async body with a timeout, in a task of its own."""
    attempt = Attempt()
    attempt.started_at = io.wall()
    task = asyncio.get_running_loop().create_task(_body_of(request), context=_context(request))
    try:
        done, _ = await asyncio.wait({task}, timeout=request.timeout)
    except asyncio.CancelledError as error:
        return await _given_up_in_task(task, attempt, error, io)
    if done:
        _take(attempt, task)
        attempt.ended_at, attempt.over_at = io.wall(), io.clock()
        return attempt
    _time_out(attempt, io)
    task.add_done_callback(lambda task: _late_end(attempt, task, io))
    return await _ended_by_cancelling(task, attempt, io)


async def in_thread(request: Invoke, io: IO) -> Attempt:
    """A plain body in a worker thread; the loop goes on meanwhile."""
    attempt = Attempt()
    attempt.started_at = io.wall()
    aside = _Threaded(request, io, attempt)
    try:
        start(aside.context, aside.work, "jumar-call")
    except NotApplied as error:
        return not_run(attempt, error, io.clock, io.wall)
    try:
        done, _ = await asyncio.wait({aside.over}, timeout=request.timeout)
    except asyncio.CancelledError as error:
        _given_up(attempt, error, io, attempt.over_at)  # which it has where the body ended in the same moment
        aside.abandon()
        return attempt
    if not done:
        _time_out(attempt, io)
        aside.abandon()
        if aside.task is not None:
            return await _ended_by_cancelling(aside.task, attempt, io)
    return attempt


class _Threaded:
    """A plain body on its way through a thread, and the awaitable it may have answered.

    `over` is done once both have ended, unless the driver has stopped waiting before.  Then the loop may stop, too,
    before it has heard of the end, which is therefore filed by whoever of the two, thread or driver, comes last.
    """

    def __init__(self, request: Invoke, io: IO, attempt: Attempt) -> None:
        self.context = _context(request)
        self.task: asyncio.Task[Any] | None = None
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._request = request
        self._io = io
        self._attempt = attempt
        self._ran = Attempt()
        self._lock = threading.Lock()
        self._returning = self._abandoned = self._filed = False

    def work(self) -> None:
        """What the thread does."""
        request, io = self._request, self._io
        run_body(self._ran, lambda: request.body(*request.args, **request.kwargs), io.clock, io.wall)
        with self._lock:
            self._returning, abandoned = True, self._abandoned
        if not abandoned:
            try:
                self._loop.call_soon_threadsafe(self._returned)
                return
            except RuntimeError:  # the loop is gone, and with it whoever waited; what is known now may still be filed
                pass
        self._not_awaited()
        if self._file():
            _file_late(self._attempt)

    def abandon(self) -> None:
        """The driver stops waiting."""
        with self._lock:
            self._abandoned, returning = True, self._returning
        self.over.cancel()
        if self.task is not None:
            self.task.cancel()
        elif returning:
            self._returned()

    def _returned(self) -> None:
        value = self._ran.value
        if not isawaitable(value) or self.over.done():
            self._not_awaited()
            self._settle()
            return
        self.task = self._loop.create_task(_value_of(value), context=self.context.copy())
        self.task.add_done_callback(self._awaited)

    def _awaited(self, task: asyncio.Task[Any]) -> None:
        ran = self._ran
        _take(ran, task)
        ran.ended_at, ran.over_at = self._io.wall(), self._io.clock()
        self._settle()

    def _not_awaited(self) -> None:
        """An awaitable that came when nobody waited any more is never begun; what it would have done is not done."""
        ran = self._ran
        if isawaitable(ran.value):
            if iscoroutine(ran.value):
                ran.value.close()
            ran.value = None
            ran.error = StrayCancellation("the time was over before what the body answered could be awaited")

    def _settle(self) -> None:
        if not self.over.done():
            self._attempt.ended_at = self._ran.ended_at
            self.over.set_result(None)
        if self._file():
            _file_elsewhere(self._attempt)

    def _file(self) -> bool:
        """File the end; False where that is done."""
        with self._lock:
            if self._filed:
                return False
            self._filed = True
        attempt, ran = self._attempt, self._ran
        if attempt.error is None:  # else it was given up, and answered as that
            attempt.value, attempt.error = ran.value, ran.error
        attempt.over_at = ran.over_at
        return True


def _context(request: Invoke) -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(current_scope.set, request.scope)
    return context


async def _body_of(request: Invoke) -> Any:
    return await request.body(*request.args, **request.kwargs)


async def _value_of(value: Awaitable[Any]) -> Any:
    return await value


def _take(attempt: Attempt, task: asyncio.Task[Any]) -> None:
    """How a task ended."""
    if task.cancelled():
        attempt.value, attempt.error = None, ended_with(asyncio.CancelledError())
        return
    error = task.exception()
    attempt.error = error
    attempt.value = None if error is not None else task.result()


def _time_out(attempt: Attempt, io: IO) -> None:
    attempt.timed_out = True
    attempt.ended_at = io.wall()


def _given_up(attempt: Attempt, error: asyncio.CancelledError, io: IO, over_at: int | None) -> Attempt:
    attempt.error = error
    attempt.ended_at = io.wall()
    attempt.over_at = over_at
    return attempt


async def _given_up_in_task(
    task: asyncio.Task[Any], attempt: Attempt, error: asyncio.CancelledError, io: IO
) -> Attempt:
    """Cancel a task that nobody waits for any more.  It is over when its cleaning up is, which may still act; a moment
    is given to that, as a body in the agent's own task takes what it needs.
    """
    task.add_done_callback(lambda task: _late_end(attempt, task, io))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.wait({task}, timeout=_LINGER_SECONDS)
    return _given_up(attempt, error, io, io.clock() if task.done() else None)


async def _ended_by_cancelling(task: asyncio.Task[Any], attempt: Attempt, io: IO) -> Attempt:
    """Give a timed-out task a moment to end.  The agent may give the call up meanwhile: that is how it then ended."""
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=_LINGER_SECONDS)
    except asyncio.CancelledError as error:
        attempt.timed_out = False
        attempt.value = None
        return _given_up(attempt, error, io, attempt.over_at)
    return attempt


def _late_end(attempt: Attempt, task: asyncio.Task[Any], io: IO) -> None:
    if attempt.timed_out:
        _take(attempt, task)
    elif not task.cancelled():
        task.exception()  # looked at, so that asyncio does not complain of it
    attempt.over_at = io.clock()
    _file_elsewhere(attempt)


def _file_elsewhere(attempt: Attempt) -> None:
    """Tell whoever waits to hear of a late end, in a thread of its own: that commits, and a loop must not wait."""
    if attempt.late is None:
        return
    try:
        start(contextvars.copy_context(), lambda: _file_late(attempt), "jumar-late")
    except NotApplied:
        _file_late(attempt)


def _file_late(attempt: Attempt) -> None:
    if attempt.late is not None:
        attempt.late()


def answer_in_thread(work: Callable[[], Any], answer: asyncio.Future[Any], name: str) -> None:
    """Do the work in a thread of its own, and answer its result, or its error, in the loop of `answer`."""
    loop = asyncio.get_running_loop()

    def whole() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop is gone, and with it whoever waited
            return

    def settle(value: Any, error: BaseException | None) -> None:
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    start(contextvars.copy_context(), whole, name)


async def in_own_thread(work: Callable[[], T], name: str) -> T:
    """Work that may take as long as it likes, in a thread of its own: a pool would let only a few run at once."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    ran = Attempt()

    def tell() -> None:
        if not over.done():
            over.set_result(None)

    def whole() -> None:
        try:
            ran.value = work()
        except BaseException as error:
            ran.error = error
        try:
            loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop is gone, and with it whoever waited
            return

    start(contextvars.copy_context(), whole, name)
    await over
    if ran.error is not None:
        raise ran.error
    value: T = ran.value
    return value
