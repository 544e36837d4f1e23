"""What pytest finds of Jumar by itself: fixtures for tests of your own agents.

Every test run of an environment that Jumar is installed in loads this module.  So it lies beside the package and not
within it, and imports the package only in the fixtures: a run that uses none of them pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jumar import Harness


@pytest.fixture
def jumar_harness() -> Iterator[Harness]:
    """A harness on `memory:`, new for each test and closed after it."""
    from jumar import Harness

    with Harness("memory:") as harness:
        yield harness


@pytest.fixture
def jumar_memory() -> Iterator[Callable[[Harness], Harness]]:
    """Puts a harness of yours on `memory:` until the test is over: `jumar_memory(shop.harness)`, which answers it."""
    with ExitStack() as overrides:
        yield lambda harness: overrides.enter_context(harness.override(store="memory:"))
