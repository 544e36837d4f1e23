"""A store as plain data: the rules of `jumar.core.store.Store` told once more, without a database.

It is here to be compared with.  A real store is given the same changes, and every answer and every row must be equal;
so this one is written from the protocol's words and its tables, to be obviously right, and shares no statement and no
mask with the stores.  A change is applied to a copy of its run, which takes the run's place only where the change was
not refused.

It keeps everything in memory, is used by one thread at a time, and takes its clock from whoever makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from jumar.core.call_states import ENDED
from jumar.core.changes import (
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
from jumar.core.checksums import call_agrees, checkpoint_agrees
from jumar.core.codec import digest as digest_of
from jumar.core.intents import intent_of
from jumar.core.moving import check_export
from jumar.core.phases import FINAL
from jumar.core.records import (
    CallRecord,
    CheckpointRecord,
    EventRecord,
    HoldRecord,
    IdentityRecord,
    LeaseTime,
    RequestRecord,
    RunExport,
    RunRecord,
)
from jumar.core.states import CallKind, CallState, Control, IdentityScope, RequestKind, Status
from jumar.core.store import Finding, Inspection, RunFilter, Watch
from jumar.errors import IntegrityError, StoreError, StoreUnavailable
from jumar.stores.watching import Watching
from jumar.testing.conformance_rules import (
    RunRows,
    advanced,
    check_lease,
    claimed,
    created,
    fits,
    was_created_by,
)
from jumar.testing.conformance_rules_forking import forked, was_forked_by
from jumar.testing.conformance_rules_moving import adopted, arrived, departed, exported, was_moved_by
from jumar.testing.conformance_rules_operators import answered, ordered
from jumar.testing.conformance_rules_taking import Refused, Taken, overlapping

T = TypeVar("T")
_OfOneRun: TypeAlias = Claim | Advance | Renew | Answer | Order | Arrive | Depart


class ModelStore:
    """The pure model of a store; `clock` reads its lease clock.  See `jumar.core.store.Store` for its methods."""

    def __init__(self, clock: Callable[[], LeaseTime]) -> None:
        self._clock = clock
        self._runs: list[RunRows] = []
        self._taken = Taken()
        self._watching = Watching()
        self._closed = False

    # --- Writing. ---

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        """See `Store.write`."""
        self._open()
        answers = [self._answer_to(change) for change in changes]
        self._watching.tell(changes, answers)
        return answers

    def _answer_to(self, change: Change) -> Outcome | Exception:
        if not fits(change):
            return StoreError("the change holds what no store can keep")
        if isinstance(change, Create):
            return self._create(change)
        if isinstance(change, Fork):
            return self._fork(change)
        if isinstance(change, Adopt):
            return self._adopt(change)
        run = self._find(change)
        if run is None:
            # A request is looked up before its run is.
            missing = Guard.ANSWERED if isinstance(change, Answer) else Guard.NOT_FOUND
            return Refusal(Guard.LEASE if isinstance(change, Renew) else missing, "there is no such run")
        changed, taken = run.copy(), self._taken.copy()
        try:
            outcome = self._applied(changed, change, taken)
        except Refused as refused:
            return Refusal(refused.guard, str(refused), run.record)
        except StoreError as error:
            return error
        self._runs[self._runs.index(run)] = changed
        self._taken = taken
        return outcome

    def _find(self, change: _OfOneRun) -> RunRows | None:
        if isinstance(change, (Claim, Order, Arrive, Depart)):
            return self._called(change.run_id)
        return self._numbered(change.run_no)

    def _called(self, run_id: str) -> RunRows | None:
        return next((run for run in self._runs if run.record.run_id == run_id), None)

    def _numbered(self, run_no: int) -> RunRows | None:
        return next((run for run in self._runs if run.record.run_no == run_no), None)

    def _applied(self, run: RunRows, change: _OfOneRun, taken: Taken) -> Outcome:
        now = self._clock()
        if isinstance(change, Claim):
            return claimed(run, change, now, taken)
        if isinstance(change, Advance):
            asked = {request.request_id for other in self._runs for request in other.requests}
            return advanced(run, change, now, asked, taken)
        if isinstance(change, Renew):
            check_lease(run.record, change, now)
            run.record = replace(run.record, lease_until=now.ms + change.ttl_ms)
            return run.ack()
        if isinstance(change, Order):
            return ordered(run, change)
        if isinstance(change, Arrive):
            return arrived(run, change)
        if isinstance(change, Depart):
            return departed(run, change, now, taken)
        return answered(run, change, taken)

    def _create(self, new: Create) -> Outcome:
        for run in self._runs:
            if run.record.run_id == new.run_id:
                return Refusal(Guard.EXISTS, "this run is already there", run.record)
        run = created(new, len(self._runs) + 1, self._clock())
        self._runs.append(run)
        return run.ack()

    def _fork(self, fork: Fork) -> Outcome:
        source = self._numbered(fork.source_no)
        if source is None:
            return Refusal(Guard.NOT_FOUND, "there is no such run")
        there = next((run.record for run in self._runs if run.record.run_id == fork.run_id), None)
        taken = self._taken.copy()
        try:
            run = forked(source, fork, len(self._runs) + 1, taken, there)
        except Refused as refused:
            return Refusal(refused.guard, str(refused), there if refused.guard is Guard.EXISTS else source.record)
        self._runs.append(run)
        self._taken = taken
        return run.ack()

    def _adopt(self, adopt: Adopt) -> Outcome:
        before = self._called(adopt.export.run.run_id)
        there = None if before is None else before.record
        taken = self._taken.copy()
        try:
            run = adopted(adopt.export, len(self._runs) + 1 if there is None else there.run_no, taken, there)
        except Refused as refused:
            return Refusal(refused.guard, str(refused), there)
        if before is None:
            self._runs.append(run)
        else:
            self._runs[self._runs.index(before)] = run
        self._taken = taken
        return run.ack()

    # --- Looking. ---

    def read_back(self, change: Change) -> Outcome | None:
        """See `Store.read_back`.  Nothing here has an unknown outcome, but a test may ask all the same."""
        self._open()
        if isinstance(change, Create):
            made = next((run for run in self._runs if run.record.run_id == change.run_id), None)
            if made is None or not was_created_by(made.record, change):
                return None
            return Ack(made.record.run_no, 0, 0 if change.owner is None else 1)
        if isinstance(change, Fork):
            source = self._numbered(change.source_no)
            ours = source is not None and was_forked_by(self.run(change.run_id), source.record, change)
            number = next((run.record.run_no for run in self._runs if run.record.run_id == change.run_id), 0)
            return Ack(number, change.version + 1, 0) if ours else None
        if isinstance(change, (Adopt, Arrive, Depart)):
            run = self._called(change.export.run.run_id if isinstance(change, Adopt) else change.run_id)
            return run.ack() if run is not None and was_moved_by(run.record, change) else None
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
        if isinstance(change, Order):
            return run.ack() if run.record.control >= change.control else None
        if run.record.epoch != change.epoch:
            return Refusal(Guard.LEASE, "the run has been taken over", run.record)
        if isinstance(change, Advance) and run.record.version > change.version:
            waiting = {seq for seq, call in run.calls.items() if call.state is CallState.AWAITING}
            wanted = {take.seq for take in change.takes} | {path.seq for path in change.holds}
            return run.ack(change.version + 1, tuple(sorted(wanted & waiting)))
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

    def due(self, wall_ms: int, limit: int, agents: Sequence[str] | None = None) -> list[str]:
        """See `Store.due`."""
        self._open()
        now = self._clock()
        runs = sorted((run.record for run in self._runs), key=lambda run: run.run_id)
        waiting = [run for run in runs if run.status is Status.WAITING]
        ordered_to_stop = [run for run in waiting if run.control is not Control.NONE]
        come = [
            run
            for run in sorted(waiting, key=lambda run: run.wake_at or 0)
            if run.control is Control.NONE and run.wake_at is not None and run.wake_at <= wall_ms
        ]
        running = [run for run in runs if run.status is Status.RUNNING]
        expired = [run for run in running if _time_left(run, now) == 0]
        queued = [run for run in runs if run.status is Status.QUEUED]
        due = ordered_to_stop + come + expired + queued
        return [run.run_id for run in due if agents is None or run.agent in agents][:limit]

    def next_due(self, wall_ms: int) -> int | None:
        """See `Store.next_due`."""
        self._open()
        now = self._clock()
        runs = [run.record for run in self._runs]
        timers = [run.wake_at for run in runs if run.status is Status.WAITING and run.wake_at is not None]
        left = [max(0, wake_at - wall_ms) for wake_at in timers]
        left += [_time_left(run, now) for run in runs if run.status is Status.RUNNING]
        return min(left, default=None)

    def watch(self) -> Watch:
        """See `Store.watch`."""
        self._open()
        return self._watching.watch()

    def calls(self, run_no: int, since: int = 0) -> list[CallRecord]:
        """See `Store.calls`."""
        return self._of(run_no, lambda run: [run.calls[seq] for seq in sorted(run.calls) if seq >= since], [])

    def call(self, run_no: int, seq: int) -> CallRecord | None:
        """See `Store.call`."""
        return self._of(run_no, lambda run: run.calls.get(seq), None)

    def last_call(self, run_no: int, kind: CallKind) -> CallRecord | None:
        """See `Store.last_call`."""
        of_kind = [call for call in self.calls(run_no) if call.kind is kind]
        return of_kind[-1] if of_kind else None

    def identity(self, scope: IdentityScope, run_no: int, key: str) -> IdentityRecord | None:
        """See `Store.identity`."""
        self._open()
        return self._taken.names.get((None if scope is IdentityScope.STORE else run_no, key))

    def shared(self, run_no: int, seq: int) -> bool:
        """See `Store.shared`."""
        call, mine = self.call(run_no, seq), self._numbered(run_no)
        others = [run for run in self._runs if run.record.run_no != run_no]
        if call is not None and call.identity is not None and call.identity_scope is IdentityScope.STORE:
            name = (call.identity, call.identity_scope, CallState.SUCCEEDED)
            for other in others:
                if any((each.identity, each.identity_scope, each.state) == name for each in other.calls.values()):
                    return True
        forks = [run for run in others if mine is not None and run.record.forked_from == mine.record.run_id]
        copies = [copy for run in forks if (copy := run.calls.get(seq)) is not None]
        return any(copy.state is CallState.SUCCEEDED and copy.epoch == 0 for copy in copies)

    def holds(self, workspace: str, path: bytes) -> list[HoldRecord]:
        """See `Store.holds`."""
        self._open()
        held = overlapping(self._taken.holds, workspace, path)
        return sorted(held, key=lambda holder: (holder.path, holder.run_no, holder.call_seq))

    def artifact(self, run_no: int, digest: bytes) -> bytes | None:
        """See `Store.artifact`."""
        run = self._numbered(run_no)
        while run is not None and digest not in run.artifacts:
            origin = run.record.forked_from
            run = next((other for other in self._runs if other.record.run_id == origin), None)
        return self._of(run_no, lambda _: None if run is None else run.artifacts[digest], None)

    def checkpoints(self, run_no: int) -> list[CheckpointRecord]:
        """See `Store.checkpoints`."""
        return self._of(run_no, lambda run: [run.checkpoints[version] for version in sorted(run.checkpoints)], [])

    def last_snapshot(self, run_no: int) -> CheckpointRecord | None:
        """See `Store.last_snapshot`."""
        with_trees = [kept for kept in self.checkpoints(run_no) if kept.tree is not None and checkpoint_agrees(kept)]
        return with_trees[-1] if with_trees else None

    def requests(self, run_no: int, call_seq: int | None = None, *, unanswered: bool = False) -> list[RequestRecord]:
        """See `Store.requests`."""
        asked: list[RequestRecord] = self._of(run_no, lambda run: run.requests, [])
        about = [request for request in asked if call_seq in (None, request.call_seq)]
        return [request for request in about if request.verdict is None] if unanswered else about

    def open_requests(self, limit: int) -> list[tuple[str, RequestRecord]]:
        """See `Store.open_requests`."""
        self._open()
        asked = [
            (run.record.run_id, request)
            for run in self._runs
            for request in run.requests
            if request.verdict is None and (run.record.status not in FINAL or request.kind is RequestKind.RESOLVE)
        ]
        return sorted(asked, key=lambda found: (found[1].created_at, found[1].request_id))[:limit]

    def events(self, run_no: int) -> list[EventRecord]:
        """See `Store.events`."""
        return self._of(run_no, lambda run: list(run.events), [])

    def export(self, run_id: str) -> RunExport | None:
        """See `Store.export`."""
        self._open()
        run = self._called(run_id)
        return None if run is None else check_export(exported(run, self._taken))

    def inspect(self) -> Inspection:
        """See `Store.inspect`."""
        self._open()
        findings = []
        for run in self._runs:
            wrong = [f"call {call.call_id}" for call in run.calls.values() if not call_agrees(call)]
            wrong += [f"checkpoint {kept.version}" for kept in run.checkpoints.values() if not checkpoint_agrees(kept)]
            wrong += [f"artifact {name.hex()[:12]}" for name, data in run.artifacts.items() if digest_of(data) != name]
            findings += [Finding(where, "does not agree with its checksum", run.record.run_id) for where in wrong]
        findings += self._idle_names() + self._idle_holds() + self._unreadable_intents()
        return Inspection(
            runs=len(self._runs),
            calls=sum(len(run.calls) for run in self._runs),
            checkpoints=sum(len(run.checkpoints) for run in self._runs),
            artifacts=sum(len(run.artifacts) for run in self._runs),
            findings=tuple(findings),
        )

    def _idle_names(self) -> list[Finding]:
        """Names held by calls that are not there, or that do not carry them."""
        carried = {
            (call.identity_scope, call.identity, run.record.run_no, seq)
            for run in self._runs
            for seq, call in run.calls.items()
        }
        return [
            Finding(f"name {name.key}", "is held by no call that carries it", name.run_id)
            for name in self._taken.names.values()
            if name.run_no != 0 and (name.scope, name.key, name.run_no, name.call_seq) not in carried
        ]

    def _idle_holds(self) -> list[Finding]:
        """Paths held by calls that are not there or have ended, or by rollbacks that are not under way."""
        idle = []
        for held in self._taken.holds:
            run = self._numbered(held.run_no)
            assert run is not None
            call = run.calls.get(held.call_seq)
            goes_on = run.record.intent is not None if held.call_seq == 0 else call and call.state not in ENDED
            if not goes_on:
                idle.append(Finding(f"path {held.path.decode()}", "is held by nobody", held.run_id))
        return idle

    def _unreadable_intents(self) -> list[Finding]:
        findings = []
        for run in self._runs:
            try:
                intent_of(run.record)
            except IntegrityError as error:
                findings.append(Finding("intent", error.what, run.record.run_id))
        return findings

    def close(self) -> None:
        """See `Store.close`."""
        self._closed = True

    def _open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the model is closed")

    def _of(self, run_no: int, look: Callable[[RunRows], T], otherwise: T) -> T:
        self._open()
        run = self._numbered(run_no)
        return otherwise if run is None else look(run)


def _time_left(run: RunRecord, now: LeaseTime) -> int:
    """For how many milliseconds the lease of a RUNNING run is still live."""
    return max(0, run.lease_until - now.ms) if run.owner is not None and run.boot == now.boot else 0
