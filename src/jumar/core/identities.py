"""The name of an action: what a tool says that a call *is*, so that the same action is not done twice.

A name is taken when its call is sent, and held by that call.  It is given up again where the call surely did nothing:
rejected, undone, or failed.  A failed `idempotent` call gives it up only where the attempt was not applied, because any
other failure of it leaves open whether the service knows of the action.
"""

from __future__ import annotations

from enum import Enum

from jumar.core.limits import MAX_KEY
from jumar.core.naming import is_storable
from jumar.core.records import CallRecord, Failure
from jumar.core.states import CallState, Effect
from jumar.core.uncertain import Ended
from jumar.errors import UsageError

_SURELY_NOT = frozenset({Ended.NOT_APPLIED, Ended.NOT_SENT})


def is_freed(effect: Effect, ended: Ended) -> bool:
    """Whether an attempt of this effect that ended so, with a failure, lets its call give its name up."""
    return effect is not Effect.IDEMPOTENT or ended in _SURELY_NOT


def did_nothing(effect: Effect, attempt: int, failure: Failure | None) -> bool:
    """Whether a call that is not under way, and has not succeeded, surely did nothing with its `attempt` attempts, of
    which the last failed with `failure`.  Only an `idempotent` call is tried again without that being known.
    """
    if effect is not Effect.IDEMPOTENT or attempt == 0:
        return True
    return attempt == 1 and failure is not None and failure.type_name == "NotApplied"


class Standing(Enum):
    """What the call that holds a name means for another one that asks for the same action."""

    DONE = "done"  # its result is the other's too
    CONFLICT = "conflict"  # the action was asked for with other arguments
    GONE = "gone"  # the other may take its place
    GONE_ONCE_SURE = "gone once sure"  # so, but only when nothing of its attempt can act any more
    UNDER_WAY = "under way"  # the other waits


def standing(holder: CallRecord, same_arguments: bool) -> Standing:
    """Where the holder of a name stands.  Repeating a failed `idempotent` call with the same arguments adds nothing, as
    the service knows it by the same key.  An `external` one holds its name after its end only where somebody said,
    when its run had ended, that it did not happen.
    """
    if holder.state in (CallState.SUCCEEDED, CallState.COMPENSATED):
        return Standing.DONE if same_arguments else Standing.CONFLICT
    if holder.state not in (CallState.FAILED, CallState.REJECTED):
        return Standing.UNDER_WAY
    if holder.effect is Effect.EXTERNAL:
        return Standing.GONE_ONCE_SURE
    return Standing.GONE if same_arguments else Standing.CONFLICT


def check_identity(tool: str, name: object) -> str:
    """`name` where it can be an identity: text of 1 to 256 characters that UTF-8 can hold; UsageError otherwise."""
    if isinstance(name, str) and 0 < len(name) <= MAX_KEY and is_storable(name):
        return name
    shown = repr(name)
    raise UsageError(
        f"the identity of {tool} is {shown if len(shown) <= 80 else shown[:79] + '…'}",
        hint=f"identity= answers a text of 1 to {MAX_KEY} characters that names the action, as in f'pay:{{invoice}}'.",
    )
