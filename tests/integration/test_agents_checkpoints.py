"""Plans and checkpoints, and `record`, on which decisions and calls stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from jumar import Harness, Run, Usage
from jumar.errors import InvalidReference, NotStorable, NotSupported, UsageError
from tests.integration.agents_helpers import Interruption, ids, interrupted


@dataclass
class Plan:
    files: list[str]
    urgent: bool = False


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
        (0, "task", "on_task_received", ()),
        (1, "step", "manual", ("claim:c-17", "doc:d.1_2")),
        (2, "step", "manual", ()),
    ]
    harness.resume(run_id).unwrap()
    manual = [point.version for point in harness.show(run_id).checkpoints if point.trigger == "manual"]
    assert manual == [1, 2]
    assert ids(harness) == ["checkpoint.1", "checkpoint.2"]
    assert harness.doctor().sound


def test_a_plan_tells_the_steps_and_keeps_a_checkpoint_of_the_task(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.plan(["scan", "修复", "restart"], files=["conf/site.ini"])

    harness.run(agent, "x").unwrap()
    view = harness.show("last")
    assert view.calls[0].args == {"steps": ["scan", "修复", "restart"], "files": ["conf/site.ini"]}
    assert ("task", "after_planning") in [(point.level, point.trigger) for point in view.checkpoints]


def test_a_harness_may_declare_kinds_of_references_of_its_own() -> None:
    with Harness("memory:", reference_kinds=["invoice"]) as harness:

        @harness.agent
        def agent(run: Run, task: str) -> None:
            run.checkpoint("paid", refs=["invoice:7", "claim:5"])

        harness.run(agent, "x").unwrap()
        assert harness.show("last").checkpoints[1].refs == ("invoice:7", "claim:5")


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
        ({"effect": "write"}, UsageError),
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
