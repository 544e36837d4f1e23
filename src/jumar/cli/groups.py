"""Groups of commands that answer an unknown name with the names they know."""

from __future__ import annotations

import difflib

import click

from jumar.errors import UsageError


class Commands(click.Group):
    """Lists its commands in the order they were added, and names the nearest one where it is asked for another."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in their own order."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is asked for; UsageError where there is none of this name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise _unknown(name, list(self.commands), ctx.command_path)
        return super().resolve_command(ctx, args)


def _unknown(name: str, known: list[str], path: str) -> UsageError:
    close = difflib.get_close_matches(name, known, 1)
    first = f"Did you mean `{path} {close[0]}`? " if close else ""
    return UsageError(f"there is no command `{path} {name}`", hint=f"{first}The commands are {', '.join(known)}.")
