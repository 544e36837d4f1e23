"""What `doctor` looks at in a workspace's objects: SQLite's own check, every object against its name, and the pins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256

from msgspec import Struct

from jumar.core import trees
from jumar.core.objects import Kind
from jumar.core.store import Finding
from jumar.core.trees import EntryKind
from jumar.errors import IntegrityError, JumarError
from jumar.workspace import packing
from jumar.workspace.objects import Inspected

_RESTORE_PIN = "restore:"  # then which root, and the name of a restore: why its safety snapshot is kept


_KINDS: tuple[tuple[Kind, str], ...] = (("blob", "content"), ("node", "folder"), ("snapshot", "snapshot"))


class Safety(Struct, frozen=True):
    """The files as they were before a restore: its snapshot, a short digest of the root's path, the restore's own name,
    and when (ms since 1970).
    """

    digest: bytes
    root: str
    name: str
    at: int
    files: int


class Inspection(Struct, frozen=True):
    """What was looked at and what was found; `size` is what the objects take on disk, in bytes, and `lost` are the
    snapshots that are damaged or lack something.
    """

    contents: int
    folders: int
    snapshots: int
    size: int
    safety: tuple[Safety, ...]
    findings: tuple[Finding, ...]
    lost: frozenset[bytes] = frozenset()


def pin_of(root: bytes, name: str) -> str:
    """Why a safety snapshot is kept: a restore of this name in this root was made from it on."""
    return f"{_RESTORE_PIN}{_short(root)}:{name}"


def _short(root: bytes) -> str:
    return sha256(root).hexdigest()[:16]


def safety_snapshots(objects: Inspected, root: str | None = None) -> tuple[Safety, ...]:
    """The safety snapshots of all restores, or of those in one root, the newest first; a damaged one is left out."""
    found = []
    short = None if root is None else _short(objects.place + os.fsencode(root))
    for digest, reason in sorted(objects.pins(_RESTORE_PIN)):
        try:
            snapshot = objects.get_snapshot(digest)
        except IntegrityError:
            continue
        where, _, name = reason.removeprefix(_RESTORE_PIN).rpartition(":")
        if short is None or where == short:
            found.append(Safety(digest, where, name, snapshot.at, snapshot.files))
    return tuple(sorted(found, key=lambda each: (-each.at, each.name)))


def inspect(objects: Inspected) -> Inspection:
    """Read every object once and report those that do not agree with their names, and snapshots that lack something."""
    counts: dict[Kind, int] = {"blob": 0, "node": 0, "snapshot": 0}
    findings = list(_own_check(objects))
    lost: set[bytes] = set()
    try:
        for kind, where in _KINDS:
            for digest, what in _damaged(objects, kind, counts):
                findings.append(Finding(where, f"{digest.hex()} {what}"))
                if kind == "snapshot":
                    lost.add(digest)
        for digest, lacking in _lacking_snapshots(objects):
            findings.append(Finding("snapshot", f"{digest.hex()} can't be given back whole: {lacking}"))
            lost.add(digest)
    except JumarError as error:
        findings.append(Finding("database", f"could not be read to the end ({error.what})"))
    safety = safety_snapshots(objects)
    return Inspection(
        counts["blob"], counts["node"], counts["snapshot"], objects.size(), safety, tuple(findings), frozenset(lost)
    )


def _own_check(objects: Inspected) -> Iterator[Finding]:
    try:
        lines = objects.own_check()
    except JumarError as error:
        lines = [error.what]
    yield from (Finding("database", line) for line in lines)


def _damaged(objects: Inspected, kind: Kind, counts: dict[Kind, int]) -> Iterator[tuple[bytes, str]]:
    for digest, number, body in objects.every(kind):
        counts[kind] += 1
        how = number if kind == "blob" else packing.PLAIN
        if how == packing.PARTS:
            parts = [body[at : at + 32] for at in range(0, len(body), 32)]
            if objects.missing(parts):
                yield digest, "lacks a part"
        elif not _agrees(digest, body, how):
            yield digest, "does not agree with its checksum"


def _agrees(digest: bytes, body: bytes, how: int) -> bool:
    try:
        return trees.digest_of(packing.unpack(how, body)) == digest
    except ValueError:
        return False


def _lacking_snapshots(objects: Inspected) -> Iterator[tuple[bytes, str]]:
    whole: set[bytes] = set()
    for digest, _, data in objects.every("snapshot"):
        try:
            lacking = _lacking(objects, trees.unpack_snapshot(data).root, whole)
        except IntegrityError as error:
            lacking = error.what
        if lacking:
            yield digest, lacking


def _lacking(objects: Inspected, node: bytes, whole: set[bytes]) -> str:
    """What is wrong with the first thing below a folder that is not there; "" where all are."""
    if node in whole:
        return ""
    entries = objects.load(node)
    missing = objects.missing([each.digest for each in entries if each.kind is EntryKind.FILE and each.digest])
    if missing:
        return f"the content {missing[0].hex()} is not there"
    for entry in entries:
        if entry.kind is EntryKind.DIR and entry.digest:
            found = _lacking(objects, entry.digest, whole)
            if found:
                return found
    whole.add(node)
    return ""
