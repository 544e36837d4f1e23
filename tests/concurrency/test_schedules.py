"""Two workers and an operator on one run, in every order: see `jumar.testing.schedules`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest import MonkeyPatch

from jumar.core.call_states import STATE_BEFORE
from jumar.core.changes import Guard
from jumar.core.states import CallState
from jumar.stores.sqlite import tables, writes
from jumar.testing import conformance_rules, schedules_driver
from jumar.testing.conformance_rules_taking import Refused
from jumar.testing.schedules import BEGINNINGS, Broken, explore


@pytest.mark.parametrize(
    ("depth", "fewest"), [(6, 500), pytest.param(8, 2000, marks=pytest.mark.sweep)], ids=["six-steps", "eight-steps"]
)
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_no_order_of_steps_doubles_loses_or_strands_anything(beginning: str, depth: int, fewest: int) -> None:
    states, steps = explore(beginning, depth)
    print(f"{states} states, {steps} steps")
    assert states > fewest, "the explorer has hardly been anywhere"


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_the_shortest_ways_are_walked_too(beginning: str) -> None:
    assert explore(beginning, 0)[0] == 1
    assert explore(beginning, 1)[0] > 1


# --- The explorer's own test: what is broken on purpose is found. ---


def _without(name: str, guard: str, instead: str = "") -> Callable[[MonkeyPatch], None]:
    """A statement of SQLite's without one of its guards; the model keeps it."""

    def break_it(patch: MonkeyPatch) -> None:
        whole = tables.SQL[name]
        assert guard in whole
        patch.setitem(tables.SQL, name, whole.replace(guard, instead))
        patch.setattr(writes, "_ADVANCE", tables.SQL["run_advance"])
        patch.setattr(writes, "_ADVANCE_QUIETLY", tables.SQL["run_advance_quietly"])

    return break_it


def _claims_mark_nothing(patch: MonkeyPatch) -> None:
    patch.setattr(writes, "_mark", lambda connection, run: [])
    patch.setattr(conformance_rules, "_left_behind", lambda call, phase, epoch: None)


def _orders_are_overlooked(patch: MonkeyPatch) -> None:
    """No leaving advance is guarded by what the driver has seen, in the store and in the model."""
    _without("run_leave", "AND control = :control AND answers = :answers")(patch)
    real = conformance_rules._check_advance

    def unguarded(run: Any, advance: Any, now: Any) -> None:
        try:
            real(run, advance, now)
        except Refused as refused:
            if refused.guard is not Guard.NEWS:
                raise

    patch.setattr(conformance_rules, "_check_advance", unguarded)


def _confirmed_calls_may_begin_again(patch: MonkeyPatch) -> None:
    """A driver that thinks nothing of what is recorded, and a store that lets it."""
    patch.setattr(schedules_driver, "_complete", schedules_driver.again)
    patch.setitem(STATE_BEFORE, CallState.STARTED, STATE_BEFORE[CallState.STARTED] | 1 << CallState.SUCCEEDED)


def _answers_wake_nobody(patch: MonkeyPatch) -> None:
    text = tables.SQL["run_answered"]
    wakes = "status = CASE WHEN status = 2 THEN 0 ELSE status END"
    assert wakes in text
    patch.setitem(tables.SQL, "run_answered", text.replace(wakes, "status = status"))


BREAKS: dict[str, Callable[[MonkeyPatch], None]] = {
    "an advance under an epoch that is over": _without(
        "run_advance", "AND owner = ? AND epoch = ?", "AND ? <> '' AND ? > 0"
    ),
    "a renewal of a lease that has run out": _without("run_renew", "AND lease_until > :now"),
    "a claim of a live lease": _without("run_claim", "AND (owner IS NULL OR boot <> :boot OR lease_until <= :now)"),
    "leaving without a look at the answers": _without("run_leave", "AND control = :control AND answers = :answers"),
    "claims that mark nothing, in both stores": _claims_mark_nothing,
    "orders that are overlooked, in both stores": _orders_are_overlooked,
    "confirmed calls that begin again": _confirmed_calls_may_begin_again,
    "answers that wake nobody": _answers_wake_nobody,
}


@pytest.mark.parametrize("name", BREAKS, ids=lambda name: name.replace(" ", "-"))
def test_what_is_broken_on_purpose_is_found(name: str, monkeypatch: MonkeyPatch) -> None:
    BREAKS[name](monkeypatch)
    found = []
    for beginning in BEGINNINGS:
        try:
            explore(beginning, 6)
        except Broken as broken:
            found.append(str(broken))
    print(*found, sep="\n")
    assert found, f"nobody noticed {name}"
