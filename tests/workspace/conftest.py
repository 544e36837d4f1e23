"""What the tests of the workspace share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.workspace.scene import Scene


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A folder in memory where there is one: what dies in these tests are processes, never the machine."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as made:
        yield Path(made)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A workspace without files."""
    made = Scene(tmp_path)
    yield made
    made.objects.close()
