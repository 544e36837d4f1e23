"""The demonstration itself: one run, four processes, three of them killed.

A first process starts the agent. When it says that it has come to a chosen moment it waits there, and is killed with
SIGKILL, so that no code of its own runs any more. Another process is started at once; it waits until the dead one's
lease has run out, takes the run over, and is killed at the next moment. The fourth is left to finish. No step is
timed: each kill answers a message.  Which agent it is, and which moments, says the piece that is performed.
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
from jumar.demo.counts import count
from jumar.demo.figures import DemoResult
from jumar.demo.piece import Moment, Piece, Takeover
from jumar.demo.processes import PATIENCE, Child, DemoFailed
from jumar.demo.stage import SERVICE, STOP_AT, WITNESS

_LOOK = 0.02  # seconds between two looks into the store


@dataclass(frozen=True)
class Beat:
    """Something that has just happened, `seconds` after the beginning.

    `kind` is one of start, work, kill, wait, waiting (a wait goes on), takeover, probe, done.
    """

    seconds: float
    kind: str
    text: str


Tell = Callable[[Beat], None]


def play(piece: Piece, directory: Path, tell: Tell) -> DemoResult:
    """Perform a piece in a fresh directory, and count.

    Raises DemoFailed, JumarError or OSError where it cannot go on.
    """
    return _Play(piece, directory, tell).perform()


class _Play:
    def __init__(self, piece: Piece, directory: Path, tell: Tell) -> None:
        self._piece = piece
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
            for stop in (*self._piece.moments, None):
                status = self._act(stop, address)
            view = self._harness.show("last")
        seconds = time.monotonic() - self._began
        return DemoResult(
            piece=self._piece,
            run_id=view.run.run_id,
            status=status,
            store=self._store,
            directory=str(self._directory),
            seconds=seconds,
            counts=count(self._witness, self._book),
            takeovers=tuple(self._takeovers),
            view=view,
        )

    def _act(self, stop: Moment | None, address: str) -> str:
        """One process, from its start to its end; answers the run's status where it ended by itself."""
        settings = {"JUMAR_STORE": self._store, WITNESS: str(self._witness), SERVICE: address}
        settings[STOP_AT] = "" if stop is None else stop.name
        is_first = self._killed is None
        what = ("run", self._piece.agent) if is_first else ("resume",)
        with Child("jumar.demo.child", *what, directory=self._directory, settings=settings) as child:
            is_at_work = False
            if is_first:
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
                else:
                    if not is_at_work:
                        self._taken_over(child)
                    is_at_work = True
                    if stop is not None and message["name"] == stop.name:
                        self._kill(child, stop)
                        return ""

    def _ended(self, child: Child, stop: Moment | None, message: dict[str, Any]) -> str:
        status = str(message["status"])
        if stop is not None:
            reason = f" ({message['error']})" if message["error"] else ""
            raise DemoFailed(f"process {child.pid} left the run {status} before the moment {stop.name!r}{reason}")
        self._say("done", f"Process {child.pid} finishes the run: {status}.")
        return status

    def _taken_over(self, child: Child) -> None:
        if self._killed is None:
            return
        moment, pid, signal = self._killed
        seconds = time.monotonic() - self._killed_at
        self._takeovers.append(Takeover(moment, pid, signal, child.pid, seconds))
        self._say("takeover", f"Process {child.pid} takes the run over, {seconds:.1f} s after the kill.")

    def _kill(self, child: Child, moment: Moment) -> None:
        self._until_recorded(child, moment.searches)
        for kind, text in self._piece.seen(moment.name, count(self._witness, self._book), self._harness):
            self._say(kind, text)
        signal = child.kill()
        self._killed_at = time.monotonic()
        self._killed = (moment.name, child.pid, signal)
        self._say("kill", f"Process {child.pid} is killed, {moment.told}.")

    def _until_recorded(self, child: Child, searches: int) -> None:
        """Wait until so many searches are on record.  The process can tell that it makes one, not that it is recorded:
        for that there is only the store to look at.
        """
        deadline = time.monotonic() + PATIENCE
        while searches:
            calls = self._harness.show("last").calls
            if sum(call.tool == "search" and call.state == "SUCCEEDED" for call in calls) >= searches:
                return
            if time.monotonic() > deadline:
                raise DemoFailed(f"process {child.pid} recorded no {searches} searches in {PATIENCE:.0f} s")
            time.sleep(_LOOK)

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
