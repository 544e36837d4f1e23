"""Matching what is asked with what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from jumar.core.naming import call_id
from jumar.core.records import CallRecord
from jumar.core.replay import ReplayTable
from jumar.core.states import CallKind, CallState, Effect
from jumar.engine.scope import Branch
from jumar.errors import UsageError


def record(
    seq: int,
    tool: str = "search",
    args: bytes = b"{}",
    *,
    step: str = "",
    branch: str = "",
    ordinal: int = 1,
    kind: CallKind = CallKind.TOOL,
    effect: Effect = Effect.READ,
    key: str | None = None,
) -> CallRecord:
    name = call_id(step, tool, ordinal, 0)
    state = CallState.SUCCEEDED
    return CallRecord(seq, name, branch, step, ordinal, kind, tool, effect, state, 1, 1, 0, args, key=key)


def seq_of(found: CallRecord | None) -> int | None:
    return None if found is None else found.seq


# --- One branch. -----------------------------------------------------------------------------------------------------


def test_the_oldest_record_of_the_same_call_answers_first_and_each_answers_once() -> None:
    table = ReplayTable([record(1), record(2, ordinal=2), record(3, ordinal=3)]).branch("")
    asked = [seq_of(table.match(CallKind.TOOL, "search", b"{}")) for _ in range(4)]
    assert asked == [1, 2, 3, None]


def test_a_call_is_the_same_by_kind_tool_and_arguments() -> None:
    table = ReplayTable([record(1)]).branch("")
    assert table.match(CallKind.TOOL, "other", b"{}") is None
    assert table.match(CallKind.TOOL, "search", b"[]") is None
    assert table.match(CallKind.VALUE, "search", b"{}") is None
    assert seq_of(table.match(CallKind.TOOL, "search", b"{}")) == 1


def test_a_decision_is_answered_by_the_oldest_of_the_branch_whatever_its_prompt_and_model() -> None:
    decisions = [record(1, "gpt", b"a", kind=CallKind.DECISION), record(2, "gpt", b"b", kind=CallKind.DECISION)]
    table = ReplayTable([*decisions, record(3)]).branch("")
    assert seq_of(table.match(CallKind.DECISION, "gpt", b"b")) == 1
    assert seq_of(table.match(CallKind.DECISION, "claude", b"c")) == 2
    assert table.match(CallKind.DECISION, "gpt", b"a") is None


def test_branches_do_not_answer_for_each_other() -> None:
    table = ReplayTable([record(1, branch="gather:0"), record(2, branch="gather:1")])
    assert table.branch("").match(CallKind.TOOL, "search", b"{}") is None
    assert seq_of(table.branch("gather:1").match(CallKind.TOOL, "search", b"{}")) == 2
    assert seq_of(table.branch("gather:0").match(CallKind.TOOL, "search", b"{}")) == 1


# --- Keys. -----------------------------------------------------------------------------------------------------------


def test_a_record_with_a_key_answers_to_that_key_alone() -> None:
    table = ReplayTable([record(1, key="call_1"), record(2, key="call_2", args=b"other")])
    assert table.branch("").match(CallKind.TOOL, "search", b"{}") is None
    assert seq_of(table.match_key(CallKind.TOOL, "call_2")) == 2
    assert table.match_key(CallKind.DECISION, "call_1") is None
    assert seq_of(table.match_key(CallKind.TOOL, "call_1")) == 1
    assert table.match_key(CallKind.TOOL, "call_3") is None


@pytest.mark.parametrize("records", [[], [record(1, key="k")]])
def test_a_key_names_one_call_of_a_run(records: list[CallRecord]) -> None:
    table = ReplayTable(records)
    table.match_key(CallKind.TOOL, "k")
    table.match_key(CallKind.DECISION, "k")
    with pytest.raises(UsageError, match="'k' was given to another call") as caught:
        table.match_key(CallKind.TOOL, "k")
    assert "a key of its own" in caught.value.hint


# --- What must be asked for again. -----------------------------------------------------------------------------------


def test_a_read_need_not_be_asked_for_again() -> None:
    table = ReplayTable([record(1), record(2, key="k")])
    assert table.branch("").first_effect() is None
    assert table.unmatched_effects() == []


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.IDEMPOTENT, Effect.EXTERNAL], ids=lambda effect: effect.label)
def test_any_other_call_must_be_and_the_oldest_is_named(effect: Effect) -> None:
    table = ReplayTable([record(1), record(2, "pay", effect=effect), record(3, "pay", ordinal=2, effect=effect)])
    assert seq_of(table.branch("").first_effect()) == 2
    table.branch("").match(CallKind.TOOL, "pay", b"{}")
    assert seq_of(table.branch("").first_effect()) == 3
    table.branch("").match(CallKind.TOOL, "pay", b"{}")
    assert table.branch("").first_effect() is None


def test_closing_a_step_looks_at_what_is_inside_it_alone() -> None:
    places = ["", "scan", "scan.deep", "scan#2", "scanner"]
    records = [record(seq, "pay", b"%d" % seq, step=step, effect=Effect.EXTERNAL) for seq, step in enumerate(places, 1)]
    table = ReplayTable(records).branch("")
    firsts = {place: seq_of(table.first_effect(place)) for place in [*places, "other", "scan.other"]}
    assert firsts == {
        "": 1,
        "scan": 2,
        "scan.deep": 3,
        "scan#2": 4,
        "scanner": 5,
        "other": None,
        "scan.other": None,
    }
    table.match(CallKind.TOOL, "pay", b"2")
    assert seq_of(table.first_effect("scan")) == 3


def test_what_is_left_of_a_whole_run_is_the_oldest_of_each_branch_and_all_with_a_key() -> None:
    paid = [
        record(1, "pay", branch="map:1", step="map:1", effect=Effect.EXTERNAL),
        record(2, "pay", effect=Effect.IDEMPOTENT),
        record(3, "pay", ordinal=2, effect=Effect.IDEMPOTENT),
        record(4, "pay", key="a", effect=Effect.EXTERNAL),
        record(5, "pay", key="b", effect=Effect.EXTERNAL),
        record(6),
    ]
    assert [each.seq for each in ReplayTable(paid).unmatched_effects()] == [1, 2, 4, 5]


# --- Numbers. --------------------------------------------------------------------------------------------------------


def test_a_new_call_is_numbered_after_every_one_recorded_in_its_step() -> None:
    table = ReplayTable([record(1), record(2, ordinal=7, key="k"), record(3, step="scan", ordinal=2)])
    assert [table.next_ordinal("", "search") for _ in range(2)] == [8, 9]
    assert table.next_ordinal("scan", "search") == 3
    assert table.next_ordinal("scan#2", "search") == 1
    assert table.next_ordinal("", "pay") == 1


# --- Any prefix of what was recorded replays to the same ids. --------------------------------------------------------


class Ask(NamedTuple):
    """A call that an agent's code makes."""

    tool: str
    args: bytes
    effect: Effect
    kind: CallKind
    keyed: bool


# A branch's code: a call, the name of a step to enter, or None to leave the innermost.
CODE = st.lists(
    st.builds(
        Ask,
        st.sampled_from(["search", "pay"]),
        st.sampled_from([b"1", b"2"]),
        st.sampled_from([Effect.READ, Effect.EXTERNAL]),
        st.sampled_from([CallKind.TOOL, CallKind.DECISION]),
        st.booleans(),
    )
    | st.sampled_from(["scan", "fix it", None]),
    max_size=15,
)


def played(branches: list[list[Any]], turns: list[int], records: list[CallRecord]) -> dict[str, CallRecord]:
    """Play branches by turns, over what is recorded: for each place in the code the record that answers, new or old."""
    table = ReplayTable(records)
    walks = []
    for index, code in enumerate(branches):
        path = f"gather:{index}" if index else ""
        walks.append(walk(path, code, table))
    answers: dict[str, CallRecord] = {}
    for turn in [*turns, *(index for index in range(len(walks)) for _ in branches[index])]:
        place, found = next(walks[turn % len(walks)], ("", None))
        if found is not None:
            answers[place] = found if found.seq else replace(found, seq=len(records) + len(answers) + 1)
    return answers


def walk(path: str, code: list[Any], table: ReplayTable) -> Iterator[tuple[str, CallRecord]]:
    branch, outer = Branch(path, table.branch(path)), list[str]()
    for place, item in enumerate(code):
        if item is None:
            branch.step = outer.pop() if outer else branch.step
        elif isinstance(item, str):
            outer.append(branch.enter_step(item))
        else:
            yield f"{path}/{place}", answered(item, f"{path}/{place}" if item.keyed else None, branch, table)


def answered(ask: Ask, key: str | None, branch: Branch, table: ReplayTable) -> CallRecord:
    """The record that answers a call, or a new one, whose `seq` is not known yet."""
    found = table.match_key(ask.kind, key) if key else branch.table.match(ask.kind, ask.tool, ask.args)
    if found is not None:
        return found
    ordinal = table.next_ordinal(branch.step, ask.tool)
    return record(
        0, *ask[:2], step=branch.step, branch=branch.path, ordinal=ordinal, kind=ask.kind, effect=ask.effect, key=key
    )


@given(
    branches=st.lists(CODE, min_size=1, max_size=3),
    turns=st.lists(st.integers(0, 2), max_size=30),
    turns_again=st.lists(st.integers(0, 2), max_size=30),
    data=st.data(),
)
def test_any_prefix_of_what_was_recorded_replays_to_the_same_ids(
    branches: list[list[Any]], turns: list[int], turns_again: list[int], data: st.DataObject
) -> None:
    first = played(branches, turns, [])
    recorded = sorted(first.values(), key=lambda each: each.seq)
    prefix = recorded[: data.draw(st.integers(0, len(recorded)), label="recorded before the crash")]

    again = played(branches, turns_again, prefix)

    assert {place: each.call_id for place, each in again.items()} == {
        place: each.call_id for place, each in first.items()
    }
    answered_by = {place: each for place, each in again.items() if each in prefix}
    assert answered_by == {place: each for place, each in first.items() if each in prefix}
    assert len({each.call_id for each in again.values()}) == len(again)


def test_a_call_is_looked_for_under_other_keys_as_well() -> None:
    twin = replace(record(1, effect=Effect.EXTERNAL), key="a")
    table = ReplayTable([twin])
    assert table.keyed_twin(twin.tool, twin.args_digest) is twin
    assert table.match_key(twin.kind, "a") is twin
    assert table.keyed_twin(twin.tool, twin.args_digest) is None
