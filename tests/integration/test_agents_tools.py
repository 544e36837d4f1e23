"""Tools as functions: called directly, inside and outside of runs, in threads, and with settings for one call."""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any

import pytest

import jumar
from jumar import CurrentCall, Harness, Run, current_call
from jumar.errors import CallFailed, ToolNotAllowed, UsageError
from tests.integration.agents_helpers import Interruption, ids, interrupted, states


def test_a_tool_is_still_the_function_it_was_made_of(harness: Harness) -> None:
    @harness.tool(effect="idempotent")
    def search(query: str, limit: int = 5) -> list[str]:
        """Search the logs."""
        return [query] * limit

    assert (search.__name__, search.__doc__) == ("search", "Search the logs.")
    assert str(inspect.signature(search)) == "(query: 'str', limit: 'int' = 5) -> 'list[str]'"
    assert inspect.isfunction(search)
    assert not inspect.iscoroutinefunction(search)
    assert search("a", limit=2) == ["a", "a"]
    assert harness.runs() == []


def test_an_async_tool_is_still_async(harness: Harness) -> None:
    @harness.tool(effect="read")
    async def fetch(url: str) -> str:
        return url

    assert inspect.iscoroutinefunction(fetch)


def test_calling_a_tool_by_its_name_inside_a_run_records_the_call(harness: Harness) -> None:
    interrupt = Interruption()
    searched: list[str] = []

    @harness.tool(effect="read")
    def search(query: str, limit: int = 5) -> list[str]:
        searched.append(query)
        return [query] * limit

    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        with run.step("scan"):
            found = [search("a"), search(query="b", limit=1), search("a", 5)]
        interrupt()
        return found

    run_id = interrupted(harness, agent)
    assert ids(harness) == ["scan.search.1", "scan.search.2", "scan.search.3"]
    assert harness.resume(run_id).unwrap() == [["a"] * 5, ["b"], ["a"] * 5]
    assert searched == ["a", "b", "a"]
    assert harness.show(run_id).calls[0].args == {"query": "a", "limit": 5}


def test_a_tool_called_inside_another_tools_body_just_runs(harness: Harness) -> None:
    seen: list[tuple[str, str | None]] = []

    def note(name: str) -> None:
        call = current_call()
        seen.append((name, None if call is None else call.call_id))

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        note("pay")
        return cents

    @harness.tool(effect="read")
    def lookup(name: str) -> int:
        note("lookup")
        return 5

    @harness.tool(effect="external")
    def settle(name: str) -> int:
        note("settle")
        return pay(lookup(name))

    @harness.agent
    def agent(run: Run, task: str) -> int:
        note("agent")
        return run.call(settle, "x")

    assert harness.run(agent, "x").unwrap() == 5
    assert seen == [("agent", None), ("settle", "settle.1"), ("lookup", "settle.1"), ("pay", "settle.1")]
    assert ids(harness) == ["settle.1"]


def test_an_effect_inside_a_decision_is_refused_as_it_would_not_be_recorded(harness: Harness) -> None:
    paid: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        paid.append(cents)
        return cents

    @harness.tool(effect="read")
    def lookup(name: str) -> str:
        return name

    def model(prompt: str) -> str:
        return lookup(prompt) + str(pay(5))

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.decide(model, task)

    result = harness.run(agent, "x")
    assert (result.status, paid) == ("FAILED", [])
    assert "pay was called inside the decision model.1" in str(result.error_message)


def test_the_current_call_tells_run_call_and_attempt_and_a_key_that_stays_the_same(harness: Harness) -> None:
    seen: list[CurrentCall] = []

    @harness.tool(effect="idempotent", retries=1)
    def put(name: str) -> str:
        call = current_call()
        assert call is not None
        seen.append(call)
        if len(seen) == 1:
            raise ConnectionError("cut")
        return call.idempotency_key

    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        with run.step("store"):
            return [run.call(put, "a"), run.call(put, "a"), run.call(put, "b")]

    result = harness.run(agent, "x")
    keys = result.unwrap()
    assert len(set(keys)) == 3
    assert [(call.call_id, call.attempt) for call in seen] == [
        ("store.put.1", 1),
        ("store.put.1", 2),
        ("store.put.2", 1),
        ("store.put.3", 1),
    ]
    assert seen[0].idempotency_key == seen[1].idempotency_key == keys[0]
    assert {call.run_id for call in seen} == {result.run_id}
    assert (seen[0].tool, seen[0].effect.label, seen[0].kind.label) == ("put", "idempotent", "tool")
    assert repr(seen[1]) == f"<call store.put.1 of run {result.run_id}, attempt 2>"


def test_the_key_stays_the_same_when_another_process_takes_the_call_up_again(tmp_path: Any) -> None:
    keys: list[str] = []
    interrupt = Interruption()

    def declared(harness: Harness) -> Callable[..., Any]:
        @harness.tool(effect="idempotent")
        def put(name: str) -> str:
            call = current_call()
            assert call is not None
            keys.append(call.idempotency_key)
            interrupt()
            return f"{name}, attempt {call.attempt}"

        @harness.agent(tools=[put])
        def agent(run: Run, task: str) -> str:
            return run.call(put, task)

        return agent

    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with Harness(address, lease_ttl=1.0) as first:
        run_id = interrupted(first, declared(first))
        # STARTED and not recorded: the lease is left to run out, and whoever comes waits for that.
        assert (first.show(run_id).run.status, states(first, run_id)) == ("RUNNING", {"put.1": "STARTED"})
    with Harness(address, lease_ttl=1.0) as second:
        declared(second)
        assert second.resume(run_id).unwrap() == "x, attempt 2"
        assert [line.what for line in second.trace(run_id)].count("taken-over") == 1
    assert len(keys) == 2
    assert len(set(keys)) == 1


# --- Threads. --------------------------------------------------------------------------------------------------------


def in_thread(work: Callable[[], Any]) -> Any:
    """What `work` answers in a thread of its own, or the exception it ends with."""
    answers: list[Any] = []

    def body() -> None:
        try:
            answers.append(work())
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    return answers[0]


def test_a_call_from_a_foreign_thread_needs_a_key(harness: Harness) -> None:
    interrupt = Interruption()
    searched: list[str] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        searched.append(query)
        return query.upper()

    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        refused = in_thread(lambda: run.call(search, "a"))
        assert isinstance(refused, UsageError)
        found = [in_thread(lambda key=key: run.call(search.using(key=key), "a")) for key in ("k1", "k2")]
        interrupt()
        return [refused.what, refused.hint, *found]

    run_id = interrupted(harness, agent)
    what, hint, *found = harness.resume(run_id).unwrap()
    assert "search was called from a thread or task that belongs to no branch of the run" in what
    assert "key='...'" in hint
    assert found == ["A", "A"]
    assert searched == ["a", "a"]


def test_a_direct_call_from_a_thread_with_the_runs_context_needs_a_key_too(harness: Harness) -> None:
    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query.upper()

    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        context = contextvars.copy_context()
        refused = in_thread(lambda: context.run(search, "a"))
        keyed = in_thread(lambda: contextvars.copy_context().run(search.using(key="k"), "b"))
        return [type(refused).__name__, keyed]

    assert harness.run(agent, "x").unwrap() == ["UsageError", "B"]


def test_an_effect_from_a_thread_that_knows_no_run_is_refused_while_one_is_live(harness: Harness) -> None:
    paid: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        paid.append(cents)
        return cents

    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query.upper()

    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        refused = in_thread(lambda: pay(5))
        assert isinstance(refused, UsageError)
        return [refused.what, in_thread(lambda: search("a"))]

    what, found = harness.run(agent, "x").unwrap()
    assert "pay was called from a thread without the run's context while a run is live" in what
    assert found == "A"
    assert paid == []
    assert pay(7) == 7
    assert paid == [7]


def test_a_key_is_given_to_one_call_of_a_run_and_refused_for_a_second(harness: Harness) -> None:
    paid: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        paid.append(cents)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        run.call(pay.using(key="k"), 5)
        with pytest.raises(UsageError, match="'k' was given to another call"):
            run.call(pay.using(key="k"), 6)
        return len(paid)

    assert harness.run(agent, "x").unwrap() == 1


# --- Settings for one call, and which tools an agent may call. -------------------------------------------------------


def test_settings_for_one_call_leave_the_tool_as_it_is(harness: Harness) -> None:
    attempts: list[str] = []

    @harness.tool(effect="read", retries=0)
    def search(query: str) -> str:
        attempts.append(query)
        if attempts.count(query) == 1:
            raise ConnectionError("cut")
        return query.upper()

    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        with pytest.raises(CallFailed):
            run.call(search, "a")
        return [run.call(search.using(retries=1), "b"), search.using(key="k")("a")]

    assert harness.run(agent, "x").unwrap() == ["B", "A"]
    assert attempts == ["a", "b", "b", "a"]
    assert [call.attempt for call in harness.show("last").calls] == [1, 2, 1]


def test_a_tool_made_for_a_library_is_bound_by_the_agent_that_lists_it(harness: Harness) -> None:
    @jumar.tool(effect="external", name="send-mail")
    def send(to: str) -> str:
        return f"sent to {to}"

    @harness.agent(tools=[send])
    def agent(run: Run, task: str) -> str:
        return send(task)

    assert harness.run(agent, "x").unwrap() == "sent to x"
    assert ids(harness) == ["send-mail.1"]


def test_an_agent_with_a_list_may_call_what_is_on_it_and_nothing_else(harness: Harness) -> None:
    called: list[str] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        called.append("search")
        return query

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        called.append("pay")
        return cents

    @harness.agent(tools=[search])
    def careful(run: Run, task: str) -> str:
        for call in (lambda: run.call(pay, 5), lambda: pay(5), lambda: run.gather(pay.bind(5))):
            with pytest.raises(ToolNotAllowed, match="agent careful may not call pay") as caught:
                call()
        assert "tools=[...]" in caught.value.hint
        return run.call(search.using(timeout=5), task)

    @harness.agent
    def free(run: Run, task: str) -> int:
        return run.call(pay, 7)

    @harness.agent(tools=[])
    def idle(run: Run, task: str) -> str:
        with pytest.raises(ToolNotAllowed):
            run.call(search, task)
        return run.decide(lambda: "decided")

    assert harness.run(careful, "x").unwrap() == "x"
    assert harness.run(free, "x").unwrap() == 7
    assert harness.run(idle, "x").unwrap() == "decided"
    assert called == ["search", "pay"]


def test_what_is_no_tool_is_told_how_to_become_one(harness: Harness) -> None:
    def plain(query: str) -> str:
        return query

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.call(plain, "a")  # type: ignore[arg-type]

    result = harness.run(agent, "x")
    assert result.error_type == "UsageError"
    assert "plain is no tool" in str(result.error_message)
    assert isinstance(result.error, UsageError)
    assert "@harness.tool" in result.error.hint


def test_arguments_that_do_not_fit_are_refused_with_the_signature(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay(invoice: str, cents: int) -> int:
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        said = []
        for args, kwargs in ((("i",), {}), (("i", 1, 2), {}), (("i", 1), {"cents": 2}), ((), {"x": 1})):
            with pytest.raises(UsageError) as caught:
                run.call(pay, *args, **kwargs)
            said.append(caught.value.hint)
        return said

    said = harness.run(agent, "x").unwrap()
    assert len(said) == 4
    assert all("pay(invoice: 'str', cents: 'int') -> 'int'" in hint for hint in said)
    assert ids(harness) == []
