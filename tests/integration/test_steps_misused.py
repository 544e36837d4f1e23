"""Steps entered or left in ways that `with` would not, names that are not one step's alone, and names with secrets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.errors import InvalidReference, UsageError
from tests.integration.agents_helpers import ids

SECRET = "sk-ant-api03-" + "A" * 20


def failure_of(harness: Harness, body: Callable[[Run], Any]) -> BaseException:
    """How a run of an agent with this body fails."""

    @harness.agent(name=f"agent{len(harness.runs())}")
    def agent(run: Run, task: str) -> None:
        body(run)

    error = harness.run(agent, "x").error
    assert error is not None
    return error


def test_a_step_that_is_entered_before_it_was_left_is_refused(harness: Harness) -> None:
    def body(run: Run) -> None:
        step = run.step("scan")
        with step, step:
            pass

    error = failure_of(harness, body)
    assert isinstance(error, UsageError)
    assert "step scan was entered again before it was left" in str(error)


def test_a_step_may_be_entered_again_once_it_was_left(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        paths, step = [], run.step("scan")
        for _ in range(2):
            with step:
                paths.append(step.path)
        return paths

    assert harness.run(agent, "x").unwrap() == ["scan", "scan#2"]


@pytest.mark.parametrize("entered", [False, True])
def test_a_step_is_left_only_where_it_was_entered(harness: Harness, entered: bool) -> None:
    def body(run: Run) -> None:
        step = run.step("scan")
        if entered:
            with step:
                pass
        step.__exit__(None, None, None)

    error = failure_of(harness, body)
    assert isinstance(error, UsageError)
    assert "step scan was left without being entered" in str(error)


def test_steps_left_out_of_order_are_refused_before_a_call_gets_a_wrong_name(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        return cents

    def body(run: Run) -> None:
        outer, inner = run.step("outer"), run.step("inner")
        outer.__enter__()
        inner.__enter__()
        outer.__exit__(None, None, None)
        run.call(pay, 5)

    error = failure_of(harness, body)
    assert isinstance(error, UsageError)
    assert "step outer was left while the code stands in outer.inner" in str(error)
    assert ids(harness) == []


def test_the_refusal_of_an_order_does_not_hide_the_error_that_the_step_ends_with(harness: Harness) -> None:
    wrong = ValueError("wrong")

    def body(run: Run) -> None:
        outer = run.step("outer")
        outer.__enter__()
        run.step("inner").__enter__()
        outer.__exit__(ValueError, wrong, None)

    error = failure_of(harness, body)
    assert isinstance(error, UsageError)
    assert error.__cause__ is wrong


def test_a_step_left_in_another_task_ends_for_the_calls_that_follow(harness: Harness) -> None:
    @harness.tool(effect="read")
    async def look(word: str) -> str:
        return word

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> None:
        step = run.step("scan")
        step.__enter__()
        await run.call(look, "inside")

        async def leave() -> None:
            step.__exit__(None, None, None)

        await asyncio.create_task(leave())
        await run.call(look, "after")

    harness.run(agent, "x").unwrap()
    assert ids(harness) == ["scan.look.1", "look.1"]


def test_an_async_generator_that_is_not_run_to_its_end_does_not_keep_the_agent_in_its_step(harness: Harness) -> None:
    closed = asyncio.Event()

    @harness.tool(effect="read")
    async def look(word: str) -> str:
        return word

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> None:
        async def pages() -> AsyncIterator[str]:
            try:
                async with run.step("pages"):
                    yield await run.call(look, "first")
                    yield await run.call(look, "second")
            finally:
                closed.set()

        async for _ in pages():
            break
        await closed.wait()  # the event loop closes it, in a task of its own
        await run.call(look, "after")

    harness.run(agent, "x").unwrap()
    assert ids(harness) == ["pages.look.1", "look.1"]


@pytest.mark.parametrize("root_first", [True, False])
def test_a_step_in_a_thread_of_its_own_shares_no_name_with_one_of_the_agent(harness: Harness, root_first: bool) -> None:
    @harness.tool(effect="external")
    def pay(whose: str) -> str:
        return whose

    refused: list[UsageError] = []

    @harness.agent
    def agent(run: Run, task: str) -> None:
        def scan(whose: str) -> None:
            try:
                with run.step("scan"):
                    run.gather(pay.bind(whose))
            except UsageError as error:
                refused.append(error)

        thread = threading.Thread(target=scan, args=["thread"])
        if root_first:
            scan("root")
        thread.start()
        thread.join()
        if not root_first:
            scan("root")

    harness.run(agent, "x").unwrap()
    assert ids(harness) == ["scan.gather:0.pay.1"]
    assert len(refused) == 1
    assert "a step 'scan' was already opened" in str(refused[0])


def test_a_thread_may_name_its_step_as_an_inner_one_of_the_agent_is_named(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        paths = []

        def work() -> None:
            with run.step("scan") as step:
                paths.append(step.path)

        with run.step("all"), run.step("scan") as inner:
            paths.append(inner.path)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return paths

    assert harness.run(agent, "x").unwrap() == ["all.scan", "scan"]


@pytest.mark.parametrize("named", ["step", "checkpoint", "value", "record", "plan", "files"])
def test_a_secret_in_a_name_is_refused_and_not_repeated(harness: Harness, named: str) -> None:
    asks: dict[str, Callable[[Run], Any]] = {
        "step": lambda run: run.step(f"scan {SECRET}").__enter__(),
        "checkpoint": lambda run: run.checkpoint(SECRET),
        "value": lambda run: run.value(SECRET, 1),
        "record": lambda run: run.record("tool", SECRET, {}, lambda: 1),
        "plan": lambda run: run.plan([SECRET]),
        "files": lambda run: run.plan(["scan"], files=[SECRET]),
    }
    error = failure_of(harness, asks[named])
    assert isinstance(error, InvalidReference)
    assert "looks like an OpenAI or Anthropic API key" in str(error)
    assert SECRET not in str(error)
    assert not any(SECRET in checkpoint.name for checkpoint in harness.show("last").checkpoints)


def test_a_secret_in_a_task_is_refused_before_there_is_a_run(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None:
        raise AssertionError("never reached")

    with pytest.raises(InvalidReference, match="the name of a task looks like a GitHub token"):
        harness.run(agent, "x", task="ghp_" + "A" * 36)
    assert harness.runs() == []


def test_an_async_run_says_what_is_wrong_in_a_thread_without_an_event_loop(harness: Harness) -> None:
    @harness.tool(effect="read")
    def look(word: str) -> str:
        return word

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> int:
        refused = 0

        def work() -> None:
            nonlocal refused
            for ask in (lambda: run.call(look, "a"), lambda: run.step("scan").__enter__(), lambda: run.value("v", 1)):
                with pytest.raises(UsageError, match="in a thread that runs no event loop"):
                    ask()
                refused += 1

        await asyncio.to_thread(work)
        return refused

    assert harness.run(agent, "x").unwrap() == 3
