"""What a recovered agent is told, as data."""

from __future__ import annotations

from msgspec import Struct

MOST = 50  # entries of each list in a brief; the prose tells fewer


class KeyResult(Struct, frozen=True):
    """A call that tells what a step came to: its tool, its arguments and its result, cut; `failed` where the result is
    the text of a failure.
    """

    call_id: str
    tool: str
    args: str
    result: str
    failed: bool = False


class DoneStep(Struct, frozen=True):
    """A finished step (of a loop agent: a turn), its number among the steps, and how many calls it made."""

    number: int
    name: str
    calls: int
    results: tuple[KeyResult, ...] = ()


class PlannedStep(Struct, frozen=True):
    """A step of the plan; `state` is `done`, `now` or `to do`."""

    number: int
    name: str
    state: str


class Trouble(Struct, frozen=True):
    """What went wrong last: the exception, its class (transient, rate-limited, permanent, polluted, partial, budget,
    cancelled), what is advised, and the call it came from, where that is known.
    """

    type: str
    message: str
    error_class: str
    advice: str
    call_id: str | None = None


class Standing(Struct, frozen=True):
    """Something that was done outside and stands; `left_behind` where the run was rolled back to before it."""

    call_id: str
    tool: str
    args: str
    result: str
    left_behind: bool = False


class Doubt(Struct, frozen=True):
    """A call of which it was not known whether it happened.  `outcome` is `open` while it still is not known, else
    `happened`, `again` (it was sent again, and its result is recorded), `failed` or `rejected`, which `told` explains.
    """

    call_id: str
    tool: str
    outcome: str
    told: str = ""


class Asked(Struct, frozen=True):
    """What somebody is asked: `kind` is approval, resolve, ask, budget or undo."""

    kind: str
    call_id: str
    question: str = ""


class Drift(Struct, frozen=True):
    """A fingerprint of something outside that is not as it was; None where it is not known."""

    name: str
    before: str | None
    now: str | None


class Brief(Struct, frozen=True):
    """What happened in a run so far, for whoever goes on with it.

    `unit` is `step`, or `turn` for a loop agent.  `step_number` (from 1) is the one to go on with and `step_name` its
    name, where it has one.  `planned` is empty where nothing was planned.  `files_changed` are the paths that write
    calls changed (`unnamed_changes` counts writes whose paths cannot be told here) and `files_to_change` those of
    the plan that none has changed yet.  `standing` is what was done outside and stands.  `recoveries` counts how often
    the run was taken up, and `rolled_back_to` is the version that it was last rolled back to, or that a fork goes on
    from; `forked_from` is the run that a fork was made from.

    Lists are bounded; `left_out` says of which there are more, and how many.  `instruction` says with what to go on and
    what not to repeat, and `prose` is all of it as text; both in the language `lang`.
    """

    run_id: str
    agent: str
    task: str
    status: str
    unit: str
    step_number: int
    step_name: str | None
    recoveries: int
    calls: int
    done: tuple[DoneStep, ...] = ()
    planned: tuple[PlannedStep, ...] = ()
    files_changed: tuple[str, ...] = ()
    files_to_change: tuple[str, ...] = ()
    unnamed_changes: int = 0
    last_error: Trouble | None = None
    standing: tuple[Standing, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    waiting_on: tuple[Asked, ...] = ()
    drift: tuple[Drift, ...] = ()
    rolled_back_to: int | None = None
    forked_from: str | None = None
    left_out: dict[str, int] = {}
    lang: str = "en"
    instruction: str = ""
    prose: str = ""

    @property
    def plan_is_done(self) -> bool:
        """Whether there is a plan, and nothing of it is left."""
        return bool(self.planned) and "planned" not in self.left_out and all(s.state == "done" for s in self.planned)

    def __str__(self) -> str:
        return self.prose
