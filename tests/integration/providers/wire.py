"""What the scripted model says, as the providers send it: in one piece, or as the events of a stream.

A stream is a list of (event name or None, data).  Text and arguments come in several pieces, as they do in truth.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

Event = tuple[str | None, Any]
MOST_WORDS = 200  # characters of a response, after which it is cut off


class Say(NamedTuple):
    """One turn of the scripted model: some text, and calls of tools as (name, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


def _pieces(text: str) -> list[str]:
    third = max(1, len(text) // 3)
    return [text[start : start + third] for start in range(0, len(text), third)]


# --- OpenAI. ---------------------------------------------------------------------------------------------------------


def chat_completion(say: Say, ids: list[str], number: int) -> dict[str, Any]:
    """A chat completion."""
    calls = [
        {"id": ident, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for ident, (name, arguments) in zip(ids, say.calls, strict=True)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None, "refusal": None}
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None, "message": message}
    return {**_head(number, "chat.completion"), "choices": [choice], "usage": _openai_usage(number)}


def chat_chunks(say: Say, ids: list[str], number: int) -> list[Event]:
    """A chat completion as a stream."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "" if say.text else None, "refusal": None}]
    deltas += [{"content": piece} for piece in _pieces(say.text)]
    for index, (ident, (name, arguments)) in enumerate(zip(ids, say.calls, strict=True)):
        begun = {"index": index, "id": ident, "type": "function", "function": {"name": name, "arguments": ""}}
        deltas.append({"tool_calls": [begun]})
        for piece in _pieces(json.dumps(arguments)):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    head = _head(number, "chat.completion.chunk")
    chunks: list[Any] = [
        {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]} for delta in deltas
    ]
    reason = "tool_calls" if say.calls else "stop"
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}]})
    chunks.append({**head, "choices": [], "usage": _openai_usage(number)})
    return [*((None, chunk) for chunk in chunks), (None, "[DONE]")]


def _head(number: int, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1_700_000_000, "model": "scripted"}


def _openai_usage(number: int) -> dict[str, Any]:
    return {"prompt_tokens": 100 + number, "completion_tokens": 10, "total_tokens": 110 + number}


def response(say: Say, ids: list[str], number: int) -> dict[str, Any]:
    """A response, OpenAI's newer kind of answer."""
    part = {"type": "output_text", "text": say.text, "annotations": []}
    said = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    output = [said] if say.text else []
    output += [
        {"type": "function_call", "id": f"fc_{ident}", "call_id": ident, "name": name, "arguments": json.dumps(given)}
        for ident, (name, given) in zip(ids, say.calls, strict=True)
    ]
    usage = {"input_tokens": 100 + number, "output_tokens": 10, "total_tokens": 110 + number}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {**_response_begun(number), "status": "completed", "output": output, "usage": {**usage, **details}}


def response_events(say: Say, ids: list[str], number: int) -> list[Event]:
    """A response as a stream; one of many words is cut off at its limit of tokens."""
    begun, whole = _response_begun(number), response(say, ids, number)
    events: list[tuple[str, dict[str, Any]]] = [("response.created", {"response": begun})]
    for index, item in enumerate(whole["output"]):
        place = {"output_index": index, "item_id": item["id"]}
        empty = {**item, **({"content": []} if item["type"] == "message" else {"arguments": ""})}
        events.append(("response.output_item.added", {"output_index": index, "item": empty}))
        if item["type"] == "message":
            part = {**item["content"][0], "text": ""}
            events.append(("response.content_part.added", {**place, "content_index": 0, "part": part}))
            for piece in _pieces(say.text):
                delta = {"content_index": 0, "delta": piece, "logprobs": []}
                events.append(("response.output_text.delta", {**place, **delta}))
        else:
            for piece in _pieces(item["arguments"]):
                events.append(("response.function_call_arguments.delta", {**place, "delta": piece}))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    if len(say.text) > MOST_WORDS:
        cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        events.append(("response.incomplete", {"response": {**whole, **cut}}))
    else:
        events.append(("response.completed", {"response": whole}))
    return [(name, {"type": name, "sequence_number": sequence, **data}) for sequence, (name, data) in enumerate(events)]


def _response_begun(number: int) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "scripted",
        "status": "in_progress",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


# --- Anthropic. ------------------------------------------------------------------------------------------------------


def message(say: Say, ids: list[str], number: int) -> dict[str, Any]:
    """A message."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text else []
    blocks += [
        {"type": "tool_use", "id": ident, "name": name, "input": arguments}
        for ident, (name, arguments) in zip(ids, say.calls, strict=True)
    ]
    whole = {"content": blocks, "stop_reason": _stop_reason(say), "usage": _anthropic_usage(number, 10)}
    return {**_begun(number), **whole}


def message_events(say: Say, ids: list[str], number: int) -> list[Event]:
    """A message as a stream."""
    events: list[tuple[str, dict[str, Any]]] = [("message_start", {"message": _begun(number)}), ("ping", {})]
    index = 0
    if say.text:
        events.append(("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}))
        for piece in _pieces(say.text):
            events.append(("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": piece}}))
        events.append(("content_block_stop", {"index": 0}))
        index = 1
    for ident, (name, arguments) in zip(ids, say.calls, strict=True):
        block = {"type": "tool_use", "id": ident, "name": name, "input": {}}
        events.append(("content_block_start", {"index": index, "content_block": block}))
        for piece in _pieces(json.dumps(arguments)):
            delta = {"type": "input_json_delta", "partial_json": piece}
            events.append(("content_block_delta", {"index": index, "delta": delta}))
        events.append(("content_block_stop", {"index": index}))
        index += 1
    ended = {"delta": {"stop_reason": _stop_reason(say), "stop_sequence": None}, "usage": {"output_tokens": 10}}
    events += [("message_delta", ended), ("message_stop", {})]
    return [(name, {"type": name, **data}) for name, data in events]


def _begun(number: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _anthropic_usage(number, 1),
    }


def _stop_reason(say: Say) -> str:
    return "tool_use" if say.calls else "end_turn"


def _anthropic_usage(number: int, spent: int) -> dict[str, Any]:
    return {"input_tokens": 100 + number, "output_tokens": spent}
