"""How rows are written in files: as JSON that a person can read, and that comes back exactly as it was.

A row is an object with its columns by name; columns that are null are left out.  Digests are in hex, numbers of a
closed vocabulary are its words, and bytes that are UTF-8 (arguments, results and the like are JSON) are text, as they
stand; other bytes are `{"base64": ...}`.

A document is one object of two members: the sha256 of the second one's very characters, and that one.  So a file that
was edited, cut or mixed up is known as soon as it is read, whatever its name.
"""

from __future__ import annotations

import re
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from jumar.core.states import (
    CallKind,
    CallState,
    Control,
    Effect,
    ErrorClass,
    EventKind,
    IdentityScope,
    Label,
    Level,
    Phase,
    RequestKind,
    Status,
    Storage,
    Verdict,
)

Row = Sequence[Any]
Encoder = Callable[[Any], Any]

_VOCABULARIES: dict[str, type[Label]] = {
    "status": Status,
    "phase": Phase,
    "control": Control,
    "error_class": ErrorClass,
    "call.kind": CallKind,
    "request.kind": RequestKind,
    "event.kind": EventKind,
    "effect": Effect,
    "state": CallState,
    "identity_scope": IdentityScope,
    "level": Level,
    "storage": Storage,
    "verdict": Verdict,
}
_DIGESTS = frozenset(
    {
        *("input_digest", "output_digest", "args_digest", "args_artifact", "result_artifact", "boot", "digest"),
        *("context", "tree", "environment", "before", "after", "checkpoint.checksum"),
    }
)
_BASE64 = "base64"
_HEAD = re.compile(rb'\{\n"sha256": "([0-9a-f]{64})",\n"([a-z]+)": ')
_TAIL = b"\n}\n"


class Column(NamedTuple):
    """One column: its name, what stands for a value that a row leaves out, and how its values are written and read."""

    name: str
    default: Any
    written: Encoder | None
    read: Encoder | None


class Table(NamedTuple):
    """One table's columns as the files have them, and how its rows are put into a database."""

    name: str
    columns: tuple[Column, ...]
    select: str  # the columns, for a SELECT
    upsert: str  # run_no first, then the columns

    def form(self, row: Row) -> dict[str, Any]:
        """A row with these columns, as it is written."""
        return {
            column.name: value if column.written is None else column.written(value)
            for column, value in zip(self.columns, row, strict=True)
            if value is not None
        }

    def row(self, form: Mapping[str, Any]) -> list[Any]:
        """The columns' values; ValueError where there is one that is none of theirs."""
        values = [
            column.default
            if (value := form.get(column.name)) is None
            else value
            if column.read is None
            else column.read(value)
            for column in self.columns
        ]
        known = {column.name for column in self.columns}
        if not known.issuperset(form):
            raise ValueError(f"has {', '.join(sorted(set(form) - known))}, which is not known here")
        return values


def table(connection: sqlite3.Connection, name: str, key: Sequence[str]) -> Table:
    """A table of the database; `key` is what a row is known by beside its run's number."""
    columns: list[Column] = []
    for _, column, kind, required, default, number in connection.execute(f"PRAGMA table_info({name})"):
        if column == "run_no" or (number and kind == "INTEGER"):
            continue
        stands_for = None if default is None or not required else int(default)
        columns.append(Column(column, stands_for, *_form_of(name, column, kind)))
    names = [column.name for column in columns]
    places = ", ".join("?" * (len(names) + 1))
    upsert = f"INSERT INTO {name} (run_no, {', '.join(names)}) VALUES ({places})"
    if key:
        changed = ", ".join(f"{each} = excluded.{each}" for each in names)
        upsert += f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changed}"
    return Table(name, tuple(columns), ", ".join(names), upsert)


def _form_of(name: str, column: str, kind: str) -> tuple[Encoder | None, Encoder | None]:
    vocabulary = _VOCABULARIES.get(f"{name}.{column}") or _VOCABULARIES.get(column)
    if vocabulary is not None:
        words = {member.value: member.label for member in vocabulary}
        numbers: dict[Any, int] = {word: number for number, word in words.items()}
        return (lambda value: words.get(value, value)), (lambda form: _number(numbers, form))
    if kind != "BLOB":
        return None, None
    if column in _DIGESTS or f"{name}.{column}" in _DIGESTS:
        return bytes.hex, bytes.fromhex
    return text_of, bytes_of


def _number(numbers: dict[Any, int], form: Any) -> int:
    if isinstance(form, int):
        return form
    if form not in numbers:
        raise ValueError(f"has the word {form!r}, which is not known here")
    return numbers[form]


def text_of(data: bytes) -> str | dict[str, str]:
    """Bytes as they are written."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {_BASE64: b64encode(data).decode()}


def bytes_of(form: Any) -> bytes:
    """Bytes as they were."""
    if isinstance(form, str):
        return form.encode()
    return b64decode(form[_BASE64], validate=True)


def document(kind: str, content: Any) -> tuple[bytes, str]:
    """A file that holds `content`, and the checksum it carries."""
    body = msgspec.json.format(msgspec.json.encode(content), indent=1)
    checksum = sha256(body).hexdigest()
    return b'{\n"sha256": "%s",\n"%s": %s%s' % (checksum.encode(), kind.encode(), body, _TAIL), checksum


def content_of(data: bytes, kind: str) -> tuple[dict[str, Any], str]:
    """What a file holds and the checksum it carries; ValueError, with words that follow its name, where it is not as
    it was written.
    """
    begins = _HEAD.match(data)
    if begins is None or not data.endswith(_TAIL):
        raise ValueError("is cut off or was changed by another program")
    body = data[begins.end() : -len(_TAIL)]
    checksum = begins[1].decode()
    if sha256(body).hexdigest() != checksum:
        raise ValueError("does not agree with its checksum")
    if begins[2].decode() != kind:
        raise ValueError(f"is no {kind}")
    content: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
    return content, checksum
