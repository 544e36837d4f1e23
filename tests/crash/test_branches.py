"""Parallel branches that each read and then pay: they may finish in any order, die anywhere and go on elsewhere;
each pays once, and for what it read itself.

All branches ask for the same thing with the same arguments and get different answers, so that a record handed to
the wrong branch shows.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness, NotHappened, Run
from jumar.testing.crash import Crashed, World, inhabit
from jumar.testing.crash_clock import StoppedClock
from jumar.testing.witness import Witness
from tests.crash.agents import TTL
from tests.crash.worlds import RUN

BRANCHES = 3
Order = tuple[int, ...]


class Turns(World):
    """A world in which the branches take turns: they draw in one given order, and pay in another."""

    def __init__(self, at: int | None, draws: Order, pays: Order, clock: StoppedClock) -> None:
        super().__init__(at, clock=clock)
        self._left = [("draw", branch) for branch in draws] + [("pay", branch) for branch in pays]
        self._changed = threading.Condition()

    def end(self) -> None:
        """End this world, and let those who wait for their turn see it."""
        super().end()
        with self._changed:
            self._changed.notify_all()

    def is_next(self, what: str, branch: int) -> bool:
        """Whether it is this branch's turn, or nobody's any more."""
        return self.dead or self._left[0] == (what, branch)

    def wait_for(self, what: str, branch: int) -> None:
        """Wait for a turn."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.is_next(what, branch), 30)

    def done(self) -> None:
        """The turn is over."""
        with self._changed:
            del self._left[0]
            self._changed.notify_all()


def harness_in(folder: Path, world: Turns | None, *, waits: bool) -> Harness:
    """A harness whose agent gathers the branches; in later lives, without a world, they run as they like."""
    harness = Harness(f"sqlite:///{folder / 'run.db'}", lease_ttl=TTL)
    witness = Witness(folder / "witness", world=world)
    drawing = threading.Lock()

    @harness.tool(effect="read")
    def draw() -> int:
        with drawing:
            witness.note("read", "draw")
            return witness.count("read", "draw")

    @harness.tool(effect="external", settle=0)
    def pay(ticket: int) -> int:
        witness.send(f"pay {ticket}")
        return ticket

    @pay.probe
    def _(ticket: int) -> Happened[int] | NotHappened:
        return Happened(ticket) if witness.happened() else NotHappened()

    make_async_agent(harness, draw, pay, world) if waits else make_agent(harness, draw, pay, world)
    return harness


def make_agent(harness: Harness, draw: Any, pay: Any, world: Turns | None) -> None:
    def in_turn(what: str, branch: int, call: Callable[[], int]) -> int:
        if world is None:
            return call()
        world.wait_for(what, branch)
        answer = call()
        world.done()
        return answer

    @harness.agent
    def work(run: Run, task: str) -> list[int]:
        def branch(number: int) -> Callable[[], int]:
            def body() -> int:
                ticket = in_turn("draw", number, lambda: run.call(draw))
                return in_turn("pay", number, lambda: run.call(pay, ticket))

            return body

        return list(run.gather(*[branch(number) for number in range(BRANCHES)]))


def make_async_agent(harness: Harness, draw: Any, pay: Any, world: Turns | None) -> None:
    async def in_turn(what: str, branch: int, call: Callable[[], Any]) -> int:
        while world is not None and not world.is_next(what, branch):
            await asyncio.sleep(0)
        answer: int = await call()
        if world is not None:
            world.done()
        return answer

    @harness.agent
    async def work(run: AsyncRun, task: str) -> list[int]:
        def branch(number: int) -> Callable[[], Any]:
            async def body() -> int:
                ticket = await in_turn("draw", number, lambda: run.call(draw))
                return await in_turn("pay", number, lambda: run.call(pay, ticket))

            return body

        return list(await run.gather(*[branch(number) for number in range(BRANCHES)]))


def killed_anywhere(folder: Path, clock: StoppedClock, draws: Order, pays: Order, *, waits: bool) -> None:
    """Kill a run at each of its points, its branches taking turns in this order, and have another process finish it."""
    point = 0
    died = True
    while died:
        point += 1
        here = folder / f"{draws}{pays}{point}"
        here.mkdir()
        world = Turns(point, draws, pays, clock)
        died = dies(here, world, waits=waits)
        clock.move(TTL + 0.001)
        if died:
            finished_elsewhere(here, clock, waits=waits, where=f"{draws} {pays}, died {world.trail[-1]}")


def dies(folder: Path, world: Turns, *, waits: bool) -> bool:
    """Whether the first process died; its run ended well otherwise."""
    harness = harness_in(folder, world, waits=waits)
    inhabit(harness, world)
    try:
        assert harness.run("work", "go", run_id=RUN).status == "COMPLETED"
        return False
    except Crashed:
        return True
    finally:
        harness.close()


def finished_elsewhere(folder: Path, clock: StoppedClock, *, waits: bool, where: str) -> None:
    """Another process takes the run over; each branch has paid once, for its own ticket."""
    with harness_in(folder, None, waits=waits) as harness:
        if harness.runs() == []:
            return
        if harness.show(RUN).run.status == "COMPLETED":
            return
        result = harness.resume(RUN)
        while result.status == "WAITING" and result.wake_at is not None:
            clock.move_to_wall(result.wake_at)
            result = harness.resume(RUN)
    assert result.status == "COMPLETED", f"{where}: {result}"
    paid = [line.tool for line in Witness(folder / "witness").lines() if line.what == "sent"]
    assert sorted(paid) == sorted(f"pay {ticket}" for ticket in result.output), f"{where}: paid {paid}"
    assert len(set(paid)) == BRANCHES, f"{where}: paid {paid}"


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


ORDERS = list(permutations(range(BRANCHES)))


def test_branches_that_read_and_then_pay_in_a_sample_of_orders_each_pay_once(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    always = ((2, 1, 0), (1, 2, 0))
    another = chance.choice([pair for pair in product(ORDERS, repeat=2) if pair != always])
    for draws, pays in (always, another):
        killed_anywhere(folder, clock, draws, pays, waits=waits)


@pytest.mark.sweep
@pytest.mark.parametrize("draws", ORDERS)
def test_branches_that_read_and_then_pay_in_any_order_each_pay_once(
    folder: Path, clock: StoppedClock, waits: bool, draws: Order
) -> None:
    for pays in ORDERS:
        killed_anywhere(folder, clock, draws, pays, waits=waits)
