"""The asyncio driver: carries out the same flows' requests, awaiting where the plain driver blocks.

Commits go through the same queue; those of one tick of the loop go together.  A commit is never given up half-way: a
cancellation that arrives meanwhile counts after it, when the flow knows what is on disk.
"""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial
from inspect import isawaitable, iscoroutinefunction
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
from jumar.engine.drivers.aside import answer_in_thread, ended_with, in_own_thread, in_task, in_thread
from jumar.engine.drivers.plain import look
from jumar.engine.io import IO
from jumar.engine.scope import current_scope
from jumar.engine.threads import not_run
from jumar.errors import NotApplied, StoreBusy

T = TypeVar("T")

_ASIDE = frozenset({Occupy, Capture, Restore, Graft, Materialise, Look})  # what blocks, and is seen through

# The worker threads of the innermost `gather` or `map` around: so many of its items may have one at once.
_workers: contextvars.ContextVar[asyncio.Semaphore | None] = contextvars.ContextVar("jumar_workers", default=None)


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
                answer, interrupted = await (_commit(request, io) if request.hot is None else _commit_hot(request, io))
                cancelled = interrupted or cancelled
            elif type(request) is Flush:
                answer, interrupted = await _flush(request, io)
                cancelled = interrupted or cancelled
            elif type(request) in _ASIDE:
                answer, interrupted = await _work_aside(request, io)
                cancelled = interrupted or cancelled
            elif cancelled is not None and type(request) is Invoke:
                answer = not_run(Attempt(), cancelled, io.clock, io.wall)
            elif cancelled is not None and isinstance(request, (Sleep, Fan)):
                raise cancelled
            else:
                answer = await _carry_out(request, io)
            if watcher is not None:
                watcher.after(request, answer)
        except BaseException as raised:
            error = raised


async def adrive_in_turn(flow: Flow[T], io: IO) -> T:
    """Run the flow of an item that takes a worker thread, once one of its fan's is free.

    The turn comes before the flow begins: nothing is recorded as sent while it still waits for its thread.
    """
    workers = _workers.get()
    if workers is None:
        return await adrive(flow, io)
    async with workers:
        return await adrive(flow, io)


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
    return await _seen_through(answer)


async def _commit_hot(request: Commit, io: IO) -> tuple[Any, asyncio.CancelledError | None]:
    """Nothing is waited for where there is room; but the loop gets its turn all the same, as without it an agent whose
    tools never wait would keep every other task from going on.
    """
    loop = asyncio.get_running_loop()
    answer = _Answer(loop=loop)
    assert request.lane is not None and request.hot is not None and isinstance(request.change, Advance)
    ack = io.queue.submit_hot_async(request.change, request.lane, loop, answer, request.hot)
    if ack is None:
        return await _seen_through(answer)
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError as cancelled:
        return ack, cancelled
    return ack, None


async def _flush(request: Flush, io: IO) -> tuple[Any, asyncio.CancelledError | None]:
    if io.queue.is_idle():
        return None, None
    loop = asyncio.get_running_loop()
    answer = _Answer(loop=loop)
    io.queue.submit_async(None, request.lane, loop, answer)
    _, cancelled = await _seen_through(answer)
    return None, cancelled


async def _work_aside(request: Request[Any], io: IO) -> tuple[Any, asyncio.CancelledError | None]:
    """In a thread of its own; it is seen through to its end.  Nobody may write to the files meanwhile, and what is
    looked at after a call was recorded must not undo that it has ended.
    """
    work = partial(look, request, io) if isinstance(request, Look) else partial(io.carry_out, request)
    answer = _Answer(loop=asyncio.get_running_loop())
    try:
        answer_in_thread(work, answer, "jumar-aside")
    except NotApplied:  # no thread is left
        return work(), None
    return await _seen_through(answer)


async def _seen_through(answer: _Answer) -> tuple[Any, asyncio.CancelledError | None]:
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
        return await _load(request, io)
    if isinstance(request, Sleep):
        return await asyncio.sleep(request.seconds)
    if isinstance(request, Now):
        return io.now()
    if isinstance(request, Fan):
        return await _fan(request, io)
    raise TypeError(f"{type(request).__name__} is no request")


async def _load(request: Load[Any], io: IO) -> Any:
    """Read here, where that takes next to no time; in a thread where the store's server has to be waited for."""
    at_once = getattr(io.store, "at_once", None)
    read = partial(request.read, io.store)
    if at_once is None:
        return read()
    try:
        return at_once(read)
    except StoreBusy:
        return await in_own_thread(read, "jumar-load")


async def _invoke(request: Invoke, io: IO) -> Attempt:
    if request.threaded or request.timeout is not None:
        if not iscoroutinefunction(request.body):
            return await in_thread(request, io)
        if request.timeout is not None:
            return await in_task(request, io)
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
        attempt.error = ended_with(error)
    finally:
        current_scope.reset(token)
    attempt.ended_at = io.wall()
    attempt.over_at = io.clock()
    return attempt


async def _fan(request: Fan, io: IO) -> list[Attempt]:
    """One task an item, all at once; of items that take a thread, at most 64 have one."""
    loop = asyncio.get_running_loop()
    attempts = [Attempt() for _ in request.bodies]
    tasks = []
    workers = asyncio.Semaphore(MAX_WORKERS)
    for invoke, attempt in zip(request.bodies, attempts, strict=True):
        context = contextvars.copy_context()
        context.run(current_scope.set, invoke.scope)
        context.run(_workers.set, workers)
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
        attempt.error = ended_with(error)
    attempt.ended_at = io.wall()
    attempt.over_at = io.clock()
