"""Group commit: leader and followers.

Flushing to disk is most of what a commit costs, and one flush serves any number of changes.  A lone change commits
directly in its own thread.  While a commit is on its way to disk, the changes that arrive wait, and the first of them
to wake leads them all into the next commit.  Under asyncio, the arrivals of one tick of the loop go together: the
first schedules a flush at the tick's end, which leads whatever is waiting by then.

Three rules keep this free of hangs.  A flush that is merely scheduled does not lead: a blocking submit on the loop's
own thread takes the queued changes along instead of waiting for a callback that it keeps from running.  A loop's
thread never waits for another process's lock: a flush that finds the database busy, the disk slow, or the outcome of
its commit unknown, goes on in a thread of its own.  And whoever leads passes the lead on whatever happens to it: the
lead is held in a thread's name, so that a thread interrupted anywhere can see whether it has it, and it is given away
in one assignment, after everything else that passing it on takes.

A run's advances are given their versions here, in the order in which they are queued; so only another process can
make one stale.  An advance that has its version therefore stays in the queue even where the thread that waited for it
was interrupted: without it all that are queued behind it would be stale.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from threading import Lock, Thread, get_ident
from typing import Any, Protocol

from msgspec.structs import replace

from jumar.core.changes import Advance, Change, Outcome, Refusal
from jumar.core.requests import Lane
from jumar.core.store import CommitUnknown, Store
from jumar.errors import StoreBusy, StoreError

_SLOW_SECONDS = 0.01  # a commit longer than this is no longer made on an event loop's thread
_ON_ITS_WAY = -1  # leads: a thread that is just being started
_ATTEMPTS = 3  # of a change whose commit had an unknown outcome and turns out not to have landed


class Loop(Protocol):
    """What is needed of an asyncio event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> Any: ...
    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any) -> Any: ...
    def is_closed(self) -> bool: ...


class _Ticket:
    """One change in the queue, and where its answer goes: a gate that a thread waits at, or a future of a loop."""

    __slots__ = ("answer", "change", "future", "gate", "loop", "numbered", "settled", "thread", "unknown")

    def __init__(self, change: Change, loop: Loop | None = None, future: Any = None) -> None:
        self.change = change
        self.loop = loop
        self.future = future
        self.gate: Lock | None = None
        self.thread = 0  # that waits at the gate
        self.answer: Outcome | BaseException | None = None
        self.settled = False
        self.numbered = False  # whether its run's later changes count on it
        self.unknown = False  # whether its commit's outcome has to be read back

    def resolve_future(self) -> None:
        if self.future.done():
            return
        if isinstance(self.answer, BaseException):
            self.future.set_exception(self.answer)
        else:
            self.future.set_result(self.answer)


class CommitQueue:
    """All writing of one process to one store passes here."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._pending: list[_Ticket] = []
        self._leader = 0  # the thread that commits just now
        self._scheduled: set[Loop] = set()
        self._slow = False

    def submit(self, change: Change, lane: Lane | None = None) -> Outcome:
        """Commit a change, from any thread, and answer once it is on disk or refused."""
        me = get_ident()
        ticket: _Ticket | None = None
        try:
            with self._lock:
                if self._leader or self._pending:
                    ticket = _Ticket(change)
                    if self._leader:
                        ticket.thread, ticket.gate = me, Lock()
                        ticket.gate.acquire()
                    self._append(ticket, lane)
                else:
                    change = _numbered(change, lane)
                if not self._leader:
                    self._leader = me
            if ticket is None:
                return self._commit_alone(change, me)
            if ticket.gate is not None:
                ticket.gate.acquire()
            if not ticket.settled:
                self._lead(None)
            return _given(ticket.answer)
        except BaseException:
            self._step_down(me, ticket)
            raise

    def submit_async(self, change: Change, lane: Lane | None, loop: Loop, future: Any) -> None:
        """Queue a change from a loop's own thread; its future answers once the change is on disk or refused."""
        with self._lock:
            self._append(_Ticket(change, loop, future), lane)
            schedule = loop not in self._scheduled
            if schedule:
                self._scheduled.add(loop)
        if schedule:
            loop.call_soon(self._flush, loop)

    def _append(self, ticket: _Ticket, lane: Lane | None) -> None:
        """Queue a change under its run's next version; called with the queue locked.

        No interrupt can come between the last two statements: what is counted is queued.
        """
        if lane is None or not isinstance(ticket.change, Advance):
            self._pending.append(ticket)
            return
        ticket.change = replace(ticket.change, version=lane.version)
        ticket.numbered = True
        lane.version += 1
        self._pending.append(ticket)

    def _commit_alone(self, change: Change, me: int) -> Outcome:
        """Commit the one change there is, in the thread that made it."""
        try:
            return _given(self._store.write((change,))[0])
        except CommitUnknown:
            return _given(self._settle(change))
        finally:
            self._pass_on(me)

    def _step_down(self, me: int, ticket: _Ticket | None) -> None:
        """A submit ended in an error or was interrupted: its change leaves the queue where it still waits there, or,
        where it has its run's next version, stays without anybody to be told; its lead is passed on where it still
        has it.
        """
        with self._lock:
            if ticket is not None and ticket in self._pending:
                if ticket.numbered:
                    ticket.gate = None
                else:
                    self._pending.remove(ticket)
        self._pass_on(me)

    def _flush(self, loop: Loop) -> None:
        """Lead what this loop's tick has queued, unless a leader is under way, who then calls again."""
        me = get_ident()
        try:
            with self._lock:
                self._scheduled.discard(loop)
                if self._leader or not self._pending:
                    return
                self._leader = me
            if self._slow:
                self._hand_over()
            else:
                self._lead(loop)
        except BaseException:
            self._step_down(me, None)
            raise

    def _lead(self, on_loop: Loop | None) -> None:
        """Commit all that is pending; on a loop's thread, without waiting for other processes."""
        batch: list[_Ticket] = []
        try:
            with self._lock:
                batch, self._pending = self._pending, []
            answers = self._written(batch, on_loop is None)
            if answers is not None:
                _deliver(batch, answers, on_loop)
            else:
                with self._lock:
                    batch, self._pending = [], batch + self._pending
                self._hand_over()
        except BaseException:
            # Interrupted on the way: what became of the batch is read back, so that all in it get a true answer.
            _deliver(
                batch, [ticket.answer if ticket.settled else self._settle(ticket.change) for ticket in batch], None
            )
            raise
        finally:
            self._pass_on(get_ident())

    def _written(self, batch: list[_Ticket], may_wait: bool) -> list[Any] | None:
        """The answers to a batch; None where they have to be waited for, and this thread may not."""
        if any(ticket.unknown for ticket in batch):
            return [self._settle(ticket.change) for ticket in batch]
        began = time.perf_counter()
        try:
            return self._store.write([ticket.change for ticket in batch], wait=may_wait)
        except StoreBusy as busy:
            return _each(busy, batch) if may_wait else None
        except CommitUnknown:
            if may_wait:
                return [self._settle(ticket.change) for ticket in batch]
            for ticket in batch:
                ticket.unknown = True
            return None
        except Exception as error:
            return _each(error, batch)
        finally:
            self._slow = time.perf_counter() - began > _SLOW_SECONDS

    def _hand_over(self) -> None:
        """Go on with what is pending in a thread that may wait; where none can be started, in this one after all.  An
        interrupt gives the lead back to this thread, unless the other has taken it up.
        """
        thread = Thread(target=self._take_up, name="jumar-commit", daemon=True)
        me = get_ident()
        try:
            with self._lock:
                self._leader = _ON_ITS_WAY
            thread.start()
        except BaseException as error:
            with self._lock:
                if self._leader == _ON_ITS_WAY:
                    self._leader = me
                back = self._leader == me
            if not back or not isinstance(error, RuntimeError):
                raise
            self._lead(None)

    def _take_up(self) -> None:
        with self._lock:
            if self._leader != _ON_ITS_WAY:
                return
            self._leader = get_ident()
        self._lead(None)

    def _pass_on(self, me: int) -> None:
        """Hand the lead, where this thread has it, to the first waiting thread, else to a loop, else to nobody; to a
        new thread where all that is left are changes whose threads were interrupted.

        Whoever is interrupted here before the lead is given away still has it, and passes it on once more.
        """
        with self._lock:
            if self._leader != me:
                return
            if not self._pending:
                self._leader = 0
                return
            self._pending = [ticket for ticket in self._pending if ticket.loop is None or not ticket.loop.is_closed()]
            heir = next((ticket for ticket in self._pending if ticket.gate is not None), None)
            if heir is not None and heir.gate is not None:
                self._leader = heir.thread
                heir.gate.release()
                return
            loops = {ticket.loop for ticket in self._pending if ticket.loop is not None}
            if loops or not self._pending:
                self._scheduled |= loops
                for loop in loops:
                    _call(loop, self._flush, loop)
                self._leader = 0
                return
        self._hand_over()

    def _settle(self, change: Change) -> Outcome | Exception:
        """The answer for a change whose commit had an unknown outcome: read back, and made again where it did not
        land.
        """
        try:
            for _ in range(_ATTEMPTS):
                landed = self._store.read_back(change)
                if landed is not None:
                    return landed
                try:
                    answer = self._store.write([change])[0]
                except CommitUnknown:
                    continue
                if isinstance(answer, Refusal):
                    # What refuses it may be its own first commit, visible only now.
                    return self._store.read_back(change) or answer
                return answer
        except Exception as error:
            return error
        return StoreError("the store did not say whether a change was made")


def _given(answer: Outcome | BaseException | None) -> Outcome:
    """A store's answer, raised where it is an error."""
    if isinstance(answer, BaseException):
        raise answer
    assert answer is not None
    return answer


def _each(error: Exception, batch: list[_Ticket]) -> list[Exception]:
    """An error for each of a batch, a copy for all but the first: raising it in several threads at once would mix up
    their tracebacks.
    """
    return [_copied(error) if place else error for place in range(len(batch))]


def _copied(error: Exception) -> Exception:
    try:
        own = copy(error)
    except Exception:
        return error  # one whose constructor takes something else than its arguments
    own.__cause__ = error.__cause__
    return own.with_traceback(error.__traceback__)


def _numbered(change: Change, lane: Lane | None) -> Change:
    """Give an advance the next version of its run; called with the queue locked, so that order and version agree."""
    if lane is None or not isinstance(change, Advance):
        return change
    numbered = replace(change, version=lane.version)
    lane.version += 1
    return numbered


def _deliver(batch: list[_Ticket], answers: list[Any], on_loop: Loop | None) -> None:
    """Give each ticket its answer; the futures of another loop are resolved with one call into it."""
    elsewhere: dict[Loop, list[_Ticket]] = {}
    for ticket, answer in zip(batch, answers, strict=True):
        ticket.answer = answer
        ticket.settled = True
        if ticket.gate is not None:
            if ticket.gate.locked():  # else told before, by a delivery that was interrupted
                ticket.gate.release()
        elif ticket.loop is None:
            continue  # the leader's own
        elif ticket.loop is on_loop:
            ticket.resolve_future()
        else:
            elsewhere.setdefault(ticket.loop, []).append(ticket)
    for loop, tickets in elsewhere.items():
        _call(loop, _resolve, tickets)


def _resolve(tickets: list[_Ticket]) -> None:
    for ticket in tickets:
        ticket.resolve_future()


def _call(loop: Loop, callback: Callable[..., object], argument: Any) -> None:
    try:
        loop.call_soon_threadsafe(callback, argument)
    except RuntimeError:
        # The loop was closed meanwhile: nobody waits there any more.
        if not loop.is_closed():
            raise
