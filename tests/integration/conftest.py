"""A harness on each kind of store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar import Harness


@pytest.fixture(params=["memory", "sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """A harness of its own for the test, on a store in memory and again on one in a file."""
    address = "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"
    with Harness(address) as opened:
        yield opened
