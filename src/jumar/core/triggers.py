"""Which events keep a checkpoint, of which level, and how often a call is tried again.

A trigger is a rule: at this event, keep a checkpoint of this level, hot or cold.  The rules are a table with at most
one trigger an event, so asking whether an event keeps one is one look into a dict.  Without a configuration the table
is `DEFAULTS`; one that lists triggers has these alone.  Only a checkpoint that somebody asks for by hand is always
kept: `manual` can be given another level, and not be left out.

A version of a run has one checkpoint.  Of several for the same version the coarser level stays, and of two alike the
later one, so that of a step's end and the next one's start the start is kept.

`max_retries` bounds how often a call is tried again after a passing failure where its tool does not say so itself.
The nearest rule counts: the one for the kind of call (`before_write_operation`, `before_external_call`), then the one
for the step it is in (`before_planning_step`), the one for such failures (`on_retryable_error`), and the ones for the
whole run (`on_task_start`, `on_task_received`).  With the other events nothing is left to be tried, so there it
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from jumar.core.states import Effect, Level, Storage

ON_TASK_RECEIVED = "on_task_received"
ON_TASK_START = "on_task_start"
AFTER_PLANNING = "after_planning"
BEFORE_PLANNING_STEP = "before_planning_step"
BEFORE_WRITE_OPERATION = "before_write_operation"
BEFORE_EXTERNAL_CALL = "before_external_call"
AFTER_TOOL = "after_tool"
AFTER_PLANNING_STEP = "after_planning_step"
ON_RETRYABLE_ERROR = "on_retryable_error"
ON_TASK_END = "on_task_end"
MANUAL = "manual"

DEFAULT_RETRIES = 2

# Of each event, the level of its checkpoint where nothing else is said.
LEVELS: dict[str, Level] = {
    ON_TASK_RECEIVED: Level.TASK,
    ON_TASK_START: Level.TASK,
    AFTER_PLANNING: Level.TASK,
    BEFORE_PLANNING_STEP: Level.STEP,
    BEFORE_WRITE_OPERATION: Level.TOOL,
    BEFORE_EXTERNAL_CALL: Level.TOOL,
    AFTER_TOOL: Level.TOOL,
    AFTER_PLANNING_STEP: Level.STEP,
    ON_RETRYABLE_ERROR: Level.TOOL,
    ON_TASK_END: Level.TASK,
    MANUAL: Level.STEP,
}

# What happens before a call of each effect is sent; a read has nothing to be kept from.
BEFORE_CALL: dict[Effect, str] = {
    Effect.WRITE: BEFORE_WRITE_OPERATION,
    Effect.IDEMPOTENT: BEFORE_EXTERNAL_CALL,
    Effect.EXTERNAL: BEFORE_EXTERNAL_CALL,
}


class Trigger(Struct, frozen=True):
    """At `event`, keep a checkpoint of this level; `max_retries` of None says nothing about retries."""

    event: str
    level: Level
    storage: Storage = Storage.COLD
    max_retries: int | None = None


Triggers: TypeAlias = Mapping[str, Trigger]


def table(triggers: Iterable[Trigger]) -> Triggers:
    """The triggers by their events, each of which has one at most; `manual` is there in any case."""
    found = {trigger.event: trigger for trigger in triggers}
    found.setdefault(MANUAL, Trigger(MANUAL, LEVELS[MANUAL]))
    return found


DEFAULTS: Triggers = table(Trigger(event, level) for event, level in LEVELS.items())


def replaces(new: Level, old: Level) -> bool:
    """Whether of two checkpoints for one version the later one takes the place of the one there is."""
    return new <= old


def retries(triggers: Triggers, effect: Effect, *, in_step: bool) -> int:
    """How often a call is tried again whose tool does not say so."""
    asked = [BEFORE_CALL.get(effect), BEFORE_PLANNING_STEP if in_step else None]
    for event in (*asked, ON_RETRYABLE_ERROR, ON_TASK_START, ON_TASK_RECEIVED):
        trigger = None if event is None else triggers.get(event)
        if trigger is not None and trigger.max_retries is not None:
            return trigger.max_retries
    return DEFAULT_RETRIES
