"""What each change makes of one run with its rows, in plain Python.

Every function here checks a change's guards against a run and then writes into it; the caller hands it a copy, and
throws that away where a guard raises `Refused`.  `jumar.testing.model` puts these together to a whole store.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple, replace

from jumar.core.call_states import CALL_STATES, ENDED
from jumar.core.changes import (
    ARRIVING,
    MOVED,
    Ack,
    Advance,
    CallChange,
    Claim,
    Claimed,
    Create,
    Ending,
    Guard,
    Renew,
)
from jumar.core.checksums import checkpoint_checksum
from jumar.core.phases import FINAL, PHASES, STATUSES
from jumar.core.records import (
    CallRecord,
    CheckpointRecord,
    EventRecord,
    LeaseTime,
    RequestRecord,
    RunRecord,
)
from jumar.core.states import CallState, Control, Effect, EventKind, Phase, Status, Verdict
from jumar.errors import StoreError
from jumar.testing.conformance_rules_taking import Refused, Taken, give_and_take, hold


class RunRows:
    """One run with its rows.  The records are frozen, so a copy of the containers is a copy of the run."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.calls: dict[int, CallRecord] = {}
        self.checkpoints: dict[int, CheckpointRecord] = {}
        self.requests: list[RequestRecord] = []
        self.events: list[EventRecord] = []
        self.artifacts: dict[bytes, bytes] = {}

    def copy(self) -> RunRows:
        """Another run that may be changed without changing this one."""
        other = copy.copy(self)
        for name in ("calls", "checkpoints", "requests", "events", "artifacts"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def tell(self, kind: EventKind, at: int, seq: int | None = None, epoch: int = 0, detail: str = "") -> None:
        """Add a line to the trace."""
        self.events.append(EventRecord(kind, at, seq, epoch, detail))

    def ack(self, version: int | None = None, taken: tuple[int, ...] = ()) -> Ack:
        """The acknowledgement of what was just done, or of what made this version."""
        run = self.record
        return Ack(run.run_no, run.version if version is None else version, run.epoch, run.control, run.answers, taken)


def fits(value: Any) -> bool:
    """Whether all text is such as UTF-8 can hold, and every number such as 64 bits can."""
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    if isinstance(value, (tuple, Struct)):
        return all(fits(part) for part in (astuple(value) if isinstance(value, Struct) else value))
    return True


def created(new: Create, run_no: int, now: LeaseTime) -> RunRows:
    """The run that a creation makes."""
    running = new.owner is not None
    run = RunRows(
        RunRecord(
            run_no=run_no,
            run_id=new.run_id,
            agent=new.agent,
            agent_version=new.agent_version,
            task=new.task,
            status=Status.RUNNING if running else Status.QUEUED,
            phase=new.phase,
            step=0,
            version=0,
            generation=0,
            owner=new.owner,
            epoch=1 if running else 0,
            boot=now.boot,
            lease_until=now.ms + new.ttl_ms if running else 0,
            control=Control.NONE,
            answers=0,
            wake_at=None,
            waiting_on=None,
            input_digest=new.input.digest,
            output_digest=None,
            error_class=None,
            error_type=None,
            error_message=None,
            created_at=new.at,
            updated_at=new.at,
            workspace=new.workspace,
        )
    )
    run.artifacts[new.input.digest] = new.input.data
    run.tell(EventKind.CREATED, new.at)
    return run


def claimed(run: RunRows, claim: Claim, now: LeaseTime, held: Taken) -> Claimed:
    """Take the run's lease."""
    before = run.record
    if is_live(before, now):
        raise Refused(Guard.HELD, "another owner holds the run")
    if before.status is Status.CANCELLED and before.error_type in (ARRIVING, MOVED):
        raise Refused(Guard.ENDED, f"the run is in another store: {before.error_message}")
    if before.status in FINAL and not claim.statuses >> before.status & 1:
        raise Refused(Guard.ENDED, "the run has ended")
    if claim.epoch is not None and claim.epoch != before.epoch:
        raise Refused(Guard.VERSION, "the run has been claimed since")
    if claim.version is not None and claim.version != before.version:
        raise Refused(Guard.VERSION, "the run has gone on since")
    if claim.intent is not None and before.intent is not None:
        raise Refused(Guard.TRANSITION, "a rollback is under way")
    its_time_has_come = before.wake_at is not None and before.wake_at <= claim.at
    may_go_on = claim.early or its_time_has_come or before.control is not Control.NONE
    if before.status is Status.WAITING and not may_go_on:
        raise Refused(Guard.NOT_DUE, "the run waits")
    if not claim.statuses >> before.status & 1:
        raise Refused(Guard.TRANSITION, "a run of this status is not to be claimed")
    epoch = before.epoch + 1
    is_spent = before.status in FINAL or (claim.resumes and before.control is Control.PAUSE)
    run.record = replace(
        before,
        owner=claim.owner,
        epoch=epoch,
        boot=now.boot,
        lease_until=now.ms + claim.ttl_ms,
        status=Status.RUNNING,
        control=Control.NONE if is_spent else before.control,
        intent=before.intent if claim.intent is None else claim.intent,
        wake_at=None,
        waiting_on=None,
        error_class=None,
        error_type=None,
        error_message=None,
        failed_calls=(),
        updated_at=claim.at,
        workspace=before.workspace if claim.workspace is None else claim.workspace,
        crashes=0 if claim.resumes else _crashes(run),
        crash_seq=before.crash_seq if before.owner is None else max(run.calls, default=0),
    )
    taken_over = before.owner is not None
    run.tell(EventKind.TAKEN_OVER if taken_over else EventKind.CLAIMED, claim.at, None, epoch)
    marked = [marked for call in run.calls.values() if (marked := _left_behind(call, before.phase, epoch)) is not None]
    for call in sorted(marked, key=lambda call: call.seq):
        run.calls[call.seq] = call
        run.tell(EventKind.CALL_UNCERTAIN, claim.at, call.seq, epoch, f"attempt {call.attempt}")
    if claim.intent is not None:
        run.tell(EventKind.ROLLBACK_STARTED, claim.at, None, epoch)
    for wanted in claim.holds:
        if not hold(held.holds, before, wanted):
            raise Refused(Guard.HOLD, "another holds a path that the rollback needs")
    for change in claim.reopens:
        change_call(run, change, run.record.version)
        run.tell(EventKind.REOPENED, claim.at, change.seq, epoch)
    return Claimed(run.record, taken_over, len(marked))


def _crashes(run: RunRows) -> int:
    """How many processes have ended under the run since it last recorded a new call, with the one that held it now."""
    before = run.record
    if before.owner is None:
        return before.crashes
    return 1 if max(run.calls, default=0) > before.crash_seq else before.crashes + 1


def _left_behind(call: CallRecord, phase: Phase, epoch: int) -> CallRecord | None:
    """The call as uncertain, where a driver that is gone may have made it."""
    if call.state is CallState.STARTED and call.epoch < epoch:
        return replace(call, state=CallState.UNCERTAIN)
    decision_is_open = phase in (Phase.DECISION_RECORDED, Phase.AWAITING_RESULTS)
    if decision_is_open and call.state is CallState.PLANNED and call.effect is Effect.READ:
        return replace(call, state=CallState.UNCERTAIN, attempt=call.attempt + 1)
    return None


def is_live(run: RunRecord, now: LeaseTime) -> bool:
    return run.owner is not None and run.boot == now.boot and run.lease_until > now.ms


def check_lease(run: RunRecord, change: Advance | Renew, now: LeaseTime) -> None:
    """RUNNING under this owner and epoch, with a live lease."""
    if run.owner != change.owner or run.epoch != change.epoch or run.status is not Status.RUNNING:
        raise Refused(Guard.LEASE, "the run is not this owner's under this epoch")
    if not is_live(run, now):
        raise Refused(Guard.LEASE, "the lease ran out")


def advanced(run: RunRows, advance: Advance, now: LeaseTime, asked: Collection[str], held: Taken) -> Ack:
    """Make an advance; `asked` are the ids of all requests there are, `held` all names and paths that are."""
    before = run.record
    _check_advance(before, advance, now)
    version = before.version + 1
    run.record = replace(
        before,
        version=version,
        phase=advance.phase,
        step=advance.step,
        lease_until=now.ms + advance.ttl_ms,
        updated_at=advance.at,
    )
    if advance.head is not None or advance.settles:
        _end_rollback(run, advance)
    taken = give_and_take(held, before, advance)
    if advance.intent is not None:
        if run.record.intent is None:
            raise Refused(Guard.TRANSITION, "there is no intent to be replaced")
        run.record = replace(run.record, intent=advance.intent)
    for record in advance.calls:
        _add_call(run, record, version, record.seq in taken)
    for change in advance.changes:
        if change.seq in taken:  # this attempt is not made
            change = replace(change, state=CallState.AWAITING, attempt=change.attempt - 1)
        change_call(run, change, version)
    for artifact in advance.artifacts:
        run.artifacts.setdefault(artifact.digest, artifact.data)
    for place, checkpoint in ((advance.version, advance.before), (version, advance.after)):
        if checkpoint is not None:
            placed = replace(checkpoint, version=place)
            run.checkpoints.setdefault(place, replace(placed, checksum=checkpoint_checksum(placed)))
    for request in advance.requests:
        _ask(run, request, asked)
    run.requests = [
        replace(request, verdict=Verdict.WITHDRAWN, answered_at=advance.at)
        if request.request_id in advance.withdraws and request.verdict is None
        else request
        for request in run.requests
    ]
    for line in advance.events:
        if line.kind is not EventKind.CALL_STARTED or line.call_seq not in taken:  # else the attempt is not made
            run.events.append(line)
    if advance.head is not None:
        _nothing_open(run, Status.RUNNING)
    if advance.ending is not None:
        _nothing_open(run, advance.ending.status)
        _leave(run, advance.ending)
    return run.ack(taken=taken)


def _end_rollback(run: RunRows, advance: Advance) -> None:
    """The intent is gone; with a head, another generation begins."""
    run.record = replace(run.record, intent=None)
    if advance.ending is None:  # the run goes on as if it had just been claimed
        run.record = _standing(run.record, Ending(status=Status.RUNNING))
    if advance.head is not None:
        line = (*run.record.line, (run.record.version, advance.head.base))
        run.record = replace(run.record, generation=run.record.generation + 1, line=line)


def _ask(run: RunRows, request: RequestRecord, asked: Collection[str]) -> None:
    if any(
        (old.call_seq, old.kind, old.attempt) == (request.call_seq, request.kind, request.attempt)
        for old in run.requests
    ):
        return
    if request.request_id in asked or any(old.request_id == request.request_id for old in run.requests):
        raise StoreError("two requests have the same id")
    run.requests.append(replace(request, verdict=None, value=None, by=None, note=None, answered_at=None))


def _check_advance(run: RunRecord, advance: Advance, now: LeaseTime) -> None:
    if run.status in FINAL and run.epoch == advance.epoch:
        raise Refused(Guard.ENDED, "the run has ended")
    check_lease(run, advance, now)
    if run.version != advance.version:
        raise Refused(Guard.VERSION, "the run is at another version")
    ending = advance.ending
    if ending is not None and (run.control, run.answers) != (advance.control, advance.answers):
        raise Refused(Guard.NEWS, "an order or an answer has come")
    if advance.head is not None or advance.settles:
        if run.intent is None:
            raise Refused(Guard.TRANSITION, "there is no rollback to be ended")
        return
    after = advance.through[0] if advance.through else advance.phase
    if after is not run.phase and after not in PHASES[run.phase]:
        raise Refused(Guard.TRANSITION, "the phase does not allow it")
    if ending is not None and ending.status not in STATUSES[Status.RUNNING]:
        raise Refused(Guard.TRANSITION, "the status does not allow it")
    if ending is not None and ending.status in FINAL and run.intent is not None:
        raise Refused(Guard.TRANSITION, "no run ends in the middle of a rollback")


_KEPT = (
    *("result", "result_artifact", "usage", "boot", "dispatch_by", "started_at", "checksum"),
    *("identity", "identity_scope", "before", "after", "undone"),
)


def _add_call(run: RunRows, record: CallRecord, version: int, held_up: bool) -> None:
    if record.state not in CALL_STATES[None]:
        raise Refused(Guard.TRANSITION, "no call begins so")
    if record.seq in run.calls:
        raise StoreError("two calls have the same number")
    if held_up:
        record = replace(record, state=CallState.AWAITING, attempt=record.attempt - 1)
    ended = version if record.state in ENDED else None
    run.calls[record.seq] = replace(record, started_version=version, ended_version=ended)


def change_call(run: RunRows, change: CallChange, version: int) -> None:
    """Give a call its next state, in the advance or the claim that makes this version."""
    call = run.calls.get(change.seq)
    if call is None or change.state not in CALL_STATES[call.state]:
        raise Refused(Guard.TRANSITION, "the call's state does not allow it")
    given = {name: value for name in _KEPT if (value := getattr(change, name)) is not None}
    if change.state is CallState.STARTED:
        given["started_version"] = version
    if change.state in ENDED:
        given["ended_version"] = version
    run.calls[change.seq] = replace(
        call,
        state=change.state,
        attempt=change.attempt,
        epoch=change.epoch,
        failure=change.failure,
        over_at=change.over_at,
        ended_at=change.ended_at,
        **given,
    )


def _nothing_open(run: RunRows, status: Status) -> None:
    if any(call.state is CallState.STARTED for call in run.calls.values()):
        raise Refused(Guard.TRANSITION, "a call is started")
    if status is Status.COMPLETED and any(call.state is CallState.UNCERTAIN for call in run.calls.values()):
        raise Refused(Guard.TRANSITION, "a call is uncertain")


def _leave(run: RunRows, ending: Ending) -> None:
    run.record = _standing(run.record, ending)
    if ending.status is not Status.RUNNING:
        run.record = replace(run.record, owner=None, lease_until=0)


def _standing(run: RunRecord, ending: Ending) -> RunRecord:
    return replace(
        run,
        status=ending.status,
        wake_at=ending.wake_at,
        waiting_on=ending.waiting_on,
        output_digest=ending.output_digest,
        error_class=ending.error_class,
        error_type=ending.error_type,
        error_message=ending.error_message,
        failed_calls=ending.failed_calls,
    )


def was_created_by(run: RunRecord, new: Create) -> bool:
    """Whether this creation made the run."""
    same = (run.created_at, run.agent, run.task, run.input_digest) == (new.at, new.agent, new.task, new.input.digest)
    return same and (new.owner is None or run.owner == new.owner)
