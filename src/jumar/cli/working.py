"""What `jumar worker` tells while it works: a line for each run that is taken up and left, and for its own end.

It is written to a log as well as to a terminal, so every line stands for itself, begins with the time of day, and is
written out at once.  With `--json` each line is a JSON object.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from jumar.cli.due import result_json, result_line, run_columns
from jumar.cli.options import Options
from jumar.cli.reading import info_of, short_id
from jumar.cli.times import clock, lasted, now_ms
from jumar.engine.logs import NOTHING, logger
from jumar.engine.places import Stop
from jumar.errors import JumarError
from jumar.stores.postgres.address import without_secrets

if TYPE_CHECKING:
    from rich.text import Text

    from jumar.harness.harness import Harness
    from jumar.harness.working import WorkerEvent, WorkerReport

_MOST_AGENTS = 12  # that are named
_LEAVE_SECONDS = 3.0


class Teller:
    """Tells of one worker on what is standard output now, whatever the agents do with that later."""

    def __init__(self, harness: Harness, options: Options, concurrency: int, grace: float, stop: Stop) -> None:
        from jumar.cli.screen import Screen

        self._harness = harness
        self._json = options.json
        self._file: TextIO = sys.stdout
        self._screen = Screen(self._file)
        self._concurrency = concurrency
        self._grace = grace
        self._stop = stop

    def begin(self) -> None:
        """What is served, and how."""
        agents = sorted(self._harness.agents)
        address = without_secrets(self._harness.address)
        if self._json:
            self._object({"event": "started", "store": address, "agents": agents, "concurrency": self._concurrency})
            return
        more = f" and {len(agents) - _MOST_AGENTS} more" if len(agents) > _MOST_AGENTS else ""
        runs = "1 run" if self._concurrency == 1 else f"{self._concurrency} runs"
        self._line(f"working on {address}: {runs} at a time, of {', '.join(agents[:_MOST_AGENTS])}{more}", "bold")

    def tell(self, event: WorkerEvent) -> None:
        """One thing that happened.  Where nobody reads it any more the worker is to stop."""
        try:
            self._tell(event)
        except BrokenPipeError:
            if not self._stop.is_set():  # a second time it would leave at once
                self._stop.set()

    def _tell(self, event: WorkerEvent) -> None:
        if self._json:
            self._object(self._told(event))
        elif event.what == "taken-up":
            self._about(event, "taken up", _again(event), "")
        elif event.what == "left":
            self._left(event)
        elif event.what == "not-driven":
            assert event.error is not None
            what = event.error.what if isinstance(event.error, JumarError) else str(event.error)
            self._about(event, "not driven", f"{type(event.error).__name__}: {what}; tried again later", "red")
        elif event.what == "given-up":
            self._about(event, "given up", "it hangs, and its lease has run out; others may go on with it", "red")
        elif event.what == "stopping":
            self._line(_stopping(event.under_way, self._grace), "yellow")
        else:
            self._line(f"the time is over: {_runs(event.under_way)} handed over to other workers", "yellow")

    def end(self, report: WorkerReport) -> None:
        """What came of it all."""
        if self._json:
            import msgspec

            self._object({"event": "ended", **msgspec.to_builtins(report)})
            return
        counts = [f"{count} {status.lower()}" for status, count in sorted(report.left.items())]
        counts += [f"{count} {name}" for count, name in _rest(report) if count]
        taken = f"{_runs(report.taken_up, '')} taken up"
        self._line(f"ended: {', '.join([taken, *counts])}", "bold")

    def _left(self, event: WorkerEvent) -> None:
        run, result = info_of(self._harness, event.run_id), event.result
        assert run is not None and result is not None
        if result.status == "QUEUED":
            self._about(event, "queued", "left for another worker", "cyan")
            return
        self._print(result_line(self._screen, self._harness, run, result))

    def _about(self, event: WorkerEvent, word: str, text: str, style: str) -> None:
        from rich.text import Text

        columns = run_columns(self._screen, short_id(self._harness, event.run_id), event.agent)
        words = self._screen.pad(word, 10)
        self._print(Text.assemble(*columns, (words, style or "dim"), "  ", (self._screen.clean(text), style or "dim")))

    def _told(self, event: WorkerEvent) -> dict[str, Any]:
        told: dict[str, Any] = {"event": event.what}
        if not event.run_id:
            return told | {"under_way": event.under_way}
        told |= {"run_id": event.run_id, "agent": event.agent}
        if event.what == "taken-up":
            told |= {"epoch": event.epoch, "crashes": event.crashes}
        if event.error is not None:
            error = event.error
            what = error.what if isinstance(error, JumarError) else str(error)
            told |= {"error_type": type(error).__name__, "error_message": what}
        run = info_of(self._harness, event.run_id) if event.result is not None else None
        if run is not None and event.result is not None:
            told |= result_json(self._harness, run, event.result)
        return told

    def _line(self, text: str, style: str) -> None:
        from rich.text import Text

        self._print(Text(self._screen.clean(text), style))

    def _print(self, line: Text) -> None:
        from rich.text import Text

        line = Text.assemble((f"{clock(now_ms())[:8]}  ", "dim"), line)
        self._screen.print(self._screen.crop(line) if self._screen.is_terminal else line)
        self._file.flush()

    def _object(self, told: dict[str, Any]) -> None:
        import msgspec

        self._file.write(msgspec.json.encode({"at": now_ms(), **told}).decode() + "\n")
        self._file.flush()


def _again(event: WorkerEvent) -> str:
    if event.crashes:
        if event.crashes == 1:  # what that process recorded before is not looked at
            return "again: its process ended"
        return f"again: its process ended {event.crashes} times without recording anything new"
    return "again" if event.epoch > 1 else "for the first time"


def _stopping(under_way: int, grace: float) -> str:
    if not under_way:
        return "stopping"
    have = "has" if under_way == 1 else "have"
    return f"stopping: {_runs(under_way)} under way and {have} {lasted(grace * 1000)} to end; once more leaves at once"


def _runs(count: int, verb: str = " is| are") -> str:
    one, _, many = verb.partition("|")
    return f"1 run{one}" if count == 1 else f"{count} runs{many}"


def _rest(report: WorkerReport) -> list[tuple[int, str]]:
    return [
        (report.not_driven, "not driven"),
        (report.given_up, "given up"),
        (len(report.abandoned), "under way still"),
    ]


@contextmanager
def told_to_stop(stop: Stop) -> Iterator[list[int]]:
    """Let SIGTERM and Ctrl-C tell the worker to stop; the list has those that came.  Only a main thread gets any.

    Where it has not left soon after a second one, the process ends.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)
        stop.set()
        if len(came) == 2:  # this thread may be waiting for a store that does not answer
            signal.signal(signal.SIGALRM, lambda *_: os._exit(128 + number))
            signal.setitimer(signal.ITIMER_REAL, _LEAVE_SECONDS)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield came
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


class _Warnings(logging.Handler):
    """Shows on standard error what is logged of runs, where the app does nothing with it itself."""

    def __init__(self) -> None:
        from jumar.cli.screen import err

        super().__init__(logging.WARNING)
        self._screen = err()

    def emit(self, record: logging.LogRecord) -> None:
        """Show it."""
        run = getattr(record, "run_id", NOTHING)
        about = "" if run == NOTHING else f"run {run[-8:]}: "
        self._screen.print(self._screen.clean(f"{clock(now_ms())[:8]}  warning: {about}{record.getMessage()}"))


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show warnings within the block, unless the app has a handler for them."""
    to = logger()
    if logging.getLogger().handlers or any(not isinstance(each, logging.NullHandler) for each in to.handlers):
        yield
        return
    handler = _Warnings()
    to.addHandler(handler)
    try:
        yield
    finally:
        to.removeHandler(handler)
