"""Random histories, on PostgreSQL and on the pure model alike.

The lease clock is a function of the database; in the schema that is used here, and only there, it is replaced by one
that a step moves.  A server's clock goes on over its restarts, so there is no step that begins it anew.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from jumar.core.records import LeaseTime
from jumar.core.store import Store
from jumar.stores.postgres.clock import SERVER
from jumar.testing import StoreMachine
from jumar.testing.conformance_machine import Clock
from tests.conformance import one_schema

QUICK = settings(max_examples=8, stateful_step_count=30, deadline=None, print_blob=True)
LONG = settings(max_examples=100, stateful_step_count=50, deadline=None, print_blob=True)


class PostgresMachine(StoreMachine):
    """A store in PostgreSQL, with the machine's lease clock."""

    def make_store(self, clock: Clock) -> Store:
        clock.boot = SERVER
        one_schema.set_clock(clock.ms)
        self.model.now = lambda: LeaseTime(SERVER, clock.ms)
        return one_schema.clocked().store_of(self)

    def time_passes(self, ms: int) -> None:
        """The lease clock moves, in the database too."""
        super().time_passes(ms)
        one_schema.set_clock(self.clock.ms)

    the_host_restarts: Any = None


def test_a_store_in_postgresql_does_what_the_model_does() -> None:
    run_state_machine_as_test(PostgresMachine, settings=QUICK)


@pytest.mark.sweep
def test_a_store_in_postgresql_does_what_the_model_does_for_longer() -> None:
    run_state_machine_as_test(PostgresMachine, settings=LONG)
