"""An operator's orders: to pause a run, or to cancel it.

An order raises the run's `control`, whoever drives it.  A live run sees it with its next advance or renewal, sends
nothing new, lets what is in flight settle, and leaves as ordered.  Where no lease is live the operator does that
himself: he claims the run, so that whatever was sent and not recorded becomes uncertain, and leaves it in the next
advance.  A crash between the two leaves a run whose `control` the next claim obeys.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from jumar.core.changes import Ack, Claim, Claimed, Ending, Guard, Order, Refusal
from jumar.core.leases import seconds_left
from jumar.core.leaving import left_behind
from jumar.core.phases import ORDERABLE
from jumar.core.records import EventRecord, RunRecord
from jumar.core.requests import Commit, Flow, Load, Now, Sleep
from jumar.core.states import Control, EventKind, Phase, Status, mask
from jumar.engine.flows.advance import advance, leave
from jumar.engine.flows.ended import Ended, reread
from jumar.engine.live import LiveRun
from jumar.engine.logs import INFO, log
from jumar.engine.policy import Settings
from jumar.errors import RunNotFound, Stopped

_LOOK_SECONDS = 0.25  # how often somebody who waits looks whether the run has obeyed
_STATUSES = {control: mask(*statuses) for control, statuses in ORDERABLE.items()}


def give_order(run_id: str, control: Control, by: str, note: str | None) -> Flow[Ack]:
    """Write the order down."""
    wall, _ = yield from Now()
    outcome = yield from Commit(Order(run_id=run_id, control=control, at=wall, by=by, note=note))
    if isinstance(outcome, Ack):
        return outcome
    assert isinstance(outcome, Refusal)
    raise outcome.error()


def claim_to_obey(
    run_id: str,
    control: Control,
    owner: str,
    settings: Settings,
    clock: Callable[[], int],
    *,
    wait: bool,
    waiting: Callable[[float], None] | None,
) -> Flow[tuple[Claimed, int] | RunRecord]:
    """Claim a run that nobody drives, whatever it waits for.  A run under a live lease is left to its driver, and with
    `wait` watched until it has obeyed or that lease has run out; `waiting` is told the seconds left of it.  With the
    claim comes the lease-clock millisecond when it was sent, from which the lease may be trusted.
    """
    while True:
        wall, _ = yield from Now()
        claim = Claim(
            run_id=run_id, owner=owner, ttl_ms=settings.ttl_ms, at=wall, statuses=_STATUSES[control], early=True
        )
        sent_at = clock()
        outcome = yield from Commit(claim)
        if isinstance(outcome, Claimed):
            return outcome, sent_at
        assert isinstance(outcome, Refusal)
        if outcome.run is None:
            raise RunNotFound(f"there is no run {run_id}")
        if outcome.guard is not Guard.HELD or not wait:
            return outcome.run
        yield from _watch(outcome.run, waiting)


def _watch(run: RunRecord, waiting: Callable[[float], None] | None) -> Flow[None]:
    """Wait until the run is driven no longer, or its lease has run out."""
    run_id = run.run_id
    while True:
        _, now = yield from Now()
        left = seconds_left(run, now)
        if left <= 0:
            return
        if waiting is not None:
            waiting(left)
        yield from Sleep(min(left, _LOOK_SECONDS))
        seen = yield from Load(lambda store: store.run(run_id))
        if seen is None:
            return
        run = seen


def obey(live: LiveRun, before: RunRecord | None = None) -> Flow[Ended]:
    """Leave the run as it was ordered: paused, or cancelled for good.  Nothing is in flight any more.  One that had
    failed `before` it was claimed keeps its error.
    """
    live.comes_to_rest()
    if live.has_riders():
        yield from advance(live)  # what rode along must be on disk before it is decided what is left behind
    if live.run.workspace is not None:
        from jumar.engine.flows.putting_back import settle_writes  # which a run without files never needs

        yield from settle_writes(live)
    run_no = live.run.run_no
    while True:
        final = live.control == Control.CANCEL
        calls = yield from Load(lambda store: store.calls(run_no))
        requests = yield from Load(lambda store: store.requests(run_no))
        left = left_behind(live.run, calls, requests, live.wall(), final=final)
        told = EventRecord(EventKind.CANCELLED if final else EventKind.PAUSED, live.wall(), None, live.epoch)
        ending = Ending(status=Status.CANCELLED if final else Status.PAUSED)
        if before is not None:
            ending = replace(
                ending,
                error_class=before.error_class,
                error_type=before.error_type,
                error_message=before.error_message,
            )
        ack = yield from leave(
            live,
            Phase.STOPPED if final else live.phase,
            ending,
            (),
            (*left.events, told),
            changes=left.changes,
            requests=left.requests,
            frees=left.frees,
        )
        if ack is not None:
            log(INFO, live.run_id, None, "the run is %s", ending.status.label)
            return Ended((yield from reread(live)))


def obeyed(live: LiveRun, before: RunRecord | None = None) -> Flow[Ended]:
    """Obey in a run in which no code of an agent runs: what stops it is raised to whoever drives it."""
    try:
        return (yield from obey(live, before))
    except Stopped as stopped:
        if stopped.error is None:
            raise
        raise stopped.error from None
