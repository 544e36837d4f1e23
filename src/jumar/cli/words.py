"""What people answered and ordered, and what loop agents decided, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from jumar.core.naming import undo_id
from jumar.harness.results import AnswerView, CallView, HolderView, RunInfo, TraceLine

_EXPIRY = "expiry"  # who is said to have answered where a default was taken
_MANY = 4000  # characters of a value that are looked at before it is cut


def json_of(value: Any) -> str:
    """A value as JSON on one line."""
    return msgspec.json.encode(value).decode("utf-8", "replace")


_UNDOING = {"happened": "undone", "reject": "left as it is"}


def said(answer: AnswerView) -> str:
    """An answer in words: `happened, says ana`, `rejected by ana`, `answered "yes" by ana`."""
    if answer.verdict == "withdrawn":
        return "is asked no longer: the run was rolled back"
    if answer.kind == "undo":
        who = f", says {answer.by}" if answer.by else ""
        return f"{_UNDOING.get(answer.verdict, 'to be undone again')}{who}"
    if answer.verdict == "value":
        value = json_of(answer.value)
        return f"took its default, {value}" if answer.by == _EXPIRY else f"answered {value}{_by(answer)}"
    if answer.verdict in ("approve", "reject"):
        return f"{'approved' if answer.verdict == 'approve' else 'rejected'}{_by(answer)}"
    word = "did not happen" if answer.verdict == "not-happened" else answer.verdict
    by = "the attempt's own late result" if answer.by == "late-result" else answer.by
    return f"{word}, says {by}" if by else word


def _by(answer: AnswerView) -> str:
    return f" by {answer.by}" if answer.by else ""


def edits(asked: Any, given: Any) -> str:
    """How the arguments that a person gave differ from those that were asked for, by their names; empty where they
    do not.
    """
    if not isinstance(asked, Mapping) or not isinstance(given, Mapping):
        return "" if asked == given else f"{json_of(given)} instead of {json_of(asked)}"
    told = [f"{name} {json_of(given[name])} instead of {json_of(asked[name])}" for name in given if name in asked]
    kept = {f"{name} {json_of(asked[name])} instead of {json_of(asked[name])}" for name in asked}
    changed = [text for text in told if text not in kept]
    added = [f"{name} {json_of(given[name])} added" for name in given if name not in asked]
    left = [f"{name} left out" for name in asked if name not in given]
    return ", ".join(changed + added + left)


def answer_to(call: CallView, answers: Sequence[AnswerView]) -> AnswerView | None:
    """What was answered about a call that has no result: about the attempt that may have happened, the one to come, or
    the question.
    """
    if call.state in ("UNCERTAIN", "STARTED"):
        return _newest(call, answers, ("happened", "not-happened"), call.attempt)
    if call.state == "REJECTED":
        return _newest(call, answers, ("reject",), call.attempt + 1)
    if call.state != "AWAITING":
        return None
    return _newest(call, answers, ("value",), call.attempt) or _newest(
        call, answers, ("approve", "reject"), call.attempt + 1
    )


def _newest(call: CallView, answers: Sequence[AnswerView], verdicts: Sequence[str], attempt: int) -> AnswerView | None:
    found = [each for each in answers if (each.call_id, each.attempt) == (call.call_id, attempt)]
    return next((each for each in reversed(found) if each.verdict in verdicts), None)


def original_of(call_id: str) -> str:
    """The id of the call that an undoing one is to undo."""
    return call_id.removesuffix(undo_id(""))


def holder_name(holder: HolderView) -> str:
    """Who holds what a call waits for: `pay.1 of run 89abcdef`."""
    return f"{holder.call_id or 'a rollback'} of run {holder.run_id[-8:]}"


# --- Orders. --------------------------------------------------------------------------------------------------------


def pending(run: RunInfo) -> str:
    """The order that a run has yet to obey: `pause`, `cancel`, or empty."""
    if run.control == "pause" and run.status in ("QUEUED", "RUNNING", "WAITING"):
        return "pause"
    return "cancel" if run.control == "cancel" and run.status not in ("COMPLETED", "CANCELLED") else ""


def to_be(order: str) -> str:
    """An order as something that is still to come: `to be paused`."""
    return {"pause": "to be paused", "cancel": "to be cancelled"}.get(order, "")


def rolling_back(run: RunInfo) -> str:
    """The rollback that is under way in a run: `a rollback to version 7`; empty where none is."""
    if run.rolling_back_to is None:
        return ""
    return f"a rollback to version {run.rolling_back_to}" if run.rolling_back_to >= 0 else "a rollback"


def ordered(run: RunInfo) -> str:
    """By whom, and with which remark, the last order was given: `, by ana: lunch`."""
    by = f", by {run.ordered_by}" if run.ordered_by else ""
    return f"{by}: {run.order_note}" if run.order_note else by


def last_of(orders: Sequence[TraceLine], what: str) -> TraceLine | None:
    """The newest line of this kind."""
    return next((line for line in reversed(orders) if line.what == what), None)


# --- Loop agents. ---------------------------------------------------------------------------------------------------


def is_turn(call: CallView) -> bool:
    """Whether a call is a loop agent's own: its decision, or the verdict on an output."""
    first, _, number = call.step.partition("#")
    in_turn = first == "turn" and (not number or number.isdigit())
    return in_turn and (call.kind, call.tool) in (("decision", "decide"), ("value", "verify"))


def decided(result: Any) -> str:
    """A loop agent's decision: what it said, and what it calls or finishes with."""
    if not isinstance(result, Mapping):
        return json_of(result)
    text = str(result.get("text") or "")[:_MANY]
    if "finish" in result:
        does = f"finishes with {json_of(result['finish'])[:_MANY]}"
    else:
        calls = result.get("calls") or ()
        does = f"calls {', '.join(str(call.get('name', '')) for call in calls if isinstance(call, Mapping))}"
    return f"{does}: {text}" if text else does


def found(result: Any) -> str:
    """What a loop agent's output was found to be; empty where it was accepted."""
    if result is True:
        return ""
    return f"not accepted: {result}" if isinstance(result, str) and result.strip() else "not accepted"
