"""What to do next about a run that has failed: one step, by what it failed with."""

from __future__ import annotations

from collections.abc import Sequence

from jumar import errors
from jumar.cli.lines import NextStep
from jumar.cli.words import is_turn
from jumar.core.states import ErrorClass
from jumar.harness.results import CallView, RunView

_KEPT = "what is recorded is not repeated"
_MOST_NAMES = 3

# Errors that name their own way out.
_WAYS = {
    "CallRejected": "A call that was rejected stays so: let the agent do something else then, and resume the run.",
    "StepsExhausted": "Raise max_steps= in the agent's code, then resume it: it goes on with its next turn.",
    "VerificationFailed": (
        "Raise verify_limit= in the agent's code, or mend its verify=, then resume it: it may finish anew."
    ),
}
_ONE_CALL = "CallFailed"  # of which a failed verify is rolled back; see `core.strategies`
_OF_A_CALL = (_ONE_CALL, "MapFailed")  # whose hint is for the agent's code, and not for who resumes it


def failed_step(resume: str, view: RunView, error: BaseException | None = None) -> NextStep:
    """Why the run stands still and how to move it; `error` is what it failed with, where that happened here."""
    return NextStep(_way(view, error), (("then", resume),))


def _way(view: RunView, error: BaseException | None) -> str:
    kind = view.run.error_type or ""
    if kind in _WAYS:
        return _WAYS[kind]
    hint = _hint(kind, error).replace(", then `jumar resume RUN`", "")  # which is told behind it, with the run's id
    if kind == "ReplayDiverged":
        return hint
    names = set(view.failed_calls)
    failed = [call for call in view.calls if call.call_id in names]
    own = [call for call in failed if is_turn(call)]
    if own:
        return (
            f"Mend the agent's {_part(own)}, then resume it: {_listed(own)} is asked for anew, and what else is "
            "recorded is not repeated."
        )
    mend = hint or "Mend the cause."
    if failed and kind == _ONE_CALL and all(call.error_class == ErrorClass.POLLUTED.label for call in failed):
        return (
            f"{mend} Then resume it: it goes back to the start of the step that {_listed(failed)} is in, which undoes "
            "what was done since, and goes on from there. By --strategy retry only that call is made again."
        )
    if failed:
        are = "is" if len(failed) == 1 else "are"
        return (
            f"{mend} Then resume it: {_listed(failed)}, which it failed with, {are} made again, and what else is "
            "recorded is not repeated."
        )
    return f"{mend} Then resume it: the agent's code runs again, and {_KEPT}."


def _hint(kind: str, error: BaseException | None) -> str:
    """What Jumar says to do next about an error of its own; nothing where that is to look at the run."""
    if kind in _OF_A_CALL:
        return ""
    if isinstance(error, errors.JumarError):
        return "" if "jumar show" in error.hint else error.hint
    known = getattr(errors, kind, None)
    if not (isinstance(known, type) and issubclass(known, errors.JumarError)):
        return ""
    return "" if "jumar show" in known.default_hint else known.default_hint


def _part(own: Sequence[CallView]) -> str:
    return "verify=" if own[-1].tool == "verify" else "own function"


def _listed(calls: Sequence[CallView]) -> str:
    names = [call.call_id for call in calls[:_MOST_NAMES]]
    left = len(calls) - len(names)
    return ", ".join([*names, f"and {left:,} more"] if left else names)
