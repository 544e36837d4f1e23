"""A run on the screen: who and how, then one line a call with its bar, and at the end the commands to type next.

The columns are: what kind of call it is and its name, indented under its step; how it stands; its bar, on the scale of
the whole run and with a mark at every takeover; how long it took; and what it answered, or why not.  The last is cut at
the screen's edge, so that no line is longer than the screen; bars shrink first, and on a narrow screen they are left
out.
"""

from __future__ import annotations

from rich.text import Text

from jumar.cli.answers import answer_of, legend, name_of, state_of
from jumar.cli.bars import Scale
from jumar.cli.heading import end_of, heading, is_live, json_text
from jumar.cli.options import Options
from jumar.cli.results import INDENT, print_step
from jumar.cli.screen import Screen, cells
from jumar.cli.times import lasted, when
from jumar.cli.tree import CallRow, Row, StepRow, TakeoverRow, rows_of
from jumar.cli.waiting import said, steps_of
from jumar.harness.results import AnswerView, RunView

_WIDEST_BAR, _LEAST_BAR = 32, 8


def print_run(screen: Screen, view: RunView, options: Options, now: int) -> None:
    """The whole timeline of a run."""
    end = end_of(view, now)
    for label, text in heading(screen, view, now, end):
        screen.print(Text.assemble((label.ljust(INDENT), "dim"), text))
    if view.calls:
        screen.print()
        _Table(screen, view, end).print()
        screen.print()
        screen.print(legend(screen.signs, view.calls))
    if view.output is not None:
        screen.print()
        output = screen.cut(json_text(screen, view.output), screen.width - INDENT)
        screen.print(Text.assemble(("output".ljust(INDENT), "dim"), output))
    if view.answers:
        screen.print()
    for answer in view.answers:
        _print_answer(screen, answer, now)
    steps = steps_of(options, options.run or view.run.run_id, view, now)
    if steps:
        screen.print()
    for step in steps:
        print_step(screen, step)


def _print_answer(screen: Screen, answer: AnswerView, now: int) -> None:
    """What was answered about a call, by whom, with which note."""
    attempt = f", attempt {answer.attempt}" if answer.attempt > 1 else ""
    note = f": {answer.note}" if answer.note else ""
    text = screen.clean(f"{answer.call_id}{attempt} {said(answer)}, at {when(answer.at, now)}{note}")
    for number, part in enumerate(screen.wrapped(text, screen.width - INDENT)):
        screen.print(Text.assemble(("" if number else "answered").ljust(INDENT), part))


class _Table:
    """The rows of one run, and how wide their columns are."""

    def __init__(self, screen: Screen, view: RunView, end: int) -> None:
        self._screen = screen
        self._start = view.run.created_at
        self._end = end
        self._live = is_live(view)
        self._answers = view.answers
        self._rows = rows_of(view.calls, view.takeovers)
        widest = max(cells(name_of(screen, row, 10_000)) for row in self._rows if not isinstance(row, TakeoverRow))
        self._names = min(widest, screen.width * 2 // 5)
        self._took = max(len(self._duration(row)) for row in self._rows) + 1
        width = min(_WIDEST_BAR, (screen.width - self._names - self._took - 6) // 2)
        moments = [line.at for line in view.takeovers]
        self._scale = Scale(self._start, end, width, moments, screen.signs) if width >= _LEAST_BAR else None

    def print(self) -> None:
        """All rows, under the axis of their bars."""
        if self._scale is not None:
            axis = self._scale.axis(lasted(self._end - self._start))
            self._screen.print(Text.assemble(" " * (self._names + 4), axis))
        for row in self._rows:
            line = self._takeover(row) if isinstance(row, TakeoverRow) else self._line(row)
            self._screen.print(self._screen.crop(line))

    def _takeover(self, row: TakeoverRow) -> Text:
        rule = self._screen.signs.rule
        said = f"{rule * 2} taken over after {lasted(row.at - self._start)}, epoch {row.epoch} "
        return Text(said + rule * (self._screen.width - cells(said)), "magenta")

    def _line(self, row: StepRow | CallRow) -> Text:
        line = name_of(self._screen, row, self._names)
        line.append(" " * (self._names - cells(line) + 2))
        if isinstance(row, StepRow):
            return self._timed(line.append("  "), row, "dim")
        sign, style = state_of(self._screen, row.call)
        line = self._timed(line.append(sign, style), row, style).append("  ")
        width = self._screen.width - cells(line)
        return line.append_text(answer_of(self._screen, row.call, self._live, width, self._answers))

    def _timed(self, line: Text, row: StepRow | CallRow, style: str) -> Text:
        if self._scale is not None:
            line.append_text(self._scale.bar(*self._span(row), style))
        return line.append(self._duration(row).rjust(self._took), "dim")

    def _duration(self, row: Row) -> str:
        if isinstance(row, TakeoverRow):
            return ""
        started_at, ended_at = self._span(row)
        return lasted(ended_at - started_at) if started_at and ended_at is not None else ""

    def _span(self, row: StepRow | CallRow) -> tuple[int, int | None]:
        """When a row began and ended, on the wall clock; a call that is under way lasts until now."""
        if isinstance(row, StepRow):
            return row.started_at, row.ended_at
        call = row.call
        is_under_way = self._live and call.state == "STARTED"
        return call.started_at, self._end if is_under_way else call.ended_at
