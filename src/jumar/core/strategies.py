"""What is done about a failure: two small tables, and where a rollback returns to.

Of a call: `STRATEGIES` has, for each effect and class of error, whether its files are put back and it is made again
(rollback), it is made again as it is (retry), or the failure is told and the run goes on (forward).  What a tool, a
step or a single call says itself comes first, the nearest of these counting.

Of a run that has failed, `of_run` chooses by the class of its error: what is polluted is rolled back; of a batch that
is done in part the rest is made (forward); anything else is taken up again where it failed (retry).

How far a rollback returns follows the class too: a bad plan, or an output that was never accepted, to the task; a call
that failed, to the start of its step; a half-done write, to what was before that call.
"""

from __future__ import annotations

from collections.abc import Sequence

from jumar.core.records import CallRecord
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, Level, Strategy
from jumar.core.uncertain import Ended, Judgement, judge

_RETRIED = {
    ErrorClass.TRANSIENT: Strategy.RETRY,
    ErrorClass.RATE_LIMITED: Strategy.RETRY,
    ErrorClass.PERMANENT: Strategy.FORWARD,
    ErrorClass.POLLUTED: Strategy.ROLLBACK,
    ErrorClass.PARTIAL: Strategy.FORWARD,
    ErrorClass.BUDGET: Strategy.FORWARD,
    ErrorClass.CANCELLED: Strategy.FORWARD,
}

STRATEGIES: dict[Effect, dict[ErrorClass, Strategy]] = {
    Effect.READ: _RETRIED,
    Effect.WRITE: dict.fromkeys(ErrorClass, Strategy.ROLLBACK),
    Effect.IDEMPOTENT: _RETRIED,
    Effect.EXTERNAL: _RETRIED,  # a retry only of what surely was not applied: `core.uncertain` says when
}

_RUNS: dict[ErrorClass, Strategy] = {
    **dict.fromkeys(ErrorClass, Strategy.RETRY),
    ErrorClass.POLLUTED: Strategy.ROLLBACK,
    ErrorClass.PARTIAL: Strategy.FORWARD,
}


def of_call(effect: Effect, error_class: ErrorClass, *said: Strategy | None) -> Strategy:
    """What is done about a call that failed so; `said` is what the call, its tool and its step say, nearest first."""
    for strategy in said:
        if strategy is not None:
            return strategy
    return STRATEGIES[effect][error_class]


def is_made_again(effect: Effect, ended: Ended, said: Strategy | None) -> bool:
    """Whether a call that ended so, and did not happen, is made again while attempts are left; `said` is what the call,
    its tool or its step says.  Asked to retry it is made again after any error, an external one only where it surely
    did not happen.
    """
    judgement = judge(effect, ended)
    if said is None:
        return judgement is Judgement.RETRY
    if said is not Strategy.RETRY:
        return False
    return judgement is Judgement.RETRY or (ended is Ended.LASTING and effect is not Effect.EXTERNAL)


def of_run(error_class: ErrorClass | None, said: Strategy | None = None) -> Strategy:
    """What is done about a run that failed with an error of this class."""
    if said is not None:
        return said
    return Strategy.RETRY if error_class is None else _RUNS[error_class]


def makes_again(error_class: ErrorClass | None, strategy: Strategy) -> bool:
    """Whether a failed run makes the calls again that it failed with.  Going forward it does so with what is left of a
    batch; any other failure stands then, and is for the agent to deal with.
    """
    return strategy is Strategy.RETRY or (strategy is Strategy.FORWARD and error_class is ErrorClass.PARTIAL)


def level_of(failed: Sequence[CallRecord]) -> Level:
    """How far a rollback of a run returns that failed with these calls."""
    if not failed or any(call.kind is CallKind.DECISION for call in failed):
        return Level.TASK
    if all(_is_half_done(call) for call in failed):
        return Level.TOOL
    return Level.STEP


def _is_half_done(call: CallRecord) -> bool:
    """Whether a write has left its files between what they were and what they were to be."""
    return call.effect is Effect.WRITE and call.state is CallState.UNCERTAIN
