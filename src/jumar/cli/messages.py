"""How errors are told: what happened, what is safe now, what to do next; and the same as JSON for programs."""

from __future__ import annotations

import re
from typing import Any

import click

from jumar.cli import exits
from jumar.cli.options import Options
from jumar.errors import JumarError, RestoreFailed, UsageError, WorkspaceConflict

_COMMAND = re.compile(
    r"`jumar (show|resume|cancel|pause|runs|requests|doctor|rollback|fork)((?: RUN)?(?: [-A-Za-z0-9]+)*)`"
)
_OF_CODE = ("resume", "rollback")  # which need the app
_LABELS = ("what happened", "safe now", "next")
_STYLES = ("bold red", "green", "cyan")


class Interrupted(JumarError):
    """Ctrl-C ended the command."""

    code = "interrupted"
    exit_code = exits.INTERRUPTED
    default_hint = "Type the command again."


class Terminated(Interrupted):
    """SIGTERM ended the command."""

    code = "terminated"
    exit_code = exits.TERMINATED


class AgentLeft(JumarError):
    """The agent ended the process itself, as `sys.exit()` does."""

    code = "agent-left"
    exit_code = exits.REFUSED


def write_json(value: Any) -> None:
    """One JSON document on standard output, in UTF-8 whatever the terminal's encoding."""
    import msgspec

    data = msgspec.json.format(msgspec.json.encode(value), indent=2)
    click.echo(data + b"\n", nl=False)


def tell(error: JumarError, options: Options, what: str | None = None) -> None:
    """Print an error on standard error, and with `--json` as an object on standard output.

    `what` is said on standard error instead of the error's own, where a part of that stands there already.
    """
    hint = _typed_out(error.hint, options)
    if options.json:
        told: dict[str, Any] = {"code": error.code, "what": error.what, "safe": error.safe, "hint": hint}
        if isinstance(error, (WorkspaceConflict, RestoreFailed)):
            told["paths"] = error.paths
        write_json({"error": told})
    print_three(what or error.what, error.safe, hint)


def explain(error: JumarError, options: Options) -> None:
    """Print on standard error alone what an error says, where standard output tells of the run."""
    print_three(error.what, error.safe, _typed_out(error.hint, options))


def _typed_out(hint: str, options: Options) -> str:
    """The hint with its commands as they are to be typed: the run's id for RUN where it is known, and the flags."""

    def typed(found: re.Match[str]) -> str:
        words = [(options.run or word) if word == "RUN" else word for word in found[2].split()]
        return f"`{options.command(found[1], *words, app=found[1] in _OF_CODE)}`"

    return _COMMAND.sub(typed, hint)


def print_three(what: str, safe: str, hint: str) -> None:
    """The three parts of a message, aligned; wrapped on a terminal only, so that a log keeps whole lines."""
    from rich.text import Text

    from jumar.cli.screen import err

    screen = err()
    indent = max(map(len, _LABELS)) + 2
    for label, style, text in zip(_LABELS, _STYLES, (what, safe, hint), strict=True):
        lines = [screen.clean(line) for line in text.splitlines()] or [""]
        lines = [part for line in lines for part in screen.wrapped(line, screen.width - indent)]
        for number, line in enumerate(lines):
            line_label = label if number == 0 else ""
            screen.print(Text.assemble((line_label.ljust(indent), style), line))


def as_usage_error(error: click.ClickException) -> UsageError:
    """What click found wrong with the command line, in our three parts."""
    what = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = "jumar" if context is None else context.command_path
    return UsageError(what, hint=f"`{command} --help` shows how it is used.")
