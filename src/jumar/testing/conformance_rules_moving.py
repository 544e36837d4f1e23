"""What adopting a run, its arrival and its departure make of a store, in plain Python; as `conformance_rules`."""

from __future__ import annotations

from msgspec.structs import replace

from jumar.core.changes import ARRIVING, MOVED, Ack, Adopt, Arrive, Depart, Guard, Hold
from jumar.core.phases import FINAL
from jumar.core.records import (
    Artifact,
    HoldRecord,
    IdentityRecord,
    LeaseTime,
    RunExport,
    RunRecord,
)
from jumar.core.states import EventKind, IdentityScope, Status, Verdict
from jumar.testing.conformance_rules import RunRows, is_live
from jumar.testing.conformance_rules_taking import Refused, Taken, hold


def is_elsewhere(run: RunRecord) -> bool:
    """Whether the run goes on in another store."""
    return run.status is Status.CANCELLED and run.error_type in (ARRIVING, MOVED)


def adopted(export: RunExport, run_no: int, taken: Taken, there: RunRecord | None) -> RunRows:
    """The run that another store had, under a number of this one; `taken` loses what the one in its place had."""
    run = RunRows(replace(export.run, run_no=run_no))
    if there is not None:
        _check_replaced(export.run, there)
        for place, name in list(taken.names.items()):
            if run_no in (place[0], name.run_no):
                del taken.names[place]
        taken.holds[:] = [held for held in taken.holds if held.run_no != run_no]
    run.calls = {call.seq: call for call in export.calls}
    run.checkpoints = {kept.version: kept for kept in export.checkpoints}
    run.requests = list(export.requests)
    run.events = list(export.events)
    run.artifacts = {artifact.digest: artifact.data for artifact in export.artifacts}
    for name in export.identities:
        _bring(taken, run, name)
    for held in export.holds:
        if not hold(taken.holds, run.record, Hold(seq=held.call_seq, workspace=held.workspace, path=held.path)):
            raise Refused(Guard.HOLD, "another run holds the path")
    return run


def _check_replaced(new: RunRecord, there: RunRecord) -> None:
    if not is_elsewhere(there):
        raise Refused(Guard.EXISTS, "this run is already there")
    if there.error_type == MOVED and new.epoch <= there.epoch:
        raise Refused(Guard.VERSION, "it moved away later than that")
    further = (there.epoch, there.version, there.answers, there.control)
    if there.error_type == ARRIVING and (new.epoch, new.version, new.answers, new.control) < further:
        raise Refused(Guard.VERSION, "it has been adopted as it stood later")


def _bring(taken: Taken, run: RunRows, name: IdentityRecord) -> None:
    place = (None if name.scope is IdentityScope.STORE else run.record.run_no, name.key)
    there = taken.names.get(place)
    mine = name.run_no != 0
    if there is not None and (there.run_no != 0 or (mine and there.undone > name.undone)):
        if mine:
            raise Refused(Guard.EXISTS, "another run has done this")
        return
    undone = max(name.undone, 0 if there is None else there.undone)
    number, run_id = (run.record.run_no, run.record.run_id) if mine else (0, "")
    taken.names[place] = replace(name, run_no=number, run_id=run_id, undone=undone)


def arrived(run: RunRows, arrive: Arrive) -> Ack:
    """The run becomes what it was."""
    before = run.record
    if before.status is not Status.CANCELLED or before.error_type != ARRIVING or not _is_as_seen(before, arrive):
        raise Refused(Guard.VERSION, "this is not what was adopted")
    goes_on = arrive.status not in FINAL
    run.record = replace(
        before,
        status=arrive.status,
        epoch=before.epoch + goes_on,
        wake_at=arrive.wake_at,
        waiting_on=arrive.waiting_on,
        error_class=arrive.error_class,
        error_type=arrive.error_type,
        error_message=arrive.error_message,
    )
    if goes_on:
        run.tell(EventKind.ARRIVED, arrive.at, None, run.record.epoch)
    return run.ack()


def departed(run: RunRows, depart: Depart, now: LeaseTime, taken: Taken) -> Ack:
    """The run is elsewhere from now on."""
    before = run.record
    if before.status in FINAL:
        raise Refused(Guard.ENDED, "the run has ended")
    if is_live(before, now):
        raise Refused(Guard.HELD, "somebody holds the run")
    if not _is_as_seen(before, depart):
        raise Refused(Guard.VERSION, "the run has gone on")
    run.record = replace(
        before,
        status=Status.CANCELLED,
        owner=None,
        lease_until=0,
        wake_at=None,
        waiting_on=None,
        error_class=None,
        error_type=MOVED,
        error_message=depart.message,
        updated_at=depart.at,
    )
    taken.holds[:] = [held for held in taken.holds if held.run_no != before.run_no]
    run.requests = [
        replace(asked, verdict=Verdict.WITHDRAWN, answered_at=depart.at) if asked.verdict is None else asked
        for asked in run.requests
    ]
    run.tell(EventKind.MOVED_AWAY, depart.at, None, before.epoch)
    return run.ack()


def _is_as_seen(run: RunRecord, change: Arrive | Depart) -> bool:
    seen = (change.epoch, change.version, change.answers, change.control)
    return (run.epoch, run.version, run.answers, run.control) == seen


def was_moved_by(run: RunRecord, change: Adopt | Arrive | Depart) -> bool:
    """Whether the run stands as one of these changes leaves it."""
    if isinstance(change, Adopt):
        return run == replace(change.export.run, run_no=run.run_no)
    if isinstance(change, Depart):
        return run.error_type == MOVED and run.error_message == change.message
    epoch = change.epoch if change.status in FINAL else change.epoch + 1
    return (run.status, run.error_type, run.epoch) == (change.status, change.error_type, epoch)


def exported(run: RunRows, taken: Taken) -> RunExport:
    """All there is of a run."""
    number = run.record.run_no
    carried = {call.identity for call in run.calls.values() if call.identity_scope is IdentityScope.STORE}
    names = [
        name
        for (within, key), name in taken.names.items()
        if name.run_no == number or (name.run_no == 0 and (within == number or (within is None and key in carried)))
    ]
    return RunExport(
        run.record,
        tuple(run.calls[seq] for seq in sorted(run.calls)),
        tuple(run.checkpoints[version] for version in sorted(run.checkpoints)),
        tuple(run.requests),
        tuple(run.events),
        tuple(Artifact(digest, run.artifacts[digest]) for digest in sorted(run.artifacts)),
        tuple(sorted(names, key=lambda name: (name.scope, name.key))),
        tuple(sorted(_holds(taken, number), key=lambda held: (held.workspace, held.path, held.call_seq))),
    )


def _holds(taken: Taken, run_no: int) -> list[HoldRecord]:
    return [held for held in taken.holds if held.run_no == run_no]
