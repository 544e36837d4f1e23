"""Random histories, on the stores and on the pure model alike.

The lease clock of the SQLite store are two modules' functions; here, and only here, they are replaced by one that a
step moves.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from jumar.core.store import Store
from jumar.stores.opening import open_store
from jumar.stores.sqlite import store as sqlite_store
from jumar.stores.sqlite import writes
from jumar.testing import StoreMachine
from jumar.testing.conformance_machine import Clock

QUICK = settings(max_examples=16, stateful_step_count=40, deadline=None, print_blob=True)
LONG = settings(max_examples=100, stateful_step_count=50, deadline=None, print_blob=True)


class SQLiteMachine(StoreMachine):
    """A store in a SQLite file, with the machine's lease clock."""

    def make_store(self, clock: Clock) -> Store:
        self.folder = TemporaryDirectory()
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(writes, "lease_ms", lambda: clock.ms)
        self.patches.setattr(writes, "BOOT", clock.boot)
        self.patches.setattr(sqlite_store, "lease_now", clock.now)
        return open_store(self.address())

    def address(self) -> str:
        return f"sqlite:///{Path(self.folder.name) / 'runs.db'}"

    def restarted(self) -> None:
        self.patches.setattr(writes, "BOOT", self.clock.boot)

    def teardown(self) -> None:
        super().teardown()
        self.patches.undo()
        self.folder.cleanup()


class MemoryMachine(SQLiteMachine):
    """A store in memory, on the same code."""

    def address(self) -> str:
        return "memory:"


def test_a_store_in_a_file_does_what_the_model_does() -> None:
    run_state_machine_as_test(SQLiteMachine, settings=QUICK)


def test_a_store_in_memory_does_what_the_model_does() -> None:
    run_state_machine_as_test(MemoryMachine, settings=QUICK)


@pytest.mark.sweep
def test_a_store_in_a_file_does_what_the_model_does_for_longer() -> None:
    run_state_machine_as_test(SQLiteMachine, settings=LONG)


@pytest.mark.sweep
def test_a_store_in_memory_does_what_the_model_does_for_longer() -> None:
    run_state_machine_as_test(MemoryMachine, settings=LONG)
