"""Aligned tables: the list of runs, and the trace of one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from jumar.cli.lines import STATUS_STYLES
from jumar.cli.notes import Waits, note_of
from jumar.cli.screen import Screen, cells
from jumar.cli.times import ago, clock, moment
from jumar.harness.results import RunInfo, TraceLine

Cell = tuple[str, str]  # text and style
_GAP = 2
_WIDEST = 32  # of a column that is not the last
_NARROWEST, _LEAST_LAST = 8, 16  # columns give way to the last one, down to so many
_NARROW = 80  # below that a trace does without the time of day, and the list of runs without their steps

_TRACE_STYLES = {
    "taken-over": "bold magenta",
    "call-uncertain": "bold yellow",
    "uncertain": "bold yellow",
    "requested": "yellow",
    "waiting": "yellow",
    "retry": "yellow",
    "failed": "red",
    "diverged": "bold red",
    "rejected": "red",
    "answered": "green",
    "identity-held": "yellow",
    "ordered": "magenta",
    "paused": "bold magenta",
    "cancelled": "bold magenta",
    "reopened": "magenta",
    "rollback-started": "magenta",
    "rolled-back": "bold magenta",
    "restored": "magenta",
    "put-back": "magenta",
    "compensated": "magenta",
    "forked": "magenta",
    "drifted": "yellow",
    "files-held": "yellow",
    "arrived": "magenta",
    "moved-away": "bold magenta",
    "written-behind": "dim",
    "succeeded": "green",
    "completed": "bold green",
}


def print_table(
    screen: Screen,
    titles: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    right: Sequence[int] = (),
    *,
    cut: bool = True,
) -> None:
    """Columns under their titles, each as wide as it needs to be, the last one cut at the screen's edge.  Without `cut`
    everything is whole, as paths must be that somebody may want to copy.
    """
    table = [[(screen.clean(text), style) for text, style in row] for row in rows]
    widths = [max([len(title), *(cells(row[at][0]) for row in table)]) for at, title in enumerate(titles)]
    if cut:
        widths = _fitted(widths, screen.width)
    for row in [[(title, "dim") for title in titles], *table]:
        line = Text()
        for at, (text, style) in enumerate(row):
            last = at == len(row) - 1
            shown = screen.cut(text, widths[at]) if last else screen.pad(text, widths[at], right=at in right)
            line.append(shown, style)
            line.append("" if last else " " * _GAP)
        screen.print(screen.crop(line) if cut else line)


def _fitted(widths: list[int], screen: int) -> list[int]:
    """The columns' widths within the screen's: the widest of those in the middle give way to the last one."""
    widths = [min(_WIDEST, width) for width in widths]
    used = sum(widths[:-1]) + _GAP * (len(widths) - 1)
    while used > screen - min(_LEAST_LAST, widths[-1]) and max(widths[1:-1], default=0) > _NARROWEST:
        widest = max(range(1, len(widths) - 1), key=widths.__getitem__)
        widths[widest] -= 1
        used -= 1
    widths[-1] = max(0, screen - used)
    return widths


def print_runs(screen: Screen, runs: Sequence[tuple[str, RunInfo, Waits]], more: bool, now: int) -> None:
    """The list of runs."""
    if not runs:
        screen.print("There are no such runs.")
        return
    titles = ["run", "agent", "task", "status", "step", "updated", ""]
    rows = [_run_row(short, run, waits, now) for short, run, waits in runs]
    task = titles.index("task")
    if not any(row[task][0] for row in rows):
        _drop(task, titles, rows)
    step = titles.index("step")
    if screen.width < _NARROW:
        _drop(step, titles, rows)
    print_table(screen, titles, rows, right=() if screen.width < _NARROW else (step,))
    if more:
        print_more(screen)


def _drop(column: int, titles: list[str], rows: list[list[Cell]]) -> None:
    del titles[column]
    for row in rows:
        del row[column]


def print_more(screen: Screen) -> None:
    """That a list has been cut."""
    for part in screen.wrapped("There are more; --limit shows more of them.", screen.width):
        screen.print(part, "dim")


def _run_row(short: str, run: RunInfo, waits: Waits, now: int) -> list[Cell]:
    task = "" if run.task == run.agent else run.task
    status = (run.status.lower(), STATUS_STYLES.get(run.status, ""))
    return [
        (short, "bold"),
        (run.agent, ""),
        (task, ""),
        status,
        (str(run.step), "dim"),
        (ago(run.updated_at, now), "dim"),
        note_of(run, waits, now),
    ]


def print_trace(screen: Screen, run_id: str, lines: Sequence[TraceLine]) -> None:
    """The trace: how long after the start, at what time of day, what, about which call, under which epoch."""
    if not lines:
        screen.print(f"Nothing is on the trace of run {run_id}.")
        return
    start = lines[0].at
    screen.print(Text.assemble(("run ", "dim"), run_id, (f", from {moment(start)}", "dim")))
    titles = ["after", "time (UTC)", "what", "call", "epoch", "detail"]
    rows = [_trace_row(line, start) for line in lines]
    if screen.width < _NARROW:  # the one that says nothing new gives way
        _drop(titles.index("time (UTC)"), titles, rows)
    print_table(screen, titles, rows, right=(0, len(titles) - 2))


def _trace_row(line: TraceLine, start: int) -> list[Cell]:
    return [
        (f"+{(line.at - start) / 1000:.3f} s", ""),
        (clock(line.at), "dim"),
        (line.what, _TRACE_STYLES.get(line.what, "")),
        (line.call_id or "", "bold"),
        (str(line.epoch) if line.epoch else "", "dim"),
        (line.detail, "dim"),
    ]
