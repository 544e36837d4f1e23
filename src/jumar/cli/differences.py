"""How the files of a run differ between two points: a table with a row a path, and small texts line by line."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from jumar.cli.lines import line
from jumar.cli.tables import Cell, print_table
from jumar.core.comparing import Diff, FileChange, FileState

if TYPE_CHECKING:
    from jumar.cli.screen import Screen

_STYLES = {"added": "green", "deleted": "red", "changed": "yellow", "mode": "cyan", "replaced": "magenta"}
_NO_TEXT = "not compared line by line: it is binary, or too long"


def print_diff(screen: Screen, diff: Diff, *, texts: bool) -> None:
    """Between which points, how many paths differ in which way, and each of them; with `texts`, their lines too."""
    from rich.text import Text

    line(screen, "run", Text(diff.run_id))
    for label, version, name in (("from", diff.a, diff.names[0]), ("to", diff.b, diff.names[1])):
        line(screen, label, Text(screen.clean(name if version is None else f"{version}  {name}")))
    counts = Counter(change.what for change in diff.changes)
    told = ", ".join(f"{counts[what]:,} {_counted(what)}" for what in _STYLES if counts[what])
    line(screen, "files", Text(told or "nothing differs", "" if told else "green"))
    if not diff.complete:
        line(screen, "", Text("a snapshot is partial: what it lacks is not compared", "yellow"))
    if diff.changes:
        screen.print()
        print_table(screen, ("what", "bytes", "mode", "path"), map(_row, diff.changes), right=(1,), cut=False)
    for change in diff.changes if texts else ():
        _print_text(screen, change)


def _counted(what: str) -> str:
    return "with another mode" if what == "mode" else what


def _row(change: FileChange) -> list[Cell]:
    path = change.path
    link = change.after or change.before
    if link is not None and link.kind == "folder":
        path += "/"
    if link is not None and link.target is not None:
        path += f" -> {link.target}"
    style = _STYLES.get(change.what, "")
    return [(change.what, style), (_sizes(change), ""), (_modes(change), "dim"), (path, style)]


def _sizes(change: FileChange) -> str:
    return _sides(*(None if side is None or side.kind != "file" else f"{side.size:,}" for side in _both(change)))


def _modes(change: FileChange) -> str:
    return _sides(*(None if side is None or side.kind == "link" else f"{side.mode:04o}" for side in _both(change)))


def _both(change: FileChange) -> tuple[FileState | None, FileState | None]:
    return change.before, change.after


def _sides(before: str | None, after: str | None) -> str:
    """`before -> after` where both are there and differ, else the one that is."""
    if before is None or after is None or before == after:
        return before or after or ""
    return f"{before} -> {after}"


def _print_text(screen: Screen, change: FileChange) -> None:
    """The lines of a text that differ, coloured as usual; or why there are none."""
    kinds = {side.kind for side in _both(change) if side is not None}
    if change.what == "mode" or kinds != {"file"}:
        return
    screen.print()
    if change.text is None:
        screen.print(screen.clean(f"{change.path}: {_NO_TEXT}"), "dim")
        return
    for number, each in enumerate(change.text.split("\n")[:-1]):
        screen.print(screen.clean(each), _style(each, number))


def _style(text: str, number: int) -> str:
    if number < 2:
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}.get(text[:1], "")
