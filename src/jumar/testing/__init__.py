"""What proves a store or an agent durable: a conformance suite for stores, a pure model of one, a way to crash runs.

Nothing is imported before it is asked for: the suite needs pytest and the state machine Hypothesis, which a program
that only runs agents has no use for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Crashed": "jumar.testing.crash",
    "ModelStore": "jumar.testing.model",
    "StoppedClock": "jumar.testing.crash_clock",
    "StoreConformance": "jumar.testing.conformance",
    "StoreMachine": "jumar.testing.conformance_machine",
    "Witness": "jumar.testing.witness",
    "World": "jumar.testing.crash",
    "crash_at": "jumar.testing.crash",
    "stopped_clock": "jumar.testing.crash_clock",
}

__all__ = [
    "Crashed",
    "ModelStore",
    "StoppedClock",
    "StoreConformance",
    "StoreMachine",
    "Witness",
    "World",
    "crash_at",
    "stopped_clock",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'jumar.testing' has no attribute {name!r}")
