"""Loop agents act: calls side by side, and whatever becomes of them goes back to the model."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from jumar import Decision, Harness, ToolCall, Usage, current_call
from tests.integration.agents_helpers import ids, states
from tests.integration.loops_helpers import Commits, Script, act, call, declare


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


class Declined(Exception):
    pass


@dataclass
class Order:
    item: str
    count: int = 1


def make_tools(harness: Harness) -> list[Any]:
    @harness.tool(effect="read")
    def search(query: str, limit: int = 5) -> list[str]:
        return [f"{query} {number}" for number in range(limit)][:2]

    @harness.tool(effect="external", errors=(Declined,))
    def pay(cents: int) -> str:
        if cents > 100:
            raise Declined("too much")
        return f"paid {cents}"

    @harness.tool(effect="idempotent")
    def ship(order: Order) -> str:
        return f"{order.count} {order.item}"

    return [search, pay, ship]


# --- Calls and results. ----------------------------------------------------------------------------------------------


def test_a_model_sees_the_results_of_its_calls_in_the_order_it_made_them(harness: Harness, waits: bool) -> None:
    script = Script(
        act(call("pay", cents=5), call("search", query="a"), call("ship", order={"item": "ink", "count": 2})),
        act(call("search", query="b", limit=1)),
        lambda view: Decision.finish([result.value for turn in view.history for result in turn.results]),
    )
    agent = declare(harness, waits, script, tools=make_tools(harness))
    assert harness.run(agent, "x").unwrap() == ["paid 5", ["a 0", "a 1"], "2 ink", ["b 0"]]
    assert ids(harness) == [
        "turn.decide.1",
        "turn.pay.1",
        "turn.search.1",
        "turn.ship.1",
        "turn#2.decide.1",
        "turn#2.search.1",
        "turn#3.decide.1",
    ]
    assert harness.show("last").calls[3].args == {"order": {"count": 2, "item": "ink"}}
    assert script.steps == [1, 2, 3]


def test_calls_of_one_decision_are_on_their_way_at_the_same_time(harness: Harness, waits: bool) -> None:
    together = threading.Barrier(3, timeout=60)

    @harness.tool(effect="read")
    def look(number: int) -> int:
        together.wait()
        return number

    @harness.tool(effect="external")
    def send(number: int) -> int:
        together.wait()
        return number

    script = Script(
        act(call("look", number=1), call("send", number=2), call("look", number=3)), Decision.finish("done")
    )
    agent = declare(harness, waits, script, tools=[look, send])
    assert harness.run(agent, "x").unwrap() == "done"
    assert [result.value for result in script.views[1].history[0].results] == [1, 2, 3]


def test_async_tools_of_an_async_agent_run_in_its_loop_beside_plain_ones(harness: Harness) -> None:
    here: list[Any] = []

    async def main() -> Any:
        met = asyncio.Event()

        @harness.tool(effect="read")
        async def waiting() -> str:
            here.append(asyncio.get_running_loop())
            await met.wait()
            return "met"

        @harness.tool(effect="idempotent")
        async def meeting() -> str:
            here.append(asyncio.get_running_loop())
            met.set()
            return "came"

        @harness.tool(effect="read")
        def plain() -> str:
            here.append(threading.current_thread() is threading.main_thread())
            return "plain"

        script = Script(act(call("waiting"), call("meeting"), call("plain")), act(call("plain")), Decision.finish())
        agent = declare(harness, True, script, tools=[waiting, meeting, plain])
        here.append(asyncio.get_running_loop())
        result = await harness.arun(agent, "x")
        return result.status, [each.value for each in script.views[2].history[0].results]

    assert asyncio.run(main()) == ("COMPLETED", ["met", "came", "plain"])
    loop, *others = here
    assert others.count(loop) == 2 and others.count(False) == 2  # a plain tool never holds the loop up


def test_more_calls_than_there_are_threads_all_go_out(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="read")
    def double(number: int) -> int:
        return 2 * number

    script = Script(act(*(call("double", number=number) for number in range(100))), Decision.finish())
    harness.run(declare(harness, waits, script, tools=[double]), "x").unwrap()
    assert [result.value for result in script.views[1].history[0].results] == [2 * number for number in range(100)]


def test_every_advance_walks_the_table_of_phases(harness: Harness, waits: bool) -> None:
    commits = Commits(harness)
    script = Script(
        act(call("search", query="a")),
        act(call("search", query="a"), call("search", query="b")),
        act(call("nothing")),
        Decision.finish("x"),
        Decision.finish("y"),
    )
    agent = declare(
        harness, waits, script, tools=make_tools(harness), verify=lambda output: True if output == "y" else "not yet"
    )
    assert harness.run(agent, "x").unwrap() == "y"
    assert commits.phases == [
        *["DECISION_RECORDED", "RESULTS_RECORDED"],
        *["READY_TO_DECIDE", "DECISION_RECORDED", "AWAITING_RESULTS", "AWAITING_RESULTS"],
        *["RESULTS_RECORDED", "READY_TO_DECIDE", "DECISION_RECORDED"],
        *["RESULTS_RECORDED", "READY_TO_DECIDE", "DECISION_RECORDED", "VERIFYING"],
        *["READY_TO_DECIDE", "DECISION_RECORDED", "VERIFYING", "STOPPED"],
    ]
    assert [change.step for change in commits.advances] == [1, 1, 2, 2, 2, 3, 4, 4, 5, 5, 5]


def test_a_turn_costs_one_commit_for_its_decision_and_what_its_calls_cost(harness: Harness) -> None:
    commits = Commits(harness)
    script = Script(*[act(call("search", query="a"))] * 5, Decision.finish())
    harness.run(declare(harness, False, script, tools=make_tools(harness)), "x").unwrap()
    assert len(commits.advances) == 5 * 2 + 2


def test_a_tool_knows_its_call_and_so_does_the_function_that_decides(harness: Harness, waits: bool) -> None:
    seen: list[tuple[str, str, int]] = []

    def note() -> None:
        current = current_call()
        assert current is not None
        seen.append((current.call_id, current.kind.label, current.attempt))

    @harness.tool(effect="external")
    def send() -> None:
        note()

    def decide(view: Any) -> Decision:
        note()
        return act(call("send")) if view.step_index == 1 else Decision.finish()

    harness.run(declare(harness, waits, decide, tools=[send]), "x").unwrap()
    assert seen == [("turn.decide.1", "decision", 1), ("turn.send.1", "tool", 1), ("turn#2.decide.1", "decision", 1)]


@pytest.mark.parametrize(
    "given",
    [
        Decision.finish("x", usage=Usage(input_tokens=9, usd=0.5)),
        (Decision.finish("x"), Usage(input_tokens=9, usd=0.5)),
    ],
    ids=["of the decision", "beside it"],
)
def test_what_a_decision_cost_is_recorded_with_it(harness: Harness, given: Any) -> None:
    assert harness.run(declare(harness, False, lambda view: given), "x").unwrap() == "x"
    assert harness.show("last").calls[0].usage == {
        "input_tokens": 9,
        "output_tokens": 0,
        "cached_tokens": 0,
        "usd": 0.5,
    }
    assert harness.view("last").history[0].decision.usage == Usage(input_tokens=9, usd=0.5)


def test_tools_may_be_called_as_the_parts_of_a_turn_are(harness: Harness) -> None:
    @harness.tool(effect="read")
    def decide() -> int:
        return 1

    @harness.tool(effect="read")
    def verify() -> int:
        return 2

    script = Script(act(call("decide"), call("verify"), call("decide")), Decision.finish("x"))
    agent = declare(harness, False, script, tools=[decide, verify], verify=lambda output: True)
    assert harness.run(agent, "x").unwrap() == "x"
    assert ids(harness)[:4] == ["turn.decide.1", "turn.decide.2", "turn.verify.1", "turn.decide.3"]
    assert [result.value for result in script.views[1].history[0].results] == [1, 2, 1]


def test_large_arguments_results_and_decisions_are_read_back_whole(harness: Harness, waits: bool) -> None:
    large = "x" * 300_000

    @harness.tool(effect="read")
    def echo(text: str) -> str:
        return text

    script = Script(
        act(call("echo", text=large), call("echo", text="small")),
        lambda view: Decision.finish(len(view.history[0].results[0].value) + len(view.history[0].decision.calls)),
    )
    assert harness.run(declare(harness, waits, script, tools=[echo]), "x").unwrap() == 300_002


# --- What goes wrong goes back to the model. -------------------------------------------------------------------------


def errors(script: Script, step: int) -> list[str | None]:
    """What the decision of a step was told of the calls before it."""
    return [result.error for result in script.views[step - 1].history[-1].results]


def test_a_failed_call_goes_back_to_the_model_which_plans_anew(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="read")
    def broken() -> None:
        raise ValueError("no such file")

    script = Script(
        act(call("broken"), call("search", query="a"), call("pay", cents=500)),
        act(call("broken")),
        act(call("pay", cents=5)),
        lambda view: Decision.finish(view.history[-1].results[0].value),
    )
    agent = declare(harness, waits, script, tools=[*make_tools(harness), broken])
    assert harness.run(agent, "x").unwrap() == "paid 5"
    assert errors(script, 2) == ["ValueError: no such file", None, "Declined: too much"]
    assert errors(script, 3) == ["ValueError: no such file"]
    assert errors(script, 4) == [None]


def test_calls_that_cannot_be_made_are_told_and_cost_a_step_and_are_never_sent(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="external")
    def forbidden() -> None:
        raise AssertionError("it was sent")

    wrong = act(
        call("forbidden"),
        call("nothing"),
        call("search"),
        call("search", query=5),
        call("search", query="a", depth=3),
        ToolCall("search", "{bad"),
        ToolCall("search", "[1]"),
        call("pay", cents="a lot"),
        call("search", query="a"),
    )
    script = Script(wrong, Decision.finish("done"))
    agent = declare(harness, waits, script, tools=make_tools(harness))
    assert harness.run(agent, "x").unwrap() == "done"
    told = [error or "" for error in errors(script, 2)]
    assert [error.partition(":")[0] for error in told] == ["ToolNotAllowed", "UnknownTool", *["BadArguments"] * 6, ""]
    assert "its tools are: pay, search, ship" in told[0] and "the tools are: pay, search, ship" in told[1]
    assert "query" in told[2] and "Its signature is search(query" in told[2]
    assert "'query'" in told[3] and "'depth'" in told[4] and "no JSON object" in told[5]
    rows = harness.show("last").calls
    assert [(row.state, row.attempt) for row in rows[1:10]] == [("FAILED", 0)] * 8 + [("SUCCEEDED", 1)]
    assert script.views[1].limits is not None and script.views[1].limits.steps_left == 19


@pytest.mark.parametrize("name", ["a.b c/ü", "x" * 500, "\n", "../../etc"])
def test_a_tools_name_may_be_anything_at_all(harness: Harness, name: str) -> None:
    script = Script(act(ToolCall(name, {"a": 1})), Decision.finish("done"))
    assert harness.run(declare(harness, False, script), "x").unwrap() == "done"
    assert script.views[1].history[0].decision.calls[0].name == name
    assert errors(script, 2)[0] is not None


def test_a_result_that_cannot_be_recorded_is_told_as_done_and_is_not_sent_again(harness: Harness, waits: bool) -> None:
    sent: list[int] = []

    @harness.tool(effect="external")
    def send() -> int:
        sent.append(1)
        return object()  # type: ignore[return-value]

    script = Script(act(call("send")), act(call("send"), call("send")), Decision.finish())
    harness.run(declare(harness, waits, script, tools=[send]), "x").unwrap()
    assert len(sent) == 3
    assert all("the call happened, but its result" in (error or "") for error in errors(script, 3))


def test_a_passing_error_of_a_tool_is_tried_again_before_the_model_hears_of_it(harness: Harness, waits: bool) -> None:
    tries: list[int] = []

    @harness.tool(effect="read", retries=3)
    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("again")
        return "here"

    script = Script(act(call("flaky")), lambda view: Decision.finish(view.history[0].results[0].value))
    assert harness.run(declare(harness, waits, script, tools=[flaky]), "x").unwrap() == "here"
    assert (len(tries), states(harness)["turn.flaky.1"]) == (3, "SUCCEEDED")
    assert harness.show("last").calls[1].attempt == 3


def test_a_decision_may_look_but_not_act_by_itself(harness: Harness) -> None:
    search, pay, _ = make_tools(harness)
    found: list[Any] = []

    def decide(view: Any) -> Decision:
        found.append(search("a"))
        pay(5)
        return Decision.finish()

    result = harness.run(declare(harness, False, decide, tools=[search, pay]), "x")
    assert found == [["a 0", "a 1"]]
    assert result.status == "FAILED" and "inside the decision turn.decide.1" in (result.error_message or "")
