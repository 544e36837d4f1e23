"""A queue on a store in a file, in which hot changes that are held back are tried again soon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jumar.stores import behind
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene
from tests.conformance.wrapping import Watched


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held back is tried again soon."""
    monkeypatch.setattr(behind, "_FIRST_PAUSE", 0.002)
    monkeypatch.setattr(behind, "_LONGEST_PAUSE", 0.01)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Watched]:
    store = Watched(open_store(f"sqlite:///{tmp_path / 'runs.db'}"))
    yield store
    store.before = store.after = None
    store.close()


@pytest.fixture
def scene(store: Watched) -> Scene:
    return Scene(store.store)


@pytest.fixture
def queue(store: Watched) -> Iterator[CommitQueue]:
    queue = CommitQueue(store)
    yield queue
    store.before = None
    queue.close()
