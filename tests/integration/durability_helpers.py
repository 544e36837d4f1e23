"""A world whose store can be held or shut, and a harness that writes hot in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from jumar import Harness
from jumar.core.changes import Advance, Change, Outcome
from jumar.core.store import Store
from jumar.testing.crash import World, inhabit
from tests.integration.agents_helpers import states

SOON = 60.0


class Tap(World):
    """A world whose store can be held or shut, and which notes what reached it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Change] = []
        self.open = threading.Event()
        self.open.set()
        self.reached = threading.Event()
        self.error: Callable[[], Exception] | None = None

    def around(self, store: Store) -> Store:
        return super().around(cast(Store, _Tapped(store, self)))

    def hold(self) -> None:
        """Let no write through until `open` is set."""
        self.reached.clear()
        self.open.clear()

    def advances(self) -> list[Advance]:
        return [change for change in self.written if isinstance(change, Advance)]


class _Tapped:
    def __init__(self, store: Any, tap: Tap) -> None:
        self._store, self._tap = store, tap

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        self._tap.reached.set()
        assert self._tap.open.wait(SOON)
        if self._tap.error is not None:
            raise self._tap.error()
        answers: list[Outcome | Exception] = self._store.write(changes, wait=wait)
        self._tap.written += changes
        return answers


def opened(folder: Path, tap: Tap | None = None, **options: Any) -> Harness:
    options.setdefault("durability", "hot")
    harness = Harness(f"sqlite:///{folder / 'runs.db'}", **options)
    if tap is not None:
        inhabit(harness, tap)
    return harness


def on_disk(folder: Path) -> dict[str, str]:
    """The calls of the newest run as somebody else finds them."""
    with Harness(f"sqlite:///{folder / 'runs.db'}") as other:
        return states(other)
