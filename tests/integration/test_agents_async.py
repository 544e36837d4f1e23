"""What only async agents do: timeouts of tasks, calls that are cancelled from outside, and runs that are."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness
from jumar.errors import CallFailed
from tests.integration.agents_helpers import Interruption, ids, interrupted, states


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_an_async_call_past_its_timeout_is_cancelled_and_tried_again(harness: Harness, effect: str) -> None:
    attempts: list[str] = []

    @harness.tool(effect=effect, timeout=0.05, retries=1)
    async def slow(name: str) -> str:
        attempts.append("began")
        if len(attempts) == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                attempts.append("cancelled")
                raise
        return name

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> str:
        return await run.call(slow, task)

    assert harness.run(agent, "x").unwrap() == "x"
    assert attempts == ["began", "cancelled", "began"]


def test_a_plain_tool_with_a_timeout_takes_a_thread_in_an_async_run(harness: Harness) -> None:
    never = threading.Event()
    threads: list[int] = []

    @harness.tool(effect="read", timeout=0.05, retries=0)
    def slow(name: str) -> str:
        threads.append(threading.get_ident())
        assert never.wait(60)
        return name

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> str:
        with pytest.raises(CallFailed, match=r"slow did not end within 0\.05 s"):
            await run.call(slow, task)
        return "went on"

    try:
        assert harness.run(agent, "x").unwrap() == "went on"
    finally:
        never.set()
    assert threading.get_ident() not in threads


def test_an_external_async_call_past_its_timeout_is_left_to_the_probe(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", timeout=0.05, settle=0)
    async def pay(cents: int) -> int:
        sent.append(cents)
        await asyncio.Event().wait()
        return cents

    @pay.probe
    async def _(cents: int) -> Any:
        await asyncio.sleep(0)
        return Happened(cents * 2)

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> int:
        return await run.call(pay, 5)

    assert harness.run(agent, "x").unwrap() == 10
    assert (sent, states(harness)) == ([5], {"pay.1": "SUCCEEDED"})


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_call_given_up_by_wait_for_is_given_up_again_on_replay(harness: Harness, effect: str) -> None:
    interrupt = Interruption()
    began: list[str] = []

    @harness.tool(effect=effect)
    async def fetch(url: str) -> str:
        began.append(url)
        if url == "slow":
            await asyncio.Event().wait()
        return url

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> list[str]:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run.call(fetch, "slow"), 0.05)
        found = ["gave up", await asyncio.wait_for(run.call(fetch, "fast"), 60)]
        interrupt()
        return found

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == ["gave up", "fast"]
    assert began == ["slow", "fast"]
    assert states(harness, run_id) == {"fetch.1": "FAILED", "fetch.2": "SUCCEEDED"}


def test_no_run_ends_with_an_effect_that_was_given_up_and_nobody_knows_about(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external")
    async def pay(cents: int) -> int:
        sent.append(cents)
        await asyncio.Event().wait()
        return cents

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> str:
        try:
            await asyncio.wait_for(run.call(pay, 5), 0.05)
        except TimeoutError:
            return "gave up"
        return "paid"

    result = harness.run(agent, "x")
    assert (result.status, [each.call_id for each in result.waiting_on]) == ("WAITING", ["pay.1"])
    assert states(harness) == {"pay.1": "UNCERTAIN"}
    harness.resolve(result.run_id, "pay.1", Happened(5))
    assert harness.resume(result.run_id).unwrap() == "gave up"
    assert (sent, states(harness)) == ([5], {"pay.1": "SUCCEEDED"})


def test_a_run_whose_task_is_cancelled_is_left_to_be_resumed(harness: Harness) -> None:
    began = asyncio.Event()
    fetched: list[str] = []

    @harness.tool(effect="read")
    async def fetch(url: str) -> str:
        fetched.append(url)
        if fetched.count("b") == 1 and url == "b":
            began.set()
            await asyncio.Event().wait()
        return url

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> list[str]:
        return [await run.call(fetch, "a"), await run.call(fetch, "b")]

    async def main() -> None:
        running = asyncio.ensure_future(harness.arun(agent, "x"))
        await asyncio.wait_for(began.wait(), 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    run_id = harness.find("last")
    assert harness.show(run_id).run.status == "QUEUED"
    assert ids(harness, run_id) == ["fetch.1"]
    assert harness.resume(run_id).unwrap() == ["a", "b"]
    assert fetched == ["a", "b", "b"]


def test_an_async_run_keeps_its_loop_free_while_others_hold_the_database(tmp_path: Any) -> None:
    path = tmp_path / "runs.db"
    ticks: list[int] = []
    with Harness(f"sqlite:///{path}") as harness:

        @harness.tool(effect="read")
        async def fetch(url: str) -> str:
            return url

        @harness.agent
        async def agent(run: AsyncRun, task: str) -> str:
            return await run.call(fetch, task)

        async def main() -> str:
            harness.runs()
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            running = asyncio.ensure_future(harness.arun(agent, "x"))
            while len(ticks) < 20:
                ticks.append(1)
                await asyncio.sleep(0.002)
            assert not running.done()
            other.execute("ROLLBACK")
            other.close()
            return (await running).unwrap()

        assert asyncio.run(main()) == "x"


def test_async_runs_side_by_side_each_keep_their_own(harness: Harness) -> None:
    @harness.tool(effect="read")
    async def fetch(url: str) -> str:
        await asyncio.sleep(0)
        return url.upper()

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> list[str]:
        found = []
        for number in range(5):
            async with run.step("scan"):
                found.append(await run.call(fetch, f"{task}{number}"))
        return found

    async def main() -> list[Any]:
        results = await asyncio.gather(*(harness.arun(agent, f"r{number}-") for number in range(20)))
        return [result.unwrap() for result in results]

    assert asyncio.run(main()) == [[f"R{run}-{number}" for number in range(5)] for run in range(20)]
    assert {len(ids(harness, info.run_id)) for info in harness.runs()} == {5}


def test_a_late_result_of_a_task_that_would_not_be_cancelled_is_evidence(harness: Harness) -> None:
    release: list[asyncio.Event] = []

    @harness.tool(effect="external", timeout=0.05)
    async def pay(cents: int) -> int:
        release.append(asyncio.Event())
        while True:
            try:
                await release[0].wait()
                return cents
            except asyncio.CancelledError:
                continue  # it means to end what it has begun

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> int:
        return await run.call(pay, 5)

    async def main() -> str:
        result = await harness.arun(agent, "x")
        assert result.status == "WAITING"
        release[0].set()
        while not any(line.what == "answered" for line in await harness.atrace(result.run_id)):
            await asyncio.sleep(0.005)
        return result.run_id

    run_id = asyncio.run(main())
    assert harness.resume(run_id).unwrap() == 5
    assert states(harness, run_id) == {"pay.1": "SUCCEEDED"}
