"""A run used where it should not be, plain and async mixed up, and answers given twice, by anyone, at once."""

from __future__ import annotations

import asyncio
import threading
import warnings
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness, NotHappened, Run
from jumar.errors import CallFailed, IllegalTransition, RequestNotFound, RunEnded, Stopped, UsageError
from tests.integration.agents_helpers import Interruption, ids, interrupted, states

# --- Inside a tool's body. -------------------------------------------------------------------------------------------


def test_a_run_is_not_used_inside_a_tools_body(harness: Harness) -> None:
    held: list[Run] = []
    refused: list[str] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query

    @harness.tool(effect="read")
    def work(name: str) -> int:
        run = held[0]
        for ask in (
            lambda: run.call(search, "a"),
            lambda: run.decide(lambda: "x"),
            lambda: run.value("v", 5),
            lambda: run.map(search, ["a"]),
            lambda: run.gather(search.bind("a")),
            lambda: run.checkpoint("now"),
            lambda: run.plan(["a"]),
            lambda: run.record("tool", "t", {}, lambda: 5),
            lambda: run.call(search.using(key="k"), "a"),
            lambda: run.step("inside").__enter__(),
        ):
            with pytest.raises(UsageError) as caught:
                ask()
            refused.append(caught.value.what)
        return len(refused)

    @harness.agent
    def agent(run: Run, task: str) -> int:
        held.append(run)
        return run.call(work, "x")

    assert harness.run(agent, "x").unwrap() == 10
    assert set(refused) == {"the run was used inside work.1, whose body is one call"}
    assert ids(harness) == ["work.1"]


# --- After its end, and from another run. ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["completed", "failed", "interrupted", "waiting"])
def test_a_run_is_not_used_after_its_agent_has_ended(harness: Harness, ending: str) -> None:
    held: list[Run] = []
    called: list[str] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        called.append(query)
        return query

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        called.append(str(cents))
        raise ConnectionError("cut")

    @harness.agent
    def agent(run: Run, task: str) -> None:
        held.append(run)
        if task == "failed":
            raise ValueError("no")
        if task == "interrupted":
            raise KeyboardInterrupt
        if task == "waiting":
            run.call(pay, 5)

    if ending == "interrupted":
        interrupted(harness, agent, ending)
    else:
        harness.run(agent, ending)
    before = (list(called), ids(harness), harness.show("last").run.version)
    run = held[0]
    for ask in (
        lambda: run.call(search, "a"),
        lambda: run.call(pay, 5),
        lambda: run.decide(lambda: called.append("model")),
        lambda: run.gather(search.bind("a")),
        lambda: run.map(search, []),
        lambda: run.checkpoint("now"),
        lambda: run.step("late").__enter__(),
        lambda: run.record("tool", "t", {}, lambda: called.append("record"), effect="idempotent"),
    ):
        with pytest.raises(RunEnded, match="was used after its agent had ended") as caught:
            ask()
        assert caught.value.exit_code == 4
    assert (called, ids(harness), harness.show("last").run.version) == before
    assert run.id == harness.find("last")


def test_a_thread_that_outlives_its_agent_gets_an_ordinary_error(harness: Harness) -> None:
    over = threading.Event()
    said: list[BaseException] = []
    threads: list[threading.Thread] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query

    @harness.agent
    def agent(run: Run, task: str) -> str:
        def work() -> None:
            assert over.wait(60)
            try:
                run.call(search.using(key="k"), "a")
            except BaseException as error:
                said.append(error)

        threads.append(threading.Thread(target=work))
        threads[0].start()
        return "done"

    assert harness.run(agent, "x").unwrap() == "done"
    over.set()
    threads[0].join()
    assert [type(error) for error in said] == [RunEnded]
    assert ids(harness) == []


def test_a_run_is_not_used_inside_another_run(harness: Harness) -> None:
    outer: list[Run] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query

    @harness.agent
    def inner(run: Run, task: str) -> str:
        for ask in (
            lambda: outer[0].call(search, "a"),
            lambda: outer[0].step("x").__enter__(),
            lambda: outer[0].map(search, ["a"]),
        ):
            with pytest.raises(UsageError, match=f"run {outer[0].id} was used inside run {run.id}"):
                ask()
        return run.call(search, "mine")

    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        outer.append(run)
        result = harness.run(inner, "x")
        return [result.unwrap(), result.run_id, run.call(search, "after")]

    result = harness.run(agent, "x")
    answer, inner_id, after = result.unwrap()
    assert (answer, after) == ("mine", "after")
    assert ids(harness, result.run_id) == ids(harness, inner_id) == ["search.1"]
    assert [call.args for call in harness.show(result.run_id).calls] == [{"query": "after"}]


# --- Plain and async. ------------------------------------------------------------------------------------------------


def test_an_async_tool_is_not_called_by_a_plain_agent(harness: Harness) -> None:
    called: list[str] = []

    @harness.tool(effect="external")
    async def send(to: str) -> str:
        called.append(to)
        return to

    @harness.agent
    def agent(run: Run, task: str) -> str:
        for ask in (lambda: run.call(send, "a"), lambda: run.gather(send.bind("a")), lambda: asyncio.run(send("a"))):
            with pytest.raises(UsageError, match="send is async, and this agent is a plain one") as caught:
                ask()
            assert "async def" in caught.value.hint
        return "refused"

    assert harness.run(agent, "x").unwrap() == "refused"
    assert (called, ids(harness)) == ([], [])


def test_what_was_never_awaited_is_no_result(harness: Harness) -> None:
    @harness.tool(effect="read")
    async def fetch(url: str) -> str:
        return url

    @harness.agent
    def agent(run: Run, task: str) -> Any:
        return fetch("a")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        result = harness.run(agent, "x")
    assert (result.status, result.error_type) == ("FAILED", "UsageError")
    assert "async" in str(result.error_message)


def test_an_async_model_or_value_is_refused_by_a_plain_agent(harness: Harness) -> None:
    async def model(prompt: str) -> str:
        return prompt

    @harness.agent
    def agent(run: Run, task: str) -> str:
        for ask in (lambda: run.decide(model, task), lambda: run.value("v", lambda: model("x"))):
            with pytest.raises(CallFailed, match="is an async function, and this agent is a plain one"):
                ask()
        return "refused"

    assert harness.run(agent, "x").unwrap() == "refused"


def test_a_plain_tool_called_directly_in_an_async_run_says_how_to_call_it(harness: Harness) -> None:
    called: list[str] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        called.append(query)
        return query

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> str:
        with pytest.raises(UsageError, match="search was called directly in an async run") as caught:
            search("a")
        assert "await run.call(search, ...)" in caught.value.hint
        return await run.call(search, "b")

    assert harness.run(agent, "x").unwrap() == "b"
    assert called == ["b"]


def test_a_call_from_a_task_that_is_no_branch_needs_a_key(harness: Harness) -> None:
    interrupt = Interruption()
    fetched: list[str] = []

    @harness.tool(effect="read")
    async def fetch(url: str) -> str:
        fetched.append(url)
        return url

    async def work(run: AsyncRun) -> list[str]:
        with pytest.raises(UsageError, match="belongs to no branch of the run"):
            await run.call(fetch, "a")
        return [await run.call(fetch.using(key="k"), "b")]

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> list[str]:
        found = await asyncio.create_task(work(run))
        interrupt()
        return found

    assert harness.resume(interrupted(harness, agent)).unwrap() == ["b"]
    assert fetched == ["b"]


def test_a_tool_that_answers_something_to_be_awaited_is_refused_in_a_plain_run(harness: Harness) -> None:
    async def later() -> int:
        return 5

    @harness.tool(effect="read")
    def work(name: str) -> Any:
        return later()

    @harness.tool(effect="read", timeout=30)
    def slow(name: str) -> Any:
        return later()

    @harness.agent
    def agent(run: Run, task: str) -> str:
        for tool in (work, slow):
            with pytest.raises(CallFailed, match="is an async function"):
                run.call(tool, "x")
        return "refused"

    assert harness.run(agent, "x").unwrap() == "refused"


# --- Stopping signals. -----------------------------------------------------------------------------------------------


def test_a_run_that_must_wait_does_so_whatever_its_agent_catches(harness: Harness) -> None:
    called: list[Any] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        called.append(cents)
        raise ConnectionError("cut")

    @harness.tool(effect="read")
    def search(query: str) -> str:
        called.append(query)
        return query

    @harness.agent
    def agent(run: Run, task: str) -> str:
        signals = 0
        for ask in (lambda: run.call(pay, 5), lambda: run.call(search, "a"), lambda: run.call(pay, 6)):
            try:
                ask()
            except Exception:
                called.append("an ordinary error")
            except Stopped:
                signals += 1
        return f"finished after {signals} signals"

    result = harness.run(agent, "x")
    assert (result.status, result.output) == ("WAITING", None)
    assert called == [5]
    assert states(harness) == {"pay.1": "UNCERTAIN"}


# --- Answers. --------------------------------------------------------------------------------------------------------


def waiting(harness: Harness) -> str:
    """A run that waits for a person to say what became of `pay.1`."""

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        raise ConnectionError("cut")

    @harness.agent
    def agent(run: Run, task: str) -> int:
        return run.call(pay, 5)

    return harness.run(agent, "x").run_id


@pytest.mark.parametrize("call_id", ["pay.2", "pay", "", "search.1", "\ud800", None, 5], ids=repr)
def test_a_call_that_nobody_asks_about_has_no_answer(harness: Harness, call_id: Any) -> None:
    run_id = waiting(harness)
    with pytest.raises(RequestNotFound, match=r"asks nothing about|names no call") as caught:
        harness.resolve(run_id, call_id, Happened(5))
    assert (caught.value.exit_code, harness.show(run_id).run.status) == (2, "WAITING")


def test_an_answer_is_given_once(harness: Harness) -> None:
    run_id = waiting(harness)
    harness.resolve(run_id, "pay.1", Happened(7))
    for verdict in (Happened(8), NotHappened()):
        with pytest.raises(RequestNotFound, match=r"what was asked about pay\.1 has been answered \(happened by .+\)"):
            harness.resolve(run_id, "pay.1", verdict)
    assert harness.resume(run_id).unwrap() == 7
    with pytest.raises(RequestNotFound):
        harness.resolve(run_id, "pay.1", Happened(8))
    assert harness.show(run_id).output == 7


def test_of_answers_given_at_once_one_counts_and_the_others_are_told(harness: Harness) -> None:
    run_id = waiting(harness)
    together = threading.Barrier(8)
    refused: list[Exception] = []
    counted: list[int] = []

    def answer(number: int) -> None:
        together.wait(60)
        try:
            harness.resolve(run_id, "pay.1", Happened(number), by=f"person {number}")
            counted.append(number)
        except (RequestNotFound, IllegalTransition) as error:
            refused.append(error)

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(counted), len(refused)) == (1, 7)
    assert harness.resume(run_id).unwrap() == counted[0]
    assert [line.what for line in harness.trace(run_id)].count("answered") == 1


def test_a_verdict_on_a_run_that_is_over_is_refused(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None: ...

    run_id = harness.run(agent, "x").run_id
    with pytest.raises(RequestNotFound):
        harness.resolve(run_id, "pay.1", Happened(5))
