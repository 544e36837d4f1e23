"""The workers of a storm: so many processes at any time, each of which may be killed or frozen."""

from __future__ import annotations

import random
import select
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from jumar.testing.chaos_app import Terms
from jumar.testing.chaos_worker import command

_SECONDS_TO_END = 30.0


class Worker:
    """One process."""

    def __init__(self, terms: Terms) -> None:
        with Path(terms.folder, "workers.log").open("ab") as log:
            self._process = subprocess.Popen(
                command(terms), cwd=terms.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        assert self._process.stdout is not None
        self.told = self._process.stdout
        self.begun = False
        self.frozen = False
        self._timer: threading.Timer | None = None

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None while it goes on."""
        return self._process.poll()

    def send(self, what: signal.Signals) -> None:
        """Send a signal; nothing where it has ended."""
        self._process.send_signal(what)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.frozen = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        self._process.kill()
        self._process.wait()
        self.told.close()

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT so much later: by a thread of its own, as all others may be waiting for a lock that this
        process has.
        """
        self.frozen = True
        self.send(signal.SIGSTOP)
        self._timer = threading.Timer(seconds, self.thaw)
        self._timer.daemon = True
        self._timer.start()

    def thaw(self) -> None:
        """SIGCONT; nothing where it is not frozen any more."""
        if self.frozen:
            self.frozen = False
            self.send(signal.SIGCONT)

    def end(self, seconds: float) -> int | None:
        """Wait for it to end by itself; None where it does not."""
        try:
            return self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None


class Fleet:
    """So many workers; one that dies has another take its place."""

    def __init__(self, terms: Terms, size: int) -> None:
        self._terms = terms
        self.problems: list[str] = []
        self.workers = [Worker(terms) for _ in range(size)]

    def assemble(self) -> None:
        """Wait until all have begun, or some time has passed in vain."""
        until = time.monotonic() + _SECONDS_TO_END
        while not all(worker.begun for worker in self.workers) and time.monotonic() < until:
            self.wait(1.0)

    def wait(self, seconds: float) -> None:
        """Wait until a worker has told that it has begun, or ended, or so many seconds have passed; see to it that
        there are as many as there should be.
        """
        ready, _, _ = (
            select.select([each.told for each in self.workers], [], [], seconds) if self.workers else ([],) * 3
        )
        for worker in [each for each in self.workers if each.told in ready]:
            if worker.told.readline():
                worker.begun = True
                continue
            code = worker.end(_SECONDS_TO_END)
            self.problems.append(f"a worker ended by itself, with exit code {code}: {_last_line(self._terms)}")
            self._replace(worker)

    def kill(self, luck: random.Random) -> bool:
        """Kill one that has begun, be it frozen or not; whether there was any."""
        able = [each for each in self.workers if each.begun]
        if not able:
            return False
        self._replace(luck.choice(able))
        return True

    def freeze(self, luck: random.Random, seconds: float) -> bool:
        """Freeze one that has begun for so long, unless it is the last that goes on; whether there was any."""
        able = [each for each in self.workers if each.begun and not each.frozen]
        if len(able) < 2:
            return False
        luck.choice(able).freeze(seconds)
        return True

    def thaw_all(self) -> None:
        """Let them all go on."""
        for worker in self.workers:
            worker.thaw()

    def dismiss(self) -> None:
        """Tell them all to stop, and wait until they have."""
        until = time.monotonic() + _SECONDS_TO_END
        self.thaw_all()
        for worker in self.workers:
            worker.send(signal.SIGTERM)
        for worker in self.workers:
            if (code := worker.end(until - time.monotonic())) != 0:
                self.problems.append(f"a worker that was told to stop ended with {code}")

    def _replace(self, worker: Worker) -> None:
        worker.kill()
        self.workers[self.workers.index(worker)] = Worker(self._terms)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.kill()


def _last_line(terms: Terms) -> str:
    """The last that the workers printed."""
    lines = Path(terms.folder, "workers.log").read_text(errors="replace").splitlines()
    return lines[-1] if lines else "none has printed anything"
