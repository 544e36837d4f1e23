"""Which paths a write holds, and where links lead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.core.held_paths import held_path, held_paths, led_to, overlap, overlapping
from jumar.core.scopes import covers

NAMES = st.sampled_from([b"a", b"b", b"ab", b"a b", b"a*", b"a[", b"a!"])
PATHS = st.lists(NAMES, max_size=4).map(b"/".join)
GLOBS = st.lists(st.one_of(NAMES, st.sampled_from([b"*", b"?", b"**", b"\\*", b"[ab]", b"."])), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        (b"conf/site.ini", b"conf/site.ini"),
        (b"conf/*.ini", b"conf"),
        (b"*/site.ini", b""),
        (b"conf/**/x", b"conf"),
        (b"conf/\\*", b"conf/*"),
        (b"conf/[ab]/x", b"conf"),
        (b"./conf//x", b"conf/x"),
        (b"", b""),
    ],
)
def test_a_glob_is_held_by_the_folder_of_its_first_wildcard(glob: bytes, path: bytes) -> None:
    assert held_path(glob) == path


def test_a_path_below_another_one_needs_no_hold_of_its_own_and_no_scope_is_the_whole() -> None:
    assert held_paths([b"b/c", b"a/x", b"a", b"b", b"ab"]) == (b"a", b"ab", b"b")
    assert held_paths([b"a", b""]) == (b"",)
    assert held_paths([]) == (b"",)


@given(GLOBS.map(b"/".join), PATHS.filter(bool))
def test_what_a_scope_covers_lies_below_what_it_holds(glob: bytes, path: bytes) -> None:
    if covers((glob,))(path):
        assert overlap(held_path(glob), path)
        assert len(held_path(glob)) <= len(path)


@given(PATHS, PATHS)
def test_two_paths_overlap_where_one_is_the_other_or_above_it(a: bytes, b: bytes) -> None:
    one, other = [part for part in a.split(b"/") if part], [part for part in b.split(b"/") if part]
    shorter = min(len(one), len(other))
    assert overlap(a, b) == overlap(b, a) == (one[:shorter] == other[:shorter])
    assert overlapping([a], [b]) == overlap(a, b)


def test_nothing_overlaps_with_no_paths() -> None:
    assert not overlapping([], [b""])


@pytest.mark.parametrize(
    ("path", "target", "to"),
    [
        (b"conf/x", b"site.ini", b"conf/site.ini"),
        (b"conf/x", b"../a/./b", b"a/b"),
        (b"x", b"../outside", None),
        (b"conf/x", b"../../outside", None),
        (b"conf/x", b"/work/site/a//b", b"a/b"),
        (b"conf/x", b"/work/site/../other", None),
        (b"conf/x", b"/work/sites/a", None),
        (b"conf/x", b"/etc/passwd", None),
        (b"conf/x", b"..", None),
        (b"conf/x", b".", b"conf"),
    ],
)
def test_where_a_link_leads_is_told_from_its_text(path: bytes, target: bytes, to: bytes | None) -> None:
    assert led_to(b"/work/site", path, target) == to
