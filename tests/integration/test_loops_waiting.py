"""Loop agents that wait, are steered, or failed: what was asked for, and how they go on."""

from __future__ import annotations

from typing import Any

import pytest

from jumar import Decision, Harness, NotApplied
from tests.integration.loops_helpers import Script, act, approved_tools, call, declare
from tests.unit.message_rules import CHECKS

RUN = "01a00000-0000-7000-8000-000000000001"


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


# --- Waiting. --------------------------------------------------------------------------------------------------------


def test_a_call_that_is_tried_again_much_later_holds_no_other_back(harness: Harness, waits: bool) -> None:
    later = [NotApplied("busy", retry_after=3600.0)]

    @harness.tool(effect="external")
    def send(number: int) -> int:
        if number == 0:
            raise later[0]
        return number

    script = Script(act(*(call("send", number=number) for number in range(100))), Decision.finish("done"))
    result = harness.run(declare(harness, waits, script, tools=[send]), "x")
    assert (result.status, result.waiting_on, result.wake_at is not None) == ("WAITING", (), True)
    rows = harness.show("last").calls
    assert [row.call_id for row in rows if row.state != "SUCCEEDED"] == ["turn.send.1"]


def test_what_needs_no_approval_is_done_while_all_that_does_is_asked_for(harness: Harness, waits: bool) -> None:
    sent: list[str] = []
    script = Script(
        act(call("send", what="a"), call("look"), call("secret", what="b"), call("look"), call("send", what="c")),
        Decision.finish("done"),
    )
    result = harness.run(declare(harness, waits, script, tools=approved_tools(harness, sent)), "x")
    assert (result.status, sent) == ("WAITING", ["look", "look"])
    assert [asked.call_id for asked in result.waiting_on] == ["turn.send.1", "turn.secret.1", "turn.send.2"]
    for provider, check in CHECKS.items():
        check(harness.view("last").messages(provider))
    # In the reverse order, one by one: each goes out as soon as it may, whatever the others wait for.
    harness.approve("last", "turn.send.2")
    assert harness.resume("last").status == "WAITING"
    assert sent == ["look", "look", "c"]
    harness.approve("last", "turn.secret.1")
    harness.reject("last", "turn.send.1", note="not today")
    assert harness.resume("last").unwrap() == "done"
    assert sent == ["look", "look", "c", "b"]
    assert script.steps == [1, 2]
    results = script.views[1].history[0].results
    assert [found.value for found in results] == [None, "seen", "b shown", "seen", "c sent"]
    assert results[0].state == "REJECTED" and "not today" in (results[0].error or "")


def test_a_lone_call_that_is_rejected_is_told_to_the_model(harness: Harness, waits: bool) -> None:
    sent: list[str] = []
    script = Script(act(call("send", what="a")), act(call("send", what="a")), Decision.finish("done"))
    assert harness.run(declare(harness, waits, script, tools=approved_tools(harness, sent)), "x").status == "WAITING"
    harness.reject("last", "turn.send.1", note="why?")
    assert harness.resume("last").status == "WAITING"
    assert "why?" in (script.views[1].history[0].results[0].error or "")
    harness.approve("last", "turn#2.send.1")
    assert harness.resume("last").unwrap() == "done"
    assert sent == ["a"]


# --- Orders and failures. --------------------------------------------------------------------------------------------


def test_a_paused_run_goes_on_with_what_it_had_planned(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="external")
    def stop() -> str:
        harness.pause(run_id)
        return "stopping"

    run_id = RUN
    script = Script(act(call("stop")), Decision.finish("done"))
    agent = declare(harness, waits, script, tools=[stop])
    assert harness.run(agent, "x", run_id=run_id).status == "PAUSED"
    assert script.steps == [1]
    assert harness.resume(run_id).unwrap() == "done"
    assert [result.value for result in script.views[1].history[0].results] == ["stopping"]


def test_a_cancelled_run_decides_nothing_more(harness: Harness, waits: bool) -> None:
    def decide(view: Any) -> Decision:
        harness.cancel(RUN)
        return act(call("nothing"))

    assert harness.run(declare(harness, waits, decide), "x", run_id=RUN).status == "CANCELLED"
    assert [row.call_id for row in harness.show(RUN).calls][:1] == ["turn.decide.1"]


def test_a_function_that_raises_fails_the_run_and_is_asked_again_on_resume(harness: Harness, waits: bool) -> None:
    answers: list[Any] = [ValueError("no key"), Decision.finish("done")]

    def decide(view: Any) -> Decision:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        decision: Decision = answer
        return decision

    result = harness.run(declare(harness, waits, decide), "x")
    assert result.status == "FAILED" and "no key" in (result.error_message or "")
    assert harness.resume(result.run_id).unwrap() == "done"
    assert [(row.call_id, row.attempt) for row in harness.show("last").calls] == [("turn.decide.1", 2)]


@pytest.mark.parametrize("answer", [None, "done", {"calls": []}, Decision, [Decision.finish("x")]])
def test_a_function_that_returns_no_decision_fails_the_run_with_words(harness: Harness, answer: Any) -> None:
    result = harness.run(declare(harness, False, lambda view: answer), "x")
    assert result.status == "FAILED" and "which is no Decision" in (result.error_message or "")


def test_a_passing_error_of_the_model_is_tried_again(harness: Harness, waits: bool) -> None:
    tries: list[int] = []

    def decide(view: Any) -> Decision:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("again")
        return Decision.finish("done")

    assert harness.run(declare(harness, waits, decide), "x").unwrap() == "done"
    assert harness.show("last").calls[0].attempt == 2


def test_a_run_that_was_only_created_is_driven_by_whoever_resumes_it(harness: Harness, waits: bool) -> None:
    script = Script(Decision.finish("done"))
    run_id = harness.start(declare(harness, waits, script), "x")
    assert harness.show(run_id).run.phase == "READY_TO_DECIDE"
    assert harness.resume(run_id).unwrap() == "done"
    assert (script.views[0].recovered, script.views[0].brief) == (False, None)
