"""What was promised beside what was counted outside, when every process has ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from jumar.demo.counts import Counts
from jumar.demo.piece import SEARCHES, Piece, Promise, Takeover, Tally
from jumar.harness.results import RunView


@dataclass(frozen=True)
class DemoResult:
    """How the demonstration went.

    `store` is a store's address, `seconds` what all of it took, `view` the run as Jumar has it.
    """

    piece: Piece
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
        return len(self.piece.again("decision", self.takeovers))

    @property
    def searched_again(self) -> int:
        """How many searches were cut off before they were recorded."""
        return len(self.piece.again("search", self.takeovers))

    @property
    def promises(self) -> tuple[Promise, ...]:
        """The rows of the table."""
        seconds = ", ".join(f"{takeover.seconds:.1f} s" for takeover in self.takeovers)
        return self.piece.promises(Tally(self.counts, self.interrupted, self.searched_again, seconds))

    @property
    def problems(self) -> tuple[str, ...]:
        """What went otherwise than promised, in sentences."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        if self.status != "COMPLETED":
            yield f"The run is {self.status}, not COMPLETED."
        for row in self.promises:
            if not row.kept:
                yield f"{row.what}: promised {row.promised}, counted {row.counted}."
        yield from self._repeated()
        moments = len(self.piece.moments)
        if len(self.takeovers) != moments:
            yield f"{len(self.takeovers)} processes took the run over, not {moments}."
        for takeover in self.takeovers:
            if takeover.signal != "SIGKILL":
                yield f"Process {takeover.killed} was ended by {takeover.signal}, not SIGKILL."
        for tool, state, promised in self.piece.recorded:
            recorded = self.recorded(tool, state)
            if recorded != promised:
                yield f"{tool} is recorded {recorded} times as {state}, not {promised}."
        ordered = self.view.output.get("order") if isinstance(self.view.output, dict) else None
        if self.counts.numbers != (ordered,):
            yield f"The report names order {ordered}; the service has {', '.join(self.counts.numbers) or 'none'}."

    def _repeated(self) -> Iterator[str]:
        """What was done more than once, but for what a process was killed in."""
        counts = self.counts
        for what, seen in (("search", counts.searches), ("decision", counts.decisions), ("verdict", counts.verdicts)):
            again = self.piece.again(what, self.takeovers)
            for detail, times in seen.items():
                if times > 1 + again.count(detail):
                    yield f"{what} {detail!r} was made {times} times."

    def recorded(self, tool: str, state: str = "SUCCEEDED") -> int:
        """How many calls of a tool, or decisions of a model's, the run holds in a state."""
        return sum(call.tool == tool and call.state == state for call in self.view.calls)

    def to_json(self) -> dict[str, Any]:
        """The figures for a program."""
        counts = self.counts
        decisions = sum(call.kind == "decision" and call.state == "SUCCEEDED" for call in self.view.calls)
        return {
            "ok": self.ok,
            "problems": list(self.problems),
            "run_id": self.run_id,
            "status": self.status,
            "store": self.store,
            "directory": self.directory,
            "seconds": round(self.seconds, 2),
            "searches": {
                "promised": SEARCHES + self.searched_again,
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
                "promised": self.piece.decisions + self.interrupted,
                "recorded": decisions,
                "counted": counts.decisions.total(),
                "interrupted": self.interrupted,
            },
            "promises": [asdict(row) | {"kept": row.kept} for row in self.promises],
            "takeovers": [asdict(takeover) | {"seconds": round(takeover.seconds, 2)} for takeover in self.takeovers],
            "output": self.view.output,
        }
