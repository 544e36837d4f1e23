"""How one call is shown: its sign, its name, how it stands, and what it answered or why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from jumar.cli.folding import states
from jumar.cli.heading import json_text, usage_of
from jumar.cli.screen import Screen, cells
from jumar.cli.times import when
from jumar.cli.tree import CallRow, FoldRow, StepRow
from jumar.cli.words import answer_to, decided, found, holder_name, is_turn, said
from jumar.harness.results import AnswerView, CallView, WaitingOn

# The sign of a call by its kind, or by what repeating it would do; and the sign's style.
_MARKS = frozenset({"value", "checkpoint", "plan", "ask", "sleep"})
_SIGNS = {
    "decision": ("decision", "cyan"),
    "mark": ("mark", "dim"),
    "read": ("read", "dim"),
    "idempotent": ("idempotent", ""),
    "write": ("write", ""),
    "external": ("external", "bold"),
}
_LEGEND = {
    "decision": "decision",
    "read": "read",
    "idempotent": "repeated with the same key",
    "write": "writes files",
    "external": "acts outside",
    "mark": "mark",
}

# How a call stands: its sign, the style of the sign and of its bar, and what is said where there is no result.
_STATES = {
    "SUCCEEDED": ("done", "green", ""),
    "FAILED": ("failed", "red", ""),
    "UNCERTAIN": ("uncertain", "bold yellow", "may have happened"),
    "STARTED": ("open", "bold blue", "under way"),
    "PLANNED": ("open", "cyan", "planned"),
    "AWAITING": ("open", "yellow", "waits"),
    "REJECTED": ("failed", "red", "rejected"),
    "COMPENSATED": ("done", "magenta", "undone"),
}
_HEX = 8  # digits of a digest that are shown


def name_of(screen: Screen, row: StepRow | CallRow | FoldRow, width: int) -> Text:
    """The indented name with its sign and its attempts, in at most `width` columns."""
    text = Text("  " * row.depth)
    if isinstance(row, FoldRow):
        return text.append(screen.cut(f"{screen.signs.fold} {row.items:,} more", width - cells(text)), "dim")
    if isinstance(row, StepRow):
        return text.append(_middle(screen, row.name, width - cells(text)), "bold")
    call = row.call
    sign, style = _SIGNS[_kind(call)]
    text.append(f"{getattr(screen.signs, sign)} ", style)
    tries = f" {screen.signs.times}{call.attempt}" if call.attempt > 1 else ""
    name_style = "bold yellow" if call.state == "UNCERTAIN" else "dim" if call.left_behind else ""
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
    style = "dim" if call.left_behind and not call.leftover else style
    return getattr(screen.signs, sign) + (screen.signs.uncertain if _was_uncertain(call) else " "), style


def _was_uncertain(call: CallView) -> bool:
    return call.doubts > 0 and call.state != "UNCERTAIN"


class Answers:
    """What the calls of one run answered, or why they did not, as it stands `now`."""

    def __init__(
        self, screen: Screen, now: int, *, live: bool, answers: Sequence[AnswerView], asked: Sequence[WaitingOn]
    ) -> None:
        self._screen = screen
        self._now = now
        self._live = live
        self._answers = answers
        self._asked = {each.call_id: each for each in asked}

    def of(self, call: CallView, width: int) -> Text:
        """What a call answered, or why it did not, in at most `width` columns; first that a rollback left it behind."""
        if width < 4:
            return Text()
        if call.left_behind:
            return self._behind(call, width)
        return self._of(call, width)

    def _behind(self, call: CallView, width: int) -> Text:
        """A call that a rollback left behind: it counts no more, or it acted outside and stands all the same."""
        text = Text(self._screen.cut("left behind, and stands  " if call.leftover else "left behind  ", width))
        text.stylize("yellow" if call.leftover else "dim")
        if width - cells(text) < 4:
            return text
        shown = self._of(call, width - cells(text))
        if not call.leftover:
            shown = Text(shown.plain, "dim")
        return text.append_text(shown)

    def _of(self, call: CallView, width: int) -> Text:
        if call.state == "SUCCEEDED" and call.error is None:
            return self._result(call, width)
        error = None if call.state == "REJECTED" else call.error  # which says no more than the answer does
        text = ": ".join(part for part in (self._state(call), error) if part)
        style = {"FAILED": "red", "REJECTED": "red", "UNCERTAIN": "bold yellow", "SUCCEEDED": "red"}
        return Text(self._screen.cut(self._screen.clean(text), width), style.get(call.state, "yellow"))

    def of_fold(self, row: FoldRow, width: int) -> Text:
        """What stands in a row for many calls: how many they are, and how they stand."""
        times = "once" if row.marks == 1 else f"{row.marks} times"
        marks = f"; interrupted {times}" if row.marks else ""
        return Text(self._screen.cut(states(row.calls) + marks, width), "dim") if width >= 4 else Text()

    def _state(self, call: CallView) -> str:
        """How a call stands that has no result."""
        asked = self._asked.get(call.call_id)
        if asked is not None and asked.kind == "undo":
            return "waits for somebody to say whether to undo it"
        answer = answer_to(call, self._answers)
        if answer is not None:
            return f"{said(answer)}: {answer.note}" if answer.note else said(answer)
        if call.state == "STARTED" and not self._live:
            return "sent, and its answer never recorded"
        if call.state == "AWAITING":
            return self._awaits(call)
        if call.state == "PLANNED":
            return self._planned(call)
        return _STATES.get(call.state, ("", "", call.state.lower()))[2]

    def _planned(self, call: CallView) -> str:
        if (
            call.error is None and self._live and call.effect == "read"
        ):  # of which nothing is recorded before its result
            return "under way"
        return "planned" if call.error is None and call.attempt == 0 else "to be tried again"

    def _awaits(self, call: CallView) -> str:
        asked = self._asked.get(call.call_id)
        if asked is not None:
            return f"waits for an answer: {asked.question}" if asked.kind == "ask" else f"waits for {asked.kind}"
        if call.kind == "sleep" and isinstance(call.result, int):
            return f"{'sleeps' if call.result > self._now else 'slept'} until {when(call.result, self._now)}"
        holder = call.held_by
        return f"waits for {holder_name(holder)}" if holder is not None else "waits"

    def _result(self, call: CallView, width: int) -> Text:
        text = Text()
        if call.doubts and width >= 24:
            text.append("was uncertain  ", "yellow")
        files = _files(call)
        if files and len(files) + 12 <= width:
            text.append(f"{files}  ", "cyan")
        usage = usage_of([call]) if call.usage else ""
        if usage and cells(text) + len(usage) + 8 <= width:
            text.append(f"{usage}  ", "cyan")
        shown, style = self._shown(call)
        return text.append(self._screen.cut(self._screen.clean(shown), width - cells(text)), style)

    def _shown(self, call: CallView) -> tuple[str, str]:
        """A recorded result in the words of its kind of call."""
        result = call.result
        if is_turn(call) and call.kind == "decision":
            return decided(result), "dim"
        if is_turn(call):
            reason = found(result)
            return (reason, "yellow") if reason else ("accepted", "dim")
        if call.kind == "sleep" and isinstance(result, int):
            return f"until {when(result, self._now)}", "dim"
        if call.kind == "ask":
            question = call.args.get("question") if isinstance(call.args, Mapping) else None
            return f"{json_text(self._screen, result)} to: {question}", "dim"
        if call.kind in _MARKS and result is None:
            return _mark(call), "dim"
        return ("" if result is None else json_text(self._screen, result)), "dim"


def _files(call: CallView) -> str:
    """The snapshots of the files that a call may write, before and after it, by the first digits of their digests."""
    if call.before is None or call.after is None:
        return ""
    return f"{call.before[:_HEX]} -> {call.after[:_HEX]}"


def _mark(call: CallView) -> str:
    """What a checkpoint or a plan says, in its own words."""
    args = call.args if isinstance(call.args, dict) else {}
    steps = args.get("steps")
    if isinstance(steps, list):
        return " > ".join(map(str, steps))
    return " ".join(map(str, [args.get("name", ""), *(args.get("refs") or ())])).strip()


def legend(screen: Screen, calls: Iterable[CallView]) -> list[Text]:
    """What the signs mean that were used, on lines that fit the screen."""
    signs = screen.signs
    calls = list(calls)
    used = {_SIGNS[_kind(call)][0] for call in calls}
    entries = [f"{getattr(signs, sign)} {_word(sign, calls)}" for sign in _LEGEND if sign in used]
    if any(map(_was_uncertain, calls)):
        entries.append(f"{signs.done}{signs.uncertain} was uncertain")
    lines: list[str] = []
    for entry in entries:
        if lines and cells(f"{lines[-1]}   {entry}") <= screen.width:
            lines[-1] += f"   {entry}"
        else:
            lines.append(screen.cut(entry, screen.width))
    return [Text(line, "dim") for line in lines]


def _word(sign: str, calls: Iterable[CallView]) -> str:
    if sign != "mark":
        return _LEGEND[sign]
    kinds = {call.kind for call in calls}
    names = {"ask": "question", "sleep": "sleep"}
    marks = [_LEGEND[sign]] if kinds & (_MARKS - names.keys()) else []
    return ", ".join([*marks, *(word for kind, word in names.items() if kind in kinds)])
