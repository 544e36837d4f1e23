"""A loop agent's history as messages for a model's provider.

What a provider accepts is narrower than what happens: every tool call needs exactly one result, in its place; ids must
be unique and short; names are letters, digits, `_` and `-`; no text may be empty; roles take turns.  So nothing is
handed on as the model wrote it where it would be refused.  A call without a result gets one that says why, in words.
The same history always makes the same messages, and a longer one begins with those of the shorter, which is what
providers cache by.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any, TypeAlias

import msgspec

from jumar.core.decisions import THINKING, Decision, ToolCall
from jumar.core.turns import ToolResult, Turn
from jumar.errors import UsageError

Message: TypeAlias = dict[str, Any]

PROVIDERS = ("openai", "anthropic")

_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}\Z")
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_DEEPEST = 64
_encode = msgspec.json.Encoder(enc_hook=str).encode
_json = msgspec.json.Decoder()
_messages = msgspec.json.Decoder(list[dict[str, Any]])


class Transcript:
    """The messages of one run for one provider, made once a turn."""

    def __init__(self, provider: str, task: Any) -> None:
        if provider not in PROVIDERS:
            raise UsageError(
                f"there are no messages for {provider!r}", hint=f"Use one of {', '.join(map(repr, PROVIDERS))}."
            )
        self._write: Callable[[Turn, list[str]], list[Message]] = _openai if provider == "openai" else _anthropic
        self._ids: set[str] = set()
        # As JSON, which is copied faster than it is made: so the caller's list is his own through and through.
        self._parts: list[bytes] = [_encode({"role": "user", "content": text_of(task)})]

    @property
    def turns(self) -> int:
        """How many turns it holds."""
        return len(self._parts) - 1

    def add(self, turn: Turn) -> None:
        """Go on with the next turn."""
        ids = [self._unique(call, turn.index, place) for place, call in enumerate(turn.decision.calls, 1)]
        self._parts.append(b",".join(map(_encode, self._write(turn, ids))))

    def upto(self, turns: int) -> list[Message]:
        """The messages of the task and of so many turns."""
        return _messages.decode(b"[" + b",".join(self._parts[: turns + 1]) + b"]")

    def _unique(self, call: ToolCall, turn: int, place: int) -> str:
        """The call's own id where no other has it; models repeat theirs, and some give none."""
        if call.id is not None and _ID.match(call.id) and call.id not in self._ids:
            chosen = call.id
        else:
            chosen = base = f"call_{turn}_{place}"
            times = 1
            while chosen in self._ids:
                times += 1
                chosen = f"{base}_{times}"
        self._ids.add(chosen)
        return chosen


def messages_of(provider: str, task: Any, turns: Iterable[Turn]) -> list[Message]:
    """The messages of a task and all of its turns."""
    transcript = Transcript(provider, task)
    for turn in turns:
        transcript.add(turn)
    return transcript.upto(transcript.turns)


# --- OpenAI: chat completions. ---------------------------------------------------------------------------------------


def _openai(turn: Turn, ids: list[str]) -> list[Message]:
    decision = turn.decision
    if decision.finished:
        return [{"role": "assistant", "content": _answer(decision)}, *_sent_back(turn)]
    asked = [
        {"id": name, "type": "function", "function": {"name": _name(call), "arguments": _encode(_input(call)).decode()}}
        for name, call in zip(ids, decision.calls, strict=True)
    ]
    said = decision.text if decision.text.strip() else None
    messages: list[Message] = [{"role": "assistant", "content": said, "tool_calls": asked}]
    for name, result in zip(ids, _results(turn), strict=True):
        messages.append({"role": "tool", "tool_call_id": name, "content": result_text(result)})
    return messages


# --- Anthropic: messages. --------------------------------------------------------------------------------------------


def _anthropic(turn: Turn, ids: list[str]) -> list[Message]:
    decision = turn.decision
    uses: list[Message] = [
        {"type": "tool_use", "id": name, "name": _name(call), "input": _input(call)}
        for name, call in zip(ids, decision.calls, strict=True)
    ]
    blocks = _as_thought(decision, uses)
    if decision.finished:
        if blocks is None:
            blocks = [*_first_thoughts(decision), {"type": "text", "text": _answer(decision).rstrip()}]
        return [{"role": "assistant", "content": blocks}, *_sent_back(turn)]
    if blocks is None:
        said = [{"type": "text", "text": decision.text.rstrip()}] if decision.text.strip() else []
        blocks = [*_first_thoughts(decision), *said, *uses]
    results: list[Any] = []
    for name, result in zip(ids, _results(turn), strict=True):
        block: Message = {"type": "tool_result", "tool_use_id": name, "content": result_text(result)}
        if result is None or not result.ok:
            block["is_error"] = True
        results.append(block)
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]


def _as_thought(decision: Decision, uses: list[Message]) -> list[Message] | None:
    """The blocks in the order in which they came, where thoughts stand between others; None where they do not, or where
    the decision says something else than they do.
    """
    kept = [block for block in decision.thinking if block.get("type") != "text" or block.get("text", "").strip()]
    kinds = [block.get("type") for block in kept]
    if all(kind in THINKING for kind in kinds) or kinds[-1] in THINKING or kinds.count("tool_use") != len(uses):
        return None
    words = "".join(block.get("text", "") for block in decision.thinking if block.get("type") == "text")
    if decision.finished and decision.output != words:
        return None
    left = iter(uses)
    blocks = [next(left) if kind == "tool_use" else dict(block) for kind, block in zip(kinds, kept, strict=True)]
    if kinds[-1] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()
    return blocks


def _first_thoughts(decision: Decision) -> list[Message]:
    return list(takewhile(lambda block: block.get("type") in THINKING, decision.thinking))


# --- What both say. --------------------------------------------------------------------------------------------------


def _results(turn: Turn) -> list[ToolResult | None]:
    """One result a call; None where nothing is recorded of it."""
    missing = len(turn.decision.calls) - len(turn.results)
    return [*turn.results, *[None] * missing]


def result_text(result: ToolResult | None) -> str:
    """What a model is told of a call."""
    if result is None:
        return "error: this call was not made"
    return text_of(result.value) if result.error is None else f"error: {result.error}"


def text_of(value: Any) -> str:
    """A text as it is, anything else as JSON; never blank, which no provider takes."""
    text = value if isinstance(value, str) else _encode(value).decode()
    return text if text.strip() else _encode(value).decode()


def _answer(decision: Decision) -> str:
    """What the model finished with: its words, and its output where they do not say the same."""
    output = text_of(decision.output)
    if not decision.text.strip() or decision.text == decision.output:
        return output
    return f"{decision.text}\n\n{output}"


def _sent_back(turn: Turn) -> list[Message]:
    if turn.verdict is None:
        return []
    return [{"role": "user", "content": f"Your answer was not accepted: {turn.verdict}"}]


def _name(call: ToolCall) -> str:
    """A tool's name as providers take it, whatever the model wrote."""
    return _NOT_IN_NAMES.sub("_", call.name)[:_LONGEST_NAME]


def _input(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object; what is none stands in one, so that the model sees what it wrote."""
    data = call.data()
    try:
        value = _json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return {"arguments": call.arguments}
    if _is_deep(value):
        return {"arguments": data.decode()}
    return value if isinstance(value, dict) else {"arguments": value}


def _is_deep(value: Any) -> bool:
    """Whether something is nested deeper than any provider takes it."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
