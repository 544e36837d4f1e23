"""Hot changes: written behind the back of whoever makes them.

A hot change is queued like any other, and answered at once.  A thread of the queue's own, the writer, commits such
changes where nobody else comes by who leads; so they go with the next change that is waited for, or before it.  What
is pending of them is bounded: a hot change beyond that is waited for, which holds up whoever makes it.

One that the store cannot take just now (it is busy, full, or out of reach) is held back, with all that is queued
behind it in its run, and tried again by the writer until it is made; other runs go on.  Whoever waits behind it waits
for as long as the run's lease may be trusted, and gets the store's error then.  A hot change that is refused, or that
no store could take, is not tried again: its maker is told, and whatever is queued behind it is refused as stale.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock, Thread, current_thread, get_ident
from typing import Any

from jumar.core.changes import Ack, Advance, Refusal
from jumar.core.requests import Lane, Told
from jumar.core.statistics import StoreStats
from jumar.stores.tallying import Tally
from jumar.stores.tickets import REACHED, Loop, Ticket, copied, is_passing

# Hot changes that are not on disk: as many as one flush is shared by without anyone noticing its length, and as many
# bytes as a process does not notice; a run that makes them faster than they are written waits.
MOST_HOT, MOST_HOT_BYTES = 256, 8 << 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds before what was held back is tried again
_QUIET_SECONDS = 60.0  # a run in a tight loop is held up many times a second, which is told once
_IDLE_SECONDS = 2.0  # after which the writer ends; the next hot change starts another

Note = Callable[[bool, str], None]  # told whether something is wrong, and what


def nobody(wrong: bool, what: str) -> None:
    """Tell nobody."""


class WriteBehind:
    """The part of a queue of commits that is about hot changes."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._lock = Lock()
        self._pending: list[Ticket] = []
        self._held: list[Ticket] = []  # what waits until a hot change can be made, and those; no run is in both lists
        self._leader = 0  # the thread that commits just now
        self._tally = Tally()
        self._hot = self._hot_bytes = 0  # of changes that are not on disk
        self._writer: Thread | None = None
        self._bell = Lock()  # that the writer sleeps at
        self._bell.acquire()
        self._retry_at = 0.0
        self._failures = 0  # in a row
        self._quiet_until = 0.0  # before which it is not told again that runs are held up
        self._closing = False

    # --- What else a queue does. ---

    def stats(self) -> StoreStats:
        """What was written so far."""
        return self._tally.stats(self._hot)

    def flush(self, lane: Lane | None) -> None:
        """Wait for what is queued; see CommitQueue."""
        raise NotImplementedError

    def _append(self, ticket: Ticket) -> None:
        raise NotImplementedError

    def _lead(self, on_loop: Loop | None) -> None:
        raise NotImplementedError

    # --- Queueing. ---

    def _accepted(self, change: Advance, lane: Lane, told: Told) -> Ack | None:
        """The answer to a hot change that is queued now; None where there is no room for it."""
        ticket = Ticket(change, lane, told=told)
        while self._writer is not None or self._start_writer():
            with self._lock:
                if self._is_there_no_room():
                    break
                if self._writer is None:
                    continue
                if not self._leader:
                    self._ring()  # before the change is queued, so that no interrupt can leave it there alone
                self._append(ticket)
                version = lane.version
                ticket.accepted = time.perf_counter()
                self._tally.hot.add(ticket.accepted - ticket.at)
            return Ack(change.run_no, version, change.epoch, change.control, change.answers)
        self._fills_up()
        return None

    def _is_there_no_room(self) -> bool:
        return self._hot >= MOST_HOT or self._hot_bytes >= MOST_HOT_BYTES or self._closing

    def _fills_up(self) -> None:
        now = time.monotonic()
        if now >= self._quiet_until and not self._closing:
            self._quiet_until = now + _QUIET_SECONDS
            self._note(True, f"runs are held up by the store: {self._hot} hot writes wait to be made")

    # --- Holding back. ---

    def _sorted_out(self, batch: list[Ticket], answers: Sequence[Any]) -> tuple[list[Ticket], list[Any]]:
        """What of a batch with hot changes is answered; the rest is held back: those that the store could not take just
        now, and what came after them in their runs.
        """
        causes: dict[Lane | None, Any] = {}
        kept: list[Ticket] = []
        over: list[Ticket] = []
        told: list[Any] = []
        may_hold = not self._closing and (self._writer is not None or self._start_writer())
        for ticket, found in zip(batch, answers, strict=True):
            answer = REACHED if ticket.change is None else found
            if may_hold and not ticket.settled:
                if ticket.told is not None and is_passing(answer):
                    causes.setdefault(ticket.lane, answer)
                cause = causes.get(ticket.lane)
                has_landed = ticket.change is not None and not isinstance(answer, (Refusal, Exception))
                if cause is not None and not has_landed:
                    if not ticket.is_waited_for() or (ticket.lane is not None and ticket.lane.is_trusted()):
                        kept.append(ticket)
                        continue
                    answer = copied(cause)
            over.append(ticket)
            told.append(answer)
        self._hold(kept, causes)
        self._count_off(over)
        self._seen(over, told, next(iter(causes.values()), None))
        return over, told

    def _hold(self, kept: list[Ticket], causes: dict[Lane | None, Exception]) -> None:
        if not kept:
            return
        with self._lock:
            for ticket in kept:
                if ticket.abandoned:
                    ticket.gate = None
                elif ticket.thread and ticket.gate is None:
                    ticket.close_gate(ticket.thread)
            held = self._held + kept + [ticket for ticket in self._pending if ticket.lane in causes]
            rest = [ticket for ticket in self._pending if ticket.lane not in causes]
            pause = min(_FIRST_PAUSE * 2 ** min(self._failures, 10), _LONGEST_PAUSE)
            self._retry_at = time.monotonic() + pause
            self._ring()
            self._held, self._pending = held, rest

    def _count_off(self, over: list[Ticket]) -> None:
        """These are no longer under way."""
        with self._lock:
            for ticket in over:
                if ticket.counted:
                    ticket.counted = False
                    self._hot -= 1
                    self._hot_bytes -= ticket.size
                    if not ticket.accepted:  # it was waited for, as there was no room
                        seconds = time.perf_counter() - ticket.at
                        self._tally.waited += seconds
                        self._tally.hot.add(seconds)

    def _seen(self, over: list[Ticket], told: list[Any], cause: Exception | None) -> None:
        """Say when the store begins to fail, and when it has made good."""
        for ticket, answer in zip(over, told, strict=True):
            self._tally.lost += ticket.told is not None and isinstance(answer, Exception)
        if cause is not None:
            self._failures += 1
            if self._failures == 1:
                self._note(True, f"hot writes wait until the store takes them again: {getattr(cause, 'what', cause)}")
        elif self._held:
            if any(isinstance(answer, Ack) and answer is not REACHED for answer in told):  # it takes something again
                with self._lock:
                    self._retry_at = min(self._retry_at, time.monotonic() + _FIRST_PAUSE)
                    self._ring()
        elif self._failures and any(each.retries for each in over):
            self._note(False, f"the store takes hot writes again, after {self._failures} attempts that failed")
            self._failures = 0

    # --- The writer. ---

    def _start_writer(self) -> bool:
        """Have a writer; whether there is one.  Two, where two threads begin at once, do no harm."""
        thread = Thread(target=self._write_behind, name="jumar-writer", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._writer = thread
        return True

    def _ring(self) -> None:
        """Wake the writer; called with the queue locked."""
        if self._bell.locked():
            self._bell.release()

    def _write_behind(self) -> None:
        """Commit what nobody else leads, and try again what was held back, until nothing has come for a while."""
        me = get_ident()
        while True:
            pause = max(0.0, self._retry_at - time.monotonic()) if self._held else _IDLE_SECONDS
            rung = self._bell.acquire(timeout=pause)
            with self._lock:
                if self._held and time.monotonic() >= self._retry_at:
                    self._release_held()
                if self._leader or not self._pending:
                    if not (rung or self._leader or self._held or self._hot) or self._closing:
                        if self._writer is current_thread():
                            self._writer = None
                        return
                    continue
                self._leader = me
            self._lead(None)

    def _release_held(self) -> None:
        """Put what was held back before what is pending; called with the queue locked."""
        for ticket in self._held:
            if ticket.told is not None:
                ticket.retries += 1
                self._tally.retried += 1
        self._held, self._pending = [], self._held + self._pending

    def give_up(self) -> None:
        """Hold nothing back any more: what the store does not take at the next attempt fails."""
        self._closing = True
        with self._lock:
            self._retry_at = 0.0
            self._ring()

    def close(self) -> None:
        """Make one more attempt at what is not on disk, and hold nothing back any more."""
        self._closing = True
        before = self._tally.lost
        while self._writer is not None and (self._leader or self._pending or self._held):  # else nothing is hot
            with self._lock:
                self._release_held()
            self.flush(None)
        with self._lock:
            self._ring()
        lost = self._tally.lost - before
        if lost:
            self._note(True, f"{lost} hot writes could not be made before the store was closed")
