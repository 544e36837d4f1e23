"""`runs`, `requests`, `show`, `trace` and `brief`: look, and change nothing."""

from __future__ import annotations

import click

from jumar.cli.exits import DONE
from jumar.cli.messages import write_json
from jumar.cli.options import Options, opened, with_app, with_json, with_store
from jumar.cli.reading import short_id, waits_of
from jumar.cli.times import now_ms

_limit = click.option(
    "--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="At most so many."
)


@click.command()
@click.option("--status", metavar="STATUS", help="Only runs of this status, such as waiting or failed.")
@click.option("--agent", metavar="NAME", help="Only runs of this agent.")
@_limit
@with_store
@with_app
@with_json
@click.pass_obj
def runs(options: Options, status: str | None, agent: str | None, limit: int) -> int:
    """List runs, the newest first, with what each waits for."""
    with opened(options) as harness:
        found = harness.runs(status=status, agent=agent, limit=limit + 1)
        shown, more = found[:limit], len(found) > limit
        if options.json:
            write_json(shown)
            return DONE
        from jumar.cli.screen import out
        from jumar.cli.tables import print_runs

        rows = [(short_id(harness, run.run_id), run, waits_of(harness, run)) for run in shown]
        print_runs(out(), rows, more, now_ms())
    return DONE


@click.command(short_help="List what runs ask people, and the commands that answer.")
@_limit
@with_store
@with_app
@with_json
@click.pass_obj
def requests(options: Options, limit: int) -> int:
    """List what the runs of the store ask people, the oldest first, each with the commands that answer it."""
    from jumar.cli.inbox import as_json, print_requests, steps_of

    with opened(options) as harness:
        found = harness.requests(limit + 1)
        shown, more = found[:limit], len(found) > limit
        steps = steps_of(harness, options, shown, now_ms())
    if options.json:
        write_json([as_json(request, step) for request, step in zip(shown, steps, strict=True)])
        return DONE
    from jumar.cli.screen import out

    print_requests(out(), steps, more)
    return DONE


@click.command(short_help="Show a run as a timeline.")
@click.argument("run", metavar="RUN")
@click.option("--all", "whole", is_flag=True, help="Show every call; without it the middle of a long run is folded.")
@with_store
@with_app
@with_json
@click.pass_obj
def show(options: Options, run: str, whole: bool) -> int:
    """Show a run as a timeline: its steps, calls, takeovers, and what it waits for."""
    with opened(options) as harness:
        view = harness.show(run)
        if options.json:
            write_json(view)
            return DONE
        from jumar.cli.screen import out
        from jumar.cli.timeline import print_run

        options.run = short_id(harness, view.run.run_id)
        print_run(out(), view, options, now_ms(), whole=whole)
    return DONE


@click.command()
@click.argument("run", metavar="RUN")
@with_store
@with_app
@with_json
@click.pass_obj
def trace(options: Options, run: str) -> int:
    """Print what happened in a run, in the order of time."""
    with opened(options) as harness:
        run_id = harness.find(run)
        options.run = short_id(harness, run_id)
        lines = harness.trace(run_id)
    if options.json:
        write_json(lines)
        return DONE
    from jumar.cli.screen import out
    from jumar.cli.tables import print_trace

    print_trace(out(), run_id, lines)
    return DONE


@click.command(short_help="Tell what happened in a run so far, for whoever goes on with it.")
@click.argument("run", metavar="RUN")
@click.option(
    "--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="The language: English or Chinese."
)
@with_store
@with_app
@with_json
@click.pass_obj
def brief(options: Options, run: str, lang: str) -> int:
    """Tell what happened in a run so far, as an agent is told that goes on with it.

    What is done and is not to be done again, what is still to do, what went wrong last, what cannot be undone, and with
    which step to go on.
    """
    with opened(options) as harness:
        run_id = harness.find(run)
        options.run = short_id(harness, run_id)
        told = harness.brief(run_id, lang)
    if options.json:
        write_json(told)
        return DONE
    from jumar.cli.screen import out

    screen = out()
    for line in told.prose.splitlines():
        for part in screen.wrapped(screen.clean(line), screen.width):
            screen.print(part)
    return DONE
