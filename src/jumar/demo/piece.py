"""What can be performed: an agent, the moments at which its process is killed, and what is promised of it.

There are two pieces, `piece_plain` and `piece_loop`.  Everything else of the demonstration is the same for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jumar import Harness
from jumar.demo.counts import Counts

SEARCHES = 4  # how many searches the site's trouble takes

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
class Piece:
    """One agent of the demonstration's, by its name, with all that is special to it.

    `recorded` is how many calls of which tool the run holds in which state at its end.  `seen` is what can be told of a
    moment by those who stand outside, who may look at the run.
    """

    agent: str
    command: str
    introduction: str
    decisions: int
    moments: tuple[Moment, ...]
    recorded: tuple[tuple[str, str, int], ...]
    promises: Callable[[Tally], tuple[Promise, ...]]
    seen: Callable[[str, Counts, Harness], list[Told]]

    def again(self, what: str, takeovers: Iterable[Takeover]) -> list[str]:
        """What was cut off at the takeovers' moments and had to be done once more, by its detail."""
        cut = {moment.name: moment.cut for moment in self.moments}
        found = [cut.get(takeover.moment) for takeover in takeovers]
        return [each[1] for each in found if each is not None and each[0] == what]


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
