"""What the witnesses saw of one act.

They are three files that Jumar has no part in: one to which the agent's tools and model append a line before they work,
the outside service's own book, and what was seen of the site's files by the process that runs no agent.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.demo.looking import Look, looks_in


@dataclass(frozen=True)
class Counts:
    """Searches, decisions, verdicts, writings and briefs by what they were about; processes at work; from the
    service's book the orders by their keys, with numbers and places, and the numbers it answered questions with; and
    the looks at the files, in order.
    """

    searches: Counter[str]
    decisions: Counter[str]
    verdicts: Counter[str]
    writings: Counter[str]
    briefs: tuple[str, ...]
    processes: int
    orders: Counter[str]
    numbers: tuple[str, ...]
    places: tuple[str, ...]
    answers: tuple[str | None, ...]
    looks: tuple[Look, ...]

    @property
    def questions(self) -> int:
        """How often the service was asked about an order."""
        return len(self.answers)

    def look(self, when: str, number: int = 1) -> Look | None:
        """The look of this name, or the so manieth of it; None where there is none."""
        found = [look for look in self.looks if look.when == when]
        return found[number - 1] if len(found) >= number else None


def count(witness: Path, book: Path, looks: Path) -> Counts:
    """Read what the witnesses wrote."""
    seen, entries = lines_of(witness), lines_of(book)
    orders = [entry for entry in entries if entry["what"] == "order"]
    return Counts(
        searches=_by_detail(seen, "search"),
        decisions=_by_detail(seen, "decision"),
        verdicts=_by_detail(seen, "verdict"),
        writings=_by_detail(seen, "writing"),
        briefs=tuple(line["detail"] for line in seen if line["what"] == "brief"),
        processes=len({line["pid"] for line in seen}),
        orders=Counter(order["key"] for order in orders),
        numbers=tuple(order["number"] for order in orders),
        places=tuple(order["place"] for order in orders),
        answers=tuple(entry["number"] for entry in entries if entry["what"] == "question"),
        looks=looks_in(lines_of(looks)),
    )


def _by_detail(seen: list[dict[str, Any]], what: str) -> Counter[str]:
    return Counter(line["detail"] for line in seen if line["what"] == what)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines; empty where there is none."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
