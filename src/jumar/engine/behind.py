"""What a run writes behind: its hot advances, from where they were accepted until they are on disk.

The agent goes on as soon as one is queued.  What becomes of it is told here, in the thread that committed it: once it
is on disk the lease is known to last, and one that is refused, or that no store can take, latches the run exactly as
if it had been waited for.  Nothing that depends on it can come to disk then: the queue keeps the order of a run's
versions, and its next one is missing.

How long writes took until they were accepted and until they were on disk is told on the trace: once for all reads, as
the run leaves this process, and for each hot checkpoint by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.core.changes import Ack, Outcome
from jumar.core.failures import short_message
from jumar.core.requests import Told, Written
from jumar.core.states import EventKind
from jumar.errors import JumarError, StoreError

if TYPE_CHECKING:
    from jumar.engine.live import LiveRun


class Behind:
    """The hot advances of one run in this process."""

    __slots__ = ("_cold", "_count", "_hot", "_live", "_retries")

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._clear()

    def _clear(self) -> None:
        self._count = self._retries = 0
        self._hot = self._cold = 0.0

    def told(self, sent_at: int, checkpoint: int | None = None) -> Told:
        """What is told of an advance sent at `sent_at`; `checkpoint` is the number of the call that keeps one."""

        def told(outcome: Outcome | Exception, written: Written) -> None:
            if isinstance(outcome, Ack):
                self._landed(outcome, sent_at, checkpoint, written)
            elif isinstance(outcome, Exception):
                self._live.stop(unwritten(outcome))
            else:
                self._live.refused(outcome)

        return told

    def _landed(self, ack: Ack, sent_at: int, checkpoint: int | None, written: Written) -> None:
        live = self._live
        live.trust(sent_at)
        if ack.control > live.control:
            live.order(ack.control)
        if checkpoint is not None:
            live.ride_event(EventKind.WRITTEN_BEHIND, checkpoint, _shown(written.hot, written.cold, written.retries))
            return
        with live.lock:
            self._count += 1
            self._hot += written.hot
            self._cold += written.cold
            self._retries += written.retries

    def tell(self, at: int) -> None:
        """Tell on the trace of the reads written behind so far, with the run's next advance; times are their means."""
        with self._live.lock:
            count, told = (
                self._count,
                _shown(self._hot / max(self._count, 1), self._cold / max(self._count, 1), self._retries),
            )
            self._clear()
        if count:
            self._live.ride_event(EventKind.WRITTEN_BEHIND, None, f"{count} read{'s' * (count > 1)}, {told}", at)


def behind_of(live: LiveRun) -> Behind:
    """What tells of a run's hot advances; with the first of them, whatever comes after waits behind it for as long as
    the run's lease may be trusted.
    """
    if live.behind is None:
        with live.lock:
            if live.behind is None:
                live.lane.is_trusted = lambda: live.clock() < live.trusted_until
                live.behind = Behind(live)
    return live.behind


def _shown(hot: float, cold: float, retries: int) -> str:
    told = f"hot {hot * 1000:.3f} ms, cold {cold * 1000:.1f} ms"
    return f"{told}, {retries} retries" if retries else told


def unwritten(error: Exception) -> JumarError:
    """What an agent's run stops with where a change met an error on its way: nobody knows what the store has now, so
    no later change of this process may build on it.
    """
    if isinstance(error, JumarError):
        return error
    return StoreError(f"a change could not be written ({type(error).__name__}: {short_message(error)})")
