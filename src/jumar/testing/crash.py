"""Crashing a run at a chosen yield, in this very process.

Every flow asks its driver for all it does, request by request, and a crash matters only between two of them: so a
run has twice as many points as requests, one before each is carried out and one after.  `crash_at(harness, n)` ends
the harness's world at the n-th. A world that has ended stays dead: every further request in any thread or task
raises `Crashed`, and its store refuses everything, the lease keeper's renewals and late results included.  So code
that unwinds commits nothing, and the database file is what a process killed at that point would have left.  A new
Harness on the same file is the next process.

    for point in itertools.count(1):
        harness = make_harness(path)
        world = crash_at(harness, point)
        try:
            harness.run(agent, task, run_id=run_id)
            break                              # the run has fewer points than that: the sweep is over
        except Crashed:
            harness.close()
        ...                                    # resume on a new harness, and check what an outside witness saw

With `freezes=True` the world stops there instead, as a process does under SIGSTOP, until `thaw` is called: for what
a worker does that wakes up after another one took its run over.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, cast

from jumar.core.changes import Advance, Change
from jumar.core.records import CallRecord
from jumar.core.requests import Commit, Invoke, Request, Sleep
from jumar.core.store import Store
from jumar.errors import StoreUnavailable, UsageError
from jumar.harness.harness import Harness
from jumar.testing.crash_clock import StoppedClock

_FOREVER = 3600.0  # a sleep as long as this waits for something else, not for time


class Crashed(BaseException):
    """The world of this harness has ended, as it does when a process dies."""


class World:
    """What one harness lives in, up to the point at which it ends or freezes: the `at`-th, or the first whose name
    matches a regular expression; None lets it go on and only counts.

    `points` says how many were passed and `trail` names them.  With a `clock` the flows' sleeps take none of anyone's
    time: they move the clock on instead, and the harness's leases are renewed as often as the keeper's thread would.
    """

    def __init__(
        self, at: int | str | None = None, *, freezes: bool = False, clock: StoppedClock | None = None
    ) -> None:
        self.points = 0
        self.trail: list[str] = []
        self.dead = False
        self.frozen = threading.Event()
        self.at = at
        self._freezes = freezes
        self._still = False
        self._there = False
        self._clock = clock
        self._inhabitant: Harness | None = None
        self._kept_at = 0 if clock is None else clock.ms
        self._names: dict[tuple[int, int], str] = {}  # of calls, by their runs' numbers and their own
        self._thawed = threading.Event()
        self._counting = threading.Lock()
        self._doing = threading.RLock()

    # --- What the drivers call. ---

    def before(self, request: Request[Any]) -> None:
        """A request is about to be carried out."""
        self._pass("before", request)
        if self._clock is not None and type(request) is Sleep and request.seconds < _FOREVER:
            self._clock.move(request.seconds)
            request.seconds = 0.0
            self._keep_leases(self._clock.ms)

    def _keep_leases(self, now: int) -> None:
        """Do what the keeper's thread does in real time, on the clock of this world: a wait in place of nearly a ttl
        would otherwise outlast the lease.
        """
        operations = None if self._inhabitant is None else self._inhabitant._operations
        if self._inhabitant is None or operations is None or now - self._kept_at < self._inhabitant.settings.ttl_ms / 3:
            return
        self._kept_at = now
        operations.renew_leases()

    def after(self, request: Request[Any], answer: Any) -> None:
        """A request was carried out; its answer has not reached the flow yet."""
        self._pass("after", request)

    def around(self, store: Store) -> Store:
        """The store as long as this world goes on."""
        return cast(Store, _MortalStore(store, self))

    def _pass(self, when: str, request: Request[Any]) -> None:
        with self._counting:
            self._check()
            self.points += 1
            if isinstance(request, Commit) and isinstance(request.change, Advance):
                self.meets(request.change.run_no, request.change.calls)
            self.trail.append(f"{when} {shown(request, self._names)}")
            is_here = self._is_here()
            self._there = self._there or is_here
        if is_here:
            self._reached()
        self._wait_while_frozen()

    def meets(self, run_no: int, calls: Iterable[CallRecord]) -> None:
        """Calls of a run, by whose ids points are named from now on."""
        self._names.update({(run_no, call.seq): call.call_id for call in calls})

    def _is_here(self) -> bool:
        if self._there or self.at is None:
            return False
        if isinstance(self.at, int):
            return self.points == self.at
        return re.search(self.at, self.trail[-1]) is not None

    def _reached(self) -> None:
        if self._freezes:
            self._still = True
            with self._doing:
                self.frozen.set()
            return
        self.end()
        raise Crashed("the world ended here")

    def _check(self) -> None:
        if self.dead:
            raise Crashed("this world has ended")

    def _wait_while_frozen(self) -> None:
        if self._still:
            self._thawed.wait()

    # --- What a test calls. ---

    def inhabited_by(self, harness: Harness) -> None:
        """This harness is the one whose world this is."""
        self._inhabitant = harness

    def end(self) -> None:
        """End this world now.  What is being written or done outside at this moment is the last of it."""
        self.dead = True
        operations = None if self._inhabitant is None else self._inhabitant._operations
        if operations is not None:
            operations._engine.io.queue.give_up()  # nobody is to wait for a store that never answers again
        with self._doing:
            pass

    def thaw(self) -> None:
        """Let a frozen world go on."""
        self._thawed.set()

    @contextmanager
    def alive(self) -> Generator[None, None, None]:
        """Do something outside as a part of this world: Crashed once it has ended, and it does not end meanwhile."""
        while True:
            self._wait_while_frozen()
            with self._doing:
                if self._still and not self._thawed.is_set():
                    continue  # frozen in this very moment
                self._check()
                yield
                return


class _MortalStore:
    """A store that refuses everything once its world has ended, but to be closed."""

    def __init__(self, store: Store, world: World) -> None:
        self._store = store
        self._world = world

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found) or name == "close":
            return found

        def guarded(*args: Any, **kwargs: Any) -> Any:
            # An ordinary error: whoever asks here (the lease keeper, a late result) is no flow, and knows how to go
            # without.
            try:
                with self._world.alive():
                    answer = found(*args, **kwargs)
                    if name == "calls":
                        self._world.meets(args[0], answer)
                    return answer
            except Crashed as crash:
                raise StoreUnavailable(str(crash)) from None

        return guarded


def crash_at(harness: Harness, point: int | None, *, freezes: bool = False, clock: StoppedClock | None = None) -> World:
    r"""Have the harness's world end at this point: a number, counted from 1 at its first request, or a regular
    expression
    for the point's name, as in `r"after Invoke\(pay"`; None only counts.

    To be called before the harness is first used; UsageError afterwards.
    """
    return inhabit(harness, World(point, freezes=freezes, clock=clock))


def inhabit(harness: Harness, world: World) -> World:
    """Put a harness, not used yet, into a world."""
    if harness._operations is not None:
        raise UsageError("the harness is in use already", hint="Call crash_at before the first run.")
    harness._watcher = world
    world.inhabited_by(harness)
    return world


def shown(request: Request[Any], names: Mapping[tuple[int, int], str] = MappingProxyType({})) -> str:
    """A request in a few words, to tell where a crash was; `names` are ids of calls by their runs' numbers and their
    own.
    """
    if isinstance(request, Commit):
        return f"Commit({_changed(request.change, names)})"
    if isinstance(request, Invoke):
        call = getattr(request.scope, "call", None)
        body = getattr(request.body, "__name__", "a body")
        return f"Invoke({body} of {call.call_id}, attempt {call.attempt})" if call is not None else f"Invoke({body})"
    return type(request).__name__


def _changed(change: Change, names: Mapping[tuple[int, int], str]) -> str:
    if not isinstance(change, Advance):
        return type(change).__name__
    parts = [f"{record.call_id} {record.state.name}" for record in change.calls]
    for each in change.changes:
        parts.append(f"{names.get((change.run_no, each.seq), f'call {each.seq}')} {each.state.name}")
    parts += [f"ask about {request.call_id}" for request in change.requests]
    if change.ending is not None:
        parts.append(change.ending.status.name)
    return f"Advance: {', '.join(parts) or 'a mark'}"
