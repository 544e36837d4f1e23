"""Loop agents are declared and looked at: options, functions that stream, and views of any run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import pytest

from jumar import Decision, Harness, LoopView, Run
from jumar.errors import NotSupported, UsageError
from tests.integration.loops_helpers import Script, act, call, declare

# --- What is refused. ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_steps": 0}, "max_steps=0"),
        ({"max_steps": 2.5}, "max_steps=2.5"),
        ({"verify_limit": 0}, "verify_limit=0"),
        ({"retries": -1}, "retries=-1"),
        ({"timeout": 0}, "timeout=0"),
        ({"verify": "good"}, "verify= takes a function"),
        ({"on_event": "print"}, "on_event"),
        ({"tools": "search"}, "tools= takes a list"),
        ({"tools": [print]}, "is no tool"),
        ({"name": "a b"}, "cannot name an agent"),
        ({"steps": 5}, "has no option 'steps'"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(harness: Harness, options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        declare(harness, False, Script(), **options)


@pytest.mark.parametrize("option", ["budget", "durability"])
def test_an_option_of_a_later_version_is_refused_and_not_ignored(harness: Harness, option: str) -> None:
    with pytest.raises(NotSupported, match=option):
        harness.loop(tools=[], **{option: 5})


def two(view: LoopView, task: str) -> Decision:
    return Decision.finish()


def nothing() -> Decision:
    return Decision.finish()


def starred(*views: LoopView) -> Decision:
    return Decision.finish()


async def streaming(view: LoopView) -> AsyncIterator[Decision]:
    yield Decision.finish()


@pytest.mark.parametrize("function", [two, nothing, starred, streaming, 5, "operator", Script()])
def test_what_does_not_take_one_view_and_return_a_decision_is_no_loop_agent(harness: Harness, function: Any) -> None:
    with pytest.raises(UsageError, match="loop agent"):
        harness.loop(tools=[])(function)


def test_a_plain_loop_agent_takes_nothing_async(harness: Harness) -> None:
    @harness.tool(effect="read")
    async def search() -> None:
        return None

    async def verify(output: str) -> bool:
        return True

    with pytest.raises(UsageError, match="search is async"):
        declare(harness, False, Script(), tools=[search])
    with pytest.raises(UsageError, match="verify is async"):
        declare(harness, False, Script(), verify=verify)


def test_two_agents_of_one_name_are_refused_whatever_their_kind(harness: Harness) -> None:
    declare(harness, False, Script())
    with pytest.raises(UsageError, match="two agents are called operator"):
        declare(harness, True, Script())


def test_a_loop_agent_may_have_another_name_and_runs_under_it_or_as_itself(harness: Harness) -> None:
    @harness.loop(tools=[], name="caretaker")
    def operator(view: LoopView) -> Decision:
        return Decision.finish(view.task)

    assert harness.run(operator, "x").unwrap() == "x"
    assert harness.run("caretaker", "y").unwrap() == "y"
    assert harness.show("last").run.agent == "caretaker"


# --- Functions that stream. ------------------------------------------------------------------------------------------


def test_a_function_may_pass_events_on_before_it_decides(harness: Harness) -> None:
    events: list[str] = []

    @harness.loop(tools=[], on_event=events.append)
    def operator(view: LoopView) -> Generator[str, None, Decision]:
        yield "thinking"
        yield "still thinking"
        return Decision.finish("done")

    assert harness.run(operator, "x").unwrap() == "done"
    assert events == ["thinking", "still thinking"]


def test_a_stream_that_breaks_is_an_attempt_that_failed(harness: Harness) -> None:
    events: list[str] = []

    @harness.loop(tools=[], on_event=events.append)
    def operator(view: LoopView) -> Generator[str, None, Decision]:
        yield "thinking"
        if len(events) == 1:
            raise ConnectionError("the line is dead")
        return Decision.finish("done")

    assert harness.run(operator, "x").unwrap() == "done"
    assert events == ["thinking", "thinking"]
    assert harness.show("last").calls[0].attempt == 2


@pytest.mark.parametrize("answer", [lambda: iter("ab"), lambda: streaming(None)], ids=["iterator", "async generator"])  # type: ignore[arg-type]
def test_a_raw_stream_is_no_decision(harness: Harness, answer: Any) -> None:
    result = harness.run(declare(harness, False, lambda view: answer()), "x")
    assert result.status == "FAILED" and "a stream cannot be recorded" in (result.error_message or "")


# --- Views. ----------------------------------------------------------------------------------------------------------


def test_a_view_that_was_kept_shows_what_it_showed(harness: Harness) -> None:
    script = Script(*[act(call("nothing"))] * 3, Decision.finish("done"))
    harness.run(declare(harness, False, script), "x").unwrap()
    assert [len(view.history) for view in script.views] == [0, 1, 2, 3]
    assert [len(view.messages("openai")) for view in script.views] == [1, 3, 5, 7]


def test_a_view_may_be_read_in_several_threads_at_once(harness: Harness) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def decide(view: LoopView) -> Decision:
        if view.step_index < 20:
            return act(call("nothing"))
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda number: len(view.messages(("openai", "anthropic")[number % 2])), range(16)))
        return Decision.finish(found)

    assert harness.run(declare(harness, False, decide), "x").unwrap() == [39] * 16


def test_the_messages_of_no_other_provider_are_known(harness: Harness) -> None:
    result = harness.run(declare(harness, False, lambda view: view.messages("gemini")), "x")
    assert result.status == "FAILED" and "no messages for 'gemini'" in (result.error_message or "")


def test_a_run_is_looked_at_from_outside_as_its_function_would_see_it_next(harness: Harness) -> None:
    script = Script(act(call("nothing")), Decision.finish("done"))
    harness.run(declare(harness, False, script), {"a": 1}).unwrap()
    view = harness.view("last")
    assert (view.task, view.step_index, view.limits, view.brief, view.recovered) == ({"a": 1}, 3, None, None, False)
    assert view.messages("openai")[:3] == script.views[1].messages("openai")
    assert view.messages("openai")[3:] == [{"role": "assistant", "content": "done"}]
    assert asyncio.run(harness.aview("last")).messages("anthropic") == view.messages("anthropic")
    assert repr(view) == f"<step 3 of run {view.run_id}>"


def test_a_run_that_has_not_begun_has_a_view_with_its_task_alone(harness: Harness) -> None:
    run_id = harness.start(declare(harness, False, Script()), "x")
    view = harness.view(run_id)
    assert (view.history, view.step_index) == ((), 1)
    assert view.messages("anthropic") == [{"role": "user", "content": "x"}]


def test_a_function_agents_run_has_no_view(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> int:
        return run.decide(lambda: 1)

    started = harness.start(agent, "x")
    with pytest.raises(UsageError, match="no loop agent"):
        harness.view(started)
    harness.resume(started).unwrap()
    with pytest.raises(UsageError, match="no loop agent"):
        harness.view(started)


def test_a_run_is_looked_at_by_a_harness_that_knows_no_agent(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with Harness(address) as harness:
        harness.run(declare(harness, False, Script(Decision.finish("done"))), "x").unwrap()
    with Harness(address) as other:
        assert other.view("last").messages("openai")[-1] == {"role": "assistant", "content": "done"}


# --- Both kinds of harness methods. ----------------------------------------------------------------------------------


def test_an_async_loop_agent_is_awaited_or_run_and_a_plain_one_too(harness: Harness) -> None:
    script = Script(Decision.finish("done"))
    assert harness.run(declare(harness, True, script), "x").unwrap() == "done"
    assert asyncio.run(harness.arun("operator", "x")).unwrap() == "done"
    harness._agents.clear()
    declare(harness, False, script)
    assert asyncio.run(harness.arun("operator", "x")).unwrap() == "done"


def test_a_cancelled_task_leaves_the_run_to_be_resumed(harness: Harness) -> None:
    async def main() -> None:
        began = asyncio.Event()
        forever = asyncio.Event()

        @harness.tool(effect="read")
        async def wait() -> None:
            began.set()
            await forever.wait()

        declare(harness, True, script, tools=[wait])
        task = asyncio.create_task(harness.arun("operator", "x"))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert harness.show("last").run.status == "QUEUED"
        forever.set()
        assert (await harness.aresume("last")).unwrap() == "done"

    script = Script(act(call("wait"), call("wait")), Decision.finish("done"))
    asyncio.run(main())
    assert script.steps == [1, 2]
