"""What `doctor` found, and what recovery would use where something is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.core.store import Finding
from jumar.errors import IntegrityError
from jumar.harness.harness import Harness
from jumar.harness.results import Mending, Report
from jumar.stores.opening import shown_address

if TYPE_CHECKING:
    from jumar.cli.options import Options
    from jumar.cli.screen import Screen

_DATABASE = "database"


def examined(harness: Harness) -> Report:
    """The store's report; a database too damaged to be opened is a finding too."""
    try:
        return harness.doctor()
    except IntegrityError as error:
        return Report(shown_address(harness.address), 0, 0, 0, 0, 0, (Finding(_DATABASE, error.what),))


def recovery(options: Options, report: Report) -> list[str]:
    """For each damaged run, what going on with it would use; for a damaged database, what is left to do."""
    advice = []
    if any(finding.where == _DATABASE for finding in report.findings):
        advice.append(
            "The database itself is damaged: stop what uses it, and put a sound copy of the file in its place."
        )
    if any(finding.where.startswith("files") for finding in report.findings):
        advice.append("The files kept for the runs are damaged: what is named here cannot be put back; the rest can.")
    return advice + [f"Run {each.run_id[-8:]}: {_typed_out(options, each)}" for each in report.mendings]


def _typed_out(options: Options, mending: Mending) -> str:
    """The advice with its command as it is to be typed."""
    if mending.command is None:
        return mending.advice
    command = options.command("rollback", mending.run_id[-8:], "--to", str(mending.version))
    return mending.advice.replace(mending.command, command)


def print_health(screen: Screen, report: Report, advice: list[str]) -> None:
    """What was looked at, what was found, and what recovery would use."""
    from rich.text import Text

    from jumar.cli.lines import line
    from jumar.cli.tables import Cell, print_table

    schema = f", schema {report.schema}" if report.schema else ", which cannot be opened"
    line(screen, "store", Text(screen.clean(report.store + schema)))
    counts = [
        (report.runs, "run"),
        (report.calls, "call"),
        (report.checkpoints, "checkpoint"),
        (report.artifacts, "artifact"),
    ]
    if report.objects is not None:
        counts += [(report.contents, "content"), (report.folders, "folder"), (report.snapshots, "snapshot")]
    line(screen, "checked", Text(", ".join(f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counts)))
    if report.sound:
        line(screen, "found", Text("nothing wrong", "green"))
        return
    number = len(report.findings)
    line(screen, "found", Text(f"{number} thing{'' if number == 1 else 's'} wrong", "bold red"))
    screen.print()
    rows: list[list[Cell]] = [
        [((finding.run_id or "")[-8:], "bold"), (finding.where, ""), (finding.what, "red")]
        for finding in report.findings
    ]
    print_table(screen, ("run", "where", "what"), rows, cut=False)  # a file's name may stand in it
    screen.print()
    screen.print("What recovery would use", "dim")
    for sentence in advice:
        for part in screen.wrapped(screen.clean(sentence), screen.width):
            screen.print(part)
