"""`run` and `resume`: drive a run in this process."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from jumar.cli.apps import users_traceback
from jumar.cli.exits import exit_code
from jumar.cli.messages import AgentLeft, Interrupted, Terminated, explain
from jumar.cli.options import Options, agent_of, opened, prints_aside, with_app, with_json, with_store
from jumar.cli.progress import Progress, owner_name
from jumar.cli.reading import is_there, json_argument, short_id, typed_input
from jumar.cli.results import report
from jumar.cli.times import lasted, now_ms
from jumar.core.naming import uuid7
from jumar.errors import JumarError, UsageError
from jumar.harness.harness import Harness
from jumar.harness.results import RunInfo, RunResult


@click.command(short_help="Start a run and drive it until it ends or must wait.")
@click.argument("agent", metavar="MODULE:HARNESS:AGENT")
@click.option(
    "--input", "given", metavar="JSON", default="null", help="The agent's input: JSON, @FILE, or - for standard input."
)
@click.option("--task", metavar="TEXT", help="A name for people; the agent's name by default.")
@with_store
@with_json
@click.pass_obj
def run(options: Options, agent: str, given: str, task: str | None) -> int:
    """Start a run and drive it until it ends or must wait.

    MODULE is imported from the current folder; a path such as jobs/site.py:harness:repair works too.
    """
    data = json_argument("--input", given)
    with agent_of(options, agent) as (harness, name):
        value = typed_input(harness, name, data)
        run_id = uuid7(now_ms(), secrets.token_bytes(10))
        options.run = run_id[-8:]
        told = f"running {name}, run {options.run}"
        with _interruptible(harness, run_id, options), prints_aside(options), Progress(told):
            result = harness.run(name, value, run_id=run_id, task=task)
        return _ended(harness, result, options)


@click.command(short_help="Take a run over and drive it on.")
@click.argument("run", metavar="RUN")
@click.option("--no-wait", is_flag=True, help="Refuse at once where another process holds the run.")
@with_store
@with_app
@with_json
@click.pass_obj
def resume(options: Options, run: str, no_wait: bool) -> int:
    """Take a run over and drive it on from its last recorded fact.

    Waits until the lease of the process that held it has run out.
    """
    if options.wanted_app() is None:
        raise UsageError(
            "resume needs the agent's code, which is never looked up from the database",
            hint="Say where it is with --app MODULE:HARNESS, or set JUMAR_APP.",
        )
    with opened(options, code=True) as harness:
        run_id = harness.find(run)
        options.run = short_id(harness, run_id)
        told = f"resuming run {options.run}"
        with _interruptible(harness, run_id, options), prints_aside(options), Progress(told) as progress:
            waiting = _tells(progress, harness, run_id)
            result = harness.resume(run_id, wait=not no_wait, waiting=waiting)
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
    if isinstance(result.error, JumarError):
        explain(result.error, options)
    elif result.error is not None:
        click.echo(users_traceback(result.error), err=True)
    report(harness, result, options)
    return exit_code(result.status, result.wake_at)


@contextmanager
def _interruptible(harness: Harness, run_id: str, options: Options) -> Iterator[None]:
    """Turn Ctrl-C, SIGTERM, and an agent that ends the process, into an error that says how to go on with the run."""
    terminated = threading.Event()
    try:
        with _sigterm_as_ctrl_c(terminated):
            yield
    except KeyboardInterrupt:
        kind = Terminated if terminated.is_set() else Interrupted
        raise _interrupted(is_there(harness, run_id), options, kind) from None
    except Exception:
        raise
    except BaseException as error:  # SystemExit, or a cancellation that is nobody's
        go_on = f"Take it out of the agent, then go on with `{_resume(options, run_id)}`."
        raise AgentLeft(f"the agent of run {options.run} left by {type(error).__name__}", hint=go_on) from error


@contextmanager
def _sigterm_as_ctrl_c(terminated: threading.Event) -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does, to whoever handles that at the moment, and leave a mark that it was SIGTERM."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        terminated.set()
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # shells start background jobs with Ctrl-C ignored
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _resume(options: Options, run_id: str) -> str:
    return options.command("resume", options.run or run_id)


def _interrupted(run: RunInfo | None, options: Options, kind: type[Interrupted]) -> Interrupted:
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
