"""What the OpenAI and Anthropic SDKs sum a stream up to, made the same as the answer to a request without one.

Two things set it apart.  It may be only the beginning of an answer: a connection that is closed too early, but in good
order, looks to an SDK like the end of the stream, and only the missing reason to stop gives it away.  And it is of a
subclass, `Parsed...`, whose extra fields hold what the SDK read out of the text; providers refuse them where the
message is sent back as a part of a conversation.  Where nothing was asked to be parsed the extra fields are dropped.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from jumar.core.values import is_sdk_model

_PARSED: dict[str, Any] = {
    "choices": {
        "__all__": {"message": {"parsed": True, "tool_calls": {"__all__": {"function": {"parsed_arguments": True}}}}}
    },
    "output": {"__all__": {"parsed_arguments": True, "content": {"__all__": {"parsed": True}}}},
}


def is_summed_up(answer: Any) -> bool:
    """Whether an answer is what an SDK sums a stream up to."""
    kind: Any = type(answer)
    return _sums_up(kind)


@lru_cache(maxsize=256)
def _sums_up(kind: Any) -> bool:
    libraries = {base.__module__.partition(".")[0] for base in kind.__mro__}
    return kind.__name__.startswith("Parsed") and is_sdk_model(kind) and bool(libraries & {"openai", "anthropic"})


def is_whole(answer: Any) -> bool:
    """Whether a summed up answer says why it ends."""
    choices = getattr(answer, "choices", None)
    if isinstance(choices, list):
        return bool(choices) and all(getattr(choice, "finish_reason", None) is not None for choice in choices)
    return getattr(answer, "stop_reason", "it has no such field") is not None


def as_created(answer: Any) -> Any:
    """A summed up answer as the class that `create` answers; as it is where something was asked to be parsed."""
    kind: Any = type(answer)
    created = _created(kind)
    if created is None:
        return answer
    fields = answer.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False, exclude=_PARSED)
    return created.construct(**fields)


@lru_cache(maxsize=256)
def _created(kind: Any) -> Any:
    if any(argument is not type(None) for argument in kind.__pydantic_generic_metadata__["args"]):
        return None
    return next((base for base in kind.__mro__ if is_sdk_model(base) and not base.__name__.startswith("Parsed")), None)
