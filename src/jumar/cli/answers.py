"""How one call is shown: its sign, its name, how it stands, and what it answered or why not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text

from jumar.cli.heading import json_text, usage_of
from jumar.cli.screen import Screen, Signs, cells
from jumar.cli.tree import CallRow, StepRow
from jumar.cli.waiting import answer_to, said
from jumar.harness.results import AnswerView, CallView

# The sign of a call by its kind, or by what repeating it would do; and the sign's style.
_MARKS = frozenset({"value", "checkpoint", "plan"})
_SIGNS = {
    "decision": ("decision", "cyan"),
    "mark": ("mark", "dim"),
    "read": ("read", "dim"),
    "idempotent": ("idempotent", ""),
    "write": ("external", ""),
    "external": ("external", "bold"),
}
_LEGEND = {
    "decision": "decision",
    "read": "read",
    "idempotent": "repeated with the same key",
    "external": "acts outside",
    "mark": "mark",
}

# How a call stands: its sign, the style of the sign and of its bar, and what is said where there is no result.
_STATES = {
    "SUCCEEDED": ("done", "green", ""),
    "FAILED": ("failed", "red", ""),
    "UNCERTAIN": ("uncertain", "bold yellow", "may have happened"),
    "STARTED": ("open", "bold blue", "under way"),
    "PLANNED": ("open", "cyan", "to be tried again"),
    "AWAITING": ("open", "yellow", "waits"),
    "REJECTED": ("failed", "red", "rejected"),
    "COMPENSATED": ("done", "magenta", "undone"),
}


def name_of(screen: Screen, row: StepRow | CallRow, width: int) -> Text:
    """The indented name with its sign and its attempts, in at most `width` columns."""
    text = Text("  " * row.depth)
    if isinstance(row, StepRow):
        return text.append(_middle(screen, row.name, width - cells(text)), "bold")
    call = row.call
    sign, style = _SIGNS[_kind(call)]
    text.append(f"{getattr(screen.signs, sign)} ", style)
    tries = f" {screen.signs.times}{call.attempt}" if call.attempt > 1 else ""
    name_style = "bold yellow" if call.state == "UNCERTAIN" else ""
    text.append(_middle(screen, row.name, width - cells(text) - cells(tries)), name_style)
    return text.append(tries, "yellow")


def _kind(call: CallView) -> str:
    if call.kind in _MARKS:
        return "mark"
    return call.kind if call.kind in _SIGNS else call.effect if call.effect in _SIGNS else "mark"


def _middle(screen: Screen, text: str, width: int) -> str:
    """A name cut in its middle, because its end tells it from its neighbours."""
    text = screen.clean(text)
    if cells(text) <= width:
        return text
    tail = text[-max(1, width // 3) :]
    return screen.cut(text, max(1, width - cells(tail))) + tail


def state_of(screen: Screen, call: CallView) -> tuple[str, str]:
    """The sign of how a call stands, in two columns, and its style; a second sign says that it was once uncertain."""
    sign, style, _ = _STATES.get(call.state, ("open", "", ""))
    return getattr(screen.signs, sign) + (screen.signs.uncertain if _was_uncertain(call) else " "), style


def _was_uncertain(call: CallView) -> bool:
    return call.doubts > 0 and call.state != "UNCERTAIN"


def answer_of(screen: Screen, call: CallView, live: bool, width: int, answers: Sequence[AnswerView] = ()) -> Text:
    """What a call answered, or why it did not, in at most `width` columns; `answers` are those to what was asked."""
    if width < 4:
        return Text()
    if call.state == "SUCCEEDED" and call.error is None:
        return _result(screen, call, width)
    state = _STATES.get(call.state, ("", "", call.state.lower()))[2]
    if call.state == "STARTED" and not live:
        state = "sent, and its answer never recorded"
    answer = answer_to(call, answers)
    if answer is not None:
        state = said(answer)
    parts = [part for part in (state, call.error) if part]
    style = {"FAILED": "red", "UNCERTAIN": "bold yellow", "SUCCEEDED": "red"}.get(call.state, "yellow")
    return Text(screen.cut(screen.clean(": ".join(parts)), width), style)


def _result(screen: Screen, call: CallView, width: int) -> Text:
    text = Text()
    if call.doubts and width >= 24:
        text.append("was uncertain  ", "yellow")
    usage = usage_of([call]) if call.usage else ""
    if usage and len(usage) + 8 <= width:
        text.append(f"{usage}  ", "cyan")
    shown = _mark(call) if call.kind in _MARKS and call.result is None else _json(screen, call.result)
    return text.append(screen.cut(screen.clean(shown), width - cells(text)), "dim")


def _json(screen: Screen, value: Any) -> str:
    return "" if value is None else json_text(screen, value)


def _mark(call: CallView) -> str:
    """What a checkpoint or a plan says, in its own words."""
    args = call.args if isinstance(call.args, dict) else {}
    steps = args.get("steps")
    if isinstance(steps, list):
        return " > ".join(map(str, steps))
    return " ".join(map(str, [args.get("name", ""), *(args.get("refs") or ())])).strip()


def legend(signs: Signs, calls: Iterable[CallView]) -> Text:
    """What the signs mean that were used."""
    calls = list(calls)
    used = {_SIGNS[_kind(call)][0] for call in calls}
    entries = [f"{getattr(signs, sign)} {word}" for sign, word in _LEGEND.items() if sign in used]
    if any(map(_was_uncertain, calls)):
        entries.append(f"{signs.done}{signs.uncertain} was uncertain")
    return Text("   ".join(entries), "dim")
