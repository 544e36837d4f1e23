"""Which state of a call may follow which.

SUCCEEDED never changes, except to COMPENSATED: a confirmed effect stays confirmed.  None stands for a call that has
no row yet.  AWAITING is a call that waits for a person, a time, or another run that holds its identity; a call that
may have happened goes there too, once it is known that it did not and a new approval is needed.  FAILED goes back to
PLANNED where a failed run is reopened.  STARTED goes back to PLANNED where an attempt surely was not applied (or may
be repeated) and another is to come, so that a crash meanwhile leaves nothing uncertain.  As with the phases, the
store guards with masks made from this one table.
"""

from __future__ import annotations

from jumar.core.states import CallState, Effect, mask

CALL_STATES: dict[CallState | None, tuple[CallState, ...]] = {
    None: (
        CallState.PLANNED,
        CallState.AWAITING,
        CallState.STARTED,
        CallState.SUCCEEDED,
        CallState.FAILED,
        CallState.UNCERTAIN,
    ),
    CallState.PLANNED: (
        CallState.PLANNED,
        CallState.AWAITING,
        CallState.STARTED,
        CallState.SUCCEEDED,
        CallState.FAILED,
        CallState.UNCERTAIN,
    ),
    CallState.AWAITING: (
        CallState.PLANNED,
        CallState.AWAITING,
        CallState.STARTED,
        CallState.SUCCEEDED,
        CallState.FAILED,
        CallState.REJECTED,
    ),
    CallState.STARTED: (
        CallState.PLANNED,
        CallState.STARTED,
        CallState.SUCCEEDED,
        CallState.FAILED,
        CallState.UNCERTAIN,
    ),
    CallState.UNCERTAIN: (
        CallState.PLANNED,
        CallState.AWAITING,
        CallState.STARTED,
        CallState.SUCCEEDED,
        CallState.FAILED,
        CallState.UNCERTAIN,
        CallState.REJECTED,
    ),
    CallState.FAILED: (CallState.PLANNED,),
    CallState.REJECTED: (),
    CallState.SUCCEEDED: (CallState.COMPENSATED,),
    CallState.COMPENSATED: (),
}

ENDED: frozenset[CallState] = frozenset(
    {CallState.SUCCEEDED, CallState.FAILED, CallState.REJECTED, CallState.COMPENSATED}
)

STATE_FIRST: int = mask(*CALL_STATES[None])
STATE_BEFORE: dict[CallState, int] = {
    after: mask(*(before for before, followers in CALL_STATES.items() if before is not None and after in followers))
    for after in CallState
}

_READ = Effect.READ


def needs_started(effect: Effect) -> bool:
    """Whether a call of this effect commits STARTED before it is sent; repeating a read does no harm, so it need
    not.
    """
    return effect is not _READ
