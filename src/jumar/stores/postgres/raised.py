"""What the functions of the database raise where a guard fails after something was written: SQLSTATEs of a class of our
own, with a JSON array of particulars for a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import psycopg

from jumar.core.changes import Refusal
from jumar.core.states import CallState, Status
from jumar.errors import IntegrityError
from jumar.stores import refusals
from jumar.stores.postgres.run_rows import run_of

CHECKPOINT = "JM005"


def _held(path: str, run_id: str, seq: int, run: list[Any]) -> Refusal:
    return refusals.path_held(bytes.fromhex(path), run_id, seq, run_of(run))


_REFUSALS: Mapping[str, Callable[..., Refusal]] = {
    "JM001": refusals.no_intent,
    "JM002": lambda call_id, state: refusals.cannot_begin(call_id, CallState(state)),
    "JM003": lambda seq, state: refusals.cannot_become(seq, CallState(state)),
    "JM004": lambda call_id, state, status: refusals.still_open(call_id, CallState(state), Status(status)),
    "JM006": _held,
    "JM007": refusals.not_ended,
}


def refusal(error: psycopg.Error) -> Refusal | None:
    """The refusal that an error stands for, or None; IntegrityError for a checkpoint that did not come back."""
    if error.sqlstate is None or not error.sqlstate.startswith("JM"):
        return None
    particulars = msgspec.json.decode(error.diag.message_primary or "[]")
    if error.sqlstate == CHECKPOINT:
        raise IntegrityError(
            f"checkpoint {particulars[0]} did not come back from the store as it was written"
        ) from error
    return _REFUSALS[error.sqlstate](*particulars)
