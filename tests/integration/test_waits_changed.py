"""What is asked for in other words on replay, and a call that somebody wants no more."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jumar import Harness
from jumar.errors import CallRejected, ReplayDiverged, RequestNotFound
from jumar.testing.crash_clock import StoppedClock
from tests.integration.waits_helpers import both_kinds, clock, scripted

__all__ = ["clock"]


@both_kinds
def test_a_question_worded_otherwise_on_replay_throws_no_answer_away(harness: Harness, waits: bool) -> None:
    times = itertools.count()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask(f"go? it is {next(times)}"))

    result = harness.run(agent, "x")
    harness.answer(result.run_id, "ask.1", "yes")
    with pytest.raises(ReplayDiverged, match="it is 0") as caught:
        harness.resume(result.run_id)
    assert "run.value" in caught.value.hint
    assert [call.call_id for call in harness.show(result.run_id).calls] == ["ask.1"]


@both_kinds
def test_a_question_with_a_key_may_be_worded_otherwise(harness: Harness, waits: bool) -> None:
    times = itertools.count()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask(f"go? it is {next(times)}", key="go"))

    result = harness.run(agent, "x")
    harness.answer(result.run_id, "ask.1", "yes")
    assert harness.resume(result.run_id).unwrap() == "yes"


@both_kinds
def test_a_question_that_is_left_out_on_replay_stands_in_the_way_of_nothing_else(harness: Harness, waits: bool) -> None:
    lives = itertools.count()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return "asked" if not next(lives) and (yield run.ask("go?")) else "not asked"

    result = harness.run(agent, "x")
    harness.answer(result.run_id, "ask.1", "yes")
    assert harness.resume(result.run_id).unwrap() == "not asked"


@pytest.mark.parametrize("until", [False, True])
@both_kinds
def test_a_sleep_whose_end_is_reckoned_anew_still_ends_when_it_was_to(
    harness: Harness, clock: StoppedClock, waits: bool, until: bool
) -> None:
    lengths = iter([3600, 7200, 1800])

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        seconds = next(lengths)
        now = datetime.fromtimestamp(clock.wall_ms() / 1000, UTC)
        yield run.sleep(until=now + timedelta(seconds=seconds)) if until else run.sleep(seconds)
        return "awake"

    result = harness.run(agent, "x")
    clock.move(1800)
    assert harness.resume(result.run_id).wake_at == result.wake_at
    clock.move(1800)
    assert harness.resume(result.run_id).unwrap() == "awake"
    assert [call.call_id for call in harness.show(result.run_id).calls] == ["sleep.1"]


@pytest.mark.parametrize("settle", [0.0, 500.0])
@both_kinds
def test_a_call_that_did_not_happen_and_is_wanted_no_more_is_rejected_once_that_is_sure(
    harness: Harness, clock: StoppedClock, waits: bool, settle: float
) -> None:
    sent = []

    @harness.tool(effect="external", settle=settle)
    def pay(invoice: str) -> None:
        sent.append(invoice)
        raise ValueError("declined")

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(pay, "i-1")
        except CallRejected as no:
            return no.note

    result = harness.run(agent, "x")
    assert [asked.kind for asked in result.waiting_on] == ["resolve"]
    harness.reject(result.run_id, "pay.1", by="ana", note="the bank declined it")
    result = harness.resume(result.run_id)
    if settle:
        assert result.status == "WAITING" and result.wake_at is not None
        clock.move_to_wall(result.wake_at)
        result = harness.resume(result.run_id)
    assert (result.unwrap(), sent) == ("the bank declined it", ["i-1"])
    [call] = harness.show(result.run_id).calls
    assert (call.state, call.attempt) == ("REJECTED", 1)
    with pytest.raises(RequestNotFound, match="reject by ana"):
        harness.reject(result.run_id, "pay.1")


def test_the_rejected_call_of_a_cancelled_run_is_settled_by_the_rejection(harness: Harness) -> None:
    @harness.tool(effect="external", settle=0.0)
    def pay(invoice: str) -> None:
        raise ValueError("declined")

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        return run.call(pay, "i-1")

    result = harness.run(agent, "x")
    harness.cancel(result.run_id)
    harness.reject(result.run_id, "pay.1")
    [call] = harness.show(result.run_id).calls
    assert call.state == "REJECTED"
