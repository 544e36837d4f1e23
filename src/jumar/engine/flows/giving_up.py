"""Calls that the agent gave up while they were being made, settled before the run ends.

The agent has gone on without their answer, and on replay it must go on the same way; so the call keeps its mark and
only its state is settled: no run ends with an effect that nobody knows about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.core.requests import Flow
from jumar.core.states import CallState, Effect
from jumar.engine.flows.advance import advance
from jumar.engine.flows.outcomes import load
from jumar.engine.flows.settling import settle_given_up_call

if TYPE_CHECKING:
    from jumar.engine.live import LiveRun


def settle_given_up(live: LiveRun) -> Flow[None]:
    """Settle every given-up call that is not a read; raises Stopped where the run must wait for one."""
    live.goes_on()
    if live.given_up:
        yield from _settle_all(live)


def _settle_all(live: LiveRun) -> Flow[None]:
    # What rode along so far must be on disk before the records are looked at.
    yield from advance(live)
    run_no = live.run.run_no
    records = {record.seq: record for record in (yield from load(live, lambda store: store.calls(run_no)))}
    while live.given_up:
        call = live.given_up.popleft()  # by one flow alone, of all that wait for the name of its action
        record = records.get(call.seq)
        if call.policy.effect is Effect.READ or record is None or record.state is not CallState.UNCERTAIN:
            continue
        try:
            with live.making(call.seq):
                yield from settle_given_up_call(call, record)
        except BaseException:
            live.given_up.append(call)
            raise
