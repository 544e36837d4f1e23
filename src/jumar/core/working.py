"""What a worker goes by: when it looks for runs again, and when it gives one up.

A worker is told of runs that have become due, knows when the next one does by time alone, and looks from time to time
behind both, since it may not be told.

A run that takes its process with it, each time again, is not tried for ever: a claim counts how many processes have
ended under the run since it last recorded something new (`RunRecord.crashes`), and at so many of them it fails and
waits for a person.  Somebody who then resumes it starts the count anew.  The runs beside such a one in its process are
counted with it; so of those that have crashed more than once a process drives one at a time, until that one records
something new, and the innocent are told from the guilty.
"""

from __future__ import annotations

from collections.abc import Sequence

from jumar.core.call_states import ENDED
from jumar.core.changes import Advance, Answer, Arrive, Change, Create, Order
from jumar.core.records import CallRecord, RunRecord
from jumar.core.states import CallState, Control, Status

DEFAULT_MAX_CRASHES = 5
DEFAULT_POLL = 1.0  # seconds
DEFAULT_GRACE = 30.0  # seconds
DEFAULT_CONCURRENCY = 4

_LEAST_PAUSE = 0.005  # seconds: a clock that ticks in milliseconds says "now" a little early
_FIRST_DELAY, _LONGEST_DELAY = 0.5, 300.0  # seconds that a run, or a store, which cannot be used is left alone
_MOST_DOUBLINGS = 12
_SUSPECT_AFTER = 2  # crashes; a single one may be a host's, after which all runs must go on at once


def may_make_due(change: Change) -> bool:
    """Whether a run may be due at once because this change was made."""
    if isinstance(change, Create):
        return change.owner is None
    if isinstance(change, Advance):
        return change.ending is not None and change.ending.status in (Status.QUEUED, Status.WAITING)
    return isinstance(change, (Answer, Order, Arrive))


def waits(run: RunRecord, wall_ms: int) -> bool:
    """Whether a run waits for somebody, or for a later time, and nobody has ordered it to stop meanwhile."""
    if run.status is not Status.WAITING or run.control is not Control.NONE:
        return False
    return run.wake_at is None or run.wake_at > wall_ms


def pause_before_looking(next_due_ms: int | None, poll: float) -> float:
    """For how many seconds a worker that found nothing waits at most before it looks again.

    Where a run is due already and the worker did not take it (it is another's, or not one that it can run), that is no
    reason to look more often.
    """
    if next_due_ms is None or next_due_ms <= 0:
        return poll
    return min(poll, max(_LEAST_PAUSE, next_due_ms / 1000))


def delay_after(failures: int) -> float:
    """For how many seconds something is left alone that has failed so many times in a row."""
    return min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** min(max(0, failures - 1), _MOST_DOUBLINGS))


# --- Giving a run up. ------------------------------------------------------------------------------------------------


def is_given_up(run: RunRecord, max_crashes: int) -> bool:
    """Whether a run that was just claimed has taken enough processes with it."""
    return run.crashes >= max_crashes


def is_suspect(run: RunRecord, newest_seq: int = 0) -> bool:
    """Whether the run may be what ends its process; `newest_seq` is the number of the newest call it has recorded."""
    return run.crashes >= _SUSPECT_AFTER and newest_seq <= run.crash_seq


def leaves_files(run: RunRecord, max_crashes: int) -> bool:
    """Whether half-done writes of a run that is given up stay as they are: putting them back is what its process ended
    in the last time, or one before.
    """
    return run.crashes > max_crashes


def told_of_crashes(run: RunRecord, calls: Sequence[CallRecord]) -> str:
    """How often a run's processes ended, and at what, for the person who is to look at it."""
    times = "once" if run.crashes == 1 else f"{run.crashes} times"
    return (
        f"the process that drove the run ended, or lost its lease, {times} {_where(run, calls)}; "
        "it is not taken up by itself any more: find out what ends the process, then resume the run"
    )


def _where(run: RunRecord, calls: Sequence[CallRecord]) -> str:
    if run.intent is not None:
        return "while the run was being rolled back"
    doubtful = [call for call in calls if call.state in (CallState.UNCERTAIN, CallState.STARTED)]
    if doubtful:
        newest = max(doubtful, key=lambda call: (call.epoch, call.seq))
        return f"without recording anything new, the last time in call {newest.call_id}"
    ended = [call for call in calls if call.state in ENDED]
    if ended:
        return f"without recording anything new, after call {max(ended, key=lambda call: call.seq).call_id}"
    return "before it had recorded any call"
