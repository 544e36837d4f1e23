"""The parts a timeline is made of, on their own: the tree of steps, the bars, and how times are told."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from jumar.cli.bars import Scale
from jumar.cli.screen import ASCII, UNICODE, Screen
from jumar.cli.times import ago, clock, lasted, moment, when
from jumar.cli.tree import CallRow, MarkRow, Row, StepRow, rows_of
from jumar.harness.results import CallView, TraceLine

NOON = 1_795_953_600_000  # 2026-11-29 12:00:00 UTC
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000


def _call(call_id: str, started_at: int, ended_at: int | None = None, **more: Any) -> CallView:
    step, _, _ = call_id.rpartition(".")
    step, _, tool = step.rpartition(".")
    fields = {"seq": 0, "kind": "tool", "effect": "read", "state": "SUCCEEDED", "attempt": 1, "epoch": 1} | more
    return CallView(
        call_id=call_id, step=step, tool=tool, started_at=started_at, ended_at=ended_at or started_at + 1, **fields
    )


def _told(rows: list[Row]) -> list[str]:
    told = []
    for row in rows:
        if isinstance(row, MarkRow):
            told.append(f"-- epoch {row.epoch}")
        else:
            told.append("  " * row.depth + row.name + (":" if isinstance(row, StepRow) else ""))
    return told


def _takeover(at: int, epoch: int) -> TraceLine:
    return TraceLine(at, "taken-over", None, epoch)


def test_calls_stand_under_their_steps_and_parallel_branches_are_kept_together() -> None:
    ids = [
        "plan.1",
        "scan.gather:0.read.1",
        "scan.gather:1.read.1",
        "scan.gather:0.read.2",
        "scan.deep.map:0.fetch.1",
        "scan.deep.map:1.fetch.1",
        "scan#2.read.1",
        "plan.2",
        "scan#2.map:0.inner.read.1@1",
    ]
    assert _told(rows_of([_call(name, 10 + at) for at, name in enumerate(ids)], [])) == [
        "plan.1",
        "scan:",
        "  gather:0:",
        "    read.1",
        "    read.2",
        "  gather:1.read.1",
        "  deep:",
        "    map:0.fetch.1",
        "    map:1.fetch.1",
        "scan#2:",
        "  read.1",
        "  map:0.inner:",
        "    read.1@1",
        "plan.2",
    ]


def test_a_takeover_stands_before_the_step_whose_call_was_the_first_after_it() -> None:
    calls = [_call("a.1", 10), _call("scan.b.1", 20), _call("fix.c.1", 40), _call("fix.d.1", 60)]
    assert _told(rows_of(calls, [_takeover(70, 4), _takeover(30, 2), _takeover(50, 3)])) == [
        "a.1",
        "scan:",
        "  b.1",
        "-- epoch 2",
        "fix:",
        "  c.1",
        "-- epoch 3",
        "  d.1",
        "-- epoch 4",
    ]
    assert _told(rows_of([], [_takeover(5, 2)])) == ["-- epoch 2"]


def test_a_step_spans_its_calls_and_is_open_while_one_of_them_is() -> None:
    calls = [_call("scan.a.1", 10, 15), _call("scan.in.b.1", 20, 90)]
    rows = rows_of(calls, [])
    assert [(row.started_at, row.ended_at) for row in rows if isinstance(row, StepRow)] == [(10, 90), (20, 90)]
    open_call = CallView(2, "scan.c.1", "tool", "c", "scan", "external", "STARTED", 1, 1, 95, None)
    (step, *_) = rows_of([*calls, open_call], [])
    assert isinstance(step, StepRow)
    assert (step.started_at, step.ended_at) == (10, None)


_names = st.lists(st.sampled_from(["a", "b#2", "map:0", "map:1", "gather:7"]), max_size=4).map(".".join)


@given(st.lists(st.tuples(_names, st.integers(1, 1000)), max_size=20), st.lists(st.integers(1, 1000), max_size=4))
def test_no_call_and_no_takeover_is_lost_or_shown_twice(calls: list[tuple[str, int]], takeovers: list[int]) -> None:
    made = [_call(f"{step}.t.{at}" if step else f"t.{at}", started, seq=at) for at, (step, started) in enumerate(calls)]
    rows = rows_of(made, [_takeover(at, epoch) for epoch, at in enumerate(takeovers)])
    assert sorted(row.call.seq for row in rows if isinstance(row, CallRow)) == list(range(len(made)))
    assert [row.at for row in rows if isinstance(row, MarkRow)] == sorted(takeovers)
    path: list[str] = []
    for row in rows:
        if isinstance(row, MarkRow):
            continue
        del path[row.depth :]
        path.append(row.name)
        if isinstance(row, CallRow):
            assert ".".join(path) == row.call.call_id, "the rows above a call spell its id"


def test_a_bar_begins_where_the_call_began_and_is_as_long_as_it_took() -> None:
    scale = Scale(0, 100, 10, [], UNICODE)
    assert scale.bar(1, 100, "").plain == "━" * 10
    assert scale.bar(50, 100, "").plain == "     ━━━━━"
    assert scale.bar(25, 50, "").plain == "  ╺━━     "
    assert scale.bar(25, 26, "").plain == "  ╺       "
    assert scale.bar(100, 100, "").plain == "         ╺"
    assert scale.bar(70, None, "").plain == "       ╍╍╍"
    assert scale.bar(0, None, "").plain == " " * 10
    assert Scale(0, 100, 10, [35], UNICODE).bar(50, 60, "").plain == "   ┊ ━    "


@given(
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.integers(0, 20_000),
    st.none() | st.integers(0, 20_000),
    st.integers(8, 40),
    st.lists(st.integers(-5, 20_000), max_size=3),
    st.sampled_from([UNICODE, ASCII]),
)
def test_a_bar_is_always_as_wide_as_its_column(
    start: int, length: int, began: int, ended: int | None, width: int, marks: list[int], signs: Any
) -> None:
    scale = Scale(start, start + length, width, marks, signs)
    assert cell_len(scale.bar(began, ended, "red").plain) == width
    assert cell_len(scale.axis(lasted(length)).plain) == width


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 ms"),
        (99, "99 ms"),
        (100, "0.10 s"),
        (9_994, "9.99 s"),
        (9_995, "10.0 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min 00 s"),
        (3_599_499, "59 min 59 s"),
        (3_599_500, "1 h 00 min"),
        (_DAY - 30_001, "23 h 59 min"),
        (_DAY - 30_000, "1 d 00 h"),
        (50 * _HOUR, "2 d 02 h"),
    ],
)
def test_durations_have_three_figures_or_two_units(ms: int, text: str) -> None:
    assert lasted(ms) == text


@pytest.mark.parametrize(
    ("distance", "text"),
    [
        (0, "just now"),
        (-59_999, "59 s ago"),
        (-_MINUTE, "1 min ago"),
        (-_DAY - 1, "1 d ago"),
        (40 * _SECOND, "in 40 s"),
        (_HOUR - 1, "in 60 min"),
        (3 * _DAY, "in 3 d"),
    ],
)
def test_distances_from_now_have_one_unit(distance: int, text: str) -> None:
    assert ago(NOON + distance, NOON) == text


def test_moments_are_told_in_utc_with_the_date_where_they_are_far_away() -> None:
    assert moment(NOON) == "2026-11-29 12:00:00 UTC"
    assert clock(NOON + 61_007) == "12:01:01.007"
    assert when(NOON, NOON + 5 * _SECOND) == "12:00:00 UTC (5 s ago)"
    assert when(NOON + 2 * _DAY, NOON) == "2026-12-01 12:00:00 UTC (in 2 d)"
    assert moment(10**30) == "1970-01-01 00:00:00 UTC"


@given(st.text(), st.integers(0, 60), st.sampled_from(["utf-8", "ascii", "latin-1"]))
def test_text_is_cut_to_its_columns_whatever_it_holds(text: str, width: int, encoding: str) -> None:
    screen = Screen(io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    shown = screen.clean(text)
    assert shown.encode(encoding).decode(encoding) == shown
    assert all(character == " " or character.isprintable() for character in shown)
    assert cell_len(screen.cut(shown, width)) <= width
    assert cell_len(screen.pad(shown, width)) == width
