"""`worker`: drive whatever is due, until it is told to stop."""

from __future__ import annotations

import os
import signal
import sys

import click

from jumar.cli.exits import DONE
from jumar.cli.messages import Interrupted, Terminated, tell
from jumar.cli.options import Options, opened, prints_aside, with_app, with_config, with_json, with_store
from jumar.core.working import DEFAULT_CONCURRENCY, DEFAULT_GRACE, DEFAULT_POLL
from jumar.errors import UsageError


@click.command(short_help="Drive the runs that are due, until it is told to stop.")
@click.argument("place", metavar="APP", required=False)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=DEFAULT_CONCURRENCY,
    show_default=True,
    help="How many runs are driven at a time.",
)
@click.option(
    "--poll",
    type=click.FloatRange(0.01, 3600),
    default=DEFAULT_POLL,
    show_default=True,
    help="Every so many seconds look for runs that nobody has told of.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0, 86_400),
    default=DEFAULT_GRACE,
    show_default=True,
    help="So many seconds runs may go on once the worker is told to stop.",
)
@click.option(
    "--max-crashes",
    type=click.IntRange(1, 1_000_000),
    help="Give a run up under which so many processes have ended. Default: the app's own, else 5.",
)
@click.option("--once", is_flag=True, help="End when nothing is due.")
@with_store
@with_app
@with_config
@with_json
@click.pass_obj
def worker(
    options: Options,
    place: str | None,
    concurrency: int,
    poll: float,
    grace: float,
    max_crashes: int | None,
    once: bool,
) -> int:
    """Drive the runs of the app's agents that are due, until it is told to stop.

    APP is where the harness is, as shop:harness or jobs/shop.py:harness; --app and JUMAR_APP do as well. Due are runs
    that were started and are queued, those whose time has come or whose answer is there, and those whose process has
    gone. Any number of workers share a store; each run is driven by one of them.

    SIGTERM, or Ctrl-C, ends it: nothing new is taken up, and what is under way may end within the grace time. Then each
    run is stopped at its next call, what it has in flight is recorded, and other workers go on with it at once. A
    second signal ends it as a crash would. The exit code is 0, or that of the second signal.
    """
    if place is not None:
        options.app = place
    if options.wanted_app() is None:
        raise UsageError(
            "a worker needs the agents' code, which is never looked up from the database",
            hint="Say where it is, as in `jumar worker shop:harness`, or set JUMAR_APP.",
        )
    from jumar.cli.working import Teller, told_to_stop, warnings_shown
    from jumar.engine.places import Stop
    from jumar.harness.working import require_agents

    stop = Stop()
    with opened(options, code=True, makes=True) as harness, told_to_stop(stop) as signals, warnings_shown():
        require_agents(harness)
        harness.store.now()  # what is wrong with the store shows before anything else is said
        teller = Teller(harness, options, concurrency, grace, stop)
        teller.begin()
        with prints_aside(options):
            report = harness.work(
                concurrency=concurrency,
                stop=stop,
                poll=poll,
                grace=grace,
                max_crashes=max_crashes,
                until_idle=once,
                told=teller.tell,
            )
        teller.end(report)
        if report.abandoned:
            return _leave_at_once(options, signals[-1] if signals else signal.SIGTERM, len(report.abandoned))
        if report.given_up:
            _exit(DONE)  # threads that hang must not keep the process
    return DONE


def _leave_at_once(options: Options, number: int, under_way: int) -> int:
    runs = "1 run was" if under_way == 1 else f"{under_way} runs were"
    kind = Terminated if number == signal.SIGTERM else Interrupted
    error = kind(
        f"{kind.code} while {runs} under way",
        safe="What is recorded stays recorded; whether their calls in flight happened is settled when they go on.",
        hint="Another worker takes them up once their leases have run out.",
    )
    options.json = False  # standard output has one object a line, and ends
    tell(error, options)
    return _exit(error.exit_code)


def _exit(code: int) -> int:
    """End the process although threads of runs go on in it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
