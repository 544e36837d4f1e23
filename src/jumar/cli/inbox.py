"""What all runs ask people, as a list to go through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jumar.cli.asked import is_settling, late_step, needs_nobody, step_for
from jumar.cli.lines import NextStep, commands_of, print_step
from jumar.cli.options import Options
from jumar.cli.reading import info_of, open_requests, short_id
from jumar.harness.harness import Harness
from jumar.harness.results import RequestView, RunInfo, WaitingOn

if TYPE_CHECKING:
    from jumar.cli.screen import Screen


def steps_of(harness: Harness, options: Options, requests: Sequence[RequestView], now: int) -> list[NextStep]:
    """Each request with what is known about it and its commands; of what needs nobody's answer, that it does not."""
    runs: dict[str, tuple[str, RunInfo | None, list[WaitingOn]]] = {}
    steps = []
    for request in requests:
        run_id, asked = request.run_id, request.asked
        if run_id not in runs:
            runs[run_id] = short_id(harness, run_id), info_of(harness, run_id), open_requests(harness, run_id)
        short, run, all_asked = runs[run_id]
        if run is not None and (needs_nobody(run, asked) or is_settling(run, all_asked)):
            steps.append(late_step(options, short, run, (asked,), now, says=f"Run {short}"))
            continue
        remakes = run is None or run.status != "CANCELLED"
        steps.append(step_for(options, short, asked, now, says=f"Run {short} asks", remakes=remakes))
    return steps


def as_json(request: RequestView, step: NextStep) -> dict[str, Any]:
    """A request for a program, with the commands that answer it."""
    return {"run_id": request.run_id, "asked": request.asked, "next": commands_of([step])}


def print_requests(screen: Screen, steps: Sequence[NextStep], more: bool) -> None:
    """The requests, one below the other."""
    if not steps:
        screen.print("No run asks anybody anything.")
    for number, step in enumerate(steps):
        if number:
            screen.print()
        print_step(screen, step, "request")
    if more:
        from jumar.cli.tables import print_more

        print_more(screen)
