"""A place in the queue of commits, and how its answer gets to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from threading import Lock
from time import perf_counter
from typing import Any, Protocol

from jumar.core.changes import Ack, Advance, Change, Outcome
from jumar.core.requests import Lane, Told, Written
from jumar.core.store import CommitUnknown
from jumar.errors import StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable

REACHED = Ack(0, 0, 0)  # the answer to a place without a change
_ROW_BYTES = 256  # of a row, beside what it holds


class Loop(Protocol):
    """What is needed of an asyncio event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Any: ...
    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> Any: ...
    def is_closed(self) -> bool: ...


class Ticket:
    """One change in the queue, and where its answer goes: a gate that a thread waits at, a future of a loop, or, of a
    hot change that nobody waits for, only whoever is `told`.  Without a change it marks a place in the queue.
    """

    __slots__ = (
        "abandoned",
        "accepted",
        "answer",
        "at",
        "change",
        "counted",
        "future",
        "gate",
        "lane",
        "loop",
        "numbered",
        "retries",
        "settled",
        "size",
        "thread",
        "told",
        "unknown",
    )

    def __init__(
        self,
        change: Change | None,
        lane: Lane | None,
        loop: Loop | None = None,
        future: Any = None,
        told: Told | None = None,
    ) -> None:
        self.change = change
        self.lane = lane
        self.loop = loop
        self.future = future
        self.told = told  # of a hot change
        self.gate: Lock | None = None
        self.thread = 0  # that waits at the gate
        self.answer: Outcome | BaseException | None = None
        self.settled = False
        self.numbered = False  # whether its run's later changes count on it
        self.unknown = False  # whether its commit's outcome has to be read back
        self.abandoned = False  # whether the thread that waited for it was interrupted
        self.counted = False  # whether it is one of the hot changes that are not on disk
        self.size = 0 if told is None or not isinstance(change, Advance) else size_of(change)
        self.retries = 0
        self.at = perf_counter()
        self.accepted = 0.0  # when a hot one was, where nobody waits for it

    def is_waited_for(self) -> bool:
        """Whether a thread or a loop waits for the answer."""
        return self.loop is not None or (self.thread != 0 and not self.abandoned)

    def close_gate(self, me: int) -> None:
        """Have this thread wait at a gate; it is the one whose change this is."""
        gate = Lock()
        gate.acquire()
        self.thread, self.gate = me, gate

    def resolve_future(self) -> None:
        """Answer the future, unless it is over."""
        if self.future.done():
            return
        if isinstance(self.answer, BaseException):
            self.future.set_exception(self.answer)
        else:
            self.future.set_result(self.answer)

    def tell(self) -> None:
        """Tell of a hot change what became of it, once."""
        told, self.told = self.told, None
        answer = self.answer
        if told is None or answer is None:
            return
        assert isinstance(answer, Exception) or not isinstance(answer, BaseException)
        now = perf_counter()
        told(answer, Written((self.accepted or now) - self.at, now - self.at, self.retries))


def size_of(change: Advance) -> int:
    """About how many bytes a change takes in memory: what its rows hold."""
    size = _ROW_BYTES
    for record in change.calls:
        size += _ROW_BYTES + len(record.args or b"") + len(record.result or b"")
    for each in change.changes:
        size += _ROW_BYTES + len(each.result or b"")
    for artifact in change.artifacts:
        size += _ROW_BYTES + len(artifact.data)
    return size


_PASSING = (StoreBusy, StoreFull, StoreReadOnly, StoreUnavailable, CommitUnknown)


def is_passing(answer: Any) -> bool:
    """Whether the store itself could not take a change just now, so that it may be tried again; not a change that it
    refuses, or that no store could take.
    """
    return isinstance(answer, _PASSING)


def given(answer: Outcome | BaseException | None) -> Outcome:
    """A store's answer, raised where it is an error."""
    if isinstance(answer, BaseException):
        raise answer
    assert answer is not None
    return answer


def for_each(error: Exception, batch: Sequence[Ticket]) -> list[Any]:
    """An error for each of a batch, a copy for all but the first: raising it in several threads at once would mix up
    their tracebacks.
    """
    return [copied(error) if place else error for place in range(len(batch))]


def copied(error: Exception) -> Exception:
    """The same error, to be raised by somebody else."""
    try:
        own = copy(error)
    except Exception:
        return error  # one whose constructor takes something else than its arguments
    own.__cause__ = error.__cause__
    return own.with_traceback(error.__traceback__)


def deliver(batch: Sequence[Ticket], answers: Sequence[Any], on_loop: Loop | None) -> None:
    """Give each ticket its answer; the futures of another loop are resolved with one call into it."""
    elsewhere: dict[Loop, list[Ticket]] = {}
    for ticket, answer in zip(batch, answers, strict=True):
        ticket.answer = answer
        ticket.settled = True
        if ticket.told is not None:
            ticket.tell()
        if ticket.gate is not None:
            if ticket.gate.locked():  # else told before, by a delivery that was interrupted
                ticket.gate.release()
        elif ticket.loop is None:
            continue  # the leader's own, or nobody's
        elif ticket.loop is on_loop:
            ticket.resolve_future()
        else:
            elsewhere.setdefault(ticket.loop, []).append(ticket)
    for loop, tickets in elsewhere.items():
        call_in(loop, _resolve, tickets)


def _resolve(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.resolve_future()


def call_in(loop: Loop, callback: Callable[..., object], argument: Any) -> None:
    """Have a loop call something; nothing where it was closed meanwhile: nobody waits there any more."""
    try:
        loop.call_soon_threadsafe(callback, argument)
    except RuntimeError:
        if not loop.is_closed():
            raise
