"""Calls that the agent gave up while they were being made, settled before the run ends.

The agent has gone on without their answer, and on replay it must go on the same way; so the call keeps its mark and
only its state is settled: no run ends with an effect that nobody knows about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.core.requests import Flow
from jumar.core.states import Effect
from jumar.engine.flows.settling import settle_given_up_call

if TYPE_CHECKING:
    from jumar.engine.live import LiveRun


def settle_given_up(live: LiveRun) -> Flow[None]:
    """Settle every given-up call that is not a read; raises Stopped where the run must wait for one."""
    live.goes_on()
    while live.given_up:
        call = live.given_up[0]
        if call.policy.effect is not Effect.READ:
            yield from settle_given_up_call(call)
        live.given_up.pop(0)
