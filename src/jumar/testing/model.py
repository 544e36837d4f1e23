"""A store as plain data: the rules of `jumar.core.store.Store` told once more, without a database.

It is here to be compared with.  A real store is given the same changes, and every answer and every row must be equal; so this one
is written from the protocol's words and its tables, to be obviously right, and shares no statement and no mask with the stores.  A
change is applied to a copy of its run, which takes the run's place only where the change was not refused.

It keeps everything in memory, is used by one thread at a time, and takes its clock from whoever makes it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from jumar.core.call_states import CALL_STATES, ENDED
from jumar.core.changes import (
    Ack,
    Advance,
    Answer,
    CallChange,
    Change,
    Claim,
    Claimed,
    Create,
    Guard,
    Outcome,
    Refusal,
    Renew,
)
from jumar.core.checksums import call_agrees, checkpoint_agrees, checkpoint_checksum
from jumar.core.codec import digest as digest_of
from jumar.core.phases import FINAL, PHASES, STATUSES
from jumar.core.records import CallRecord, CheckpointRecord, EventRecord, LeaseTime, RequestRecord, RunRecord
from jumar.core.states import CallState, Control, EventKind, Phase, Status
from jumar.core.store import Finding, Inspection, RunFilter
from jumar.errors import StoreError, StoreUnavailable

T = TypeVar("T")


class _Refused(Exception):
    def __init__(self, guard: Guard, why: str) -> None:
        super().__init__(why)
        self.guard = guard


class _Run:
    """One run with its rows.  The records are frozen, so a copy of the containers is a copy of the run."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.calls: dict[int, CallRecord] = {}
        self.checkpoints: dict[int, CheckpointRecord] = {}
        self.requests: list[RequestRecord] = []
        self.events: list[EventRecord] = []
        self.artifacts: dict[bytes, bytes] = {}

    def copy(self) -> _Run:
        other = copy.copy(self)
        for name in ("calls", "checkpoints", "requests", "events", "artifacts"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def tell(self, kind: EventKind, at: int, seq: int | None = None, epoch: int = 0, detail: str = "") -> None:
        self.events.append(EventRecord(kind, at, seq, epoch, detail))

    def ack(self, version: int | None = None) -> Ack:
        run = self.record
        return Ack(run.run_no, run.version if version is None else version, run.epoch, run.control, run.answers)


class ModelStore:
    """The pure model of a store; `clock` reads its lease clock.  See `jumar.core.store.Store` for its methods."""

    def __init__(self, clock: Callable[[], LeaseTime]) -> None:
        self._clock = clock
        self._runs: list[_Run] = []
        self._closed = False

    # --- Writing. ---

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        """See `Store.write`."""
        self._open()
        return [self._answer_to(change) for change in changes]

    def _answer_to(self, change: Change) -> Outcome | Exception:
        if isinstance(change, Create):
            return self._create(change)
        run = self._find(change)
        if run is None:
            # A request is looked up before its run is.
            missing = Guard.ANSWERED if isinstance(change, Answer) else Guard.NOT_FOUND
            return Refusal(Guard.LEASE if isinstance(change, Renew) else missing, "there is no such run")
        changed = run.copy()
        try:
            outcome = self._applied(changed, change)
        except _Refused as refused:
            return Refusal(refused.guard, str(refused), run.record)
        except StoreError as error:
            return error
        self._runs[self._runs.index(run)] = changed
        return outcome

    def _find(self, change: Claim | Advance | Renew | Answer) -> _Run | None:
        if isinstance(change, Claim):
            return next((run for run in self._runs if run.record.run_id == change.run_id), None)
        return self._numbered(change.run_no)

    def _numbered(self, run_no: int) -> _Run | None:
        return next((run for run in self._runs if run.record.run_no == run_no), None)

    def _applied(self, run: _Run, change: Claim | Advance | Renew | Answer) -> Outcome:
        now = self._clock()
        if isinstance(change, Claim):
            return _claim(run, change, now)
        if isinstance(change, Advance):
            return self._advance(run, change, now)
        if isinstance(change, Renew):
            _check_lease(run.record, change, now)
            run.record = replace(run.record, lease_until=now.ms + change.ttl_ms)
            return run.ack()
        return _answer(run, change)

    def _create(self, new: Create) -> Outcome:
        for run in self._runs:
            if run.record.run_id == new.run_id:
                return Refusal(Guard.EXISTS, "this run is already there", run.record)
        now = self._clock()
        running = new.owner is not None
        run = _Run(
            RunRecord(
                run_no=len(self._runs) + 1,
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
            )
        )
        run.artifacts[new.input.digest] = new.input.data
        run.tell(EventKind.CREATED, new.at)
        self._runs.append(run)
        return run.ack()

    def _advance(self, run: _Run, advance: Advance, now: LeaseTime) -> Outcome:
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
        for record in advance.calls:
            _add_call(run, record, version)
        for change in advance.changes:
            _change_call(run, change, version)
        for artifact in advance.artifacts:
            run.artifacts.setdefault(artifact.digest, artifact.data)
        for place, checkpoint in ((advance.version, advance.before), (version, advance.after)):
            if checkpoint is not None:
                placed = replace(checkpoint, version=place)
                run.checkpoints.setdefault(place, replace(placed, checksum=checkpoint_checksum(placed)))
        for request in advance.requests:
            self._ask(run, request)
        run.events.extend(advance.events)
        if advance.ending is not None:
            _leave(run, advance)
        return run.ack()

    def _ask(self, run: _Run, request: RequestRecord) -> None:
        asked = {(old.call_seq, old.kind, old.attempt) for old in run.requests}
        if (request.call_seq, request.kind, request.attempt) in asked:
            return
        if any(old.request_id == request.request_id for other in [*self._runs, run] for old in other.requests):
            raise StoreError("two requests have the same id")
        run.requests.append(
            replace(request, verdict=None, value=None, by=None, note=None, answered_at=None),
        )

    # --- Looking. ---

    def read_back(self, change: Change) -> Outcome | None:
        """See `Store.read_back`.  Nothing here has an unknown outcome, but a test may ask all the same."""
        self._open()
        if isinstance(change, Create):
            made = next((run for run in self._runs if run.record.run_id == change.run_id), None)
            return None if made is None or not _was_created_by(made.record, change) else replace(made.ack(0), epoch=1)
        run = self._find(change)
        if run is None:
            return None if isinstance(change, Claim) else Refusal(Guard.NOT_FOUND, "there is no such run")
        if isinstance(change, Claim):
            return Claimed(run.record, True, 0) if run.record.owner == change.owner else None
        if isinstance(change, Answer):
            told = (change.verdict, change.value, change.by, change.at)
            asked = next((request for request in run.requests if request.request_id == change.request_id), None)
            ours = asked is not None and (asked.verdict, asked.value, asked.by, asked.answered_at) == told
            return run.ack() if ours else None
        if run.record.epoch != change.epoch:
            return Refusal(Guard.LEASE, "the run has been taken over", run.record)
        if isinstance(change, Advance) and run.record.version > change.version:
            return run.ack(change.version + 1)
        return None

    def now(self) -> LeaseTime:
        """See `Store.now`."""
        return self._clock()

    def run(self, run_id: str) -> RunRecord | None:
        """See `Store.run`."""
        self._open()
        return next((run.record for run in self._runs if run.record.run_id == run_id), None)

    def find(self, ending: str, limit: int) -> list[str]:
        """See `Store.find`."""
        self._open()
        ids = sorted((run.record.run_id for run in self._runs), reverse=True)
        return [run_id for run_id in ids if run_id.endswith(ending)][:limit]

    def runs(self, which: RunFilter) -> list[RunRecord]:
        """See `Store.runs`."""
        self._open()
        found = [
            run.record
            for run in self._runs
            if which.status in (None, run.record.status)
            and which.agent in (None, run.record.agent)
            and (which.before is None or run.record.run_id < which.before)
        ]
        return sorted(found, key=lambda run: run.run_id, reverse=True)[: which.limit]

    def calls(self, run_no: int) -> list[CallRecord]:
        """See `Store.calls`."""
        return self._of(run_no, lambda run: [run.calls[seq] for seq in sorted(run.calls)], [])

    def artifact(self, run_no: int, digest: bytes) -> bytes | None:
        """See `Store.artifact`."""
        return self._of(run_no, lambda run: run.artifacts.get(digest), None)

    def checkpoints(self, run_no: int) -> list[CheckpointRecord]:
        """See `Store.checkpoints`."""
        return self._of(run_no, lambda run: [run.checkpoints[version] for version in sorted(run.checkpoints)], [])

    def requests(self, run_no: int) -> list[RequestRecord]:
        """See `Store.requests`."""
        return self._of(run_no, lambda run: list(run.requests), [])

    def events(self, run_no: int) -> list[EventRecord]:
        """See `Store.events`."""
        return self._of(run_no, lambda run: list(run.events), [])

    def inspect(self) -> Inspection:
        """See `Store.inspect`."""
        self._open()
        findings = []
        for run in self._runs:
            wrong = [f"call {call.call_id}" for call in run.calls.values() if not call_agrees(call)]
            wrong += [f"checkpoint {kept.version}" for kept in run.checkpoints.values() if not checkpoint_agrees(kept)]
            wrong += [f"artifact {name.hex()[:12]}" for name, data in run.artifacts.items() if digest_of(data) != name]
            findings += [Finding(where, "does not agree with its checksum", run.record.run_id) for where in wrong]
        return Inspection(
            runs=len(self._runs),
            calls=sum(len(run.calls) for run in self._runs),
            checkpoints=sum(len(run.checkpoints) for run in self._runs),
            artifacts=sum(len(run.artifacts) for run in self._runs),
            findings=tuple(findings),
        )

    def close(self) -> None:
        """See `Store.close`."""
        self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the model is closed")

    def _of(self, run_no: int, look: Callable[[_Run], T], otherwise: T) -> T:
        self._open()
        run = self._numbered(run_no)
        return otherwise if run is None else look(run)


def _claim(run: _Run, claim: Claim, now: LeaseTime) -> Claimed:
    before = run.record
    if _is_live(before, now):
        raise _Refused(Guard.HELD, "another owner holds the run")
    if before.status in FINAL and not claim.statuses >> before.status & 1:
        raise _Refused(Guard.ENDED, "the run has ended")
    if before.status is Status.WAITING and (before.wake_at is None or before.wake_at > claim.at):
        raise _Refused(Guard.NOT_DUE, "the run waits")
    if not claim.statuses >> before.status & 1:
        raise _Refused(Guard.TRANSITION, "a run of this status is not to be claimed")
    epoch = before.epoch + 1
    run.record = replace(
        before,
        owner=claim.owner,
        epoch=epoch,
        boot=now.boot,
        lease_until=now.ms + claim.ttl_ms,
        status=Status.RUNNING,
        wake_at=None,
        waiting_on=None,
        updated_at=claim.at,
    )
    taken_over = before.owner is not None
    run.tell(EventKind.TAKEN_OVER if taken_over else EventKind.CLAIMED, claim.at, None, epoch)
    marked = [call for call in run.calls.values() if call.state is CallState.STARTED and call.epoch < epoch]
    for call in sorted(marked, key=lambda call: call.seq):
        run.calls[call.seq] = replace(call, state=CallState.UNCERTAIN)
        run.tell(EventKind.CALL_UNCERTAIN, claim.at, call.seq, epoch, f"attempt {call.attempt}")
    return Claimed(run.record, taken_over, len(marked))


def _is_live(run: RunRecord, now: LeaseTime) -> bool:
    return run.owner is not None and run.boot == now.boot and run.lease_until > now.ms


def _check_lease(run: RunRecord, change: Advance | Renew, now: LeaseTime) -> None:
    if run.owner != change.owner or run.epoch != change.epoch or run.status is not Status.RUNNING:
        raise _Refused(Guard.LEASE, "the run is not this owner's under this epoch")
    if not _is_live(run, now):
        raise _Refused(Guard.LEASE, "the lease ran out")


def _check_advance(run: RunRecord, advance: Advance, now: LeaseTime) -> None:
    if run.status in FINAL and run.epoch == advance.epoch:
        raise _Refused(Guard.ENDED, "the run has ended")
    _check_lease(run, advance, now)
    if run.version != advance.version:
        raise _Refused(Guard.VERSION, "the run is at another version")
    ending = advance.ending
    if ending is not None and (run.control, run.answers) != (advance.control, advance.answers):
        raise _Refused(Guard.NEWS, "an order or an answer has come")
    stays = advance.phase is run.phase and run.phase is not Phase.STOPPED
    if not stays and advance.phase not in PHASES[run.phase]:
        raise _Refused(Guard.TRANSITION, "the phase does not allow it")
    if ending is not None and ending.status not in STATUSES[Status.RUNNING]:
        raise _Refused(Guard.TRANSITION, "the status does not allow it")


def _add_call(run: _Run, record: CallRecord, version: int) -> None:
    if record.seq in run.calls:
        raise StoreError("two calls have the same number")
    if record.state not in CALL_STATES[None]:
        raise _Refused(Guard.TRANSITION, "no call begins so")
    ended = version if record.state in ENDED else None
    run.calls[record.seq] = replace(record, started_version=version, ended_version=ended)


def _change_call(run: _Run, change: CallChange, version: int) -> None:
    call = run.calls.get(change.seq)
    if call is None or change.state not in CALL_STATES[call.state]:
        raise _Refused(Guard.TRANSITION, "the call's state does not allow it")
    given = {
        name: value
        for name in ("result", "result_artifact", "usage", "boot", "dispatch_by", "started_at", "checksum")
        if (value := getattr(change, name)) is not None
    }
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
        ended_at=change.ended_at,
        **given,
    )


def _leave(run: _Run, advance: Advance) -> None:
    ending = advance.ending
    assert ending is not None
    if any(call.state is CallState.STARTED for call in run.calls.values()):
        raise _Refused(Guard.TRANSITION, "a call is started")
    run.record = replace(
        run.record,
        status=ending.status,
        owner=None,
        lease_until=0,
        wake_at=ending.wake_at,
        waiting_on=ending.waiting_on,
        output_digest=ending.output_digest,
        error_class=ending.error_class,
        error_type=ending.error_type,
        error_message=ending.error_message,
    )


def _answer(run: _Run, answer: Answer) -> Ack:
    place = next(
        (place for place, request in enumerate(run.requests) if request.request_id == answer.request_id),
        None,
    )
    if place is None or run.requests[place].verdict is not None:
        raise _Refused(Guard.ANSWERED, "nothing is asked")
    before = run.record
    if answer.epoch is not None and answer.epoch != before.epoch:
        raise _Refused(Guard.ANSWERED, "the attempt was made under another epoch")
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
    run.tell(EventKind.ANSWERED, answer.at, asked.call_seq, before.epoch, answer.verdict.label)
    return run.ack()


def _was_created_by(run: RunRecord, new: Create) -> bool:
    same = (run.created_at, run.agent, run.task, run.input_digest) == (new.at, new.agent, new.task, new.input.digest)
    return same and (new.owner is None or run.owner == new.owner)
