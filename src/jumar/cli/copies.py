"""What `store copy` says of what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.harness.copying import CopyReport, Fate

if TYPE_CHECKING:
    from jumar.cli.screen import Screen

_ADVICE = {
    Fate.BUSY: "busy: stop what drives them, or wait until their leases run out, and give the same command again.",
    Fate.CONFLICT: "conflict: both runs stay as they are; look at each (`jumar show RUN --store ADDRESS`).",
    Fate.DAMAGED: "damaged: `jumar doctor --store ADDRESS` names the rows, and says what recovery would use.",
}


def read_report(report: CopyReport) -> dict[str, Any]:
    """The report for a program."""
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(report)
    return told


def print_report(screen: Screen, report: CopyReport) -> None:
    """The counts, then a line for each run that was left where it is."""
    from rich.text import Text

    from jumar.cli.lines import line, wrapped_line
    from jumar.cli.tables import Cell, print_table

    wrapped_line(screen, "from", report.source)
    wrapped_line(screen, "to", report.target)
    for label, count, what in (
        ("copied", report.copied, "ended"),
        ("moved", report.moved, "to go on there, and no more here"),
        ("there", report.there, "there before, the very same"),
        ("gone", report.elsewhere, "moved away before"),
    ):
        if count or label in ("copied", "moved"):
            line(screen, label, Text(f"{_runs(count)}, {what}" if count else _runs(0)))
    if report.snapshots:
        line(screen, "files", Text(f"{report.snapshots:,} snapshot{'' if report.snapshots == 1 else 's'}"))
    told = (*report.left, *report.lost)
    if not told:
        return
    if report.left:
        line(screen, "left", Text(_runs(len(report.left)), "bold yellow"))
    screen.print()
    rows: list[list[Cell]] = [
        [
            (move.run_id[-8:], "bold"),
            (move.fate.value, "red" if move.fate is Fate.DAMAGED else "yellow"),
            (move.why, ""),
        ]
        for move in told
    ]
    print_table(screen, ("run", "what", "why"), rows)
    screen.print()
    for fate in dict.fromkeys(move.fate for move in told):
        for part in screen.wrapped(screen.clean(_ADVICE[fate]), screen.width):
            screen.print(part)


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"
