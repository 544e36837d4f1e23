"""The name of an action: what a tool says that a call *is*, so that the same action is not done twice.

A name is taken when its call is sent, and held by that call.  It is given up again where the call surely did nothing:
rejected, undone, or failed.  A failed `idempotent` call gives it up only where the attempt was not applied, because any
other failure of it leaves open whether the service knows of the action.
"""

from __future__ import annotations

from jumar.core.limits import MAX_KEY
from jumar.core.naming import is_storable
from jumar.core.records import Failure
from jumar.core.states import Effect
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


def check_identity(tool: str, name: object) -> str:
    """`name` where it can be an identity: text of 1 to 256 characters that UTF-8 can hold; UsageError otherwise."""
    if isinstance(name, str) and 0 < len(name) <= MAX_KEY and is_storable(name):
        return name
    shown = repr(name)
    raise UsageError(
        f"the identity of {tool} is {shown if len(shown) <= 80 else shown[:79] + '…'}",
        hint=f"identity= answers a text of 1 to {MAX_KEY} characters that names the action, as in f'pay:{{invoice}}'.",
    )
