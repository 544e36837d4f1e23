"""What `run`, `resume` and the orders print at the end: how the run stands, its output, and what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from jumar.cli.exits import exit_code
from jumar.cli.lines import INDENT, STATUS_STYLES, NextStep, commands_of, line, print_step, wrapped_line
from jumar.cli.messages import write_json
from jumar.cli.options import Options
from jumar.cli.reading import info_of, output_json, short_id
from jumar.cli.times import lasted, now_ms
from jumar.cli.waiting import steps_of
from jumar.cli.words import pending, to_be
from jumar.errors import JumarError
from jumar.harness.harness import Harness
from jumar.harness.results import RunInfo, RunResult, WaitingOn

if TYPE_CHECKING:
    from jumar.cli.screen import Screen


def report(harness: Harness, result: RunResult[Any], options: Options, *, told: bool = False) -> int:
    """Print how a run stands after this process drove it; answers the exit code.  `told` says that whoever looks has
    just seen what it failed with.
    """
    output = output_json(harness, result.run_id) if result.status == "COMPLETED" else None
    asked: Sequence[WaitingOn] = ()
    steps: list[NextStep] = []
    short = short_id(harness, result.run_id)
    is_kept = harness.address != "memory:"
    if output is not None:
        run = info_of(harness, result.run_id)
        assert run is not None
    else:
        view = harness.show(result.run_id)
        run, asked = view.run, view.waiting_on
        steps = steps_of(options, short, view, now_ms(), error=result.error)
    if not is_kept:  # no other process will ever see the run
        steps = [NextStep(step.reason) for step in steps if run.status == "WAITING"]
    look = options.command("show", short, app=False) if is_kept else None
    if options.json:
        _as_json(result, output, steps, look)
    else:
        _as_text(run, result, output, steps, look, told=told)
    return exit_code(run, asked)


def _as_json(result: RunResult[Any], output: bytes | None, steps: list[NextStep], look: str | None) -> None:
    write_json(
        {
            "run_id": result.run_id,
            "status": result.status,
            "output": msgspec.Raw(output if output is not None else b"null"),
            "waiting_on": result.waiting_on,
            "wake_at": result.wake_at,
            "error_type": result.error_type,
            "error_message": result.error_message,
            "next": commands_of(steps) or [look] * (look is not None),
        }
    )


def _as_text(
    run: RunInfo, result: RunResult[Any], output: bytes | None, steps: list[NextStep], look: str | None, *, told: bool
) -> None:
    from rich.text import Text

    from jumar.cli.screen import out

    screen = out()
    print_status(screen, run)
    if result.error_type is not None and not told:
        _print_error(screen, result)
    if output is not None:
        for number, part in enumerate(_fitted(output, screen.width - INDENT)):
            line(screen, "output" if number == 0 else "", Text(screen.clean(part)))
    for step in steps:
        print_step(screen, step)
    if look is None:
        line(screen, "kept", Text("nowhere: the store was memory:; --store sqlite:///PATH keeps runs", "dim"))
    elif not steps or run.status == "FAILED":
        line(screen, "look", Text(look, "cyan"))


def _print_error(screen: Screen, result: RunResult[Any]) -> None:
    """What a run failed with, whole where that happened here; and what is safe, where the error is Jumar's own."""
    error = result.error if isinstance(result.error, JumarError) else None
    text = f"{result.error_type}: {result.error_message if error is None else error.what}"
    for number, part in enumerate(text.splitlines()):
        wrapped_line(screen, "" if number else "error", part, "red")
    if error is not None:
        wrapped_line(screen, "safe now", error.safe, "green")


def print_status(screen: Screen, run: RunInfo) -> None:
    """Which run it is, how it stands and after how long, and what it is still ordered to do."""
    from rich.text import Text

    order = pending(run)
    status = Text.assemble((run.status, f"bold {STATUS_STYLES[run.status]}"))
    status.append(f" after {lasted(run.updated_at - run.created_at)}")
    if order:
        status.append(f", {to_be(order)}", "magenta")
    line(screen, "run", Text(run.run_id))
    line(screen, "status", status)


def _fitted(data: bytes, width: int) -> list[str]:
    """JSON on one line where it fits, else indented over several."""
    text = data.decode()
    return [text] if len(text) <= width else msgspec.json.format(data, indent=2).decode().split("\n")
