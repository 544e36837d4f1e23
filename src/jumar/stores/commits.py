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

Hot changes, which nobody waits for, are in the same queue: see `behind`.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread, get_ident
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from jumar.core.changes import Ack, Advance, Change, Outcome, Refusal
from jumar.core.requests import Lane, Told
from jumar.core.store import CommitUnknown, Store
from jumar.errors import StoreBusy, StoreUnavailable
from jumar.stores.behind import Note, WriteBehind, nobody
from jumar.stores.tickets import REACHED, Loop, Ticket, call_in, deliver, for_each, given

_SLOW_SECONDS = 0.01  # a commit longer than this is no longer made on an event loop's thread
_ON_ITS_WAY = -1  # leads: a thread that is just being started
_ATTEMPTS = 3  # of a change whose commit had an unknown outcome and turns out not to have landed


class CommitQueue(WriteBehind):
    """All writing of one process to one store passes here."""

    def __init__(self, store: Store, note: Note = nobody) -> None:
        super().__init__(note)
        self._store = store
        self._scheduled: set[Loop] = set()
        self._slow = False

    # --- Queueing. ---

    def submit(self, change: Change, lane: Lane | None = None) -> Outcome:
        """Commit a change, from any thread, and answer once it is on disk or refused."""
        me = get_ident()
        ticket: Ticket | None = None
        try:
            with self._lock:
                if self._leader or self._pending or self._held:
                    ticket = Ticket(change, lane)
                    self._line_up(ticket, me)
                else:
                    change = _numbered(change, lane)
                    self._leader = me
            if ticket is None:
                return self._commit_alone(change, me)
            return self._waited_for(ticket)
        except BaseException:
            self._step_down(me, ticket)
            raise

    def submit_async(self, change: Change | None, lane: Lane | None, loop: Loop, future: Any) -> None:
        """Queue a change from a loop's own thread; its future answers once the change is on disk or refused."""
        self._queue_on(loop, Ticket(change, lane, loop, future))

    def submit_hot(self, change: Advance, lane: Lane, told: Told) -> Outcome:
        """Queue a change that is not waited for, from any thread.  Where there is no room for it, it is."""
        ack = self._accepted(change, lane, told)
        return self._submitted(Ticket(change, lane, told=told)) if ack is None else ack

    def submit_hot_async(self, change: Advance, lane: Lane, loop: Loop, future: Any, told: Told) -> Ack | None:
        """The same from a loop's own thread; None where there is no room for it: then the future answers."""
        ack = self._accepted(change, lane, told)
        if ack is None:
            self._queue_on(loop, Ticket(change, lane, loop, future, told))
        return ack

    def flush(self, lane: Lane | None) -> None:
        """Wait until what is queued now is on disk, but for what is held back of other runs; of this one it is waited
        for while its lease may be trusted, after which the store's error is raised.
        """
        if not self.is_idle():
            self._submitted(Ticket(None, lane))

    def is_idle(self) -> bool:
        """Whether nothing is on its way."""
        return not (self._leader or self._pending or self._held)

    def _submitted(self, ticket: Ticket) -> Outcome:
        """Wait for a ticket that is not queued yet."""
        me = get_ident()
        try:
            with self._lock:
                self._line_up(ticket, me)
            return self._waited_for(ticket)
        except BaseException:
            self._step_down(me, ticket)
            raise

    def _line_up(self, ticket: Ticket, me: int) -> None:
        """Queue a ticket that this thread waits for, and lead where nobody does; called with the queue locked."""
        if self._leader or self._is_held(ticket.lane):
            ticket.close_gate(me)
        ticket.thread = me
        self._append(ticket)
        if ticket.gate is None:
            self._leader = me

    def _waited_for(self, ticket: Ticket) -> Outcome:
        while not ticket.settled:
            if ticket.gate is not None:
                ticket.gate.acquire()
            if not ticket.settled:
                self._lead(None)
        return given(ticket.answer)

    def _queue_on(self, loop: Loop, ticket: Ticket) -> None:
        with self._lock:
            self._append(ticket)
            schedule = loop not in self._scheduled
            if schedule:
                self._scheduled.add(loop)
        if schedule:
            loop.call_soon(self._flush, loop)

    def _append(self, ticket: Ticket) -> None:
        """Queue a change under its run's next version; called with the queue locked.

        No interrupt can come between the last statements: what is counted is queued.
        """
        lane = ticket.lane
        queue = self._held if self._is_held(lane) else self._pending
        if lane is None or not isinstance(ticket.change, Advance):
            queue.append(ticket)
            return
        ticket.change = replace(ticket.change, version=lane.version)
        ticket.numbered = True
        lane.version += 1
        if ticket.told is not None:
            ticket.counted = True
            self._hot += 1
            self._hot_bytes += ticket.size
        queue.append(ticket)

    def _is_held(self, lane: Lane | None) -> bool:
        """Whether something of this run is held back, so that what comes after it waits there too."""
        return bool(self._held) and lane is not None and any(each.lane is lane for each in self._held)

    # --- Leading. ---

    def _commit_alone(self, change: Change, me: int) -> Outcome:
        """Commit the one change there is, in the thread that made it."""
        try:
            began = perf_counter()
            answer = self._store.write((change,))[0]
            self._tally.alone(perf_counter() - began)
            return given(answer)
        except CommitUnknown:
            return given(self._settle(change))
        finally:
            self._pass_on(me)

    def _step_down(self, me: int, ticket: Ticket | None) -> None:
        """A submit ended in an error or was interrupted: its change leaves the queue where it still waits there, or,
        where it has its run's next version, stays without anybody to be told; its lead is passed on where it still
        has it.
        """
        with self._lock:
            if ticket is not None:
                ticket.abandoned = True
                for queue in (self._pending, self._held):
                    if ticket in queue:
                        if ticket.numbered:
                            ticket.gate = None
                        else:
                            queue.remove(ticket)
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
        batch: list[Ticket] = []
        try:
            with self._lock:
                batch, self._pending = self._pending, []
            answers = self._written(batch, on_loop is None)
            if answers is not None:
                self._answer(batch, answers, on_loop)
            else:
                with self._lock:
                    batch, self._pending = [], batch + self._pending
                self._hand_over()
        except BaseException:
            # Interrupted on the way: what became of the batch is read back, so that all in it get a true answer.
            left = [ticket for ticket in batch if ticket not in self._held]
            self._answer(left, [each.answer if each.settled else self._settle_one(each) for each in left], None)
            raise
        finally:
            self._pass_on(get_ident())

    def _written(self, batch: list[Ticket], may_wait: bool) -> list[Any] | None:
        """The answers to a batch; None where they have to be waited for, and this thread may not."""
        if any(ticket.unknown for ticket in batch):
            return [self._settle_one(ticket) for ticket in batch]
        changes = [ticket.change for ticket in batch if ticket.change is not None]
        if not changes:
            return [REACHED] * len(batch)
        began = perf_counter()
        try:
            answers: list[Any] = self._store.write(changes, wait=may_wait)
            return answers if len(answers) == len(batch) else _with_places(batch, answers)
        except StoreBusy as busy:
            return for_each(busy, batch) if may_wait else None
        except CommitUnknown:
            if may_wait:
                return [self._settle_one(ticket) for ticket in batch]
            for ticket in batch:
                ticket.unknown = True
            return None
        except Exception as error:
            return for_each(error, batch)
        finally:
            self._tally.commits += 1
            self._slow = perf_counter() - began > _SLOW_SECONDS

    def _answer(self, batch: list[Ticket], answers: Sequence[Any], on_loop: Loop | None) -> None:
        """Deliver what a batch was answered, but for what is held back."""
        if self._held or any(ticket.told is not None or ticket.change is None for ticket in batch):
            batch, answers = self._sorted_out(batch, answers)
        now = perf_counter()
        for ticket in batch:
            if ticket.change is not None:
                self._tally.cold.add(now - ticket.at)
        deliver(batch, answers, on_loop)

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
        """Hand the lead, where this thread has it, to the first waiting thread, else to a loop, else to the writer, or
        to nobody; to a new thread where all that is left are changes whose threads were interrupted.

        Whoever is interrupted here before the lead is given away still has it, and passes it on once more.
        """
        with self._lock:
            if self._leader != me:
                return
            if not self._pending:
                self._leader = 0
                return
            self._pending = _without_closed(self._pending)
            heir = next((each for each in self._pending if each.gate is not None and not each.abandoned), None)
            if heir is not None and heir.gate is not None:
                self._leader = heir.thread
                heir.gate.release()
                return
            loops = {ticket.loop for ticket in self._pending if ticket.loop is not None}
            if loops or not self._pending or self._writer is not None:
                self._scheduled |= loops
                for loop in loops:
                    call_in(loop, self._flush, loop)
                self._ring()
                self._leader = 0
                return
        self._hand_over()

    def _settle_one(self, ticket: Ticket) -> Outcome | Exception:
        """The answer for a ticket whose commit had an unknown outcome; unknown it stays where that cannot be read."""
        answer: Outcome | Exception = REACHED if ticket.change is None else self._settle(ticket.change)
        ticket.unknown = isinstance(answer, Exception)
        return answer

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
        return StoreUnavailable("the store did not say whether a change was made")


def _numbered(change: Change, lane: Lane | None) -> Change:
    """Give an advance the next version of its run; called with the queue locked, so that order and version agree."""
    if lane is None or not isinstance(change, Advance):
        return change
    numbered = replace(change, version=lane.version)
    lane.version += 1
    return numbered


def _with_places(batch: Sequence[Ticket], answers: Sequence[Any]) -> list[Any]:
    """The answers to a batch in which some tickets only mark a place."""
    left = iter(answers)
    return [REACHED if ticket.change is None else next(left) for ticket in batch]


def _without_closed(pending: Sequence[Ticket]) -> list[Ticket]:
    """What is pending without what a loop waited for that was closed meanwhile; hot changes stay, with nobody waiting
    for them.
    """
    left = []
    for ticket in pending:
        if ticket.loop is not None and ticket.loop.is_closed():
            if not ticket.counted:
                continue
            ticket.loop = ticket.future = None
        left.append(ticket)
    return left
