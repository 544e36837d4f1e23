"""What proves a store or an agent durable: a conformance suite for stores, a pure model of one, ways to crash runs.

Nothing is imported before it is asked for: the suite needs pytest and the state machine Hypothesis, which a program
that only runs agents has no use for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumar.testing.conformance import StoreConformance
    from jumar.testing.conformance_machine import StoreMachine
    from jumar.testing.crash import Crashed, World, crash_at
    from jumar.testing.crash_clock import StoppedClock, stopped_clock
    from jumar.testing.model import ModelStore
    from jumar.testing.restarts import restart_sweep
    from jumar.testing.restarts_judge import Restart, RestartsFailed, RestartSweep
    from jumar.testing.witness import Witness

_HOMES = {
    "Crashed": "jumar.testing.crash",
    "ModelStore": "jumar.testing.model",
    "Restart": "jumar.testing.restarts_judge",
    "RestartSweep": "jumar.testing.restarts_judge",
    "RestartsFailed": "jumar.testing.restarts_judge",
    "StoppedClock": "jumar.testing.crash_clock",
    "StoreConformance": "jumar.testing.conformance",
    "StoreMachine": "jumar.testing.conformance_machine",
    "Witness": "jumar.testing.witness",
    "World": "jumar.testing.crash",
    "crash_at": "jumar.testing.crash",
    "restart_sweep": "jumar.testing.restarts",
    "stopped_clock": "jumar.testing.crash_clock",
}

__all__ = [
    "Crashed",
    "ModelStore",
    "Restart",
    "RestartSweep",
    "RestartsFailed",
    "StoppedClock",
    "StoreConformance",
    "StoreMachine",
    "Witness",
    "World",
    "crash_at",
    "restart_sweep",
    "stopped_clock",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'jumar.testing' has no attribute {name!r}")
