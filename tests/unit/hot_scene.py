"""What the tests of hot changes share: a run that makes them, and stores that hold or fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from jumar.core.changes import Ack, Advance, Outcome
from jumar.core.records import RunRecord
from jumar.core.requests import Lane, Written
from jumar.errors import StoreBusy
from jumar.stores.commits import CommitQueue
from jumar.testing.conformance_scene import Scene, call
from tests.conformance.wrapping import Watched

SOON = 60.0


class Hot:
    """A run whose advances are hot, and what was told of them."""

    def __init__(self, queue: CommitQueue, scene: Scene, run: RunRecord | None = None, *, trusted: bool = True) -> None:
        self.queue, self.scene = queue, scene
        self.run = scene.running() if run is None else run
        self.is_trusted = trusted
        self.lane = Lane(self.run.version, lambda: self.is_trusted)
        self.told: list[Outcome | Exception] = []
        self.times: list[Written] = []
        self.tells = threading.Condition()

    def next(self, **fields: Any) -> Advance:
        return self.scene.advance(self.run, calls=(call(self.lane.version + 1),), **fields)

    def write(self, change: Advance | None = None) -> Outcome:
        return self.queue.submit_hot(change or self.next(), self.lane, self.tell)

    def tell(self, outcome: Outcome | Exception, written: Written) -> None:
        with self.tells:
            self.told.append(outcome)
            self.times.append(written)
            self.tells.notify_all()

    def told_of(self, count: int) -> list[Outcome | Exception]:
        """What was told, once it is so much."""
        with self.tells:
            assert self.tells.wait_for(lambda: len(self.told) >= count, SOON)
            return list(self.told)

    def ack(self, version: int) -> Ack:
        return Ack(self.run.run_no, version, 1)

    def version(self) -> int:
        return self.scene.again(self.run).version


class Held:
    """Holds every write until it is let go."""

    def __init__(self, store: Watched) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        store.before = self

    def __call__(self, changes: Any, wait: bool) -> None:
        self.reached.set()
        assert self.go.wait(SOON)


class Failing:
    """The store takes nothing until it is mended; it says when it was asked so often."""

    def __init__(self, store: Watched, error: Callable[[], Exception]) -> None:
        self.error = error
        self.is_mended = False
        self.asked = 0
        self.asks = threading.Condition()
        store.before = self

    def __call__(self, changes: Any, wait: bool) -> None:
        if self.is_mended:
            return
        with self.asks:
            self.asked += 1
            self.asks.notify_all()
        raise self.error()

    def failed(self, times: int) -> None:
        """Go on once it has failed so often."""
        with self.asks:
            assert self.asks.wait_for(lambda: self.asked >= times, SOON)


class FailingFor(Failing):
    """The store takes nothing of one run: as stores do, it takes a batch apart, and the rest of it is made."""

    def __init__(self, store: Watched, error: Callable[[], Exception], run: RunRecord) -> None:
        super().__init__(store, error)
        self.run, self.real = run, store.store.write
        store.before = None
        inner: Any = store.store
        inner.write = self.write

    def write(self, changes: Any, *, wait: bool = True) -> Any:
        failing = [getattr(change, "run_no", 0) == self.run.run_no for change in changes]
        if self.is_mended or not any(failing):
            return self.real(changes, wait=wait)
        rest = [change for change, fails in zip(changes, failing, strict=True) if not fails]
        answers = iter(self.real(rest, wait=wait) if rest else [])
        told = [self.error() if fails else next(answers) for fails in failing]
        with self.asks:
            self.asked += 1
            self.asks.notify_all()
        return told


def locked() -> Exception:
    return StoreBusy("others kept it locked")


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Do it in a thread; answers what asks for its end."""
    came: list[Any] = []

    def run() -> None:
        try:
            came.append(work())
        except BaseException as error:
            came.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def ended() -> Any:
        thread.join(SOON)
        assert not thread.is_alive(), "a thread hangs"
        return came[0]

    return ended


def until(holds: Callable[[], bool]) -> None:
    """For what gives no signal: look until it is so."""
    give_up = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.001)
