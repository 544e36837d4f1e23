"""The restore points of a run, as `show` lists them: what one can go back to, fork from, and compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from jumar.cli.lines import line
from jumar.cli.notes import goes_on_elsewhere
from jumar.cli.tables import Cell, print_table
from jumar.cli.times import ago
from jumar.harness.results import CheckpointView, RunView

if TYPE_CHECKING:
    from jumar.cli.screen import Screen

MOST_POINTS = 10
HEX = 8  # digits of a digest that are shown
_AT_REST = ("PAUSED", "FAILED", "COMPLETED", "CANCELLED")


def print_points(screen: Screen, view: RunView, now: int, go_back: str, *, most: int = MOST_POINTS) -> None:
    """The newest `most` restore points, the newest last; and `go_back`, the command to go back to one, of a run that
    stands still and waits for nothing else.
    """
    if not view.checkpoints:
        return
    shown = view.checkpoints[-most:]
    left = len(view.checkpoints) - len(shown)
    labels = _labels(view)
    titles = ["version", "event", "level", "files", "storage", "kept", "checkpoint"]
    rows = [_row(point, labels.get(point.version, ""), now) for point in shown]
    if not any(point.tree for point in shown):
        titles.pop(3)
        for row in rows:
            row.pop(3)
    screen.print()
    print_table(screen, titles, rows, right=(0,))
    if left:
        screen.print(f"{left:,} more before these", "dim")
    at_rest = view.run.status in _AT_REST and not goes_on_elsewhere(view.run)
    if at_rest and any(not point.left_behind for point in shown):
        line(screen, "go back", Text(go_back, "cyan"))


def _row(point: CheckpointView, label: str, now: int) -> list[Cell]:
    """One restore point; dimmed where a rollback has left it behind."""
    dim = "dim" if point.left_behind else ""
    name = f'"{label}"  {point.name}' if label else point.name
    references = f"  {' '.join(point.refs)}" if point.refs else ""
    behind = "left behind: " if point.left_behind else ""
    return [
        (str(point.version), dim or "bold"),
        (point.trigger, dim),
        (point.level, dim),
        ((point.tree or "")[:HEX], dim),
        (point.storage, dim),
        (ago(point.created_at, now), "dim"),
        (f"{behind}{name}{references}", dim),
    ]


def _labels(view: RunView) -> dict[int, str]:
    """The names that the agent's code gave its restore points, by their versions."""
    named = [call for call in view.calls if call.kind == "checkpoint" and isinstance(call.args, Mapping)]
    return {call.ended_version: str(call.args.get("name", "")) for call in named if call.ended_version is not None}
