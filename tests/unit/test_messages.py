"""A history as messages: valid for both providers, whatever the model wrote and however the run was interrupted."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from jumar import Decision, ToolCall
from jumar.core.decisions import read, written
from jumar.core.messages import PROVIDERS, Transcript, messages_of, text_of
from jumar.core.states import CallState
from jumar.core.turns import ToolResult, Turn
from jumar.errors import UsageError
from tests.unit.message_rules import CHECKS

THINKING = {"type": "thinking", "thinking": "hm", "signature": "s1g"}


def result(call: ToolCall, value: Any = None, error: str | None = None, state: str = "SUCCEEDED") -> ToolResult:
    return ToolResult("turn.search.1", call, state if error is None else "FAILED", value, error)


def acted(index: int, *calls: ToolCall, values: list[Any] | None = None, text: str = "") -> Turn:
    given = ["ok"] * len(calls) if values is None else values
    results = tuple(result(call, value) for call, value in zip(calls, given, strict=True))
    return Turn(index, Decision.act(calls, text=text), results)


def finished(index: int, output: Any, verdict: str | None = None, text: str = "") -> Turn:
    return Turn(index, Decision.finish(output, text=text), (), verdict)


def both(task: Any, turns: list[Turn]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    found = [messages_of(provider, task, turns) for provider in PROVIDERS]
    for provider, messages in zip(PROVIDERS, found, strict=True):
        CHECKS[provider](messages)
    return found[0], found[1]


# --- What the messages say. ------------------------------------------------------------------------------------------


def test_a_call_and_its_result_read_as_each_provider_writes_them() -> None:
    turn = acted(1, ToolCall("search", {"query": "a"}, id="call_1"), values=[["hit"]], text="let me look")
    openai, anthropic = both("find it", [turn])
    function = {"name": "search", "arguments": '{"query":"a"}'}
    assert openai == [
        {"role": "user", "content": "find it"},
        {
            "role": "assistant",
            "content": "let me look",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": '["hit"]'},
    ]
    assert anthropic == [
        {"role": "user", "content": "find it"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "let me look"},
                {"type": "tool_use", "id": "call_1", "name": "search", "input": {"query": "a"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": '["hit"]'}]},
    ]


def test_a_failed_call_is_told_as_an_error() -> None:
    call = ToolCall("search", {}, id="call_1")
    turn = Turn(1, Decision.act([call]), (result(call, error="ValueError: no"),))
    openai, anthropic = both("find it", [turn])
    assert openai[-1]["content"] == "error: ValueError: no"
    assert anthropic[-1]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "call_1",
        "content": "error: ValueError: no",
        "is_error": True,
    }


def test_an_output_that_was_sent_back_comes_with_the_reason() -> None:
    openai, anthropic = both("find it", [finished(1, "here", "the file is missing")])
    assert openai[1:] == [
        {"role": "assistant", "content": "here"},
        {"role": "user", "content": "Your answer was not accepted: the file is missing"},
    ]
    assert anthropic[2] == openai[2]


@pytest.mark.parametrize(
    ("text", "output", "shown"),
    [
        ("", {"a": 1}, '{"a":1}'),
        ("here it is", {"a": 1}, 'here it is\n\n{"a":1}'),
        ("here it is", "here it is", "here it is"),
        ("", "", '""'),
        (" ", " \n", '" \\n"'),
        ("", None, "null"),
    ],
)
def test_what_was_finished_with_is_said_once_and_is_never_blank(text: str, output: Any, shown: str) -> None:
    openai, _ = both("find it", [finished(1, output, text=text)])
    assert openai[-1]["content"] == shown


@pytest.mark.parametrize(
    ("task", "shown"), [("find it", "find it"), ("", '""'), ("  ", '"  "'), (None, "null"), ({"a": 1}, '{"a":1}')]
)
def test_a_task_is_a_text_as_it_is_or_json(task: Any, shown: str) -> None:
    openai, anthropic = both(task, [])
    assert openai == anthropic == [{"role": "user", "content": shown}]


def test_a_call_without_a_row_is_answered_all_the_same() -> None:
    calls = (ToolCall("a", {}, id="x"), ToolCall("b", {}, id="y"))
    openai, _ = both("find it", [Turn(1, Decision.act(calls), (result(calls[0], "ok"),))])
    assert [message["content"] for message in openai[-2:]] == ["ok", "error: this call was not made"]


def test_thinking_goes_back_to_the_provider_it_came_from_and_to_no_other() -> None:
    call = ToolCall("a", {}, id="x")
    decision = Decision(calls=(call,), text="so", thinking=(THINKING,))
    openai, anthropic = both("find it", [Turn(1, decision, (result(call, 1),))])
    assert [block["type"] for block in anthropic[1]["content"]] == ["thinking", "text", "tool_use"]
    assert "s1g" not in json.dumps(openai)


USE = {"type": "tool_use", "id": "toolu_1", "name": "a", "input": {"x": 1}}
THOUGHT = {"type": "thinking", "thinking": "so", "signature": "s2g"}
SEARCHED = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def answered(content: list[dict[str, Any]], finish: str | None = None) -> tuple[Turn, list[dict[str, Any]]]:
    """A turn that a model's answer decides, and the blocks it is told as."""
    decided = Decision.from_anthropic({"content": content, "stop_reason": "tool_use"}, finish=finish)
    decision = read(written(decided, json.dumps(decided.output).encode() if decided.finished else None)).decision
    turn = Turn(1, decision, tuple(result(call, 1) for call in decision.calls), None if decision.calls else "no")
    _, anthropic = both("find it", [turn])
    blocks: list[dict[str, Any]] = anthropic[1]["content"]
    return turn, blocks


@pytest.mark.parametrize(
    "content",
    [
        [THINKING, USE, THOUGHT, {**USE, "id": "toolu_2"}],
        [THINKING, *SEARCHED, THOUGHT, said("now this"), USE],
        [said("well"), {"type": "redacted_thinking", "data": "x"}, said("so"), USE, said("and")],
        [THINKING, *SEARCHED, THOUGHT, said("all is well")],
        [THINKING, THOUGHT, said("now this"), USE],
    ],
)
def test_a_thought_goes_back_in_the_place_it_was_signed_for(content: list[dict[str, Any]]) -> None:
    _, blocks = answered(content)
    assert blocks == content


def test_what_a_provider_would_refuse_is_not_told_between_thoughts_either() -> None:
    _, blocks = answered([THINKING, said(" \n"), {**USE, "id": "a b"}, THOUGHT, USE, said("and \n")])
    assert blocks == [THINKING, {**USE, "id": "call_1_1"}, THOUGHT, USE, said("and")]


def test_thoughts_before_which_something_is_left_out_are_left_out_too() -> None:
    done = {**USE, "name": "done", "id": "toolu_2"}
    _, blocks = answered([THINKING, said("so"), THOUGHT, done], finish="done")
    assert blocks == [THINKING, said('so\n\n{"x":1}')]
    _, blocks = answered([THINKING, USE, THOUGHT])
    assert blocks == [THINKING, USE]


# --- What providers would refuse. ------------------------------------------------------------------------------------


def ids(turns: list[Turn]) -> list[str]:
    openai, anthropic = both("find it", turns)
    found = [call["id"] for message in openai for call in message.get("tool_calls", [])]
    blocks = [block for message in anthropic if message["role"] == "assistant" for block in message["content"]]
    assert found == [block["id"] for block in blocks if block["type"] == "tool_use"]
    return found


def test_an_id_that_a_model_uses_in_every_turn_is_unique() -> None:
    turns = [acted(index, ToolCall("a", {}, id="call_1"), ToolCall("b", {})) for index in (1, 2, 3)]
    assert ids(turns) == ["call_1", "call_1_2", "call_2_1", "call_2_2", "call_3_1", "call_3_2"]


def test_an_id_that_looks_like_one_made_here_takes_nobodys_place() -> None:
    assert ids([acted(1, ToolCall("a", {}, id="call_2_1")), acted(2, ToolCall("a", {}))]) == ["call_2_1", "call_2_1_2"]
    assert ids([acted(1, ToolCall("a", {})), acted(2, ToolCall("a", {}, id="call_1_1"))]) == ["call_1_1", "call_2_1"]


@pytest.mark.parametrize("identifier", ["x" * 41, "a b", "ä", "call:1", "call_1\n"])
def test_an_id_that_a_provider_would_refuse_is_replaced(identifier: str) -> None:
    assert ids([acted(1, ToolCall("a", {}, id=identifier))]) == ["call_1_1"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("files.read", "files_read"), ("ä", "_"), (" ", "_"), ("n" * 70, "n" * 64), ("a/b\x00c", "a_b_c")],
)
def test_a_name_that_a_provider_would_refuse_is_made_one_it_takes(name: str, shown: str) -> None:
    openai, _ = both("find it", [acted(1, ToolCall(name))])
    assert openai[1]["tool_calls"][0]["function"]["name"] == shown


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("{bad", {"arguments": "{bad"}),
        ("[1, 2]", {"arguments": [1, 2]}),
        ('"a"', {"arguments": "a"}),
        ("", {}),
        ('{"a": NaN}', {"arguments": '{"a": NaN}'}),
        ('{"a": "\\ud800"}', {"arguments": '{"a": "\\ud800"}'}),
        ("[" * 5000, {"arguments": "[" * 5000}),
        ('{"a":' + "[" * 100 + "]" * 100 + "}", {"arguments": '{"a":' + "[" * 100 + "]" * 100 + "}"}),
    ],
)
def test_arguments_that_are_no_object_stand_in_one(arguments: str, shown: Any) -> None:
    _, anthropic = both("find it", [acted(1, ToolCall("a", arguments))])
    assert anthropic[1]["content"][0]["input"] == shown


@pytest.mark.parametrize(("value", "shown"), [("", '""'), (" \n", '" \\n"'), (None, "null"), ([], "[]"), (0.5, "0.5")])
def test_a_result_is_a_text_as_it_is_or_json_and_never_blank(value: Any, shown: str) -> None:
    assert text_of(value) == shown
    openai, _ = both("find it", [acted(1, ToolCall("a"), values=[value])])
    assert openai[-1]["content"] == shown


def test_there_are_messages_for_two_providers_only() -> None:
    with pytest.raises(UsageError, match="no messages for 'gemini'"):
        Transcript("gemini", "find it")


# --- Growing. --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_list_of_messages_is_its_owners_to_change(provider: str) -> None:
    transcript = Transcript(provider, "find it")
    transcript.add(acted(1, ToolCall("a", {"b": {"c": [1]}}, id="x")))
    first = transcript.upto(1)
    before = json.dumps(first)
    for message in first:
        message["role"] = "system"
        for block in message["content"] if isinstance(message["content"], list) else message.get("tool_calls", []):
            block.clear()
    first.append({"role": "user", "content": "more"})
    assert json.dumps(transcript.upto(1)) == before


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_longer_history_begins_with_the_messages_of_the_shorter(provider: str) -> None:
    turns = histories(random.Random(5), 12)
    whole = messages_of(provider, "find it", turns)
    for count in range(len(turns)):
        shorter = messages_of(provider, "find it", turns[:count])
        assert whole[: len(shorter)] == shorter


# --- Anything at all. ------------------------------------------------------------------------------------------------

ODD_TEXTS = ["", " ", "ok", "ü\x00", "\ud800", "a" * 3000, "\n{\n", "null", '"', "call_1", "</tool>", "[" * 300]
ODD_VALUES = [*ODD_TEXTS[:4], None, 0, -1.5, [], {}, {"a": {"b": [None, "x"]}}, ["\ufffd"], True, 2**70]
ODD_ARGUMENTS: list[Any] = [*ODD_TEXTS, {}, {"a": 1}, {"a": {"b": ["\ud800"]}}, '{"a": 1}', "[1]", "5", '{"a": 1e999}']


def histories(chance: random.Random, length: int) -> list[Turn]:
    """Turns as no well-behaved model would make them."""
    return [_turn(chance, index) for index in range(1, length + 1)]


def _turn(chance: random.Random, index: int) -> Turn:
    text = chance.choice(ODD_TEXTS)
    thinking = (THINKING,) if chance.random() < 0.2 else ()
    if chance.random() < 0.3:
        decision = Decision(finished=True, output=chance.choice(ODD_VALUES), text=text, thinking=thinking)
        return Turn(index, decision, (), chance.choice(["no", "it was not accepted", " "]))
    calls: list[ToolCall] = []
    for _ in range(chance.randint(1, 5)):
        identifier = chance.choice([None, "call_1", f"call_{index}_{chance.randint(1, 3)}", "ü", "x" * 50])
        known = [call.id for call in calls]
        name = chance.choice([name for name in ODD_TEXTS if name])
        calls.append(ToolCall(name, chance.choice(ODD_ARGUMENTS), None if identifier in known else identifier))
    decision = Decision(calls=tuple(calls), text=text, thinking=thinking)
    results = [_result(chance, call) for call in calls]
    return Turn(
        index, decision, tuple(results[: chance.randint(0, len(results))] if chance.random() < 0.1 else results)
    )


def _result(chance: random.Random, call: ToolCall) -> ToolResult:
    if chance.random() < 0.5:
        return ToolResult("c", call, "SUCCEEDED", chance.choice(ODD_VALUES))
    return ToolResult("c", call, chance.choice(list(CallState)).name, None, chance.choice(["", " ", "it broke"]))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_messages_of_any_history_at_all_are_valid(provider: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(300):
        turns = histories(chance, chance.randint(0, 8))
        CHECKS[provider](messages_of(provider, chance.choice(ODD_VALUES), turns))
