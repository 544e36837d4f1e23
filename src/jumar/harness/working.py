"""A worker: drives the runs of a harness's agents that are due, until it is told to stop.

    stop = threading.Event()
    report = harness.work(concurrency=8, stop=stop)

It is what `jumar worker` does, for whatever starts and ends processes by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jumar.core.working import DEFAULT_CONCURRENCY, DEFAULT_GRACE, DEFAULT_POLL
from jumar.errors import UsageError
from jumar.harness.options import seconds, whole
from jumar.harness.results import RunResult

if TYPE_CHECKING:
    from jumar.engine.places import Happening, Told
    from jumar.harness.harness import Harness

MOST_AT_ONCE = 1000
MOST_CRASHES = 1_000_000


class WorkerEvent(Struct, frozen=True):
    """What a worker tells, as it happens.

    Of a run, `what` is "taken-up"; "left", with the run's `result`: it has ended, waits, was stopped by an order, or is
    QUEUED again because the worker ends; "not-driven", with the `error` that kept it from being driven on, after which
    it is left alone for a while; or "given-up": its agent hangs, so that its lease was left to run out.  `epoch` counts
    the claims of a run that is taken up, `crashes` how many processes have ended under it since it last recorded
    something new.

    Of the worker itself it is "stopping", and "handing-over" once the grace time is over, each with how many runs are
    `under_way`.
    """

    what: str
    run_id: str = ""
    agent: str = ""
    result: RunResult[Any] | None = None
    error: BaseException | None = None
    epoch: int = 0
    crashes: int = 0
    under_way: int = 0


class WorkerReport(Struct, frozen=True):
    """What a worker has done: how many runs it took up, and how often one was left in each status.

    `not_driven` counts how often a run could not be driven on, `given_up` how often one was hanging.  `abandoned` are
    the ids of runs that were under way still when it was told to leave at once.
    """

    taken_up: int = 0
    left: dict[str, int] = {}
    not_driven: int = 0
    given_up: int = 0
    abandoned: tuple[str, ...] = ()


def work(
    harness: Harness,
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    stop: Told | None = None,
    poll: float = DEFAULT_POLL,
    grace: float = DEFAULT_GRACE,
    max_crashes: int | None = None,
    until_idle: bool = False,
    told: Callable[[WorkerEvent], None] | None = None,
) -> WorkerReport:
    """Drive the runs of the harness's agents that are due, `concurrency` at a time, until `stop` is set.

    `stop` is a `threading.Event`, or anything with `is_set()`; without one it works for ever.  With `until_idle` it
    returns once nothing is due.  Every `poll` seconds it looks for runs that it was not told of.  Told to stop, it lets
    what it drives end within `grace` seconds, then leaves each run, at its next call, QUEUED for others.  A run under
    which `max_crashes` processes have ended without recording anything new is FAILED with the error type
    `WorkerCrashed`; the harness's own number is taken where none is given.  `told` is called with each `WorkerEvent`,
    from this thread.

    Each run has a thread of its own, an async agent's with an event loop of its own.  The store's errors are waited
    out.  UsageError where an option is none, or the harness has no agents.
    """
    from jumar.engine.places import Options, Stop

    options = Options(
        concurrency=whole("concurrency", concurrency, 1, MOST_AT_ONCE),
        poll=_given("poll", poll, zero=False),
        grace=_given("grace", grace, zero=True),
        max_crashes=harness.settings.max_crashes
        if max_crashes is None
        else whole("max_crashes", max_crashes, 1, MOST_CRASHES),
        until_idle=until_idle,
    )
    require_agents(harness)
    counts = _Counts(told)
    worker = harness._open().worker(harness.agents, options, stop=stop or Stop(), told=counts.tell)
    return counts.report(tuple(worker.work()))


async def awork(harness: Harness, stop: Told | None, **options: Any) -> WorkerReport:
    """`work` in a thread; a cancellation stops it, and arrives once it has let go of its runs."""
    import asyncio

    from jumar.engine.places import Stop

    cancelled = Stop()
    either = cancelled if stop is None else _Either(cancelled, stop)
    working = asyncio.ensure_future(asyncio.to_thread(work, harness, stop=either, **options))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        cancelled.set()
        await asyncio.wait([working])
        raise


class _Either:
    """Told to stop by one or the other."""

    def __init__(self, *stops: Told) -> None:
        self._stops = stops

    def is_set(self) -> bool:
        return any(stop.is_set() for stop in self._stops)


def _given(name: str, value: float, *, zero: bool) -> float:
    found = seconds(name, value, zero=zero)
    if found is None:
        raise UsageError(f"{name}={value!r} is not a number of seconds")
    return found


def _event(happened: Happening) -> WorkerEvent:
    run = happened.run
    if run is None:
        return WorkerEvent(happened.kind, under_way=happened.under_way)
    return WorkerEvent(happened.kind, run.run_id, run.agent, happened.result, happened.error, run.epoch, run.crashes)


def require_agents(harness: Harness) -> None:
    """UsageError where a worker would have nothing to run."""
    if not harness.agents:
        raise UsageError("the harness has no agents, so a worker has nothing to run", hint="Use @harness.agent first.")


class _Counts:
    """Counts what happens, and tells it on."""

    def __init__(self, told: Callable[[WorkerEvent], None] | None) -> None:
        self._told = told
        self._taken_up = 0
        self._left: dict[str, int] = {}
        self._not_driven = 0
        self._given_up = 0

    def tell(self, happened: Happening) -> None:
        if happened.kind == "taken-up":
            self._taken_up += 1
        elif happened.kind == "left":
            self._left[happened.result.status] = self._left.get(happened.result.status, 0) + 1
        elif happened.kind == "not-driven":
            self._not_driven += 1
        elif happened.kind == "given-up":
            self._given_up += 1
        if self._told is not None:
            self._told(_event(happened))

    def report(self, abandoned: tuple[str, ...]) -> WorkerReport:
        return WorkerReport(self._taken_up, self._left, self._not_driven, self._given_up, abandoned)
