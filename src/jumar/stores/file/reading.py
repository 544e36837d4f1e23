"""Reading what a run's folder says: its head, and the entries up to the one that the head names.

Every file carries its own checksum, each entry the one of the entry before it, and the head that of the last: so what
is read is what was written, all of it, in order.  No lock is needed, since what a head names never changes again.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from jumar.stores.file.disk import read
from jumar.stores.file.failures import Damaged
from jumar.stores.file.forms import bytes_of, content_of
from jumar.stores.file.layout import HEAD, RUNS, entry_name

_OF_THIS_PROCESS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # errors that say nothing of the file
NOTHING = "0" * 64  # stands for the checksum of an entry before the first


class Head(NamedTuple):
    """A run's head: how it stands, and its last entry."""

    run_id: str
    run_no: int
    commit: int
    first: int
    entry: int
    checksum: str
    run: dict[str, Any]


class Entry(NamedTuple):
    """What one commit added to a run."""

    run_id: str
    run_no: int
    commit: int
    checksum: str
    rows: dict[str, Any]


class Flaw(NamedTuple):
    """A file that only what is in it depends on: a checkpoint's, or an artifact's."""

    where: str
    what: str


def read_head(root: str, folder: str) -> Head:
    """The head of a run; Damaged where it is not as it was written."""
    file = f"{RUNS}/{folder}/{HEAD}"
    content, _ = _content(root, file, "head")
    try:
        head = Head(**content)
        if not all(isinstance(number, int) for number in head[1:5]):
            raise TypeError
    except TypeError:
        raise Damaged(file, "has not the members of a head") from None
    return head


def entries(root: str, folder: str, head: Head, after: int, checksum: str) -> Iterator[Entry]:
    """The entries after number `after`, which has this checksum; Damaged where one is not as it was written."""
    for number in range(after + 1, head.entry + 1):
        file = f"{RUNS}/{folder}/{entry_name(number)}"
        entry, previous = _entry(root, file, number)
        if previous != checksum:
            raise Damaged(file, "does not follow the entry before it")
        checksum = entry.checksum
        yield entry
    if checksum != head.checksum:
        raise Damaged(f"{RUNS}/{folder}/{HEAD}", "does not agree with the last entry")


def readable_entries(root: str, folder: str, head: Head | None) -> Iterator[Entry]:
    """Of a run that cannot be read as a whole, each entry that can be read by itself."""
    number = 1 if head is None else head.first
    missing = 0
    while missing < 3 if head is None else number <= head.entry:
        try:
            yield _entry(root, f"{RUNS}/{folder}/{entry_name(number)}", number)[0]
        except Damaged:
            missing += 1
        number += 1


def _entry(root: str, file: str, number: int) -> tuple[Entry, str]:
    content, checksum = _content(root, file, "entry")
    try:
        if content.pop("number") != number:
            raise Damaged(file, "is another entry by its number")
        previous = content.pop("previous")
        run_id, run_no, commit = (content.pop(each) for each in ("run_id", "run_no", "commit"))
        return Entry(run_id, run_no, commit, checksum, content), previous
    except (KeyError, TypeError):
        raise Damaged(file, "has not the members of an entry") from None


def _content(root: str, file: str, kind: str) -> tuple[dict[str, Any], str]:
    try:
        return content_of(_bytes(root, file), kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise Damaged(file, str(error)) from None


def _bytes(root: str, file: str) -> bytes:
    """What is in a file; a part of the disk that cannot be read any more is a damage like others."""
    try:
        return read(f"{root}/{file}")
    except FileNotFoundError:
        raise Damaged(file, "is missing") from None
    except OSError as error:
        if error.errno in _OF_THIS_PROCESS:
            raise
        raise Damaged(file, f"cannot be read ({error.strerror})") from None


def brought_in(root: str, folder: str, rows: dict[str, Any], flaws: list[Flaw] | None = None) -> dict[str, Any]:
    """An entry's rows with what lies in files of their own.  One that is damaged there stands as a row that does not
    agree with its checksum, so that whoever needs it is told so, and the rest of the run can be read; with `flaws` it
    is also said where.
    """
    found: list[Flaw] = []
    home = f"{RUNS}/{folder}"
    if "checkpoint" in rows:
        rows = rows | {"checkpoint": [_checkpoint(root, home, each, found) for each in rows["checkpoint"]]}
    if "artifact" in rows:
        rows = rows | {"artifact": [_artifact(root, home, each, found) for each in rows["artifact"]]}
    if flaws is not None:
        flaws += found
    return rows


def _checkpoint(root: str, home: str, named: dict[str, Any], flaws: list[Flaw]) -> dict[str, Any]:
    file = f"{home}/{named['file']}"
    try:
        content, checksum = _content(root, file, "checkpoint")
        if checksum != named["sha256"]:
            raise Damaged(file, "is not the one that its run wrote")
        return content
    except Damaged as damaged:
        flaws.append(Flaw(f"checkpoint {named['version']}", f"its file {damaged}"))
    nothing = {"trigger": "unreadable", "refs": "", "level": "task", "phase": "in-code", "checksum": "", "storage": 0}
    return {
        **nothing,
        "name": named["name"],
        "version": named["version"],
        "base_version": 0,
        "step": 0,
        "created_at": 0,
    }


def _artifact(root: str, home: str, form: dict[str, Any], flaws: list[Flaw]) -> dict[str, Any]:
    if "file" not in form:
        return {"digest": form["digest"], "data": bytes_of(form["data"])}
    file = f"{home}/{form['file']}"
    data, why = b"", "does not agree with its digest"
    try:
        data = _bytes(root, file)
    except Damaged as damaged:
        why = damaged.why
    if sha256(data).hexdigest() != form["digest"]:
        flaws.append(Flaw(f"artifact {form['digest'][:12]}", f"its file {file} {why}"))
    return {"digest": form["digest"], "data": data}
