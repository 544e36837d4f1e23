"""What became of each path between two snapshots, in a word, and of small texts line by line."""

from __future__ import annotations

import pytest

from jumar.core.comparing import (
    MOST_TEXT_BYTES,
    MOST_TEXT_LINES,
    FileState,
    changes,
    may_be_text,
    told,
    unified,
)
from jumar.core.trees import Change, Entry, EntryKind, Snapshot, digest_of, pack_node, unpack_node


def _file(data: bytes, mode: int = 0o644, name: bytes = b"f") -> Entry:
    return Entry(name, EntryKind.FILE, mode, len(data), digest_of(data))


def _link(target: bytes) -> Entry:
    return Entry(b"f", EntryKind.LINK, 0, target=target)


def _folder(mode: int = 0o755, digest: bytes = b"node") -> Entry:
    return Entry(b"f", EntryKind.DIR, mode, digest=digest)


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("added", None, _file(b"a")),
        ("deleted", _link(b"x"), None),
        ("changed", _file(b"a"), _file(b"b")),
        ("changed", _file(b"a", 0o644), _file(b"b", 0o600)),
        ("changed", _link(b"x"), _link(b"y")),
        ("mode", _file(b"a", 0o644), _file(b"a", 0o600)),
        ("mode", _folder(0o755, b"one"), _folder(0o700, b"two")),
        ("replaced", _file(b"a"), _link(b"a")),
        ("replaced", _folder(), _file(b"a")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_became_of_a_path_is_one_word(what: str, before: Entry | None, after: Entry | None) -> None:
    assert told(Change(b"conf/f", before, after)).what == what


def test_both_sides_are_told_as_people_read_them() -> None:
    change = told(Change(b"caf\xe9", _link(b"../\xff"), _file(b"abc", 0o600)), "the text")
    assert change.path == "caf\\xe9"
    assert change.before == FileState("link", 0, target="../\\xff")
    assert change.after == FileState("file", 0o600, 3, digest_of(b"abc").hex())
    assert change.text == "the text"
    folder = told(Change(b"f", None, _folder())).after
    assert folder == FileState("folder", 0o755), "whose digest is of its node, which is nothing to people"


def test_only_the_paths_that_are_asked_for_are_compared() -> None:
    nodes: dict[bytes, bytes] = {}

    def keep(*entries: Entry) -> bytes:
        packed = pack_node(entries)
        nodes[digest_of(packed)] = packed
        return digest_of(packed)

    def root(text: bytes) -> Snapshot:
        conf = keep(_file(text, name=b"a.ini"), _file(text, name=b"b.txt"))
        return Snapshot(keep(Entry(b"conf", EntryKind.DIR, 0o755, digest=conf), _file(text, name=b"top")), 0o755, 1)

    def found(*paths: bytes) -> list[bytes]:
        return [change.path for change in changes(lambda name: unpack_node(nodes[name]), old, new, paths)]

    old, new = root(b"one"), root(b"two")
    assert found() == [b"conf/a.ini", b"conf/b.txt", b"top"]
    assert found(b"conf") == [b"conf/a.ini", b"conf/b.txt"]
    assert found(b"**/*.ini", b"top") == [b"conf/a.ini", b"top"]
    assert found(b"elsewhere") == []


def test_texts_are_compared_line_by_line_and_a_missing_last_newline_is_told() -> None:
    assert unified(b"conf/a", b"one\ntwo\n", b"one\n2\n") == (
        "--- a/conf/a\n+++ b/conf/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    )
    assert unified(b"a", b"one\n", b"one") == (
        "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+one\n\\ No newline at end of file\n"
    )
    added = unified(b"a", None, b"one\x0cand\xe2\x80\xa8more\r\n")
    assert added == "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+one\x0cand\u2028more\r\n", "only a newline ends a line"
    assert unified(b"a", b"one\n", None) == "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"


@pytest.mark.parametrize("data", [b"a\0b", b"caf\xe9", b"x\n" * (MOST_TEXT_LINES + 1)], ids=["nul", "latin", "long"])
def test_what_is_no_short_text_is_not_compared_line_by_line(data: bytes) -> None:
    assert unified(b"a", b"one\n", data) is None
    assert unified(b"a", data, None) is None


def test_only_short_files_whose_content_differs_are_worth_reading() -> None:
    one, two, long = _file(b"one"), _file(b"two"), _file(b"x" * (MOST_TEXT_BYTES + 1))
    assert may_be_text(Change(b"f", one, two))
    assert may_be_text(Change(b"f", None, one))
    assert may_be_text(Change(b"f", one, None))
    assert not may_be_text(Change(b"f", one, _file(b"one", 0o600)))
    assert not may_be_text(Change(b"f", one, long))
    assert not may_be_text(Change(b"f", one, _link(b"one")))
    assert not may_be_text(Change(b"f", None, _folder()))
