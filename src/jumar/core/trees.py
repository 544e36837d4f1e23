"""Trees of files as Merkle trees, and snapshots of them.

A *node* is one directory: its entries sorted by name, packed into bytes, named by the sha256 of those bytes.  An entry
that is a directory holds the digest of that directory's own node, so equal subtrees have equal digests whatever lies
beside them: they are stored once, and a comparison of two trees never opens a subtree that is the same on both sides.
Names are bytes of one segment each, as the filesystem has them; a whole path is its segments joined with `/`, relative
to the workspace's root, which itself is the empty path.  Nodes are decoded one at a time, where they are looked at.

A *snapshot* is the root's digest together with what one must know to use it: whether everything was captured, what was
left out and why, and the rules by which it was decided.  It is an object of its own, named by the digest of its bytes.

Nothing here reads a disk: `Load` stands for whoever answers the packed bytes of a digest with their entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import TypeAlias

import msgspec
from msgspec import Struct

from jumar import errors

MODE_BITS = 0o7777  # permissions, setuid, setgid and sticky: what of st_mode an entry keeps
_FORMAT = b"\x01"  # the first byte of a packed node or snapshot


class EntryKind(IntEnum):
    """What an entry is.  Nothing else is ever captured: sockets, FIFOs and devices are skipped, with their reason."""

    FILE = 1
    DIR = 2
    LINK = 3


class SkipReason(StrEnum):
    """Why a path is not in a snapshot.  What the ignore rules leave out is not listed: the rules tell it."""

    UNREADABLE = "unreadable"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"
    OTHER_FILESYSTEM = "other-filesystem"
    OWN_FILE = "own-file"  # Jumar's own store, objects or journal inside the workspace
    GIT = "git"  # a `.git`, of the workspace or of a repository inside it: left alone
    BUDGET = "budget"  # the budget of files, bytes or seconds was spent before this path
    VANISHED = "vanished"  # gone, or another kind of thing, each time it was opened after being listed
    LINKED = "linked"  # a declared path leads through a symbolic link, which is never followed
    DEEP = "deep"  # a folder further down than a walk goes


# A path skipped for one of these leaves the snapshot partial; the others can never be captured, or never are.
LACKING = frozenset({SkipReason.UNREADABLE, SkipReason.BUDGET, SkipReason.VANISHED, SkipReason.LINKED, SkipReason.DEEP})


class Entry(Struct, frozen=True, array_like=True, gc=False):
    """One name in a directory.

    `mode` is `st_mode & 0o7777`; a link has none of its own (0).  `size` is a file's content in bytes, 0 for the
    others.  `digest` is the sha256 of a file's content or of a directory's node, None for a link, which has its
    `target` instead, as it is written in the link.
    """

    name: bytes
    kind: EntryKind
    mode: int
    size: int = 0
    digest: bytes | None = None
    target: bytes | None = None


Node: TypeAlias = tuple[Entry, ...]
Load: TypeAlias = Callable[[bytes], Node]  # a directory's digest -> its entries; IntegrityError where it can't be had


class Skipped(Struct, frozen=True):
    """A path that was met and not captured; a directory stands for all below it."""

    path: bytes
    reason: SkipReason


class RuleText(Struct, frozen=True):
    """The text of one ignore file as it was read, and the folder (its path, b"" for the root) it speaks about."""

    folder: bytes
    text: bytes


class Snapshot(Struct, frozen=True, omit_defaults=True):
    """A workspace, or the declared paths of it, at one time.

    `root` is the digest of the root's node and `mode` the root's own permissions.  `scope` is empty where the whole
    root was captured; else it names the declared paths as globs (see `jumar.core.scopes`), and what it names and the
    tree lacks was not there.  `complete` is False where something that belongs to the scope could not be captured, or
    is torn; `skipped` says what and why.  `torn` are files that changed each time they were read: the tree has one
    reading of them, which may never have been a state of the file.  `rules` are the ignore rules that decided, in
    order.  `unportable` are captured paths that Windows can't hold.  `at` is wall-clock milliseconds since 1970 at the
    start.  `files`, `dirs` and `links` count what the tree holds, `size` is the files' bytes.
    """

    root: bytes
    mode: int
    at: int
    complete: bool = True
    scope: tuple[bytes, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    torn: tuple[bytes, ...] = ()
    rules: tuple[RuleText, ...] = ()
    unportable: tuple[bytes, ...] = ()
    files: int = 0
    dirs: int = 0
    links: int = 0
    size: int = 0


class Change(Struct, frozen=True):
    """One path that two trees have differently; `before` or `after` is None where that tree lacks it."""

    path: bytes
    before: Entry | None
    after: Entry | None


_encoder = msgspec.msgpack.Encoder()
_decode_node = msgspec.msgpack.Decoder(tuple[Entry, ...]).decode
_decode_snapshot = msgspec.msgpack.Decoder(Snapshot).decode
_by_name = attrgetter("name")


def digest_of(data: bytes) -> bytes:
    """What an object of these bytes is called."""
    return hashlib.sha256(data).digest()


def pack_node(entries: Iterable[Entry]) -> bytes:
    """A directory's entries as its node's bytes, which do not depend on the order they are given in."""
    return _FORMAT + _encoder.encode(sorted(entries, key=_by_name))


def unpack_node(data: bytes) -> Node:
    """The entries of a packed node, sorted by name.  IntegrityError where the bytes are no node."""
    try:
        return _decode_node(_body(data, "node"))
    except msgspec.MsgspecError as error:
        raise errors.IntegrityError(f"a stored tree node cannot be read ({error})") from error


def pack_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as bytes; the same snapshot gives the same bytes."""
    return _FORMAT + _encoder.encode(snapshot)


def snapshot_digest(snapshot: Snapshot) -> bytes:
    """What a snapshot is called."""
    return digest_of(pack_snapshot(snapshot))


def unpack_snapshot(data: bytes) -> Snapshot:
    """The snapshot of these bytes.  IntegrityError where they are none."""
    try:
        return _decode_snapshot(_body(data, "snapshot"))
    except msgspec.MsgspecError as error:
        raise errors.IntegrityError(f"a stored snapshot cannot be read ({error})") from error


def _body(data: bytes, what: str) -> memoryview:
    if data[:1] != _FORMAT:
        raise errors.IntegrityError(f"a stored {what} has a format that this version does not know")
    return memoryview(data)[1:]


EMPTY = pack_node(())
EMPTY_DIGEST = digest_of(EMPTY)  # the node of a directory that holds nothing


def join(folder: bytes, name: bytes) -> bytes:
    """The path of `name` in `folder`; the root is b""."""
    return folder + b"/" + name if folder else name


def find(load: Load, root: bytes, path: bytes) -> Entry | None:
    """The entry at `path` under the node `root`; None where there is none.  The root itself has no entry."""
    found: Entry | None = None
    node: bytes | None = root
    for name in path.split(b"/"):
        if node is None:
            return None
        found = next((entry for entry in load(node) if entry.name == name), None)
        if found is None:
            return None
        node = found.digest if found.kind is EntryKind.DIR else None
    return found


def walk(load: Load, root: bytes, folder: bytes = b"") -> Iterator[tuple[bytes, Entry]]:
    """Every path below the node `root` with its entry, a directory before what it holds, siblings by name."""
    for entry in load(root):
        path = join(folder, entry.name)
        yield path, entry
        if entry.kind is EntryKind.DIR and entry.digest is not None:
            yield from walk(load, entry.digest, path)


def diff(load: Load, a: bytes | None, b: bytes | None, folder: bytes = b"") -> Iterator[Change]:
    """What differs between the nodes `a` and `b` (None: no tree), a directory before what it holds, siblings by name.

    Equal subtrees are not opened.  A directory is itself a change where it appears, goes, or has another mode; that
    something below it changed is told by the changes below it.  Where a directory gives way to a file, or the other
    way round, that path is one change, with both sides, and all that was or is below it follows.
    """
    if a == b:
        return
    before = {entry.name: entry for entry in load(a)} if a is not None else {}
    after = {entry.name: entry for entry in load(b)} if b is not None else {}
    for name in sorted(before.keys() | after.keys()):
        yield from _differing(load, join(folder, name), before.get(name), after.get(name))


def _differing(load: Load, path: bytes, before: Entry | None, after: Entry | None) -> Iterator[Change]:
    if before == after:
        return
    old, new = _subtree(before), _subtree(after)
    if old is None or new is None or before is None or after is None or before.mode != after.mode:
        yield Change(path, before, after)
    yield from diff(load, old, new, path)


def _subtree(entry: Entry | None) -> bytes | None:
    return entry.digest if entry is not None and entry.kind is EntryKind.DIR else None
