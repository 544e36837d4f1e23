"""What providers refuse in a list of messages, told once more from their documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

Messages = list[dict[str, Any]]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}\Z")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


def check_openai(messages: Messages) -> None:
    """Chat completions: after each assistant message with tool calls come their results, one each, in any order."""
    json.dumps(messages, allow_nan=False).encode()
    seen: set[str] = set()
    waiting: set[str] = set()
    assert messages[0]["role"] == "user"
    for message in messages:
        role = message["role"]
        if role == "tool":
            assert set(message) == {"role", "tool_call_id", "content"}
            assert message["tool_call_id"] in waiting, "a result for no call, or a second one"
            waiting.discard(message["tool_call_id"])
            assert _is_said(message["content"])
            continue
        assert not waiting, f"no result for {waiting} before the next message"
        assert role in ("user", "assistant")
        calls = message.get("tool_calls", [])
        assert "tool_calls" not in message or calls, "tool_calls is never empty"
        assert _is_said(message["content"]) or (message["content"] is None and calls)
        for call in calls:
            assert set(call) == {"id", "type", "function"} and call["type"] == "function"
            assert set(call["function"]) == {"name", "arguments"}
            assert _ID.match(call["id"]) and call["id"] not in seen, "ids are short and unique"
            assert _NAME.match(call["function"]["name"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            seen.add(call["id"])
            waiting.add(call["id"])
    assert not waiting


def check_anthropic(messages: Messages) -> None:
    """Messages: roles take turns, and a message with tool uses is followed by one that begins with their results."""
    json.dumps(messages, allow_nan=False).encode()
    seen: set[str] = set()
    waiting: list[str] = []
    for number, message in enumerate(messages):
        assert set(message) == {"role", "content"}
        assert message["role"] == ("user", "assistant")[number % 2], "roles take turns, beginning with the user"
        content = message["content"]
        if isinstance(content, str):
            assert _is_said(content) and not waiting
            continue
        assert content, "content is never empty"
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert sorted(results) == sorted(waiting), "each tool use has one result in the next message"
        assert [block["type"] for block in content[: len(results)]] == ["tool_result"] * len(results)
        waiting = []
        for block in content:
            _CHECKS[message["role"], block["type"]](block)
            if block["type"] == "tool_use":
                assert block["id"] not in seen, "ids are unique"
                seen.add(block["id"])
                waiting.append(block["id"])
    assert not waiting
    if messages[-1]["role"] == "assistant":
        last = messages[-1]["content"]
        text = last if isinstance(last, str) else last[-1].get("text", "")
        assert text == text.rstrip(), "the last message of an assistant ends in no space"


def _is_said(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _text(block: dict[str, Any]) -> None:
    assert _is_said(block["text"]), "no text is blank"


def _tool_use(block: dict[str, Any]) -> None:
    assert set(block) == {"type", "id", "name", "input"}
    assert _ID.match(block["id"]) and _NAME.match(block["name"])
    assert isinstance(block["input"], dict)


def _tool_result(block: dict[str, Any]) -> None:
    assert set(block) <= {"type", "tool_use_id", "content", "is_error"}
    assert _is_said(block["content"])


def _thinking(block: dict[str, Any]) -> None:
    assert block["signature"]


def _anything(block: dict[str, Any]) -> None:
    """What the provider wrote itself, and takes back as it was."""


_CHECKS: dict[tuple[str, str], Callable[[dict[str, Any]], None]] = {
    ("assistant", "text"): _text,
    ("assistant", "tool_use"): _tool_use,
    ("assistant", "thinking"): _thinking,
    ("assistant", "redacted_thinking"): _anything,
    ("assistant", "server_tool_use"): _anything,
    ("assistant", "web_search_tool_result"): _anything,
    ("user", "text"): _text,
    ("user", "tool_result"): _tool_result,
}

CHECKS: dict[str, Callable[[Messages], None]] = {"openai": check_openai, "anthropic": check_anthropic}
