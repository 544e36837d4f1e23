"""The demonstration itself: one run, four processes, three of them killed.

A first process starts the agent. When it says that it has come to a chosen moment it waits there, and is killed with
SIGKILL, so that no code of its own runs any more. Another process is started at once; it waits until the dead one's
lease has run out, takes the run over, and is killed at the next moment. The fourth is left to finish. No step is
timed: each kill answers a message.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from jumar import Harness
from jumar.demo.figures import MOMENTS, DemoResult, Takeover, count, lines_of
from jumar.demo.processes import Child, DemoFailed
from jumar.demo.stage import SERVICE, STOP_AT, WITNESS


@dataclass(frozen=True)
class Beat:
    """Something that has just happened, `seconds` after the beginning.

    `kind` is one of start, work, kill, wait, waiting (a wait goes on), takeover, probe, done.
    """

    seconds: float
    kind: str
    text: str


Tell = Callable[[Beat], None]


def play(directory: Path, tell: Tell) -> DemoResult:
    """Run the demonstration in a fresh directory, and count.

    Raises DemoFailed, JumarError or OSError where it cannot go on.
    """
    return _Play(directory, tell).perform()


class _Play:
    def __init__(self, directory: Path, tell: Tell) -> None:
        self._directory = directory
        self._tell = tell
        self._began = time.monotonic()
        self._killed_at = 0.0
        self._killed: tuple[str, int, str] | None = None
        self._takeovers: list[Takeover] = []
        self._witness = directory / "witness.jsonl"
        self._book = directory / "service.jsonl"
        self._store = f"sqlite:///{directory / 'runs.db'}"
        self._harness = Harness(self._store)  # to look at the run; what drives it is in the other processes

    def perform(self) -> DemoResult:
        _copy(resources.files("jumar.demo") / "site", self._directory / "site")
        with (
            self._harness,
            Child("jumar.demo.service", str(self._book), directory=self._directory, settings={}) as desk,
        ):
            self._harness.runs()  # opens the store, so that a place where none can be is told before anything starts
            address = desk.hear()["address"]
            status = ""
            for stop in (*MOMENTS, ""):
                status = self._act(stop, address)
            view = self._harness.show("last")
        seconds = time.monotonic() - self._began
        return DemoResult(
            run_id=view.run.run_id,
            status=status,
            store=self._store,
            directory=str(self._directory),
            seconds=seconds,
            counts=count(self._witness, self._book),
            takeovers=tuple(self._takeovers),
            view=view,
        )

    def _act(self, stop: str, address: str) -> str:
        """One process, from its start to its end; answers the run's status where it ended by itself."""
        settings = {"JUMAR_STORE": self._store, WITNESS: str(self._witness), SERVICE: address, STOP_AT: stop}
        what = "run" if self._killed is None else "resume"
        with Child("jumar.demo.child", what, directory=self._directory, settings=settings) as child:
            if what == "run":
                self._say("start", f"Process {child.pid} starts the agent on its task.")
            else:
                self._say("wait", f"Process {child.pid} waits for the dead process's lease to run out.")
            while True:
                message = child.hear()
                if message["say"] == "waiting":
                    self._say("waiting", f"{message['seconds']:.1f} s left")
                elif message["say"] == "refused":
                    raise DemoFailed(f"process {child.pid} could not go on: {message['error']}")
                elif message["say"] == "ended":
                    return self._ended(child, stop, message)
                elif message["name"] == "started":
                    self._taken_over(child)
                elif message["name"] == stop:
                    self._kill(child, stop)
                    return ""

    def _ended(self, child: Child, stop: str, message: dict[str, Any]) -> str:
        status = str(message["status"])
        if stop:
            reason = f" ({message['error']})" if message["error"] else ""
            raise DemoFailed(f"process {child.pid} left the run {status} before the moment {stop!r}{reason}")
        self._say("done", f"Process {child.pid} finishes the run: {status}.")
        return status

    def _taken_over(self, child: Child) -> None:
        if self._killed is None:
            return
        moment, pid, signal = self._killed
        seconds = time.monotonic() - self._killed_at
        self._takeovers.append(Takeover(moment, pid, signal, child.pid, seconds))
        self._say("takeover", f"Process {child.pid} takes the run over, {seconds:.1f} s after the kill.")

    def _kill(self, child: Child, moment: str) -> None:
        for kind, text in self._seen(moment):
            self._say(kind, text)
        signal = child.kill()
        self._killed_at = time.monotonic()
        self._killed = (moment, child.pid, signal)
        self._say("kill", f"Process {child.pid} is killed, {MOMENTS[moment]}.")

    def _seen(self, moment: str) -> list[tuple[str, str]]:
        """What can be told at a moment, by those who stand outside."""
        counts = count(self._witness, self._book)
        if moment == "searched":
            return [("work", f"{counts.searches.total()} searches are made and recorded.")]
        if moment == "ordered":
            decided = self._decided("diagnose")
            return [
                ("work", "No search is made again: their results are on record."),
                ("work", f"The model decides: {decided['action']} {decided['broken']} ({decided['why']})."),
                ("work", f"The service takes the order and calls it {', '.join(counts.numbers)}."),
            ]
        asked = [entry["number"] for entry in lines_of(self._book) if entry["what"] == "question"]
        return [
            ("probe", "Did the order go out? That was not recorded, so the service is asked."),
            ("probe", f"It knows the order ({', '.join(map(str, asked))}), so it is not sent again."),
            ("work", "The model is asked what to do until the repair is done."),
        ]

    def _decided(self, model: str) -> dict[str, Any]:
        calls = self._harness.show("last").calls
        decided: dict[str, Any] = next(call.result for call in calls if call.tool == model)
        return decided

    def _say(self, kind: str, text: str) -> None:
        self._tell(Beat(time.monotonic() - self._began, kind, text))


def _copy(source: Traversable, target: Path) -> None:
    """Copy a folder out of the installed package, which need not be a folder on disk."""
    target.mkdir()
    for item in source.iterdir():
        if item.is_dir():
            _copy(item, target / item.name)
        else:
            (target / item.name).write_bytes(item.read_bytes())
