"""The one tree of errors.

Every error says three things: what happened, what is safe now, and what to do next.  The first is given
where the error is raised; the other two have a default on the class, which the raising place may sharpen.

`Stopped` stands outside the tree on purpose.  It is what travels through an agent's own code when its run must not
go on, and it derives from BaseException so that no framework's `except Exception` turns it into a tool's answer.
It never leaves `Harness.run` and its kin: they turn it into a result or into the ordinary error it carries.
"""

from __future__ import annotations

from typing import Any

from jumar.errors.base import JumarError, UsageError
from jumar.errors.files import (
    BudgetExceeded,
    PathRefused,
    RestoreFailed,
    RootRefused,
    WorkspaceBusy,
    WorkspaceConflict,
    WorkspaceElsewhere,
    WorkspaceError,
)
from jumar.errors.refused import (
    CannotReopen,
    CannotRollBack,
    CheckpointNotFound,
    EnvironmentDrifted,
    IllegalTransition,
    LeaseHeld,
    LeaseLost,
    Refused,
    ReplayDiverged,
    RunEnded,
    StaleVersion,
)

__all__ = [
    "AgentExited",
    "BudgetExceeded",
    "CallFailed",
    "CallRejected",
    "CannotReopen",
    "CannotRollBack",
    "CheckpointNotFound",
    "ConfigError",
    "EnvironmentDrifted",
    "IdentityConflict",
    "IllegalTransition",
    "IntegrityError",
    "InvalidReference",
    "JumarError",
    "LeaseHeld",
    "LeaseLost",
    "MapFailed",
    "NotApplied",
    "NotStorable",
    "NotSupported",
    "PathRefused",
    "Refused",
    "ReplayDiverged",
    "RequestNotFound",
    "RestoreFailed",
    "ResultNotStorable",
    "RootRefused",
    "RunEnded",
    "RunExists",
    "RunFailed",
    "RunNotFinished",
    "RunNotFound",
    "SchemaMismatch",
    "StaleVersion",
    "StepsExhausted",
    "Stopped",
    "StoreBusy",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreUnavailable",
    "ToolNotAllowed",
    "UnknownAgent",
    "UsageError",
    "VerificationFailed",
    "WorkerCrashed",
    "WorkspaceBusy",
    "WorkspaceConflict",
    "WorkspaceElsewhere",
    "WorkspaceError",
]


# --- Asked for in a way that cannot work: nothing was touched. ---------------------------------------------------


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
        "Use plain data of the annotated type: JSON values, dataclasses, TypedDicts, msgspec or pydantic models, "
        "enums, dates, bytes."
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


# Where an error is written down it is told by where it is found, whichever file it is in.
for _name in __all__:
    globals()[_name].__module__ = __name__
