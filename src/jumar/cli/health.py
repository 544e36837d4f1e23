"""What `doctor` found, and what recovery would use where something is damaged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jumar.core.store import Finding
from jumar.errors import IntegrityError, JumarError
from jumar.harness.harness import Harness
from jumar.harness.results import Report

if TYPE_CHECKING:
    from jumar.cli.screen import Screen

_DATABASE = "database"


def examined(harness: Harness) -> Report:
    """The store's report; a database too damaged to be opened is a finding too."""
    try:
        return harness.doctor()
    except IntegrityError as error:
        return Report(harness.address, 0, 0, 0, 0, 0, (Finding(_DATABASE, error.what),))


def recovery(harness: Harness, report: Report) -> list[str]:
    """For each damaged run, what going on with it would use; for a damaged database, what is left to do."""
    advice = []
    if any(finding.where == _DATABASE for finding in report.findings):
        advice.append(
            "The database itself is damaged: stop what uses it, and put a sound copy of the file in its place."
        )
    damaged = dict.fromkeys(finding.run_id for finding in report.findings if finding.run_id is not None)
    for run_id in damaged:
        wheres = [finding.where for finding in report.findings if finding.run_id == run_id]
        advice.append(f"Run {run_id[-8:]}: {_advice_for(harness, run_id, wheres)}")
    return advice


def _advice_for(harness: Harness, run_id: str, wheres: list[str]) -> str:
    if "run" in wheres:
        return "its own row is damaged, so it cannot be taken up again; its calls are kept as they are."
    if all(where.startswith("checkpoint ") for where in wheres):
        return f"its calls are sound, and resume goes on from them. {_newest_checkpoint(harness, run_id, wheres)}"
    rest = ", ".join(where for where in wheres if not where.startswith("checkpoint "))
    return f"resume answers what is sound from the record, and stops with an error where it needs {rest}."


def _newest_checkpoint(harness: Harness, run_id: str, wheres: Iterable[str]) -> str:
    damaged = set(wheres)
    try:
        checkpoints = harness.show(run_id).checkpoints
    except JumarError:
        return ""
    sound = [point for point in checkpoints if f"checkpoint {point.version}" not in damaged]
    if not sound:
        return "It has no sound checkpoint left."
    return f"Its newest sound checkpoint is {sound[-1].version}, {sound[-1].name}."


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
    print_table(screen, ("run", "where", "what"), rows)
    screen.print()
    screen.print("What recovery would use", "dim")
    for sentence in advice:
        for part in screen.wrapped(screen.clean(sentence), screen.width):
            screen.print(part)
