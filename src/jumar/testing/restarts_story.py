"""One run lived through by one process after another, in a folder of its own."""

from __future__ import annotations

import re
import secrets
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from jumar import errors
from jumar.core.codec import codec_for
from jumar.core.naming import uuid7
from jumar.core.verdicts import Happened, NotHappened
from jumar.errors import RunNotFound, UsageError
from jumar.harness.harness import Harness
from jumar.harness.results import RunView, WaitingOn
from jumar.testing.restarts_judge import Restart
from jumar.testing.restarts_line import Aim, Answer, Answers, Broke, Done, Kill, Moved, Orders, Passed, Waits
from jumar.testing.restarts_process import LOG, Overdue, Process, last_lines

_CALL = re.compile(r"before Invoke\(.+ of (.+), attempt \d+\)")


class Plan(Struct, frozen=True):
    """What all the runs of a sweep have in common.  Without a `run_id` each run gets one of its own."""

    app: str
    input: bytes
    store: str
    run_id: str | None
    env: Mapping[str, str]
    prepare: Callable[[Path], Any] | None
    witness: Callable[[Path], Any] | None
    answer: Callable[[WaitingOn, Path], Any] | None
    exact: bool
    deadline: float

    def address(self, folder: Path) -> str:
        """The store of the run that lives in a folder."""
        return self.store.replace("{folder}", str(folder))


class Story:
    """A run, from its first process to its last.  `fault` is why it could not be told to its end, and `broke` what
    the process said itself, where it said something.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.folder = folder
        self.fault: str | None = None
        self.broke: Broke | None = None
        self.lives: list[list[str]] = []
        self._plan = plan
        self._store = plan.address(folder)
        self._run_id = plan.run_id or uuid7(time.time_ns() // 1_000_000, secrets.token_bytes(10))
        self._env = {name: value.replace("{folder}", str(folder)) for name, value in plan.env.items()}
        self._ahead_ms = 0
        self._kills: list[str] = []
        self._before: tuple[RunView | None, Any] | None = None
        folder.mkdir(parents=True)
        if plan.prepare is not None:
            plan.prepare(folder)

    # --- Living. ---

    def live(self, kill: Kill | None = None) -> bool:
        """One process, which starts the run or takes it over: whether it was killed."""
        plan = self._plan
        passed: list[str] = []
        self.lives.append(passed)
        orders = Orders(
            plan.app,
            msgspec.Raw(plan.input),
            self._store,
            self._run_id,
            self._ahead_ms,
            kill if plan.exact else None,
            line=-1,
        )
        with Process(orders, self.folder, self._env, plan.deadline) as process:
            try:
                killed = self._follow(process, Aim(kill), passed)
            except Overdue:
                last = f"; the last point it passed was {passed[-1]}" if passed else ""
                log = self.folder / LOG
                self.fault = f"a process did not end within {plan.deadline:g} s{last}; what it printed is in {log}"
                return False
        if killed is None:
            return False
        self._kills.append(killed if kill is None or kill.name is None else str(kill))
        if self._before is None:
            self._before = self._look()
        return True

    def _follow(self, process: Process, aim: Aim, passed: list[str]) -> str | None:
        """Hear a process out: the name of the point it was killed at; None where it was not."""
        killed: str | None = None
        while (told := process.hear()) is not None:
            if isinstance(told, Passed):
                passed.append(told.name)
                if aim.hits(told.name):
                    killed = told.name
                    if not self._plan.exact:
                        process.kill()
            elif isinstance(told, Moved):
                self._ahead_ms = told.ahead_ms
            elif killed is not None:
                continue  # it told this while it was being killed
            elif isinstance(told, Waits):
                process.answer(self._answers(told))
            elif isinstance(told, Done):
                return None
            else:
                self.broke, self.fault = told, f"a process could not go on: {told.name}: {told.what}"
                return None
        code = process.end()
        if killed is not None and code == -signal.SIGKILL:
            return killed
        self.fault = f"a process ended by itself, with exit code {code}"
        return None

    def _answers(self, waits: Waits) -> Answers:
        answer = self._plan.answer
        if answer is None:
            return Answers(())
        given = [(waiting, answer(waiting, self.folder)) for waiting in waits.asked]
        return Answers(tuple(_answer(waiting, value) for waiting, value in given if value is not ...))

    # --- Looking. ---

    def _look(self) -> tuple[RunView | None, Any]:
        """The run as it is recorded, and what the witness tells."""
        with Harness(self._store) as harness:
            try:
                view: RunView | None = harness.show(self._run_id)
            except RunNotFound:
                view = None
        witness = self._plan.witness
        return view, None if witness is None else witness(self.folder)

    def told(self) -> Restart:
        """The run as it stands now."""
        view, witness = self._look()
        earlier, witness_before = self._before or (view, witness)
        status, output, error = _standing(view)
        return Restart(
            folder=self.folder,
            store=self._store,
            run_id=self._run_id,
            kills=tuple(self._kills),
            status=status,
            output=output,
            error=error,
            calls_before=earlier.calls if earlier is not None else (),
            calls=view.calls if view is not None else (),
            witness_before=witness_before,
            witness=witness,
            lives=tuple(map(tuple, self.lives)),
            problems=() if self.fault is None else (f"{self.fault}{self._printed()}",),
        )

    def _printed(self) -> str:
        printed = last_lines(self.folder)
        return f"; its processes printed last:\n{printed}" if printed else ""

    def error(self) -> UsageError | None:
        """Why this run, of nobody's killing, could not be told to its end; None where it could."""
        if self.fault is None:
            return None
        if self.broke is None:
            return UsageError(f"{self.fault}, and nobody had killed it{self._printed()}")
        kind = getattr(errors, self.broke.name, None)
        if isinstance(kind, type) and issubclass(kind, UsageError):
            return kind(f"{self.broke.what}{self._printed()}", safe=self.broke.safe, hint=self.broke.hint)
        return UsageError(f"{self.fault}{self._printed()}", hint=self.broke.hint or None)


def _standing(view: RunView | None) -> tuple[str, Any, str | None]:
    if view is None:
        return "NOT STARTED", None, None
    run = view.run
    if run.status == "WAITING":
        asked = ", ".join(f"{waiting.call_id} ({waiting.kind})" for waiting in view.waiting_on)
        return run.status, None, f"for {asked}, which only answer= can answer" if asked else "for nobody who would come"
    error = f"{run.error_type}: {run.error_message}" if run.error_type else None
    return run.status, view.output, error


def _answer(waiting: WaitingOn, given: Any) -> Answer:
    call_id = waiting.call_id
    if waiting.kind == "resolve":
        if isinstance(given, Happened):
            return Answer(call_id, "happened", _plain(given.result))
        if isinstance(given, NotHappened):
            return Answer(call_id, "not-happened")
        raise UsageError(f"answer= gave {given!r} for {call_id}", hint="Give Happened(result) or NotHappened().")
    if waiting.kind == "approval":
        if isinstance(given, bool):
            return Answer(call_id, "approve" if given else "reject")
        raise UsageError(f"answer= gave {given!r} for {call_id}", hint="Give True to approve the call, else False.")
    return Answer(call_id, "value", _plain(given))


def _plain(value: Any) -> Any:
    return msgspec.json.decode(codec_for(Any).encode(value))


def strayed(passed: Sequence[str], uninterrupted: Sequence[str], *, whole: bool) -> str | None:
    """How the calls of a first process differ from those of the uninterrupted run; None where they do not.  With
    `whole` it came to its end, and has made all of them.
    """
    mine, theirs = _calls(passed), _calls(uninterrupted)
    for call_id in mine:
        if call_id not in theirs:
            return f"it made the call {call_id}, and the uninterrupted run did not"
    for call_id in theirs if whole else ():
        if call_id not in mine:
            return f"it did not make the call {call_id}, and the uninterrupted run did"
    return None


def _calls(points: Sequence[str]) -> dict[str, None]:
    return dict.fromkeys(match[1] for point in points if (match := _CALL.fullmatch(point)))
