"""Which calls a failed run makes again, and what forbids it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.checksums import call_agrees
from jumar.core.codec import digest
from jumar.core.records import CallRecord, Failure, RunRecord
from jumar.core.reopening import is_beside, reopened
from jumar.core.states import CallKind, CallState, Control, Effect, ErrorClass, Phase, Status
from jumar.errors import CannotReopen

CUT = Failure("ConnectionError", "cut", ErrorClass.TRANSIENT)


def failed_run(*failed_calls: int) -> RunRecord:
    """A FAILED run with the numbers of the calls it failed with."""
    texts: dict[str, Any] = {"run_id": "run", "agent": "agent", "agent_version": "1", "task": "task"}
    return RunRecord(
        run_no=1,
        **texts,
        status=Status.FAILED,
        phase=Phase.IN_CODE,
        step=0,
        version=9,
        generation=0,
        owner=None,
        epoch=1,
        boot=b"",
        lease_until=0,
        control=Control.NONE,
        answers=0,
        wake_at=None,
        waiting_on=None,
        input_digest=None,
        output_digest=None,
        error_class=None,
        error_type="CallFailed",
        error_message="cut",
        created_at=0,
        updated_at=0,
        failed_calls=failed_calls,
    )


def call(seq: int, *, state: CallState = CallState.FAILED, effect: Effect = Effect.EXTERNAL, **more: Any) -> CallRecord:
    """A call that began with version `seq` and ended with the next."""
    record = CallRecord(
        seq,
        f"pay.{seq}",
        "",
        "",
        seq,
        CallKind.TOOL,
        "pay",
        effect,
        state,
        2,
        1,
        0,
        digest(b"{}"),
        args=b"{}",
        failure=CUT if state is CallState.FAILED else None,
        started_version=seq,
        ended_version=seq + 1,
    )
    return replace(record, **more)


def test_the_calls_it_failed_with_are_planned_again_and_no_others() -> None:
    calls = [call(1), call(2), call(3, state=CallState.SUCCEEDED, effect=Effect.READ)]
    (change,) = reopened(failed_run(2, 3), calls)
    assert (change.seq, change.state, change.attempt, change.failure) == (2, CallState.PLANNED, 2, None)
    after = replace(calls[1], state=change.state, failure=None, checksum=change.checksum or 0)
    assert call_agrees(after)


def test_a_run_that_failed_with_no_call_makes_none_again() -> None:
    assert reopened(failed_run(), [call(1)]) == ()
    assert reopened(failed_run(7), [call(1)]) == ()


@pytest.mark.parametrize("state", [each for each in CallState if each is not CallState.FAILED])
def test_a_call_in_another_state_is_left_as_it_is(state: CallState) -> None:
    assert reopened(failed_run(1), [call(1, state=state)]) == ()


def test_a_call_that_the_agent_gave_up_is_left_as_it_is() -> None:
    given_up = replace(CUT, cancelled=True)
    assert reopened(failed_run(1), [call(1, failure=given_up)]) == ()


@pytest.mark.parametrize("effect", list(Effect))
@pytest.mark.parametrize("state", list(CallState))
def test_whatever_acts_and_was_begun_later_forbids_it(effect: Effect, state: CallState) -> None:
    later = call(3, state=state, effect=effect)
    if effect is Effect.READ:
        assert len(reopened(failed_run(1), [call(1), later])) == 1
        return
    with pytest.raises(
        CannotReopen, match=f"failed with call pay.1, and pay.3 \\({effect.label}\\) was begun after it"
    ):
        reopened(failed_run(1), [call(1), later])


def test_what_was_begun_before_the_failure_was_known_does_not() -> None:
    beside = call(2, state=CallState.SUCCEEDED)
    assert len(reopened(failed_run(1), [call(1, ended_version=2), beside])) == 1
    assert len(reopened(failed_run(1), [call(1, ended_version=5), beside])) == 1


@pytest.mark.parametrize(
    ("one", "failed", "beside"),
    [
        ("", "", False),
        ("", "gather:0", False),
        ("gather:0", "", False),
        ("gather:0", "gather:0", False),
        ("gather:1", "gather:0", True),
        ("gather:1", "gather:10", True),
        ("gather#2:1", "gather:1", False),
        ("map:1", "gather:1", False),
        ("gather:1.map:0", "gather:0", True),
        ("gather:1", "gather:0.map:0", True),
        ("gather:0.map:1", "gather:0.map:0", True),
        ("gather:0.map:1", "gather:0", False),
        ("gather:0", "gather:0.map:1", False),
        ("gather:0.map#2:1", "gather:0.map:1", False),
        ("scan.gather:1", "scan.gather:0", True),
        ("scan#2.gather:1", "scan.gather:0", False),
        ("scan.gather:1", "", False),
        ("scan.gather:1", "fix.gather:0", False),
        ("watcher", "worker", True),
        ("watcher", "", True),
        ("", "worker", False),
        ("watcher", "watcher", False),
        ("watcher.map:0", "watcher", False),
        ("watcher", "watcher.map:0", False),
    ],
)
def test_branches_beside_each_other_are_items_of_one_fan_or_steps_of_their_own(
    one: str, failed: str, beside: bool
) -> None:
    assert is_beside(one, failed) is beside
