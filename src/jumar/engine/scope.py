"""Where in a run a piece of code stands: which branch, which step, and inside which call.

A context variable carries it.  A branch is sequential code with a replay table of its own: the root, an item of a
`gather` or `map`, or a step opened in a thread or task of its own.  It remembers which thread or task runs it; code
that finds itself in another one (a thread started by the agent, say) belongs to no branch, because the order of its
calls means nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from threading import get_ident
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from jumar.core.locations import root_of
from jumar.core.naming import below, entered, idempotency_key, step_part
from jumar.core.states import CallKind, Effect, IdentityScope, Strategy
from jumar.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from jumar.engine.live import LiveRun


class Branch:
    """Sequential code: `path` names it, `step` is the scope path it stands in, `home` the thread or task that runs
    it.
    """

    __slots__ = ("_entries", "home", "is_item", "parent", "path", "step", "strategy", "table", "wait")

    def __init__(self, path: str, table: Any, parent: Branch | None = None) -> None:
        self.path = path
        self.parent = parent
        self.step = path
        self.home: Any = None
        self.is_item = False  # of a `gather` or `map` that has not settled yet
        self.wait: Any = None  # what the item waits for
        self.table = table
        # What the step that it stands in says is done about failures.
        self.strategy: Strategy | None = None if parent is None else parent.strategy
        self._entries: dict[str, int] = {}

    @property
    def stops(self) -> bool:
        """Whether it waits as an item, or is part of one that does: its code is being stopped."""
        branch: Branch | None = self
        while branch is not None and branch.wait is None:
            branch = branch.parent
        return branch is not None

    def enter_step(self, label: str) -> str:
        """Go into a step; answers the path to return to."""
        outer = self.step
        self.step = below(outer, self._count(outer, step_part(label, 1), label))
        return outer

    def _count(self, outer: str, part: str, label: str) -> str:
        place = below(outer, part)
        times = self._entries[place] = self._entries.get(place, 0) + 1
        return step_part(label, times)

    def fan_path(self, word: str) -> str:
        """The path of the next `gather` or `map` in this step; its items add `:0`, `:1` ..."""
        place = below(self.step, word)
        times = self._entries[place] = self._entries.get(place, 0) + 1
        return below(self.step, entered(word, times))


def folder_of(root: str | None) -> Path:
    """A run's workspace; UsageError where it has none."""
    if root is None:
        raise UsageError("the run has no workspace", hint='Name the folder: Harness(workspace="site").')
    from pathlib import Path

    return Path(root_of(root))


class CurrentCall(Struct, frozen=True, eq=False):
    """The call whose body is running, as `jumar.current_call()` answers it."""

    run_id: str
    call_id: str
    _args_digest: bytes
    kind: CallKind
    tool: str
    effect: Effect
    attempt: int
    _identity: str | None = None
    _scope: IdentityScope | None = None
    _origin: str | None = None
    _undone: int = 0
    _root: str | None = None

    @property
    def workspace(self) -> Path:
        """The folder that the run's files are in: of a fork its own, where it was given one.  UsageError where the run
        has no workspace.
        """
        return folder_of(self._root)

    @property
    def idempotency_key(self) -> str:
        """The key to give to the service: the same for every attempt of this call, in whatever process.  An action with
        a name that was done and undone gets another one from then on.
        """
        run_id = self._origin or self.run_id
        return idempotency_key(run_id, self.call_id, self._args_digest, self._identity, self._scope, self._undone)

    def __repr__(self) -> str:
        return f"<call {self.call_id} of run {self.run_id}, attempt {self.attempt}>"


class Scope(Struct, frozen=True, eq=False):
    """What the context variable holds: the live run, the branch, and the call whose body this is, if any."""

    live: LiveRun
    branch: Branch
    call: CurrentCall | None = None
    waits: bool = False  # code of an async run, whose calls must be awaited

    def settle_in(self, home: Any) -> None:
        """Called by the driver in the thread or task that is about to run this branch."""
        self.branch.home = home


current_scope: ContextVar[Scope | None] = ContextVar("jumar_scope", default=None)


def branch_here(live: LiveRun, home: Any) -> Branch | None:
    """The branch that the calling code runs in, None where it runs in none; UsageError inside a call's body, or inside
    another run.
    """
    scope = current_scope.get()
    branch = live.root
    if scope is not None:
        if scope.live is not live:
            raise UsageError(
                f"run {live.run_id} was used inside run {scope.live.run_id}",
                hint="Use the run that the agent was given.",
            )
        if scope.call is not None:
            raise UsageError(
                f"the run was used inside {scope.call.call_id}, whose body is one call",
                hint="Make further calls from the agent itself; a tool called by its name inside another just runs.",
            )
        branch = scope.branch
    return branch if branch.home == home else None


def current_call() -> CurrentCall | None:
    """The call whose body is running, or None outside of one.

    A tool hands `current_call().idempotency_key` to the service it calls, and puts the run's and call's ids into its
    own logs.
    """
    scope = current_scope.get()
    return None if scope is None else scope.call


this_thread = get_ident  # what a branch of a plain run has as its home
