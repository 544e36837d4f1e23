"""What the runs of an app wait for where none of them can go on by itself: a time, a person, the process it is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from jumar.cli.asked import is_settling
from jumar.cli.lines import line
from jumar.cli.options import Options
from jumar.cli.reading import info_of, short_id
from jumar.cli.screen import out
from jumar.cli.times import when

if TYPE_CHECKING:
    from jumar.harness.harness import Harness
    from jumar.harness.results import RunInfo, WaitingOn

_MOST = 1000  # runs that are looked at


def print_idle(harness: Harness, options: Options, now: int) -> None:
    """That nothing is due, when something will be, and how many runs wait for something else."""
    screen = out()
    screen.print("No run of this app can go on by itself.")
    waiting, asking = _of_app(harness, "WAITING"), _asking(harness)
    timed = [run for run in waiting if run.wake_at is not None]
    if timed:
        first = min(timed, key=lambda run: run.wake_at or 0)
        assert first.wake_at is not None
        text = f"{when(first.wake_at, now)}: run {short_id(harness, first.run_id)} of {first.agent}"
        line(screen, "next", screen.clean(text))
    persons = [run for run in waiting if run.run_id in asking and not is_settling(run, asking[run.run_id])]
    if persons:
        waits = _counted(persons, "waits for a person: ", "wait for a person: ")
        line(screen, "asking", Text.assemble((waits, "yellow"), (options.command("requests", app=False), "cyan")))
    driven = [run for run in _of_app(harness, "RUNNING") if run.lease_seconds is not None]
    if driven:
        line(screen, "driven", _counted(driven, "is under a live lease", "are under a live lease"))
    due = [info_of(harness, run_id) for run_id in harness.due(_MOST)]
    strangers = [run for run in due if run is not None and run.agent not in harness.agents]
    if strangers:
        text = _counted(strangers, "can go on, of an agent", "can go on, of agents")
        line(screen, "others", f"{text} that this app does not have")


def _of_app(harness: Harness, status: str) -> list[RunInfo]:
    return [run for run in harness.runs(status=status, limit=_MOST) if run.agent in harness.agents]


def _asking(harness: Harness) -> dict[str, list[WaitingOn]]:
    found: dict[str, list[WaitingOn]] = {}
    for request in harness.requests(_MOST):
        found.setdefault(request.run_id, []).append(request.asked)
    return found


def _counted(runs: Sequence[object], one: str, many: str) -> str:
    return f"1 run {one}" if len(runs) == 1 else f"{len(runs):,} runs {many}"
