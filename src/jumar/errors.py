"""The one tree of errors.

Every error says three things: what happened, what is safe now, and what to do next.  The first is given
where the error is raised; the other two have a default on the class, which the raising place may sharpen.

`Stopped` stands outside the tree on purpose.  It is what travels through an agent's own code when its run must not
go on, and it derives from BaseException so that no framework's `except Exception` turns it into a tool's answer.
It never leaves `Harness.run` and its kin: they turn it into a result or into the ordinary error it carries.
"""

from __future__ import annotations

from typing import Any, ClassVar


class JumarError(Exception):
    """Base of every error Jumar raises.

    `what` tells what happened, `safe` what is known to be safe at this moment, `hint` what to do next; `code` is a
    stable identifier for programs and `exit_code` what the command line ends with.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    default_safe: ClassVar[str] = "Everything recorded before this stays recorded."
    default_hint: ClassVar[str] = "Look at the run with `jumar show RUN`."

    def __init__(self, what: str, *, safe: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.safe = safe if safe is not None else self.default_safe
        self.hint = hint if hint is not None else self.default_hint

    def __str__(self) -> str:
        return f"{self.what}\n  Safe now: {self.safe}\n  Next: {self.hint}"

    def __reduce__(self) -> Any:
        return (_rebuild, (type(self), self.what, self.safe, self.hint, self.__dict__))


def _rebuild(kind: type[JumarError], what: str, safe: str, hint: str, state: dict[str, Any]) -> JumarError:
    error = kind.__new__(kind)
    JumarError.__init__(error, what, safe=safe, hint=hint)
    error.__dict__.update(state)
    return error


# --- Asked for in a way that cannot work: nothing was touched. ---------------------------------------------------


class UsageError(JumarError):
    """The request itself cannot be carried out as it was put."""

    code = "usage"
    exit_code = 2
    default_safe = "Nothing was changed."
    default_hint = "Correct the call and try again."


class NotSupported(UsageError):
    """A documented option that this version does not carry out; it is refused instead of being ignored."""

    code = "not-supported"
    default_hint = "Leave the option out; this version refuses it so that nothing is promised and not kept."


class ConfigError(UsageError):
    """A configuration file that cannot be used.  `path` is the file, `line` where in it (from 1, 0 where no line is
    meant) and `key` which key of it.
    """

    code = "config"
    default_safe = "Nothing was run; the configuration was not used."
    default_hint = "Correct the file and try again."

    def __init__(self, what: str, *, path: str = "", line: int = 0, key: str = "", **rest: Any) -> None:
        super().__init__(what, **rest)
        self.path = path
        self.line = line
        self.key = key


class InvalidReference(UsageError):
    """A reference or label that may not enter a cursor or checkpoint: wrong shape, too long, or like a secret."""

    code = "invalid-reference"
    default_hint = "Use `kind:id` with a declared kind and an id of 1 to 128 characters out of A-Z a-z 0-9 . _ -"


class NotStorable(UsageError):
    """A value that cannot be written as JSON of its type.  `path` names the place inside it, as in `$.items[3].run`."""

    code = "not-storable"
    default_hint = (
        "Return plain data: JSON values, dataclasses, TypedDicts, msgspec or pydantic models, enums, dates, bytes."
    )

    def __init__(self, what: str, *, path: str = "$", safe: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, safe=safe, hint=hint)
        self.path = path


class UnknownAgent(UsageError):
    """The harness has no agent of this name."""

    code = "unknown-agent"


class ToolNotAllowed(UsageError):
    """The agent called a tool that its own list does not name."""

    code = "tool-not-allowed"
    default_hint = "Add the tool to the agent's `tools=[...]`."


class RunNotFound(UsageError):
    """No run of this id, or more than one whose id ends so."""

    code = "run-not-found"
    default_hint = "List the runs with `jumar runs`."


class RunExists(UsageError):
    """A run of this id is already there."""

    code = "run-exists"
    default_hint = "Continue it with `jumar resume RUN`, or start one under another id."


class RequestNotFound(UsageError):
    """The named call has no open request."""

    code = "request-not-found"
    default_hint = "`jumar show RUN` lists what waits and the command that answers it."


# --- Refused by a guard: this process stops driving the run, the run itself is sound. ------------------------------


class Refused(JumarError):
    """A guard of the protocol did not hold, so the change was not made."""

    code = "refused"
    exit_code = 4
    default_safe = "The change was not made; the run stands at its last recorded fact."
    default_hint = "Let the process that holds the run go on, or resume it once its lease has run out."


class LeaseHeld(Refused):
    """Another process drives this run and renews its lease."""

    code = "lease-held"


class LeaseLost(Refused):
    """This process no longer holds the run's lease: it expired, or another process took the run over."""

    code = "lease-lost"


class StaleVersion(Refused):
    """The run has moved on since the version this change was based on."""

    code = "stale-version"


class IllegalTransition(Refused):
    """The run's phase, or the call's state, does not allow this change."""

    code = "illegal-transition"


class RunEnded(Refused):
    """The run is finished; it cannot be driven further."""

    code = "run-ended"
    default_safe = "The run stands as it is."
    default_hint = "Look at what it did with `jumar show RUN`."


class CannotReopen(Refused):
    """A failed run cannot be taken up again where it failed: what came after the failed call would be done twice."""

    code = "cannot-reopen"
    default_safe = "The run is FAILED as before; nothing was sent."
    default_hint = (
        "Go back to before that call with `jumar rollback RUN --to VERSION`, or let another run go on from there with "
        "`jumar fork RUN --at VERSION`; `jumar show RUN` lists what was done, and the versions."
    )


class CannotRollBack(Refused):
    """The run cannot go back to that version: it was left behind already, something is in flight, or what lies open
    there could not be taken up again.
    """

    code = "cannot-roll-back"
    default_safe = "Nothing was undone; the run and its files are as they were."
    default_hint = "`jumar show RUN` lists the versions that it can go back to."


class CheckpointNotFound(UsageError):
    """The run has no checkpoint of this version or name, or more than one of this name."""

    code = "checkpoint-not-found"
    default_hint = "`jumar show RUN` lists the run's checkpoints."


class EnvironmentDrifted(Refused):
    """Something outside has changed since the run was last driven, and the harness refuses to go on in that case.

    `names` are the fingerprints that tell so.
    """

    code = "environment-drifted"
    default_safe = "Nothing was sent; the run stands at its last recorded fact."
    default_hint = "Set right what has changed, or resume with a harness that only warns: Harness(drift='warn')."

    def __init__(self, what: str, *, names: tuple[str, ...] = (), **rest: Any) -> None:
        super().__init__(what, **rest)
        self.names = names


class ReplayDiverged(Refused):
    """The agent's code does something else than what is recorded.  `recorded` and `asked` are the two sides."""

    code = "replay-diverged"
    default_safe = "No call was sent. What is recorded stays recorded."
    default_hint = "Resume the run with the code that recorded it; a new run would make all its calls again."

    def __init__(self, what: str, *, recorded: str = "", asked: str = "", **rest: Any) -> None:
        super().__init__(what, **rest)
        self.recorded = recorded
        self.asked = asked


# --- The store. ----------------------------------------------------------------------------------------------------


class StoreError(JumarError):
    """The store could not do its work."""

    code = "store"
    exit_code = 4
    default_safe = (
        "What was recorded before stays recorded; a call sent without a record is marked uncertain on resume."
    )
    default_hint = "Mend the store and run `jumar resume RUN`."


class StoreBusy(StoreError):
    """Other processes held the store's lock for longer than the time allowed."""

    code = "store-busy"
    default_hint = "Find what holds the database open for writing, then resume."


class StoreFull(StoreError):
    """The disk, or the size set for the database, is full."""

    code = "store-full"
    default_hint = "Free some space, then resume the run: it goes on from its last recorded fact."


class StoreReadOnly(StoreError):
    """The database, or the folder around it, cannot be written."""

    code = "store-read-only"
    default_hint = "Give this process the right to write the database file and its folder."


class StoreUnavailable(StoreError):
    """The store cannot be reached or opened."""

    code = "store-unavailable"
    default_hint = "Check the path or address given with --store or JUMAR_STORE."


class SchemaMismatch(StoreError):
    """The database was written by a newer Jumar, or belongs to another program."""

    code = "schema"
    default_safe = "The database was left as it is."
    default_hint = "Use the version of Jumar that wrote it, or a newer one."


class IntegrityError(JumarError):
    """What is stored does not agree with its own checksum, or the database is damaged."""

    code = "integrity"
    exit_code = 5
    default_safe = "Nothing was changed and nothing was guessed."
    default_hint = "Run `jumar doctor` to see which rows are damaged."


# --- The workspace. ------------------------------------------------------------------------------------------------


class WorkspaceError(JumarError):
    """Files could not be captured or put back.  `paths` are those in question where they are known, relative to the
    workspace.
    """

    code = "workspace"
    exit_code = 4
    default_safe = "The files are as they were before."
    default_hint = "Mend what the message names and try again."

    def __init__(self, what: str, *, paths: tuple[str, ...] = (), **rest: Any) -> None:
        super().__init__(what, **rest)
        self.paths = paths


class PathRefused(WorkspaceError):
    """A path leads out of the workspace, or to something in it that is left alone."""

    code = "path-refused"
    default_safe = "Nothing was read or written."
    default_hint = "Give a relative path inside the workspace, with '/' between its segments."


class WorkspaceConflict(WorkspaceError):
    """Files changed since they were last known, so putting others back in their place would lose the change."""

    code = "workspace-conflict"
    default_safe = "No file was touched."
    default_hint = "Look at them; then leave them out (skip), or put them back all the same (force): it can be undone."


class RestoreFailed(WorkspaceError):
    """A file could not be put back, so those put back before it were taken back as well."""

    code = "restore-failed"
    default_hint = "Mend what the message names and try again, or leave those files out (skip)."


class WorkspaceBusy(WorkspaceError):
    """Another process, or another thread of this one, holds the workspace's lock."""

    code = "workspace-busy"
    default_safe = "No file was touched."
    default_hint = "Wait until it has finished; the lock ends with the process that holds it."


class WorkspaceElsewhere(WorkspaceError):
    """The files of a run are on another host, and are not to be had here."""

    code = "workspace-elsewhere"
    default_safe = "Nothing was touched; the run is as it was."
    default_hint = "Do it on the host that has the files."


class RootRefused(UsageError):
    """A folder that is no workspace: `/`, a home directory or what contains one, or no directory at all."""

    code = "root-refused"


class BudgetExceeded(WorkspaceError):
    """The workspace holds more than a capture may cost, in files, bytes or seconds."""

    code = "budget-exceeded"
    default_safe = "No snapshot was made; no file was touched."
    default_hint = "Ignore what is generated, raise the budget, or accept a partial snapshot."


# --- What calls and runs end with. ---------------------------------------------------------------------------------


class NotApplied(JumarError):
    """Raised by a tool (or its client) to say: this surely did not happen, and may be tried again."""

    code = "not-applied"
    default_safe = "Nothing was done outside."
    default_hint = "The call may be tried again."

    def __init__(
        self, what: str = "the call was not applied", *, retry_after: float | None = None, **rest: Any
    ) -> None:
        super().__init__(what, **rest)
        self.retry_after = retry_after


class CallFailed(JumarError):
    """A call ended in a recorded failure; raised alike when it happens and whenever the run is replayed.

    `call_id` names the call, `type_name` and `message` the exception it ended with, `error_class` its sort
    (transient, rate-limited, permanent, polluted, partial, budget, cancelled).
    """

    code = "call-failed"
    default_safe = "The failure is recorded and will not be tried again by itself."
    default_hint = "Catch it and decide what to do instead, or let the run fail."

    def __init__(
        self,
        what: str,
        *,
        call_id: str = "",
        type_name: str = "",
        message: str = "",
        error_class: str = "permanent",
        safe: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what, safe=safe, hint=hint)
        self.call_id = call_id
        self.type_name = type_name
        self.message = message
        self.error_class = error_class


class ResultNotStorable(CallFailed):
    """The call happened, and its result could not be recorded; `path` names the place inside the result."""

    code = "result-not-storable"
    default_safe = "The call happened and is recorded as done; it is not sent again."
    default_hint = "Return plain data of the annotated type, or a reference to where the data lies."

    def __init__(self, what: str, *, path: str = "$", **rest: Any) -> None:
        super().__init__(what, **rest)
        self.path = path


class CallRejected(JumarError):
    """A person rejected the call; it was not sent.  `call_id` names it, `note` is what the person said."""

    code = "call-rejected"
    default_safe = "The call was not sent."
    default_hint = "Do something else, or let the run fail; asking again makes a new call with an approval of its own."

    def __init__(self, what: str, *, call_id: str = "", note: str = "", **rest: Any) -> None:
        super().__init__(what, **rest)
        self.call_id = call_id
        self.note = note


class IdentityConflict(JumarError):
    """The same action, by its identity, was asked for with other arguments; `holder` is the call that did it."""

    code = "identity-conflict"
    default_safe = "The call was not sent; what the other call did stands."
    default_hint = "Ask for the action with the arguments it was done with, or give another action another identity."

    def __init__(self, what: str, *, holder: str = "", safe: str | None = None, hint: str | None = None) -> None:
        super().__init__(what, safe=safe, hint=hint)
        self.holder = holder


class StepsExhausted(JumarError):
    """A loop agent took all the steps it may without finishing."""

    code = "steps-exhausted"
    default_hint = "Raise max_steps= and resume the run: it goes on with its next step."


class VerificationFailed(JumarError):
    """A loop agent's output was refused as often as it may be; the message has the last reason."""

    code = "verification-failed"
    default_hint = "Look at the outputs with `jumar show RUN`; raise verify_limit= and resume to let it try again."


class MapFailed(JumarError):
    """Some items of a `map` failed.  `results` has one entry an item: its result, or the exception it ended with."""

    code = "map-failed"
    default_safe = "The finished items are recorded and are not done again."
    default_hint = "Catch it and go on with `results`, or let the run fail."

    def __init__(
        self, what: str, *, results: list[Any] | None = None, safe: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what, safe=safe, hint=hint)
        self.results: list[Any] = results if results is not None else []


class RunFailed(JumarError):
    """The run ended FAILED; raised by `RunResult.unwrap()`."""

    code = "run-failed"
    exit_code = 1
    default_hint = "See where with `jumar show RUN`."


class WorkerCrashed(JumarError):
    """The run is FAILED because its process ended too often while it drove the run; what a worker gives up with."""

    code = "worker-crashed"
    default_safe = "What is recorded stays recorded; whatever may have happened outside is asked about."
    default_hint = "Find out what ends the process (memory, a signal, os._exit), then `jumar resume RUN`."


class AgentExited(JumarError):
    """The agent ended in what would end its process, as `sys.exit()` does; where a worker drives it, the run fails."""

    code = "agent-exited"
    default_hint = "Take it out of the agent, then `jumar resume RUN`."


class RunNotFinished(JumarError):
    """The run has no output yet: it waits, is paused, or goes on elsewhere; raised by `RunResult.unwrap()`."""

    code = "run-not-finished"
    exit_code = 3
    default_hint = "`jumar show RUN` tells what it waits for and the command that answers."


class Stopped(BaseException):
    """Travels through the agent's code when its run must not go on; every later call raises it again.

    `error` is what `Harness.run` raises for it, or None where the run simply waits, is paused or cancelled.
    Do not catch it; a `finally:` is fine.
    """

    def __init__(self, reason: str, error: JumarError | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error
