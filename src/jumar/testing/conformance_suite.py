"""The hooks that a store's conformance class fills in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from jumar.core.store import Store
from jumar.testing.conformance_scene import Scene

SECOND_FOLDER = "other"  # in a test's folder: where the second store of a test of two stores lives


class Suite:
    """The hooks.  A subclass makes the store; each test gets a fresh one and closes it."""

    durable: ClassVar[bool] = True
    """Whether what was acknowledged is there again after the store was closed and made anew in the same folder."""

    def make_store(self, folder: Path) -> Store:
        """Open the store that lives in this folder; called again with the same folder, the same one.  For tests of two
        stores it is also called with the folder `SECOND_FOLDER` in it.
        """
        raise NotImplementedError("a conformance class makes its store")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = self.make_store(tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def scene(self, store: Store) -> Scene:
        return Scene(store)
