"""The agent that lives through a storm, and what it leaves when there was none.

It makes every kind of call: a read; two writes that append to one file, so that one done twice, or on top of half of
another, shows; two idempotent calls; an external one whose tool has a probe, and one that only a person can settle.
All of them act on an outside witness, a log to each run, and answer from their arguments alone, so that what a run must
come to is known beforehand.

A body takes a few milliseconds on both sides of its effect: whoever is killed, is killed in the middle of something.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from jumar.core.verdicts import Happened, NotHappened
from jumar.harness.harness import Harness
from jumar.harness.run import Run
from jumar.testing.witness import Witness

AGENT = "errand"
RETRIES = 1000  # an attempt that a death cut off counts
EFFECTS = {
    "reserve": ("applied", 2),
    "book": ("sent", 1),
    "wire": ("sent", 1),
}  # by tool: what the witness calls it, and how many a run has


class Terms(Struct, frozen=True):
    """What the processes of a storm agree on.  Times are seconds.

    `frozen` is how long a process may stand still.  An attempt that was sent and has not come back is given so long,
    and `settle` on top, before it is believed that it never will act: a process that stands still for longer than that
    could do what another was told had not happened.
    """

    address: str
    folder: str
    ttl: float = 1.5
    frozen: float = 3.0
    settle: float = 2.0
    concurrency: int = 4
    body: float = 0.01
    durability: str = "sync"
    mutation: str | None = None

    @property
    def files(self) -> Path:
        """The workspace of all runs."""
        return Path(self.folder, "files")

    def witness(self, number: int) -> Witness:
        """What the run of this number did outside."""
        return Witness(Path(self.folder, "witness", str(number)))


class Report(Struct, frozen=True):
    """What a run answers: what it found, twice, its file after each write, and what the other calls said."""

    found: str
    first: str
    seats: list[str]
    booked: str
    wired: str
    second: str


def expected(number: int) -> Report:
    """What the run of this number answers where nothing goes wrong."""
    begun, ended = f"{number} begins\n", f"{number} ends\n"
    return Report(
        f"page {number}" * 2,
        begun,
        [f"seat {number}-{side}" for side in "ab"],
        f"room {number}",
        f"{number} to the bank",
        begun + ended,
    )


def build(terms: Terms) -> Harness:
    """The harness that has the agent; as any program would make it, but for its times."""
    harness = Harness(
        terms.address,
        workspace=terms.files,
        lease_ttl=terms.ttl,
        durability=terms.durability,
    )
    tools = _tools(harness, terms)

    @harness.agent(tools=list(tools.values()), name=AGENT)
    def errand(run: Run, number: int) -> Report:
        with run.step("begin"):
            found = run.call(tools["look"], number)
            first = run.call(tools["log"], f"{number}.txt", f"{number} begins")
        with run.step("act"):
            seats = run.map(tools["reserve"], [(number, "a"), (number, "b")])
            booked = run.call(tools["book"], number)
            wired = run.call(tools["wire"], number)
            found += run.call(tools["look"], number)
        second = run.call(tools["log"], f"{number}.txt", f"{number} ends")
        return Report(found, first, list(seats), booked, wired, second)

    return harness


def _tools(harness: Harness, terms: Terms) -> dict[str, Any]:
    luck = random.Random()

    @contextmanager
    def takes_time() -> Iterator[None]:
        time.sleep(luck.random() * terms.body)
        yield
        time.sleep(luck.random() * terms.body)

    @harness.tool(effect="read")
    def look(number: int) -> str:
        with takes_time():
            terms.witness(number).note("read", "look")
        return f"page {number}"

    @harness.tool(effect="write", paths=["{name}"], retries=RETRIES)
    def log(name: str, line: str) -> str:
        with (terms.files / name).open("a") as file:
            with takes_time():
                file.write(line)
                file.flush()
            file.write("\n")
        return (terms.files / name).read_text()

    @harness.tool(effect="idempotent", retries=RETRIES)
    def reserve(number: int, side: str) -> str:
        with takes_time():
            terms.witness(number).apply("reserve")
        return f"seat {number}-{side}"

    @harness.tool(effect="external", timeout=terms.frozen, settle=terms.settle, retries=RETRIES)
    def book(number: int) -> str:
        with takes_time():
            terms.witness(number).send("book")
        return f"room {number}"

    @book.probe
    def _(number: int) -> Happened[str] | NotHappened:
        return Happened(f"room {number}") if terms.witness(number).happened() else NotHappened()

    @harness.tool(effect="external", timeout=terms.frozen, settle=terms.settle, retries=RETRIES)
    def wire(number: int) -> str:
        with takes_time():
            terms.witness(number).send("wire")
        return f"{number} to the bank"

    return {"look": look, "log": log, "reserve": reserve, "book": book, "wire": wire}
