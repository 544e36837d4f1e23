"""Decisions of models, and values that are recorded once."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from jumar import Harness, Run, Usage
from jumar.errors import CallFailed, ResultNotStorable
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
