"""Several runs at once in one process, whose advances share commits: when that process dies, each goes on by itself."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness, NotHappened, Run
from jumar.testing import Crashed, StoppedClock, Witness, World
from jumar.testing.crash import inhabit
from tests.crash.agents import TTL

MANY = 6
RUNS = [f"01a00000-0000-7000-8000-00000000000{number}" for number in range(MANY)]


def harness_in(folder: Path, world: World | None, *, waits: bool) -> Harness:
    """A harness whose agent reads, reserves and pays."""
    harness = Harness(f"sqlite:///{folder / 'run.db'}", lease_ttl=TTL)
    witness = Witness(folder / "witness", world=world)

    @harness.tool(effect="read")
    def read(number: int) -> int:
        return 10 * number

    @harness.tool(effect="idempotent")
    def reserve(number: int) -> int:
        witness.apply("reserve")
        return number + 1

    @harness.tool(effect="external", settle=0)
    def pay(number: int) -> int:
        witness.send("pay")
        return number + 2

    @pay.probe
    def _(number: int) -> Happened[int] | NotHappened:
        return Happened(number + 2) if witness.happened() else NotHappened()

    if waits:

        @harness.agent
        async def work(run: AsyncRun, number: int) -> int:
            return await run.call(pay, await run.call(reserve, await run.call(read, number)))
    else:

        @harness.agent
        def work(run: Run, number: int) -> int:
            return run.call(pay, run.call(reserve, run.call(read, number)))

    return harness


def all_at_once(harness: Harness, *, waits: bool) -> list[Any]:
    """Drive every run at once; answers how each ended: its result, or what it was stopped by."""
    if waits:
        return asyncio.run(_gathered(harness))
    ends: list[Any] = [None] * MANY

    def drive(number: int) -> None:
        try:
            ends[number] = harness.run("work", number, run_id=RUNS[number])
        except BaseException as error:
            ends[number] = error

    threads = [threading.Thread(target=drive, args=(number,)) for number in range(MANY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


async def _gathered(harness: Harness) -> list[Any]:
    return await asyncio.gather(
        *[harness.arun("work", number, run_id=RUNS[number]) for number in range(MANY)], return_exceptions=True
    )


def resumed(harness: Harness, clock: StoppedClock, number: int) -> Any:
    """The output of a run, resumed where it had begun and started where it had not."""
    if RUNS[number] not in [info.run_id for info in harness.runs()]:
        return harness.run("work", number, run_id=RUNS[number]).output
    if harness.show(RUNS[number]).run.status == "COMPLETED":
        return harness.show(RUNS[number]).output
    result = harness.resume(RUNS[number])
    while result.status == "WAITING" and result.wake_at is not None:
        clock.move_to_wall(result.wake_at)
        result = harness.resume(RUNS[number])
    return result.output


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "asyncio"])
def test_runs_that_share_a_process_and_die_with_it_each_go_on_by_themselves(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    (folder / "whole").mkdir()
    world = World(clock=clock)
    with harness_in(folder / "whole", world, waits=waits) as harness:
        inhabit(harness, world)
        assert [result.output for result in all_at_once(harness, waits=waits)] == [3 + 10 * n for n in range(MANY)]
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    for point in random.Random(seed).sample(range(1, world.points), 25):
        here = folder / str(point)
        here.mkdir()
        with harness_in(here, dying := World(point, clock=clock), waits=waits) as harness:
            inhabit(harness, dying)
            ends = all_at_once(harness, waits=waits)
            assert any(isinstance(end, Crashed) for end in ends)
        clock.move(TTL + 0.001)
        with harness_in(here, None, waits=waits) as later:
            assert [resumed(later, clock, number) for number in range(MANY)] == [3 + 10 * n for n in range(MANY)]
        sent = [line.key for line in Witness(here / "witness").lines() if line.what == "sent"]
        assert len(sent) == len(set(sent)) == MANY, f"died {dying.trail[-1]}"
