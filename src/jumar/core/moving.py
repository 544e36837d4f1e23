"""A run that moves from one store to another: what stands in each of them until it has arrived.

A run is exported, adopted by the other store (`ARRIVING`), read back there and compared; only then does it depart from
the first (`MOVED`), and after that it arrives.  So at most one of the stores lets anybody go on with it, and whichever
step was the last before a crash, the rows of both say what comes next.  What a run was before it departed stands in the
last line of its message, since the row itself says CANCELLED.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from jumar.core.changes import ARRIVING, MOVED, Adopt, Arrive, Depart
from jumar.core.checksums import call_agrees, checkpoint_agrees
from jumar.core.phases import FINAL
from jumar.core.records import RunExport, RunRecord
from jumar.core.states import ErrorClass, Status
from jumar.errors import IntegrityError

_ON_ITS_WAY = "on its way here from another store; the same `jumar store copy` once more finishes it"


class Standing(Struct, frozen=True, omit_defaults=True):
    """What a run's row cannot say while the run is on its way: how it stood."""

    status: Status
    wake_at: int | None = None
    waiting_on: str | None = None
    error_class: ErrorClass | None = None
    error_type: str | None = None
    error_message: str | None = None


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Standing).decode


def is_elsewhere(run: RunRecord) -> bool:
    """Whether a run goes on in another store, so that nobody may touch it in this one."""
    return run.status is Status.CANCELLED and run.error_type in (ARRIVING, MOVED)


def standing(run: RunRecord) -> Standing:
    """How a run stands."""
    return Standing(run.status, run.wake_at, run.waiting_on, run.error_class, run.error_type, run.error_message)


def stood(run: RunRecord) -> Standing:
    """How a run that has MOVED stood before; IntegrityError where its message does not say."""
    try:
        return _decode((run.error_message or "").rpartition("\n")[2])
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"run {run.run_id} moved away, and its row does not say what it was") from error


def moved_to(run: RunRecord) -> str:
    """Where a run that has MOVED is now."""
    return (run.error_message or "").partition("\n")[0]


def shown_message(run: RunRecord) -> str | None:
    """What a run's row says of how it ended, for people."""
    return moved_to(run) if is_elsewhere(run) else run.error_message


def elsewhere(run: RunRecord) -> str:
    """A sentence on where a run is that is not here."""
    if run.error_type == MOVED:
        return f"run {run.run_id} has moved to {moved_to(run)}"
    return f"run {run.run_id} is {run.error_message}"


def adoption(export: RunExport) -> Adopt:
    """The change that brings an exported run into another store."""
    run = replace(
        export.run,
        status=Status.CANCELLED,
        owner=None,
        boot=b"",
        lease_until=0,
        wake_at=None,
        waiting_on=None,
        error_class=None,
        error_type=ARRIVING,
        error_message=_ON_ITS_WAY,
    )
    return Adopt(export=replace(export, run=run))


def departure(run: RunRecord, to: str, at: int) -> Depart:
    """The change that ends a run in the store it was exported from; `to` is the other store, without a password."""
    message = f"{to}\n{_encode(standing(run)).decode()}"
    return Depart(
        run_id=run.run_id,
        epoch=run.epoch,
        version=run.version,
        answers=run.answers,
        control=run.control,
        message=message,
        at=at,
    )


def arrival(adopted: RunRecord, was: Standing, at: int) -> Arrive:
    """The change that gives an adopted run back what it was."""
    return Arrive(
        run_id=adopted.run_id,
        epoch=adopted.epoch,
        version=adopted.version,
        answers=adopted.answers,
        control=adopted.control,
        status=was.status,
        wake_at=was.wake_at,
        waiting_on=was.waiting_on,
        error_class=was.error_class,
        error_type=was.error_type,
        error_message=was.error_message,
        at=at,
    )


def may_replace(new: RunRecord, there: RunRecord) -> bool:
    """Whether a run may be adopted in the place of one that is ARRIVING, or has MOVED, where this is asked."""
    if there.error_type == MOVED:
        return new.epoch > there.epoch
    return _progress(new) >= _progress(there)


def _progress(run: RunRecord) -> tuple[int, int, int, int]:
    return run.epoch, run.version, run.answers, run.control


def epoch_after(arrive: Arrive) -> int:
    """The epoch of a run that has arrived."""
    return arrive.epoch + (arrive.status not in FINAL)


def check_export(export: RunExport) -> RunExport:
    """The export itself; IntegrityError where something in it does not agree with its checksum."""
    where = f"of run {export.run.run_id}"
    for call in export.calls:
        if not call_agrees(call):
            raise IntegrityError(f"call {call.call_id} {where} does not agree with its checksum")
    for kept in export.checkpoints:
        if not checkpoint_agrees(kept):
            raise IntegrityError(f"the checkpoint of version {kept.version} {where} does not agree with its checksum")
    for artifact in export.artifacts:
        if sha256(artifact.data).digest() != artifact.digest:
            raise IntegrityError(f"artifact {artifact.digest.hex()[:12]} {where} is damaged")
    return export
