"""Many runs that are taken over at once while their server goes down and comes up again."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness, NotHappened
from jumar.core.states import Status
from jumar.core.store import RunFilter
from jumar.engine.places import Stop
from jumar.testing import Witness
from jumar.testing.postgres import PostgresServer, fresh_schema
from tests.concurrency.workers import PATIENCE, Line, Worker, start

__all__ = ["start"]

RUNS = 250
TTL = 3.0


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of this test's own, as it stops it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def address(server: PostgresServer) -> Iterator[str]:
    """The address of a store in a schema of its own."""
    with fresh_schema(server) as address:
        yield address


def made(address: str, folder: str, at_work: Callable[[], Awaitable[Any]], stall: float = TTL) -> Harness:
    """A harness whose agent looks and then pays; `at_work` is awaited in the body of each payment."""
    harness, witness = Harness(address, lease_ttl=TTL, stall_timeout=stall), Witness(Path(folder, "witness"))

    @harness.tool(effect="read")
    def look(number: int) -> int:
        witness.note("read", f"look {number}")
        return number

    @harness.tool(effect="external", settle=0.1, retries=9)
    async def pay(number: int) -> int:
        await at_work()
        witness.send(f"pay {number}")
        return number

    @pay.probe
    def _(number: int) -> Happened[int] | NotHappened:
        return Happened(number) if witness.happened() else NotHappened()

    @harness.agent(tools=[look, pay])
    async def buy(run: AsyncRun, number: int) -> int:
        return await run.call(pay, await run.call(look, number))

    return harness


def begin(line: Line, address: str, folder: str) -> None:
    """A process that starts all runs, and tells when all are in the middle of their payments."""
    paying = itertools.count(1)

    async def hold() -> None:
        if next(paying) == RUNS:
            line.tell("paying")
        await asyncio.Event().wait()

    with made(address, folder, hold, stall=PATIENCE) as harness:

        async def together() -> None:
            await asyncio.gather(*(harness.arun("buy", number, run_id=run_id(number)) for number in range(RUNS)))

        asyncio.run(together())


def work(line: Line, address: str, folder: str) -> None:
    """A worker that takes runs over until it is killed."""

    async def go_on() -> None: ...

    with made(address, folder, go_on) as harness:
        harness.work(concurrency=16, stop=Stop())


def run_id(number: int) -> str:
    return f"01a00000-0000-7000-8000-{number:012}"


def completed(harness: Harness) -> int:
    """How many runs are."""
    return len(harness.store.runs(RunFilter(status=Status.COMPLETED, limit=RUNS + 1)))


def comes_to(count: int, harness: Harness) -> None:
    """Wait until so many runs are completed."""
    until = time.monotonic() + PATIENCE
    while completed(harness) < count:
        assert time.monotonic() < until, f"only {completed(harness)} of {count} runs are completed"
        time.sleep(0.05)


@pytest.mark.sweep
def test_runs_that_are_taken_over_while_their_server_is_restarted_all_come_to_their_end(
    tmp_path: Path, address: str, server: PostgresServer, start: Callable[..., Worker]
) -> None:
    first = start(begin, address, str(tmp_path))
    first.expect("paying")
    with Harness(address) as looking:
        first.kill()
        for _ in range(2):
            start(work, address, str(tmp_path))
        for count in (RUNS // 5, RUNS // 2):
            comes_to(count, looking)
            server.restart("immediate")
        comes_to(RUNS, looking)
        views = [looking.show(run_id(number)) for number in range(RUNS)]
    assert [view.output for view in views] == list(range(RUNS))
    assert all(view.calls[1].attempt == 2 for view in views)
    lines = [(line.what, line.tool) for line in Witness(tmp_path / "witness").lines()]
    looked = [("read", f"look {number}") for number in range(RUNS)]
    paid = [("sent", f"pay {number}") for number in range(RUNS)]
    assert sorted(lines) == sorted(looked + paid)
