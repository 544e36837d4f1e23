"""Random histories, on PostgreSQL and on the pure model alike.

The lease clock is a function of the database; in the schema that is used here, and only there, it is replaced by one
that a step moves.  A server's clock goes on over its restarts, so there is no step that begins it anew.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from jumar.core.store import Store
from jumar.stores.postgres.clock import SERVER
from jumar.testing import StoreMachine
from jumar.testing.conformance_machine import Clock
from tests.conformance import one_schema

QUICK = settings(max_examples=6, stateful_step_count=30, deadline=None, print_blob=True)
LONG = settings(max_examples=40, stateful_step_count=40, deadline=None, print_blob=True)
EVERY = 4  # steps after which all rows are compared: each row asked for is a round trip to the server


class PostgresMachine(StoreMachine):
    """A store in PostgreSQL, with the machine's lease clock."""

    def make_store(self, clock: Clock) -> Store:
        self.steps = 0
        clock.boot = SERVER
        one_schema.set_clock(clock.ms)
        return one_schema.clocked().store_of(self)

    @rule(ms=st.sampled_from([1, 10, 49, 50, 51, 199, 200]))
    def time_passes(self, ms: int) -> None:
        """The lease clock moves, in the database too."""
        super().time_passes(ms)
        one_schema.set_clock(self.clock.ms)

    the_host_restarts: Any = None

    @invariant()
    def every_row_is_equal(self) -> None:
        """As the machine says, after some of the steps."""
        self.steps += 1
        if self.steps % EVERY == 0:
            super().every_row_is_equal()

    @invariant()
    def what_can_go_on_and_what_is_asked_is_equal(self) -> None:
        """As the machine says, after some of the steps."""
        if self.steps % EVERY == 0:
            super().what_can_go_on_and_what_is_asked_is_equal()

    @invariant()
    def what_is_held_and_what_was_kept_is_equal(self) -> None:
        """As the machine says, after some of the steps."""
        if self.steps % EVERY == 0:
            super().what_is_held_and_what_was_kept_is_equal()


def test_a_store_in_postgresql_does_what_the_model_does() -> None:
    run_state_machine_as_test(PostgresMachine, settings=QUICK)


@pytest.mark.sweep
def test_a_store_in_postgresql_does_what_the_model_does_for_longer() -> None:
    run_state_machine_as_test(PostgresMachine, settings=LONG)
