"""One process of a sweep: it starts the run or takes it over, and drives it until it ends, or until it dies.

It is killed by its own hand, at the very point it was told, so that the same point means the same moment each time.

Nobody waits for time here.  This process's clocks, the lease clock and the wall clock of Jumar, run ahead of the real
ones: by the time that is left on a dead process's lease when a run is taken over, by a wait that the run is left for,
and by each pause that a flow makes in place.  As a pause passes in no time, the lease is renewed within it as often
as the lease keeper would have done.  Only pauses too short to matter are made, since those wait for something else
than time.  The clock never goes back: a later process is told how far ahead it was.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import traceback
from typing import Any

from jumar.core.requests import Request, Sleep
from jumar.core.verdicts import Happened, NotHappened
from jumar.errors import JumarError, NotStorable, RunNotFound, UsageError
from jumar.harness.harness import Harness
from jumar.harness.results import RunInfo, RunResult
from jumar.stores import clock as real
from jumar.stores.opening import open_store
from jumar.testing.crash import World, inhabit
from jumar.testing.crash_clock import put
from jumar.testing.restarts_app import load
from jumar.testing.restarts_line import (
    Aim,
    Answer,
    Answers,
    Broke,
    Done,
    Moved,
    Orders,
    Passed,
    Told,
    Waits,
    decode_answers,
    decode_orders,
    encode,
)

_SHORT, _FOREVER = 0.1, 3600.0  # seconds: pauses outside of these wait for something else than time
_LEFT_ALONE = ("COMPLETED", "FAILED", "CANCELLED", "PAUSED")
_BY = "restart_sweep"


def main() -> None:
    """Do as the orders on standard input say."""
    line = Line()
    try:
        _live(line)
        line.tell(Done())
    except JumarError as error:
        line.tell(Broke(type(error).__name__, error.what, error.safe, error.hint))
    except BaseException as error:
        traceback.print_exc()
        line.tell(Broke(type(error).__name__, str(error)))


class Line:
    """This process's end: orders and answers come in on standard input, all else goes out on a pipe of its own.

    When standard input ends, whoever started this process is gone, and it ends too.
    """

    def __init__(self) -> None:
        self._heard = os.fdopen(os.dup(0), "rb")
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - pathlib has no null device
            os.dup2(nothing.fileno(), 0)
        self.orders: Orders = decode_orders.decode(self._heard.readline())
        os.set_inheritable(self.orders.line, False)
        self._telling = threading.Lock()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="restarts", daemon=True).start()

    def _listen(self) -> None:
        for said in self._heard:
            self._answers.put(said)
        os._exit(1)

    def tell(self, told: Told) -> None:
        """Tell the sweep something."""
        data = memoryview(encode(told) + b"\n")
        with self._telling:
            while data:
                data = data[os.write(self.orders.line, data) :]

    def ask(self, waits: Waits) -> Answers:
        """Tell what is asked, and wait for the answers."""
        self.tell(waits)
        return decode_answers.decode(self._answers.get())


class Ahead:
    """The lease clock and the wall clock, ahead of the real ones."""

    def __init__(self, line: Line) -> None:
        self.ms = line.orders.ahead_ms
        self._line = line
        self._lease, self._lease_ns, self._wall = real.lease_ms, real.lease_ns, real.wall_ms
        self._server = _server_clock(line.orders.store)
        put("lease_ms", self._lease, self.lease_ms)
        put("lease_ns", self._lease_ns, self.lease_ns)
        put("wall_ms", self._wall, self.wall_ms)

    def lease_ms(self) -> int:
        """What the lease clock shows."""
        return self._lease() + self.ms

    def lease_ns(self) -> int:
        """The same, in nanoseconds."""
        return self._lease_ns() + self.ms * 1_000_000

    def wall_ms(self) -> int:
        """What the wall clock shows."""
        return self._wall() + self.ms

    def move(self, seconds: float) -> None:
        """Let so many seconds pass, rounded up to a millisecond."""
        passed = max(0, -int(-seconds * 1000 // 1))
        ahead = self.ms + passed
        self._line.tell(Moved(ahead))  # first: what is written by the moved clock must never be ahead of the next one
        self.ms = ahead
        if self._server is not None:
            self._server.move(passed)


def _server_clock(address: str) -> Any:
    """The clock of a store on a server, whose leases no clock of this host's decides; None where there is none."""
    if not address.startswith(("postgresql://", "postgres://")):
        return None
    from jumar.testing.postgres_clock import MovedClock

    open_store(address).close()
    return MovedClock(address, stopped=False)


class Doomed(World):
    """A world that tells its points, and that ends with its process."""

    def __init__(self, line: Line, clock: Ahead, harness: Harness) -> None:
        super().__init__()
        self._line = line
        self._ahead = clock
        self._harness = harness
        self._aim = Aim(line.orders.kill)
        self._renew_after = harness._settings.lease_ttl / 3
        self._passed = 0.0  # seconds since the leases were renewed last

    def before(self, request: Request[Any]) -> None:
        """As in every world, but that time flies."""
        self._pass("before", request)
        if type(request) is Sleep and _SHORT <= request.seconds < _FOREVER:
            self._let_pass(request.seconds)
            request.seconds = 0.0

    def _let_pass(self, seconds: float) -> None:
        while seconds > 0:
            step = min(seconds, self._renew_after - self._passed)
            self._ahead.move(step)
            seconds -= step
            self._passed += step
            if self._passed >= self._renew_after:
                self._passed = 0.0
                operations = self._harness._operations
                assert operations is not None
                operations._engine.leases.renew_all()

    def _is_here(self) -> bool:
        self._line.tell(Passed(self.trail[-1]))
        return self._aim.hits(self.trail[-1])

    def _reached(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def _live(line: Line) -> None:
    sys.argv = [sys.executable]
    orders, clock = line.orders, Ahead(line)
    harness, agent = load(orders.app)
    with harness.override(store=orders.store):
        inhabit(harness, Doomed(line, clock, harness))
        result = _started_or_taken_over(harness, agent, orders, clock)
        while result is not None and result.status == "WAITING":
            if not _answered(harness, result, line):
                if result.wake_at is None:
                    return
                clock.move((result.wake_at - clock.wall_ms()) / 1000)
            result = harness.resume(orders.run_id)


def _started_or_taken_over(harness: Harness, agent: str, orders: Orders, clock: Ahead) -> RunResult[Any] | None:
    """The run as it stands after it was driven; None where there was nothing left to drive."""
    run = _found(harness, orders.run_id)
    if run is None:
        return harness.run(agent, _typed(harness, agent, orders), run_id=orders.run_id)
    if run.status in _LEFT_ALONE:
        return None
    if run.lease_seconds is not None:  # what held it is dead, and whoever comes next waits for this
        clock.move(run.lease_seconds + 0.001)
    return harness.resume(orders.run_id)


def _found(harness: Harness, run_id: str) -> RunInfo | None:
    try:
        return harness.show(run_id).run
    except RunNotFound:
        return None


def _typed(harness: Harness, agent: str, orders: Orders) -> Any:
    try:
        return harness._agent(agent).plan.input_codec.decode(bytes(orders.input))
    except NotStorable as error:
        raise UsageError(f"the input does not fit agent {agent}: {error.what}") from error


def _answered(harness: Harness, result: RunResult[Any], line: Line) -> bool:
    """Whether something was asked and is answered now.  A call of which the probe has said that it did not happen needs
    nobody: the run goes on by itself once that is certain.
    """
    asked = tuple(waiting for waiting in result.waiting_on if not waiting.needs_nobody(result.wake_at))
    if not asked:
        return False
    answers = line.ask(Waits(asked)).answers
    for answer in answers:
        _give(harness, result.run_id, answer)
    return bool(answers)


def _give(harness: Any, run_id: str, answer: Answer) -> None:
    if answer.verdict == "happened":
        harness.resolve(run_id, answer.call_id, Happened(answer.value), by=_BY)
    elif answer.verdict == "not-happened":
        harness.resolve(run_id, answer.call_id, NotHappened(), by=_BY)
    elif answer.verdict == "value":
        harness.answer(run_id, answer.call_id, answer.value, by=_BY)
    else:  # approve or reject
        getattr(harness, answer.verdict)(run_id, answer.call_id, by=_BY)
