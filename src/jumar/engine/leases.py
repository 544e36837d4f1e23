"""Keeping leases: one background thread a harness renews the runs that this process drives.

It wakes each third of a ttl.  A run is renewed only while its driver makes progress; one that hangs loses its lease,
so that another process can take it over.  A renewal is a change guarded by owner, epoch and live lease, so it can
never revive a lease that was lost; one that is refused latches the run.  A store that cannot be reached latches
nothing: the run's own trust deadline stops it from sending anything new, and the next advance finds out the rest.
"""

from __future__ import annotations

import threading

from jumar.core.changes import Ack, Refusal, Renew
from jumar.core.failures import short_message
from jumar.engine.io import IO
from jumar.engine.live import LiveRun
from jumar.engine.logs import WARNING, log
from jumar.errors import JumarError, LeaseLost


class LeaseKeeper:
    """The runs of one harness that are driven in this process, and the thread that renews their leases."""

    def __init__(self, io: IO, ttl: float) -> None:
        self._io = io
        self._pause = ttl / 3
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._runs: set[LiveRun] = set()
        self._thread: threading.Thread | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._runs)

    def keep(self, live: LiveRun) -> None:
        """Renew this run until `release`; starts the thread at the first one."""
        with self._lock:
            self._runs.add(live)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="jumar-leases", daemon=True)
                self._thread.start()

    def release(self, live: LiveRun) -> None:
        """Stop renewing a run."""
        with self._lock:
            self._runs.discard(live)

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def _work(self) -> None:
        while not self._wake.wait(self._pause):
            self.renew_all()

    def renew_all(self) -> None:
        """Renew every run that makes progress."""
        with self._lock:
            runs = list(self._runs)
        for live in runs:
            if self._closed:
                return
            try:
                self._look_after(live)
            except Exception as error:  # the other runs' leases, and this one's next turn, must not hang on it
                log(WARNING, live.run_id, None, "the run's lease could not be renewed: %s", short_message(error))

    def _look_after(self, live: LiveRun) -> None:
        if live.halt is not None and not live.halt.ours:
            return
        if not live.makes_progress(self._io.clock()):
            if not live.stalled:
                seconds = live.settings.stall_timeout
                why = "nothing was recorded for %g s (stall_timeout); the run's lease is left to run out"
                log(WARNING, live.run_id, None, why, seconds)
            live.stalled = True
            return
        live.stalled = False
        self._renew(live)

    def _renew(self, live: LiveRun) -> None:
        change = Renew(run_no=live.run.run_no, owner=live.owner, epoch=live.epoch, ttl_ms=live.settings.ttl_ms)
        sent_at = self._io.clock()
        try:
            outcome = self._io.queue.submit(change)
        except JumarError as error:
            log(WARNING, live.run_id, None, "the run's lease could not be renewed: %s", error.what)
            return
        if isinstance(outcome, Ack):
            live.trust(sent_at)
            if outcome.control > live.control:
                live.order(outcome.control)
            return
        assert isinstance(outcome, Refusal)
        # A run that has just left RUNNING by its own doing is refused too; it is no longer kept then.
        if live in self._runs:
            live.stop(LeaseLost(outcome.detail))
