"""Loop agents verify and stop: outputs that are sent back with a reason, and what ends a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from jumar import Decision, Harness
from jumar.errors import RunEnded, StepsExhausted, VerificationFailed
from tests.integration.agents_helpers import Interruption, states
from tests.integration.loops_helpers import Script, act, call, declare


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


@dataclass
class Report:
    files: list[str]
    done: bool = True


# --- Sent back. ------------------------------------------------------------------------------------------------------


def test_an_output_that_is_refused_goes_back_with_the_reason_until_one_is_accepted(
    harness: Harness, waits: bool
) -> None:
    seen: list[Any] = []

    def verify(output: Any) -> Any:
        seen.append(output)
        return True if output == "good" else f"{output} is not good"

    script = Script(Decision.finish("bad"), Decision.finish("worse", text="how about"), Decision.finish("good"))
    assert harness.run(declare(harness, waits, script, verify=verify), "x").unwrap() == "good"
    assert seen == ["bad", "worse", "good"]
    assert [turn.verdict for turn in script.views[2].history] == ["bad is not good", "worse is not good"]
    assert script.views[2].messages("openai")[-2:] == [
        {"role": "assistant", "content": "how about\n\nworse"},
        {"role": "user", "content": "Your answer was not accepted: worse is not good"},
    ]
    assert [view.limits.verifications_left for view in script.views if view.limits] == [3, 2, 1]
    assert states(harness)["turn#3.verify.1"] == "SUCCEEDED"


def test_an_async_verify_is_awaited(harness: Harness) -> None:
    async def verify(output: str) -> Any:
        return output == "good" or "not good"

    script = Script(Decision.finish("bad"), Decision.finish("good"))
    assert harness.run(declare(harness, True, script, verify=verify), "x").unwrap() == "good"
    assert script.views[1].history[0].verdict == "not good"


@pytest.mark.parametrize("answer", [False, "", "  "])
def test_a_refusal_without_a_reason_is_a_refusal(harness: Harness, answer: Any) -> None:
    answers = iter([answer, True])
    script = Script(Decision.finish("x"), Decision.finish("y"))
    agent = declare(harness, False, script, verify=lambda output: next(answers))
    assert harness.run(agent, "x").unwrap() == "y"
    assert script.views[1].history[0].verdict == "it was not accepted"


def test_a_reason_may_hold_what_cannot_be_stored_as_it_is(harness: Harness, waits: bool) -> None:
    answers = iter(["no \ud83d\x00", True])
    script = Script(Decision.finish("x"), Decision.finish("y"))
    agent = declare(harness, waits, script, verify=lambda output: next(answers))
    assert harness.run(agent, "x").unwrap() == "y"
    assert script.views[1].history[0].verdict == "no \\ud83d\\x00"


def test_a_run_may_act_between_two_outputs(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="external")
    def mend() -> str:
        return "mended"

    script = Script(Decision.finish("x"), act(call("mend"), call("mend")), Decision.finish("x"))
    found = iter(["it is broken", True])
    agent = declare(harness, waits, script, tools=[mend], verify=lambda output: next(found))
    assert harness.run(agent, "x").unwrap() == "x"
    assert [turn.verdict for turn in script.views[2].history] == ["it is broken", None]


# --- Types. ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", [Report(["a"]), {"files": ["a"]}, '{"files": ["a"]}'], ids=["it", "dict", "text"])
def test_an_output_of_a_type_may_be_one_or_json_of_one(harness: Harness, waits: bool, output: Any) -> None:
    seen: list[Any] = []

    def verify(report: Report) -> bool:
        seen.append(report)
        return True

    agent = declare(harness, waits, Script(Decision.finish(output)), verify=verify, returns=Report)
    assert harness.run(agent, "x").unwrap() == Report(["a"])
    assert seen == [Report(["a"])]


@pytest.mark.parametrize("verify", [None, lambda report: True], ids=["without verify", "with verify"])
def test_an_output_that_is_not_of_its_type_is_sent_back_like_one_that_was_refused(
    harness: Harness, waits: bool, verify: Any
) -> None:
    script = Script(Decision.finish("all is well"), Decision.finish({"files": 5}), Decision.finish({"files": []}))
    agent = declare(harness, waits, script, verify=verify, returns=Report)
    assert harness.run(agent, "x").unwrap() == Report([])
    reasons = [turn.verdict or "" for turn in script.views[2].history]
    assert "Report" in reasons[0] or "JSON" in reasons[0]
    assert "$.files" in reasons[1]


def test_the_input_has_a_type_too(harness: Harness) -> None:
    script = Script(lambda view: Decision.finish(view.task.files))
    agent = declare(harness, False, script, takes=Report)
    assert harness.run(agent, Report(["a"])).unwrap() == ["a"]
    said = {"role": "user", "content": '{"files":["a"],"done":true}'}
    assert script.views[0].messages("openai") == [said] == harness.view("last").messages("openai")[:1]


def test_an_output_that_cannot_be_stored_at_all_is_a_mistake_of_the_function(harness: Harness, waits: bool) -> None:
    agent = declare(harness, waits, lambda view: Decision.finish(object()))
    result = harness.run(agent, "x")
    assert result.status == "FAILED" and "the output" in (result.error_message or "")
    assert states(harness) == {"turn.decide.1": "FAILED"}


# --- The end of patience. --------------------------------------------------------------------------------------------


def test_too_many_refused_outputs_fail_the_run_and_a_higher_limit_takes_it_further(
    harness: Harness, waits: bool
) -> None:
    script = Script(*[Decision.finish(number) for number in range(5)])

    def verify(output: int) -> Any:
        return output == 3 or f"{output} is too little"

    def with_limit(limit: int) -> Harness:
        other = Harness(harness.address) if harness.address != "memory:" else harness
        harness._agents.clear()
        declare(other, waits, script, verify=verify, verify_limit=limit)
        return other

    result = with_limit(2).run("operator", "x")
    assert result.status == "FAILED" and isinstance(result.error, VerificationFailed)
    assert "the last: 1 is too little" in (result.error_message or "")
    again = with_limit(2).resume(result.run_id)
    assert (again.status, again.error_type, script.steps) == ("FAILED", "VerificationFailed", [1, 2])
    assert with_limit(4).resume(result.run_id).unwrap() == 3
    assert script.steps == [1, 2, 3, 4]


def test_a_model_that_never_finishes_is_stopped_and_goes_on_once_it_may_take_more_steps(
    harness: Harness, waits: bool
) -> None:
    @harness.tool(effect="read")
    def look() -> int:
        return 1

    def decide(view: Any) -> Decision:
        steps.append(view.step_index)
        assert view.limits.steps_left == limit - view.step_index + 1
        return act(call("look")) if view.step_index < 5 else Decision.finish("done")

    steps: list[int] = []
    limit = 3
    result = harness.run(declare(harness, waits, decide, tools=[look], max_steps=limit), "x")
    assert result.status == "FAILED" and isinstance(result.error, StepsExhausted)
    assert steps == [1, 2, 3]
    assert harness.show("last").run.phase == "RESULTS_RECORDED"
    harness._agents.clear()
    limit = 5
    declare(harness, waits, decide, tools=[look], max_steps=limit)
    assert harness.resume(result.run_id).unwrap() == "done"
    assert steps == [1, 2, 3, 4, 5]


def test_a_finished_run_is_finished(harness: Harness) -> None:
    result = harness.run(declare(harness, False, Script(Decision.finish("x"))), "x")
    with pytest.raises(RunEnded):
        harness.resume(result.run_id)


# --- A verify that fails. --------------------------------------------------------------------------------------------


def test_a_verify_that_raises_fails_the_run_and_resuming_asks_it_again_and_not_the_model(
    harness: Harness, waits: bool
) -> None:
    interrupt = Interruption()

    def verify(output: str) -> bool:
        try:
            interrupt()
        except KeyboardInterrupt:
            raise ValueError("the tests cannot be run") from None
        return True

    script = Script(Decision.finish("good"))
    result = harness.run(declare(harness, waits, script, verify=verify), "x")
    assert result.status == "FAILED" and "the tests cannot be run" in (result.error_message or "")
    assert states(harness) == {"turn.decide.1": "SUCCEEDED", "turn.verify.1": "FAILED"}
    assert harness.resume(result.run_id).unwrap() == "good"
    assert script.steps == [1]
    assert harness.show("last").calls[1].attempt == 2


@pytest.mark.parametrize("answer", [None, 5, ["no"], 1])
def test_a_verify_that_says_neither_yes_nor_why_not_fails_the_run(harness: Harness, answer: Any) -> None:
    result = harness.run(declare(harness, False, Script(Decision.finish("x")), verify=lambda output: answer), "x")
    assert result.status == "FAILED"
    assert f"verify returned {type(answer).__name__}" in (result.error_message or "")


def test_a_passing_error_of_verify_is_tried_again(harness: Harness, waits: bool) -> None:
    interrupt = Interruption()

    def verify(output: str) -> bool:
        try:
            interrupt()
        except KeyboardInterrupt:
            raise ConnectionError("again") from None
        return True

    agent = declare(harness, waits, Script(Decision.finish("good")), verify=verify)
    assert harness.run(agent, "x").unwrap() == "good"


def test_a_verify_keeps_to_its_time(harness: Harness) -> None:
    import threading

    never = threading.Event()

    def verify(output: str) -> bool:
        return never.wait(60)

    agent = declare(harness, False, Script(Decision.finish("good")), verify=verify, timeout=0.05, retries=0)
    result = harness.run(agent, "x")
    never.set()
    assert result.status == "FAILED" and "did not end within" in (result.error_message or "")
