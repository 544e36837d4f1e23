"""What can be performed: agents, the moments at which their processes are killed, and what is promised of them.

There are two pieces, `piece_plain` and `piece_loop`, of two acts each; `second_act` is what their second ones have in
common.  Everything else of the demonstration is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar import Harness
from jumar.demo.counts import Counts, count
from jumar.demo.looking import Look

SEARCHES = 4  # how many searches the site's trouble takes
END = "end"  # where nobody is killed any more

Told = tuple[str, str]  # the kind of a beat, and its text


@dataclass(frozen=True)
class Moment:
    """A moment at which a process is killed.

    `told` says when that is.  What is cut off there and has to be done once more is `cut`, in the witness's words: what
    it is, and its detail.  `searches` is how many are to be on record before the process is killed.
    """

    name: str
    told: str
    cut: tuple[str, str] | None = None
    searches: int = 0


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
class Tally:
    """What the rows of the table are made of: what was counted, how many decisions and searches had to be made again,
    and how long the takeovers took.
    """

    counts: Counts
    decisions_again: int
    searches_again: int
    seconds: str


@dataclass(frozen=True)
class State:
    """A line about what the files were in one look, `label` for a person; `note` says what is promised of it.

    The look is the `number`th of those that are called `when`.  `holds` says whether the promise is kept, from that
    look and all that was counted; None where the line promises nothing.
    """

    when: str
    number: int
    label: str
    note: str
    holds: Callable[[Look, Counts], bool] | None = None


@dataclass(frozen=True)
class Act:
    """One agent of the demonstration's, by its name, with all that is special to it.

    `recorded` is how many calls of which tool the run holds in which state at its end.  `seen` is what can be told of
    a moment, or of the end, by those who stand outside, who may look at the run.  `reports` are the lines of what the
    agent reported, with their headings, and `doubts` what is wrong with that, beside what was counted.  `states` are
    the lines about the files `paths`, by their short names.  The witnesses' files begin with `prefix`.
    """

    agent: str
    introduction: str
    searches: int
    decisions: int
    moments: tuple[Moment, ...]
    recorded: tuple[tuple[str, str, int], ...]
    promises: Callable[[Tally], tuple[Promise, ...]]
    seen: Callable[[str, Counts, Harness], list[Told]]
    reports: Callable[[dict[str, Any]], list[tuple[str, str]]]
    doubts: Callable[[Any, Counts], Iterator[str]]
    states: tuple[State, ...] = ()
    paths: tuple[tuple[str, str], ...] = ()
    prefix: str = ""

    def files(self, directory: Path) -> tuple[Path, Path, Path]:
        """The witnesses' files: what the agent was about to do, the service's book, and the looks at the site."""
        return (
            directory / f"{self.prefix}witness.jsonl",
            directory / f"{self.prefix}service.jsonl",
            directory / f"{self.prefix}looks.jsonl",
        )

    def count(self, directory: Path) -> Counts:
        """What the witnesses saw so far."""
        return count(*self.files(directory))

    def again(self, what: str, takeovers: Iterable[Takeover]) -> list[str]:
        """What was cut off at the takeovers' moments and had to be done once more, by its detail."""
        cut = {moment.name: moment.cut for moment in self.moments}
        found = [cut.get(takeover.moment) for takeover in takeovers]
        return [each[1] for each in found if each is not None and each[0] == what]


@dataclass(frozen=True)
class Piece:
    """What one command performs, told of as the agent of the first act."""

    command: str
    acts: tuple[Act, ...]

    @property
    def agent(self) -> str:
        """The name by which it is asked for."""
        return self.acts[0].agent

    @property
    def kills(self) -> int:
        """How many processes are killed."""
        return sum(len(act.moments) for act in self.acts)


def probe_told(counts: Counts) -> list[Told]:
    """What is told where the service was asked whether it has the order."""
    return [
        ("probe", "Did the order go out? That was not recorded, so the service is asked."),
        ("probe", f"It knows the order ({', '.join(map(str, counts.answers))}), so it is not sent again."),
    ]


def order_promises(counts: Counts) -> tuple[Promise, ...]:
    """The rows about the one effect outside."""
    return (
        Promise("repairs ordered from the service", 1, counts.orders.total()),
        Promise("times the service was asked for it", 1, counts.questions, "it had the order: not sent again"),
    )


def takeover_promise(tally: Tally, moments: int) -> Promise:
    """The row about the processes."""
    return Promise(
        "takeovers by another process", moments, tally.counts.processes - 1, f"{tally.seconds} after the kill"
    )


def repair_reported(output: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines of the first act's report."""
    return [
        ("broken", f"{output['diagnosis']['broken']}: {output['diagnosis']['why']}"),
        ("ordered", str(output["order"])),
        ("until then", output["advice"]["text"]),
    ]


def repair_doubts(output: Any, counts: Counts) -> Iterator[str]:
    """Whether the report names the one order that the service has."""
    ordered = output.get("order") if isinstance(output, dict) else None
    if counts.numbers != (ordered,):
        yield f"The report names order {ordered}; the service has {', '.join(counts.numbers) or 'none'}."
