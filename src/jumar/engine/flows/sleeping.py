"""A durable sleep: the moment it ends is recorded when it begins, and no restart moves it.

Up to one lease ttl is slept in place; a longer one makes the run wait with `wake_at`, and costs nobody a process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.json import decode, encode

from jumar.core.changes import CallChange
from jumar.core.records import CallRecord
from jumar.core.requests import Flow, Sleep
from jumar.core.states import CallState
from jumar.engine.flows.advance import advance
from jumar.engine.flows.outcomes import new_record, replayed
from jumar.engine.flows.settling import note_given_up
from jumar.engine.halting import Wait
from jumar.engine.live import LiveRun
from jumar.errors import IntegrityError

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call

_LOOK_SECONDS = 1.0  # how often a sleep in place looks whether it should stop


def sleep(call: Call, wake_at: int) -> Flow[None]:
    """Sleep until wall-clock millisecond `wake_at`, or until the moment recorded when the sleep began."""
    live, record = call.live, call.record
    live.check_asking()  # a sleep beside one that the run waits for begins now, not after it
    if record is not None and record.state is not CallState.AWAITING:
        yield from replayed(call, record)
        return
    if record is None:
        data = encode(wake_at)
        state = CallState.AWAITING if wake_at > live.wall() else CallState.SUCCEEDED
        began = live.wall()
        ended = None if state is CallState.AWAITING else began
        new, artifacts = new_record(
            call, state, 1, result=data, started_at=began, ended_at=ended, checksum=call.checksum(state, data)
        )
        yield from advance(live, calls=(new,), artifacts=artifacts)
        if state is CallState.SUCCEEDED:
            return
    else:
        wake_at, data = _recorded(live, record)
    try:
        yield from _until(call, wake_at)
    except BaseException as error:
        note_given_up(call, 1, error, CallState.FAILED, new=False, result=data)
        raise
    change = CallChange(
        seq=call.seq,
        state=CallState.SUCCEEDED,
        attempt=1,
        epoch=live.epoch,
        ended_at=live.wall(),
        checksum=call.checksum(CallState.SUCCEEDED, data),
    )
    yield from advance(live, changes=(change,))


def _recorded(live: LiveRun, record: CallRecord) -> tuple[int, bytes]:
    try:
        return decode(record.result or b"", type=int), record.result or b""
    except ValueError:
        raise live.stop(IntegrityError(f"when {record.call_id} ends is lost")) from None


def _until(call: Call, wake_at: int) -> Flow[None]:
    live = call.live
    while (left := wake_at - live.wall()) > 0:
        live.check_asking()
        if left > live.ttl_ms or live.halt is not None:
            raise live.wait(Wait(f"{call.call_id} sleeps", call.call_id, wake_at), call.branch)
        live.progress_at = live.clock()
        yield from Sleep(min(left / 1000, _LOOK_SECONDS))
    live.before_dispatch()
