"""`run` and `resume`: drive a run in this process."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from jumar.cli.apps import users_traceback
from jumar.cli.due import resume_due
from jumar.cli.messages import AgentLeft, Interrupted, explain
from jumar.cli.options import (
    Options,
    agent_of,
    opened,
    prints_aside,
    with_app,
    with_config,
    with_json,
    with_store,
    with_workspace,
)
from jumar.cli.progress import Progress, owner_name
from jumar.cli.reading import check_workspace, is_there, json_argument, short_id, typed_input
from jumar.cli.results import report
from jumar.cli.signals import interruptible
from jumar.cli.times import lasted, now_ms
from jumar.core.naming import uuid7
from jumar.errors import JumarError, UsageError
from jumar.harness.harness import Harness
from jumar.harness.results import RunInfo, RunResult


@click.command(short_help="Start a run and drive it until it ends or must wait.")
@click.argument("agent", metavar="[MODULE:HARNESS:]AGENT")
@click.option(
    "--input", "given", metavar="JSON", default="null", help="The agent's input: JSON, @FILE, or - for standard input."
)
@click.option("--task", metavar="TEXT", help="A name for people; the agent's name by default.")
@with_store
@with_app
@with_workspace
@with_config
@with_json
@click.pass_obj
def run(options: Options, agent: str, given: str, task: str | None) -> int:
    """Start a run and drive it until it ends or must wait.

    MODULE is imported from the current folder; a path such as jobs/shop.py:harness:repair works too. With --app, or
    JUMAR_APP, AGENT alone will do.
    """
    data = json_argument("--input", given)
    with agent_of(options, agent) as (harness, name):
        value = typed_input(harness, name, data)
        run_id = uuid7(now_ms(), secrets.token_bytes(10))
        options.run = run_id[-8:]
        told = f"running {name}, run {options.run}"
        with _driving(harness, run_id, options), prints_aside(options), Progress(told):
            result = harness.run(name, value, run_id=run_id, task=task)
        return _ended(harness, result, options)


@click.command(short_help="Take a run over and drive it on; or every run that can go on.")
@click.argument("run", metavar="RUN", required=False)
@click.option("--due", is_flag=True, help="Resume every run that can go on by itself, one after the other.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), help="With --due: at most so many runs; 100 by default.")
@click.option("--no-wait", is_flag=True, help="Refuse at once where another process holds the run.")
@click.option(
    "--strategy",
    type=click.Choice(["auto", "retry", "rollback", "forward"]),
    default="auto",
    show_default=True,
    help="What is done about a run that failed; auto chooses by what it failed with.",
)
@with_store
@with_app
@with_workspace
@with_config
@with_json
@click.pass_obj
def resume(options: Options, run: str | None, due: bool, limit: int | None, no_wait: bool, strategy: str) -> int:
    """Take a run over and drive it on from its last recorded fact.

    Waits until the lease of the process that held it has run out. A paused run goes on; so does one that was being
    rolled back, once that is finished. A failed one makes the calls again that it failed with (retry), goes back to
    before what went wrong (rollback), or takes the failure as it is (forward).

    With --due instead of RUN, every run of the app's agents that can go on by itself is resumed: those that are queued,
    those whose time has come, those whose process has gone; never one that is paused or has failed. The exit code is
    that of the run that needs somebody most: 5 damaged, 1 failed, 4 refused, 3 waits for a person, 7 paused or
    cancelled, 6 waits for a time; 0 where all are done, or none was due.
    """
    if due is (run is not None):
        raise UsageError("resume takes one of RUN and --due", hint="Name a run, or give --due for all that can go on.")
    if limit is not None and not due:
        raise UsageError("--limit goes with --due", hint="Leave it out, or resume what is due.")
    if due and no_wait:
        raise UsageError("--no-wait goes with RUN", hint="Leave it out: with --due nothing is waited for.")
    if due and strategy != "auto":
        raise UsageError("--strategy goes with RUN", hint="Leave it out: with --due no failed run is taken up.")
    if due and options.workspace is not None:
        raise UsageError("--workspace goes with RUN", hint="Leave it out: each run works on its own files.")
    if options.wanted_app() is None:
        raise UsageError(
            "resume needs the agent's code, which is never looked up from the database",
            hint="Say where it is with --app MODULE:HARNESS, or set JUMAR_APP.",
        )
    with opened(options, code=True) as harness:
        if run is None:
            return resume_due(harness, options, limit or 100)
        run_id = harness.find(run)
        options.run = short_id(harness, run_id)
        check_workspace(harness, options, run_id)
        told = f"resuming run {options.run}"
        with _driving(harness, run_id, options), prints_aside(options), Progress(told) as progress:
            waiting = _tells(progress, harness, run_id)
            result = harness.resume(run_id, strategy=strategy, wait=not no_wait, waiting=waiting)
        return _ended(harness, result, options)


def _tells(progress: Progress, harness: Harness, run_id: str) -> Callable[[float], None]:
    """The callback that `resume` tells the seconds left on another process's lease."""
    owner: list[str] = []

    def waiting(left: float) -> None:
        if not owner:
            found = is_there(harness, run_id)
            owner.append(owner_name(found.owner if found else None))
        progress.waiting(owner[0], left)

    return waiting


def _ended(harness: Harness, result: RunResult[Any], options: Options) -> int:
    told = False
    if isinstance(result.error, JumarError):
        if options.json:  # else the report says all of it
            explain(result.error, options)
    elif result.error is not None:
        click.echo(users_traceback(result.error), err=True)
        told = sys.stdout.isatty() and sys.stderr.isatty()  # the traceback ends in what the report would say
    return report(harness, result, options, told=told)


@contextmanager
def _driving(harness: Harness, run_id: str, options: Options) -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM, and an agent that ends the process, into an error that says how to go on with the run."""
    try:
        with interruptible(partial(_interrupted, harness, run_id, options)):
            yield
    except Exception:
        raise
    except BaseException as error:  # SystemExit, or a cancellation that is nobody's
        go_on = f"Take it out of the agent, then go on with `{_resume(options, run_id)}`."
        raise AgentLeft(f"the agent of run {options.run} left by {type(error).__name__}", hint=go_on) from error


def _resume(options: Options, run_id: str) -> str:
    return options.command("resume", options.run or run_id)


def _interrupted(harness: Harness, run_id: str, options: Options, kind: type[Interrupted]) -> Interrupted:
    run: RunInfo | None = is_there(harness, run_id)
    if run is None:
        return kind(f"{kind.code} before the run began", safe="Nothing was recorded.")
    go_on = f"Go on with `{_resume(options, run.run_id)}`."
    if run.status != "RUNNING":
        return kind(f"{kind.code}; run {options.run} is {run.status.lower()}", hint=go_on)
    if f"/{os.getpid()}/" not in (run.owner or ""):
        owner = owner_name(run.owner)
        return kind(f"{kind.code}; {owner} still drives run {options.run}", safe="Nothing was changed.", hint=go_on)
    left = f", once this process's lease has run out ({lasted(run.lease_seconds * 1000)})" if run.lease_seconds else ""
    return kind(
        f"{kind.code} while a call of run {options.run} was under way",
        safe="What is recorded stays recorded; whether that call happened is settled when the run goes on.",
        hint=f"{go_on[:-1]}{left}.",
    )
