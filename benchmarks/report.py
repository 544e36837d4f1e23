"""The figures as a table for a terminal, as one in markdown, or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import Figure

_WIDTH = 160  # columns where the output goes to a file

BEGIN, END = "<!-- measured -->", "<!-- end -->"

HEADS = ("what", "at most", "measured", "quartiles", "floor us", "Jumar us", "verdict")


def show(figures: list[Figure], facts: dict[str, str]) -> None:
    """Print the table, the notes and the machine's facts."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    table = Table(title="Jumar beside its floor", title_justify="left")
    for number, head in enumerate(HEADS):
        table.add_column(head, justify="left" if number in (0, len(HEADS) - 1) else "right", overflow="fold")
    for figure in figures:
        colour = "green" if figure.is_met else "red"
        *cells, verdict = _cells(figure)
        table.add_row(*cells, f"[{colour}]{verdict}[/]")
    console.print(table)
    for note in _notes(figures):
        console.print(f"- {note}", markup=False, highlight=False)
    console.print(_told(facts), markup=False, highlight=False)


def markdown(figures: list[Figure], facts: dict[str, str]) -> str:
    """The same as text for a page of documentation."""
    lines = [_row(HEADS), _row(["---", *["---:"] * (len(HEADS) - 2), "---"])]
    lines += [_row(_cells(figure)) for figure in figures]
    lines += ["", *(f"- {note}" for note in _notes(figures)), "", _told(facts)]
    return "\n".join(lines)


def put_into(page: Path, text: str) -> None:
    """Replace what a page has between its two marks."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} does not have the marks {BEGIN} and {END}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def as_json(figures: list[Figure], facts: dict[str, str]) -> str:
    """The same for a program."""
    return json.dumps({"figures": [_dict(figure) for figure in figures], "machine": facts}, indent=2)


def _cells(figure: Figure) -> list[str]:
    spread = "" if figure.spread is None else " to ".join(_amount(value, figure.unit) for value in figure.spread)
    return [
        figure.what,
        "" if figure.budget is None else _amount(figure.budget, figure.unit),
        "not measured" if figure.measured is None else _amount(figure.measured, figure.unit),
        spread,
        _us(figure.floor_us),
        _us(figure.jumar_us),
        figure.verdict,
    ]


def _amount(value: float, unit: str) -> str:
    if unit == "x":
        return f"{value:.2f}x"
    return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"


def _us(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _notes(figures: list[Figure]) -> list[str]:
    return [f"{figure.what}: {note}" for figure in figures for note in figure.notes]


def _told(facts: dict[str, str]) -> str:
    return "Machine: " + "; ".join(f"{name} {value}" for name, value in facts.items()) + "."


def _row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def _dict(figure: Figure) -> dict[str, Any]:
    return {
        "row": figure.row,
        "what": figure.what,
        "unit": figure.unit,
        "budget": figure.budget,
        "measured": figure.measured,
        "spread": figure.spread,
        "floor_us": figure.floor_us,
        "jumar_us": figure.jumar_us,
        "met": figure.is_met,
        "verdict": figure.verdict,
        "notes": figure.notes,
    }
