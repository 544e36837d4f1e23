"""Decisions: made by hand, read from what the providers' SDKs answer, and written to disk and back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import BaseModel

from jumar import Decision, ToolCall, Usage
from jumar.core.decisions import read, written
from jumar.errors import NotStorable, UsageError

# --- By hand. --------------------------------------------------------------------------------------------------------


def test_act_keeps_the_calls_in_their_order_with_text_and_usage() -> None:
    calls = (ToolCall("search", {"query": "a"}, id="call_1"), ToolCall("search", '{"query": "b"}'))
    decision = Decision.act(iter(calls), text="let me look", usage=Usage(input_tokens=3))
    assert (decision.calls, decision.finished, decision.text) == (calls, False, "let me look")
    assert decision.usage == Usage(input_tokens=3)


def test_finish_holds_any_output_none_included() -> None:
    assert Decision.finish(None).finished
    assert Decision.finish({"a": [1]}, text="done").output == {"a": [1]}


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([], "at least one tool call"),
        (ToolCall("search"), "a list of ToolCall"),
        ("search", "a list of ToolCall"),
        (None, "a list of ToolCall"),
        ([("search", {})], "ToolCall objects, not tuple"),
        ([ToolCall("a", id="x"), ToolCall("b", id="x")], "two tool calls of one decision have the id 'x'"),
    ],
)
def test_act_refuses_what_is_no_list_of_calls_told_apart(calls: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Decision.act(calls)


@pytest.mark.parametrize("name", ["", None, 5, b"search"])
def test_a_tool_call_needs_the_name_of_a_tool(name: Any) -> None:
    with pytest.raises(UsageError, match="needs the name of a tool"):
        ToolCall(name)


@pytest.mark.parametrize("arguments", [None, 5, ["a"], {("a",): 1}, {"a": object()}])
def test_a_tool_call_takes_arguments_by_name_or_their_json_text(arguments: Any) -> None:
    with pytest.raises(UsageError):
        ToolCall("search", arguments)


def test_an_id_or_a_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match="id=5"):
        ToolCall("search", {}, id=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="text of a decision"):
        Decision.finish("x", text=None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is no Usage"):
        Decision.finish("x", usage={"input_tokens": 5})  # type: ignore[arg-type]


def test_a_decision_both_acts_and_finishes_or_does_neither_only_by_mistake() -> None:
    with pytest.raises(UsageError, match="neither calls a tool nor finishes"):
        Decision()
    with pytest.raises(UsageError, match="calls tools and finishes"):
        Decision(calls=(ToolCall("search"),), finished=True)


def test_half_a_surrogate_pair_becomes_a_character_that_can_be_stored() -> None:
    call = ToolCall("sea\ud800rch", {"query": ["\udfff", {"a\ud800": 1}]}, id="\ud800")
    assert (call.name, call.id) == ("sea\ufffdrch", "\ufffd")
    assert json.loads(call.data()) == {"query": ["\ufffd", {"a\ufffd": 1}]}
    assert ToolCall("a", '{"b": "\ud800"}').arguments == '{"b": "\ufffd"}'


def test_arguments_with_a_number_that_json_has_not_stay_what_the_model_wrote() -> None:
    call = ToolCall("search", {"limit": float("nan")})
    assert call.arguments == '{"limit": NaN}'  # which no tool takes for null


def test_arguments_made_by_hand_may_hold_whatever_a_tool_takes() -> None:
    class Place(BaseModel):
        street: str

    call = ToolCall("go", {"to": Place(street="x"), "stops": {1: [Place(street="y")]}})
    assert call.arguments == {"to": {"street": "x"}, "stops": {"1": [{"street": "y"}]}}
    assert read(written(Decision.act([call]), None)).decision.calls == (call,)


def test_a_decision_that_was_spoiled_after_it_was_made_is_told() -> None:
    call = ToolCall("go", {"to": "x"})
    assert isinstance(call.arguments, dict)
    call.arguments["to"] = object()
    with pytest.raises(NotStorable, match="cannot be written as JSON"):
        written(Decision.act([call]), None)
    with pytest.raises(UsageError, match="calls ToolCall objects, not str"):
        Decision(calls=("go",))  # type: ignore[arg-type]


def test_blank_arguments_are_no_arguments() -> None:
    assert [ToolCall("now", text).data() for text in ("", "  \n")] == [b"{}", b"{}"]


# --- OpenAI. ---------------------------------------------------------------------------------------------------------


def completion(message: dict[str, Any], reason: str = "stop", **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
        **more,
    }


def asked(name: str, arguments: str, identifier: str = "call_1") -> dict[str, Any]:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


TWO_CALLS = {"content": "both", "tool_calls": [asked("search", '{"query": "a"}'), asked("pay", "{bad", "call_2")]}


@pytest.mark.parametrize("made", [lambda data: data, ChatCompletion.model_validate], ids=["dict", "sdk"])
def test_tool_calls_of_a_chat_completion_are_to_be_made(made: Any) -> None:
    decision = Decision.from_openai(made(completion(TWO_CALLS, "tool_calls")))
    assert decision == Decision.act(
        [ToolCall("search", '{"query": "a"}', id="call_1"), ToolCall("pay", "{bad", id="call_2")],
        text="both",
        usage=Usage(input_tokens=7, output_tokens=2),
    )


@pytest.mark.parametrize("made", [lambda data: data, ChatCompletion.model_validate], ids=["dict", "sdk"])
def test_without_tool_calls_the_text_of_a_chat_completion_is_the_output(made: Any) -> None:
    decision = Decision.from_openai(made(completion({"content": "all is well"})))
    assert (decision.finished, decision.output, decision.usage) == (True, "all is well", Usage(7, 2))


def test_text_in_parts_is_joined_and_missing_text_is_empty() -> None:
    parts = [{"type": "text", "text": "all "}, {"type": "image_url"}, {"type": "text", "text": "well"}]
    assert Decision.from_openai(completion({"content": parts})).output == "all well"
    assert Decision.from_openai(completion({"content": None})).output == ""


def test_ids_that_a_model_gave_twice_or_not_at_all_are_left_out() -> None:
    calls = [asked("a", "{}", "x"), asked("b", "{}", "x"), asked("c", "{}", ""), asked("d", "{}", "y")]
    decision = Decision.from_openai(completion({"tool_calls": calls}, "tool_calls"))
    assert [call.id for call in decision.calls] == [None, None, None, "y"]


def test_a_call_in_the_older_form_is_to_be_made_too() -> None:
    older = {"content": None, "function_call": {"name": "search", "arguments": '{"query": "a"}'}}
    assert Decision.from_openai(completion(older, "function_call")).calls == (ToolCall("search", '{"query": "a"}'),)


def test_half_a_surrogate_pair_in_a_models_last_word_becomes_a_character_that_can_be_stored() -> None:
    assert Decision.from_openai(completion({"content": "well \ud83d"})).output == "well \ufffd"
    assert Decision.from_anthropic(message([{"type": "text", "text": "\ud83d"}])).output == "\ufffd"


def test_a_tool_that_stands_for_finishing_finishes_with_its_arguments() -> None:
    alone = completion({"content": "here", "tool_calls": [asked("done", '{"files": 3}')]}, "tool_calls")
    decision = Decision.from_openai(alone, finish="done")
    assert (decision.finished, decision.output, decision.text) == (True, {"files": 3}, "here")
    unreadable = completion({"tool_calls": [asked("done", "all is well")]}, "tool_calls")
    assert Decision.from_openai(unreadable, finish="done").output == "all is well"


def test_beside_other_calls_a_tool_that_stands_for_finishing_waits_for_theirs() -> None:
    both = completion({"tool_calls": [asked("done", "{}"), asked("search", "{}", "call_2")]}, "tool_calls")
    assert [call.name for call in Decision.from_openai(both, finish="done").calls] == ["search"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (completion({"content": "all is w"}, "length"), "cut off"),
        (completion(TWO_CALLS, "length"), "cut off"),
        (completion({"content": "all is w"}, "error"), "cut off"),
        (completion({"content": None}, "content_filter"), "refused"),
        (completion({"content": None, "refusal": "I can't"}), "refused to answer: I can't"),
        (completion({}, choices=[]), "holds no message"),
        ({"error": {"message": "busy"}}, "holds no message"),
        ("all is well", "holds no message"),
        (None, "holds no message"),
        (completion({"tool_calls": [{"id": "x", "type": "function"}]}), "without a name"),
    ],
)
def test_an_answer_that_is_not_whole_is_no_decision(answer: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Decision.from_openai(answer)


def response(output: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 9,
        },
        **more,
    }


SAID = {
    "type": "message",
    "id": "m1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "all is well", "annotations": []}],
}
CALLED = {"type": "function_call", "call_id": "call_1", "name": "search", "arguments": '{"query": "a"}'}


@pytest.mark.parametrize("made", [lambda data: data, Response.model_validate], ids=["dict", "sdk"])
def test_a_response_of_the_newer_kind_is_read_too(made: Any) -> None:
    decision = Decision.from_openai(made(response([SAID, CALLED])))
    assert decision.calls == (ToolCall("search", '{"query": "a"}', id="call_1"),)
    assert (decision.text, decision.usage) == ("all is well", Usage(7, 2, 4))
    assert Decision.from_openai(made(response([SAID]))).output == "all is well"


def test_a_response_that_was_cut_off_or_refused_is_no_decision() -> None:
    with pytest.raises(UsageError, match="cut off"):
        Decision.from_openai(response([SAID], incomplete_details={"reason": "max_output_tokens"}))
    refusal = {**SAID, "content": [{"type": "refusal", "refusal": "I can't"}]}
    with pytest.raises(UsageError, match="I can't"):
        Decision.from_openai(response([refusal]))


def test_a_free_form_call_of_a_response_is_to_be_made_like_any_other() -> None:
    call = {"type": "custom_tool_call", "call_id": "c1", "id": "ct1", "name": "query", "input": "select 1"}
    assert Decision.from_openai(response([call])).calls == (ToolCall("query", "select 1", id="c1"),)


@pytest.mark.parametrize("kind", ["computer_call", "shell_call", "apply_patch_call", "mcp_approval_request"])
def test_what_a_response_asks_of_the_caller_is_no_answer(kind: str) -> None:
    asked_for = {"type": kind, "id": "x1", "call_id": "c1"}
    with pytest.raises(UsageError, match=f"holds a {kind}"):
        Decision.from_openai(response([SAID, asked_for]))


def test_what_the_provider_has_done_by_itself_is_left_to_it() -> None:
    done = [{"type": "shell_call", "call_id": "c1"}, {"type": "shell_call_output", "call_id": "c1"}]
    decision = Decision.from_openai(response([*done, SAID]))
    assert (decision.finished, decision.output) == (True, SAID["content"][0]["text"])


@pytest.mark.parametrize("status", ["failed", "cancelled", "incomplete", "in_progress", "queued"])
@pytest.mark.parametrize("output", [[], [SAID]], ids=["nothing", "a part"])
def test_a_response_that_is_not_completed_is_no_decision(status: str, output: list[dict[str, Any]]) -> None:
    with pytest.raises(UsageError, match=f"is {status.replace('_', ' ')}, so it is no decision: busy"):
        Decision.from_openai(response(output, status=status, error={"code": "server_error", "message": "busy"}))


# --- Anthropic. ------------------------------------------------------------------------------------------------------


def message(content: list[dict[str, Any]], reason: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 2},
    }


USE = {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"query": "a"}}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s1g"}


@pytest.mark.parametrize("made", [lambda data: data, Message.model_validate], ids=["dict", "sdk"])
def test_tool_uses_of_a_message_are_to_be_made_and_its_thinking_is_kept(made: Any) -> None:
    content = [THINKING, {"type": "text", "text": "let me look"}, USE]
    decision = Decision.from_anthropic(made(message(content, "tool_use")))
    assert decision.calls == (ToolCall("search", {"query": "a"}, id="toolu_1"),)
    assert (decision.text, decision.usage, decision.thinking) == ("let me look", Usage(7, 2), (THINKING,))


@pytest.mark.parametrize("made", [lambda data: data, Message.model_validate], ids=["dict", "sdk"])
def test_without_tool_uses_the_text_of_a_message_is_the_output(made: Any) -> None:
    decision = Decision.from_anthropic(made(message([{"type": "text", "text": "all is well"}])))
    assert (decision.finished, decision.output) == (True, "all is well")
    done = {**USE, "name": "done", "input": {"files": 3}}
    assert Decision.from_anthropic(made(message([done], "tool_use")), finish="done").output == {"files": 3}


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal", "pause_turn"])
def test_a_message_that_ended_before_its_time_is_no_decision(reason: str) -> None:
    with pytest.raises(UsageError):
        Decision.from_anthropic(message([USE], reason))


@pytest.mark.parametrize("answer", [None, "all is well", {"content": "all is well"}, {"error": {}}])
def test_what_is_no_message_at_all_is_refused(answer: Any) -> None:
    with pytest.raises(UsageError, match="no message of a model"):
        Decision.from_anthropic(answer)


# --- On disk. --------------------------------------------------------------------------------------------------------


def test_a_decision_is_the_same_after_it_was_written_and_read() -> None:
    acts = Decision(
        calls=(ToolCall("a", {"b": [1, None]}, id="x"), ToolCall("c", "{bad")), text="t", thinking=(THINKING,)
    )
    finishes = Decision.finish({"b": [1, None]}, text="t")
    usage = Usage(input_tokens=1)
    assert read(written(acts, None), usage).decision == msgspec.structs.replace(acts, usage=usage)
    found = read(written(finishes, b'{"b":[1,null]}', 2))
    assert (found.decision, found.output, found.refused) == (finishes, b'{"b":[1,null]}', 2)


def test_a_decision_that_finishes_with_nothing_still_finishes() -> None:
    found = read(written(Decision.finish(None), b"null"))
    assert (found.decision.finished, found.decision.output, found.output) == (True, None, b"null")


def test_what_is_not_needed_takes_no_room_on_disk() -> None:
    assert written(Decision.act([ToolCall("now")]), None) == b'{"calls":[{"name":"now"}]}'
    assert written(Decision.finish("x"), b'"x"') == b'{"finish":"x"}'
