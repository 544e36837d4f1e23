"""What an attempt's end means, by effect, and what becomes of a call that may have happened.

Two tables.  `judge` reads how an attempt ended; `RESOLUTION` says how a call left UNCERTAIN, by a crash, an exception
or a timeout, is settled.  They are where "never repeat a confirmed effect, never guess at an unknown one" is written.
"""

from __future__ import annotations

from enum import Enum

from jumar.core.records import CallRecord
from jumar.core.states import CallState, Effect


class Ended(Enum):
    """How an attempt ended, as far as the caller can tell."""

    RETURNED = "returned"
    NOT_SENT = "not sent"  # past its dispatch-by deadline: never left this process
    NOT_APPLIED = "not applied"  # NotApplied, or a type the tool lists in not_applied=
    DECLARED = "declared"  # a type the tool lists in errors=
    PASSING = "passing"  # transient or rate-limited
    LASTING = "lasting"  # any other exception
    TIMED_OUT = "timed out"


class Judgement(Enum):
    """What to do about an attempt's end."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRY = "retry"  # while attempts are left, else FAILED
    UNCERTAIN = "uncertain"


_SAFE_TO_REPEAT = {
    Ended.RETURNED: Judgement.SUCCEEDED,
    Ended.NOT_SENT: Judgement.RETRY,
    Ended.NOT_APPLIED: Judgement.RETRY,
    Ended.DECLARED: Judgement.FAILED,
    Ended.PASSING: Judgement.RETRY,
    Ended.LASTING: Judgement.FAILED,
    Ended.TIMED_OUT: Judgement.RETRY,
}

JUDGEMENTS: dict[Effect, dict[Ended, Judgement]] = {
    Effect.READ: _SAFE_TO_REPEAT,
    Effect.IDEMPOTENT: _SAFE_TO_REPEAT,
    Effect.WRITE: {
        **_SAFE_TO_REPEAT,
        Ended.PASSING: Judgement.UNCERTAIN,
        Ended.LASTING: Judgement.UNCERTAIN,
        Ended.TIMED_OUT: Judgement.UNCERTAIN,
    },
    Effect.EXTERNAL: {
        **_SAFE_TO_REPEAT,
        Ended.PASSING: Judgement.UNCERTAIN,
        Ended.LASTING: Judgement.UNCERTAIN,
        Ended.TIMED_OUT: Judgement.UNCERTAIN,
    },
}


class Resolution(Enum):
    """How an UNCERTAIN call is settled."""

    AGAIN = "again"  # the same call id, attempt + 1
    AGAIN_SAME_KEY = "again with the same key"
    PUT_BACK = "put the files back, then again"
    ASK = "ask the probe, else a person"


RESOLUTION: dict[Effect, Resolution] = {
    Effect.READ: Resolution.AGAIN,
    Effect.IDEMPOTENT: Resolution.AGAIN_SAME_KEY,
    Effect.WRITE: Resolution.PUT_BACK,
    Effect.EXTERNAL: Resolution.ASK,
}


def judge(effect: Effect, ended: Ended) -> Judgement:
    """What an attempt of this effect that ended so amounts to."""
    return JUDGEMENTS[effect][ended]


def leaves_no_file(call: CallRecord) -> bool:
    """Whether a call surely leaves no file changed: it was never sent, or it is a write that is put back before its run
    goes on.
    """
    if call.effect is Effect.WRITE and call.state is CallState.UNCERTAIN:
        return True
    return call.state in (CallState.PLANNED, CallState.AWAITING) and call.attempt == 0


def over_at(record: CallRecord, boot: bytes) -> int | None:
    """When the last attempt of a call was over, on the lease clock of this `boot`, by its row: where the host was
    started anew since, it ended with the boot before; None where nobody knows.
    """
    return record.over_at if record.boot == boot else 0


def sure_of_not_happened_at(
    *, ended_at: int | None, dispatch_by: int, timeout_ms: int | None, stall_ms: int, settle_ms: int
) -> int:
    """The lease-clock millisecond from which "it did not happen" may be believed.

    Before it the attempt, or a request it sent, may still act.  `ended_at` is when the attempt's own thread ended,
    where this process knows; unknown, the attempt is taken to run until its dispatch-by deadline plus its timeout.
    """
    if ended_at is None:
        ended_at = dispatch_by + (timeout_ms if timeout_ms is not None else stall_ms)
    return ended_at + settle_ms
