"""What may be asked of a store's one writing method, and what it answers.

A change is guarded: the store applies it only where its guard holds, and otherwise answers a `Refusal` that names the
guard and leaves no trace of the change.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from jumar import errors
from jumar.core.records import (
    Artifact,
    CallRecord,
    CheckpointRecord,
    EventRecord,
    Failure,
    RequestRecord,
    RunExport,
    RunRecord,
    Usage,
)
from jumar.core.states import CallState, Control, ErrorClass, IdentityScope, Phase, Status, Verdict


class CallChange(Struct, frozen=True, kw_only=True):
    """A new state for a call that has a row; legal where `call_states` says so.

    `failure`, `over_at` and `ended_at` are those of the new state; of the other fields None leaves what is there.
    """

    seq: int
    state: CallState
    attempt: int
    epoch: int
    result: bytes | None = None
    result_artifact: bytes | None = None
    failure: Failure | None = None
    usage: Usage | None = None
    boot: bytes | None = None
    dispatch_by: int | None = None
    over_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    checksum: int | None = None
    identity: str | None = None
    identity_scope: IdentityScope | None = None
    before: bytes | None = None
    after: bytes | None = None
    undone: int | None = None


class Take(Struct, frozen=True, kw_only=True):
    """Take the name of an action for a call that this advance makes STARTED.

    Where another call holds the name, the call is AWAITING instead of STARTED, with one attempt less, since that one
    is not made, and the Ack says so; nothing else of the advance depends on it.  `instead_of` is a holder (run number,
    call number) whose place may be taken.  `undone` is how often the action was undone, as last seen: where that has
    changed the name is not taken either, because the call's idempotency key is made of it.
    """

    seq: int
    scope: IdentityScope
    key: str
    args_digest: bytes
    instead_of: tuple[int, int] | None = None
    undone: int = 0


class Hold(Struct, frozen=True, kw_only=True):
    """Hold a path of a workspace, with all below it (b"": the whole), for a call that this advance makes STARTED.

    Where another call holds that path, one above or one below it, the call becomes AWAITING as with a `Take`.  A
    rollback holds under the number 0; what it cannot hold refuses its claim with Guard.HOLD.
    """

    seq: int
    workspace: str
    path: bytes


class Head(Struct, frozen=True, kw_only=True):
    """The new head of a run that was rolled back: what comes next is based on version `base`.

    The advance that makes it may go to any phase; the generation rises by one, and the intent is gone.
    """

    base: int


class Ending(Struct, frozen=True, kw_only=True):
    """How a run leaves RUNNING.  Where an operator's order or answer has come since the driver last looked, the
    change is refused with Guard.NEWS and the driver looks again.
    """

    status: Status
    wake_at: int | None = None
    waiting_on: str | None = None
    output_digest: bytes | None = None
    error_class: ErrorClass | None = None
    error_type: str | None = None
    error_message: str | None = None
    failed_calls: tuple[int, ...] = ()


class Create(Struct, frozen=True, kw_only=True):
    """A new run, QUEUED; or, where `owner` is given, RUNNING at once under epoch 1."""

    run_id: str
    agent: str
    agent_version: str
    task: str
    phase: Phase
    input: Artifact
    at: int
    owner: str | None = None
    ttl_ms: int = 0
    workspace: str | None = None


class Fork(Struct, frozen=True, kw_only=True):
    """A new run out of another one, as that stood at version `base`; PAUSED, so that somebody looks at it first.

    It takes the other's agent, task, input and line, begins at the version after the other's newest (`version`, which
    is guarded: where the run has gone on meanwhile the fork is refused), and has copies of the call rows `calls` (by
    their numbers) and of the checkpoints in `checkpoints` (by their versions); artifacts stay the other's.
    """

    run_id: str
    source_no: int
    version: int
    base: int
    phase: Phase
    step: int
    at: int
    calls: tuple[int, ...] = ()
    checkpoints: tuple[int, ...] = ()
    workspace: str | None = None
    by: str = ""


class Claim(Struct, frozen=True, kw_only=True):
    """Take a free or expired lease: epoch + 1, and every call STARTED under an older epoch becomes UNCERTAIN; so does
    a read that an open decision had PLANNED, with its attempt counted.

    `statuses` is a mask of the statuses that may be claimed.  `early` claims a run that waits although its time has
    not come; one whose `control` is not NONE is claimed without it, because whoever gave that order may have died
    before he could claim the run and carry it out.  `resumes` ends a pause: a control of PAUSE goes back to NONE.
    `reopens` are changes of calls that a FAILED run failed with; they were made from the run as it stood under
    `epoch`, and the claim is refused where that is no longer its epoch.

    A claim of a run whose lease had run out counts a crash of its process (`RunRecord.crashes`): one more, or the first
    where the run has recorded a new call since the last; with `resumes` none is counted and the count begins anew.
    `workspace` moves the run to other files, with the paths that its calls hold there.

    A claim with an `intent` begins a rollback: it was planned from the run as it stood at `version`, which is guarded
    too, and it takes `holds`.
    """

    run_id: str
    owner: str
    ttl_ms: int
    at: int
    statuses: int
    early: bool = False
    resumes: bool = False
    epoch: int | None = None
    reopens: tuple[CallChange, ...] = ()
    version: int | None = None
    intent: bytes | None = None
    holds: tuple[Hold, ...] = ()
    workspace: str | None = None


class Advance(Struct, frozen=True, kw_only=True):
    """The only way a live run changes.  `version` is the one expected; it is given when the advance is queued.

    `control` and `answers` are what the driver saw last of the operators' columns.  They guard an advance with an
    `ending`; without one they only spare the store from reading back what has not changed.

    Of the two checkpoints, `before` stands for the expected version and `after` for the one this advance makes.
    Where a version has a checkpoint already, that one stays.

    `through` are phases that the run passes through on its way to `phase` in this one commit.  `takes` are names of
    actions to take, `frees` the numbers of calls whose names are given up; a call that this advance makes COMPENSATED
    and that is in `frees` counts as one more time that its action was undone.  `holds` are paths to hold, `drops` the
    numbers of calls whose paths are given up (0: the rollback's).

    `intent` replaces the run's intent; `head` ends a rollback, and `withdraws` names requests that nobody need answer
    any more.  `settles` ends an intent without a new head, where only files were put back.
    """

    run_no: int
    owner: str
    epoch: int
    phase: Phase
    step: int
    ttl_ms: int
    at: int
    control: int = 0
    answers: int = 0
    version: int = -1
    calls: tuple[CallRecord, ...] = ()
    changes: tuple[CallChange, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    before: CheckpointRecord | None = None
    after: CheckpointRecord | None = None
    requests: tuple[RequestRecord, ...] = ()
    events: tuple[EventRecord, ...] = ()
    ending: Ending | None = None
    through: tuple[Phase, ...] = ()
    takes: tuple[Take, ...] = ()
    frees: tuple[int, ...] = ()
    holds: tuple[Hold, ...] = ()
    drops: tuple[int, ...] = ()
    withdraws: tuple[str, ...] = ()
    intent: bytes | None = None
    head: Head | None = None
    settles: bool = False


class Renew(Struct, frozen=True, kw_only=True):
    """Move one live lease's deadline; guarded by owner, epoch, live lease and RUNNING.  The version stays."""

    run_no: int
    owner: str
    epoch: int
    ttl_ms: int


class Answer(Struct, frozen=True, kw_only=True):
    """Answer a request, once: a compare-and-set on it that adds 1 to the run's `answers` and wakes it.

    `epoch` is given where the answer is a late result of an attempt made under it; it then also replaces a
    NOT_HAPPENED.  `settles` is what the answer makes of its call where the run has ended for good, so that nobody is
    left to look at it; `frees` says that the call's name is given up with that.
    """

    run_no: int
    request_id: str
    verdict: Verdict
    value: bytes | None
    by: str
    note: str | None
    at: int
    epoch: int | None = None
    settles: CallChange | None = None
    frees: bool = False


class Order(Struct, frozen=True, kw_only=True):
    """An operator's order: raise a run's `control`, which never falls by an order.  Whoever drives the run obeys, or
    else whoever claims it next, even where it waits.
    """

    run_id: str
    control: Control
    at: int
    by: str
    note: str | None = None


class Adopt(Struct, frozen=True, kw_only=True):
    """Take a run over from another store, with all it has there: every row of `export` as it is, but for the number
    of the run.  `moving.adoption` makes it of what was exported: the run is CANCELLED with the error type `ARRIVING`
    and has no lease, and nobody goes on with it here before `Arrive`.

    Refused with Guard.EXISTS where this store has the run, or another run of it holds one of its names in the whole
    store.  One that is `ARRIVING` here is replaced, with every row of it, unless it stands further (by epoch, then
    version, then answers) than this one; one that has `MOVED` away where this one's epoch is higher; else both are
    refused with Guard.VERSION.
    """

    export: RunExport


class Arrive(Struct, frozen=True, kw_only=True):
    """An adopted run becomes what it was in the store it came from, without a lease; what was RUNNING there is RUNNING
    under nobody, so that whoever claims it takes it over.

    It is guarded by what was adopted: `ARRIVING`, and `epoch`, `version`, `answers` and `control` as they are here,
    else Guard.VERSION.  The epoch rises by one unless the status is COMPLETED or CANCELLED, so that the run is ahead of
    whatever it left behind.
    """

    run_id: str
    epoch: int
    version: int
    answers: int
    control: Control
    status: Status
    wake_at: int | None
    waiting_on: str | None
    error_class: ErrorClass | None
    error_type: str | None
    error_message: str | None
    at: int


class Depart(Struct, frozen=True, kw_only=True):
    """A run goes on in another store: here it is CANCELLED with the error type `MOVED`, and `message` says where it is
    and what it was (`moving.departure`).  Its paths are given up and its open requests withdrawn; its names stay.

    It is guarded by all that the copy was made from: no live lease (Guard.HELD), not COMPLETED or CANCELLED
    (Guard.ENDED), and `epoch`, `version`, `answers` and `control` as they were exported (Guard.VERSION).
    """

    run_id: str
    epoch: int
    version: int
    answers: int
    control: Control
    message: str
    at: int


# Error types of runs that are CANCELLED because they go on elsewhere; no class has a space in its name.
ARRIVING = "arriving here"
MOVED = "moved away"

Change: TypeAlias = Create | Fork | Claim | Advance | Renew | Answer | Order | Adopt | Arrive | Depart


class Ack(Struct, frozen=True):
    """The change is on disk.  `control` and `answers` are the operators' columns as this transaction saw them;
    `taken` are the calls of an advance whose names, or whose paths, another call holds.
    """

    run_no: int
    version: int
    epoch: int
    control: int = 0
    answers: int = 0
    taken: tuple[int, ...] = ()


class Claimed(Struct, frozen=True):
    """The lease is taken.  `taken_over` says that another owner's had run out; `uncertain` counts the calls so
    marked.
    """

    run: RunRecord
    taken_over: bool
    uncertain: int


class Guard(Enum):
    """Which guard refused a change."""

    NOT_FOUND = "not found"
    EXISTS = "exists"
    HELD = "held"
    LEASE = "lease"
    VERSION = "version"
    TRANSITION = "transition"
    ENDED = "ended"
    NOT_DUE = "not due"
    NEWS = "news"
    ANSWERED = "answered"
    HOLD = "hold"


class Refusal(Struct, frozen=True):
    """The change was not made.  `run` is the run as the refusing transaction saw it, where there is one."""

    guard: Guard
    detail: str
    run: RunRecord | None = None

    def error(self) -> errors.JumarError:
        """The error a person sees for this refusal."""
        is_moved = self.guard is Guard.ENDED and self.run is not None and self.run.error_type == MOVED
        return _ERRORS[self.guard](self.detail, hint=_THERE if is_moved else _HINTS.get(self.guard))


_ERRORS: dict[Guard, type[errors.JumarError]] = {
    Guard.NOT_FOUND: errors.RunNotFound,
    Guard.EXISTS: errors.RunExists,
    Guard.HELD: errors.LeaseHeld,
    Guard.LEASE: errors.LeaseLost,
    Guard.VERSION: errors.StaleVersion,
    Guard.TRANSITION: errors.IllegalTransition,
    Guard.ENDED: errors.RunEnded,
    Guard.NOT_DUE: errors.IllegalTransition,
    Guard.NEWS: errors.IllegalTransition,
    Guard.ANSWERED: errors.IllegalTransition,
    Guard.HOLD: errors.WorkspaceBusy,
}

_THERE = "Go on with it there: give that store's address with --store."
_HINTS = {
    Guard.HOLD: (
        "Wait until it has ended; where its process has gone, resume that run, which puts its files back "
        "(`jumar runs` tells)."
    )
}

Outcome: TypeAlias = Ack | Claimed | Refusal
