"""Decisions, recorded values, plans, checkpoints, and `record`, on which they stand."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from jumar import Harness, Run, Usage
from jumar.errors import CallFailed, InvalidReference, NotStorable, NotSupported, ResultNotStorable, UsageError
from tests.integration.agents_helpers import Interruption, ids, interrupted


@dataclass
class Plan:
    files: list[str]
    urgent: bool = False


# --- Decisions. ------------------------------------------------------------------------------------------------------


def test_a_model_is_asked_once_and_of_its_prompt_only_a_digest_is_kept(harness: Harness) -> None:
    interrupt = Interruption()
    asked: list[str] = []

    def model(prompt: str, *, temperature: float = 0.0) -> str:
        asked.append(prompt)
        return "look into the logs"

    @harness.agent
    def agent(run: Run, task: str) -> str:
        answer = run.decide(model, "a long and private prompt", temperature=0.5)
        interrupt()
        return answer

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == "look into the logs"
    assert asked == ["a long and private prompt"]
    (call,) = harness.show(run_id).calls
    assert (call.call_id, call.kind, call.effect, call.args) == ("model.1", "decision", "read", None)
    assert call.result == "look into the logs"


@pytest.mark.parametrize(
    "answer",
    [
        Plan(["a"], urgent=True),
        {"files": ["a"], "urgent": True},
        '{"files": ["a"], "urgent": true}',
        '\n {"urgent": true, "files": ["a"]} \n',
    ],
    ids=["a plan", "a dict", "json text", "json text with space around"],
)
def test_an_answer_of_a_type_may_be_one_or_the_json_text_of_one(harness: Harness, answer: Any) -> None:
    interrupt = Interruption()
    seen: list[Any] = []

    @harness.agent
    def agent(run: Run, task: str) -> None:
        seen.append(run.decide(lambda prompt: answer, task, returns=Plan))
        interrupt()

    harness.resume(interrupted(harness, agent)).unwrap()
    assert seen == [Plan(["a"], urgent=True)] * 2


def test_text_stays_text_where_text_is_wanted(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        return [
            run.decide(lambda: '"quoted"', returns=str),
            run.decide(lambda: "[1, 2]", returns=list[int]),
            run.decide(lambda: "5", returns=int),
        ]

    assert harness.run(agent, "x").unwrap() == ['"quoted"', [1, 2], 5]


@pytest.mark.parametrize(
    "answer", ["not json", '{"files": "a"}', '{"urgent": true}', "", "{}", None, 5, '{"files": ["\ud800"]}']
)
def test_an_answer_that_is_no_such_type_is_an_error_for_the_agent_live_and_on_replay(
    harness: Harness, answer: Any
) -> None:
    interrupt = Interruption()
    asked: list[int] = []
    said: list[str] = []

    def model(prompt: str) -> Any:
        asked.append(1)
        return answer

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(ResultNotStorable) as caught:
            run.decide(model, task, returns=Plan)
        said.append(str(caught.value))
        interrupt()
        return "went on"

    assert harness.resume(interrupted(harness, agent)).unwrap() == "went on"
    assert (len(asked), said[0]) == (1, said[1])
    assert "Plan" in said[0]


def test_usage_is_read_from_a_response_a_pair_or_a_dict(harness: Harness) -> None:
    response = ChatCompletion.model_validate(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [],
            "usage": {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940},
        }
    )
    answers: list[Any] = [
        response,
        ("text", Usage(10, 2, usd=0.5)),
        {"text": "t", "usage": {"input_tokens": 5, "output_tokens": 1}},
        {"usage": "how to use it"},
        "text",
    ]

    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        return [run.decide(lambda answer=answer: answer) for answer in answers][1:]

    assert harness.run(agent, "x").unwrap() == ["text", *answers[2:]]
    usages = [call.usage for call in harness.show("last").calls]
    assert [usage and (usage["input_tokens"], usage["output_tokens"], usage["usd"]) for usage in usages] == [
        (900, 40, None),
        (10, 2, 0.5),
        (5, 1, None),
        None,
        None,
    ]


def test_a_model_that_fails_in_passing_is_asked_again_and_one_that_lasts_is_not(harness: Harness) -> None:
    asked: list[str] = []

    def model(prompt: str) -> str:
        asked.append(prompt)
        if prompt == "lasting":
            raise ValueError("no")
        if asked.count(prompt) == 1:
            raise ConnectionError("cut")
        return "answer"

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(CallFailed, match="ValueError: no"):
            run.decide(model, "lasting")
        with pytest.raises(CallFailed, match="ConnectionError: cut"):
            run.decide(model, "once", retries=0)
        return run.decide(model, "passing")

    assert harness.run(agent, "x").unwrap() == "answer"
    assert asked == ["lasting", "once", "passing", "passing"]


def test_a_prompt_that_changed_is_answered_all_the_same_and_put_on_the_trace(harness: Harness) -> None:
    interrupt = Interruption()
    prompts = iter(["first", "second"])

    @harness.agent
    def agent(run: Run, task: str) -> str:
        answer = run.decide(lambda prompt: f"to {prompt}", next(prompts))
        interrupt()
        return answer

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == "to first"
    assert [line.call_id for line in harness.trace(run_id) if line.what == "prompt-changed"] == ["lambda.1"]


def test_a_client_among_the_arguments_is_no_part_of_the_prompt(harness: Harness) -> None:
    interrupt = Interruption()

    class Client:
        def ask(self, prompt: str) -> str:
            return f"to {prompt}"

    @harness.agent
    def agent(run: Run, task: str) -> str:
        answer = run.decide(lambda client, prompt: client.ask(prompt), Client(), task)
        interrupt()
        return answer

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == "to x"
    assert "prompt-changed" not in [line.what for line in harness.trace(run_id)]


# --- Values. ---------------------------------------------------------------------------------------------------------


def test_a_value_is_recorded_once_and_the_same_on_every_replay(harness: Harness) -> None:
    interrupt = Interruption()
    seen: list[Any] = []

    @harness.agent
    def agent(run: Run, task: str) -> None:
        seen.append((run.value("dice", random.random), run.value("setting", [1, 2]), run.value("dice", random.random)))
        interrupt()

    harness.resume(interrupted(harness, agent)).unwrap()
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[0][2]
    assert ids(harness) == ["dice.1", "setting.1", "dice.2"]


def test_a_value_may_have_a_type_and_a_key(harness: Harness) -> None:
    interrupt = Interruption()
    seen: list[Any] = []

    @harness.agent
    def agent(run: Run, task: str) -> None:
        seen.append([run.value("plan", lambda: Plan(["a"]), returns=Plan), run.value("n", 5, key="k")])
        interrupt()

    harness.resume(interrupted(harness, agent)).unwrap()
    assert seen == [[Plan(["a"]), 5]] * 2


# --- Plans and checkpoints. ------------------------------------------------------------------------------------------


def test_a_checkpoint_keeps_its_references_and_the_context_of_its_moment(harness: Harness) -> None:
    interrupt = Interruption()

    @harness.agent
    def agent(run: Run, task: str) -> int:
        run.context["seen"] = ["a"]
        run.checkpoint("before restart", refs=["claim:c-17", "doc:d.1_2"])
        run.context["seen"].append("b")
        run.checkpoint("before restart")
        interrupt()
        return run.version

    run_id = interrupted(harness, agent)
    view = harness.show(run_id)
    assert [(point.version, point.level, point.trigger, point.refs) for point in view.checkpoints] == [
        (1, "step", "manual", ("claim:c-17", "doc:d.1_2")),
        (2, "step", "manual", ()),
    ]
    harness.resume(run_id).unwrap()
    assert len(harness.show(run_id).checkpoints) == 2
    assert ids(harness) == ["checkpoint.1", "checkpoint.2"]
    assert harness.doctor().sound


def test_a_plan_tells_the_steps_and_keeps_a_checkpoint_of_the_task(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.plan(["scan", "修复", "restart"], files=["conf/site.ini"])

    harness.run(agent, "x").unwrap()
    view = harness.show("last")
    assert view.calls[0].args == {"steps": ["scan", "修复", "restart"], "files": ["conf/site.ini"]}
    assert [(point.level, point.trigger) for point in view.checkpoints] == [("task", "after-planning")]


def test_a_harness_may_declare_kinds_of_references_of_its_own() -> None:
    with Harness("memory:", reference_kinds=["invoice"]) as harness:

        @harness.agent
        def agent(run: Run, task: str) -> None:
            run.checkpoint("paid", refs=["invoice:7", "claim:5"])

        harness.run(agent, "x").unwrap()
        assert harness.show("last").checkpoints[0].refs == ("invoice:7", "claim:5")


@pytest.mark.parametrize("context", [{"f": lambda: 5}, {"nan": float("nan")}, {"a": "x" * 5_000_000}, {"\ud800": 1}])
def test_a_context_that_cannot_be_stored_is_refused_before_anything_is_sent(harness: Harness, context: Any) -> None:
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        run.context.update(context)
        for ask in (lambda: run.checkpoint("now"), lambda: run.step("scan").__enter__(), lambda: run.call(pay, 5)):
            with pytest.raises(NotStorable, match=r"run\.context: "):
                ask()
        assert sent == []
        run.context.clear()
        with run.step("scan"):
            return run.call(pay, 7)

    assert harness.run(agent, "x").unwrap() == 7
    assert ids(harness) == ["scan.pay.1"]


def test_a_context_that_is_spoilt_while_a_call_is_made_does_not_keep_it_from_being_recorded(harness: Harness) -> None:
    runs: list[Run] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        runs[0].context["f"] = print
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        runs.append(run)
        with pytest.raises(NotStorable, match=r"run\.context"), run.step("paying"):
            run.call(pay, 5)
        run.context.clear()
        with pytest.raises(ValueError, match="first"), run.step("again"):
            run.context["f"] = print
            raise ValueError("the step's own error goes first")
        return 5

    assert harness.run(agent, "x").unwrap() == 5
    assert [call.state for call in harness.show("last").calls] == ["SUCCEEDED"]


@pytest.mark.parametrize(
    ("ask", "kind"),
    [
        (lambda run: run.checkpoint(""), InvalidReference),
        (lambda run: run.checkpoint("a\x00b"), InvalidReference),
        (lambda run: run.checkpoint("\ud800"), InvalidReference),
        (lambda run: run.checkpoint(5), InvalidReference),
        (lambda run: run.checkpoint("x", refs="claim:5"), InvalidReference),
        (lambda run: run.checkpoint("x", refs=["claim 5"]), InvalidReference),
        (lambda run: run.plan("scan"), UsageError),
        (lambda run: run.plan(5), UsageError),
        (lambda run: run.plan(["scan"], files="conf"), UsageError),
        (lambda run: run.plan([""]), InvalidReference),
        (lambda run: run.value("", 5), InvalidReference),
        (lambda run: run.value("a\x00", 5), InvalidReference),
        (lambda run: run.value("a", 5, key=""), UsageError),
        (lambda run: run.value("a", 5, key="\ud800"), UsageError),
        (lambda run: run.value("a", 5, returns=type(lambda: 5)), NotStorable),
        (lambda run: run.decide("gpt"), UsageError),
        (lambda run: run.decide(print, retries=-1), UsageError),
        (lambda run: run.decide(print, timeout=0), UsageError),
        (lambda run: run.decide(print, timeout="5"), UsageError),
        (lambda run: run.decide(print, key=5), UsageError),
        (lambda run: run.step(""), InvalidReference),
        (lambda run: run.step("\ud800"), InvalidReference),
        (lambda run: run.step(None), InvalidReference),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_recorded(harness: Harness, ask: Any, kind: Any) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(kind) as caught:
            ask(run)
        assert caught.value.hint
        return "went on"

    assert harness.run(agent, "x").unwrap() == "went on"
    assert ids(harness) == []


# --- record(). -------------------------------------------------------------------------------------------------------


def test_record_is_answered_by_its_key_whatever_the_order(harness: Harness) -> None:
    interrupt = Interruption()
    made: list[str] = []

    def make(name: str) -> Any:
        made.append(name)
        return {"name": name}

    orders = iter([["call_1", "call_2"], ["call_2", "call_1"]])

    @harness.agent
    def agent(run: Run, task: str) -> dict[str, Any]:
        found = {}
        for key in next(orders):
            found[key] = run.record(
                "tool", "search", {"query": key}, lambda key=key: make(key), key=key, effect="external"
            )
        interrupt()
        return found

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == {"call_1": {"name": "call_1"}, "call_2": {"name": "call_2"}}
    assert made == ["call_1", "call_2"]
    assert ids(harness) == ["search.1", "search.2"]


def test_record_takes_a_kind_a_type_and_usage(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        return [
            run.record("decision", "gpt", {"p": 1}, lambda: Plan(["a"]), codec=Plan, usage=Usage(5, 6)).files,
            run.record("value", "now", {}, lambda: 5, usage=lambda value: {"input_tokens": value}),
            run.record("tool", "odd name!", {}, lambda: 5, usage=lambda value: 1 / 0),
            run.record("tool", "odd usage", {}, lambda: 5, usage=Usage("many", None)),  # type: ignore[arg-type]
        ]

    assert harness.run(agent, "x").unwrap() == [["a"], 5, 5, 5]
    calls = harness.show("last").calls
    assert [(call.call_id, call.kind) for call in calls] == [
        ("gpt.1", "decision"),
        ("now.1", "value"),
        ("odd-name.1", "tool"),
        ("odd-usage.1", "tool"),
    ]
    assert [call.usage and call.usage["input_tokens"] for call in calls] == [5, 5, None, None]
    assert harness.doctor().sound


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"kind": "ask"}, UsageError),
        ({"kind": ["tool"]}, UsageError),
        ({"effect": "write"}, NotSupported),
        ({"effect": "delete"}, UsageError),
        ({"effect": None}, UsageError),
        ({"plan": ["a"]}, NotSupported),
        ({"name": ""}, InvalidReference),
        ({"name": "a\x00"}, InvalidReference),
        ({"args": 5}, UsageError),
        ({"args": {"f": print}}, NotStorable),
        ({"args": {"large": "x" * 5_000_000}}, NotStorable),
        ({"body": 5}, UsageError),
        ({"key": ""}, UsageError),
        ({"key": "x" * 257}, UsageError),
        ({"codec": type(lambda: 5)}, NotStorable),
    ],
)
def test_record_refuses_what_makes_no_sense_before_anything_is_called(harness: Harness, given: Any, kind: Any) -> None:
    called: list[int] = []
    usual = {"kind": "tool", "name": "n", "args": {}, "body": lambda: called.append(1), "effect": "external"}

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(kind):
            run.record(**{**usual, **given})
        return "went on"

    assert harness.run(agent, "x").unwrap() == "went on"
    assert (called, ids(harness)) == ([], [])
