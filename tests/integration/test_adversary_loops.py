"""Loop agents and what surrounds them, used as nobody would expect."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jumar import Decision, Harness, LoopView, Run, ToolCall, Usage
from jumar.errors import ReplayDiverged, UsageError
from tests.integration.loops_helpers import Script, act, call, declare

PROVIDERS = ("openai", "anthropic")


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@dataclass
class Question:
    words: list[str]


@dataclass
class Order:
    items: list[str]


# --- Views are their owner's. ----------------------------------------------------------------------------------------


def spoil(view: LoopView) -> None:
    """Change everything in a view that can be changed."""
    view.task["words"].append("spoilt")
    for turn in view.history:
        for asked in turn.decision.calls:
            assert isinstance(asked.arguments, dict)
            asked.arguments["query"] = "spoilt"
        for result in turn.results:
            result.value["hits"].clear()
        if turn.decision.finished:
            turn.decision.output["found"] = "spoilt"


def test_what_is_changed_in_a_view_no_other_view_and_no_message_shows(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="read")
    def search(query: str) -> dict[str, list[str]]:
        return {"hits": [query]}

    def decide(view: LoopView) -> Decision:
        spoil(view)
        if view.step_index == 1:
            return act(call("search", query="a"))
        return Decision.finish({"found": view.step_index})

    agent = declare(harness, waits, decide, tools=[search], verify=lambda output: output["found"] == 4 or "no")
    assert harness.run(agent, {"words": ["a"]}).unwrap() == {"found": 4}
    views = [harness.view("last"), harness.view("last")]
    before = [views[1].messages(provider) for provider in PROVIDERS]
    assert "spoilt" not in str(before)
    spoil(views[0])
    assert views[0].history[0].decision.calls[0].arguments == {"query": "spoilt"}  # it is the view's own, and stays so
    for view in views[1], harness.view("last"):
        assert view.task == {"words": ["a"]}
        assert view.history[0].decision.calls == (ToolCall("search", {"query": "a"}),)
        assert view.history[0].results[0].value == {"hits": ["a"]}
        assert view.history[0].results[0].call is view.history[0].decision.calls[0]
        assert [turn.decision.output for turn in view.history[1:]] == [{"found": number} for number in (2, 3, 4)]
        assert [view.messages(provider) for provider in PROVIDERS] == before


def test_a_history_is_read_like_a_tuple(harness: Harness) -> None:
    script = Script(*[act(call("nothing"))] * 3, Decision.finish("done"))
    harness.run(declare(harness, False, script), "x").unwrap()
    history = harness.view("last").history
    assert len(history) == 4 and history[-1].decision.finished and history[-1] is history[3]
    assert [turn.index for turn in history[1:3]] == [2, 3] and isinstance(history[1:], tuple)
    assert history[1] in history and history == harness.view("last").history == tuple(history)
    assert history != () and repr(history) == repr(tuple(history))
    with pytest.raises(IndexError):
        history[4]


def test_an_input_of_one_type_of_several_reads_the_same_from_outside(harness: Harness, waits: bool) -> None:
    seen: list[Any] = []

    def decide(view: LoopView) -> Decision:
        view.task.words.append("spoilt")
        seen.append((view.task, view.messages("openai")))
        return Decision.finish("done") if view.step_index > 1 else act(call("nothing"))

    agent = declare(harness, waits, decide, takes=Question | Order)
    harness.run(agent, Question(["a"])).unwrap()
    assert [type(task) for task, _ in seen] == [Question, Question]
    assert [messages[0] for _, messages in seen] == [{"role": "user", "content": '{"words":["a"]}'}] * 2
    view = harness.view("last")
    assert (view.task, view.messages("openai")[0]) == ({"words": ["a"]}, seen[0][1][0])


def test_a_function_agents_run_that_made_no_call_has_no_view_either(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> str:
        return task

    harness.run(agent, "x").unwrap()
    with pytest.raises(UsageError, match="no loop agent"):
        harness.view("last")


# --- Arguments. ------------------------------------------------------------------------------------------------------


def test_a_call_that_waited_is_made_with_the_rest_of_its_arguments_in_their_place(
    harness: Harness, waits: bool
) -> None:
    made: list[Any] = []

    @harness.tool(effect="external", approval="always")
    def send(to: str, *rest: int, subject: str = "", **more: int) -> str:
        made.append((to, rest, subject, more))
        return "sent"

    script = Script(
        act(call("send", to="a", rest=[1, 2], size=3), call("send", to="b")),
        lambda view: Decision.finish([result.value for result in view.history[0].results]),
    )
    agent = declare(harness, waits, script, tools=[send])
    result = harness.run(agent, "x")
    assert result.status == "WAITING" and made == []
    for request in harness.requests():
        harness.approve(request.run_id, request.asked.call_id)
    assert harness.resume(result.run_id).unwrap() == ["sent", "sent"]
    assert sorted(made) == [("a", (1, 2), "", {"size": 3}), ("b", (), "", {})]


def test_what_a_planned_call_was_planned_with_outlives_the_defaults_of_its_tool(tmp_path: Path, waits: bool) -> None:
    made: list[Any] = []

    def life(default: int, effect: str = "external") -> Harness:
        harness = Harness(f"sqlite:///{tmp_path / 'runs.db'}")

        @harness.tool(effect=effect, approval="always")
        def pay(cents: int, tip: int = default) -> str:
            made.append((cents, tip))
            return "paid"

        script = Script(act(call("pay", cents=5)), lambda view: Decision.finish(view.history[0].results[0].value))
        declare(harness, waits, script, tools=[pay])
        return harness

    with life(1) as first:
        assert first.run("operator", "x").status == "WAITING"
        first.approve("last", "turn.pay.1")
    with life(1, "read") as other, pytest.raises(ReplayDiverged, match="was asked for") as caught:
        other.resume("last")
    assert caught.value.what == "pay is declared read now and was external when call turn.pay.1 was asked for"
    with life(99) as second:
        assert second.resume("last").unwrap() == "paid"
    assert made == [(5, 1)]


# --- Usage. ----------------------------------------------------------------------------------------------------------


def test_what_a_decision_cost_that_was_none_counts_too_once_it_is_made_again(harness: Harness, waits: bool) -> None:
    answers: list[Any] = [
        ("no decision", Usage(100, 10, usd=0.5)),
        Decision.finish("bad", usage=Usage(7, 1)),
        Decision.finish("good", usage=Usage(8, 2)),
    ]
    agent = declare(harness, waits, lambda view: answers.pop(0), verify=lambda output: output == "good")
    failed = harness.run(agent, "x")
    assert failed.status == "FAILED" and "which is no Decision" in (failed.error_message or "")
    assert harness.resume(failed.run_id).unwrap() == "good"
    spent = [turn.decision.usage for turn in harness.view("last").history]
    assert spent == [Usage(107, 11, usd=0.5), Usage(8, 2)]


# --- Words. ----------------------------------------------------------------------------------------------------------


def test_one_step_and_one_output_are_told_as_one(harness: Harness) -> None:
    once = declare(harness, False, lambda view: act(call("nothing")), max_steps=1)
    assert harness.run(once, "x").error_message == "operator took 1 step without finishing"

    @harness.loop(tools=[], verify=lambda output: "no", verify_limit=1)
    def other(view: LoopView) -> Decision:
        return Decision.finish("bad")

    failed = harness.run(other, "x")
    assert failed.error_message == "1 output of other was not accepted: no"
    assert harness.resume(failed.run_id).error_message == "1 output of other was not accepted"
