"""Turns read from rows: where a loop agent stands, and what is said of calls that have no result."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar import Decision, ToolCall
from jumar.core.checksums import checksum_of
from jumar.core.codec import digest
from jumar.core.decisions import written
from jumar.core.phases import check_path
from jumar.core.records import CallRecord, Failure
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, Phase
from jumar.core.turns import grouped, refusals, to_ready, turn_number, turn_of, turn_path, verdict_of
from jumar.errors import IntegrityError

FAILURE = Failure("ValueError", "no such file", ErrorClass.PERMANENT, hint="Look elsewhere.")


def row(seq: int, kind: CallKind, tool: str, state: CallState, turn: int = 1, **more: Any) -> CallRecord:
    step, args = turn_path(turn), more.pop("args", b"{}")
    call_id = f"{step}.{tool}.{seq}"
    effect = more.pop("effect", Effect.READ)
    made = CallRecord(seq, call_id, "", step, 1, kind, tool, effect, state, 1, 1, 0, digest(args), args, **more)
    return replace(made, checksum=checksum_of(made))


def decided(seq: int, decision: Decision, turn: int = 1, output: bytes | None = None) -> CallRecord:
    return row(seq, CallKind.DECISION, "decide", CallState.SUCCEEDED, turn, result=written(decision, output))


def nothing(name: bytes) -> bytes:
    raise AssertionError("there is no artifact to read")


def told(state: CallState, effect: Effect = Effect.EXTERNAL, **more: Any) -> str | None:
    """What a model is told of a call in this state."""
    rows = [decided(1, Decision.act([ToolCall("send")])), row(2, CallKind.TOOL, "send", state, effect=effect, **more)]
    turn = turn_of(rows, nothing)
    assert turn is not None
    return turn.results[0].error


# --- Numbers and phases. ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "path"), [(1, "turn"), (2, "turn#2"), (10_000, "turn#10000")])
def test_a_turn_has_a_path_by_its_number(number: int, path: str) -> None:
    assert (turn_path(number), turn_number(path)) == (path, number)


@pytest.mark.parametrize("path", ["", "scan", "turn#", "turn#x", "turn.a", "turn#2 "])
def test_no_other_path_is_a_turns(path: str) -> None:
    with pytest.raises(IntegrityError):
        turn_number(path)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase not in (Phase.STOPPED, Phase.IN_CODE)])
def test_a_decision_may_be_recorded_from_wherever_a_turn_can_end(phase: Phase) -> None:
    check_path(phase, *to_ready(phase), Phase.DECISION_RECORDED)


# --- Verdicts. -------------------------------------------------------------------------------------------------------


def test_a_verdict_is_a_yes_or_a_reason() -> None:
    assert verdict_of(b"true") is None
    assert verdict_of(b'"too short"') == "too short"
    assert verdict_of(b"false") == verdict_of(b'" "') == "it was not accepted"


def verification(number: int, state: CallState = CallState.SUCCEEDED, result: bytes | None = None) -> CallRecord:
    return row(9, CallKind.VALUE, "verify", state, args=b'{"number":%d}' % number, result=result)


def test_how_many_outputs_were_refused_stands_in_the_newest_verification() -> None:
    assert refusals(None) == 0
    assert refusals(verification(3, result=b'"no"')) == 3
    assert refusals(verification(3, result=b"true")) == 2
    assert refusals(verification(3, CallState.PLANNED)) == 2
    with pytest.raises(IntegrityError):
        refusals(replace(verification(3, result=b'"no"'), result=b'"yes"'))


# --- Turns. ----------------------------------------------------------------------------------------------------------


def test_rows_are_grouped_by_the_decision_they_follow() -> None:
    rows = [
        decided(1, Decision.act([ToolCall("a"), ToolCall("b")])),
        row(2, CallKind.TOOL, "a", CallState.SUCCEEDED, result=b"1"),
        row(3, CallKind.TOOL, "b", CallState.FAILED, failure=FAILURE),
        decided(4, Decision.finish("x"), 2, b'"x"'),
        replace(verification(1, result=b'"no"'), step="turn#2"),
        row(10, CallKind.DECISION, "decide", CallState.PLANNED, 3),
    ]
    groups = list(grouped(rows))
    assert [[each.seq for each in group] for group in groups] == [[1, 2, 3], [4, 9], [10]]
    first, second, third = (turn_of(group, nothing) for group in groups)
    assert first is not None and second is not None and third is None
    assert [(result.value, result.error, result.ok) for result in first.results] == [
        (1, None, True),
        (None, "ValueError: no such file. Look elsewhere.", False),
    ]
    assert (second.index, second.decision.output, second.verdict) == (2, "x", "no")


def test_a_result_is_shown_without_the_envelope_that_names_its_type() -> None:
    rows = [
        decided(1, Decision.act([ToolCall("a")])),
        row(2, CallKind.TOOL, "a", CallState.SUCCEEDED, result=b'{"$jumar":"Cat","value":{"name":"Tom"}}'),
    ]
    turn = turn_of(rows, nothing)
    assert turn is not None and turn.results[0].value == {"name": "Tom"}


def test_a_row_that_does_not_agree_with_its_checksum_is_not_read() -> None:
    rows = [decided(1, Decision.act([ToolCall("a")])), row(2, CallKind.TOOL, "a", CallState.SUCCEEDED, result=b"1")]
    with pytest.raises(IntegrityError, match=r"turn\.a\.2"):
        turn_of([rows[0], replace(rows[1], result=b"2")], nothing)
    with pytest.raises(IntegrityError, match=r"turn\.decide\.1"):
        turn_of([replace(rows[0], result=b'{"finish":1}')], nothing)


@pytest.mark.parametrize(
    ("state", "effect", "words"),
    [
        (CallState.PLANNED, Effect.EXTERNAL, "not made yet"),
        (CallState.AWAITING, Effect.EXTERNAL, "waits for a person"),
        (CallState.STARTED, Effect.EXTERNAL, "may have happened"),
        (CallState.UNCERTAIN, Effect.EXTERNAL, "may have happened"),
        (CallState.UNCERTAIN, Effect.READ, "not made yet"),
        (CallState.REJECTED, Effect.EXTERNAL, "rejected"),
        (CallState.COMPENSATED, Effect.EXTERNAL, "undone"),
        (CallState.FAILED, Effect.EXTERNAL, "failed"),
    ],
)
def test_a_call_without_a_result_is_told_for_what_it_is(state: CallState, effect: Effect, words: str) -> None:
    assert words in (told(state, effect) or "")


def test_a_call_that_happened_and_whose_result_is_lost_is_told_as_done() -> None:
    error = told(CallState.SUCCEEDED, failure=FAILURE)
    assert error == "the call happened, but its result could not be recorded: ValueError: no such file. Look elsewhere."
