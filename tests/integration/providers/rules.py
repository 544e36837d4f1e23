"""What the providers refuse in a request: the rules of their APIs for a conversation, as their servers apply them.

Each function answers what is wrong with a request, in words, or None.  Where a provider is lenient in a way that a
program had better not rely on (messages of one role in a row, say) the rule here is the stricter one.
"""

from __future__ import annotations

import re
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")


class Fault(Exception):
    """A rule that a request breaks."""


def _require(holds: Any, told: str) -> None:
    if not holds:
        raise Fault(told)


def openai_fault(body: dict[str, Any]) -> str | None:
    """What is wrong with a request for a chat completion."""
    try:
        _openai(body)
    except Fault as fault:
        return str(fault)
    return None


def anthropic_fault(body: dict[str, Any]) -> str | None:
    """What is wrong with a request for a message."""
    try:
        _anthropic(body)
    except Fault as fault:
        return str(fault)
    return None


def responses_fault(body: dict[str, Any]) -> str | None:
    """What is wrong with a request for a response; its conversations are no part of these tests."""
    return None if isinstance(body.get("model"), str) and body.get("input") else "model and input are required"


# --- OpenAI: chat completions. ---------------------------------------------------------------------------------------

_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "audio", "annotations", "function_call"},
    "tool": {"role", "content", "tool_call_id"},
}


def _openai(body: dict[str, Any]) -> None:
    _require(isinstance(body.get("model"), str), "you must provide a model parameter")
    messages = body.get("messages")
    _require(isinstance(messages, list) and messages, "[] is too short - 'messages'")
    assert isinstance(messages, list)
    for tool in body.get("tools", ()):
        _require(tool.get("type") == "function" and _NAME.fullmatch(tool["function"]["name"]), f"bad tool {tool}")
    waiting: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = message.get("role")
        _require(role in _KEYS, f"invalid value: {role!r}. 'role' of {where}")
        unknown = set(message) - _KEYS[role]
        _require(not unknown, f"unknown parameter: {sorted(unknown)} in {where}")
        if role == "tool":
            answers = message.get("tool_call_id")
            _require(answers in waiting, f"{where} with role 'tool' must be a response to a preceding 'tool_calls'")
            _require(_text(message.get("content")), f"{where}: a tool message needs content")
            waiting.remove(answers)
            continue
        _require(not waiting, f"an assistant message with 'tool_calls' must be followed by tool messages: {waiting}")
        if role == "assistant":
            waiting = _openai_calls(message, where, seen)
        else:
            _require(_text(message.get("content")), f"{where}: content is empty")
    _require(not waiting, f"an assistant message with 'tool_calls' must be followed by tool messages: {waiting}")


def _openai_calls(message: dict[str, Any], where: str, seen: set[str]) -> list[str]:
    if message.get("tool_calls") is None:
        _require(_text(message.get("content")), f"{where}: content is required without tool_calls")
        return []
    calls = message["tool_calls"]
    _require(isinstance(calls, list) and calls, f"{where}.tool_calls: [] is too short")
    for call in calls:
        ident, function = call.get("id"), call.get("function", {})
        _require(
            set(call) <= {"id", "type", "function"}, f"unknown parameter in a tool call of {where}: {sorted(call)}"
        )
        _require(set(function) <= {"name", "arguments"}, f"unknown parameter in {where}: {sorted(function)}")
        _require(call.get("type") == "function", f"{where}: a tool call is of type function")
        _require(isinstance(ident, str) and 0 < len(ident) <= 40, f"{where}: bad id {ident!r}")
        _require(ident not in seen, f"{where}: duplicate id {ident!r}")
        _require(_NAME.fullmatch(str(function.get("name"))), f"{where}: bad name {function.get('name')!r}")
        _require(isinstance(function.get("arguments"), str), f"{where}: arguments are text")
        seen.add(ident)
    return [call["id"] for call in calls]


def _text(content: Any) -> bool:
    if isinstance(content, str):
        return content != ""
    return isinstance(content, list) and bool(content) and all(part.get("text") for part in content)


# --- Anthropic: messages. --------------------------------------------------------------------------------------------

_BLOCKS = {
    "text": {"type", "text", "citations", "cache_control"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}


def _anthropic(body: dict[str, Any]) -> None:
    _require(isinstance(body.get("model"), str), "model: field required")
    _require(isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens: field required")
    messages = body.get("messages")
    _require(isinstance(messages, list) and messages, "messages: at least one message is required")
    assert isinstance(messages, list)
    for tool in body.get("tools", ()):
        _require(_NAME.fullmatch(tool["name"]) and isinstance(tool["input_schema"], dict), f"bad tool {tool}")
    waiting: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        _require(set(message) == {"role", "content"}, f"{where}: extra inputs are not permitted: {sorted(message)}")
        _require(message["role"] == ("assistant" if index % 2 else "user"), f"{where}: roles must alternate")
        blocks = message["content"]
        if isinstance(blocks, str):
            blocks = [{"type": "text", "text": blocks}]
        _require(isinstance(blocks, list) and blocks, f"{where}: content must not be empty")
        for block in blocks:
            _anthropic_block(block, message["role"], where)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        _require(
            sorted(results) == sorted(waiting),
            f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after, or the other way "
            f"round: {waiting} and {results}",
        )
        kinds = [block["type"] for block in blocks]
        _require(kinds[: len(results)] == ["tool_result"] * len(results), f"{where}: tool results come first")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        _require(len({*seen, *waiting}) == len(seen) + len(waiting), f"{where}: `tool_use` ids must be unique")
        seen.update(waiting)
    _require(messages[-1]["role"] == "user", "the conversation must end with a user message")
    _require("tools" in body or not seen, "requests which include `tool_use` blocks must define tools")


def _anthropic_block(block: dict[str, Any], role: str, where: str) -> None:
    kind = block.get("type")
    _require(kind in _BLOCKS, f"{where}: unknown block type {kind!r}")
    assert isinstance(kind, str)
    _require(set(block) <= _BLOCKS[kind], f"{where}: extra inputs are not permitted: {sorted(block)}")
    if kind == "text":
        _require(str(block.get("text", "")).strip(), f"{where}: text content blocks must contain non-whitespace text")
    elif kind == "tool_use":
        _require(role == "assistant", f"{where}: `tool_use` blocks can only be in assistant messages")
        _require(_ID.fullmatch(str(block.get("id"))), f"{where}: bad id {block.get('id')!r}")
        _require(_NAME.fullmatch(str(block.get("name"))), f"{where}: bad name {block.get('name')!r}")
        _require(isinstance(block.get("input"), dict), f"{where}: input should be an object")
    else:
        _require(role == "user", f"{where}: `tool_result` blocks can only be in user messages")
        _anthropic_result(block, where)


def _anthropic_result(block: dict[str, Any], where: str) -> None:
    content = block.get("content")
    _require(not block.get("is_error") or content, f"{where}: content cannot be empty if `is_error` is true")
    if isinstance(content, list):
        for part in content:
            _anthropic_block(part, "user", where)
    else:
        _require(content is None or isinstance(content, str), f"{where}: content should be text or blocks")
