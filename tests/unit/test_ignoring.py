"""Ignore rules, scopes, and what a snapshot would have captured."""

from __future__ import annotations

import pytest

from jumar.core.ignoring import Boundary, Frozen, Ignoring
from jumar.core.scopes import Reach
from jumar.core.trees import EMPTY_DIGEST, RuleText, Skipped, SkipReason, Snapshot


def ignores(text: str, path: str) -> bool:
    return Frozen((RuleText(b"", text.encode()),)).ignores(path.rstrip("/").encode(), path.endswith("/"))


@pytest.mark.parametrize(
    ("text", "path", "ignored"),
    [
        ("*.o", "a/b/x.o", True),
        ("*.o\n!keep.o", "keep.o", False),
        ("*.o\n!keep.o", "keep.o/x.o", True),
        ("build/", "build", False),
        ("build/", "src/build/", True),
        ("build/\n!build/x", "build/x", True),
        ("/only", "x/only", False),
        ("a/b", "x/a/b", False),
        ("a/**/b", "a/b", True),
        ("a/**", "a/", False),
        ("a/**", "a/x", True),
        ("**/x", "deep/er/x", True),
        ("a*b", "a/b", False),
        ("[!a-c]x", "dx", True),
        ("[!a-c]x", "ax", False),
        ("[[:digit:]]", "7", True),
        ("[]]", "]", True),
        ("[a", "[a", False),
        ("\\!x", "!x", True),
        ("\\#x", "#x", True),
        ("#x", "#x", False),
        ("x  ", "x", True),
        ("x\\ ", "x ", True),
        ("x\r", "x", True),
        ("x\x0by", "x", False),
        ("trailing\\", "trailing\\", False),
        ("\ufeffx", "x", True),
        ("", "x", False),
        ("/", "x", False),
        ("?", "é", False),  # as git: a byte
        ("*", "é", True),
    ],
)
def test_a_rule_means_what_it_means_to_git(text: str, path: str, ignored: bool) -> None:
    assert ignores(text, path) is ignored


def test_a_rule_speaks_about_its_own_folder_alone() -> None:
    rules = Frozen((RuleText(b"", b"*.log\n"), RuleText(b"sub", b"!a.log\n/x\n")))
    assert rules.ignores(b"a.log", False)
    assert not rules.ignores(b"sub/a.log", False)
    assert rules.ignores(b"sub/x", False)
    assert not rules.ignores(b"sub/sub/x", False)
    assert not rules.ignores(b"sub2/x", False)


def test_given_rules_win_over_those_of_inner_folders() -> None:
    rules = Frozen((RuleText(b"", b"a\n"), RuleText(b"sub", b"!b\n"), RuleText(b"", b"b\n!a\n")))
    assert rules.ignores(b"sub/b", False)
    assert not rules.ignores(b"a", False)


def test_frozen_rules_stack_up_as_those_read_from_the_files() -> None:
    outer, inner, given = RuleText(b"", b"a\n"), RuleText(b"sub", b"b\n"), RuleText(b"", b"c\n")
    read = Ignoring((), (given,)).below((outer,)).below((inner,))
    frozen = Frozen((outer, inner, given))
    assert frozen.at(b"sub/x").key == read.key
    assert frozen.at(b"other").key == Ignoring((outer,), (given,)).key != read.key


@pytest.mark.parametrize(
    ("glob", "path", "named"),
    [
        (b"conf/a.ini", b"conf/a.ini", True),
        (b"conf/a.ini", b"conf/b.ini", False),
        (b"conf", b"conf/deep/er", True),
        (b"conf/*.ini", b"conf/b.ini", True),
        (b"conf/*.ini", b"conf/x/b.ini", False),
        (b"**/*.ini", b"b.ini", True),
        (b"**/*.ini", b"x/y/b.ini", True),
        (b"a/**", b"a/x/y", True),
        (b"a/**/z", b"a/z", True),
        (rb"conf/\*.ini", b"conf/*.ini", True),
        (rb"conf/\*.ini", b"conf/x.ini", False),
        (rb"a\[b\]\?\\", rb"a[b]?" + b"\\", True),
        (b"[ab]x", b"bx", True),
        (b"?.txt", "é.txt".encode(), True),
        (b"", b"anything", True),
        (b".", b"anything", True),
        (b"./a//b", b"a/b", True),
    ],
)
def test_a_scope_covers_what_its_glob_names_and_all_below(glob: bytes, path: bytes, named: bool) -> None:
    snapshot = Snapshot(EMPTY_DIGEST, 0o755, 0, scope=(glob,))
    assert Boundary(snapshot).would_capture(path, False) is named


def test_a_literal_scope_tells_the_only_names_that_lead_on() -> None:
    reach = Reach.of([b"conf/a", b"conf/b", b"x"])
    assert reach.names == {b"conf", b"x"}
    conf = reach.into(b"conf")
    assert conf is not None and conf.names == {b"a", b"b"} and not conf.matched
    assert reach.into(b"other") is None
    assert Reach.of([b"*/a"]).names is None


def test_the_folders_above_a_declared_path_belong_to_it() -> None:
    boundary = Boundary(Snapshot(EMPTY_DIGEST, 0o755, 0, scope=(b"a/b/c",)))
    assert boundary.would_capture(b"a", True) and boundary.would_capture(b"a/b", True)
    assert not boundary.would_capture(b"a", False)
    assert not boundary.would_capture(b"a/x", True)


def test_what_a_glob_names_is_covered_even_if_it_is_ignored() -> None:
    rules = (RuleText(b"", b"build/\n*.tmp\n"),)
    boundary = Boundary(Snapshot(EMPTY_DIGEST, 0o755, 0, scope=(b"build/out", b"src"), rules=rules))
    assert boundary.would_capture(b"build/out", False)
    assert boundary.would_capture(b"build/out/x.tmp", False)
    assert boundary.would_capture(b"src/x.py", False)
    assert not boundary.would_capture(b"src/x.tmp", False)


def test_git_folders_and_what_was_skipped_would_not_have_been_captured() -> None:
    skipped = (Skipped(b"locked", SkipReason.UNREADABLE),)
    boundary = Boundary(Snapshot(EMPTY_DIGEST, 0o755, 0, skipped=skipped))
    for path in (b".git", b"sub/.git/config", b"locked", b"locked/in"):
        assert not boundary.would_capture(path, False)
    assert boundary.would_capture(b"locked2", False)
    assert boundary.would_capture(b".gitignore", False)
    assert boundary.would_capture(b"", True)
