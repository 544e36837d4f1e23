"""The demonstration itself: in each act one run, driven by several processes of which all but the last are killed.

A first process starts the agent. When it says that it has come to a chosen moment it waits there, and is killed with
SIGKILL, so that no code of its own runs any more. Another process is started at once; it waits until the dead one's
lease has run out, takes the run over, and is killed at the next moment. The last is left to finish. No step is timed:
each kill answers a message.  Which agents they are, and which moments, says the piece that is performed.
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
from jumar.demo.figures import ActResult, DemoResult
from jumar.demo.looking import take_look
from jumar.demo.piece import END, Act, Moment, Piece, Takeover
from jumar.demo.processes import PATIENCE, Child, DemoFailed
from jumar.demo.second_act import BEFORE, prepare
from jumar.demo.stage import SERVICE, STOP_AT, WITNESS

_LOOK = 0.02  # seconds between two looks into the store


@dataclass(frozen=True)
class Beat:
    """Something that has just happened, `seconds` after the beginning.

    `kind` is one of act (its introduction), start, work, kill, wait, waiting (a wait goes on), takeover, probe, back,
    done.
    """

    seconds: float
    kind: str
    text: str


Tell = Callable[[Beat], None]
Ended = Callable[[str, ActResult], None]  # gets the store's address, and how the act went


def play(piece: Piece, directory: Path, tell: Tell, ended: Ended) -> DemoResult:
    """Perform a piece in a fresh directory, and count.  `ended` gets each act when it is over.

    Raises DemoFailed, JumarError or OSError where it cannot go on.
    """
    return _Play(piece, directory, tell).perform(ended)


class _Play:
    def __init__(self, piece: Piece, directory: Path, tell: Tell) -> None:
        self._piece = piece
        self._directory = directory
        self._tell = tell
        self._began = time.monotonic()
        self._store = f"sqlite:///{directory / 'runs.db'}"
        self._harness = Harness(self._store)  # to look at the runs; what drives them is in the other processes

    def perform(self, ended: Ended) -> DemoResult:
        site = self._directory / "site"
        _copy(resources.files("jumar.demo") / "site", site)
        prepare(site)
        book = self._piece.acts[0].files(self._directory)[1]
        with (
            self._harness,
            Child("jumar.demo.service", str(book), directory=self._directory, settings={}) as desk,
        ):
            self._harness.runs()  # opens the store, so that a place where none can be is told before anything starts
            settings = {"JUMAR_STORE": self._store, SERVICE: desk.hear()["address"]}
            acts = []
            for act in self._piece.acts:
                self._say("act", act.introduction)
                acts.append(_Act(act, self._directory, self._harness, settings, self._say).perform())
                ended(self._store, acts[-1])
        seconds = time.monotonic() - self._began
        return DemoResult(self._piece, self._store, str(self._directory), seconds, tuple(acts))

    def _say(self, kind: str, text: str) -> None:
        self._tell(Beat(time.monotonic() - self._began, kind, text))


class _Act:
    """One act on its way: who was killed, and who has taken over."""

    def __init__(
        self, act: Act, directory: Path, harness: Harness, settings: dict[str, str], say: Callable[[str, str], None]
    ) -> None:
        self._act = act
        self._directory = directory
        self._site = directory / "site"
        self._harness = harness
        self._say = say
        witness, _, self._looks = act.files(directory)
        self._settings = settings | {WITNESS: str(witness)}
        self._killed_at = 0.0
        self._killed: tuple[str, int, str] | None = None
        self._takeovers: list[Takeover] = []

    def perform(self) -> ActResult:
        self._look(BEFORE)
        status = ""
        for stop in (*self._act.moments, None):
            status = self._process(stop)
        view = self._harness.show("last")
        return ActResult(
            self._act, view.run.run_id, status, self._act.count(self._directory), tuple(self._takeovers), view
        )

    def _process(self, stop: Moment | None) -> str:
        """One process, from its start to its end; answers the run's status where it ended by itself."""
        settings = self._settings | {STOP_AT: "" if stop is None else stop.name}
        what = ("run", self._act.agent) if self._killed is None else ("resume",)
        with Child("jumar.demo.child", *what, directory=self._directory, settings=settings) as child:
            is_at_work = False
            if self._killed is None:
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
                    if self._is_killed_at(child, message, stop):
                        return ""

    def _is_killed_at(self, child: Child, message: dict[str, Any], stop: Moment | None) -> bool:
        """Do what a process at work asks for; answers whether that was its last."""
        if message["say"] == "look":
            self._look(message["name"])
            child.go_on()
        elif stop is not None and message["name"] == stop.name:
            self._kill(child, stop)
            return True
        return False

    def _ended(self, child: Child, stop: Moment | None, message: dict[str, Any]) -> str:
        status = str(message["status"])
        if stop is not None:
            reason = f" ({message['error']})" if message["error"] else ""
            raise DemoFailed(f"process {child.pid} left the run {status} before the moment {stop.name!r}{reason}")
        self._look(END)
        self._tell_seen(END)
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
        self._tell_seen(moment.name)
        signal = child.kill()
        self._killed_at = time.monotonic()
        self._killed = (moment.name, child.pid, signal)
        self._say("kill", f"Process {child.pid} is killed, {moment.told}.")
        self._look(f"killed {moment.name}")

    def _tell_seen(self, moment: str) -> None:
        for kind, text in self._act.seen(moment, self._act.count(self._directory), self._harness):
            self._say(kind, text)

    def _look(self, when: str) -> None:
        """Look at the files, where the act is about them."""
        if self._act.states:
            take_look(self._site, when, self._looks)

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


def _copy(source: Traversable, target: Path) -> None:
    """Copy a folder out of the installed package, which need not be a folder on disk."""
    target.mkdir()
    for item in source.iterdir():
        if item.is_dir():
            _copy(item, target / item.name)
        else:
            (target / item.name).write_bytes(item.read_bytes())
