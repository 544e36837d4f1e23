"""Nodes, snapshots and the difference of two trees."""

from __future__ import annotations

import pytest

from jumar import errors
from jumar.core import trees
from jumar.core.trees import Change, Entry, EntryKind, RuleText, Skipped, SkipReason, Snapshot

Shape = dict[bytes, "Shape | bytes"]


class Nodes:
    """Nodes by digest, which remember those that were opened."""

    def __init__(self) -> None:
        self.packed: dict[bytes, bytes] = {}
        self.opened: list[bytes] = []

    def load(self, digest: bytes) -> trees.Node:
        self.opened.append(digest)
        return trees.unpack_node(self.packed[digest])

    def add(self, shape: Shape) -> bytes:
        packed = trees.pack_node([self._entry(name, what) for name, what in shape.items()])
        digest = trees.digest_of(packed)
        self.packed[digest] = packed
        return digest

    def _entry(self, name: bytes, what: Shape | bytes) -> Entry:
        if isinstance(what, dict):
            return Entry(name, EntryKind.DIR, 0o755, 0, self.add(what))
        return Entry(name, EntryKind.FILE, 0o644, len(what), trees.digest_of(what))


def test_a_node_does_not_depend_on_the_order_its_entries_come_in() -> None:
    entries = [
        Entry(b"b", EntryKind.FILE, 0o600, 3, bytes(32)),
        Entry(b"a", EntryKind.LINK, 0, target=b"../x"),
        Entry(b"\xff\xfe", EntryKind.DIR, 0o2750, 0, trees.EMPTY_DIGEST),
    ]
    packed = trees.pack_node(entries)
    assert packed == trees.pack_node(reversed(entries))
    assert trees.unpack_node(packed) == (entries[1], entries[0], entries[2])


def test_a_node_has_the_same_digest_in_every_version() -> None:
    packed = trees.pack_node([Entry(b"a", EntryKind.FILE, 0o644, 5, trees.digest_of(b"hello"))])
    assert trees.digest_of(packed).hex() == "7b647238cf5911b61df6023984e333649ef40a3d9018ee54e1aec1c4b1961c71"
    assert trees.EMPTY_DIGEST.hex() == "f14d90dc2815f1fc7536fc66ca8f73562feeedd1b075627a4b656f5fa8eb26ff"


def test_a_snapshot_comes_back_as_it_was_packed() -> None:
    snapshot = Snapshot(
        root=trees.EMPTY_DIGEST,
        mode=0o755,
        at=1_700_000_000_000,
        complete=False,
        scope=(b"conf/a.ini",),
        skipped=(Skipped(b"pipe", SkipReason.FIFO),),
        torn=(b"log",),
        rules=(RuleText(b"", b"*.o\n"),),
        unportable=(b"aux",),
        files=1,
    )
    assert trees.unpack_snapshot(trees.pack_snapshot(snapshot)) == snapshot


@pytest.mark.parametrize("data", [b"", b"\x02\x90", b"\x01", b"\x01\x91\x01", b"\x01\x90\x00"])
def test_bytes_that_are_no_node_are_refused(data: bytes) -> None:
    with pytest.raises(errors.IntegrityError):
        trees.unpack_node(data)


def test_a_difference_never_opens_equal_subtrees() -> None:
    nodes = Nodes()
    same: Shape = {b"deep": {b"file": b"1"}}
    a = nodes.add({b"same": same, b"src": {b"main": b"old"}})
    b = nodes.add({b"same": same, b"src": {b"main": b"new"}})
    changes = list(trees.diff(nodes.load, a, b))
    assert [change.path for change in changes] == [b"src/main"]
    assert nodes.add(same) not in nodes.opened
    assert len(nodes.opened) == 4


def test_a_directory_that_becomes_a_file_is_one_change_and_what_it_held_follows() -> None:
    nodes = Nodes()
    a = nodes.add({b"x": {b"in": b"1"}})
    b = nodes.add({b"x": b"2"})
    there = {change.path: change for change in trees.diff(nodes.load, a, b)}
    assert list(there) == [b"x", b"x/in"]
    assert there[b"x"].before is not None and there[b"x"].before.kind is EntryKind.DIR
    assert there[b"x"].after is not None and there[b"x"].after.kind is EntryKind.FILE
    assert there[b"x/in"].after is None
    back = list(trees.diff(nodes.load, b, a))
    assert back == [Change(change.path, change.after, change.before) for change in there.values()]


def test_a_directory_of_another_mode_is_a_change_and_one_with_other_content_is_not() -> None:
    nodes = Nodes()
    inner = nodes.add({b"f": b"1"})
    other = nodes.add({b"f": b"2"})

    def root(mode: int, digest: bytes) -> bytes:
        packed = trees.pack_node([Entry(b"d", EntryKind.DIR, mode, 0, digest)])
        nodes.packed[trees.digest_of(packed)] = packed
        return trees.digest_of(packed)

    assert [c.path for c in trees.diff(nodes.load, root(0o755, inner), root(0o750, inner))] == [b"d"]
    assert [c.path for c in trees.diff(nodes.load, root(0o755, inner), root(0o755, other))] == [b"d/f"]


def test_an_empty_directory_counts() -> None:
    nodes = Nodes()
    nodes.packed[trees.EMPTY_DIGEST] = trees.EMPTY
    (change,) = trees.diff(nodes.load, nodes.add({}), nodes.add({b"empty": {}}))
    assert change.path == b"empty" and change.before is None


def test_walking_names_every_path_and_finding_gives_its_entry() -> None:
    nodes = Nodes()
    root = nodes.add({b"a": {b"b": {b"c": b"1"}}, b"z": b"2"})
    walked = dict(trees.walk(nodes.load, root))
    assert list(walked) == [b"a", b"a/b", b"a/b/c", b"z"]
    assert all(trees.find(nodes.load, root, path) == entry for path, entry in walked.items())
    assert trees.find(nodes.load, root, b"a/none") is None
    assert trees.find(nodes.load, root, b"z/below") is None
