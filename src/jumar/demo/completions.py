"""What the demonstration's models say and are told, in the form of OpenAI's chat completions."""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]
Asked = tuple[str, dict[str, Any]]  # a tool's name, and arguments


def told_in(messages: list[Message]) -> list[tuple[str, dict[str, Any], str]]:
    """What came of each call so far: the tool's name, the arguments, and the text of the result."""
    asked = {call["id"]: call["function"] for message in messages for call in message.get("tool_calls") or ()}
    results = [
        (asked[message["tool_call_id"]], message["content"]) for message in messages if message["role"] == "tool"
    ]
    return [(function["name"], json.loads(function["arguments"]), text) for function, text in results]


def is_result(text: str) -> bool:
    """Whether this is what a call returned, and not how it failed."""
    return not text.startswith("error:")


def calls(messages: list[Message], turn: int, asked: list[Asked], text: str) -> Message:
    """The answer that asks for these calls."""
    made = [
        {
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(asked, 1)
    ]
    return completion(messages, {"role": "assistant", "content": text, "tool_calls": made}, "tool_calls")


def completion(messages: list[Message], message: Message, reason: str) -> Message:
    """A whole answer, with its usage."""
    usage = {
        "prompt_tokens": len(json.dumps(messages)) // 4,
        "completion_tokens": len(json.dumps(message)) // 4,
    }
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage}
