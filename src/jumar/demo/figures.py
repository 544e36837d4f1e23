"""What was promised beside what was counted outside.

The witnesses are two files that Jumar has no part in: one to which the agent's tools and model append a line before
they work, and the outside service's own book. They are read only here, when every process has ended.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jumar.harness.results import RunView

SEARCHES = 4
DECISIONS = 2

# The moments at which a process is killed, in the order of the run.
MOMENTS = {
    "searched": "just after its search results were recorded",
    "ordered": "after the order went out, before that was recorded",
    "advising": "while it waits for the model's answer",
}


@dataclass(frozen=True)
class Takeover:
    """A process was killed at a moment, and another went on `seconds` later, as a clock outside of both saw it."""

    moment: str
    killed: int
    signal: str
    successor: int
    seconds: float


@dataclass(frozen=True)
class Promise:
    """How often something was to be done, and how often the witness saw it done."""

    what: str
    promised: int
    counted: int
    note: str = ""

    @property
    def kept(self) -> bool:
        """Whether the two agree."""
        return self.promised == self.counted


@dataclass(frozen=True)
class Counts:
    """What the witnesses saw: searches and decisions by name, processes at work, orders by key, questions about one."""

    searches: Counter[str]
    decisions: Counter[str]
    processes: int
    orders: Counter[str]
    numbers: tuple[str, ...]
    questions: int


@dataclass(frozen=True)
class DemoResult:
    """How the demonstration went.

    `store` is a store's address, `seconds` what all of it took, `view` the run as Jumar has it.
    """

    run_id: str
    status: str
    store: str
    directory: str
    seconds: float
    counts: Counts
    takeovers: tuple[Takeover, ...]
    view: RunView

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems

    @property
    def interrupted(self) -> int:
        """How many decisions were cut off before they were recorded."""
        return sum(takeover.moment == "advising" for takeover in self.takeovers)

    @property
    def promises(self) -> tuple[Promise, ...]:
        """The rows of the table."""
        counts = self.counts
        seconds = ", ".join(f"{takeover.seconds:.1f} s" for takeover in self.takeovers)
        return (
            Promise("searches made", SEARCHES, counts.searches.total(), "each one once, over all processes"),
            Promise("repairs ordered from the service", 1, counts.orders.total()),
            Promise("times the service was asked for it", 1, counts.questions, "it had the order: not sent again"),
            Promise("times the first decision was asked for", 1, counts.decisions["diagnose"]),
            Promise(
                "times the second decision was asked for",
                1 + self.interrupted,
                counts.decisions["advise"],
                "asked twice, because the first answer was never recorded; recorded once",
            ),
            Promise("takeovers by another process", len(MOMENTS), counts.processes - 1, f"{seconds} after the kill"),
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """What went otherwise than promised, in sentences."""
        found = [f"The run is {self.status}, not COMPLETED."] if self.status != "COMPLETED" else []
        found += [
            f"{row.what}: promised {row.promised}, counted {row.counted}." for row in self.promises if not row.kept
        ]
        found += [f"{what!r} was done {times} times." for what, times in self.counts.searches.items() if times > 1]
        if len(self.takeovers) != len(MOMENTS):
            found.append(f"{len(self.takeovers)} processes took the run over, not {len(MOMENTS)}.")
        found += [
            f"Process {takeover.killed} was ended by {takeover.signal}, not SIGKILL."
            for takeover in self.takeovers
            if takeover.signal != "SIGKILL"
        ]
        for tool, promised in (("search", SEARCHES), ("order_repair", 1), ("diagnose", 1), ("advise", 1)):
            recorded = self.recorded(tool)
            if recorded != promised:
                found.append(f"{tool} is recorded {recorded} times, not {promised}.")
        ordered = self.view.output.get("order") if isinstance(self.view.output, dict) else None
        if self.counts.numbers != (ordered,):
            found.append(
                f"The report names order {ordered}; the service has {', '.join(self.counts.numbers) or 'none'}."
            )
        return tuple(found)

    def recorded(self, tool: str) -> int:
        """How many calls of a tool, or decisions of a model's, the run holds as done."""
        return sum(call.tool == tool and call.state == "SUCCEEDED" for call in self.view.calls)

    def to_json(self) -> dict[str, Any]:
        """The figures for a program."""
        counts = self.counts
        decisions = self.recorded("diagnose") + self.recorded("advise")
        return {
            "ok": self.ok,
            "problems": list(self.problems),
            "run_id": self.run_id,
            "status": self.status,
            "store": self.store,
            "directory": self.directory,
            "seconds": round(self.seconds, 2),
            "searches": {
                "promised": SEARCHES,
                "recorded": self.recorded("search"),
                "counted": counts.searches.total(),
                "most_for_one": max(counts.searches.values(), default=0),
            },
            "effects": {
                "promised": 1,
                "recorded": self.recorded("order_repair"),
                "counted": counts.orders.total(),
                "questions": counts.questions,
            },
            "decisions": {
                "promised": DECISIONS + self.interrupted,
                "recorded": decisions,
                "counted": counts.decisions.total(),
                "interrupted": self.interrupted,
            },
            "takeovers": [asdict(takeover) | {"seconds": round(takeover.seconds, 2)} for takeover in self.takeovers],
            "output": self.view.output,
        }


def count(witness: Path, book: Path) -> Counts:
    """Read what the witnesses wrote."""
    seen, entries = lines_of(witness), lines_of(book)
    orders = [entry for entry in entries if entry["what"] == "order"]
    return Counts(
        searches=Counter(line["detail"] for line in seen if line["what"] == "search"),
        decisions=Counter(line["detail"] for line in seen if line["what"] == "decision"),
        processes=len({line["pid"] for line in seen}),
        orders=Counter(order["key"] for order in orders),
        numbers=tuple(order["number"] for order in orders),
        questions=len(entries) - len(orders),
    )


def lines_of(path: Path) -> list[dict[str, Any]]:
    """A file of JSON lines; empty where there is none."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
