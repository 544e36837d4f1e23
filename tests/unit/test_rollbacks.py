"""Where a run may go back to, and what that takes, from rows alone."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.checksums import checksum_of, sealed
from jumar.core.records import CallRecord, CheckpointRecord, Failure, RequestRecord, RunRecord
from jumar.core.rollbacks import (
    Point,
    check_at_rest,
    closing,
    failures_left_behind,
    find_point,
    return_point,
    undoing,
)
from jumar.core.states import (
    CallKind,
    CallState,
    Control,
    Effect,
    ErrorClass,
    Level,
    Phase,
    RequestKind,
    Status,
    Verdict,
)
from jumar.errors import CannotRollBack, CheckpointNotFound

RUN = "01a00000-0000-7000-8000-000000000001"


def run(version: int = 20, **fields: Any) -> RunRecord:
    record = RunRecord(
        *(1, RUN, "work", "1", "work", Status.PAUSED, Phase.IN_CODE, 0, version, 0, None, 1, b"", 0, Control.NONE, 0),
        *(None, None, None, None, None, None, None, 0, 0),
    )
    return replace(record, **fields)


def call(seq: int, started: int, ended: int | None = None, **fields: Any) -> CallRecord:
    state = fields.pop("state", CallState.STARTED if ended is None else CallState.SUCCEEDED)
    kind, effect = fields.pop("kind", CallKind.TOOL), fields.pop("effect", Effect.EXTERNAL)
    result = b"1" if state is CallState.SUCCEEDED else None
    values = {"started_version": started, "ended_version": ended, "result": result, **fields}
    step, tool = values.pop("step", ""), values.pop("tool", "pay")
    record = CallRecord(seq, f"{tool}.{seq}", "", step, seq, kind, tool, effect, state, 1, 1, 0, b"d", **values)
    return replace(record, checksum=checksum_of(record))


def point(version: int, **fields: Any) -> CheckpointRecord:
    level, name = fields.pop("level", Level.STEP), fields.pop("name", f"at {version}")
    return sealed(CheckpointRecord(name, level, "manual", **fields), version)


def found(to: int | str, points: list[CheckpointRecord], calls: list[CallRecord], **fields: Any) -> Point:
    options = {"first": Phase.IN_CODE, "needs_tree": fields.pop("needs_tree", False)}
    return find_point(run(**fields), points, calls, to, **options, nearest=False)


# --- The target. -----------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_meant_by_its_version_its_name_or_its_label() -> None:
    label = call(1, 3, 4, kind=CallKind.CHECKPOINT, effect=Effect.READ, args=b'{"name":"before it","refs":[]}')
    points = [point(4), point(7)]
    assert [found(to, points, [label]).version for to in (4, "at 4", "before it", 7)] == [4, 4, 4, 7]


def test_the_beginning_is_always_there() -> None:
    start = found(0, [], [])
    assert (start.version, start.name, start.phase, start.damaged) == (0, "start", Phase.IN_CODE, ())


def test_a_version_without_a_checkpoint_names_the_nearest_before_it() -> None:
    with pytest.raises(CheckpointNotFound, match="no checkpoint was kept at version 6") as caught:
        found(6, [point(4)], [])
    assert caught.value.hint == "The nearest before it is version 4 (at 4)."


def test_a_damaged_checkpoint_is_passed_over_with_all_that_will_not_do() -> None:
    damaged = replace(point(9), step=5)
    stopped = point(8, phase=Phase.STOPPED)
    back = found(9, [point(3), stopped, damaged], [])
    assert (back.version, back.damaged) == (3, (9,))


def test_a_run_does_not_go_back_to_where_it_had_ended() -> None:
    with pytest.raises(CannotRollBack, match="the run had ended there"):
        found(8, [point(3), point(8, phase=Phase.STOPPED)], [])


def test_files_need_a_snapshot() -> None:
    with pytest.raises(CannotRollBack, match="no snapshot of the files was kept there") as caught:
        found(8, [point(3, tree=b"t"), point(8)], [], needs_tree=True)
    assert caught.value.hint == "The nearest before it is version 3 (at 3)."


@pytest.mark.parametrize(("version", "lies_open"), [(4, False), (5, True), (6, True), (7, False)])
def test_a_write_that_lies_open_there_is_refused(version: int, lies_open: bool) -> None:
    write = call(1, 5, 7, effect=Effect.WRITE)
    points = [point(2), point(version)]
    if not lies_open:
        assert found(version, points, [write]).version == version
        return
    with pytest.raises(CannotRollBack, match=r"pay\.1 was being made"):
        found(version, points, [write])


@pytest.mark.parametrize("phase", [Phase.DECISION_RECORDED, Phase.AWAITING_RESULTS], ids=lambda phase: phase.label)
def test_a_decision_whose_calls_lie_open_there_is_refused_whenever_they_were_sent(phase: Phase) -> None:
    decision = call(1, 3, 4, kind=CallKind.DECISION, effect=Effect.READ, step="turn", tool="decide")
    planned = call(2, 6, 7, step="turn")
    with pytest.raises(CannotRollBack, match="the calls of a decision were being made"):
        found(5, [point(0), point(5, phase=phase)], [decision, planned])
    assert found(7, [point(7, phase=phase)], [decision, planned]).version == 7


def test_what_was_left_behind_is_no_target_and_the_newest_of_a_name_on_the_line_is() -> None:
    points = [point(4, name="a"), point(8, name="b"), point(12, name="b")]
    line = ((11, 5),)
    with pytest.raises(CannotRollBack, match=r"version 8 of run .* was left behind"):
        found(8, points, [], line=line)
    assert found("b", points, [], line=line).version == 12


def test_several_of_one_name_on_the_line_are_told() -> None:
    with pytest.raises(CheckpointNotFound) as caught:
        found("b", [point(4, name="b"), point(8, name="b")], [])
    assert caught.value.hint == "Give the version: 4, 8."


def test_a_call_returns_to_the_newest_point_before_its_step_began() -> None:
    calls = [call(1, 3, 4, step="a"), call(2, 6, 7, step="b"), call(3, 9, 10, step="b.c"), call(4, 12, 13, step="b")]
    points = [point(version) for version in (0, 2, 5, 8, 11)]
    record = run()
    assert return_point(record, points, calls, Level.STEP, 4) == 5
    assert return_point(record, points, calls, Level.STEP, 3) == 8
    assert return_point(record, points, calls, Level.TOOL, 4) == 11
    assert return_point(record, points, calls, Level.TASK, 4) == 0
    assert return_point(record, points, calls, Level.STEP, 99) == 0


# --- What it takes. --------------------------------------------------------------------------------------------------


IN_DOUBT = Failure("TimeoutError", "no answer", ErrorClass.TRANSIENT)


@pytest.mark.parametrize(
    ("state", "effect", "failure", "in_doubt"),
    [
        (CallState.STARTED, Effect.EXTERNAL, None, True),
        (CallState.UNCERTAIN, Effect.WRITE, None, True),
        (CallState.UNCERTAIN, Effect.READ, None, False),
        (CallState.PLANNED, Effect.IDEMPOTENT, IN_DOUBT, True),
        (CallState.PLANNED, Effect.EXTERNAL, IN_DOUBT, False),
        (CallState.AWAITING, Effect.EXTERNAL, None, False),
    ],
)
def test_nothing_may_be_in_doubt(state: CallState, effect: Effect, failure: Failure | None, in_doubt: bool) -> None:
    calls = [call(1, 5, state=state, effect=effect, failure=failure)]
    if not in_doubt:
        check_at_rest(run(), calls)
        return
    with pytest.raises(CannotRollBack, match=r"whether pay\.1 happened is not known"):
        check_at_rest(run(), calls)


def test_many_calls_in_doubt_are_counted() -> None:
    with pytest.raises(CannotRollBack, match=r"pay\.1, pay\.2, pay\.3 and 2 more happened"):
        check_at_rest(run(), [call(number, number) for number in range(1, 6)])


def test_what_acted_outside_after_the_point_is_undone_the_newest_first() -> None:
    calls = [
        call(1, 1, 2),
        call(2, 6, 12),
        call(3, 7, 9),
        call(4, 10, 11, tool="mail"),
        call(5, 13, 14, effect=Effect.READ),
        call(6, 15, 16),
    ]
    known = {"pay": True, "mail": False}
    plan = undoing((), 5, calls, known.get, answered_by_others={6})
    assert [each.seq for each in plan.undo] == [2, 3]
    assert [(each.seq, why) for each, why in plan.stand] == [(4, "mail has no compensation")]
    assert [why for _, why in undoing((), 5, calls[3:4], {}.get).stand] == ["no tool mail is known here"]


def test_what_an_earlier_rollback_left_standing_is_not_undone_by_the_next() -> None:
    calls = [call(1, 7, 8), call(2, 11, 12)]
    assert [each.seq for each in undoing(((10, 5),), 5, calls, lambda tool: True).undo] == [2]


def test_what_is_left_open_behind_is_closed_and_no_longer_asked() -> None:
    calls = [
        call(1, 3, state=CallState.AWAITING),
        call(2, 7, state=CallState.AWAITING, identity="pay:1"),
        call(3, 8, state=CallState.PLANNED),
        call(4, 9, 10),
    ]
    asked = [RequestRecord(f"r{seq}", seq, f"pay.{seq}", 1, RequestKind.APPROVAL, 0) for seq in (1, 2)]
    asked.append(RequestRecord("r4", 4, "pay.4", 1, RequestKind.APPROVAL, 0, verdict=Verdict.APPROVE))
    closed = closing((), 5, calls, asked, 1000)
    assert [each.request_id for each in closed.withdraws] == ["r2"]
    assert [(each.seq, each.state) for each in closed.changes] == [(2, CallState.REJECTED), (3, CallState.FAILED)]
    assert closed.frees == (2,)


def test_returns_for_one_call_are_counted_by_what_they_left_behind() -> None:
    failures = [call(seq, started, started + 1, state=CallState.FAILED) for seq, started in ((1, 6), (2, 11), (3, 16))]
    record = run(line=((10, 5), (15, 10)))
    assert failures_left_behind(record, failures, 3) == 2
    assert failures_left_behind(record, failures, 9) == 0
