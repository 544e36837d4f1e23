"""Whether a change whose commit had an unknown outcome is on disk.

Asked inside a write transaction, so that a commit still on its way is waited for.
"""

from __future__ import annotations

import sqlite3

from msgspec.structs import replace

from jumar.core.changes import (
    MOVED,
    Ack,
    Adopt,
    Advance,
    Answer,
    Arrive,
    Change,
    Claim,
    Claimed,
    Create,
    Depart,
    Fork,
    Guard,
    Order,
    Outcome,
    Refusal,
    Renew,
)
from jumar.core.moving import epoch_after
from jumar.core.records import RunRecord
from jumar.core.states import CallState
from jumar.stores.sqlite.tables import SQL, run_by_id, run_by_no


def landed(connection: sqlite3.Connection, change: Change) -> Outcome | None:
    """The answer of a change that is on disk, else None; a Refusal where it can no longer be made."""
    if isinstance(change, Create):
        return _create(connection, change)
    if isinstance(change, Fork):
        return _fork(connection, change)
    if isinstance(change, Claim):
        run = run_by_id(connection, change.run_id)
        return None if run is None or run.owner != change.owner else Claimed(run, True, 0)
    if isinstance(change, Order):
        return _order(connection, change)
    if isinstance(change, (Adopt, Arrive, Depart)):
        return moved(
            run_by_id(connection, change.run_id if not isinstance(change, Adopt) else change.export.run.run_id), change
        )
    run = run_by_no(connection, change.run_no)
    if run is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run number {change.run_no}")
    if isinstance(change, Answer):
        row = connection.execute(SQL["request_found"], (change.request_id, change.run_no)).fetchone()
        ours = row is not None and tuple(row) == (int(change.verdict), change.value, change.by, change.at)
        return _ack(run, run.version) if ours else None
    if run.epoch != change.epoch:
        return Refusal(Guard.LEASE, f"run {run.run_id} has been taken over (epoch {run.epoch})", run)
    if isinstance(change, Renew):
        return None
    return _advance(connection, change, run)


def _create(connection: sqlite3.Connection, change: Create) -> Outcome | None:
    """A creation without an owner is known by what it gave, whoever holds the run by now."""
    run = run_by_id(connection, change.run_id)
    if run is None:
        return None
    same = (run.agent, run.task, run.input_digest, run.created_at)
    if same != (change.agent, change.task, change.input.digest, change.at) or change.owner not in (None, run.owner):
        return None
    return Ack(run.run_no, 0, 0 if change.owner is None else 1)


def _fork(connection: sqlite3.Connection, change: Fork) -> Outcome | None:
    """A fork is known by the run it was made from, by what its line begins with, and by its time."""
    run, source = run_by_id(connection, change.run_id), run_by_no(connection, change.source_no)
    if run is None or source is None or (run.forked_from, run.created_at) != (source.run_id, change.at):
        return None
    version = change.version + 1
    return Ack(run.run_no, version, 0) if (version, change.base) in run.line else None


def _order(connection: sqlite3.Connection, change: Order) -> Outcome | None:
    """Whether the control is as high as ordered; by whose order does not matter."""
    run = run_by_id(connection, change.run_id)
    if run is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run {change.run_id}")
    return _ack(run, run.version) if run.control >= change.control else None


def _advance(connection: sqlite3.Connection, change: Advance, run: RunRecord) -> Outcome | None:
    """Only the holder of an epoch counts its versions up, so the version says it all.  A call whose name, or whose
    paths, another held was written AWAITING, and stays so until its own driver has heard of that.
    """
    if run.version <= change.version:
        return None
    wanted = {each.seq for each in change.takes} | {each.seq for each in change.holds}
    taken = tuple(seq for seq in sorted(wanted) if _is_awaiting(connection, run.run_no, seq))
    return _ack(run, change.version + 1, taken)


def _is_awaiting(connection: sqlite3.Connection, run_no: int, seq: int) -> bool:
    row = connection.execute(SQL["call_state"], (run_no, seq)).fetchone()
    return row is not None and row[0] == CallState.AWAITING


def _ack(run: RunRecord, version: int, taken: tuple[int, ...] = ()) -> Ack:
    return Ack(run.run_no, version, run.epoch, run.control, run.answers, taken)


def moved(run: RunRecord | None, change: Adopt | Arrive | Depart) -> Outcome | None:
    """Whether the run stands as the change would have left it."""
    if run is None:
        return None
    if isinstance(change, Depart):
        return _ack(run, run.version) if (run.error_type, run.error_message) == (MOVED, change.message) else None
    if isinstance(change, Adopt):
        new = replace(change.export.run, run_no=run.run_no)
        return _ack(run, run.version) if run == new else None
    arrived = (run.status, run.epoch, run.version, run.error_type) == (
        change.status,
        epoch_after(change),
        change.version,
        change.error_type,
    )
    return _ack(run, run.version) if arrived else None
