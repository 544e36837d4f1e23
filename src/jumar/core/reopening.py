"""Taking a failed run up again where it failed.

The calls that a run failed with are made again, their attempts counted on.  That is sound only where nothing that
acts was begun after them by the code that had seen them fail: it would be left without the failure that it answered
to.  So a later call that is not a read, in the branch of the failed call or in one around it, forbids it.
"""

from __future__ import annotations

from collections.abc import Sequence

from jumar.core.changes import CallChange
from jumar.core.checksums import call_checksum
from jumar.core.records import CallRecord, RunRecord
from jumar.core.states import CallState, Effect
from jumar.errors import CannotReopen


def reopened(run: RunRecord, calls: Sequence[CallRecord]) -> tuple[CallChange, ...]:
    """What a claim changes of the calls a FAILED run failed with; CannotReopen where a thing might be done twice."""
    numbers = frozenset(run.failed_calls)
    failed = [call for call in calls if call.seq in numbers and _is_failed(call)]
    for call in failed:
        later = next((other for other in calls if _was_begun_after(other, call)), None)
        if later is not None:
            raise CannotReopen(
                f"run {run.run_id} failed with call {call.call_id}, and {later.call_id} ({later.effect.label}) was "
                "begun after it"
            )
    return tuple(_planned(call) for call in failed)


def _is_failed(call: CallRecord) -> bool:
    return call.state is CallState.FAILED and not (call.failure is not None and call.failure.cancelled)


def _was_begun_after(other: CallRecord, failed: CallRecord) -> bool:
    if other.effect is Effect.READ or other.started_version <= (failed.ended_version or 0):
        return False
    return encloses(other.branch, failed.branch)


def encloses(outer: str, inner: str) -> bool:
    """Whether the branch with path `outer` is `inner`, or one around it."""
    return not outer or inner == outer or inner.startswith(f"{outer}.")


def _planned(call: CallRecord) -> CallChange:
    checksum = call_checksum(
        call.call_id,
        call.args_digest,
        call.kind,
        call.effect,
        CallState.PLANNED,
        call.result or call.result_artifact,
        None,
    )
    return CallChange(
        seq=call.seq, state=CallState.PLANNED, attempt=call.attempt, epoch=call.epoch, failure=None, checksum=checksum
    )
