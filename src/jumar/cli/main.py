"""The group of all commands, and the way from an error to what is printed and to the exit code."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from jumar import __version__
from jumar.cli import exits
from jumar.cli.apps import ImportRaised
from jumar.cli.commands.answering import answer, approve, reject, resolve
from jumar.cli.commands.comparing import diff
from jumar.cli.commands.demo import demo
from jumar.cli.commands.driving import resume, run
from jumar.cli.commands.looking import brief, requests, runs, show, trace
from jumar.cli.commands.recovering import fork, rollback
from jumar.cli.commands.steering import cancel, pause
from jumar.cli.commands.storing import doctor, store
from jumar.cli.commands.working import worker
from jumar.cli.groups import Commands
from jumar.cli.messages import Interrupted, as_usage_error, tell
from jumar.cli.options import Options, with_app, with_config, with_store
from jumar.errors import JumarError

_EPILOG = (
    "RUN is a run's id, a unique end of one, or `last`. CALL reads like scan#2.search.1.\n\n"
    "\b\n"
    "Exit codes:\n"
    "  0  done                        4  refused (lease, version, conflict)\n"
    "  1  the run failed              5  damaged data\n"
    "  2  wrong usage                 6  waits for a time or another run\n"
    "  3  waits for a person          7  paused or cancelled\n"
    "Ctrl-C ends with 130, SIGTERM with 143; both leave the run to be resumed."
)


_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=Commands, epilog=_EPILOG, context_settings=_SETTINGS)
@with_store
@with_app
@with_config
@click.version_option(__version__, message="jumar %(version)s")
def cli() -> None:
    """Run AI agents that survive crashes, and see, answer and resume their runs."""


for _command in (
    *(demo, run, resume, worker),
    *(runs, requests, show, trace, brief, diff),
    *(approve, reject, answer, resolve),
    *(pause, cancel, rollback, fork),
    *(doctor, store),
):
    cli.add_command(_command)


def main(args: list[str] | None = None) -> int:
    """Carry out one command line; answers its exit code."""
    words = sys.argv[1:] if args is None else args
    if "_JUMAR_COMPLETE" in os.environ:  # a shell asks for completions
        cli.main(words, prog_name="jumar")
    options = Options()
    try:
        code = _invoke(words, options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _pipe_closed()


def _invoke(words: list[str], options: Options) -> int:
    try:
        with cli.make_context("jumar", list(words), obj=options) as context:
            code: Any = cli.invoke(context)
            return int(code or 0)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return exits.USAGE
    except click.ClickException as error:
        return _failed(as_usage_error(error), words, options)
    except JumarError as error:
        return _failed(error, words, options)
    except (KeyboardInterrupt, click.Abort):
        return _failed(Interrupted("interrupted"), words, options)


def _failed(error: JumarError, words: list[str], options: Options) -> int:
    # Where the command line itself was wrong, its `--json` may not have been read yet.
    options.json = options.json or "--json" in words
    short = None
    if isinstance(error, ImportRaised):
        click.echo(error.trace, err=True)
        short = error.short  # the traceback ends in what was said
    tell(error, options, short)
    return error.exit_code


def _pipe_closed() -> int:
    """Whoever read our output has gone: end quietly, and keep the interpreter from flushing into the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exits.PIPE_CLOSED
