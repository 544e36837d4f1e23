"""The worker of the schedule explorer: a driver in miniature, which knows only what it has seen.

`next_step` says what a driver does next that knows so much of its run and of its one call, an external one that must
not be made twice.  The order of its questions is that of the real one: what is sent is recorded first, then an
operator's order is obeyed, and what may have happened is asked about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from jumar.core.changes import Advance, CallChange, Ending
from jumar.core.records import CallRecord
from jumar.core.states import CallState, Control, Phase, Status, Verdict
from jumar.testing.conformance_scene import AT, asking, call, changed

TTL = 1000  # milliseconds
RUN_NO = 1
SEQ = 1


class Worker(Struct, frozen=True):
    """What a worker knows: under which epoch it drives the run and how it saw it last.  `sent_by` is the lease-clock
    millisecond after which it no longer sends the call that it has committed as STARTED.
    """

    epoch: int
    version: int
    control: Control
    answers: int
    call: CallRecord | None
    verdict: Verdict | None
    asked: bool
    sent: bool = False
    sent_by: int = 0
    wakes_at: int = 0  # wall clock


def next_step(worker: Worker) -> Callable[[Worker, str], Advance] | None:
    """What a driver that knows this does next; None where it has to wait for its call."""
    record = worker.call
    if record is not None and record.state is CallState.STARTED:
        return _succeed if worker.sent else None
    if worker.control is not Control.NONE:
        return _obey
    if record is None or record.state is CallState.FAILED:
        return begin
    if record.state is CallState.SUCCEEDED:
        return _complete
    if worker.verdict is Verdict.HAPPENED:
        return _succeed
    if worker.verdict is Verdict.NOT_HAPPENED:
        return again
    return _wait if worker.asked else ask


def request_of(attempt: int) -> str:
    return f"request-{attempt}"


def _advance(worker: Worker, owner: str, **fields: Any) -> Advance:
    return Advance(
        **{
            "run_no": RUN_NO,
            "owner": owner,
            "epoch": worker.epoch,
            "version": worker.version,
            "phase": Phase.IN_CODE,
            "step": 0,
            "ttl_ms": TTL,
            "at": AT,
            "control": int(worker.control),
            "answers": worker.answers,
            **fields,
        }
    )


def begin(worker: Worker, owner: str) -> Advance:
    return _advance(worker, owner, calls=(call(SEQ, CallState.STARTED, epoch=worker.epoch),))


def again(worker: Worker, owner: str) -> Advance:
    assert worker.call is not None
    return _advance(worker, owner, changes=(_changed(worker, CallState.STARTED, attempt=worker.call.attempt + 1),))


def _succeed(worker: Worker, owner: str) -> Advance:
    return _advance(worker, owner, changes=(_changed(worker, CallState.SUCCEEDED, result=b'"paid"', ended_at=AT),))


def ask(worker: Worker, owner: str) -> Advance:
    assert worker.call is not None
    return _advance(worker, owner, requests=(asking(request_of(worker.call.attempt), SEQ, worker.call.attempt),))


def _wait(worker: Worker, owner: str) -> Advance:
    ending = Ending(status=Status.WAITING, waiting_on="pay", wake_at=worker.wakes_at)
    return _advance(worker, owner, ending=ending)


def _complete(worker: Worker, owner: str) -> Advance:
    return _advance(worker, owner, phase=Phase.STOPPED, ending=Ending(status=Status.COMPLETED))


def _obey(worker: Worker, owner: str) -> Advance:
    if worker.control is Control.PAUSE:
        return _advance(worker, owner, ending=Ending(status=Status.PAUSED))
    return _advance(worker, owner, phase=Phase.STOPPED, ending=Ending(status=Status.CANCELLED))


def _changed(worker: Worker, state: CallState, **fields: Any) -> CallChange:
    assert worker.call is not None
    return changed(SEQ, state, **({"attempt": worker.call.attempt, "epoch": worker.epoch} | fields))
