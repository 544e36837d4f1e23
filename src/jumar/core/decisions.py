"""What a loop agent decides: to call tools, or to finish with an output.

A decision is made by hand (`act`, `finish`) or read from what a provider's SDK answers, object or dict alike.  What a
model wrote is taken as it is: its arguments may be no JSON, its tool may not exist, and that is for the loop to tell
it.  Only an answer that was cut off or refused is no decision: nobody can say what the rest of it would have been.

On disk a decision is JSON: `{"calls": [...], "text": "..."}` or `{"finish": output, "text": "..."}`.  What it cost
stands beside it in the call's row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import force_setattr

from jumar.core.answers import refuse_broken
from jumar.core.codec import encode_arguments
from jumar.core.failures import attribute
from jumar.core.naming import is_storable
from jumar.core.records import Usage
from jumar.core.usage import usage_of
from jumar.errors import NotStorable, UsageError

_encode = msgspec.json.Encoder(order="deterministic").encode
_HALF_PAIRS = re.compile("[\ud800-\udfff]")
_LONGEST_NAME = 1000  # characters of a tool's name that are kept; no tool has one as long
THINKING = ("thinking", "redacted_thinking")  # the types of blocks that hold what a model thought
_TOOL_USE = "tool_use"
_CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded", "max_output_tokens", "error")
_REFUSED = ("content_filter", "refusal")
_NOT_WHOLE = ("failed", "cancelled", "incomplete", "in_progress", "queued")
# What the caller is to do himself for a tool that the provider defines: left out, it would look like an answer.
_FOR_THE_CALLER = (
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "mcp_approval_request",
)


class ToolCall(Struct, frozen=True, omit_defaults=True):
    """One tool call that a decision asks for.

    `arguments` are a dict by name, or the JSON text of one as models write it; what does not fit the tool is told to
    the model.  `id` is the provider's own id of the call, where there is one.
    """

    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict)
    id: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise UsageError(f"a tool call needs the name of a tool, not {self.name!r}")
        if self.id is not None and not isinstance(self.id, str):
            raise UsageError(f"id={self.id!r} of a call of {self.name[:80]!r} is no text")
        force_setattr(self, "name", _text(self.name)[:_LONGEST_NAME])
        force_setattr(self, "arguments", self._checked(self.arguments))
        force_setattr(self, "id", None if not self.id else _text(self.id))

    def _checked(self, given: Any) -> dict[str, Any] | str:
        if isinstance(given, str):
            return _text(given)
        if not isinstance(given, Mapping):
            raise UsageError(
                f"the arguments of {self.name!r} are {type(given).__name__}",
                hint="Give a dict by name, or the JSON text of one.",
            )
        arguments: dict[str, Any] = dict(given)
        if _is_json(arguments):
            return _as_json(arguments)
        import json  # needed here alone

        try:
            arguments = _cleaned(arguments)
            # Otherwise there is a NaN in it, say: the model is told.
            return _as_json(arguments) if _is_json(arguments) else json.dumps(arguments)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"the arguments of {self.name[:80]!r} are no JSON ({error})") from error

    def data(self) -> bytes:
        """The arguments as JSON, as far as the model's own text is any."""
        if isinstance(self.arguments, str):
            return self.arguments.encode() if self.arguments.strip() else b"{}"
        return _encode(self.arguments)


class Decision(Struct, frozen=True):
    """What a loop agent decides at one step; see `act`, `finish`, `from_openai` and `from_anthropic`.

    `thinking` are the thinking blocks of an Anthropic answer, which that provider wants back.  Where others stand
    before one of them, it is all blocks of the answer in their order, with a bare `{"type": "tool_use"}` for each call.
    """

    calls: tuple[ToolCall, ...] = ()
    finished: bool = False
    output: Any = None
    text: str = ""
    usage: Usage | None = None
    thinking: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if bool(self.calls) == self.finished:
            what = "calls tools and finishes" if self.finished else "neither calls a tool nor finishes"
            raise UsageError(f"a decision {what}", hint="Use Decision.act([...]) or Decision.finish(output).")
        for call in self.calls:
            if not isinstance(call, ToolCall):
                raise UsageError(f"a decision calls ToolCall objects, not {type(call).__name__}")
        if not isinstance(self.text, str):
            raise UsageError(f"the text of a decision is {type(self.text).__name__}")
        if self.usage is not None and not isinstance(self.usage, Usage):
            raise UsageError(
                f"usage={self.usage!r} is no Usage", hint="Use Usage(input_tokens=..., output_tokens=...)."
            )
        force_setattr(self, "text", _text(self.text))

    @classmethod
    def act(cls, calls: Iterable[ToolCall], *, text: str = "", usage: Usage | None = None) -> Decision:
        """Call tools, side by side; their results are in the next view's history.

        `text` is what the model said with it.  The calls' ids, where given, are each used once.
        """
        if isinstance(calls, (ToolCall, str, bytes, Mapping)) or not isinstance(calls, Iterable):
            raise UsageError(f"act takes a list of ToolCall, not {type(calls).__name__}")
        asked = tuple(calls)
        for call in asked:
            if not isinstance(call, ToolCall):
                raise UsageError(f"act takes ToolCall objects, not {type(call).__name__}")
        if not asked:
            raise UsageError("act needs at least one tool call", hint="Without one, use Decision.finish(output).")
        ids = [call.id for call in asked if call.id is not None]
        if len(set(ids)) < len(ids):
            raise UsageError(f"two tool calls of one decision have the id {_repeated(ids)!r}")
        return cls(calls=asked, text=text, usage=usage)

    @classmethod
    def finish(cls, output: Any = None, *, text: str = "", usage: Usage | None = None) -> Decision:
        """Finish with this output, unless the loop's `verify` sends it back."""
        return cls(finished=True, output=output, text=text, usage=usage)

    @classmethod
    def from_openai(cls, response: Any, finish: str | None = None) -> Decision:
        """The decision in an answer of the OpenAI SDK (chat completion or response) or of a server that speaks alike.

        Tool calls are to be made; without any, its text is the output.  `finish` names a tool that stands for
        finishing: where the model calls it alone, that call's arguments are the output.  UsageError where the answer
        was cut off at its token limit, or refused.
        """
        refuse_broken(response)
        if _part(response, "choices") is None and isinstance(_part(response, "output"), (list, tuple)):
            return _decided(*_read_response(response), finish, response)
        choices = _listed(response, "choices")
        message = _part(choices[0], "message") if choices else None
        if message is None:
            raise UsageError(f"{type(response).__name__} holds no message of a model", hint=_GIVE_THE_WHOLE)
        refusal = _part(message, "refusal")
        _check_end(_part(choices[0], "finish_reason"), refusal)
        calls = [_openai_call(call) for call in _listed(message, "tool_calls")]
        older = _part(message, "function_call")  # what came before tool calls, and some servers still answer
        if older is not None and not calls:
            calls = [_openai_call({"function": older})]
        return _decided(_joined(_part(message, "content")), calls, (), finish, response)

    @classmethod
    def from_anthropic(cls, message: Any, finish: str | None = None) -> Decision:
        """The decision in a message of the Anthropic SDK; see `from_openai`."""
        refuse_broken(message)
        blocks = _part(message, "content")
        if not isinstance(blocks, (list, tuple)):
            raise UsageError(f"{type(message).__name__} is no message of a model", hint=_GIVE_THE_WHOLE)
        _check_end(_part(message, "stop_reason"), None)
        uses = [block for block in blocks if _part(block, "type") == _TOOL_USE]
        calls = [_call(_part(use, "name"), _part(use, "input"), _part(use, "id")) for use in uses]
        return _decided(_joined(blocks), calls, _thoughts(blocks, finish), finish, message)


_GIVE_THE_WHOLE = "Give it what the SDK's `create(...)` returned; of a stream, the final message."


# --- Reading what providers answer. ----------------------------------------------------------------------------------


def _decided(
    text: str, calls: list[ToolCall], thinking: tuple[dict[str, Any], ...], finish: str | None, answer: Any
) -> Decision:
    usage, text = usage_of(answer), _text(text)
    others = [call for call in calls if finish is None or call.name != finish]
    if others:
        return Decision(calls=_told_apart(others), text=text, usage=usage, thinking=thinking)
    if not calls:
        return Decision(finished=True, output=text, usage=usage, thinking=thinking)
    return Decision(finished=True, output=_output_of(calls[0]), text=text, usage=usage, thinking=thinking)


def _output_of(call: ToolCall) -> Any:
    """The arguments of a call that stands for finishing; text that is no JSON is the output as it is."""
    if isinstance(call.arguments, dict):
        return call.arguments
    try:
        return msgspec.json.decode(call.data())
    except msgspec.DecodeError:
        return call.arguments


def _told_apart(calls: list[ToolCall]) -> tuple[ToolCall, ...]:
    """An id that a model gave twice tells nothing, and is left out."""
    ids = [call.id for call in calls]
    return tuple(call if ids.count(call.id) == 1 else ToolCall(call.name, call.arguments) for call in calls)


def _read_response(response: Any) -> tuple[str, list[ToolCall], tuple[dict[str, Any], ...]]:
    """Text and calls of an answer of OpenAI's newer kind."""
    _check_status(response)
    texts, calls = [], []
    items = _listed(response, "output")
    if not items:
        raise UsageError(f"{type(response).__name__} holds no message of a model", hint=_GIVE_THE_WHOLE)
    answered = [_part(item, "call_id") for item in items if str(_part(item, "type")).endswith("_output")]
    for item in items:
        kind, identifier = _part(item, "type"), _part(item, "call_id")
        if identifier is not None and identifier in answered:
            continue  # the provider has done it
        if kind == "function_call":
            calls.append(_call(_part(item, "name"), _part(item, "arguments"), identifier))
        elif kind == "custom_tool_call":
            calls.append(_call(_part(item, "name"), _part(item, "input"), identifier))
        elif kind in _FOR_THE_CALLER:
            raise UsageError(
                f"the model's answer holds a {kind}, which no tool of a loop agent's can answer",
                hint="Ask it with function tools alone, or deal with this one before you decide.",
            )
        elif kind == "message":
            parts = _listed(item, "content")
            _check_end(None, next((_part(part, "refusal") for part in parts if _part(part, "type") == "refusal"), None))
            texts.append(_joined(parts))
    return "".join(texts), calls, ()


def _check_status(response: Any) -> None:
    """UsageError where an answer of the newer kind is not, or will never be, whole."""
    _check_end(_part(_part(response, "incomplete_details"), "reason"), None)
    status, error = _part(response, "status"), _part(response, "error")
    if status in _NOT_WHOLE:
        message = _part(error, "message")
        told = f": {_text(message)[:200]}" if isinstance(message, str) and message else ""
        raise UsageError(
            f"the model's answer is {str(status).replace('_', ' ')}, so it is no decision{told}",
            hint="Wait until it is completed, or ask again.",
        )


def _openai_call(call: Any) -> ToolCall:
    function, custom = _part(call, "function"), _part(call, "custom")
    if function is None and custom is not None:
        return _call(_part(custom, "name"), _part(custom, "input"), _part(call, "id"))
    return _call(_part(function, "name"), _part(function, "arguments"), _part(call, "id"))


def _call(name: Any, arguments: Any, identifier: Any) -> ToolCall:
    if not isinstance(name, str) or not name:
        raise UsageError("the model's answer holds a tool call without a name")
    if not isinstance(arguments, (str, Mapping)):
        arguments = "" if arguments is None else _encode(_plain(arguments)).decode()
    return ToolCall(name, arguments, identifier if isinstance(identifier, str) and identifier else None)


def _thoughts(blocks: Sequence[Any], finish: str | None) -> tuple[dict[str, Any], ...]:
    """What is kept for `Decision.thinking`: a thought is signed for its place, and is refused in any other."""
    places = [place for place, block in enumerate(blocks) if _part(block, "type") in THINKING]
    if not places or places[-1] < len(places):
        return tuple(_plain(blocks[place]) for place in places)
    return tuple(
        _kept(block) for block in blocks if _part(block, "type") != _TOOL_USE or _part(block, "name") != finish
    )


def _kept(block: Any) -> dict[str, Any]:
    kind = _part(block, "type")
    if kind == _TOOL_USE:
        return {"type": kind}
    if kind != "text":
        plain: dict[str, Any] = _plain(block)
        return plain
    text, citations = _part(block, "text"), _part(block, "citations")
    kept = {"type": kind, "text": _text(text) if isinstance(text, str) else ""}
    return {**kept, "citations": [_plain(each) for each in citations]} if citations else kept


def _check_end(reason: Any, refusal: Any) -> None:
    """UsageError where an answer ended before its time."""
    if refusal or reason in _REFUSED:
        told = f": {_text(refusal)[:200]}" if isinstance(refusal, str) else ""
        raise UsageError(f"the model refused to answer{told}", hint="Catch this and decide otherwise, or let it fail.")
    if reason in _CUT_OFF:
        raise UsageError(
            f"the model's answer was cut off ({reason}), so it is no decision",
            hint="Raise its token limit, or shorten what it is sent; resume the run to ask again.",
        )
    if reason == "pause_turn":
        raise UsageError(
            "the model paused its turn for a tool of its provider's",
            hint="Send the message back until the turn has ended, and decide by the last one.",
        )


def _joined(content: Any) -> str:
    """The text in a message's content: text itself, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    parts = (_part(part, "text") for part in content if _part(part, "type") in ("text", "output_text"))
    return "".join(part for part in parts if isinstance(part, str))


def _listed(whole: Any, name: str) -> list[Any]:
    found = _part(whole, name)
    return list(found) if isinstance(found, (list, tuple)) else []


def _part(whole: Any, name: str) -> Any:
    return whole.get(name) if isinstance(whole, Mapping) else attribute(whole, name)


def _plain(value: Any) -> Any:
    """An SDK's object as plain JSON."""
    dump = attribute(value, "model_dump")
    data = dump(mode="json", exclude_none=True) if callable(dump) else value
    try:
        return msgspec.json.decode(_encode(data))
    except Exception as error:
        raise UsageError(f"a part of the model's answer is no JSON ({error})") from error


def _repeated(ids: list[str]) -> str:
    return next(each for each in ids if ids.count(each) > 1)


def _text(text: str) -> str:
    """Text that can be stored: half a surrogate pair, which no encoding has, becomes the replacement character."""
    return text if is_storable(text) else _HALF_PAIRS.sub("\ufffd", text)


def _is_json(arguments: dict[str, Any]) -> bool:
    try:
        encode_arguments(arguments)
    except NotStorable:
        return False
    return all(isinstance(name, str) for name in arguments)


def _as_json(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments that are JSON, with objects in their place where they hold a model of pydantic's, say."""
    try:
        _encode(arguments)
    except TypeError:
        return msgspec.json.decode(encode_arguments(arguments), type=dict[str, Any])
    return arguments


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {_cleaned(key) if isinstance(key, str) else key: _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return value


# --- On disk. --------------------------------------------------------------------------------------------------------


class _Stored(Struct, frozen=True, omit_defaults=True):
    calls: tuple[ToolCall, ...] = ()
    finish: Raw | UnsetType = UNSET
    text: str = ""
    thinking: tuple[dict[str, Any], ...] = ()
    refused: int = 0


_stored = msgspec.json.Decoder(_Stored)


class Recorded(Struct, frozen=True):
    """A decision as it is recorded: `output` is the JSON of what it finishes with, `refused` how many outputs of the
    run had been sent back before it.
    """

    decision: Decision
    output: bytes | None
    refused: int


def written(decision: Decision, output: bytes | None, refused: int = 0) -> bytes:
    """The JSON of a decision; see `Recorded`."""
    finish = UNSET if output is None else Raw(output)
    try:
        return _encode(_Stored(decision.calls, finish, decision.text, decision.thinking, refused))
    except (TypeError, ValueError, RecursionError) as error:  # put into it after it was made
        raise NotStorable(f"the decision cannot be written as JSON ({error})") from error


def read(data: bytes, usage: Usage | None = None) -> Recorded:
    """A decision out of its JSON, its output as plain JSON.  Raises msgspec.MsgspecError for anything else."""
    stored = _stored.decode(data)
    if stored.finish is UNSET:
        return Recorded(
            Decision(stored.calls, text=stored.text, usage=usage, thinking=stored.thinking), None, stored.refused
        )
    output = bytes(stored.finish)
    decision = Decision(
        finished=True, output=msgspec.json.decode(output), text=stored.text, usage=usage, thinking=stored.thinking
    )
    return Recorded(decision, output, stored.refused)
