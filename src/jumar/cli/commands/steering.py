"""`pause` and `cancel`: stop a run for a while, or for good."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import click

from jumar.cli.exits import DONE, REFUSED
from jumar.cli.lines import NextStep, commands_of, line, print_step
from jumar.cli.messages import Interrupted, write_json
from jumar.cli.options import Options, opened, with_app, with_json, with_store
from jumar.cli.progress import Progress, owner_name
from jumar.cli.reading import is_there, short_id
from jumar.cli.results import print_status
from jumar.cli.signals import interruptible
from jumar.cli.times import now_ms
from jumar.cli.waiting import steps_of
from jumar.cli.words import pending, to_be
from jumar.harness.harness import Harness
from jumar.harness.results import RunInfo, RunView

_OBEYED = {"pause": "PAUSED", "cancel": "CANCELLED"}
_BECOMES = {"pause": "to pause", "cancel": "to stop"}

_no_wait = click.option("--no-wait", is_flag=True, help="Only write the order down where a process drives the run.")
_by = click.option("--by", metavar="NAME", help="Who orders it; by default the user's name here.")
_note = click.option("--note", metavar="TEXT", help="A remark to keep with the order.")


@click.command(short_help="Stop a run until it is resumed.")
@click.argument("run", metavar="RUN")
@_no_wait
@_by
@_note
@with_store
@with_app
@with_json
@click.pass_obj
def pause(options: Options, run: str, no_wait: bool, by: str | None, note: str | None) -> int:
    """Stop a run until it is resumed.

    A run that no process drives is paused at once. One that is driven sends nothing new and stops once what it has in
    flight has settled; this command waits for that. Ctrl-C leaves the order standing.
    """
    with opened(options) as harness:
        return _ordered(harness, options, "pause", run, no_wait, by, note)


@click.command(short_help="End a run for good.")
@click.argument("run", metavar="RUN")
@_no_wait
@_by
@_note
@with_store
@with_app
@with_json
@click.pass_obj
def cancel(options: Options, run: str, no_wait: bool, by: str | None, note: str | None) -> int:
    """End a run for good.

    What it did stays done. Calls that may have happened are listed, and can still be resolved. A run that is driven
    sends nothing new and ends once what it has in flight has settled; this command waits for that. Ctrl-C leaves the
    order standing.
    """
    with opened(options) as harness:
        return _ordered(harness, options, "cancel", run, no_wait, by, note)


def _ordered(
    harness: Harness, options: Options, order: str, run: str, no_wait: bool, by: str | None, note: str | None
) -> int:
    run_id = harness.find(run)
    options.run = short_id(harness, run_id)
    give = harness.pause if order == "pause" else harness.cancel
    told = f"waiting for run {options.run} {_BECOMES[order]}"
    with interruptible(partial(_interrupted, harness, run_id, options, order)), Progress(told) as progress:
        give(run_id, by=by, note=note, wait=not no_wait, waiting=_tells(progress, harness, run_id, order))
    view = harness.show(run_id)
    became = _became(view.run, order)
    steps = steps_of(options, options.run, view, now_ms())
    if options.json:
        _as_json(view, steps)
    else:
        _as_text(view, became, steps, options.command("show", options.run, app=False))
    return DONE if became is None else REFUSED


def _tells(progress: Progress, harness: Harness, run_id: str, order: str) -> Callable[[float], None]:
    """The callback that tells of the process whose lease is live."""
    owner: list[str] = []

    def waiting(left: float) -> None:
        if not owner:
            found = is_there(harness, run_id)
            owner.append(owner_name(found.owner if found else None))
            progress.obeys(f"waiting for {owner[0]} {_BECOMES[order]} run {run_id[-8:]}")

    return waiting


def _became(run: RunInfo, order: str) -> str | None:
    """What has become of the order, where the run neither stands as ordered nor is yet to obey."""
    if run.status == _OBEYED[order] or pending(run):
        return None
    if run.status == "COMPLETED":
        return "It had finished before the order was seen, and is completed."
    if run.status == "FAILED":
        return "It had failed before the order was seen."
    return f"It is {run.status.lower()}, not {_OBEYED[order].lower()}: it has moved on meanwhile."


def _as_json(view: RunView, steps: list[NextStep]) -> None:
    run = view.run
    write_json(
        {
            "run_id": run.run_id,
            "status": run.status,
            "pending": pending(run) or None,
            "waiting_on": view.waiting_on,
            "next": commands_of(steps),
        }
    )


def _as_text(view: RunView, became: str | None, steps: list[NextStep], look: str) -> None:
    from rich.text import Text

    from jumar.cli.screen import out

    screen = out()
    print_status(screen, view.run)
    if became is not None:
        line(screen, "order", Text(screen.clean(became), "magenta"))
    for step in steps:
        print_step(screen, step)
    if not steps:
        line(screen, "look", Text(look, "cyan"))


def _interrupted(harness: Harness, run_id: str, options: Options, order: str, kind: type[Interrupted]) -> Interrupted:
    run = is_there(harness, run_id)
    if run is None or not pending(run):
        stands = f"run {options.run} is {run.status.lower()}" if run is not None else "nothing was ordered"
        return kind(f"{kind.code}; {stands}", safe="The run stands as it is.")
    again = options.command(order, options.run or run_id, app=False)
    return kind(
        f"{kind.code} before run {options.run} had obeyed",
        safe=f"The order stands: the run is {to_be(order)} as soon as the process that drives it sees that.",
        hint=f"`{again}` waits for it again.",
    )
