"""What the tests of waiting, steering, identity and reopening share: one script for a plain and an async agent, and an
operator who acts in the very moment that a test chooses.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run, RunResult
from jumar.core.changes import Advance
from jumar.core.requests import Commit, Request
from jumar.core.store import Store
from jumar.testing.crash import World, inhabit
from jumar.testing.crash_clock import StoppedClock, stopped_clock

PATIENCE = 60.0  # seconds after which something that should have come is taken not to come at all

Script = Callable[[Any, Any], Generator[Any, Any, Any]]


def _kinds(*pairs: tuple[str, bool]) -> pytest.MarkDecorator:
    ids = [f"{store}-{'asyncio' if waits else 'plain'}" for store, waits in pairs]
    return pytest.mark.parametrize(("harness", "waits"), pairs, indirect=["harness"], ids=ids)


# A plain and an async agent, and both stores; where threads or tasks meet a store, each kind of agent on each store.
both_kinds = _kinds(("memory", False), ("sqlite", True))
every_kind = _kinds(("memory", False), ("memory", True), ("sqlite", False), ("sqlite", True))
# For many values, none of which another store treats otherwise.
kinds_in_memory = _kinds(("memory", False), ("memory", True))
in_memory = pytest.mark.parametrize("harness", ["memory"], indirect=True)


@pytest.fixture
def clock() -> Iterator[StoppedClock]:
    """The clocks stand still, but for harnesses that are used within the test only."""
    with stopped_clock() as stopped:
        yield stopped


def scripted(harness: Harness, waits: bool, name: str | None = None) -> Callable[[Script], Any]:
    """Make a generator an agent, plain or async: what it yields is its call, and it gets the answer back.

    In a plain agent the call is made where it is written; in an async one it is awaited, and its answer, or its error,
    comes in where the script yields.
    """

    def decorate(script: Script) -> Any:
        def plain(run: Run, task: Any) -> Any:
            steps, answer = script(run, task), None
            while True:
                try:
                    answer = steps.send(answer)
                except StopIteration as stop:
                    return stop.value

        async def awaited(run: AsyncRun, task: Any) -> Any:
            steps = script(run, task)
            answer: Any = None
            error: BaseException | None = None
            while True:
                try:
                    asked = steps.send(answer) if error is None else steps.throw(error)
                except StopIteration as stop:
                    return stop.value
                answer, error = None, None
                try:
                    answer = await asked if inspect.isawaitable(asked) else asked
                except BaseException as raised:
                    error = raised

        return harness.agent(name=name or script.__name__)(awaited if waits else plain)

    return decorate


def once(event: threading.Event, waits: bool, make: Callable[[], Any]) -> Callable[[], Any]:
    """An item of a gather: a call that is made when the event has come."""

    def body() -> Any:
        assert event.wait(PATIENCE)
        return make()

    async def awaited() -> Any:
        assert await asyncio.to_thread(event.wait, PATIENCE)
        return await make()

    return awaited if waits else body


def asked(result: RunResult[Any]) -> list[tuple[str, str, int]]:
    """What a run waits for: the call, what is asked about it, and which attempt."""
    return [(each.call_id, each.kind, each.attempt) for each in result.waiting_on]


class Moment:
    """A watcher that does something once, right before a request of a chosen kind is carried out."""

    def __init__(self, matches: Callable[[Request[Any]], bool], act: Callable[[], None]) -> None:
        self._matches = matches
        self._act = act
        self._lock = threading.Lock()
        self.acted = False

    def around(self, store: Store) -> Store:
        """The store, as it is."""
        return store

    def before(self, request: Request[Any]) -> None:
        """Act, where this is the moment."""
        with self._lock:
            is_now = not self.acted and self._matches(request)
            self.acted = self.acted or is_now
        if is_now:
            self._act()

    def after(self, request: Request[Any], answer: Any) -> None:
        """Nothing."""


def at(harness: Harness, matches: Callable[[Request[Any]], bool], act: Callable[[], None]) -> Moment:
    """Have something done in the moment before a request; to be called before the harness is first used."""
    moment = Moment(matches, act)
    harness._watcher = moment
    return moment


def leaves_as(status: str) -> Callable[[Request[Any]], bool]:
    """Whether a request takes a run out of RUNNING with this status."""

    def matches(request: Request[Any]) -> bool:
        change = request.change if isinstance(request, Commit) else None
        return isinstance(change, Advance) and change.ending is not None and change.ending.status.name == status

    return matches


def sleeping_on(harness: Harness, clock: StoppedClock) -> World:
    """Let the harness's sleeps move the clock; to be called before it is first used."""
    return inhabit(harness, World(clock=clock))


def side_by_side(*acts: Callable[[], Any]) -> list[Any]:
    """Do things in threads of their own that start together; answers what each returned, or raised."""
    barrier = threading.Barrier(len(acts))
    ended: list[Any] = [None] * len(acts)

    def work(index: int) -> None:
        barrier.wait(PATIENCE)
        try:
            ended[index] = acts[index]()
        except Exception as error:
            ended[index] = error

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return ended
