"""What a brief is made from, and how texts that came from outside are told."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from jumar.core.briefs.records import Drift
from jumar.core.records import CallRecord, RequestRecord, RunRecord
from jumar.core.states import CallKind
from jumar.core.turns import shown
from jumar.errors import IntegrityError

ARGS, RESULT, MESSAGE, NAME, ID = 60, 120, 240, 80, 90  # characters of each that are told

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="deterministic").encode

_ESCAPED = re.compile(r"\\\\|\\u00[01][0-9a-f]|\\[nrtbf]")

LoadText = Callable[[bytes], bytes | None]  # the bytes of an artifact by its digest, None where it is gone


class Facts(Struct, frozen=True):
    """What a brief is made from.  `calls` are those on the run's line and `leftovers` those that a rollback left
    standing, each in the order of their numbers.  `files` are the paths that each write call changed, by its number,
    where that can be told.  `doubts` are calls found in doubt when the run was taken up, each as it was and as it is.
    `before` is how the run stood before it was taken up.  `turn` is the number of a loop agent's next decision where
    whoever asks knows it.
    """

    run: RunRecord
    calls: Sequence[CallRecord]
    leftovers: Sequence[CallRecord] = ()
    requests: Sequence[RequestRecord] = ()
    load: LoadText = lambda name: None
    files: Mapping[int, tuple[str, ...]] = {}
    doubts: Sequence[tuple[CallRecord, CallRecord]] | None = None
    drift: tuple[Drift, ...] = ()
    before: RunRecord | None = None
    turn: int | None = None


def outside(text: Any, most: int) -> str:
    """A text that came from outside, in one line without control characters, of at most so many characters."""
    raw = text if isinstance(text, str) else str(text)
    clean = "".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in raw[: most * 8])
    words = " ".join(clean.split())
    is_cut = len(words) > most or len(raw) > most * 8
    return f"{words[: most - 1]}…" if is_cut else words


def path_text(text: str) -> str:
    """The name of a file; of a long one its end."""
    return _end(text, NAME)


def id_text(call: CallRecord) -> str:
    """A call's id; of a long one its end."""
    return _end(call.call_id, ID)


def _end(text: str, most: int) -> str:
    clean = outside(text, 10_000)
    return clean if len(clean) <= most else f"…{clean[1 - most :]}"


def args_text(facts: Facts, call: CallRecord) -> str:
    """The arguments of a call; the one alone where there is one, nothing where there is none."""
    value = value_of(facts, call.args, call.args_artifact)
    if value is None or value == {}:
        return ""
    if call.kind is CallKind.ASK and isinstance(value, dict):
        value = value.get("question", "")
    elif isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    return _text(value, ARGS)


def result_text(facts: Facts, call: CallRecord) -> str:
    """What a call returned."""
    return _text(value_of(facts, call.result, call.result_artifact), RESULT)


def _text(value: Any, most: int) -> str:
    if isinstance(value, str):
        return outside(value, most)
    return json_text(_encode(value), most)


def json_text(data: bytes, most: int) -> str:
    """JSON in one line, with what it writes for control characters left out as well."""
    text = data[: most * 16].decode("utf-8", "replace")
    return outside(_ESCAPED.sub(lambda found: found[0] if found[0] == r"\\" else " ", text), most)


def value_of(facts: Facts, data: bytes | None, artifact: bytes | None) -> Any:
    """Recorded JSON as a value; None where it is not there, or damaged."""
    try:
        if data is None and artifact is not None:
            data = facts.load(artifact)
        return None if data is None else shown(_decode(data))
    except (msgspec.MsgspecError, IntegrityError):
        return None
