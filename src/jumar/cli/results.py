"""What `run` and `resume` print at the end: how the run stands, its output, and what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jumar.cli.messages import write_json
from jumar.cli.options import Options
from jumar.cli.reading import info_of, output_json, short_id
from jumar.cli.times import lasted, now_ms
from jumar.cli.waiting import NextStep, next_steps
from jumar.harness.harness import Harness
from jumar.harness.results import RunInfo, RunResult

if TYPE_CHECKING:
    from jumar.cli.screen import Screen

STATUS_STYLES = {
    "QUEUED": "cyan",
    "RUNNING": "blue",
    "WAITING": "yellow",
    "PAUSED": "magenta",
    "FAILED": "red",
    "COMPLETED": "green",
    "CANCELLED": "magenta",
}
INDENT = 9


def report(harness: Harness, result: RunResult[Any], options: Options) -> None:
    """Print how a run stands after this process drove it."""
    run = info_of(harness, result.run_id)
    assert run is not None
    short = short_id(harness, run.run_id)
    is_kept = harness.address != "memory:"
    steps = next_steps(options, short, run, result.waiting_on, now_ms())
    if not is_kept:  # no other process will ever see the run
        steps = [NextStep(step.reason) for step in steps if run.status == "WAITING"]
    look = options.command("show", short, app=False) if is_kept else None
    output = output_json(harness, run.run_id) if result.status == "COMPLETED" else None
    if options.json:
        _as_json(result, output, steps, look)
    else:
        _as_text(run, result, output, steps, look)


def _as_json(result: RunResult[Any], output: bytes | None, steps: list[NextStep], look: str | None) -> None:
    commands = [command for step in steps for _, command in step.commands]
    write_json(
        {
            "run_id": result.run_id,
            "status": result.status,
            "output": msgspec.Raw(output if output is not None else b"null"),
            "waiting_on": result.waiting_on,
            "wake_at": result.wake_at,
            "error_type": result.error_type,
            "error_message": result.error_message,
            "next": commands or [look] * (look is not None),
        }
    )


def _as_text(
    run: RunInfo, result: RunResult[Any], output: bytes | None, steps: list[NextStep], look: str | None
) -> None:
    from rich.text import Text

    from jumar.cli.screen import out

    screen = out()
    took = lasted(run.updated_at - run.created_at)
    line(screen, "run", Text(run.run_id))
    line(screen, "status", Text.assemble((run.status, f"bold {STATUS_STYLES[run.status]}"), f" after {took}"))
    if result.error_type is not None:
        line(screen, "error", Text(screen.clean(f"{result.error_type}: {result.error_message}"), "red"))
    if output is not None:
        for number, part in enumerate(_fitted(output, screen.width - INDENT)):
            line(screen, "output" if number == 0 else "", Text(screen.clean(part)))
    for step in steps:
        print_step(screen, step)
    if look is None:
        line(screen, "kept", Text("nowhere: the store was memory:; --store sqlite:///PATH keeps runs", "dim"))
    elif not steps or run.status == "FAILED":
        line(screen, "look", Text(look, "cyan"))


def line(screen: Screen, label: str, text: Any) -> None:
    """One labelled line."""
    from rich.text import Text

    screen.print(Text.assemble((label.ljust(INDENT), "dim"), text))


def print_step(screen: Screen, step: NextStep) -> None:
    """Why a run stands still, and the commands that move it, one a line so that they can be copied whole."""
    from rich.text import Text

    for number, part in enumerate(screen.wrapped(screen.clean(step.reason), screen.width - INDENT)):
        line(screen, "now" if number == 0 else "", Text(part, "yellow"))
    width = max((len(says) for says, _ in (*step.facts, *step.commands)), default=0)
    for name, fact in step.facts:
        text = screen.clean(fact)
        shown = text if name == "key" else screen.cut(text, screen.width - width - 4)  # a key is copied whole
        screen.print(Text.assemble("  ", (name.ljust(width + 2), "dim"), shown))
    for says, command in step.commands:
        screen.print(Text.assemble("  ", (says.ljust(width + 2), "dim"), (screen.clean(command), "cyan")))


def _fitted(data: bytes, width: int) -> list[str]:
    """JSON on one line where it fits, else indented over several."""
    text = data.decode()
    return [text] if len(text) <= width else msgspec.json.format(data, indent=2).decode().split("\n")
