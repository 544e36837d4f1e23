"""Where the stories of the crash tests are set."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar.testing.crash_clock import StoppedClock, stopped_clock

_IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for thousands of short-lived databases.  What dies here is a world, not the machine, so that nothing
    depends on what has reached the disk: where the system keeps files in memory, they are kept there."""
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None, prefix="jumar-") as name:
        yield Path(name)


@pytest.fixture
def clock() -> Iterator[StoppedClock]:
    """A lease clock and a wall clock that only the test moves."""
    with stopped_clock() as stopped:
        yield stopped


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of runs die here on purpose; what they log of it would bury what matters."""
    log = logging.getLogger("jumar")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    yield
    log.setLevel(level)
