"""What the store keeps, as frozen records: a run, its calls, checkpoints, requests and events.

Times called `*_at` are wall-clock milliseconds since 1970.  `lease_until`, `dispatch_by` and `over_at` (when an attempt
was over, where that is known) are milliseconds on the store's lease clock, which counts on through suspend and ignores
wall-clock jumps; they mean nothing under another `boot`.
"""

from __future__ import annotations

from msgspec import Struct

from jumar.core.states import (
    CallKind,
    CallState,
    Control,
    Effect,
    ErrorClass,
    EventKind,
    IdentityScope,
    Level,
    Phase,
    RequestKind,
    Status,
    Storage,
    Verdict,
)


class LeaseTime(Struct, frozen=True):
    """A reading of the lease clock: which boot of the host (or which server), and milliseconds since it."""

    boot: bytes
    ms: int


class Failure(Struct, frozen=True, omit_defaults=True):
    """A recorded failure: the exception's type, message, class, and what is needed to raise it again as itself.

    What is at its default is not written, so that a field added later leaves the checksums of older rows as they are.
    """

    type_name: str
    message: str
    error_class: ErrorClass
    hint: str = ""
    args: bytes | None = None
    state: bytes | None = None
    path: str | None = None
    cancelled: bool = False
    module: str = ""


class Usage(Struct, frozen=True):
    """What a model's answer cost: tokens in and out, those read from a cache, and money where the provider says it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = None


class RunRecord(Struct, frozen=True):
    """One execution of an agent on a task."""

    run_no: int
    run_id: str
    agent: str
    agent_version: str
    task: str
    status: Status
    phase: Phase
    step: int
    version: int
    generation: int
    owner: str | None
    epoch: int
    boot: bytes
    lease_until: int
    control: Control
    answers: int
    wake_at: int | None
    waiting_on: str | None
    input_digest: bytes | None
    output_digest: bytes | None
    error_class: ErrorClass | None
    error_type: str | None
    error_message: str | None
    created_at: int
    updated_at: int
    failed_calls: tuple[int, ...] = ()  # of a FAILED run: the numbers of the calls it failed with
    ordered_by: str | None = None  # who gave the order that `control` holds, or held last
    order_note: str | None = None
    line: tuple[tuple[int, int], ...] = ()  # (version, base) of each rollback's head; see `core.lines`
    workspace: str | None = None  # the root of the files it works on
    intent: bytes | None = None  # a rollback that was begun and is not finished; see `core.intents`
    origin: str | None = None  # of a fork: the run whose id the idempotency keys are made of
    forked_from: str | None = None  # and the run it was made from, which keeps its artifacts
    crashes: int = 0  # how many processes have ended under it since it last recorded a new call
    crash_seq: int = 0  # the number of its newest call when the last of them was counted


class CallRecord(Struct, frozen=True, gc=False):
    """One logical effect with its attempts.  `seq` numbers the calls of a run in the order they were first recorded.

    Nothing in a record can lead back to it, so the garbage collector need not look at the thousands that a long run
    has.
    """

    seq: int
    call_id: str
    branch: str
    step: str
    ordinal: int
    kind: CallKind
    tool: str
    effect: Effect
    state: CallState
    attempt: int
    epoch: int
    generation: int
    args_digest: bytes
    args: bytes | None = None
    args_artifact: bytes | None = None
    key: str | None = None
    result: bytes | None = None
    result_artifact: bytes | None = None
    failure: Failure | None = None
    usage: Usage | None = None
    boot: bytes | None = None
    dispatch_by: int | None = None
    started_at: int = 0
    ended_at: int | None = None
    started_version: int = 0
    ended_version: int | None = None
    checksum: int = 0
    over_at: int | None = None
    identity: str | None = None
    identity_scope: IdentityScope | None = None
    before: bytes | None = None  # the snapshot of the files it may write, as they were before it
    after: bytes | None = None
    undone: int = 0  # how often the action it names had been undone when it was sent; a part of its idempotency key


class IdentityRecord(Struct, frozen=True):
    """The name of an action, and the call that holds it; `run_no` is 0 where nobody holds it any more.  `undone` counts
    how often the action was done and compensated.
    """

    scope: IdentityScope
    key: str
    run_no: int
    run_id: str
    call_seq: int
    args_digest: bytes
    undone: int = 0


class HoldRecord(Struct, frozen=True):
    """A path of a workspace that an open `write` call (or, with `call_seq` 0, a rollback) holds, with all below it."""

    workspace: str
    path: bytes
    run_no: int
    run_id: str
    call_seq: int


class CheckpointRecord(Struct, frozen=True):
    """A named restore point.  It holds enums, numbers, digests, times, slugs and references, and no text of anyone's.

    `version` is the version of the run it stands for and `base_version` the one its line begins at; both, and the
    checksum, are given when it is written.
    """

    name: str
    level: Level
    trigger: str
    version: int = -1
    base_version: int = 0
    refs: tuple[str, ...] = ()
    step: int = 0
    phase: Phase = Phase.IN_CODE
    context: bytes | None = None
    created_at: int = 0
    checksum: bytes = b""
    tree: bytes | None = None  # the snapshot of the workspace
    environment: bytes | None = None  # an artifact: what the fingerprints of outside services were
    storage: Storage = Storage.COLD


class RequestRecord(Struct, frozen=True):
    """Whatever waits for somebody: one an attempt, answered once.

    An approval is asked for the attempt to come, a resolve about the attempt that was made.  After `expires_at` (wall
    clock) a question's default may be taken for its answer.
    """

    request_id: str
    call_seq: int
    call_id: str
    attempt: int
    kind: RequestKind
    created_at: int
    verdict: Verdict | None = None
    value: bytes | None = None
    by: str | None = None
    note: str | None = None
    answered_at: int | None = None
    expires_at: int | None = None


class EventRecord(Struct, frozen=True):
    """A line of the trace that no call row tells.  `detail` holds numbers and slugs, never prompts or evidence."""

    kind: EventKind
    at: int
    call_seq: int | None = None
    epoch: int = 0
    detail: str = ""


class Artifact(Struct, frozen=True):
    """Bytes by digest, of one run."""

    digest: bytes
    data: bytes


class RunExport(Struct, frozen=True):
    """All that a store keeps of one run, as it stands at one moment: what a copy of it is made of.

    Calls are in the order of their numbers, checkpoints of their versions, requests and events as they came, artifacts
    (those the run itself has, not those of the run it was made from) by digest, names by scope and key, paths by
    workspace, path and call.  Names are those that calls of this run hold, and, with `run_no` 0, those of undone
    actions: within this run, or in the whole store where a call of this run carries the name.
    """

    run: RunRecord
    calls: tuple[CallRecord, ...]
    checkpoints: tuple[CheckpointRecord, ...]
    requests: tuple[RequestRecord, ...]
    events: tuple[EventRecord, ...]
    artifacts: tuple[Artifact, ...]
    identities: tuple[IdentityRecord, ...]
    holds: tuple[HoldRecord, ...]
