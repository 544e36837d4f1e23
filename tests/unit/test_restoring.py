"""The three-way comparison: what is put back, what is deleted, what is a conflict, and what is nobody's business."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jumar.core.restoring import Coverage, Step, Verdict, compare, settle
from jumar.core.trees import (
    Entry,
    EntryKind,
    Node,
    Skipped,
    SkipReason,
    Snapshot,
    digest_of,
    pack_node,
    unpack_node,
)

Tree = Mapping[str, Any]  # name -> content of a file, a Tree, or an Entry's other fields as a dict

nodes: dict[bytes, bytes] = {}


def entry(name: str, value: Any) -> Entry:
    named = name.encode()
    if isinstance(value, str):
        return Entry(named, EntryKind.FILE, 0o644, len(value), digest_of(value.encode()))
    if isinstance(value, dict):
        return Entry(named, EntryKind.DIR, 0o755, digest=root(value))
    kind, mode, what = value
    if kind is EntryKind.DIR:
        return Entry(named, kind, mode, digest=root(what))
    if kind is EntryKind.LINK:
        return Entry(named, kind, 0, target=what.encode())
    return Entry(named, kind, mode, len(what), digest_of(what.encode()))


def root(tree: Tree) -> bytes:
    packed = pack_node(entry(name, value) for name, value in tree.items())
    nodes[digest_of(packed)] = packed
    return digest_of(packed)


def load(digest: bytes) -> Node:
    return unpack_node(nodes[digest])


def snapshot(tree: Tree, **rest: Any) -> Snapshot:
    return Snapshot(root=root(tree), mode=0o755, at=0, **rest)


def link(target: str) -> tuple[EntryKind, int, str]:
    return EntryKind.LINK, 0, target


def everything(path: bytes, is_dir: bool) -> bool:
    return True


def nothing(path: bytes, is_dir: bool) -> bool:
    return False


def steps(
    target: Tree | Snapshot,
    known: Tree | None,
    current: Tree | Snapshot,
    *,
    wants: Callable[[bytes, bool], bool] = everything,
    ignored: Callable[[bytes, bool], bool] = nothing,
    force: bool = False,
) -> dict[str, Verdict]:
    return {step.path.decode(): step.verdict for step in settled(target, known, current, wants, ignored, force)}


def settled(
    target: Tree | Snapshot,
    known: Tree | None,
    current: Tree | Snapshot,
    wants: Callable[[bytes, bool], bool] = everything,
    ignored: Callable[[bytes, bool], bool] = nothing,
    force: bool = False,
    scope: tuple[bytes, ...] = (),
) -> tuple[Step, ...]:
    b = target if isinstance(target, Snapshot) else snapshot(target)
    c = current if isinstance(current, Snapshot) else snapshot(current)
    named = (lambda path: path in scope) if scope else (lambda path: True)
    a = None if known is None else snapshot(known)
    return settle(compare(load, b, a, c, Coverage(wants, ignored, named)), c, force=force)


def skipped(path: str, reason: SkipReason) -> tuple[Skipped, ...]:
    return (Skipped(path.encode(), reason),)


def test_files_that_are_as_in_the_target_need_nothing() -> None:
    assert steps({"a": "1", "d": {"b": "2"}}, {"a": "9"}, {"a": "1", "d": {"b": "2"}}) == {}


def test_what_only_the_run_changed_is_put_back() -> None:
    before, after = {"a": "1", "d": {"b": "2"}}, {"a": "one", "new": "3", "d": {"b": "2", "c": "4"}}
    assert steps(before, after, after) == {"a": Verdict.WRITE, "new": Verdict.DELETE, "d/c": Verdict.DELETE}


def test_what_somebody_changed_since_is_a_conflict_and_force_puts_it_back() -> None:
    target, known = {"a": "1", "b": "1", "c": "1"}, {"a": "2", "b": "2", "c": "2"}
    current = {"a": "3", "b": "2", "new": "x"}
    conflicts = {"a": Verdict.CONFLICT, "b": Verdict.WRITE, "c": Verdict.CONFLICT, "new": Verdict.CONFLICT}
    assert steps(target, known, current) == conflicts
    forced = {"a": Verdict.WRITE, "b": Verdict.WRITE, "c": Verdict.WRITE, "new": Verdict.DELETE}
    assert steps(target, known, current, force=True) == forced


def test_without_a_last_known_snapshot_every_difference_is_a_conflict_but_what_is_missing() -> None:
    assert steps({"a": "1", "b": "2"}, None, {"a": "x", "c": "3"}) == {
        "a": Verdict.CONFLICT,
        "b": Verdict.WRITE,
        "c": Verdict.CONFLICT,
    }


def test_a_mode_or_a_link_target_is_a_difference() -> None:
    target = {"f": (EntryKind.FILE, 0o600, "1"), "l": link("x"), "d": (EntryKind.DIR, 0o750, {})}
    known = {"f": (EntryKind.FILE, 0o644, "1"), "l": link("y"), "d": (EntryKind.DIR, 0o755, {})}
    assert steps(target, known, known) == {"d": Verdict.WRITE, "f": Verdict.WRITE, "l": Verdict.WRITE}
    current = {"f": (EntryKind.FILE, 0o640, "1"), "l": "y", "d": (EntryKind.DIR, 0o700, {})}
    assert set(steps(target, known, current).values()) == {Verdict.CONFLICT}


def test_a_path_that_the_target_would_not_have_captured_is_not_deleted() -> None:
    def tracked(path: bytes, is_dir: bool) -> bool:
        return not path.endswith(b".log")

    assert steps({}, {"a": "1", "x.log": "2"}, {"a": "1", "x.log": "2"}, wants=tracked) == {"a": Verdict.DELETE}


def test_what_the_target_failed_to_capture_is_left_alone_with_all_below_it() -> None:
    target = snapshot({"d": {}}, skipped=(*skipped("a", SkipReason.UNREADABLE), *skipped("d", SkipReason.BUDGET)))
    now = {"a": "1", "d": {"b": "2", "e": {"c": "3"}}}
    assert steps(target, now, now, force=True) == {
        "a": Verdict.UNCAPTURED,
        "d/b": Verdict.UNCAPTURED,
        "d/e": Verdict.UNCAPTURED,
    }


def test_a_torn_file_of_the_target_is_left_alone() -> None:
    assert steps(snapshot({"a": "torn"}, torn=(b"a",)), {"a": "1"}, {"a": "1"}) == {"a": Verdict.UNCAPTURED}


def test_what_has_been_ignored_since_is_left_alone_even_by_force() -> None:
    def ignored(path: bytes, is_dir: bool) -> bool:
        return path == b"build" or path.startswith(b"build/")

    now = {"build": {"x.o": "1"}, ".gitignore": "build"}
    known = {".gitignore": "build"}
    found = {".gitignore": Verdict.DELETE, "build": Verdict.UNCAPTURED}
    assert steps({}, known, now, ignored=ignored) == found
    assert steps({}, known, now, ignored=ignored, force=True) == found


def test_what_cannot_be_captured_now_blocks_and_cannot_be_forced() -> None:
    now = snapshot({"d": {}}, skipped=(*skipped("a", SkipReason.FIFO), *skipped("d", SkipReason.UNREADABLE)))
    target = {"a": "1", "d": {"x": "2"}}
    assert steps(target, target, now) == {"a": Verdict.BLOCKED, "d/x": Verdict.BLOCKED}
    assert steps(target, target, now, force=True) == {"a": Verdict.BLOCKED, "d/x": Verdict.BLOCKED}


def test_a_folder_that_holds_what_stays_stays_too() -> None:
    now = {"d": {"e": {"mine": "1", "theirs": "2"}}}
    known = {"d": {"e": {"mine": "1"}}}
    assert steps({}, known, now) == {
        "d": Verdict.UNCAPTURED,
        "d/e": Verdict.UNCAPTURED,
        "d/e/mine": Verdict.DELETE,
        "d/e/theirs": Verdict.CONFLICT,
    }
    assert set(steps({}, known, now, force=True).values()) == {Verdict.DELETE}


def test_a_folder_with_a_repository_in_it_stays() -> None:
    now = snapshot({"d": {"f": "1"}}, skipped=skipped("d/.git", SkipReason.GIT))
    found = settled({}, {"d": {"f": "1"}}, now)
    assert [(step.path, step.verdict) for step in found] == [(b"d", Verdict.UNCAPTURED), (b"d/f", Verdict.DELETE)]
    assert found[0].reason == "it holds files that stay"


def test_a_file_cannot_take_the_place_of_a_folder_that_holds_what_stays() -> None:
    known = {"p": {"mine": "1"}}
    now = {"p": {"mine": "1", "theirs": "2"}}
    assert set(steps({"p": "file"}, known, now).values()) == {Verdict.CONFLICT}
    forced = {"p": Verdict.WRITE, "p/mine": Verdict.DELETE, "p/theirs": Verdict.DELETE}
    assert steps({"p": "file"}, known, now, force=True) == forced
    stays = snapshot(now, skipped=skipped("p/pipe", SkipReason.FIFO))
    assert steps({"p": "file"}, known, stays, force=True) == {
        "p": Verdict.BLOCKED,
        "p/mine": Verdict.BLOCKED,
        "p/theirs": Verdict.BLOCKED,
    }


def test_nothing_is_put_into_a_folder_that_cannot_be_made() -> None:
    target, known, now = {"p": {"x": "1", "y": {"z": "2"}}}, {"p": "old"}, {"p": "new"}
    assert set(steps(target, known, now).values()) == {Verdict.CONFLICT}
    assert steps(target, known, now, force=True) == dict.fromkeys(["p", "p/x", "p/y", "p/y/z"], Verdict.WRITE)


def test_a_folder_removed_by_somebody_is_a_conflict_with_all_that_was_in_it() -> None:
    target, known = {"d": {"x": "1"}}, {"d": {"x": "2"}}
    assert steps(target, known, {}) == {"d": Verdict.CONFLICT, "d/x": Verdict.CONFLICT}


def test_the_mode_of_the_root_is_put_back_too() -> None:
    target, now = snapshot({}), Snapshot(root=root({}), mode=0o700, at=0)
    found = settle(compare(load, target, now, now, Coverage(everything, nothing, lambda path: True)), now, force=False)
    assert [(step.path, step.verdict) for step in found] == [(b"", Verdict.WRITE)]


def test_equal_subtrees_are_not_opened() -> None:
    deep = {"same": {"a": {"b": "1"}}, "f": "1"}
    opened: list[bytes] = []

    def watching(digest: bytes) -> Node:
        opened.append(digest)
        return load(digest)

    b, c = snapshot(deep), snapshot({**deep, "f": "2"})
    assert [step.path for step in compare(watching, b, c, c, Coverage(everything, nothing, lambda path: True))] == [
        b"f"
    ]
    assert set(opened) == {b.root, c.root}


def test_a_folder_on_the_way_to_what_is_named_keeps_its_mode_and_goes_with_what_it_holds() -> None:
    target = {"conf": (EntryKind.DIR, 0o700, {"a": "1"})}
    known = {"conf": (EntryKind.DIR, 0o755, {"a": "2"}), "made": {"b": "2"}}
    found = settled(target, known, known, scope=(b"conf/a", b"made/b"))
    assert {step.path.decode(): step.verdict for step in found} == {
        "conf/a": Verdict.WRITE,
        "made": Verdict.DELETE,
        "made/b": Verdict.DELETE,
    }
