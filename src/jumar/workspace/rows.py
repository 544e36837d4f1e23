"""What a scan remembers of a folder, what it knew of it, and what it finds in it.

A row of the stat cache is packed bytes, so that tens of thousands of files are read and compared without an object for
each; only a folder in which something changed is opened up to its single names (`Known`).
"""

from __future__ import annotations

import stat
from functools import cached_property

import msgspec
from msgspec import Struct

from jumar.core import portable, trees
from jumar.core.trees import Entry, EntryKind, SkipReason
from jumar.workspace.reading import Stat


class Row(Struct, frozen=True, array_like=True, gc=False):
    """What is remembered of one folder.  `files`, `links` and `size` count what lies in it directly."""

    stamp: Stat | None  # the folder's own, from before it was listed; None where it proves nothing about its names
    rules: bytes  # the key of the rules that decided
    names: bytes  # in the order the system lists them, with '/' between
    stats: bytes  # their stats in that order, packed
    digest: bytes
    folders: tuple[tuple[bytes, bytes, int], ...]  # the captured ones: name, digest, place among the names
    racy: tuple[bytes, ...]
    skipped: tuple[tuple[bytes, SkipReason], ...]
    unportable: tuple[bytes, ...]
    text: bytes | None  # of its ignore file
    files: int
    links: int
    size: int


class Listed(Struct, gc=False):
    """A folder as it was listed: names, their stats in the same order, names that can't be looked at, and its stamp."""

    names: list[bytes]
    stats: list[Stat]
    unseen: list[bytes]
    stamp: Stat | None


_encoder = msgspec.msgpack.Encoder()
encode = _encoder.encode
_decode_row = msgspec.msgpack.Decoder(Row).decode
_decode_stats = msgspec.msgpack.Decoder(list[Stat]).decode


def unpacked(data: bytes) -> Row | None:
    """A row of the stat cache; None where another version wrote it, so that its folder counts as not known."""
    try:
        return _decode_row(data)
    except msgspec.MsgspecError:
        return None


def split(names: bytes) -> list[bytes]:
    """The names of a folder that stand with '/' between them."""
    return names.split(b"/") if names else []


class Known:
    """What is remembered of a folder, opened up to look at its names one by one."""

    def __init__(self, row: Row, node: trees.Node) -> None:
        self.stats = dict(zip(split(row.names), _decode_stats(row.stats), strict=True))
        self.entries = {entry.name: entry for entry in node}
        self.racy = frozenset(row.racy)
        self.rules = row.rules
        self.skipped = {name for name, _ in row.skipped}

    def entry(self, name: bytes, seen: Stat) -> Entry | None:
        """The entry of a file that has surely not changed."""
        return self.entries.get(name) if self.stats.get(name) == seen and name not in self.racy else None

    def ignored(self, name: bytes, seen: Stat, key: bytes) -> bool | None:
        """Whether these rules ignored it the last time; None where that is not known."""
        old = self.stats.get(name)
        if key != self.rules or old is None or stat.S_IFMT(old[0]) != stat.S_IFMT(seen[0]) or name in self.racy:
            return None
        return name not in self.entries and name not in self.skipped


class Found:
    """What was found in one folder."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.racy: list[bytes] = []
        self.skipped: list[tuple[bytes, SkipReason]] = []

    @cached_property
    def unportable(self) -> list[bytes]:
        """The names that Windows can't hold."""
        return portable.unportable(sorted(entry.name for entry in self.entries))

    def row(self, key: bytes, listed: Listed, digest: bytes, text: bytes | None) -> Row:
        """What is to be remembered of it."""
        places = {name: number for number, name in enumerate(listed.names)}
        files = [entry.size for entry in self.entries if entry.kind is EntryKind.FILE]
        return Row(
            rules=key,
            stamp=listed.stamp,
            names=b"/".join(listed.names),
            stats=encode(listed.stats),
            digest=digest,
            folders=tuple(
                (entry.name, entry.digest or b"", places[entry.name])
                for entry in self.entries
                if entry.kind is EntryKind.DIR
            ),
            racy=tuple(self.racy),
            skipped=tuple(self.skipped),
            unportable=tuple(self.unportable),
            text=text,
            files=len(files),
            links=sum(entry.kind is EntryKind.LINK for entry in self.entries),
            size=sum(files),
        )
