"""What rides with a run's next advance."""

from __future__ import annotations

from typing import Any

from jumar.core.records import Artifact, CallRecord, CheckpointRecord, EventRecord
from jumar.core.states import Storage


class Riders:
    """Rows that need no commit of their own: they go with the run's next advance, and are lost with the process.

    A step's start, an attempt that is tried again, a call that the agent itself gave up: each matters only where the
    run goes on.
    """

    __slots__ = ("before", "calls", "changes", "context", "drops", "events", "frees", "unmarked")

    def __init__(self) -> None:
        self.before: CheckpointRecord | None = None
        self.context: tuple[Artifact, ...] = ()
        self.calls: list[CallRecord] = []
        self.changes: list[Any] = []
        self.unmarked: list[Any] = []  # of marks set aside: the changes that are due all the same where the run stops
        self.events: list[EventRecord] = []
        self.frees: list[int] = []
        self.drops: list[int] = []

    @property
    def may_be_hot(self) -> bool:
        """Whether they may go with an advance that is not waited for: lines of the trace, and a hot checkpoint."""
        if self.calls or self.changes or self.frees or self.drops:
            return False
        return self.before is None or self.before.storage is Storage.HOT
