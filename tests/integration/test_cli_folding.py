"""The parts that fold what is long and tell answers in words, on their own."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from jumar.cli.folding import Fold, folded, states
from jumar.cli.screen import Screen
from jumar.cli.tree import MOST_ROWS, CallRow, FoldRow, MarkRow, StepRow, rows_of
from jumar.cli.words import decided, edits, found, pending, said
from jumar.harness.results import AnswerView, CallView, RunInfo, TraceLine


def _call(seq: int, step: str, state: str = "SUCCEEDED", at: int = 0) -> CallView:
    call_id = f"{step}.look.{seq}" if step else f"look.{seq}"
    ended = None if state in ("STARTED", "AWAITING") else at + 1
    return CallView(seq, call_id, "tool", "look", step, "read", state, 1, 1, at, ended)


@given(st.integers(0, 400), st.integers(3, 60), st.sets(st.integers(0, 400)))
def test_folding_keeps_the_ends_and_loses_nothing(count: int, most: int, matter: set[int]) -> None:
    rows = folded(range(count), most, matter.__contains__)
    flat = [item for row in rows for item in (row.items if isinstance(row, Fold) else [row])]
    assert flat == list(range(count))
    kept = [row for row in rows if not isinstance(row, Fold)]
    if count <= most:
        assert len(kept) == count
        return
    assert kept[0] == 0
    assert kept[-1] == count - 1
    assert len(rows) <= 2 * most
    assert all(len(row.items) > 1 for row in rows if isinstance(row, Fold))
    hidden = {item for row in rows if isinstance(row, Fold) for item in row.items}
    shown = matter & set(kept)
    assert (
        not matter & hidden
        or max(matter & hidden) < min(shown - set(kept[-(most // 3) :]), default=count)
        or (len(kept) >= most)
    ), "what matters is left out only where there is no room"


def test_what_failed_waits_or_is_not_known_stays_when_the_rest_is_folded() -> None:
    calls = [_call(seq, "", at=seq + 1) for seq in range(500)]
    for seq, state in ((77, "FAILED"), (200, "UNCERTAIN"), (333, "AWAITING"), (400, "REJECTED")):
        calls[seq] = _call(seq, "", state, at=seq + 1)
    rows = rows_of(calls, [], whole=False)
    assert len(rows) <= MOST_ROWS
    shown = {row.call.seq for row in rows if isinstance(row, CallRow)}
    assert {0, 77, 200, 333, 400, 499} <= shown
    assert sum(len(row.calls) for row in rows if isinstance(row, FoldRow)) + len(shown) == 500


_steps = st.lists(st.sampled_from(["a", "b", "map:0", "map:1", "turn#7"]), max_size=3).map(".".join)


@given(
    st.lists(st.tuples(_steps, st.sampled_from(["SUCCEEDED", "FAILED", "STARTED"])), max_size=400),
    st.lists(st.integers(0, 450), max_size=20),
)
def test_folded_rows_account_for_every_call_and_every_mark(shape: list[tuple[str, str]], moments: list[int]) -> None:
    calls = [_call(at, step, state, at + 1) for at, (step, state) in enumerate(shape)]
    marks = [TraceLine(at, "taken-over", None, epoch) for epoch, at in enumerate(moments)]
    rows = rows_of(calls, marks, whole=False)
    shown = [row.call.seq for row in rows if isinstance(row, CallRow)]
    hidden = [call.seq for row in rows if isinstance(row, FoldRow) for call in row.calls]
    assert sorted(shown + hidden) == list(range(len(calls)))
    kept = sum(isinstance(row, MarkRow) for row in rows)
    assert kept + sum(row.marks for row in rows if isinstance(row, FoldRow)) == len(marks)
    assert rows_of(calls, marks) == rows or len(calls) + len({step for step, _ in shape}) > MOST_ROWS // 4


def test_deep_trees_are_folded_until_they_are_few_rows() -> None:
    names = [(first, second, number) for first in range(20) for second in range(20) for number in range(20)]
    calls = [_call(at, f"a{first}.b{second}", at=at + 1) for at, (first, second, _) in enumerate(names)]
    rows = rows_of(calls, [], whole=False)
    assert len(rows) <= MOST_ROWS
    assert sum(isinstance(row, StepRow) for row in rows) > 2


def test_a_takeover_among_calls_that_are_left_out_is_counted_with_them() -> None:
    calls = [_call(at, "", at=10 * at + 10) for at in range(300)]
    rows = rows_of(calls, [TraceLine(1505, "taken-over", None, 2), TraceLine(15, "paused", None, 1)], whole=False)
    (fold,) = [row for row in rows if isinstance(row, FoldRow)]
    assert fold.marks == 1
    assert [(row.what, row.at) for row in rows if isinstance(row, MarkRow)] == [("paused", 15)]


def test_states_are_counted_in_the_order_in_which_they_come() -> None:
    calls = [_call(1, ""), _call(2, "", "FAILED"), _call(3, "")]
    assert states(calls) == "3 calls: 2 succeeded, 1 failed"
    assert states(calls[:1]) == "1 call: 1 succeeded"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (AnswerView("a.1", 1, "happened", 7, "ana"), "happened, says ana"),
        (AnswerView("a.1", 1, "happened", 7, "late-result"), "happened, says the attempt's own late result"),
        (AnswerView("a.1", 1, "not-happened", None, "ana"), "did not happen, says ana"),
        (AnswerView("a.1", 1, "approve", None, "ana"), "approved by ana"),
        (AnswerView("a.1", 1, "reject", None, None), "rejected"),
        (AnswerView("a.1", 1, "value", "yes", "ana"), 'answered "yes" by ana'),
        (AnswerView("a.1", 1, "value", 2, "expiry"), "took its default, 2"),
    ],
)
def test_answers_are_told_in_words(answer: AnswerView, words: str) -> None:
    assert said(answer) == words


@pytest.mark.parametrize(
    ("asked", "given_", "words"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, ""),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, "b 3 instead of 2"),
        ({"a": 1}, {"b": "x"}, 'b "x" added, a left out'),
        ({"a": True}, {"a": 1}, "a 1 instead of true"),
        ([1], [2], "[2] instead of [1]"),
        (None, {"a": 1}, '{"a":1} instead of null'),
    ],
)
def test_changed_arguments_are_told_by_name(asked: Any, given_: Any, words: str) -> None:
    assert edits(asked, given_) == words


def test_a_decision_is_told_by_what_it_calls_or_finishes_with() -> None:
    assert decided({"calls": [{"name": "look"}, {"name": "pay"}], "text": "both"}) == "calls look, pay: both"
    assert decided({"finish": {"pages": 2}}) == 'finishes with {"pages":2}'
    assert decided("damaged") == '"damaged"'
    assert found(True) == ""
    assert found(False) == "not accepted"
    assert found("too short") == "not accepted: too short"


@pytest.mark.parametrize(
    ("status", "control", "order"),
    [
        ("RUNNING", "pause", "pause"),
        ("RUNNING", "cancel", "cancel"),
        ("PAUSED", "pause", ""),
        ("PAUSED", "cancel", "cancel"),
        ("COMPLETED", "cancel", ""),
        ("FAILED", "pause", ""),
        ("WAITING", "none", ""),
    ],
)
def test_an_order_is_pending_until_the_run_stands_as_ordered_or_is_over(status: str, control: str, order: str) -> None:
    facts: list[Any] = ["id", "agent", "task", status, "IN_CODE", 0, 0, 1, None, None, None, None, None, None, 0, 0]
    assert pending(RunInfo(*facts, control)) == order


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@given(st.text("ab 日本語", max_size=200), st.integers(4, 40))
def test_wrapped_text_keeps_its_words_and_its_width_in_columns(text: str, width: int) -> None:
    screen = Screen(_Terminal(io.BytesIO(), encoding="utf-8"))
    lines = screen.wrapped(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    for line in lines:
        is_one_narrow_word = " " not in line.strip() and cell_len(line) == len(line)
        assert cell_len(line) <= width or is_one_narrow_word or cell_len(line.strip()) <= width
