"""The state of things outside, as fingerprints told it at one moment, and what has changed since another.

A fingerprint that could not be read is unknown: it is told so, and is never taken for a change of what it stands for
by whoever refuses to go on over one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from jumar.core.briefs.facts import RESULT, json_text
from jumar.core.briefs.records import Drift
from jumar.core.codec import codec_for
from jumar.errors import IntegrityError

MAX_READING = 4096  # bytes of one fingerprint's JSON

_ANY = codec_for(Any)


class Environment(Struct, frozen=True):
    """Each fingerprint's value as JSON, and the names of those that could not be read."""

    values: dict[str, msgspec.Raw] = {}
    unknown: tuple[str, ...] = ()


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Environment).decode


def reading(value: Any) -> bytes | None:
    """One fingerprint's value as JSON with its keys in order; None where it is none, or too large."""
    try:
        data = _encode(msgspec.json.decode(_ANY.encode(value)))
    except Exception:  # whatever a value's own hooks raise
        return None
    return data if len(data) <= MAX_READING else None


def environment_of(readings: Mapping[str, bytes | None]) -> Environment:
    """What was read, by the names of the fingerprints; None where it could not be."""
    known = {name: msgspec.Raw(data) for name, data in readings.items() if data is not None}
    return Environment(known, tuple(sorted(name for name, data in readings.items() if data is None)))


def packed(environment: Environment) -> bytes:
    """An environment as an artifact."""
    return _encode(environment)


def unpacked(data: bytes) -> Environment:
    """An environment out of its artifact; IntegrityError where it is none."""
    try:
        return _decode(data)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"the fingerprints of a checkpoint cannot be read ({error})") from error


def drift(before: Environment, now: Environment) -> tuple[Drift, ...]:
    """What is not as it was, by name; a fingerprint that was not read then, or is not declared now, tells nothing."""
    found = []
    for name in sorted(before.values):
        was, is_now = before.values[name], now.values.get(name)
        if is_now is None and name in now.unknown:
            found.append(Drift(name, _told(was), None))
        elif is_now is not None and bytes(is_now) != bytes(was):
            found.append(Drift(name, _told(was), _told(is_now)))
    return tuple(found)


def _told(value: msgspec.Raw) -> str:
    return json_text(bytes(value), RESULT)
