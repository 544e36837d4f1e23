"""The asyncio driver: carries out the same flows' requests, awaiting where the plain driver blocks.

Commits go through the same queue; those of one tick of the loop go together.  A commit is never given up half-way: a
cancellation that arrives meanwhile counts after it, when the flow knows what is on disk.
"""

from __future__ import annotations

import asyncio
import contextvars
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeVar

from jumar.core.requests import Attempt, Commit, Fan, Flow, Invoke, Load, Now, Request, Sleep
from jumar.engine.io import IO
from jumar.engine.scope import current_scope
from jumar.engine.threads import not_run, run_body, start
from jumar.errors import NotApplied

T = TypeVar("T")

_LINGER_SECONDS = 1.0  # how long a timed-out task is given to end after it was cancelled


class _Answer(asyncio.Future[Any]):
    """The answer to a commit.  It cannot be cancelled, so a task that waits for it gets its cancellation once it is
    there.  (`asyncio.shield` would do the same with a second future and another turn of the loop.)
    """

    def cancel(self, msg: Any = None) -> bool:
        """Refuse."""
        return False


async def adrive(flow: Flow[T], io: IO) -> T:
    """Run a flow to its end in this task."""
    answer: Any = None
    error: BaseException | None = None
    watcher = io.watcher
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            request = flow.send(answer) if error is None else flow.throw(error)
        except StopIteration as stop:
            _cancel_later(cancelled)
            value: T = stop.value
            return value
        except Exception:
            _cancel_later(cancelled)
            raise
        error = None
        try:
            if watcher is not None:
                watcher.before(request)
            if type(request) is Commit:
                answer, interrupted = await _commit(request, io)
                cancelled = interrupted or cancelled
            elif cancelled is not None and type(request) is Invoke:
                answer = not_run(Attempt(), cancelled, io.clock, io.wall)
            elif cancelled is not None and type(request) is Sleep:
                raise cancelled
            else:
                answer = await _carry_out(request, io)
            if watcher is not None:
                watcher.after(request, answer)
        except BaseException as raised:
            error = raised


def _cancel_later(cancelled: asyncio.CancelledError | None) -> None:
    """A cancellation came while the end of a call was on its way to disk: it came too late for that call, which answers
    as it is recorded, now as on every replay.  Where the whole task was meant, and not the call alone, its next await
    is cancelled instead.
    """
    task = asyncio.current_task()
    if cancelled is not None and task is not None:
        asyncio.get_running_loop().call_soon(_cancel_again, task)


def _cancel_again(task: asyncio.Task[Any]) -> None:
    if not task.done() and task.cancelling():
        task.cancel()
        task.uncancel()


async def _commit(request: Commit, io: IO) -> tuple[Any, asyncio.CancelledError | None]:
    loop = asyncio.get_running_loop()
    answer = _Answer(loop=loop)
    io.queue.submit_async(request.change, request.lane, loop, answer)
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            return await answer, cancelled
        except asyncio.CancelledError as error:
            cancelled = error


async def _carry_out(request: Request[Any], io: IO) -> Any:
    if type(request) is Invoke:
        return await _invoke(request, io)
    if isinstance(request, Load):
        return request.read(io.store)
    if isinstance(request, Sleep):
        return await asyncio.sleep(request.seconds)
    if isinstance(request, Now):
        return io.now()
    if isinstance(request, Fan):
        return await _fan(request, io)
    raise TypeError(f"{type(request).__name__} is no request")


async def _invoke(request: Invoke, io: IO) -> Attempt:
    if request.threaded or request.timeout is not None:
        if not iscoroutinefunction(request.body):
            return await _in_thread(request, io)
        if request.timeout is not None:
            return await _with_timeout(request, io)
    attempt = Attempt()
    scope = request.scope
    if scope.call is None:
        scope.settle_in(asyncio.current_task())
    token = current_scope.set(scope)
    attempt.started_at = io.wall()
    try:
        value = request.body(*request.args, **request.kwargs)
        if isawaitable(value):
            value = await value
        attempt.value = value
    except BaseException as error:
        attempt.error = error
    finally:
        current_scope.reset(token)
    attempt.ended_at = io.wall()
    attempt.over_at = io.clock()
    return attempt


async def _with_timeout(request: Invoke, io: IO) -> Attempt:
    attempt = Attempt()
    attempt.started_at = io.wall()
    context = contextvars.copy_context()
    context.run(current_scope.set, request.scope)
    task = asyncio.get_running_loop().create_task(_awaited(request), context=context)
    try:
        done, _ = await asyncio.wait({task}, timeout=request.timeout)
    except asyncio.CancelledError as error:
        task.cancel()
        attempt.error = error
        attempt.ended_at, attempt.over_at = io.wall(), io.clock()
        return attempt
    if not done:
        attempt.timed_out = True
        attempt.ended_at = io.wall()
        task.cancel()
        task.add_done_callback(lambda task: _file(attempt, task, io))
        await asyncio.wait({task}, timeout=_LINGER_SECONDS)
        return attempt
    _file(attempt, task, io)
    return attempt


async def _awaited(request: Invoke) -> Any:
    return await request.body(*request.args, **request.kwargs)


def _file(attempt: Attempt, task: asyncio.Task[Any], io: IO) -> None:
    if task.cancelled():
        attempt.error = asyncio.CancelledError()
    else:
        attempt.error = task.exception()
        attempt.value = None if attempt.error is not None else task.result()
    if not attempt.timed_out:
        attempt.ended_at = io.wall()
    attempt.over_at = io.clock()
    if attempt.timed_out and attempt.late is not None:
        attempt.late()


async def _in_thread(request: Invoke, io: IO) -> Attempt:
    """A plain body in a worker thread; the loop goes on meanwhile."""
    loop = asyncio.get_running_loop()
    attempt = Attempt()
    attempt.started_at = io.wall()
    over = loop.create_future()
    ran = Attempt()
    context = contextvars.copy_context()
    context.run(current_scope.set, request.scope)

    def work() -> None:
        run_body(ran, lambda: request.body(*request.args, **request.kwargs), io.clock, io.wall)
        try:
            loop.call_soon_threadsafe(ended)
        except RuntimeError:  # the loop is gone, and with it whoever waited; what is known now may still be filed
            file()

    def file() -> None:
        attempt.value, attempt.error, attempt.over_at = ran.value, ran.error, ran.over_at
        if attempt.timed_out and attempt.late is not None:
            attempt.late()

    def ended() -> None:
        if not over.done():
            attempt.ended_at = ran.ended_at
            over.set_result(None)
        file()

    try:
        start(context, work, "jumar-call")
    except NotApplied as error:
        return not_run(attempt, error, io.clock, io.wall)
    try:
        done, _ = await asyncio.wait({over}, timeout=request.timeout)
    except asyncio.CancelledError as error:
        over.cancel()
        attempt.error = error
        attempt.ended_at = io.wall()
        return attempt
    if not done:
        attempt.timed_out = True
        attempt.ended_at = io.wall()
        over.cancel()
    return attempt


async def _fan(request: Fan, io: IO) -> list[Attempt]:
    """One task an item, all at once."""
    loop = asyncio.get_running_loop()
    attempts = [Attempt() for _ in request.bodies]
    tasks = []
    for invoke, attempt in zip(request.bodies, attempts, strict=True):
        context = contextvars.copy_context()
        context.run(current_scope.set, invoke.scope)
        tasks.append(loop.create_task(_branch(invoke, attempt, io), context=context))
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    return attempts


async def _branch(invoke: Invoke, attempt: Attempt, io: IO) -> None:
    invoke.scope.settle_in(asyncio.current_task())
    attempt.started_at = io.wall()
    try:
        value = invoke.body()
        attempt.value = await value if isawaitable(value) else value
    except BaseException as error:
        attempt.error = error
    attempt.ended_at = io.wall()
    attempt.over_at = io.clock()
