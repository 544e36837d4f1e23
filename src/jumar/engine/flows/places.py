"""Taking paths of a workspace for a call, and waiting for whoever has them.

Within the run the wait is in place: the other call is being made and will end.  For another run, or another process, it
is in place for one ttl; then the run waits with `wake_at`, and costs nobody a process meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.core.records import CallRecord, HoldRecord
from jumar.core.requests import Attempt, Flow, Occupy, Place, Sleep
from jumar.core.restoring import shown
from jumar.core.states import EventKind
from jumar.engine.behind import unwritten
from jumar.engine.flows.outcomes import load
from jumar.engine.halting import Wait
from jumar.engine.live import LiveRun
from jumar.engine.scope import Branch

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call

_LOOK_SECONDS = 0.05


class Taken:
    """Paths that this call has to itself until `leave`."""

    def __init__(self, live: LiveRun, root: str, place: Place, branch: Branch | None, call_id: str) -> None:
        self._live = live
        self._opened = live.io.files.of(root)
        self._place = place
        self._branch = branch
        self._call_id = call_id
        self._body: Attempt | None = None
        self._number = 0

    def body(self, number: int, attempt: Attempt) -> None:
        """This is the attempt whose body may be writing; one that goes on is known to the whole process."""
        self._body, self._number = attempt, number
        if attempt.over_at is None:
            self._live.io.going_on[(self._live.run_id, self._place.seq, number)] = attempt

    def over(self, attempt: Attempt) -> Flow[None]:
        """Wait until the body has ended; beyond a ttl the run waits."""
        yield from ended(self._live, attempt, self._branch, self._call_id)
        self._live.io.going_on.pop((self._live.run_id, self._place.seq, self._number), None)

    def leave(self) -> None:
        """Give the paths back: now, or when the body that still writes there has ended."""
        attempt, opened = self._body, self._opened
        if attempt is None or attempt.over_at is not None:
            opened.vacate(self._place)
            return
        opened.lasts(self._place)
        attempt.late = lambda: opened.vacate(self._place)
        if attempt.over_at is not None:  # meanwhile
            opened.vacate(self._place)


def taken(
    live: LiveRun,
    root: str,
    seq: int,
    paths: tuple[bytes, ...],
    branch: Branch | None,
    call_id: str,
    snapshot: bytes | None = None,
) -> Flow[Taken]:
    """Take the paths (those of `snapshot`, where that is given), waiting for whoever has them."""
    place = Place(live.run_id, seq, paths)
    until = live.clock() + live.ttl_ms
    try:
        while (in_the_way := (yield from _occupy(live, root, place, snapshot))) is not None:
            if in_the_way.run_id != live.run_id and live.clock() >= until:
                whose = f"run {in_the_way.run_id}" if in_the_way.run_id else "another process"
                reason = f"{whose} is writing into the workspace where {call_id} is to"
                raise live.wait(Wait(reason, call_id, live.wall() + live.ttl_ms), branch)
            yield from _look_again(live)
        return Taken(live, root, place, branch, call_id)
    except BaseException:  # an interrupt may come when the place is taken, and this flow has yet to hear of it
        live.io.files.of(root).vacate(place)
        raise


def taken_at_rest(live: LiveRun, root: str, record: CallRecord) -> Flow[Taken | None]:
    """Take what a call of a run may have written that is about to be left, its body over; None where that could not be
    had within a ttl.  What goes wrong is raised as it is.
    """
    until = live.clock() + live.ttl_ms
    going_on = live.io.going_on.get((live.run_id, record.seq, record.attempt))
    place = Place(live.run_id, record.seq)
    while (going_on is not None and going_on.over_at is None) or (
        yield from Occupy(root, place, record.before)
    ) is not None:
        if live.clock() >= until:
            return None
        live.progress_at = live.clock()
        yield from Sleep(_LOOK_SECONDS)
    return Taken(live, root, place, None, record.call_id)


def _occupy(live: LiveRun, root: str, place: Place, snapshot: bytes | None) -> Flow[Place | None]:
    """Try once; an error stops the run, so that the agent's code does not swallow it."""
    try:
        return (yield from Occupy(root, place, snapshot))
    except Exception as error:
        raise live.stop(unwritten(error)) from error


def ended(live: LiveRun, attempt: Attempt | None, branch: Branch | None, call_id: str) -> Flow[None]:
    """Wait until a body that outlived its timeout in this process has ended; beyond a ttl the run waits."""
    until = live.clock() + live.ttl_ms
    while attempt is not None and attempt.over_at is None:
        if live.clock() >= until:
            reason = f"the body of {call_id} goes on after its timeout, and may still write"
            raise live.wait(Wait(reason, call_id, live.wall() + live.ttl_ms), branch)
        yield from _look_again(live)


def _look_again(live: LiveRun) -> Flow[None]:
    live.check()
    live.progress_at = live.clock()
    yield from Sleep(_LOOK_SECONDS)


def held_elsewhere(call: Call, root: str, paths: tuple[bytes, ...]) -> Flow[None]:
    """Another call holds one of the paths in the store: return once they may be tried for again, or raise where the
    run must wait.
    """
    live = call.live
    live.ride_event(EventKind.FILES_HELD, call.seq, "")
    while True:
        live.check()
        holder = yield from _holder(call, root, paths)
        if holder is None:
            return
        if holder.run_no == live.run.run_no:
            if any(given_up.seq == holder.call_seq for given_up in live.given_up):
                from jumar.engine.flows.giving_up import settle_given_up

                yield from settle_given_up(live)
                continue
            if live.is_making(holder.call_seq):
                yield from _look_again(live)
                continue
        reason = f"{shown(holder.path)} is held by a write of run {holder.run_id} that has not ended"
        raise live.wait(Wait(reason, call.call_id, live.wall() + live.ttl_ms), call.branch)


def _holder(call: Call, root: str, paths: tuple[bytes, ...]) -> Flow[HoldRecord | None]:
    run_no, seq = call.live.run.run_no, call.seq
    found = yield from load(call.live, lambda store: [each for path in paths for each in store.holds(root, path)])
    return next((each for each in found if (each.run_no, each.call_seq) != (run_no, seq)), None)
