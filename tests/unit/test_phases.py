"""The tables of phases and statuses: every pair, and the masks that the stores guard with."""

from __future__ import annotations

from itertools import product

import pytest

from jumar.core.phases import (
    CLAIMABLE,
    FINAL,
    ORDERABLE,
    PHASE_BEFORE,
    PHASES,
    STATUS_BEFORE,
    STATUSES,
    UNASKED,
    check_phase,
)
from jumar.core.states import Control, Phase, Status, mask
from jumar.errors import IllegalTransition

# Told once more as words, so that a slip in the table is seen. What may follow a phase, beside the phase itself:
FOLLOWERS = {
    "ready-to-decide": "decision-recorded stopped",
    "decision-recorded": "awaiting-results results-recorded verifying stopped",
    "awaiting-results": "results-recorded stopped",
    "results-recorded": "ready-to-decide verifying stopped",
    "verifying": "ready-to-decide stopped",
    "in-code": "stopped",
    "stopped": "",
}
AFTER_STATUS = {
    "queued": "running paused cancelled",
    "running": "running queued waiting paused failed completed cancelled",
    "waiting": "queued running paused cancelled",
    "paused": "queued running cancelled",
    "failed": "queued running",
    "completed": "",
    "cancelled": "",
}


@pytest.mark.parametrize(("before", "after"), list(product(Phase, Phase)), ids=lambda phase: phase.label)
def test_a_phase_is_followed_by_those_of_the_protocol_alone(before: Phase, after: Phase) -> None:
    stays = before is after
    legal = stays or after.label in FOLLOWERS[before.label].split()
    if legal:
        check_phase(before, after)
        return
    with pytest.raises(IllegalTransition, match=f"in phase {before.label} cannot go to {after.label}"):
        check_phase(before, after)


@pytest.mark.parametrize(("before", "after"), list(product(Phase, Phase)), ids=lambda phase: phase.label)
def test_the_mask_of_a_phase_holds_what_the_table_says(before: Phase, after: Phase) -> None:
    in_table = after in PHASES[before] or before is after
    assert bool(PHASE_BEFORE[after] >> before & 1) is in_table


@pytest.mark.parametrize(("before", "after"), list(product(Status, Status)), ids=lambda status: status.label)
def test_a_status_is_followed_by_those_of_the_protocol_alone(before: Status, after: Status) -> None:
    legal = after.label in AFTER_STATUS[before.label].split()
    assert (after in STATUSES[before]) is legal
    assert bool(STATUS_BEFORE[after] >> before & 1) is legal


def test_every_phase_and_status_has_its_line_in_the_table() -> None:
    assert set(PHASES) == set(PHASE_BEFORE) == set(Phase)
    assert set(STATUSES) == set(STATUS_BEFORE) == set(Status)


def test_what_is_final_is_left_by_nothing_and_claimed_by_nobody() -> None:
    assert {Status.COMPLETED, Status.CANCELLED} == FINAL
    assert all(STATUSES[status] == () for status in FINAL)
    assert not CLAIMABLE & FINAL
    assert all(Status.RUNNING in STATUSES[status] for status in CLAIMABLE)


def test_a_stopped_run_has_no_way_back() -> None:
    assert PHASES[Phase.STOPPED] == ()
    assert [after for after in Phase if PHASE_BEFORE[after] >> Phase.STOPPED & 1] == [Phase.STOPPED]


def test_a_mask_has_one_bit_a_member() -> None:
    assert mask() == 0
    assert mask(Phase.READY_TO_DECIDE, Phase.IN_CODE) == 0b100_0001
    assert mask(*Phase) == 2 ** len(Phase) - 1


def test_nothing_that_failed_or_was_paused_is_taken_up_unasked_nor_anything_that_ended() -> None:
    assert {status.label for status in UNASKED} == {"queued", "running", "waiting"}


def test_an_order_is_carried_out_where_there_is_something_to_pause_or_to_end() -> None:
    assert {status.label for status in ORDERABLE[Control.PAUSE]} == {"queued", "running", "waiting"}
    assert {status.label for status in ORDERABLE[Control.CANCEL]} == {
        "queued",
        "running",
        "waiting",
        "paused",
        "failed",
    }
