"""What people do to a run from outside: answers to its requests, and orders.

Neither needs the run's lease and neither changes its version, so a driver that is at work goes on undisturbed and sees
the change in the acknowledgement of its next advance.
"""

from __future__ import annotations

import sqlite3

from jumar.core.changes import Ack, Answer, Guard, Order, Outcome, Refusal
from jumar.core.phases import FINAL
from jumar.core.states import EventKind, mask
from jumar.stores.refusals import ended
from jumar.stores.sqlite import holds, names
from jumar.stores.sqlite.tables import SQL, call_changed, event, run_by_id, run_by_no

_FINAL = mask(*FINAL)


def answer(connection: sqlite3.Connection, given: Answer) -> Outcome:
    """Answer a request and wake its run, or settle the call of a run that has ended for good."""
    values = {
        "verdict": int(given.verdict),
        "value": given.value,
        "by": given.by,
        "note": given.note,
        "at": given.at,
        "request_id": given.request_id,
        "run_no": given.run_no,
        "epoch": given.epoch,
    }
    row = connection.execute(SQL["request_answer"], values).fetchone()
    if row is None:
        return Refusal(
            Guard.ANSWERED,
            "this request was answered before, or is no longer asked",
            run_by_no(connection, given.run_no),
        )
    version, epoch, control, answers, status = connection.execute(
        SQL["run_answered"], {"run_no": given.run_no, "at": given.at}
    ).fetchone()
    if _FINAL >> status & 1:
        _settle(connection, given, row[0], version)
    event(connection, given.run_no, EventKind.ANSWERED, given.at, row[0], epoch, given.verdict.label)
    return Ack(given.run_no, version, epoch, control, answers)


def _settle(connection: sqlite3.Connection, given: Answer, seq: int, version: int) -> None:
    """Nobody will look at the answer, so it is carried out here.  A call that was settled otherwise stays as it is and
    keeps its name: giving up the name of a confirmed effect would let it happen again.
    """
    settled = given.settles is None or call_changed(connection, given.run_no, given.settles, version)
    if given.settles is not None and settled:
        holds.drop(connection, given.run_no, seq)
    if given.frees and settled:
        names.free(connection, given.run_no, seq)


def order(connection: sqlite3.Connection, given: Order) -> Outcome:
    """Raise a run's control."""
    values = {
        "run_id": given.run_id,
        "control": int(given.control),
        "at": given.at,
        "by": given.by,
        "note": given.note,
        "final": _FINAL,
    }
    row = connection.execute(SQL["run_order"], values).fetchone()
    if row is None:
        run = run_by_id(connection, given.run_id)
        if run is None:
            return Refusal(Guard.NOT_FOUND, f"there is no run {given.run_id}")
        return ended(run)
    run_no, version, epoch, control, answers = row
    event(connection, run_no, EventKind.ORDERED, given.at, epoch=epoch, detail=given.control.label)
    return Ack(run_no, version, epoch, control, answers)
