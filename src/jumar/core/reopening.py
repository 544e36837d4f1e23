"""Taking a failed run up again where it failed.

The calls that a run failed with are made again, their attempts counted on.  That is sound only where nothing that
acts was begun after them by the code that had seen them fail: it would be left without the failure that it answered
to.  So a later call that is not a read forbids it, wherever it is but in a branch beside that of the failed call.
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
    return not is_beside(other.branch, failed.branch)


def is_beside(one: str, failed: str) -> bool:
    """Whether the branch with path `one` goes its own way beside the one with path `failed`: as another item of the
    same gather or map, or as a step in a thread or task of its own.

    Anything else is the same code at another time: the branch itself, one around it, or the items of a gather or map
    that either of these came to.
    """
    theirs, ours = one.split(".") if one else [], failed.split(".") if failed else []
    common = next((place for place, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1]), None)
    if common is None:
        theirs, ours = theirs[len(ours) :], ours[len(theirs) :]
    else:
        theirs, ours = theirs[common:], ours[common:]
    if not theirs:
        return False
    fan, is_item, _ = theirs[0].rpartition(":")
    if not is_item:
        return len(theirs) == 1
    return bool(ours) and ours[0].rpartition(":")[0] == fan


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
