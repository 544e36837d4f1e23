"""A run on the screen: who and how, then one line a call with its bar, and at the end the commands to type next.

The columns are: what kind of call it is and its name, indented under its step; how it stands; its bar, on the scale of
the whole run and with a mark at every takeover; how long it took; and what it answered, or why not.  The last is cut at
the screen's edge, so that no line is longer than the screen; bars shrink first, and on a narrow screen they are left
out.  A long run is folded: see `tree`.
"""

from __future__ import annotations

from rich.text import Text

from jumar.cli.answers import Answers, legend, name_of, state_of
from jumar.cli.bars import Scale
from jumar.cli.heading import end_of, heading, is_live, json_text
from jumar.cli.lines import INDENT, line, print_step, wrapped_line
from jumar.cli.options import Options
from jumar.cli.points import MOST_POINTS, print_points
from jumar.cli.screen import Screen, cells
from jumar.cli.times import lasted, when
from jumar.cli.tree import CallRow, FoldRow, MarkRow, Row, StepRow, rows_of
from jumar.cli.waiting import MOST_STEPS, steps_of
from jumar.cli.words import edits, said
from jumar.harness.results import AnswerView, CallView, RunView, TraceLine

_WIDEST_BAR, _LEAST_BAR = 32, 8
_MOST_ANSWERS = 10
_EVERYTHING = 1_000_000
_MARKED = {"taken-over": "taken over", "paused": "paused", "cancelled": "cancelled", "rolled-back": "rolled back"}


def print_run(screen: Screen, view: RunView, options: Options, now: int, *, whole: bool = False) -> None:
    """The timeline of a run; unless `whole`, what is long is folded."""
    end = end_of(view, now)
    short = options.run or view.run.run_id
    for label, text in heading(screen, view, now, end):
        line(screen, label, text)
    if view.calls:
        _print_calls(screen, view, options, short, now, end, whole=whole)
    if view.output is not None:
        screen.print()
        line(screen, "output", screen.cut(json_text(screen, view.output), screen.width - INDENT))
    go_back = options.command("rollback", short, "--to", "VERSION")
    print_points(screen, view, now, go_back, most=_EVERYTHING if whole else MOST_POINTS)
    _print_answers(screen, view, now, _EVERYTHING if whole else _MOST_ANSWERS)
    steps = steps_of(options, short, view, now, most=_EVERYTHING if whole else MOST_STEPS)
    if steps:
        screen.print()
    for step in steps:
        print_step(screen, step)


def _print_calls(
    screen: Screen, view: RunView, options: Options, short: str, now: int, end: int, *, whole: bool
) -> None:
    rows = rows_of(view.calls, _marks(view), whole=whole)
    screen.print()
    _Table(screen, view, rows, now, end).print()
    screen.print()
    shown = [row.call for row in rows if isinstance(row, CallRow)]
    for signs in legend(screen, shown):
        screen.print(signs)
    if len(shown) < len(view.calls):
        rest = f"{len(shown):,} of {len(view.calls):,} calls are shown; all of them: "
        screen.print(Text.assemble((rest, "dim"), (options.command("show", short, "--all", app=False), "cyan")))


def _marks(view: RunView) -> list[TraceLine]:
    return [*view.takeovers, *(each for each in view.orders if each.what in _MARKED)]


def _print_answers(screen: Screen, view: RunView, now: int, most: int) -> None:
    """What was answered, the newest last."""
    if view.answers:
        screen.print()
    left = len(view.answers) - most
    if left > 0:
        line(screen, "answered", Text(f"{left:,} more before these", "dim"))
    calls = {call.call_id: call for call in view.calls}
    for answer in view.answers[-most:]:
        _print_answer(screen, answer, calls.get(answer.call_id), now)


def _print_answer(screen: Screen, answer: AnswerView, call: CallView | None, now: int) -> None:
    """What was answered about a call, by whom, with which note; and what was changed in what it is sent with."""
    attempt = f", attempt {answer.attempt}" if answer.attempt > 1 else ""
    note = f": {answer.note}" if answer.note else ""
    wrapped_line(screen, "answered", f"{answer.call_id}{attempt} {said(answer)}, at {when(answer.at, now)}{note}")
    if answer.verdict == "approve" and answer.value is not None:
        changed = edits(None if call is None else call.args, answer.value)
        wrapped_line(screen, "", f"with {changed}" if changed else "with the arguments that were asked for")


class _Table:
    """The rows of one run, and how wide their columns are."""

    def __init__(self, screen: Screen, view: RunView, rows: list[Row], now: int, end: int) -> None:
        self._screen = screen
        self._start = view.run.created_at
        self._end = end
        self._live = is_live(view)
        self._answers = Answers(screen, now, live=self._live, answers=view.answers, asked=view.waiting_on)
        self._rows = rows
        widest = max((cells(name_of(screen, row, 10_000)) for row in rows if not isinstance(row, MarkRow)), default=0)
        self._names = min(widest, screen.width * 2 // 5)
        self._took = max((len(self._duration(row)) for row in rows), default=0) + 1
        width = min(_WIDEST_BAR, (screen.width - self._names - self._took - 6) // 2)
        moments = [each.at for each in view.takeovers]
        self._scale = Scale(self._start, end, width, moments, screen.signs) if width >= _LEAST_BAR else None

    def print(self) -> None:
        """All rows, under the axis of their bars."""
        if self._scale is not None:
            axis = self._scale.axis(lasted(self._end - self._start))
            self._screen.print(Text.assemble(" " * (self._names + 4), axis))
        for row in self._rows:
            shown = self._mark(row) if isinstance(row, MarkRow) else self._line(row)
            self._screen.print(self._screen.crop(shown))

    def _mark(self, row: MarkRow) -> Text:
        rule = self._screen.signs.rule
        epoch = f", epoch {row.epoch}" if row.what in ("taken-over", "rolled-back") else ""
        text = f"{rule * 2} {_MARKED.get(row.what, row.what)} after {lasted(row.at - self._start)}{epoch} "
        return Text(text + rule * (self._screen.width - cells(text)), "magenta")

    def _line(self, row: StepRow | CallRow | FoldRow) -> Text:
        shown = name_of(self._screen, row, self._names)
        shown.append(" " * (self._names - cells(shown) + 2))
        if not isinstance(row, CallRow):
            shown = self._timed(shown.append("  "), row, "dim")
            if isinstance(row, StepRow):
                return shown
            shown.append("  ")
            return shown.append_text(self._answers.of_fold(row, self._screen.width - cells(shown)))
        sign, style = state_of(self._screen, row.call)
        shown = self._timed(shown.append(sign, style), row, style).append("  ")
        return shown.append_text(self._answers.of(row.call, self._screen.width - cells(shown)))

    def _timed(self, shown: Text, row: StepRow | CallRow | FoldRow, style: str) -> Text:
        if self._scale is not None:
            shown.append_text(self._scale.bar(*self._span(row), style))
        return shown.append(self._duration(row).rjust(self._took), "dim")

    def _duration(self, row: Row) -> str:
        if isinstance(row, MarkRow):
            return ""
        started_at, ended_at = self._span(row)
        return lasted(ended_at - started_at) if started_at and ended_at is not None else ""

    def _span(self, row: StepRow | CallRow | FoldRow) -> tuple[int, int | None]:
        """When a row began and ended, on the wall clock; a call that is under way lasts until now."""
        if not isinstance(row, CallRow):
            return row.started_at, row.ended_at
        call = row.call
        is_under_way = self._live and call.state == "STARTED"
        return call.started_at, self._end if is_under_way else call.ended_at
