"""Whose thread does what: items of a fan, plain agents awaited, late results, and the thread that renews leases."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from jumar import AsyncRun, Harness, Run
from jumar.core.limits import MAX_WORKERS
from jumar.engine.leases import LeaseKeeper
from jumar.errors import LeaseLost
from jumar.stores.commits import CommitQueue

SOON = 20.0  # seconds within which what is waited for must have come


def test_an_async_map_of_a_plain_tool_takes_no_more_threads_than_a_plain_one() -> None:
    harness = Harness("memory:")
    lock = threading.Lock()
    full, let_go = threading.Event(), threading.Event()
    now, most = 0, 0

    @harness.tool(effect="external")
    def fetch(number: int) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            if now == MAX_WORKERS:
                full.set()
        assert let_go.wait(SOON)
        with lock:
            now -= 1
        return number

    @harness.agent
    async def agent(run: AsyncRun, _: str) -> int:
        letting_go = asyncio.create_task(let_go_when_full(run.id))
        await run.map(fetch, list(range(MAX_WORKERS * 3)))
        return await letting_go

    async def let_go_when_full(run_id: str) -> int:
        assert await asyncio.to_thread(full.wait, SOON)
        for _turn in range(100):  # whatever else would start has its turns
            await asyncio.sleep(0)
        calls = (await harness.ashow(run_id)).calls
        let_go.set()
        return len(calls)

    with harness:
        assert harness.run(agent, "x").output == MAX_WORKERS  # nothing is recorded as sent that waits for its thread
    assert most == MAX_WORKERS


def test_many_plain_agents_awaited_all_run_at_once() -> None:
    """More than the loop's own pool of threads has, which is left to whatever else is awaited."""
    together = 40
    barrier = threading.Barrier(together)

    async def main() -> list[Any]:
        with Harness("memory:") as harness:

            @harness.agent
            def agent(run: Run, _: int) -> bool:
                barrier.wait(SOON)
                return True

            ended = await asyncio.gather(*(harness.arun(agent, number) for number in range(together)))
            return [result.output for result in ended]

    assert asyncio.run(main()) == [True] * together


def test_a_late_result_is_not_filed_on_the_event_loops_thread(tmp_path: Path, monkeypatch: Any) -> None:
    filed_by: list[int] = []
    filed = threading.Event()
    submit = CommitQueue.submit

    def watched(queue: CommitQueue, change: Any, *rest: Any) -> Any:
        answer = submit(queue, change, *rest)
        if type(change).__name__ == "Answer":
            filed_by.append(threading.get_ident())
            filed.set()
        return answer

    monkeypatch.setattr(CommitQueue, "submit", watched)

    async def main() -> None:
        let_go = asyncio.Event()
        with Harness(f"sqlite:///{tmp_path / 'run.db'}") as harness:

            @harness.tool(effect="external", timeout=0.05)
            async def pay() -> str:
                while not let_go.is_set():
                    try:
                        await let_go.wait()
                    except asyncio.CancelledError:
                        continue
                return "receipt"

            @harness.agent
            async def agent(run: AsyncRun, _: str) -> str:
                return await run.call(pay)

            assert (await harness.arun(agent, "x")).status == "WAITING"
            let_go.set()
            assert await asyncio.to_thread(filed.wait, SOON)
            assert (await harness.aresume("last")).output == "receipt"

    asyncio.run(main())
    assert filed_by and threading.get_ident() not in filed_by


def test_the_lease_thread_outlives_a_run_that_it_fails_to_renew(monkeypatch: Any) -> None:
    looks = threading.Semaphore(0)
    seen: list[bool] = []

    def failing(keeper: LeaseKeeper, live: Any) -> None:
        looks.release()
        raise RuntimeError("an error of its own")

    monkeypatch.setattr(LeaseKeeper, "_renew", failing)
    with Harness("memory:", lease_ttl=0.3) as harness:

        @harness.agent
        def agent(run: Run, _: str) -> None:
            seen.extend(looks.acquire(timeout=SOON) for _look in range(3))

        with suppress(LeaseLost):  # nobody renewed it, after all
            harness.run(agent, "x")
    assert seen == [True, True, True]
