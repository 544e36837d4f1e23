"""Which events keep a checkpoint, which of two stays, and how often a call is tried again."""

from __future__ import annotations

import pytest

from jumar.core import triggers
from jumar.core.states import Effect, Level, Storage
from jumar.core.triggers import DEFAULTS, LEVELS, Trigger, replaces, retries, table


def test_without_a_file_every_event_keeps_a_cold_checkpoint_of_its_own_level() -> None:
    assert {event: trigger.level for event, trigger in DEFAULTS.items()} == LEVELS
    assert {trigger.storage for trigger in DEFAULTS.values()} == {Storage.COLD}
    assert {trigger.max_retries for trigger in DEFAULTS.values()} == {None}


def test_the_three_levels_and_the_five_risks_are_there_by_default() -> None:
    by_level = {level: {event for event, each in LEVELS.items() if each is level} for level in Level}
    assert by_level[Level.TASK] == {"on_task_received", "on_task_start", "after_planning", "on_task_end"}
    assert by_level[Level.STEP] == {"before_planning_step", "after_planning_step", "manual"}
    assert by_level[Level.TOOL] >= {"before_write_operation", "before_external_call", "after_tool"}
    risks = {"before_write_operation", "before_external_call", "after_planning_step", "on_retryable_error", "manual"}
    assert risks <= DEFAULTS.keys()


def test_a_list_of_triggers_has_these_alone_and_what_is_asked_for_by_hand() -> None:
    found = table([Trigger("after_tool", Level.TOOL)])
    assert set(found) == {"after_tool", "manual"}
    assert found["manual"] == Trigger("manual", Level.STEP)
    assert table([Trigger("manual", Level.TASK, Storage.HOT)])["manual"] == Trigger("manual", Level.TASK, Storage.HOT)
    assert set(table([])) == {"manual"}


@pytest.mark.parametrize("old", Level, ids=lambda level: level.label)
@pytest.mark.parametrize("new", Level, ids=lambda level: level.label)
def test_of_two_for_one_version_the_coarser_stays_and_of_two_alike_the_later(new: Level, old: Level) -> None:
    coarse = [Level.TASK, Level.STEP, Level.TOOL]
    assert replaces(new, old) == (coarse.index(new) <= coarse.index(old))


def test_every_effect_but_a_read_has_an_event_before_it() -> None:
    assert set(triggers.BEFORE_CALL) == set(Effect) - {Effect.READ}
    assert triggers.BEFORE_CALL[Effect.WRITE] == "before_write_operation"
    assert {triggers.BEFORE_CALL[each] for each in (Effect.EXTERNAL, Effect.IDEMPOTENT)} == {"before_external_call"}


# From the rule that is nearest to a call to the one that is farthest away, each with a number of its own.
NEAREST_FIRST = {
    Effect.READ: ("before_planning_step", "on_retryable_error", "on_task_start", "on_task_received"),
    Effect.WRITE: ("before_write_operation", "before_planning_step", "on_retryable_error", "on_task_start"),
    Effect.EXTERNAL: ("before_external_call", "before_planning_step", "on_retryable_error", "on_task_start"),
    Effect.IDEMPOTENT: ("before_external_call", "before_planning_step", "on_retryable_error", "on_task_start"),
}


@pytest.mark.parametrize("effect", Effect, ids=lambda effect: effect.label)
def test_the_nearest_rule_says_how_often_a_call_is_tried_again(effect: Effect) -> None:
    order = NEAREST_FIRST[effect]
    for given in range(len(order)):
        found = table(Trigger(event, LEVELS[event], max_retries=10 + n) for n, event in enumerate(order) if n >= given)
        assert retries(found, effect, in_step=True) == 10 + given
    assert retries(table([]), effect, in_step=True) == 2


@pytest.mark.parametrize("effect", Effect, ids=lambda effect: effect.label)
def test_what_is_said_of_steps_holds_for_no_call_outside_of_one(effect: Effect) -> None:
    found = table([Trigger("before_planning_step", Level.STEP, max_retries=7)])
    assert (retries(found, effect, in_step=True), retries(found, effect, in_step=False)) == (7, 2)


def test_a_rule_that_says_nothing_of_retries_leaves_it_to_the_next_one_and_zero_is_something() -> None:
    silent = Trigger("before_external_call", Level.TOOL)
    assert (
        retries(
            table([silent, Trigger("on_retryable_error", Level.TOOL, max_retries=5)]), Effect.EXTERNAL, in_step=False
        )
        == 5
    )
    none = table([Trigger("before_external_call", Level.TOOL, max_retries=0)])
    assert retries(none, Effect.EXTERNAL, in_step=False) == 0


@pytest.mark.parametrize("event", ["after_planning", "after_tool", "after_planning_step", "on_task_end", "manual"])
def test_after_what_has_ended_nothing_is_tried_again(event: str) -> None:
    found = table([Trigger(event, LEVELS[event], max_retries=9)])
    assert {retries(found, effect, in_step=True) for effect in Effect} == {2}
