"""A store around a store, for tests of what stands above: it keeps what was written, and a test may step in before
and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jumar.core.changes import Change, Outcome
from jumar.core.store import Store

Answers = list[Outcome | Exception]


class Watched:
    """Passes everything to a real store.

    `batches` holds the changes of every `write`, `waits` whether it might wait for other processes.  `before` is
    called with the changes and may raise or hold; `after` is called with the changes and the answers and may raise
    instead of them.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.batches: list[Sequence[Change]] = []
        self.waits: list[bool] = []
        self.before: Callable[[Sequence[Change], bool], None] | None = None
        self.after: Callable[[Sequence[Change], Answers], None] | None = None

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> Answers:
        self.batches.append(tuple(changes))
        self.waits.append(wait)
        if self.before is not None:
            self.before(changes, wait)
        answers = self.store.write(changes, wait=wait)
        if self.after is not None:
            self.after(changes, answers)
        return answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)
