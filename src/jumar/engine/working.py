"""The worker: takes up the runs that are due, some at a time, until it is told to stop.

It asks the store for runs of the agents it knows that can go on by themselves, picks among the first of them at random,
so that workers beside each other seldom want the same one, and drives each in a thread of its own.  A claim never
waits: of two workers that want a run one gets it, and the other looks further.  In between it waits to be told, or
until the next run becomes due by time, and looks from time to time behind both.

Whatever goes wrong stays with its run: one that cannot be driven on is left alone for a while, longer each time; so is
a store that cannot be reached.  A run whose lease was given up, because its agent hangs, takes up no place any more.

Told to stop, it claims nothing new.  What it drives may end within the grace time; then each run is stopped at its next
call, what is in flight settles and is recorded, and the run is QUEUED again for whoever comes first.  Nothing is
recorded as failed because of that, and nothing is left half-recorded.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from jumar.core.failures import short_message
from jumar.core.records import RunRecord
from jumar.core.working import delay_after, is_suspect, pause_before_looking
from jumar.engine.logs import INFO, NOTHING, WARNING, log
from jumar.engine.places import Happening, Options, Place, Stop, Told
from jumar.errors import IllegalTransition, LeaseHeld, RunEnded, StoreReadOnly
from jumar.stores.watching import Bell

if TYPE_CHECKING:
    from jumar.core.store import Watch
    from jumar.engine.engine import Engine

T = TypeVar("T")

_TAKEN = (LeaseHeld, RunEnded, IllegalTransition)  # how a claim is refused where somebody else was quicker
_SPREAD = 4  # for each free place so many runs are looked at, of which one is picked
_FEWEST = 8  # runs that are looked at
_LONGEST_OUTAGE_DELAY = 30.0
_STOP_SECONDS = 0.2  # how often it is looked whether to stop, where nobody can tell
_STRANGERS_SECONDS = 60.0  # how often it is looked whether runs are due that nobody here can run
_STRANGERS = 100
_NOT_HERE_SECONDS = 5.0  # how long a run is left alone whose files are elsewhere
_MOST_ALONE = 1000  # runs left alone for a while that are remembered once that while is over


class _Slot:
    """A place with its thread, and what came of it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.result: Any = None
        self.error: BaseException | None = None


Drive = Callable[[Place], Any]


class Worker:
    """Drives what is due on one store; `work` returns once it was told to stop and has let go of everything."""

    def __init__(
        self,
        engine: Engine,
        agents: Mapping[str, Any],
        drive: Drive,
        options: Options,
        *,
        can_open: Callable[[RunRecord], bool],
        stop: Told,
        told: Callable[[Happening], None],
    ) -> None:
        self._engine = engine
        self._store = engine.store
        self._agents = agents
        self._drive = drive
        self._options = options
        self._can_open = can_open
        self._stop = stop
        self._told = told
        self._slots: dict[str, _Slot] = {}
        self._news: SimpleQueue[RunRecord | _Slot] = SimpleQueue()  # a run that was claimed, a place that is done with
        self._bell = Bell()
        self._watch: Watch | None = None
        self._left_alone: dict[str, tuple[float, int]] = {}  # until when, and how often in a row it went wrong
        self._outages = 0
        self._strangers_at = 0.0
        self._strangers: set[str] = set()

    # --- The loop. ---

    def work(self) -> list[str]:
        """Work until told to stop; answers the ids of runs whose threads had not ended, which is none unless it was
        told twice.
        """
        if isinstance(self._stop, Stop):
            self._stop.wakes = self.wake
        try:
            while not self._stop.is_set():
                self._collect()
                found = self._take_up()
                if self._options.until_idle and not self._slots and not found and not self._outages:
                    break
                if not found:
                    self._wait(self._pause())
            return self._drain()
        finally:
            for slot in self._slots.values():  # of whoever was interrupted, or told twice
                slot.place.leave()
            self._close_watch()

    def wake(self) -> None:
        """Have the worker look again; safe in a signal handler."""
        self._bell.ring()
        watch = self._watch
        if watch is not None:
            watch.wake()

    def _wait(self, seconds: float) -> None:
        """Wait until told, at most so long.  A stop of which nobody tells is looked at meanwhile, the store is not."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._is_told(left if isinstance(self._stop, Stop) else min(left, _STOP_SECONDS)) or self._stop.is_set():
                return

    def _is_told(self, seconds: float) -> bool:
        if self._watch is None:
            return self._bell.wait(seconds)
        try:
            return self._watch.wait(seconds)
        except Exception as error:
            self._outage(error)
            return True

    def _pause(self) -> float:
        if self._outages:
            delay = min(_LONGEST_OUTAGE_DELAY, delay_after(self._outages))
            return delay * random.uniform(0.5, 1.0)
        pause = self._options.poll
        if len(self._slots) >= self._options.concurrency:
            return pause
        now = time.monotonic()
        back = [until - now for until, _ in self._left_alone.values() if until > now]
        try:
            next_due = self._store.next_due(self._engine.io.wall())
        except Exception as error:
            self._outage(error)
            return min(_LONGEST_OUTAGE_DELAY, delay_after(self._outages))
        return min(pause_before_looking(next_due, pause), *back) if back else pause_before_looking(next_due, pause)

    # --- Taking up. ---

    def _take_up(self) -> bool:
        """Fill the free places with runs that are due; whether there was any to try."""
        free = self._options.concurrency - len(self._slots)
        if free <= 0:
            return False
        try:
            if self._watch is None:
                self._watch = self._store.watch()
            runs = self._due(free)
            if not runs:
                self._look_for_strangers()
        except Exception as error:
            self._outage(error)
            return False
        if self._outages:
            log(INFO, NOTHING, None, "the store can be used again")
            self._outages = 0
        for run in runs:
            self._start(run)
        return bool(runs)

    def _due(self, free: int) -> list[RunRecord]:
        """So many runs that are due and that can be run here, picked at random among the first."""
        most = max(_FEWEST, _SPREAD * free)
        while True:
            now = time.monotonic()
            alone = {run_id for run_id, (until, _) in self._left_alone.items() if until > now}
            limit = most + len(alone) + len(self._slots)
            due = self._store.due(self._engine.io.wall(), limit, list(self._agents))
            fresh = [run_id for run_id in due if run_id not in alone and run_id not in self._slots]
            first = fresh[:most]
            random.shuffle(first)
            runs = self._to_be_run(first + fresh[most:], free)
            if runs or not fresh or len(due) < limit:
                return runs  # else none of them can be run here, and there are more behind them

    def _to_be_run(self, run_ids: list[str], free: int) -> list[RunRecord]:
        """The first of these that can be run here; those that cannot are left alone for a while, and so are those that
        may end the process while another such run is under way in it.
        """
        runs: list[RunRecord] = []
        has_suspect = any(slot.place.is_suspect for slot in self._slots.values())
        for run_id in run_ids:
            if len(runs) == free:
                break
            run = self._store.run(run_id)
            if run is not None and run.agent in self._agents and self._can_open(run):
                if not is_suspect(run):
                    runs.append(run)
                elif not has_suspect:
                    has_suspect = True
                    runs.append(run)
                else:
                    self._leave_alone(run_id)
                continue
            self._keep_alone(run_id, min(_NOT_HERE_SECONDS, self._engine.settings.lease_ttl / 2), 0)
            if run is not None and run.agent in self._agents:
                self._tell_once(f"runs on the files of {run.workspace} are left to others: these files are not here")
        return runs

    def _start(self, run: RunRecord) -> None:
        slot = _Slot(Place(run, self._claimed))
        self._slots[run.run_id] = slot
        thread = threading.Thread(target=self._driven, args=(slot,), name=f"jumar-run-{run.run_id[-8:]}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no thread is left just now
            slot.error = error
            self._news.put(slot)

    def _claimed(self, place: Place, run: RunRecord) -> None:
        self._news.put(run)
        self.wake()

    def _driven(self, slot: _Slot) -> None:
        """One run, in its thread."""
        try:
            slot.result = self._drive(slot.place)
        except BaseException as error:
            slot.error = error
        self._news.put(slot)
        self.wake()

    # --- Letting go. ---

    def _collect(self) -> None:
        """Tell what has happened in the places, and free those that are done with."""
        for news in _waiting(self._news):
            if isinstance(news, RunRecord):
                self._tell(Happening("taken-up", news))
            elif self._slots.get(news.place.run.run_id) is news:  # else its place was given up before
                del self._slots[news.place.run.run_id]
                self._judge(news)
        clock = self._engine.io.clock()
        for run_id, slot in list(self._slots.items()):
            if slot.place.is_lost(clock):
                del self._slots[run_id]
                self._leave_alone_longer(run_id)
                self._tell(Happening("given-up", slot.place.run))

    def _judge(self, slot: _Slot) -> None:
        run, error = slot.place.run, slot.error
        if error is None:
            self._left_alone.pop(run.run_id, None)
            self._tell(Happening("left", run, result=slot.result))
        elif isinstance(error, _TAKEN) and not slot.place.is_claimed:
            self._leave_alone(run.run_id)
        else:
            self._leave_alone_longer(run.run_id)
            log(WARNING, run.run_id, None, "the run could not be driven on: %s", short_message(error))
            self._tell(Happening("not-driven", run, error=error))

    def _leave_alone(self, run_id: str) -> None:
        """Do not look at a run again at once that somebody else was quicker to take."""
        self._keep_alone(run_id, self._options.poll, self._left_alone.get(run_id, (0.0, 0))[1])

    def _leave_alone_longer(self, run_id: str) -> None:
        """The same, each time for longer."""
        times = self._left_alone.get(run_id, (0.0, 0))[1] + 1
        self._keep_alone(run_id, delay_after(times), times)

    def _keep_alone(self, run_id: str, seconds: float, times: int) -> None:
        now = time.monotonic()
        if len(self._left_alone) >= _MOST_ALONE:
            self._left_alone = {name: kept for name, kept in self._left_alone.items() if kept[0] > now}
        self._left_alone[run_id] = (now + seconds, times)

    def _drain(self) -> list[str]:
        """Let what is driven end, or leave it to others once the grace is over."""
        deadline = time.monotonic() + self._options.grace
        is_over = False
        self._collect()
        if self._stop.is_set():
            self._tell(Happening("stopping", under_way=len(self._slots)))
        while True:
            self._collect()
            if not self._slots:
                return []
            if getattr(self._stop, "asked", 1) > 1:
                return list(self._slots)
            left = deadline - time.monotonic()
            if left <= 0 and not is_over:
                is_over = True
                self._tell(Happening("handing-over", under_way=len(self._slots)))
                for slot in self._slots.values():
                    slot.place.leave()
            self._wait(self._options.poll if is_over else min(left, self._options.poll))

    def _tell(self, happening: Happening) -> None:
        try:
            self._told(happening)
        except Exception as error:  # whoever is told must not end the work
            log(WARNING, NOTHING, None, "what a worker told was not taken: %s", short_message(error))

    # --- What is not ours, and what cannot be reached. ---

    def _look_for_strangers(self) -> None:
        """Say once of each agent that is not known here that its runs are due and left alone."""
        if time.monotonic() < self._strangers_at:
            return
        self._strangers_at = time.monotonic() + _STRANGERS_SECONDS
        for run_id in self._store.due(self._engine.io.wall(), _STRANGERS):
            run = self._store.run(run_id)
            if run is not None and run.agent not in self._agents:
                self._tell_once(f"runs of {run.agent} are left alone: no agent of that name is known here")

    def _tell_once(self, text: str) -> None:
        if text not in self._strangers:
            self._strangers.add(text)
            log(WARNING, NOTHING, None, "%s", text)

    def _outage(self, error: Exception) -> None:
        if not self._outages:
            why = short_message(error)
            if isinstance(error, StoreReadOnly):  # which somebody must mend, and no time does
                why += f". {error.hint}"
            log(WARNING, NOTHING, None, "the store cannot be used, and is tried again: %s", why)
        self._outages += 1
        self._close_watch()

    def _close_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            with suppress(Exception):
                watch.close()


def _waiting(queue: SimpleQueue[T]) -> Iterator[T]:
    """What is in a queue now."""
    with suppress(Empty):
        while True:
            yield queue.get_nowait()
