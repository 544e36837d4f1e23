"""What the witnesses saw.

They are two files that Jumar has no part in: one to which the agent's tools and model append a line before they work,
and the outside service's own book.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Counts:
    """Searches, decisions and verdicts by what they were about; processes at work; and from the service's book the
    orders by their keys, with numbers and places, and the numbers it answered questions with.
    """

    searches: Counter[str]
    decisions: Counter[str]
    verdicts: Counter[str]
    processes: int
    orders: Counter[str]
    numbers: tuple[str, ...]
    places: tuple[str, ...]
    answers: tuple[str | None, ...]

    @property
    def questions(self) -> int:
        """How often the service was asked about an order."""
        return len(self.answers)


def count(witness: Path, book: Path) -> Counts:
    """Read what the witnesses wrote."""
    seen, entries = lines_of(witness), lines_of(book)
    orders = [entry for entry in entries if entry["what"] == "order"]
    return Counts(
        searches=_by_detail(seen, "search"),
        decisions=_by_detail(seen, "decision"),
        verdicts=_by_detail(seen, "verdict"),
        processes=len({line["pid"] for line in seen}),
        orders=Counter(order["key"] for order in orders),
        numbers=tuple(order["number"] for order in orders),
        places=tuple(order["place"] for order in orders),
        answers=tuple(entry["number"] for entry in entries if entry["what"] == "question"),
    )


def _by_detail(seen: list[dict[str, Any]], what: str) -> Counter[str]:
    return Counter(line["detail"] for line in seen if line["what"] == what)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines; empty where there is none."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
