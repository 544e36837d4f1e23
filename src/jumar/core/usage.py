"""What a model's answer cost, read from whatever its client answers.

An answer carries its usage as an attribute or key `usage`, under the names that the providers give its parts; a
function may also answer a pair (answer, Usage).  Whatever is no sensible count is left out: by the time it is read
the call has happened, and a figure that cannot be stored must not keep it from being recorded.
"""

from __future__ import annotations

from typing import Any

from jumar.core.failures import attribute
from jumar.core.records import Usage

_MOST = 2**63 - 1


def split_usage(answer: Any) -> tuple[Any, Usage | None]:
    """A model's answer and what it cost: of a pair (answer, Usage) its parts, else what the answer itself carries."""
    try:
        if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Usage):
            return answer[0], _counted(answer[1])
    except Exception:  # a foreign object that fails when it is looked at is the answer itself
        return answer, None
    return answer, usage_of(answer)


def usage_of(response: Any) -> Usage | None:
    """The usage that a response carries, or is."""
    try:
        return _counted(response if isinstance(response, Usage) else _part(response, "usage"))
    except Exception:  # a client's own objects: the call has happened, and is recorded without
        return None


def usage_by(source: Any, value: Any) -> Usage | None:
    """What `source` says that a value cost: a Usage, or a function that reads one from the value."""
    try:
        return _counted(source(value) if callable(source) else source)
    except Exception:  # the call has happened and is recorded all the same
        return None


def both(one: Usage | None, other: Usage | None) -> Usage | None:
    """What two attempts cost together."""
    if one is None or other is None:
        return one or other
    usd = None if one.usd is None and other.usd is None else (one.usd or 0.0) + (other.usd or 0.0)
    return Usage(
        min(one.input_tokens + other.input_tokens, _MOST),
        min(one.output_tokens + other.output_tokens, _MOST),
        min(one.cached_tokens + other.cached_tokens, _MOST),
        usd,
    )


def _counted(found: Any) -> Usage | None:
    """Usage out of a Usage, or of an object or dict with the providers' names; None where it says nothing."""
    if found is None:
        return None
    details = _part(found, "prompt_tokens_details")
    if details is None:
        details = _part(found, "input_tokens_details")
    tokens_in = _first(found, "input_tokens", "prompt_tokens")
    tokens_out = _first(found, "output_tokens", "completion_tokens")
    cached = _first(found, "cached_tokens", "cache_read_input_tokens") or _first(details, "cached_tokens")
    usd = _part(found, "usd")
    paid = float(usd) if isinstance(usd, (int, float)) and not isinstance(usd, bool) and 0 <= usd < _MOST else None
    if tokens_in is None and tokens_out is None and cached is None and paid is None:
        return None
    return Usage(tokens_in or 0, tokens_out or 0, cached or 0, paid)


def _first(whole: Any, *names: str) -> int | None:
    """The first of these parts that is a count."""
    for name in names:
        value = _part(whole, name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST:
            return int(value)
    return None


def _part(whole: Any, name: str) -> Any:
    try:
        return whole.get(name) if isinstance(whole, dict) else attribute(whole, name)
    except Exception:  # a dict with ways of its own
        return None
