"""What the OpenAI and Anthropic SDKs sum a stream up to, made the same as the answer to a request without one.

Two things set it apart.  It may be only the beginning of an answer: a connection that is closed too early, but in good
order, looks to an SDK like the end of the stream, and only the missing reason to stop gives it away.  And it is of a
subclass, `Parsed...`, with extra fields: what the SDK read out of the text, and the numbers by which it put the pieces
together.  Some providers refuse them where the message is sent back as a part of a conversation, so they are dropped
where a program cannot miss them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jumar.core.values import is_sdk_model

_TOOL_CALLS: dict[str, Any] = {"tool_calls": {"__all__": {"index": True, "function": {"parsed_arguments": True}}}}
_OUTPUT: dict[str, Any] = {"__all__": {"parsed_arguments": True, "content": {"__all__": {"parsed": True}}}}


def is_summed_up(answer: Any) -> bool:
    """Whether an answer is what an SDK sums a stream up to."""
    kind: Any = type(answer)
    return _sums_up(kind)


@lru_cache(maxsize=256)
def _sums_up(kind: Any) -> bool:
    libraries = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return kind.__name__.startswith("Parsed") and is_sdk_model(kind) and bool(libraries & {"openai", "anthropic"})


class BrokenStream(ConnectionError):
    """A stream that ended before its answer was whole: a passing error, as lost connections are."""


def refuse_broken(answer: Any, last: str = "") -> None:
    """Raise BrokenStream for what is summed up of a stream and does not say why it ends; `last` is its last event."""
    if is_summed_up(answer) and not _is_whole(answer):
        raise broken(last)


def broken(last: str = "") -> BrokenStream:
    """The error for a stream that ended after the event `last`."""
    return BrokenStream(f"the stream ended before its answer was whole{last and f', after the event {last}'}")


def _is_whole(answer: Any) -> bool:
    choices = getattr(answer, "choices", None)
    if isinstance(choices, list):
        return bool(choices) and all(getattr(choice, "finish_reason", None) is not None for choice in choices)
    return getattr(answer, "stop_reason", "it has no such field") is not None


def as_created(answer: Any) -> Any:
    """A summed up answer as the class that `create` answers; anything else as it is.

    Arguments of tools that the SDK parsed are dropped, as the text they come from is there; a message's `parsed` is
    dropped where there is none.
    """
    kind: Any = type(answer)
    created = _created(kind) if _sums_up(kind) else None
    if created is None:
        return answer
    message = _TOOL_CALLS if _has_parsed(answer) else {**_TOOL_CALLS, "parsed": True}
    excluded = {"choices": {"__all__": {"message": message}}, "output": _OUTPUT}
    fields = answer.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False, exclude=excluded)
    return created.construct(**fields)


@lru_cache(maxsize=256)
def _created(kind: Any) -> Any:
    return next((base for base in kind.__mro__ if is_sdk_model(base) and not base.__name__.startswith("Parsed")), None)


def _has_parsed(answer: Any) -> bool:
    choices = getattr(answer, "choices", None) or ()
    return any(getattr(getattr(choice, "message", None), "parsed", None) is not None for choice in choices)
