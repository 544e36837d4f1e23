"""A worker in a thread of the test's own process, whose every word can be waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Self

from jumar import Harness
from jumar.harness.working import WorkerEvent, WorkerReport

PATIENCE = 60.0  # seconds after which something that should have come is taken not to come at all
NEVER = 3000.0  # a poll so rare that whatever happens within a test was not found by it


class Working:
    """Works on a harness within the block, and lets go of everything at its end."""

    def __init__(self, harness: Harness, **options: Any) -> None:
        self._harness = harness
        self._options = {"poll": NEVER, "grace": PATIENCE, **options}
        self._events: SimpleQueue[WorkerEvent] = SimpleQueue()
        self.stop = threading.Event()
        self.heard: list[WorkerEvent] = []
        self.report: WorkerReport | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        self.report = self._harness.work(stop=self.stop, told=self._events.put, **self._options)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop.set()
        self._thread.join(PATIENCE)
        assert kind is not None or not self._thread.is_alive(), "the worker did not let go"

    def ended(self) -> WorkerReport:
        """Wait until it has ended, without telling it to."""
        self._thread.join(PATIENCE)
        assert self.report is not None, "the worker did not end"
        return self.report

    def hear(self, wanted: Callable[[WorkerEvent], bool]) -> WorkerEvent:
        """Wait until the worker tells such a thing; what it told before counts too."""
        for event in self.heard:
            if wanted(event):
                return event
        while True:
            try:
                event = self._events.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError(f"the worker told no such thing, but {self.heard}") from None
            self.heard.append(event)
            if wanted(event):
                return event

    def left(self, run_id: str, status: str) -> Any:
        """Wait until a run was left in this status; answers its result."""
        return self.hear(
            lambda event: event.run_id == run_id and event.result is not None and event.result.status == status
        ).result

    def told(self, what: str, run_id: str = "") -> WorkerEvent:
        """Wait until this was told of a run, or of the worker itself."""
        return self.hear(lambda event: (event.what, event.run_id) == (what, run_id))


class Gate:
    """Where a body waits until the test lets it go on."""

    def __init__(self) -> None:
        self._reached = threading.Semaphore(0)
        self._open = threading.Event()

    def pause(self) -> None:
        """Called by the body."""
        self._reached.release()
        assert self._open.wait(PATIENCE), "nobody let this body go on"

    def reached(self, times: int = 1) -> None:
        """Wait until bodies have come here so many times."""
        for _ in range(times):
            assert self._reached.acquire(timeout=PATIENCE), "no body came here"

    def open(self) -> None:
        """Let go on who waits, and whoever comes."""
        self._open.set()
