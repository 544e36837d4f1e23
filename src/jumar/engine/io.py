"""What both drivers need: the store, its queue, the clocks, the files, and where a test may step in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from jumar.core.records import LeaseTime
from jumar.core.requests import Attempt, Request
from jumar.core.store import Store
from jumar.engine.logs import INFO, NOTHING, WARNING, log
from jumar.stores.clock import lease_ms, wall_ms
from jumar.stores.commits import CommitQueue

if TYPE_CHECKING:
    from jumar.engine.files import Files


class Watcher(Protocol):
    """Sees every request of every flow, before it is carried out and after, and may raise to crash there.

    `around` gets the store at its opening and answers the one to use, so that a crashed world can be kept from writing.
    """

    def around(self, store: Store) -> Store: ...
    def before(self, request: Request[Any]) -> None: ...
    def after(self, request: Request[Any], answer: Any) -> None: ...


def _note(wrong: bool, what: str) -> None:
    log(WARNING if wrong else INFO, NOTHING, None, "%s", what)


class IO:
    """The outside world as flows see it through a driver."""

    __slots__ = ("_files", "clock", "going_on", "queue", "store", "wall", "watcher")

    def __init__(
        self,
        store: Store,
        watcher: Watcher | None = None,
        files: Files | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.store = store
        self.queue = CommitQueue(store, _note)
        # The lease clock, where that is another host's as far as it is known without asking; else this one's.
        self.clock: Callable[[], int] = clock or lease_ms
        self.wall: Callable[[], int] = wall_ms
        self.watcher = watcher
        self._files = files
        # Attempts that outlived their timeout in this process, by run, call and number: while one goes on, a later
        # claim by this very process must not take it for ended.
        self.going_on: dict[tuple[str, int, int], Attempt] = {}

    def now(self) -> tuple[int, LeaseTime]:
        """The wall clock and the store's lease clock."""
        return self.wall(), self.store.now()

    @property
    def files(self) -> Files:
        """The workspaces of the runs that are driven here."""
        assert self._files is not None
        return self._files

    def carry_out(self, request: Request[Any]) -> Any:
        """Do what a request about files asks; it blocks."""
        from jumar.engine.files import carry_out  # which a run without a workspace never needs

        return carry_out(request, self.files)
