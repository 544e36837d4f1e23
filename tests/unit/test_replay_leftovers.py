"""Leftovers in the replay table: they answer in their turn, and stand in nobody's way."""

from __future__ import annotations

from typing import Any

from jumar.core.records import CallRecord, Failure
from jumar.core.replay import ReplayTable
from jumar.core.states import CallKind, CallState, Effect, ErrorClass

TOOL = CallKind.TOOL


def call(seq: int, args: bytes = b"a", **fields: Any) -> CallRecord:
    values = {"tool": "mail", "state": CallState.SUCCEEDED, "effect": Effect.EXTERNAL, "branch": "", **fields}
    tool, state, effect, branch = (values.pop(name) for name in ("tool", "state", "effect", "branch"))
    return CallRecord(seq, f"{tool}.{seq}", branch, "", seq, TOOL, tool, effect, state, 1, 1, 0, args, **values)


def test_a_leftover_answers_before_what_was_recorded_after_it() -> None:
    table = ReplayTable([call(1), call(9)], [call(5)])
    branch = table.branch("")
    found = [branch.match(TOOL, "mail", b"a") for _ in range(4)]
    assert [None if each is None else each.seq for each in found] == [1, 5, 9, None]


def test_a_leftover_blocks_nothing_and_is_not_missed() -> None:
    table = ReplayTable([], [call(5), call(6, key="k")])
    assert table.branch("").first_effect() is None
    assert table.unmatched_effects() == []
    assert table.keyed_twin("mail", b"a") is None


def test_a_tool_has_leftovers_until_each_is_matched() -> None:
    table = ReplayTable([call(1)], [call(5), call(6, b"b"), call(7, tool="book", branch="map:0")])
    branch = table.branch("")
    branch.match(TOOL, "mail", b"a")
    assert table.leftover("mail") == call(5)
    branch.match(TOOL, "mail", b"a")
    assert table.leftover("mail") == call(6, b"b")
    branch.match(TOOL, "mail", b"b")
    assert table.leftover("mail") is None
    assert table.leftover("book") is not None
    assert branch.match(TOOL, "book", b"a") is None  # it was made in another branch
    assert table.branch("map:0").match(TOOL, "book", b"a") is not None
    assert table.leftover("book") is None


def test_a_key_is_answered_by_the_record_that_has_it_before_a_leftover() -> None:
    table = ReplayTable([call(9, key="k")], [call(5, key="k"), call(6, key="l")])
    found = table.match_key(TOOL, "k", "mail")
    assert found is not None and found.seq == 9
    other = table.match_key(TOOL, "l", "mail")
    assert other is not None and other.seq == 6
    assert table.leftover("mail") == call(5, key="k")


def test_a_leftover_of_another_tool_under_the_same_key_is_passed_over() -> None:
    table = ReplayTable([], [call(5, key="k")])
    assert table.match_key(TOOL, "k", "book") is None
    assert table.leftover("mail") is not None


def test_what_failed_and_may_have_happened_never_answers() -> None:
    given_up = Failure("CancelledError", "given up", ErrorClass.CANCELLED, cancelled=True)
    timeout = Failure("TimeoutError", "no answer", ErrorClass.TRANSIENT)
    doubtful = [
        call(5, state=CallState.FAILED, effect=Effect.IDEMPOTENT, failure=timeout),
        call(6, failure=given_up),  # whoever asks for it now may not give it up
    ]
    table = ReplayTable([], doubtful)
    assert table.branch("").match(TOOL, "mail", b"a") is None
    assert table.take_leftover("mail", b"a") is None
    assert table.leftover("mail") is not None


def test_a_loop_agents_call_takes_the_oldest_leftover_of_the_same_call_wherever_it_was_made() -> None:
    table = ReplayTable([], [call(5, branch="turn:0"), call(6, branch="turn#2:1"), call(7, b"b")])
    taken = [table.take_leftover("mail", b"a") for _ in range(3)]
    assert [None if each is None else each.seq for each in taken] == [5, 6, None]
    assert table.leftover("mail") == call(7, b"b")
