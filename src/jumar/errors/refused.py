"""Refused by a guard: this process stops driving the run, and the run itself is sound."""

from __future__ import annotations

from typing import Any

from jumar.errors.base import JumarError, UsageError


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
