"""What an agent waits for: turning `ask` and `sleep` into calls."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from jumar.core.codec import TypedCodec, codec_for
from jumar.core.questions import check_choices, check_question, misfit
from jumar.core.states import CallKind, Effect
from jumar.engine.flows.asking import Question
from jumar.engine.flows.calls import Call, prepare
from jumar.engine.live import LiveRun
from jumar.engine.policy import ToolPolicy
from jumar.engine.scope import branch_here
from jumar.errors import NotStorable, UsageError
from jumar.harness.calling import encoded, nothing
from jumar.harness.options import MOST_SECONDS, seconds

UNSET: Any = msgspec.UNSET


def ask_call(
    live: LiveRun,
    question: str,
    choices: Any,
    returns: Any,
    expires: float | None,
    default: Any,
    key: str | None,
    home: Any,
) -> tuple[Call, Question]:
    """A prepared question, with what it needs beyond its call."""
    texts = check_choices(choices)
    expires = seconds("expires", expires, zero=False)
    codec = codec_for(Any if returns is None else returns)
    details: dict[str, Any] = {"question": check_question(question)}
    if texts is not None:
        _check_types(codec, texts)
        details["choices"] = texts
    wanted = None if returns is None else json_type(returns)
    if wanted is not None:
        details["type"] = wanted
    given = None
    if default is not UNSET:
        given = _default(codec, details, default)
        details["default"] = msgspec.json.decode(given)
    if expires is not None and given is None:
        raise UsageError("ask(expires=...) has no default", hint="Say with default=... what holds when nobody answers.")
    if given is not None and expires is None:
        raise UsageError("ask(default=...) never applies", hint="Say with expires=SECONDS when it is to be taken.")
    if expires is not None:
        details["expires"] = expires
    policy = ToolPolicy(CallKind.ASK, CallKind.ASK.label, Effect.READ, codec)
    call = Call(live, policy, nothing, (), {}, encoded("ask", details), key)
    return prepare(call, branch_here(live, home)), Question(expires, given)


def _check_types(codec: TypedCodec, choices: list[str]) -> None:
    """A choice that is not of the type asked for would be asked for again and again."""
    for text in choices:
        try:
            codec.decode(msgspec.json.encode(text))
        except NotStorable as error:
            raise UsageError(f"the choice {text!r} is not of the type asked for: {error.what}") from None


def _default(codec: TypedCodec, details: dict[str, Any], default: Any) -> bytes:
    try:
        data, _ = codec.round_trip(default)
    except NotStorable as error:
        raise UsageError(f"ask(default={default!r}) is not of the type asked for: {error.what}") from error
    reason = misfit(details, msgspec.json.decode(data))
    if reason is not None:
        raise UsageError(f"ask(default={default!r}) cannot be an answer: {reason}")
    return data


def json_type(kind: Any) -> str | None:
    """The JSON type that values of an annotation have, where it is one and can be told."""
    try:
        schema = msgspec.json.schema(kind)
    except (TypeError, ValueError):
        return None
    reference = schema.get("$ref")
    if isinstance(reference, str):
        schema = schema.get("$defs", {}).get(reference.rpartition("/")[2], {})
    wanted = schema.get("type")
    return wanted if isinstance(wanted, str) else None


def sleep_call(
    live: LiveRun, length: float | None, until: datetime | None, key: str | None, home: Any
) -> tuple[Call, int]:
    """A prepared sleep, and the wall-clock millisecond at which it would end."""
    if (length is None) == (until is None):
        raise UsageError("sleep takes a number of seconds, or until=")
    if until is None:
        checked = seconds("sleep", length, zero=True)
        assert checked is not None
        details: dict[str, Any] = {"seconds": checked}
        wake_at = live.wall() + int(checked * 1000)
    else:
        if not isinstance(until, datetime) or until.tzinfo is None:
            raise UsageError(f"sleep(until={until!r}) is no datetime with a time zone")
        wake_at = int(until.timestamp() * 1000)
        if wake_at - live.wall() >= MOST_SECONDS * 1000:
            raise UsageError(f"sleep(until={until!r}) is {MOST_SECONDS:,.0f} seconds ahead, or more")
        details = {"until": wake_at}
    policy = ToolPolicy(CallKind.SLEEP, CallKind.SLEEP.label, Effect.READ, codec_for(Any))
    call = Call(live, policy, nothing, (), {}, encoded("sleep", details), key)
    return prepare(call, branch_here(live, home)), wake_at
