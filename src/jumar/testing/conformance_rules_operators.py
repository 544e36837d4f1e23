"""What an answer and an order make of a run, in plain Python; as `conformance_rules`."""

from __future__ import annotations

from msgspec.structs import replace

from jumar.core.call_states import CALL_STATES
from jumar.core.changes import ARRIVING, MOVED, Ack, Answer, Guard, Order
from jumar.core.phases import FINAL
from jumar.core.states import EventKind, Status, Verdict
from jumar.testing.conformance_rules import RunRows, change_call
from jumar.testing.conformance_rules_taking import Refused, Taken, drop, free


def answered(run: RunRows, answer: Answer, taken: Taken) -> Ack:
    """Answer a request of the run's, and wake the run; or settle its call where the run has ended for good."""
    places = [place for place, request in enumerate(run.requests) if request.request_id == answer.request_id]
    open_to = (None,) if answer.epoch is None else (None, Verdict.NOT_HAPPENED)
    if not places or run.requests[places[0]].verdict not in open_to:
        raise Refused(Guard.ANSWERED, "nothing is asked")
    place, before = places[0], run.record
    if answer.epoch is not None and answer.epoch != before.epoch:
        raise Refused(Guard.ANSWERED, "the attempt was made under another epoch")
    if before.status is Status.CANCELLED and before.error_type in (ARRIVING, MOVED):
        raise Refused(Guard.ANSWERED, "the run is in another store")
    asked = run.requests[place]
    run.requests[place] = replace(
        asked,
        verdict=answer.verdict,
        value=answer.value,
        by=answer.by,
        note=answer.note,
        answered_at=answer.at,
    )
    run.record = replace(before, answers=before.answers + 1, updated_at=answer.at)
    if before.status is Status.WAITING:
        run.record = replace(run.record, status=Status.QUEUED, wake_at=None, waiting_on=None)
    if before.status in FINAL:
        _settle(run, answer, asked.call_seq, taken)
    run.tell(EventKind.ANSWERED, answer.at, asked.call_seq, before.epoch, answer.verdict.label)
    return run.ack()


def _settle(run: RunRows, answer: Answer, seq: int, taken: Taken) -> None:
    change = answer.settles
    if change is not None:
        call = run.calls.get(change.seq)
        if call is None or change.state not in CALL_STATES[call.state]:
            return
        change_call(run, change, run.record.version)
        drop(taken.holds, run.record.run_no, seq)
    if answer.frees:
        free(taken.names, run.record.run_no, seq)


def ordered(run: RunRows, order: Order) -> Ack:
    """Raise the run's control."""
    if run.record.status in FINAL:
        raise Refused(Guard.ENDED, "the run has ended")
    if order.control >= run.record.control:
        run.record = replace(run.record, control=order.control, ordered_by=order.by, order_note=order.note)
    run.record = replace(run.record, updated_at=order.at)
    run.tell(EventKind.ORDERED, order.at, None, run.record.epoch, order.control.label)
    return run.ack()
