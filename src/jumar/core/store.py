"""What a store must do: keep rows and check guards.  It knows no rules; those reach it as masks and values.

All writing goes through `write`, all else only reads.  A store is used from several threads at once, and its database
by several processes at once.  Every method may raise `jumar.errors.StoreError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from jumar.core.changes import Change, Outcome
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
from jumar.core.states import CallKind, IdentityScope, Status


class RunFilter(Struct, frozen=True):
    """Which runs to list, newest first; None takes all."""

    status: Status | None = None
    agent: str | None = None
    before: str | None = None  # only runs whose id sorts before this one: the next page
    limit: int = 100


class Finding(Struct, frozen=True):
    """One thing `doctor` found wrong: where it is, and what is wrong with it."""

    where: str
    what: str
    run_id: str | None = None


class Inspection(Struct, frozen=True):
    """What a check of the whole store looked at and what it found."""

    runs: int
    calls: int
    checkpoints: int
    artifacts: int
    findings: tuple[Finding, ...]


class CommitUnknown(Exception):
    """The connection was lost, or the disk failed, during COMMIT: the changes are on disk or they are not.

    Whoever gets it asks `read_back` about each of them.
    """


class Watch(Protocol):
    """Who waits for runs to become due.  It may miss one, so whoever waits also looks from time to time."""

    def wait(self, seconds: float) -> bool:
        """Wait until told, `wake` is called, or so many seconds have passed; whether it was told."""
        ...

    def wake(self) -> None:
        """End the wait of another thread; or the next one, where nobody waits just now.  Safe in a signal handler."""
        ...

    def close(self) -> None:
        """Be told no more."""
        ...


class Store(Protocol):
    """The methods a store has."""

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        """Apply the changes in this order in one transaction and answer each: an Ack or Claimed, a Refusal, or the
        error that this change alone met.  When this returns, what was acknowledged is on disk.

        Guards, each checked in the transaction that writes:
        - Create: no run has this id.
        - Claim: the run exists, its status is in `statuses`, no lease on it is live, its epoch is `epoch` where that is
          given, and where it is WAITING its `wake_at` has passed, its `control` is not NONE, or the claim is `early`.
          The run's row is locked and updated first; only then are its calls STARTED under an older epoch marked
          UNCERTAIN, and, where its phase is DECISION_RECORDED or AWAITING_RESULTS, its PLANNED reads, these with
          attempt + 1.  A call in `reopens` needs its state to allow the new one.
        - Advance: the run is RUNNING under this owner, epoch and version, its lease is live on the store's lease
          clock as read inside this transaction, and its phase allows the next one (`phases.PHASE_BEFORE`): the first
          of `through`, or else `phase`; that each of the rest may follow is the caller's to know
          (`phases.check_path`).  A CallChange needs the call's state to allow the new one
          (`call_states.STATE_BEFORE`).  A name in `takes` that is free, or the call's own already, or held by
          `instead_of`, is the call's; else the call becomes AWAITING, with one attempt less, and is in `Ack.taken`.
          `frees` comes first.  With an `ending`, also: `control` and `answers` are as given, the status allows the new
          one, no call is STARTED, and none is UNCERTAIN where the run is COMPLETED.
          With `head` any phase may follow.  `takes` and `holds` are all there or the call is AWAITING.
        - Fork: the source's version is `version`, and no run has the new id.
        - Renew: RUNNING under this owner and epoch, with a live lease.
        - Answer: the request is open; where `epoch` is given, the run's epoch is still that one, and the request may
          also have been answered NOT_HAPPENED: an attempt's own late result outweighs what somebody believed of it.
          `settles` and `frees` are carried out where the run is COMPLETED or CANCELLED, `settles` where the call's
          state allows it; the version stays.
        - Order: the run exists and is not COMPLETED or CANCELLED.
        - Adopt, Arrive, Depart: as they say themselves.  A run that is ARRIVING or has MOVED (`moving.is_elsewhere`) is
          not claimed (Guard.ENDED), and no request of it is answered (Guard.ANSWERED), whatever else the change says.

        A refused change leaves nothing behind, and the others of the batch stand.  On a database error the batch is
        rolled back and each change commits alone.  With `wait=False` StoreBusy is raised at once where another
        process writes, and where a batch has to be taken apart, since each part takes the lock anew.  Raises
        CommitUnknown where the outcome of a COMMIT is not known.
        """
        ...

    def read_back(self, change: Change) -> Outcome | None:
        """Whether this change, whose commit had an unknown outcome, is on disk: its answer, or None where it is not.
        The run's row is locked before it is read, so that a commit still on its way is waited for."""
        ...

    def now(self) -> LeaseTime:
        """The lease clock."""
        ...

    def run(self, run_id: str) -> RunRecord | None:
        """One run by its whole id."""
        ...

    def find(self, ending: str, limit: int) -> list[str]:
        """Ids of runs that end in these characters, newest first; an empty ending finds the newest runs."""
        ...

    def runs(self, which: RunFilter) -> list[RunRecord]:
        """Runs, newest first."""
        ...

    def due(self, wall_ms: int, limit: int, agents: Sequence[str] | None = None) -> list[str]:
        """Ids of runs that can go on without anybody: WAITING under an order that nobody has obeyed (`control` is not
        NONE), WAITING for a time that has come, RUNNING under a lease that has run out, and QUEUED; in this order, so
        that what has begun comes before what has not, each oldest first and named once; of these `agents` alone where
        they are given.  A run that somebody is claiming at this moment may be left out."""
        ...

    def next_due(self, wall_ms: int) -> int | None:
        """In how many milliseconds at the earliest a run becomes due by time alone: by its `wake_at`, or because its
        lease runs out unless it is renewed; 0 where one has become due so already, None where nothing will.  QUEUED
        runs, and orders, do not count."""
        ...

    def watch(self) -> Watch:
        """Be told when runs may have become due: QUEUED by a start, an answer or a release, or ordered to stop."""
        ...

    def export(self, run_id: str) -> RunExport | None:
        """All there is of a run, read in one transaction; IntegrityError where a row of it is damaged
        (`moving.check_export`)."""
        ...

    def calls(self, run_no: int, since: int = 0) -> list[CallRecord]:
        """A run's calls in the order of their `seq`, from the number `since` on."""
        ...

    def call(self, run_no: int, seq: int) -> CallRecord | None:
        """One call by its number."""
        ...

    def last_call(self, run_no: int, kind: CallKind) -> CallRecord | None:
        """A run's newest call of a kind."""
        ...

    def identity(self, scope: IdentityScope, run_no: int, key: str) -> IdentityRecord | None:
        """Who holds a name: in the scope of this run, or of the store; a record of nobody (`run_no` 0) where the action
        was undone and nobody has taken the name since."""
        ...

    def shared(self, run_no: int, seq: int) -> bool:
        """Whether another run counts on what a call did: one that was given its result, because both ask for the action
        of one name in the whole store, or a fork that has a copy of the call."""
        ...

    def holds(self, workspace: str, path: bytes) -> list[HoldRecord]:
        """Who holds this path of a workspace, one above or one below it, in the order of the paths."""
        ...

    def artifact(self, run_no: int, digest: bytes) -> bytes | None:
        """The bytes a run keeps under this digest, or, where it is a fork, the run it was made from; IntegrityError
        where they are damaged."""
        ...

    def checkpoints(self, run_no: int) -> list[CheckpointRecord]:
        """A run's checkpoints in the order of their versions.  One whose row is damaged is among them, and does not
        agree with its checksum, so that a recovery can pass it over."""
        ...

    def last_snapshot(self, run_no: int) -> CheckpointRecord | None:
        """A run's newest sound checkpoint that has a snapshot of the workspace."""
        ...

    def requests(self, run_no: int, call_seq: int | None = None, *, unanswered: bool = False) -> list[RequestRecord]:
        """A run's requests, or those about one of its calls, oldest first: answered ones too, or the `unanswered`
        alone.  The unanswered ones of a run are found without reading those that were answered."""
        ...

    def open_requests(self, limit: int) -> list[tuple[str, RequestRecord]]:
        """The unanswered requests of all runs, each with its run's id, oldest first; of a run that is COMPLETED or
        CANCELLED those of kind RESOLVE alone."""
        ...

    def events(self, run_no: int) -> list[EventRecord]:
        """What the trace has beyond the calls, in the order it was written."""
        ...

    def inspect(self) -> Inspection:
        """Check every checksum, and have the database check itself."""
        ...

    def close(self) -> None:
        """Close every connection; a later use raises StoreUnavailable."""
        ...
