"""Labelled lines, and the block that says why a run stands still and what to type next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumar.cli.screen import Screen

STATUS_STYLES = {
    "QUEUED": "cyan",
    "RUNNING": "blue",
    "WAITING": "yellow",
    "PAUSED": "magenta",
    "FAILED": "red",
    "COMPLETED": "green",
    "CANCELLED": "magenta",
}
INDENT = 9
_LONGEST_FACT = 2000  # characters; a person must see what he is asked about, but not a book


@dataclass(frozen=True)
class NextStep:
    """One sentence on why the run stands still, what is known about it, and the commands that move it, each with what
    it says.
    """

    reason: str
    commands: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def commands_of(steps: list[NextStep]) -> list[str]:
    """The commands alone, for a program."""
    return [command for step in steps for _, command in step.commands]


def line(screen: Screen, label: str, text: Any) -> None:
    """One labelled line."""
    from rich.text import Text

    screen.print(Text.assemble((label.ljust(INDENT), "dim"), text))


def wrapped_line(screen: Screen, label: str, text: str, style: str = "") -> None:
    """A labelled text that goes on under itself where it is longer than a terminal's line."""
    from rich.text import Text

    for number, part in enumerate(screen.wrapped(screen.clean(text), screen.width - INDENT)):
        line(screen, "" if number else label, Text(part, style))


def print_step(screen: Screen, step: NextStep, label: str = "now") -> None:
    """Why a run stands still, and the commands that move it, one a line so that they can be copied whole."""
    from rich.text import Text

    from jumar.cli.screen import cells

    wrapped_line(screen, label, step.reason, "yellow")
    width = max((cells(screen.clean(name)) for name, _ in (*step.facts, *step.commands)), default=0)
    for name, fact in step.facts:
        shown, is_copied = screen.clean(_bounded(fact)), name == "key"
        for number, part in enumerate(screen.wrapped(shown, screen.width - width - 4, breaks=not is_copied)):
            named = screen.pad("" if number else screen.clean(name), width + 2)
            screen.print(Text.assemble("  ", (named, "dim"), part))
    for says, command in step.commands:
        said = screen.pad(screen.clean(says), width + 2)
        screen.print(Text.assemble("  ", (said, "dim"), (screen.clean(command), "cyan")))


def _bounded(fact: str) -> str:
    if len(fact) <= _LONGEST_FACT:
        return fact
    return f"{fact[:_LONGEST_FACT]} ... ({len(fact):,} characters; --json has all of them)"
