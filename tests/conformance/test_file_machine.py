"""Random histories on a store in a folder, opened anew every so often, and on the pure model alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.test_machine import SQLiteMachine

QUICK = settings(max_examples=6, stateful_step_count=40, deadline=None, print_blob=True)
LONG = settings(max_examples=25, stateful_step_count=50, deadline=None, print_blob=True)


class FileMachine(SQLiteMachine):
    """A store in a folder, with the machine's lease clock."""

    def address(self) -> str:
        return f"file:{Path(self.folder.name) / 'store'}"


def test_a_store_in_a_folder_does_what_the_model_does() -> None:
    run_state_machine_as_test(FileMachine, settings=QUICK)


@pytest.mark.sweep
def test_a_store_in_a_folder_does_what_the_model_does_for_longer() -> None:
    run_state_machine_as_test(FileMachine, settings=LONG)
