"""Giving up a run that has taken too many processes with it.

It was claimed like any other, so what was in flight is UNCERTAIN.  No code of its agent runs any more: half-done
writes are put back, a person is asked about what may have happened outside, and the run is FAILED, with its reason.
Where putting the files back is what ended a process, the next claim leaves them as they are, so that a run is not tried
for ever in that way either.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from jumar.core.changes import Ending
from jumar.core.failures import short_message
from jumar.core.leaving import LeftBehind, left_behind
from jumar.core.records import EventRecord
from jumar.core.requests import Flow, Load
from jumar.core.states import ErrorClass, EventKind, Status
from jumar.core.working import leaves_files, told_of_crashes
from jumar.engine.flows.advance import advance, leave
from jumar.engine.flows.ended import Ended, reread
from jumar.engine.flows.orders import obey
from jumar.engine.logs import WARNING, log
from jumar.errors import JumarError, Stopped, WorkerCrashed

if TYPE_CHECKING:
    from jumar.engine.live import LiveRun


def give_up(live: LiveRun, max_crashes: int) -> Flow[Ended]:
    """Leave a run that was just claimed FAILED, or as it was ordered."""
    try:
        return (yield from _given_up(live, max_crashes))
    except Stopped as stopped:
        if stopped.error is None:
            raise
        raise stopped.error from None


def _given_up(live: LiveRun, max_crashes: int) -> Flow[Ended]:
    run_no, rolls_back = live.run.run_no, live.run.intent is not None
    live.defers = rolls_back  # orders wait until that is over
    if live.run.workspace is not None and not rolls_back and not leaves_files(live.run, max_crashes):
        from jumar.engine.flows.putting_back import settle_writes  # which a run without files never needs

        with suppress(JumarError):
            yield from settle_writes(live)
    calls = yield from Load(lambda store: store.calls(run_no))
    requests = yield from Load(lambda store: store.requests(run_no))
    error = WorkerCrashed(told_of_crashes(live.run, calls))
    if live.has_riders():
        yield from advance(live)
    told = EventRecord(EventKind.FAILED, live.wall(), None, live.epoch, type(error).__name__)
    while True:
        # What a rollback was about to undo is asked about by the rollback, once it goes on.
        left = left_behind(live.run, calls, requests, live.wall(), final=False) if not rolls_back else LeftBehind()
        ending = Ending(
            status=Status.FAILED,
            error_class=ErrorClass.PERMANENT,
            error_type=type(error).__name__,
            error_message=short_message(error),
        )
        ack = yield from leave(
            live, live.phase, ending, (), (*left.events, told), changes=left.changes, requests=left.requests
        )
        if ack is not None:
            log(WARNING, live.run_id, None, "the run is given up: %s", error.what)
            return Ended((yield from reread(live)), None, error)
        if live.control and not rolls_back:
            return (yield from obey(live))
        # Else an answer has come, which a resume will find.
