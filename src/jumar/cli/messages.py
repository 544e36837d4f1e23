"""How errors are told: what happened, what is safe now, what to do next; and the same as JSON for programs."""

from __future__ import annotations

import difflib
import re
import textwrap
from typing import Any

import click

from jumar.cli.options import Options
from jumar.errors import JumarError, UsageError

_COMMAND = re.compile(r"`jumar (show|resume) RUN`")
_LABELS = ("what happened", "safe now", "next")
_STYLES = ("bold red", "green", "cyan")


def write_json(value: Any) -> None:
    """One JSON document on standard output, in UTF-8 whatever the terminal's encoding."""
    import msgspec

    data = msgspec.json.format(msgspec.json.encode(value), indent=2)
    click.echo(data + b"\n", nl=False)


def tell(error: JumarError, options: Options) -> None:
    """Print an error on standard error, and with `--json` as an object on standard output."""
    hint = with_run(error.hint, options)
    if options.json:
        write_json({"error": {"code": error.code, "what": error.what, "safe": error.safe, "hint": hint}})
    print_three(error.what, error.safe, hint)


def with_run(hint: str, options: Options) -> str:
    """The hint with the run's id in place of RUN, and the flags that lead to it, where the run is known."""
    run = options.run
    if run is None:
        return hint
    return _COMMAND.sub(lambda found: f"`{options.command(found[1], run, app=found[1] == 'resume')}`", hint)


def print_three(what: str, safe: str, hint: str) -> None:
    """The three parts of a message, aligned; wrapped on a terminal only, so that a log keeps whole lines."""
    from rich.text import Text

    from jumar.cli.screen import err

    screen = err()
    indent = max(map(len, _LABELS)) + 2
    for label, style, text in zip(_LABELS, _STYLES, (what, safe, hint), strict=True):
        lines = [screen.clean(line) for line in text.splitlines()] or [""]
        if screen.is_terminal:
            lines = [part for line in lines for part in _wrapped(line, screen.width - indent)]
        for number, line in enumerate(lines):
            line_label = label if number == 0 else ""
            screen.print(Text.assemble((line_label.ljust(indent), style), line))


def _wrapped(line: str, width: int) -> list[str]:
    start = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(line, width, subsequent_indent=start, break_on_hyphens=False, break_long_words=False) or [""]


def as_usage_error(error: click.ClickException) -> UsageError:
    """What click found wrong with the command line, in our three parts."""
    what = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = "jumar" if context is None else context.command_path
    return UsageError(what, hint=f"`{command} --help` shows how it is used.")


def unknown_command(name: str, known: list[str], path: str) -> UsageError:
    """The error for a command that is not there, with the nearest one that is."""
    close = difflib.get_close_matches(name, known, 1)
    first = f"Did you mean `{path} {close[0]}`? " if close else ""
    return UsageError(f"there is no command `{path} {name}`", hint=f"{first}The commands are {', '.join(known)}.")
