"""What was promised beside what was counted outside, when every process has ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from jumar.demo.counts import Counts
from jumar.demo.piece import Act, Piece, Promise, Takeover, Tally
from jumar.harness.results import RunView


@dataclass(frozen=True)
class FilesThen:
    """A line about the files: what was seen of each path, and whether that is as promised (None: nothing is)."""

    when: str
    seen: dict[str, str]
    shown: tuple[str, ...]
    kept: bool | None
    note: str


@dataclass(frozen=True)
class ActResult:
    """How one act went; `view` is its run as Jumar has it."""

    act: Act
    run_id: str
    status: str
    counts: Counts
    takeovers: tuple[Takeover, ...]
    view: RunView

    @property
    def interrupted(self) -> int:
        """How many decisions were cut off before they were recorded."""
        return len(self.act.again("decision", self.takeovers))

    @property
    def searched_again(self) -> int:
        """How many searches were cut off before they were recorded."""
        return len(self.act.again("search", self.takeovers))

    @property
    def promises(self) -> tuple[Promise, ...]:
        """The rows of the table."""
        seconds = ", ".join(f"{takeover.seconds:.1f} s" for takeover in self.takeovers)
        return self.act.promises(Tally(self.counts, self.interrupted, self.searched_again, seconds))

    @property
    def files(self) -> tuple[FilesThen, ...]:
        """The rows of the table about files."""
        return tuple(self._files())

    def _files(self) -> Iterator[FilesThen]:
        paths = [path for _, path in self.act.paths]
        for state in self.act.states:
            look = self.counts.look(state.when, state.number)
            if look is None:
                yield FilesThen(state.label, {}, ("not seen",), False, "")
                continue
            kept = None if state.holds is None else state.holds(look, self.counts)
            seen, shown = {path: look.at(path) for path in paths}, tuple(map(look.short, paths))
            yield FilesThen(state.label, seen, shown, kept, state.note)

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
        for files in self.files:
            if files.kept is False:
                yield f"The files are not as promised, {files.when}: {', '.join(files.shown)}."
        yield from self._repeated()
        moments = len(self.act.moments)
        if len(self.takeovers) != moments:
            yield f"{len(self.takeovers)} processes took the run over, not {moments}."
        for takeover in self.takeovers:
            if takeover.signal != "SIGKILL":
                yield f"Process {takeover.killed} was ended by {takeover.signal}, not SIGKILL."
        for tool, state, promised in self.act.recorded:
            recorded = self.recorded(tool, state)
            if recorded != promised:
                yield f"{tool} is recorded {recorded} times as {state}, not {promised}."
        yield from self.act.doubts(self.view.output, self.counts)

    def _repeated(self) -> Iterator[str]:
        """What was done more than once, but for what a process was killed in."""
        counts = self.counts
        for what, seen in (("search", counts.searches), ("decision", counts.decisions), ("verdict", counts.verdicts)):
            again = self.act.again(what, self.takeovers)
            for detail, times in seen.items():
                if times > 1 + again.count(detail):
                    yield f"{what} {detail!r} was made {times} times."

    def recorded(self, tool: str, state: str = "SUCCEEDED") -> int:
        """How many calls of a tool, or decisions of a model's, the run holds in a state."""
        return sum(call.tool == tool and call.state == state for call in self.view.calls)

    def to_json(self) -> dict[str, Any]:
        """The figures for a program, but for those that only one act has."""
        counts = self.counts
        decisions = sum(call.kind == "decision" and call.state == "SUCCEEDED" for call in self.view.calls)
        return {
            "run_id": self.run_id,
            "status": self.status,
            "searches": {
                "promised": self.act.searches + self.searched_again,
                "recorded": self.recorded("search"),
                "counted": counts.searches.total(),
                "most_for_one": max(counts.searches.values(), default=0),
            },
            "decisions": {
                "promised": self.act.decisions + self.interrupted,
                "recorded": decisions,
                "counted": counts.decisions.total(),
                "interrupted": self.interrupted,
            },
            "promises": [asdict(row) | {"kept": row.kept} for row in self.promises],
            "takeovers": [asdict(takeover) | {"seconds": round(takeover.seconds, 2)} for takeover in self.takeovers],
            "output": self.view.output,
        }


@dataclass(frozen=True)
class DemoResult:
    """How the demonstration went: `store` is a store's address, `seconds` what all of it took."""

    piece: Piece
    store: str
    directory: str
    seconds: float
    acts: tuple[ActResult, ...]

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.problems

    @property
    def problems(self) -> tuple[str, ...]:
        """What went otherwise than promised, in sentences."""
        return tuple(problem for act in self.acts for problem in act.problems)

    def to_json(self) -> dict[str, Any]:
        """The figures for a program: those of the first act, and the second's below `fix`."""
        first, second = self.acts
        counts = first.counts
        effects = {
            "promised": 1,
            "recorded": first.recorded("order_repair"),
            "counted": counts.orders.total(),
            "questions": counts.questions,
        }
        whole = {
            "ok": self.ok,
            "problems": list(self.problems),
            "store": self.store,
            "directory": self.directory,
            "seconds": round(self.seconds, 2),
        }
        files = [{"when": row.when, "seen": row.seen, "kept": row.kept, "note": row.note} for row in second.files]
        return whole | first.to_json() | {"effects": effects, "fix": second.to_json() | {"files": files}}
