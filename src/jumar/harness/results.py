"""What harness operations answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from jumar.core.moving import shown_message
from jumar.core.records import RunRecord
from jumar.core.states import Status
from jumar.core.store import Finding
from jumar.errors import RunFailed, RunNotFinished

if TYPE_CHECKING:
    from jumar.core.restoring import Report as FileReport

T = TypeVar("T")


class WaitingOn(Struct, frozen=True):
    """Something a run waits for: which call, what is asked (`resolve`, `approval`, `ask`, `undo`), about which attempt,
    since when (ms since 1970).

    `args` are the arguments that a call of `tool` was made, or is to be made, with.  A question has its text, its
    `choices` where the answer is one of them, and `expires_at` (ms since 1970) where a default is taken then.
    `idempotency_key` is what the tool could hand to its service, and `started_at` when the call was last sent (ms since
    1970, 0 where it never was): with these, what may have happened can be looked up there.

    `reason` is the exception that its last attempt ended with, as `TYPE: MESSAGE`; None where its process died, or
    there was no attempt yet.  `probed` is what the tool's probe said last about that attempt (`Unknown`, `NotHappened`,
    `timed out`, `raised TYPE`, `answered no verdict`), and `probed_at` when (ms since 1970, 0 for never).  `state` is
    how the call stands: where it is UNCERTAIN, it may have happened.
    """

    call_id: str
    kind: str
    attempt: int
    since: int
    request_id: str = ""
    tool: str = ""
    args: Any = None
    question: str | None = None
    choices: tuple[str, ...] | None = None
    expires_at: int | None = None
    idempotency_key: str = ""
    started_at: int = 0
    reason: str | None = None
    probed: str | None = None
    probed_at: int = 0
    state: str = ""

    def needs_nobody(self, wake_at: int | None) -> bool:
        """Whether the probe has said that the call did not happen, so that the run, which waits until `wake_at`, goes
        on by itself once that is certain.
        """
        return wake_at is not None and self.kind == "resolve" and self.probed == "NotHappened"


class RequestView(Struct, frozen=True):
    """An open request of some run: see `WaitingOn` for what is asked."""

    run_id: str
    asked: WaitingOn


class RunResult(Struct, Generic[T], frozen=True):
    """How a run stands after `run` or `resume`.

    `status` is one of QUEUED, RUNNING, WAITING, PAUSED, FAILED, COMPLETED, CANCELLED.  `output` is there once it is
    COMPLETED, `error` where it FAILED in this process.  A WAITING run waits for the requests in `waiting_on`, or
    until `wake_at` (ms since 1970).
    """

    run_id: str
    status: str
    output: T | None = None
    waiting_on: tuple[WaitingOn, ...] = ()
    wake_at: int | None = None
    error: BaseException | None = None
    error_type: str | None = None
    error_message: str | None = None

    def unwrap(self) -> T:
        """The output; RunFailed or RunNotFinished where there is none."""
        if self.status == Status.COMPLETED.name:
            return self.output  # type: ignore[return-value]
        if self.status in (Status.FAILED.name, Status.CANCELLED.name):
            why = "" if self.error_type is None else f": {self.error_type}: {self.error_message}"
            raise RunFailed(f"run {self.run_id} is {self.status}{why}") from self.error
        raise RunNotFinished(f"run {self.run_id} is {self.status}")


def result_of(
    run: RunRecord, output: Any, error: BaseException | None, requests: tuple[WaitingOn, ...]
) -> RunResult[Any]:
    """The result for a run as it stands."""
    waiting = run.status is Status.WAITING
    return RunResult(
        run.run_id,
        run.status.name,
        output,
        requests if waiting else (),
        run.wake_at if waiting else None,
        error,
        run.error_type,
        shown_message(run),
    )


class HolderView(Struct, frozen=True):
    """The call, perhaps of another run, that holds the identity or the files which a call waits for; or, without a
    `call_id`, a rollback of that run.
    """

    run_id: str
    call_id: str
    state: str


class CallView(Struct, frozen=True):
    """One call of a run, for people.

    Times are ms since 1970, `result` is the stored JSON, and `doubts` counts how often it was not known whether the
    call had happened.  `idempotency_key` is what the tool could hand to its service: the thing to search there for.
    `held_by` is the call that this one waits for, because the two have one identity or write the same files;
    `error_class` is the sort of its failure (transient, rate-limited, permanent ...).

    `before` and `after` are digests (in hex) of the files that a call may write, as they were then: equal where the
    files are equal, None where they are not known.  `left_behind` says that a rollback made the run go on from before
    this call; it is a `leftover` where it acted outside and stands.
    """

    seq: int
    call_id: str
    kind: str
    tool: str
    step: str
    effect: str
    state: str
    attempt: int
    epoch: int
    started_at: int
    ended_at: int | None
    args: Any = None
    result: Any = None
    error: str | None = None
    usage: Any = None
    started_version: int = 0
    ended_version: int | None = None
    doubts: int = 0
    idempotency_key: str = ""
    held_by: HolderView | None = None
    error_class: str | None = None
    before: str | None = None
    after: str | None = None
    generation: int = 0
    left_behind: bool = False
    leftover: bool = False


class AnswerView(Struct, frozen=True):
    """What was answered about one attempt of a call: `verdict` (`happened`, `not-happened`, `approve`, `reject`,
    `value`), what was given with it as JSON (a result, other arguments, an answer), by whom, with which note, and when
    (ms since 1970).  `kind` is what was asked (`resolve`, `approval`, `ask`, `undo`); `withdrawn` stands for what a
    rollback made nobody's business.
    """

    call_id: str
    attempt: int
    verdict: str
    value: Any = None
    by: str | None = None
    note: str | None = None
    at: int = 0
    kind: str = ""


class CheckpointView(Struct, frozen=True):
    """One restore point.

    `tree` is a digest (in hex) of the files as they were there, equal where the files are equal; None where they were
    not captured, or cannot be read.  `storage` is where it is kept (`cold`), `asked` where its trigger would have it
    (`hot`, `cold`).  `left_behind` says that a rollback made the run go on from before it, so that nothing can go back
    to it.
    """

    version: int
    name: str
    level: str
    trigger: str
    refs: tuple[str, ...]
    created_at: int
    tree: str | None = None
    storage: str = "cold"
    asked: str = "cold"
    base_version: int = 0
    left_behind: bool = False


class RunInfo(Struct, frozen=True):
    """A run in a list."""

    run_id: str
    agent: str
    task: str
    status: str
    phase: str
    step: int
    version: int
    epoch: int
    owner: str | None
    lease_seconds: float | None
    wake_at: int | None
    waiting_on: str | None
    error_type: str | None
    error_message: str | None
    created_at: int
    updated_at: int
    control: str = "none"  # an order that the run has yet to obey, or has: "pause", "cancel"
    ordered_by: str | None = None
    order_note: str | None = None
    generation: int = 0  # how often it was rolled back
    line: tuple[tuple[int, int], ...] = ()  # of each rollback: the first version after it, and the one it went back to
    workspace: str | None = None  # the root of its files
    rolling_back_to: int | None = None  # the version that a rollback under way goes back to; -1: it cannot be read
    forked_from: str | None = None  # the run it was made from


class RunView(Struct, frozen=True):
    """Everything `show` shows of a run."""

    run: RunInfo
    calls: tuple[CallView, ...]
    checkpoints: tuple[CheckpointView, ...]
    waiting_on: tuple[WaitingOn, ...]
    takeovers: tuple[TraceLine, ...]
    input: Any = None
    output: Any = None
    answers: tuple[AnswerView, ...] = ()
    orders: tuple[TraceLine, ...] = ()  # what operators ordered; when the run was paused, cancelled or rolled back
    failed_calls: tuple[str, ...] = ()  # of a FAILED run: the calls it failed with, which a resume makes again


class NotUndone(Struct, frozen=True):
    """A call that acted outside and stands, although the run went back to before it: which, by what tool, and why."""

    call_id: str
    tool: str
    why: str


class Rollback(Struct, frozen=True):
    """What a rollback did, or (`dry_run`) would do.

    It goes back to version `target`, the one of `checkpoint`; where the checkpoints at the versions `damaged` could not
    be read, that is an older one than was asked for.  `version` is where the run stands now, `status` how.  `report`
    tells what became of each file, None where the run has none.  `undone` are the ids of calls that were undone, in
    that order, `not_undone` those that stand; about the `withdrawn` nothing is asked any more.  Where the run waits in
    the middle of the rollback, `waiting_on` is what somebody has to say.
    """

    run_id: str
    target: int
    checkpoint: str
    version: int
    status: str
    report: FileReport | None = None
    undone: tuple[str, ...] = ()
    not_undone: tuple[NotUndone, ...] = ()
    withdrawn: tuple[str, ...] = ()
    dry_run: bool = False
    waiting_on: tuple[WaitingOn, ...] = ()
    damaged: tuple[int, ...] = ()


class TraceLine(Struct, frozen=True):
    """One line of the trace: when, what, about which call, under which epoch."""

    at: int
    what: str
    call_id: str | None
    epoch: int
    detail: str = ""


class Mending(Struct, frozen=True):
    """What going on with a damaged run would use.

    `damaged` are the places of what was found, as in the findings.  `version` and `checkpoint` are the newest sound
    restore point before the damage, None where there is none; `command` goes back there, and is None where nobody need.
    """

    run_id: str
    damaged: tuple[str, ...]
    advice: str
    version: int | None = None
    checkpoint: str | None = None
    command: str | None = None


class Report(Struct, frozen=True):
    """What `doctor` looked at, and what it found.  `contents`, `folders` and `snapshots` are those of the runs' files,
    which are kept in `objects`, None where there are none.
    """

    store: str
    schema: int
    runs: int
    calls: int
    checkpoints: int
    artifacts: int
    findings: tuple[Finding, ...]
    objects: str | None = None
    contents: int = 0
    folders: int = 0
    snapshots: int = 0
    mendings: tuple[Mending, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings
