"""The object that holds a store, tools, agents and settings.

It opens its store at first use.  `run` and `resume` drive a run in this process; the other methods look, or answer
what a run waits for.  Every one of them has a twin for async code, with an `a` before its name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeAlias, TypeVar, overload

from msgspec import Struct
from msgspec.structs import replace

from jumar.core.limits import DEFAULT_STALL, DEFAULT_TTL
from jumar.core.naming import check_label, check_run_id, slug
from jumar.core.references import check_kinds
from jumar.core.states import ErrorClass
from jumar.core.store import Store
from jumar.core.working import DEFAULT_CONCURRENCY, DEFAULT_GRACE, DEFAULT_MAX_CRASHES, DEFAULT_POLL
from jumar.database import forks
from jumar.engine.policy import Settings
from jumar.errors import UsageError
from jumar.harness.agents import AgentSpec
from jumar.harness.options import drift_named, durability_named, refuse_later, strategy_named, whole
from jumar.harness.recovering import Recovering
from jumar.harness.results import RunResult
from jumar.harness.twins import aside, twin
from jumar.stores.opening import check_address, shown_address

if TYPE_CHECKING:
    from jumar.engine.places import Told
    from jumar.harness.operations import Operations
    from jumar.harness.view import LoopView
    from jumar.harness.working import WorkerEvent, WorkerReport

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
A = TypeVar("A")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

PlainAgent: TypeAlias = Callable[[Any, A], T]  # of a Run and one input
LoopAgent: TypeAlias = Callable[["LoopView"], Any]  # of a view
AsyncAgent: TypeAlias = Callable[[Any, A], Coroutine[Any, Any, T]]  # of an AsyncRun and one input

DEFAULT_STORE = "sqlite:///jumar.db"


class Harness(Recovering):
    """Wraps agents so that their runs survive crashes.

    `store` is `sqlite:///PATH`, `file:DIR`, `postgresql://...` or `memory:`; without it JUMAR_STORE is taken, else
    `sqlite:///jumar.db`.  `workspace` is the folder whose files the runs work on: it is captured when a run begins,
    and tools that write put it back where they fail.  What is kept of it lies outside, in `<store>.files`, the user's
    state folder, or the database that machines share.  `lease_ttl` is how many seconds a process may go silent before
    another takes its run over; `stall_timeout` how many a run may make no progress and still be renewed.
    `reference_kinds` adds kinds of references that checkpoints may hold,
    `error_classes` says how exceptions are treated ("transient", "rate-limited", "permanent", ...).  `strict` refuses
    a resumed decision whose prompt has changed.

    `config` is a YAML file that says which events keep checkpoints and what a snapshot may cost; ConfigError where it
    cannot be used.  `drift` is "warn" or "refuse": what a resume does where a fingerprint says that something outside
    has changed since.  `max_crashes` is how many processes may end under a run, one after the other and without
    recording anything new, before a worker takes it up no more.  `durability` is "sync", or "hot": an agent goes on
    before the results of tools that only read are on disk, and a crash may have it read again what was not.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        workspace: str | os.PathLike[str] | None = None,
        config: str | os.PathLike[str] | None = None,
        lease_ttl: float = DEFAULT_TTL,
        stall_timeout: float = DEFAULT_STALL,
        reference_kinds: Iterable[str] = (),
        error_classes: Mapping[type[BaseException], str] | None = None,
        strict: bool = False,
        drift: str = "warn",
        max_crashes: int = DEFAULT_MAX_CRASHES,
        durability: str = "sync",
        **later: Any,
    ) -> None:
        refuse_later("Harness", later, Harness)
        super().__init__()
        if store is not None:
            check_address(store)
        self._store = store
        self._workspace = _folder(workspace)
        self._settings = Settings(
            lease_ttl=_positive("lease_ttl", lease_ttl),
            stall_timeout=_positive("stall_timeout", stall_timeout),
            reference_kinds=check_kinds(reference_kinds),
            error_classes=_error_classes(error_classes or {}),
            strict=strict,
            **_configured(config),
            fingerprints=self._fingerprints,
            refuses_drift=drift_named(drift),
            max_crashes=whole("max_crashes", max_crashes, 1, 1_000_000),
            hot=durability_named(durability),
        )
        self._lock = threading.Lock()
        self._overrides: list[_Override] = []
        self._operations: Operations | None = None
        self._watcher: Any = None
        forks.watch(self, Harness._forked)

    def __repr__(self) -> str:
        return f"<Harness on {shown_address(self.address)}>"

    # --- Opening and closing. ---

    @property
    def address(self) -> str:
        """The address of the store in use."""
        for override in reversed(self._overrides):
            if override.store is not None:
                return override.store
        return self._store or os.environ.get("JUMAR_STORE") or DEFAULT_STORE

    @property
    def workspace(self) -> str | None:
        """The path of the folder that new runs work on, or None."""
        for override in reversed(self._overrides):
            if override.workspace is not None:
                return override.workspace
        return self._workspace

    @property
    def store(self) -> Store:
        """The store in use, opened; to look, never to write."""
        return self._open().store

    @property
    def settings(self) -> Settings:
        """The settings that runs are driven with."""
        for override in reversed(self._overrides):
            if override.configured:
                return replace(self._settings, **override.configured)
        return self._settings

    def _open(self) -> Operations:
        with self._lock:
            if self._operations is None:
                from jumar.harness.operations import Operations

                self._operations = Operations.open(self.address, self.settings, self._watcher, self.workspace)
                self._operations.knows(self._tools)
            return self._operations

    async def _aopen(self) -> Operations:
        operations = self._operations
        return operations if operations is not None else await aside(self._open)

    def _forked(self) -> None:
        """In a forked process: what the parent has open is left to it, and opened anew where it may be."""
        self._lock = threading.Lock()
        forks.keep((self._operations, self._overrides))
        self._operations = None
        self._overrides = [replace(each, operations=None) for each in self._overrides]

    def _has_live_runs(self) -> bool:
        operations = self._operations
        return operations is not None and operations.has_live_runs()

    def close(self) -> None:
        """Close the store.  It is opened again where the harness is used again."""
        with self._lock:
            operations, self._operations = self._operations, None
        if operations is not None:
            operations.close()

    aclose = twin(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @contextmanager
    def override(
        self,
        *,
        store: str | None = None,
        workspace: str | os.PathLike[str] | None = None,
        config: str | os.PathLike[str] | None = None,
        **later: Any,
    ) -> Iterator[Harness]:
        """Use another store, workspace or configuration within the block, as tests do:
        `with harness.override(store="memory:"):`.
        """
        refuse_later("override", later, self.override)
        if store is not None:
            check_address(store)
        folder, configured = _folder(workspace), _configured(config)
        with self._lock:
            self._overrides.append(_Override(store, folder, configured, self._operations))
            self._operations = None
        try:
            yield self
        finally:
            self.close()
            with self._lock:
                self._operations = self._overrides.pop().operations

    # --- Driving runs. ---

    @overload
    def run(
        self, agent: AsyncAgent[A, T], input: A = ..., *, run_id: str | None = ..., task: str | None = ..., **later: Any
    ) -> RunResult[T]: ...
    @overload
    def run(
        self, agent: PlainAgent[A, T], input: A = ..., *, run_id: str | None = ..., task: str | None = ..., **later: Any
    ) -> RunResult[T]: ...
    @overload
    def run(
        self,
        agent: LoopAgent | str,
        input: Any = ...,
        *,
        run_id: str | None = ...,
        task: str | None = ...,
        **later: Any,
    ) -> RunResult[Any]: ...
    def run(
        self,
        agent: Callable[..., Any] | str,
        input: Any = None,
        *,
        run_id: str | None = None,
        task: str | None = None,
        **later: Any,
    ) -> RunResult[Any]:
        """Start a run and drive it until it ends or must wait.

        An error of the agent's makes the run FAILED and is in the result.  Raises JumarError where the run could not
        be driven on (its lease was lost, the store failed, the code does not do what is recorded).  `task` is a label
        for people.
        """
        refuse_later("run", later, self.run)
        spec = self._agent(agent)
        return self._open().run(spec, input, _id(run_id), _task(task, spec))

    @overload
    async def arun(
        self, agent: AsyncAgent[A, T], input: A = ..., *, run_id: str | None = ..., task: str | None = ..., **later: Any
    ) -> RunResult[T]: ...
    @overload
    async def arun(
        self, agent: PlainAgent[A, T], input: A = ..., *, run_id: str | None = ..., task: str | None = ..., **later: Any
    ) -> RunResult[T]: ...
    @overload
    async def arun(
        self,
        agent: LoopAgent | str,
        input: Any = ...,
        *,
        run_id: str | None = ...,
        task: str | None = ...,
        **later: Any,
    ) -> RunResult[Any]: ...
    async def arun(
        self,
        agent: Callable[..., Any] | str,
        input: Any = None,
        *,
        run_id: str | None = None,
        task: str | None = None,
        **later: Any,
    ) -> RunResult[Any]:
        """`run`, to be awaited.  A plain agent takes a thread."""
        refuse_later("arun", later, self.arun)
        spec = self._agent(agent)
        chosen, label = _id(run_id), _task(task, spec)
        return await (await self._aopen()).arun(spec, input, chosen, label)

    def start(
        self,
        /,
        agent: Callable[..., Any] | str,
        input: Any = None,
        *,
        run_id: str | None = None,
        task: str | None = None,
        **later: Any,
    ) -> str:
        """Create a run and leave it QUEUED, for whoever resumes it; answers its id."""
        refuse_later("start", later, self.start)
        spec = self._agent(agent)
        return self._open().start(spec, input, _id(run_id), _task(task, spec))

    astart = twin(start)

    def resume(
        self,
        run_id: str,
        *,
        strategy: str = "auto",
        wait: bool = True,
        waiting: Callable[[float], None] | None = None,
        **later: Any,
    ) -> RunResult[Any]:
        """Take a run over and drive it on from its last recorded fact.

        A paused run goes on.  A failed one is recovered by a `strategy`: "retry" makes the calls again that it failed
        with (CannotReopen where that could do something twice); "rollback" goes back to the start of the step that they
        are in, or of the task where no call is to blame, and on from there; "forward" leaves failed calls as they are,
        but for the items of a batch that failed in part.  "auto" takes the one that its error calls for.  A rollback
        that somebody has begun is finished first.

        A run that another process holds is waited for until the lease found has run out; LeaseHeld is raised once it is
        seen renewed, or at once with `wait=False`.  `waiting` is told the seconds left meanwhile.
        """
        refuse_later("resume", later, self.resume)
        operations, run_id, chosen = self._open(), self.find(run_id), strategy_named(strategy)
        return operations.resume(self._agent(operations.agent_of(run_id)), run_id, wait, waiting, strategy=chosen)

    async def aresume(
        self,
        run_id: str,
        *,
        strategy: str = "auto",
        wait: bool = True,
        waiting: Callable[[float], None] | None = None,
        **later: Any,
    ) -> RunResult[Any]:
        """`resume`, to be awaited."""
        refuse_later("aresume", later, self.aresume)
        run_id, chosen = await self.afind(run_id), strategy_named(strategy)
        operations = await self._aopen()
        agent = self._agent(await aside(operations.agent_of, run_id))
        return await operations.aresume(agent, run_id, wait, waiting, strategy=chosen)

    def resume_due(
        self, limit: int = 100, *, told: Callable[[RunResult[Any]], None] | None = None
    ) -> list[RunResult[Any]]:
        """Resume, one after the other, at most `limit` runs of this harness's agents that can go on by themselves: see
        `due`.  `told` gets each result as it comes.

        Runs that are paused or failed are left as they are, as is one that another process takes first.  A run that
        could not be driven on has the error in its result, and keeps no other from its turn.
        """
        results = []
        operations = self._open()
        for run_id, agent in operations.due_of(self._agents, whole("limit", limit, 1, 1_000_000)):
            result = operations.resume_if_free(self._agents[agent], run_id)
            if result is not None:
                results.append(result)
                if told is not None:
                    told(result)
        return results

    async def aresume_due(
        self, limit: int = 100, *, told: Callable[[RunResult[Any]], None] | None = None
    ) -> list[RunResult[Any]]:
        """`resume_due`, to be awaited."""
        results = []
        operations = await self._aopen()
        for run_id, agent in await aside(operations.due_of, self._agents, whole("limit", limit, 1, 1_000_000)):
            result = await operations.aresume_if_free(self._agents[agent], run_id)
            if result is not None:
                results.append(result)
                if told is not None:
                    told(result)
        return results

    # --- Working. ---

    def work(
        self,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        stop: Told | None = None,
        poll: float = DEFAULT_POLL,
        grace: float = DEFAULT_GRACE,
        max_crashes: int | None = None,
        until_idle: bool = False,
        told: Callable[[WorkerEvent], None] | None = None,
    ) -> WorkerReport:
        """Drive the runs of this harness's agents that are due, `concurrency` at a time, until `stop` is set; see
        `jumar.harness.working.work`.
        """
        from jumar.harness.working import work

        return work(
            self,
            concurrency=concurrency,
            stop=stop,
            poll=poll,
            grace=grace,
            max_crashes=max_crashes,
            until_idle=until_idle,
            told=told,
        )

    async def awork(
        self,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        stop: Told | None = None,
        poll: float = DEFAULT_POLL,
        grace: float = DEFAULT_GRACE,
        max_crashes: int | None = None,
        until_idle: bool = False,
        told: Callable[[WorkerEvent], None] | None = None,
    ) -> WorkerReport:
        """`work`, to be awaited.  Cancelled, it stops as if `stop` was set, and ends once it has let go of its runs."""
        from jumar.harness.working import awork

        return await awork(
            self,
            stop,
            concurrency=concurrency,
            poll=poll,
            grace=grace,
            max_crashes=max_crashes,
            until_idle=until_idle,
            told=told,
        )


class _Override(Struct, frozen=True):
    """What a block uses instead, and what was open before it."""

    store: str | None
    workspace: str | None
    configured: dict[str, Any]  # settings
    operations: Operations | None


def _folder(workspace: Any) -> str | None:
    """A workspace's folder, as an absolute path; whether it is one shows when it is opened."""
    if workspace is None:
        return None
    if not isinstance(workspace, (str, os.PathLike)) or not os.fspath(workspace):
        raise UsageError(
            f"workspace={workspace!r} is no folder", hint="Give the path of the folder the agents work in."
        )
    return os.path.abspath(os.fsdecode(workspace))  # noqa: PTH100 - `import jumar` has no use for pathlib otherwise


def _configured(config: Any) -> dict[str, Any]:
    """The settings that a configuration file makes; none without a file."""
    if config is None:
        return {}
    if not isinstance(config, (str, os.PathLike)) or not os.fspath(config):
        raise UsageError(f"config={config!r} is no file", hint="Give the path of a YAML file.")
    from jumar.harness.config import read_config  # which a harness without a file never loads

    read = read_config(config)
    return {"triggers": read.triggers, "snapshot_limits": read.snapshot_limits}


def _positive(name: str, value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0.01 <= value < 1e8:
        return float(value)
    raise UsageError(f"{name}={value!r} is not a number of seconds of at least 0.01")


def _error_classes(table: Mapping[type[BaseException], str]) -> dict[type[BaseException], ErrorClass]:
    known = {kind.label: kind for kind in ErrorClass}
    classes = {}
    if not isinstance(table, Mapping):
        raise UsageError(f"error_classes is a dict of exception types, not {type(table).__name__}")
    for kind, label in table.items():
        if not (isinstance(kind, type) and issubclass(kind, BaseException)) or label not in list(known):
            raise UsageError(
                f"error_classes maps {kind!r} to {label!r}", hint=f"Map exception types to one of {', '.join(known)}."
            )
        classes[kind] = known[label]
    return classes


def _id(run_id: str | None) -> str | None:
    return None if run_id is None else check_run_id(run_id)


def _task(task: str | None, spec: AgentSpec) -> str:
    return slug(spec.name if task is None else check_label("a task", task))
