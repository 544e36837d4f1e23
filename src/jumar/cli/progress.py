"""What is told while something takes its time: nothing for two seconds, then how long it has taken.

On a terminal it is one line that moves and vanishes at the end.  Elsewhere only a wait for another process is told, at
its beginning and every ten seconds, because a log is no place for a clock.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from jumar.cli.times import lasted
from jumar.engine.logs import INFO, SCANS

if TYPE_CHECKING:
    from jumar.cli.screen import Screen

_PATIENCE = 2.0  # seconds before anything is shown
_BEAT = 0.25
_SCAN_HEARD = 2.5  # seconds for which what was heard of a scan holds
_LINE_EVERY = 10.0  # seconds between two lines where there is no terminal


class Progress:
    """Tells what is going on from a thread of its own, while the caller works inside the `with`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._wait: tuple[str, float, float] | None = None  # whose lease, seconds left, when that was heard
        self._obeys: str | None = None  # what another process is waited for to do
        self._scan: tuple[str, float] | None = None  # how far a scan of the workspace is, and when that was heard
        self._listener = _Listener(self)

    def __enter__(self) -> Self:
        self._stop.clear()
        self._listener.start()
        self._thread = threading.Thread(target=self._work, name="jumar-progress", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.stop()
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def scanned(self, text: str) -> None:
        """A scan of the workspace takes its time, and has come so far."""
        self._scan = (text, time.monotonic())

    def waiting(self, owner: str, left: float) -> None:
        """A lease that `owner` holds runs out in `left` seconds."""
        self._wait = (owner, left, time.monotonic())

    def obeys(self, text: str) -> None:
        """Another process is waited for to do something."""
        self._obeys = text

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Take the line away while something is printed; the time is then counted anew."""
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self._began = time.monotonic()
            self.__enter__()

    def _work(self) -> None:
        while not self._stop.wait(_BEAT):
            if self._is_worth_telling():
                break
        if self._stop.is_set():
            return
        from jumar.cli.screen import err

        screen = err()
        if screen.is_terminal:
            self._move(screen)
        else:
            self._log(screen)

    def _is_worth_telling(self) -> bool:
        """Whether this has taken long, or is known to."""
        left = self._wait[1] if self._wait is not None else 0.0
        return time.monotonic() - self._began + left >= _PATIENCE

    def _move(self, screen: Screen) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        spinner = Spinner(screen.signs.spinner, self._line(screen))
        # The agent's own prints must stay on standard output: they pass through here only where both are one terminal.
        both = sys.stdout.isatty()
        with Live(spinner, console=screen.console, transient=True, redirect_stdout=both, redirect_stderr=both):
            while not self._stop.wait(_BEAT):
                spinner.update(text=self._line(screen))

    def _line(self, screen: Screen) -> Any:
        from rich.text import Text

        doing = self._obeys or self._scanning() or self._text
        text = self._lease() or f"{doing}: {_elapsed(time.monotonic() - self._began)}"
        return Text(screen.cut(screen.clean(text), screen.width - 4), no_wrap=True)

    def _log(self, screen: Screen) -> None:
        last_line = -_LINE_EVERY
        while True:
            text = self._lease() or self._obeys or self._scanning()
            if text is not None and time.monotonic() - last_line >= _LINE_EVERY:
                last_line = time.monotonic()
                screen.print(screen.clean(text))
            if self._stop.wait(_BEAT):
                return

    def _scanning(self) -> str | None:
        scan = self._scan
        return None if scan is None or time.monotonic() - scan[1] > _SCAN_HEARD else f"{self._text}, {scan[0]}"

    def _lease(self) -> str | None:
        wait = self._wait
        if wait is None:
            return None
        owner, left, heard = wait
        if time.monotonic() - heard > 1.0:  # the lease is free, and the run goes on
            return None
        return f"waiting for the lease of {owner} to run out: {max(1, round(left))} s"


class _Listener(logging.Handler):
    """Hears how far scans are, which are told in the log."""

    def __init__(self, progress: Progress) -> None:
        super().__init__(INFO)
        self._progress = progress
        self._level = logging.NOTSET

    def start(self) -> None:
        """Listen, whatever the level of other records."""
        logger = logging.getLogger(SCANS)
        self._level = logger.level
        logger.setLevel(INFO)
        logger.addHandler(self)

    def stop(self) -> None:
        """Listen no more."""
        logger = logging.getLogger(SCANS)
        logger.removeHandler(self)
        logger.setLevel(self._level)

    def emit(self, record: logging.LogRecord) -> None:
        """Pass it on."""
        self._progress.scanned(record.getMessage())


def _elapsed(seconds: float) -> str:
    return f"{int(seconds)} s" if seconds < 60 else lasted(seconds * 1000)


def owner_name(owner: str | None) -> str:
    """HOST/PID out of the name under which a lease is held."""
    return "/".join((owner or "another process").split("/")[:2])
