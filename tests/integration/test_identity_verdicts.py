"""A verdict on a run that has ended: "it did not happen" counts for the action's name as it does for a run that goes
on, once nothing of the attempt can act any more.
"""

from __future__ import annotations

import pytest

from jumar import Harness, NotHappened
from jumar.testing.crash_clock import StoppedClock
from tests.integration.waits_helpers import clock

__all__ = ["clock"]

SETTLE = 3600.0


def booking(harness: Harness, sent: list[str]):
    @harness.tool(effect="external", identity=lambda trip, seats: trip, identity_scope="store", settle=SETTLE)
    def book(trip: str, seats: int) -> int:
        sent.append(trip)
        if len(sent) == 1:
            raise ConnectionError("cut")
        return len(sent)

    @harness.agent
    def travel(run, seats):
        return run.call(book, "t-1", seats)

    return travel


def cancelled_and_denied(harness: Harness, travel, clock: StoppedClock, *, after: float) -> None:
    """A run whose booking may have happened is cancelled, and so many seconds later somebody says that it did not."""
    first = harness.run(travel, 2)
    assert harness.cancel(first.run_id).status == "CANCELLED"
    clock.move(after)
    harness.resolve(first.run_id, "book.1", NotHappened())
    [call] = harness.show(first.run_id).calls
    assert call.state == "FAILED"


@pytest.mark.parametrize("seats", [2, 3], ids=["the-same", "other-arguments"])
def test_the_action_of_a_cancelled_run_is_not_done_again_while_its_attempt_may_still_act(
    harness: Harness, clock: StoppedClock, seats: int
) -> None:
    sent: list[str] = []
    travel = booking(harness, sent)
    cancelled_and_denied(harness, travel, clock, after=0)
    second = harness.run(travel, seats)
    assert (second.status, sent) == ("WAITING", ["t-1"])
    assert second.wake_at is not None
    clock.move_to_wall(second.wake_at)
    assert harness.resume(second.run_id).unwrap() == 2
    assert sent == ["t-1", "t-1"]


def test_the_name_is_given_up_with_the_verdict_where_nothing_can_act_any_more(
    harness: Harness, clock: StoppedClock
) -> None:
    sent: list[str] = []
    travel = booking(harness, sent)
    cancelled_and_denied(harness, travel, clock, after=SETTLE + 1)
    assert harness.run(travel, 3).unwrap() == 2
