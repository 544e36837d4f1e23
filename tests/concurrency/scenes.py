"""What the workers of the process tests do: small agents whose tools and code stop wherever a test wants them to.

`drive` is the body of every worker.  It starts the run or takes it over, and answers the status it ended with.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from jumar import Harness, Run
from jumar.testing.witness import Witness
from tests.concurrency.workers import Line

RUN = "01a00000-0000-7000-8000-000000000001"


class Options(Struct, frozen=True):
    """How a worker is set up: where it pauses, how its leases last, and what is wrong with it.  Times are seconds."""

    pauses: tuple[str, ...] = ()
    ttl: float = 30.0
    stall: float = 60.0
    clock_ahead: float = 0.0
    model_is_down: bool = False


class ServerError(Exception):
    """What a model's client raises for an HTTP 500."""

    status_code = 500


def drive(line: Line, folder: str, by: str, action: str, options: Options) -> str:
    """Run an agent (`run one`), or take the run over, waiting for its lease (`resume`) or not (`resume at once`)."""
    if options.clock_ahead:
        _set_the_clock(options.clock_ahead)
    scene = Scene(line, Path(folder), by, options)
    with scene.harness as harness:
        if action.startswith("run "):
            return harness.run(action.removeprefix("run "), "go", run_id=RUN).status
        return harness.resume(RUN, wait=action == "resume").status


def _set_the_clock(ahead: float) -> None:
    """Set this process's wall clock; the kernel's other clocks stay as they are, as when a machine's date is wrong."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + ahead
    time.time_ns = lambda: real_ns() + int(ahead * 1e9)


class Scene:
    """A harness with its agents, on behalf of one worker."""

    def __init__(self, line: Line, folder: Path, by: str, options: Options) -> None:
        self.harness = Harness(f"sqlite:///{folder / 'run.db'}", lease_ttl=options.ttl, stall_timeout=options.stall)
        self.witness = Witness(folder / "witness", by=by)
        self._line = line
        self._options = options
        self._add_one()
        self._add_three()
        self._add_thinker()

    def pause(self, word: str) -> None:
        """Stop here, where the options say so."""
        if word in self._options.pauses:
            self._line.pause(word)

    def _add_one(self) -> None:
        """`one` reads and then pays twice, and takes every exception for an answer."""

        @self.harness.tool(effect="read")
        def look() -> str:
            self.witness.note("read", "look")
            self.pause("in a body")
            return "seen"

        @self.harness.tool(effect="external")
        def pay(cents: int) -> str:
            self.witness.send("pay")
            return "paid"

        @self.harness.agent
        def one(run: Run, task: str) -> str:
            self._taking_all(lambda: run.call(look))
            self.pause("between calls")
            self._taking_all(lambda: run.call(pay, 1))
            self._taking_all(lambda: run.call(pay, 2))
            return "done"

    def _taking_all(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:
            self.witness.note("swallowed", type(error).__name__)

    def _add_three(self) -> None:
        """`three` reads three things side by side, and tells which of them is recorded."""

        @self.harness.tool(effect="read")
        def fetch(number: int) -> int:
            self.witness.note("read", f"fetch {number}")
            self.pause(f"fetching {number}")
            return number * number

        @self.harness.agent
        def three(run: Run, task: str) -> list[int]:
            def branch(number: int) -> Callable[[], int]:
                def body() -> int:
                    answer = run.call(fetch, number)
                    self._line.tell(f"recorded {number}")
                    return answer

                return body

            return list(run.gather(*[branch(number) for number in range(3)]))

    def _add_thinker(self) -> None:
        """`thinker` searches, and then asks a model what to make of it."""

        @self.harness.tool(effect="read")
        def search(query: str) -> list[str]:
            self.witness.note("read", "search")
            return [f"{query} in a.log"]

        def model(hits: list[str]) -> str:
            self.witness.note("read", "model")
            self.pause("deciding")
            if self._options.model_is_down:
                self._line.tell("the model is down")
                raise ServerError("internal server error")
            return f"repair {hits[0]}"

        @self.harness.agent
        def thinker(run: Run, task: str) -> str:
            return run.decide(model, run.call(search, "ERROR"), retries=1000)
