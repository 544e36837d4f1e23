"""`gather` and `map`: order, failures, and what is left to do after an interruption."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.errors import CallFailed, MapFailed, ReplayDiverged, UsageError
from tests.integration.agents_helpers import Interruption, ids, interrupted, states


def test_results_come_in_the_order_of_the_items_whoever_is_ready_first(harness: Harness) -> None:
    arrived = {word: threading.Event() for word in "abc"}

    @harness.tool(effect="read")
    def search(query: str) -> str:
        later = chr(ord(query) + 1)
        if later in arrived:
            assert arrived[later].wait(30)
        arrived[query].set()
        return query.upper()

    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        gathered = run.gather(*(search.bind(word) for word in "abc"))
        for event in arrived.values():
            event.clear()
        return [list(gathered), run.map(search, "abc")]

    assert harness.run(agent, "x").unwrap() == [["A", "B", "C"], ["A", "B", "C"]]
    assert sorted(ids(harness)) == sorted(
        f"{word}:{index}.search.1" for word in ("gather", "map") for index in range(3)
    )


def test_the_branches_of_each_gather_and_map_have_names_of_their_own(harness: Harness) -> None:
    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query

    @harness.agent
    def agent(run: Run, task: str) -> None:
        for _ in range(2):
            with run.step("scan"):
                run.map(search, ["a"])
                run.map(search, ["a"])
                run.gather(search.bind("a"), lambda: run.map(search, ["deep"]))

    harness.run(agent, "x").unwrap()
    once = ["scan.map:0.search.1", "scan.map#2:0.search.1", "scan.gather:0.search.1", "scan.gather:1.map:0.search.1"]
    again = [name.replace("scan", "scan#2", 1) for name in once]
    assert sorted(ids(harness)) == sorted(once + again)


def test_all_settle_and_the_failure_of_the_lowest_index_is_raised(harness: Harness) -> None:
    settled: list[int] = []
    last_is_over = threading.Event()

    @harness.tool(effect="read", errors=(ValueError, KeyError))
    def work(number: int) -> int:
        if number < 3:
            assert last_is_over.wait(30)
        settled.append(number)
        if number == 3:
            last_is_over.set()
            raise KeyError("first in time")
        if number == 1:
            raise ValueError("lowest")
        return number

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(ValueError, match="lowest"):
            run.gather(*(work.bind(number) for number in range(4)))
        return "went on"

    assert harness.run(agent, "x").unwrap() == "went on"
    assert sorted(settled) == [0, 1, 2, 3]
    assert [states(harness)[f"gather:{index}.work.1"] for index in range(4)] == [
        "SUCCEEDED",
        "FAILED",
        "SUCCEEDED",
        "FAILED",
    ]


def test_a_map_that_fails_keeps_the_result_of_each_item_live_and_on_replay(harness: Harness) -> None:
    interrupt = Interruption()
    worked: list[int] = []

    @harness.tool(effect="read", errors=(ValueError,))
    def work(number: int) -> int:
        worked.append(number)
        if number % 2:
            raise ValueError(f"odd {number}")
        return number * 10

    seen: list[Any] = []

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(MapFailed) as caught:
            run.map(work, range(4))
        seen.append((caught.value.what, [(type(each), str(each)) for each in caught.value.results]))
        assert isinstance(caught.value.__cause__, ValueError)
        interrupt()
        return "went on"

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == "went on"
    assert seen[0] == seen[1]
    assert seen[0][0] == "2 of 4 items failed; the first, item 1: odd 1"
    assert seen[0][1] == [(int, "0"), (ValueError, "odd 1"), (int, "20"), (ValueError, "odd 3")]
    assert sorted(worked) == [0, 1, 2, 3]


def test_a_failed_map_that_nobody_catches_fails_the_run(harness: Harness) -> None:
    @harness.tool(effect="read")
    def work(number: int) -> int:
        raise ValueError(f"no {number}")

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.map(work, [1, 2])

    result = harness.run(agent, "x")
    assert (result.status, result.error_type) == ("FAILED", "MapFailed")
    assert isinstance(result.error, MapFailed)
    assert [type(each) for each in result.error.results] == [CallFailed, CallFailed]


def test_an_interruption_in_one_branch_lets_the_others_be_recorded_and_only_the_rest_is_done(harness: Harness) -> None:
    interrupt = Interruption()
    done: list[int] = []

    @harness.tool(effect="idempotent")
    def work(number: int) -> int:
        done.append(number)
        return number

    def item(run: Run, number: int) -> int:
        result = run.call(work, number)
        if number == 2:
            interrupt()
        return result + run.call(work, number + 100)

    @harness.agent
    def agent(run: Run, task: str) -> list[int]:
        return run.map(partial(item, run), range(4))

    run_id = interrupted(harness, agent)
    assert sorted(done) == [0, 1, 2, 3, 100, 101, 103]
    assert harness.resume(run_id).unwrap() == [100, 102, 104, 106]
    assert sorted(done) == [0, 1, 2, 3, 100, 101, 102, 103]


def test_tuples_are_the_arguments_of_a_map_and_anything_else_is_the_one_argument(harness: Harness) -> None:
    @harness.tool(effect="read")
    def add(one: int, other: int = 10) -> int:
        return one + other

    @harness.tool(effect="read")
    def length(items: list[int]) -> int:
        return len(items)

    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        return [
            run.map(add, [(1, 2), (3, 4)]),
            run.map(add, [1, 2]),
            run.map(add, [(1,)]),
            run.map(length, [[1, 2], []]),
            run.map(add, []),
            list(run.gather()),
            run.map(lambda word: word * 2, ["a", "b"]),
            list(run.gather(add.bind(1, other=2), add.bind(one=5))),
        ]

    expected = [[3, 7], [11, 12], [11], [2, 0], [], [], ["aa", "bb"], [3, 15]]
    assert harness.run(agent, "x").unwrap() == expected


def test_more_items_than_threads_all_come_back(harness: Harness) -> None:
    @harness.tool(effect="read")
    def double(number: int) -> int:
        return number * 2

    @harness.agent
    def agent(run: Run, task: str) -> list[int]:
        return run.map(double, range(200))

    assert harness.run(agent, "x").unwrap() == [number * 2 for number in range(200)]
    assert len(ids(harness)) == 200


def test_64_items_run_at_once_and_no_more(harness: Harness) -> None:
    together = threading.Barrier(64)
    threads: set[str] = set()

    @harness.tool(effect="read")
    def meet(number: int) -> int:
        threads.add(threading.current_thread().name)
        if number < 64:
            together.wait(60)
        return number

    @harness.agent
    def agent(run: Run, task: str) -> int:
        return len(run.map(meet, range(200)))

    assert harness.run(agent, "x").unwrap() == 200
    assert len(threads) == 64


def test_an_effect_left_out_of_a_branch_on_replay_diverges_at_the_branchs_end(harness: Harness) -> None:
    interrupt = Interruption()
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.gather(lambda: None if run.recovered else run.call(pay, 5), pay.bind(6))
        interrupt()
        run.call(pay, 7)

    run_id = interrupted(harness, agent)
    with pytest.raises(ReplayDiverged, match="the end of branch gather:0, without this call"):
        harness.resume(run_id)
    assert sorted(sent) == [5, 6]


@pytest.mark.parametrize("item", [5, "text", None])
def test_what_cannot_be_run_is_refused_before_anything_is(harness: Harness, item: Any) -> None:
    called: list[str] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        called.append(query)
        return query

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(UsageError, match="gather cannot run"):
            run.gather(search.bind("a"), item)
        return "refused"

    assert harness.run(agent, "x").unwrap() == "refused"
    assert called == []


def test_an_async_function_in_a_plain_gather_is_refused(harness: Harness) -> None:
    async def body() -> int:
        return 5

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.gather(body)

    result = harness.run(agent, "x")
    assert (result.status, result.error_type) == ("FAILED", "UsageError")
    assert "async" in str(result.error_message)


# --- Asyncio. --------------------------------------------------------------------------------------------------------


def test_an_async_gather_takes_tools_functions_and_awaitables(harness: Harness) -> None:
    loop_thread: list[int] = []

    @harness.tool(effect="read")
    async def fetch(url: str) -> str:
        loop_thread.append(threading.get_ident())
        await asyncio.sleep(0)
        return url.upper()

    @harness.tool(effect="read")
    def plain(query: str) -> int:
        return threading.get_ident()

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> list[Any]:
        async def twice() -> str:
            return await run.call(fetch, "t") + await run.call(fetch, "t")

        a, b, thread, c, d, e = await run.gather(
            fetch.bind("a"), run.call(fetch, "b"), plain.bind("p"), twice, lambda: "plain", twice()
        )
        assert thread not in loop_thread
        return [a, b, c, d, e]

    assert harness.run(agent, "x").unwrap() == ["A", "B", "TT", "plain", "TT"]


def test_an_async_map_fails_and_resumes_as_a_plain_one_does(harness: Harness) -> None:
    interrupt = Interruption()
    worked: list[int] = []

    @harness.tool(effect="read", errors=(ValueError,))
    async def work(number: int) -> int:
        worked.append(number)
        await asyncio.sleep(0)
        if number == 1:
            raise ValueError("odd")
        return number * 10

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> list[Any]:
        with pytest.raises(MapFailed) as caught:
            await run.map(work, [0, 1, 2])
        with pytest.raises(ValueError, match="odd"):
            await run.gather(work.bind(0), work.bind(1))
        interrupt()
        return [caught.value.results[0], str(caught.value.results[1]), caught.value.results[2]]

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == [0, "odd", 20]
    assert sorted(worked) == [0, 0, 1, 1, 2]


def test_awaitables_that_asyncio_gathers_are_matched_in_the_order_they_were_made(harness: Harness) -> None:
    interrupt = Interruption()
    fetched: list[str] = []

    @harness.tool(effect="read")
    async def fetch(url: str) -> str:
        await asyncio.sleep(0)
        fetched.append(url)
        return url.upper()

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> list[str]:
        found = await asyncio.gather(run.call(fetch, "a"), run.call(fetch, "b"), run.call(fetch, "a"))
        interrupt()
        return found

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == ["A", "B", "A"]
    assert sorted(fetched) == ["a", "a", "b"]
    assert sorted(ids(harness)) == ["fetch.1", "fetch.2", "fetch.3"]
