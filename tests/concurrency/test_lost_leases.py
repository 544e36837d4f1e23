"""A worker that has lost its lease, or may have: it records nothing and sends nothing, whatever its agent's code
does about it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.core.changes import Change, Outcome
from jumar.core.store import Store
from jumar.errors import LeaseLost, StoreUnavailable
from jumar.testing.crash import World, inhabit
from jumar.testing.crash_clock import StoppedClock, stopped_clock
from jumar.testing.witness import Witness

TTL = 30.0
RUN = "01a00000-0000-7000-8000-000000000001"


class Away(World):
    """A world in which the store can be out of reach."""

    def __init__(self, clock: StoppedClock) -> None:
        super().__init__(clock=clock)
        self.cut_off = False

    def around(self, store: Store) -> Store:
        """The store, which refuses to write while it is out of reach."""
        return super().around(cast(Store, _Reachable(store, self)))


class _Reachable:
    def __init__(self, store: Any, world: Away) -> None:
        self._store = store
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        if self._world.cut_off:
            raise StoreUnavailable("the store is out of reach")
        return cast(list[Outcome | Exception], self._store.write(changes, wait=wait))


class Scene:
    """Two workers on one database: `first`, in whose tool `look` something happens, and `second`, in which nothing
    does."""

    def __init__(self, folder: Path, clock: StoppedClock, *, waits: bool) -> None:
        self.clock = clock
        self.witness = Witness(folder / "witness")
        self.world = Away(clock)
        self.happens: Callable[[], None] = lambda: None
        self.swallowed: list[Exception] = []
        self._folder = folder
        self._waits = waits
        self.first = self._harness("first")
        self.second = self._harness("second")
        inhabit(self.first, self.world)

    def _harness(self, by: str) -> Harness:
        harness = Harness(f"sqlite:///{self._folder / 'run.db'}", lease_ttl=TTL)
        witness = Witness(self._folder / "witness", by=by)

        @harness.tool(effect="read", retries=3)
        def look() -> str:
            witness.note("read", "look")
            if by == "first":
                self.happens()
            return "seen"

        @harness.tool(effect="external")
        def pay(cents: int) -> str:
            witness.send("pay")
            return "paid"

        self._agent(harness, look, pay)
        return harness

    def _agent(self, harness: Harness, look: Any, pay: Any) -> None:
        """An agent that takes every exception for an answer, and goes on."""
        if not self._waits:

            @harness.agent
            def work(run: Run, task: str) -> str:
                for call in (lambda: run.call(look), lambda: run.call(pay, 1), lambda: run.call(pay, 2)):
                    try:
                        call()
                    except Exception as error:
                        self.swallowed.append(error)
                return "done"
        else:

            @harness.agent
            async def work(run: AsyncRun, task: str) -> str:
                for call in (lambda: run.call(look), lambda: run.call(pay, 1), lambda: run.call(pay, 2)):
                    try:
                        await call()
                    except Exception as error:
                        self.swallowed.append(error)
                return "done"

    def taken_over(self) -> None:
        """The lease runs out, and the second worker does the whole run."""
        self.clock.move(TTL + 0.001)
        # In a thread of its own, as another process would be: this is called inside a body of the first worker's.
        thread = threading.Thread(target=lambda: self.second.resume(RUN))
        thread.start()
        thread.join()

    def renewed(self) -> None:
        """The lease keeper of the first worker wakes up."""
        self.first._open()._engine.leases.renew_all()

    def is_refused(self) -> None:
        """The first worker runs, and is refused in the end."""
        with pytest.raises(LeaseLost):
            self.first.run("work", "go", run_id=RUN)
        assert self.swallowed == [], "the agent took the stopping signal for a tool's answer"

    def sent(self) -> list[tuple[str, str]]:
        """Who sent what."""
        return [(line.by, line.tool) for line in self.witness.lines() if line.what == "sent"]


@pytest.fixture
def scene(tmp_path: Path, waits: bool) -> Iterator[Scene]:
    """The two workers, on clocks that only the test moves."""
    with stopped_clock() as clock:
        scene = Scene(tmp_path, clock, waits=waits)
        with scene.first, scene.second:
            yield scene


def test_a_worker_whose_run_was_taken_over_sends_nothing_although_its_agent_catches_every_exception(
    scene: Scene,
) -> None:
    scene.happens = scene.taken_over
    scene.is_refused()
    assert scene.sent() == [("second", "pay"), ("second", "pay")]
    assert scene.second.show(RUN).run.status == "COMPLETED"


def test_a_worker_whose_lease_ran_out_sends_nothing_although_nobody_took_the_run_over(scene: Scene) -> None:
    scene.happens = lambda: scene.clock.move(TTL + 0.001)
    scene.is_refused()
    assert scene.sent() == []
    assert scene.second.resume(RUN).status == "COMPLETED"
    assert scene.sent() == [("second", "pay"), ("second", "pay")]


def test_a_renewal_that_comes_too_late_does_not_revive_the_lease(scene: Scene) -> None:
    def happens() -> None:
        scene.clock.move(TTL + 0.001)
        scene.renewed()

    scene.happens = happens
    scene.is_refused()
    assert scene.sent() == []


def test_a_worker_cut_off_from_the_store_until_its_lease_ran_out_is_refused_when_it_is_back(scene: Scene) -> None:
    def happens() -> None:
        scene.world.cut_off = True
        scene.clock.move(TTL / 3)
        scene.renewed()
        scene.taken_over()
        scene.world.cut_off = False

    scene.happens = happens
    scene.is_refused()
    assert scene.sent() == [("second", "pay"), ("second", "pay")]


def test_a_worker_cut_off_from_the_store_sends_nothing_new_once_it_cannot_be_sure_of_its_lease(scene: Scene) -> None:
    def happens() -> None:
        scene.world.cut_off = True
        scene.clock.move(TTL * 0.95)  # the lease lasts a little longer, by a clock that another might read differently
        scene.renewed()
        raise ConnectionError("try again")

    scene.happens = happens
    scene.is_refused()
    assert scene.witness.count("read", "look") == 1, "the read was tried again although the lease was in doubt"
    assert scene.sent() == []


def test_a_worker_whose_renewals_arrive_goes_on_for_as_long_as_it_takes(scene: Scene) -> None:
    def happens() -> None:
        for _ in range(6):
            scene.clock.move(TTL * 0.6)
            scene.renewed()
        if scene.witness.count("read", "look") == 1:
            raise ConnectionError("try again")

    scene.happens = happens
    assert scene.first.run("work", "go", run_id=RUN).status == "COMPLETED"
    assert scene.sent() == [("first", "pay"), ("first", "pay")]


def test_a_worker_that_cannot_record_stops_there(scene: Scene) -> None:
    def happens() -> None:
        scene.world.cut_off = True

    scene.happens = happens
    with pytest.raises(StoreUnavailable):
        scene.first.run("work", "go", run_id=RUN)
    assert (scene.swallowed, scene.sent()) == ([], [])
    scene.clock.move(TTL + 0.001)
    assert scene.second.resume(RUN).status == "COMPLETED"
