"""Whether a change whose commit had an unknown outcome is on disk.

Asked inside a transaction that holds the run's lock, so that a commit still on its way is waited for.
"""

from __future__ import annotations

from typing import Any, Protocol

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


class Rows(Protocol):
    """What is read of a store, inside the transaction."""

    def run_by_id(self, run_id: str) -> RunRecord | None:
        """A run by its id."""
        ...

    def run_by_no(self, run_no: int) -> RunRecord | None:
        """A run by its number."""
        ...

    def call_state(self, run_no: int, seq: int) -> int | None:
        """The state of a call."""
        ...

    def answer(self, request_id: str, run_no: int) -> tuple[Any, ...] | None:
        """Verdict, value, who answered and when, of a request."""
        ...


def landed(rows: Rows, change: Change) -> Outcome | None:
    """The answer of a change that is on disk, else None; a Refusal where it can no longer be made."""
    if isinstance(change, Create):
        return _create(rows, change)
    if isinstance(change, Fork):
        return _fork(rows, change)
    if isinstance(change, Claim):
        run = rows.run_by_id(change.run_id)
        return None if run is None or run.owner != change.owner else Claimed(run, True, 0)
    if isinstance(change, Order):
        return _order(rows, change)
    if isinstance(change, (Adopt, Arrive, Depart)):
        return moved(
            rows.run_by_id(change.run_id if not isinstance(change, Adopt) else change.export.run.run_id), change
        )
    run = rows.run_by_no(change.run_no)
    if run is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run number {change.run_no}")
    if isinstance(change, Answer):
        given = (int(change.verdict), change.value, change.by, change.at)
        ours = rows.answer(change.request_id, change.run_no) == given
        return _ack(run, run.version) if ours else None
    if run.epoch != change.epoch:
        return Refusal(Guard.LEASE, f"run {run.run_id} has been taken over (epoch {run.epoch})", run)
    if isinstance(change, Renew):
        return None
    return _advance(rows, change, run)


def _create(rows: Rows, change: Create) -> Outcome | None:
    """A creation without an owner is known by what it gave, whoever holds the run by now."""
    run = rows.run_by_id(change.run_id)
    if run is None:
        return None
    same = (run.agent, run.task, run.input_digest, run.created_at)
    if same != (change.agent, change.task, change.input.digest, change.at) or change.owner not in (None, run.owner):
        return None
    return Ack(run.run_no, 0, 0 if change.owner is None else 1)


def _fork(rows: Rows, change: Fork) -> Outcome | None:
    """A fork is known by the run it was made from, by what its line begins with, and by its time."""
    run, source = rows.run_by_id(change.run_id), rows.run_by_no(change.source_no)
    if run is None or source is None or (run.forked_from, run.created_at) != (source.run_id, change.at):
        return None
    version = change.version + 1
    return Ack(run.run_no, version, 0) if (version, change.base) in run.line else None


def _order(rows: Rows, change: Order) -> Outcome | None:
    """Whether the control is as high as ordered; by whose order does not matter."""
    run = rows.run_by_id(change.run_id)
    if run is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run {change.run_id}")
    return _ack(run, run.version) if run.control >= change.control else None


def _advance(rows: Rows, change: Advance, run: RunRecord) -> Outcome | None:
    """Only the holder of an epoch counts its versions up, so the version says it all.  A call whose name, or whose
    paths, another held was written AWAITING, and stays so until its own driver has heard of that.
    """
    if run.version <= change.version:
        return None
    wanted = {each.seq for each in change.takes} | {each.seq for each in change.holds}
    taken = tuple(seq for seq in sorted(wanted) if rows.call_state(run.run_no, seq) == CallState.AWAITING)
    return _ack(run, change.version + 1, taken)


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
