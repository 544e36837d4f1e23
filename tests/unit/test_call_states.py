"""The table of call states: every pair, and the masks that the stores guard with."""

from __future__ import annotations

from itertools import product

import pytest

from jumar.core.call_states import CALL_STATES, ENDED, STATE_BEFORE, STATE_FIRST, needs_started
from jumar.core.states import CallState, Effect

# Told once more as words, so that a slip in the table is seen.
FOLLOWERS = {
    "planned": "planned awaiting started succeeded failed uncertain",
    "awaiting": "planned awaiting started succeeded failed rejected",
    "started": "planned started succeeded failed uncertain",
    "uncertain": "planned awaiting started succeeded failed uncertain rejected",
    "succeeded": "compensated",
    "failed": "planned",
    "rejected": "",
    "compensated": "",
}
FIRST = "planned awaiting started succeeded failed uncertain"


@pytest.mark.parametrize(("before", "after"), list(product(CallState, CallState)), ids=lambda state: state.label)
def test_a_state_is_followed_by_those_of_the_protocol_alone(before: CallState, after: CallState) -> None:
    legal = after.label in FOLLOWERS[before.label].split()
    assert (after in CALL_STATES[before]) is legal
    assert bool(STATE_BEFORE[after] >> before & 1) is legal


def test_a_first_record_may_tell_of_anything_but_a_verdict_or_an_undoing() -> None:
    assert {state.label for state in CALL_STATES[None]} == set(FIRST.split())


def test_a_confirmed_effect_stays_confirmed_unless_it_is_undone() -> None:
    assert CALL_STATES[CallState.SUCCEEDED] == (CallState.COMPENSATED,)
    assert CALL_STATES[CallState.COMPENSATED] == ()


def test_a_call_that_ended_goes_on_only_to_be_undone_or_with_its_run_reopened() -> None:
    left = {(state, after) for state in ENDED for after in CALL_STATES[state]}
    assert left == {(CallState.SUCCEEDED, CallState.COMPENSATED), (CallState.FAILED, CallState.PLANNED)}


def test_what_was_started_can_become_uncertain() -> None:
    assert CallState.UNCERTAIN in CALL_STATES[CallState.STARTED]


@pytest.mark.parametrize("effect", Effect, ids=lambda effect: effect.label)
def test_only_a_read_goes_out_unannounced(effect: Effect) -> None:
    assert needs_started(effect) is (effect.label != "read")


@pytest.mark.parametrize("state", CallState, ids=lambda state: state.label)
def test_the_mask_of_first_states_holds_what_the_table_says(state: CallState) -> None:
    assert bool(STATE_FIRST >> state & 1) is (state in CALL_STATES[None])
