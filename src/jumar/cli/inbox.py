"""What all runs ask people, as a list to go through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jumar.cli.asked import commands_for, step_for
from jumar.cli.lines import print_step
from jumar.cli.options import Options
from jumar.harness.results import RequestView, WaitingOn

if TYPE_CHECKING:
    from jumar.cli.screen import Screen


def as_json(options: Options, request: RequestView, short: str) -> dict[str, Any]:
    """A request for a program, with the commands that answer it."""
    commands = [command for _, command in commands_for(options, short, request.asked)]
    return {"run_id": request.run_id, "asked": request.asked, "next": commands}


def print_requests(
    screen: Screen, options: Options, requests: Sequence[tuple[str, WaitingOn]], more: bool, now: int
) -> None:
    """The requests, each with what is known about it and its commands."""
    if not requests:
        screen.print("No run asks anybody anything.")
    for number, (short, asked) in enumerate(requests):
        if number:
            screen.print()
        print_step(screen, step_for(options, short, asked, now, says=f"Run {short} asks"), "request")
    if more:
        from jumar.cli.tables import print_more

        print_more(screen)
