"""Where things are in a store's folder:

    jumar-store.json                the mark that the folder is a store, with the numbers of its format and its schema
    lock                            see `jumar.stores.file.lock`
    touched                         see `jumar.stores.file.hints`
    runs/RUN/head.json              the run's row, and which entry is its last
    runs/RUN/00000012.json          the entry with that number: what the twelfth commit added
    runs/RUN/checkpoints/NAME.v7.json
    runs/RUN/artifacts/DIGEST.json  one too large for an entry, byte for byte (.bin where it is no text)
    runs/.new                       a run that is being made

The folder is made where there is none, and marked; one with other things in it is left alone.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from typing import Any

import msgspec

from jumar import errors
from jumar.database.mounts import network_filesystem
from jumar.stores.file.disk import TEMPORARY, Disk, read
from jumar.stores.file.failures import translated
from jumar.stores.file.lock import StoreLock
from jumar.stores.sqlite.connection import newest_schema

FORMAT = 1
MARK = "jumar-store.json"
LOCK = "lock"
HINTS = "touched"
RUNS = "runs"
NEW = ".new"
HEAD = "head.json"
CHECKPOINTS = "checkpoints"
ARTIFACTS = "artifacts"

_OURS = frozenset({LOCK, HINTS, RUNS, MARK + TEMPORARY})
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,119}\Z")
_SLUG = re.compile(r"[A-Za-z0-9_.-]{1,200}\Z")


def folder_of(run_id: str) -> str:
    """The name of a run's folder: its id, where that can be one on any system, else a digest of it."""
    return run_id if _PLAIN.match(run_id) else f"~{_digest(run_id)}"


def entry_name(number: int) -> str:
    """The name of an entry's file."""
    return f"{number:08d}.json"


def checkpoint_name(name: str, version: int) -> str:
    """The name of a checkpoint's file in the run's folder; two checkpoints may have one name, never one version."""
    return f"{CHECKPOINTS}/{name if _SLUG.match(name) else _digest(name)}.v{version}.json"


def artifact_name(digest: str, is_text: bool) -> str:
    """The name of an artifact's file in the run's folder."""
    return f"{ARTIFACTS}/{digest}.{'json' if is_text else 'bin'}"


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]


def prepare(disk: Disk, root: str, lock: StoreLock) -> tuple[int, int]:
    """Make the folder a store of this version's schema where it is none yet; answers the schema's number before and
    after.
    """
    _check_place(root)
    try:
        before = _schema_at(root)
        if before == newest_schema():
            return before, before
        if not os.path.isdir(root):  # noqa: PTH112
            _make(disk, root)
        try:
            lock.acquire()
            return _marked(disk, root), newest_schema()
        finally:
            lock.release()
    except OSError as error:
        raise translated(error, root) from error


def _make(disk: Disk, root: str) -> None:
    try:
        disk.mkdir(root)
        disk.flush(os.path.dirname(os.path.abspath(root)))  # noqa: PTH100, PTH120
    except FileExistsError:
        pass  # another process has made it meanwhile


def _marked(disk: Disk, root: str) -> int:
    """Mark the folder; answers the schema's number before.  Called with the lock held."""
    before = _schema_at(root)
    if before == newest_schema():
        return before
    try:
        disk.mkdir(f"{root}/{RUNS}")
    except FileExistsError:
        pass
    disk.append(f"{root}/{HINTS}", b"")
    disk.flush(root)  # what is marked has all of its parts
    mark = {"store": "jumar", "format": FORMAT, "schema": newest_schema()}
    disk.put(f"{root}/{MARK}", msgspec.json.format(msgspec.json.encode(mark), indent=1) + b"\n")
    disk.flush(root)
    return before


def _schema_at(root: str) -> int:
    """The number of the schema that the folder's mark names; 0 where there is no store yet and one can be made."""
    try:
        mark = _mark(read(f"{root}/{MARK}"))
    except FileNotFoundError:
        _check_unmarked(root)
        return 0
    if mark is None:
        raise errors.IntegrityError(f"{root}/{MARK} is damaged", hint="Restore the file from a copy.")
    if mark.get("store") != "jumar":
        raise errors.SchemaMismatch(f"{root} belongs to another program")
    if mark["format"] > FORMAT or mark["schema"] > newest_schema():
        raise errors.SchemaMismatch(
            f"{root} has format {mark['format']} and schema {mark['schema']}; this version of Jumar knows them up to "
            f"{FORMAT} and {newest_schema()}"
        )
    return int(mark["schema"])


def _mark(data: bytes) -> dict[str, Any] | None:
    try:
        mark = msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None
    numbers = all(isinstance(mark.get(each), int) for each in ("format", "schema"))
    return mark if numbers or mark.get("store") != "jumar" else None


def _check_unmarked(root: str) -> None:
    if not os.path.isdir(root):  # noqa: PTH112
        return
    others = sorted(set(os.listdir(root)) - _OURS)  # noqa: PTH208
    if others or (os.path.isdir(f"{root}/{RUNS}") and os.listdir(f"{root}/{RUNS}")):  # noqa: PTH112, PTH208
        there = others[0] if others else f"{RUNS}, but no {MARK}"
        raise errors.SchemaMismatch(
            f"{root} is no store of Jumar's: it holds {there!r}",
            safe="The folder was left as it is.",
            hint="Give Jumar a folder of its own with --store file:DIR.",
        )


def _check_place(root: str) -> None:
    if os.path.exists(root) and not os.path.isdir(root):  # noqa: PTH110, PTH112
        raise errors.StoreUnavailable(f"{root} is a file, not a folder", hint="For a file use sqlite:///PATH.")
    above = os.path.dirname(os.path.abspath(root))  # noqa: PTH100, PTH120
    if not os.path.isdir(above):  # noqa: PTH112
        raise errors.StoreUnavailable(f"the folder {above} does not exist", hint=f"Make the folder {above} first.")
    from pathlib import Path

    kind = network_filesystem(Path(root))
    if kind is not None:
        raise errors.StoreUnavailable(
            f"{root} lies on a network filesystem ({kind}), where its lock and leases cannot be relied on",
            safe="Nothing was opened.",
            hint="Keep the store on a local disk.",
        )
