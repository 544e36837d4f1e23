"""Real processes that a test starts, talks with, freezes, thaws and kills.

They are forked from a server that has everything imported already, so that one costs milliseconds.  A worker and
its test talk over a pipe: the worker `tell`s where it is, and waits with `pause` until the test lets it go on from
there.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest

from jumar.errors import JumarError

PATIENCE = 60.0  # seconds after which something that should have come is taken not to come at all

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.concurrency.workers", "tests.crash.agents", "jumar.engine.drivers.aio"])


class Line:
    """The worker's end of the pipe.  Several of its threads may use it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._heard: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._event(self._connection.recv()).set()

    def _event(self, word: str) -> threading.Event:
        with self._lock:
            return self._heard.setdefault(word, threading.Event())

    def tell(self, word: str) -> None:
        """Tell the test something."""
        with self._sending:
            self._connection.send(word)

    def pause(self, word: str) -> None:
        """Tell the test that this point is reached, and wait until it says the same word."""
        self.tell(word)
        assert self._event(word).wait(PATIENCE), f"nobody let this worker go on from {word!r}"


class Worker:
    """A process that runs `body(line, *args)`; what it returns, or the error it ends with, is told last."""

    def __init__(self, body: Callable[..., str | None], *args: Any) -> None:
        self._connection, theirs = _context.Pipe()
        self._process = _context.Process(target=_work, args=(theirs, body, args), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process.pid is not None
        return self._process.pid

    def hear(self) -> str | None:
        """The next word the worker tells; None where it is dead and has told everything."""
        assert self._connection.poll(PATIENCE), "the worker said nothing"
        try:
            word: str = self._connection.recv()
            return word
        except (EOFError, ConnectionResetError):
            return None

    def expect(self, *words: str) -> None:
        """The worker tells these words next, in any order."""
        heard = [self.hear() for _ in words]
        assert sorted(map(str, heard)) == sorted(words)

    def let_go(self, *words: str) -> None:
        """Let the worker go on from where it told these words."""
        for word in words:
            self._connection.send(word)

    def kill(self) -> None:
        """SIGKILL, and wait until it is dead."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.join(PATIENCE)
        assert self._process.exitcode == -signal.SIGKILL

    def freeze(self) -> None:
        """SIGSTOP, and wait until the kernel has stopped it."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def ends(self) -> str:
        """How the worker ended: what it returned, or the name of its error."""
        word = self.hear()
        assert word is not None, "the worker died"
        self._process.join(PATIENCE)
        return word

    def end(self) -> None:
        """Make sure that nothing is left of the worker."""
        if self._process.is_alive():
            os.kill(self.pid, signal.SIGKILL)
        self._process.join(PATIENCE)
        self._connection.close()


def _work(connection: Connection, body: Callable[..., str | None], args: tuple[Any, ...]) -> None:
    line = Line(connection)
    try:
        word = body(line, *args) or "done"
    except JumarError as error:
        word = type(error).__name__
    line.tell(word)


@pytest.fixture
def start() -> Iterator[Callable[..., Worker]]:
    """Starts workers, and ends those that are left when the test is over."""
    workers: list[Worker] = []

    def start(body: Callable[..., str | None], *args: Any) -> Worker:
        workers.append(Worker(body, *args))
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()
