"""The object that holds a store, tools, agents and settings.

It opens its store at first use.  `run` and `resume` drive a run in this process; the other methods look, or answer
what a run waits for.  Every one of them has a twin for async code, with an `a` before its name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, Unpack, overload

from jumar.core.limits import DEFAULT_STALL, DEFAULT_TTL
from jumar.core.naming import check_label, check_run_id, is_storable, slug
from jumar.core.references import check_kinds
from jumar.core.states import ErrorClass, Status
from jumar.core.store import RunFilter
from jumar.core.verdicts import Happened, NotHappened
from jumar.engine.policy import Settings
from jumar.errors import NotSupported, RunNotFound, UnknownAgent, UsageError
from jumar.harness.agents import AgentSpec, agent_spec
from jumar.harness.binding import caller_names
from jumar.harness.options import several, whole
from jumar.harness.results import Report, RunInfo, RunResult, RunView, TraceLine
from jumar.harness.tools import Tool, ToolOptions, ToolSpec, decorated, spec_of
from jumar.harness.views import run_info, run_view, status_named, trace_lines
from jumar.stores import forks
from jumar.stores.opening import check_address

if TYPE_CHECKING:
    from jumar.harness.operations import Operations

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
A = TypeVar("A")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

PlainAgent: TypeAlias = Callable[[Any, A], T]  # of a Run and one input
AsyncAgent: TypeAlias = Callable[[Any, A], Coroutine[Any, Any, T]]  # of an AsyncRun and one input

DEFAULT_STORE = "sqlite:///jumar.db"
_LATER = frozenset({"workspace", "config", "durability", "budget"})


def _twin(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """The async twin of an operator's method: the same work in a thread, so that no event loop blocks."""

    @wraps(method)
    async def awaited(self: Harness, /, *args: P.args, **kwargs: P.kwargs) -> R:
        import asyncio

        return await asyncio.to_thread(method, self, *args, **kwargs)

    awaited.__name__ = f"a{method.__name__}"
    awaited.__doc__ = f"`{method.__name__}`, to be awaited."
    return awaited


class Harness:
    """Wraps agents so that their runs survive crashes.

    `store` is `memory:` or `sqlite:///PATH`; without it JUMAR_STORE is taken, else `sqlite:///jumar.db`.  `lease_ttl`
    is how many seconds a process may go silent before another takes its run over; `stall_timeout` how many a run may
    make no progress and still be renewed.  `reference_kinds` adds kinds of references that checkpoints may hold,
    `error_classes` says how exceptions are treated ("transient", "rate-limited", "permanent", ...).  `strict` refuses
    a resumed decision whose prompt has changed.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        lease_ttl: float = DEFAULT_TTL,
        stall_timeout: float = DEFAULT_STALL,
        reference_kinds: Iterable[str] = (),
        error_classes: Mapping[type[BaseException], str] | None = None,
        strict: bool = False,
        **later: Any,
    ) -> None:
        _refuse_later("Harness", later)
        if store is not None:
            check_address(store)
        self._store = store
        self._settings = Settings(
            lease_ttl=_positive("lease_ttl", lease_ttl),
            stall_timeout=_positive("stall_timeout", stall_timeout),
            reference_kinds=check_kinds(reference_kinds),
            error_classes=_error_classes(error_classes or {}),
            strict=strict,
        )
        self._agents: dict[str, AgentSpec] = {}
        self._tools: dict[str, ToolSpec] = {}
        self._lock = threading.Lock()
        self._overrides: list[tuple[str | None, Operations | None]] = []
        self._operations: Operations | None = None
        self._watcher: Any = None
        forks.watch(self, Harness._forked)

    def __repr__(self) -> str:
        return f"<Harness on {self._address()}>"

    # --- Opening and closing. ---

    def _address(self) -> str:
        for address, _ in reversed(self._overrides):
            if address is not None:
                return address
        return self._store or os.environ.get("JUMAR_STORE") or DEFAULT_STORE

    def _open(self) -> Operations:
        with self._lock:
            if self._operations is None:
                from jumar.harness.operations import Operations

                self._operations = Operations.open(self._address(), self._settings, self._watcher)
            return self._operations

    def _forked(self) -> None:
        """In a forked process: what the parent has open is left to it, and opened anew where it may be."""
        self._lock = threading.Lock()
        forks.keep((self._operations, self._overrides))
        self._operations = None
        self._overrides = [(address, None) for address, _ in self._overrides]

    def _has_live_runs(self) -> bool:
        operations = self._operations
        return operations is not None and operations.has_live_runs()

    def close(self) -> None:
        """Close the store.  It is opened again where the harness is used again."""
        with self._lock:
            operations, self._operations = self._operations, None
        if operations is not None:
            operations.close()

    aclose = _twin(close)

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
    def override(self, *, store: str | None = None, **later: Any) -> Iterator[Harness]:
        """Use another store within the block, as tests do: `with harness.override(store="memory:"):`."""
        _refuse_later("override", later)
        if store is not None:
            check_address(store)
        with self._lock:
            self._overrides.append((store, self._operations))
            self._operations = None
        try:
            yield self
        finally:
            self.close()
            with self._lock:
                _, self._operations = self._overrides.pop()

    # --- Declaring. ---

    def tool(self, function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[Callable[Q, R]], Tool[Q, R]]:
        """Make a function a tool of this harness; see `jumar.tool` for the options."""
        names = caller_names(1)

        def decorate(function: Callable[Q, R]) -> Tool[Q, R]:
            tool: Tool[Q, R] = decorated(function, dict(options), names)
            self._add_tool(spec_of(tool))
            return tool

        # Used without an effect, as a bare decorator, it is given the function itself: then it says what is missing.
        return decorate if function is None else decorate(function)

    def _add_tool(self, spec: ToolSpec) -> None:
        known = self._tools.get(spec.name)
        if known is not None and known.function is not spec.function:
            raise UsageError(
                f"two tools are called {spec.name}", hint="Give one of them another name: tool(name='...')."
            )
        self._tools.setdefault(spec.name, spec)
        if self not in spec.harnesses:
            spec.harnesses.append(self)

    @overload
    def agent(self, function: F, /) -> F: ...
    @overload
    def agent(
        self, /, *, tools: Iterable[Any] | None = ..., name: str | None = ..., **later: Any
    ) -> Callable[[F], F]: ...
    def agent(
        self, function: Any = None, /, *, tools: Iterable[Any] | None = None, name: str | None = None, **later: Any
    ) -> Any:
        """Make a function an agent: it gets a Run (an AsyncRun where it is `async def`) and one input.

        `tools` lists what it may call, and no others; without it, it may call any tool.
        """
        _refuse_later("agent", later)
        names = caller_names(1)
        specs = None if tools is None else [spec_of(tool) for tool in several("tools=", tools)]

        def decorate(function: Any) -> Any:
            spec = agent_spec(function, name, specs, names)
            if spec.name in self._agents:
                raise UsageError(
                    f"two agents are called {spec.name}", hint="Give one of them another name: agent(name='...')."
                )
            for tool in specs or ():
                self._add_tool(tool)
            self._agents[spec.name] = spec
            return function

        return decorate if function is None else decorate(function)

    def _agent(self, agent: Any) -> AgentSpec:
        for spec in self._agents.values():
            if spec.function is agent or spec.name == agent:
                return spec
        name = agent if isinstance(agent, str) else getattr(agent, "__name__", repr(agent))
        known = ", ".join(sorted(self._agents)) or "none"
        raise UnknownAgent(
            f"this harness has no agent {name}",
            hint=f"Decorate it with @harness.agent, in a module that is imported. Known agents: {known}.",
        )

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
        self, agent: str, input: Any = ..., *, run_id: str | None = ..., task: str | None = ..., **later: Any
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
        _refuse_later("run", later)
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
        self, agent: str, input: Any = ..., *, run_id: str | None = ..., task: str | None = ..., **later: Any
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
        _refuse_later("arun", later)
        spec = self._agent(agent)
        return await self._open().arun(spec, input, _id(run_id), _task(task, spec))

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
        _refuse_later("start", later)
        spec = self._agent(agent)
        return self._open().start(spec, input, _id(run_id), _task(task, spec))

    astart = _twin(start)

    def resume(
        self, run_id: str, *, wait: bool = True, waiting: Callable[[float], None] | None = None, **later: Any
    ) -> RunResult[Any]:
        """Take a run over and drive it on from its last recorded fact.

        A run that another process holds is waited for until the lease found has run out; LeaseHeld is raised once it
        is seen renewed, or at once with `wait=False`.  `waiting` is told the seconds left meanwhile.
        """
        _refuse_later("resume", later)
        operations, run_id = self._open(), self.find(run_id)
        return operations.resume(self._agent(operations.agent_of(run_id)), run_id, wait, waiting)

    async def aresume(
        self, run_id: str, *, wait: bool = True, waiting: Callable[[float], None] | None = None, **later: Any
    ) -> RunResult[Any]:
        """`resume`, to be awaited."""
        _refuse_later("aresume", later)
        operations, run_id = self._open(), await self.afind(run_id)
        return await operations.aresume(self._agent(operations.agent_of(run_id)), run_id, wait, waiting)

    # --- Looking and answering. ---

    def find(self, run: str) -> str:
        """The whole id of a run, from its id, a unique end of one, or `last`."""
        operations = self._open()
        text = run.strip().lower() if isinstance(run, str) else ""
        if not text or (not all(character in "0123456789abcdef-" for character in text) and text != "last"):
            raise RunNotFound(f"{run!r} names no run", hint="Give a run's id, the end of one, or `last`.")
        found = operations.store.find("" if text == "last" else text, 2)
        if not found:
            if text == "last":
                raise RunNotFound("there are no runs yet", hint="Check which store this is, or start a run.")
            raise RunNotFound(f"no run's id ends in {text}")
        if text != "last" and len(found) > 1:
            raise RunNotFound(f"more than one run's id ends in {text}", hint="Give more of the id.")
        return found[0]

    afind = _twin(find)

    def runs(
        self, *, status: str | None = None, agent: str | None = None, limit: int = 100, before: str | None = None
    ) -> list[RunInfo]:
        """Runs, newest first, at most `limit`; `before` is the last id of the page before."""
        wanted: Status | None = None
        if status is not None:
            wanted = status_named(status) if isinstance(status, str) else None
            if wanted is None:
                known = ", ".join(each.name for each in Status)
                raise UsageError(f"{status!r} is no status of a run", hint=f"Use one of {known}.")
        for name, value in (("agent", agent), ("before", before)):
            if value is not None and not (isinstance(value, str) and is_storable(value)):
                raise UsageError(f"{name}={value!r} is no text that a run could have")
        which = RunFilter(wanted, agent, before, whole("limit", limit, 1, 1_000_000))
        store = self._open().store
        return [run_info(run, store) for run in store.runs(which)]

    aruns = _twin(runs)

    def show(self, run_id: str) -> RunView:
        """A run with its calls, checkpoints and what it waits for."""
        operations = self._open()
        return run_view(operations.run_record(self.find(run_id)), operations.store)

    ashow = _twin(show)

    def trace(self, run_id: str) -> list[TraceLine]:
        """What happened in a run, in the order of time; for looking only, nothing decides from it."""
        operations = self._open()
        return trace_lines(operations.run_record(self.find(run_id)), operations.store)

    atrace = _twin(trace)

    def resolve(
        self,
        run_id: str,
        call_id: str,
        verdict: Happened[Any] | NotHappened,
        *,
        by: str | None = None,
        note: str | None = None,
    ) -> None:
        """Say whether a call that may have happened did: `Happened(result)` with what the tool would have returned, or
        `NotHappened()`.  Answered once; the run is then QUEUED, to be resumed."""
        operations, run_id = self._open(), self.find(run_id)
        run = operations.run_record(run_id)
        operations.resolve(run, call_id, verdict, by, note, self._tools)

    aresolve = _twin(resolve)

    def doctor(self) -> Report:
        """Check every checksum in the store, and have the database check itself."""
        return self._open().doctor(self._address())

    adoctor = _twin(doctor)


def _refuse_later(where: str, options: dict[str, Any]) -> None:
    for option in options:
        if option in _LATER or option in ("strategy", "verify", "max_steps"):
            raise NotSupported(f"{where}({option}=...) is not in this version")
        raise UsageError(f"{where} has no option {option!r}")


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
