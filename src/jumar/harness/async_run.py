"""The face an async agent gets as its first argument."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar, TypeVarTuple, overload

from jumar.engine.drivers.aio import adrive, adrive_in_turn
from jumar.engine.flows.calls import Call, perform
from jumar.errors import UsageError
from jumar.harness.asking import UNSET
from jumar.harness.face import Face
from jumar.harness.streams import AsyncStreamed, Streamed
from jumar.harness.tools import Bound, Tool, spec_of

if TYPE_CHECKING:
    from jumar.core.briefs.records import Brief

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
Ts = TypeVarTuple("Ts")

Item: TypeAlias = Bound[A] | Awaitable[A] | Callable[[], Awaitable[A]]


class AsyncRun(Face):
    """An async agent's hold on its run.  The methods are those of Run, to be awaited.

    A call is matched with what is recorded when it is made, not when it is awaited, so `asyncio.gather(run.call(...),
    run.call(...))` and `asyncio.wait_for(run.call(...), 5)` work as one would think.
    """

    _waits = True

    @overload
    def call(
        self, tool: Tool[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...
    def call(self, tool: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Call an async or plain tool; see `Run.call`."""
        return self._asked("call", self._tool_call(tool, args, kwargs))

    @overload
    def decide(
        self,
        model: Callable[..., Any],
        *args: Any,
        returns: type[T],
        key: str | None = ...,
        retries: int = ...,
        timeout: float | None = ...,
        on_event: Callable[[Any], Any] | None = ...,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def decide(
        self,
        model: Callable[..., AsyncStreamed[T]],
        *args: Any,
        returns: None = ...,
        key: str | None = ...,
        retries: int = ...,
        timeout: float | None = ...,
        on_event: Callable[[Any], Any] | None = ...,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def decide(
        self,
        model: Callable[..., Streamed[T]],
        *args: Any,
        returns: None = ...,
        key: str | None = ...,
        retries: int = ...,
        timeout: float | None = ...,
        on_event: Callable[[Any], Any] | None = ...,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def decide(
        self,
        model: Callable[..., Awaitable[T]],
        *args: Any,
        returns: None = ...,
        key: str | None = ...,
        retries: int = ...,
        timeout: float | None = ...,
        on_event: Callable[[Any], Any] | None = ...,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def decide(
        self,
        model: Callable[..., T],
        *args: Any,
        returns: None = ...,
        key: str | None = ...,
        retries: int = ...,
        timeout: float | None = ...,
        on_event: Callable[[Any], Any] | None = ...,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]: ...
    def decide(
        self,
        model: Callable[..., Any],
        *args: Any,
        returns: Any = None,
        key: str | None = None,
        retries: int = 2,
        timeout: float | None = None,
        on_event: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Ask a model; see `Run.decide`."""
        return self._asked("decide", self._decision(model, args, kwargs, returns, key, retries, timeout, on_event))

    @overload
    def value(
        self, name: str, source: Callable[[], Awaitable[T]], *, returns: Any = ..., key: str | None = ...
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def value(
        self, name: str, source: Callable[[], T], *, returns: Any = ..., key: str | None = ...
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def value(self, name: str, source: T, *, returns: Any = ..., key: str | None = ...) -> Coroutine[Any, Any, T]: ...
    def value(self, name: str, source: Any, *, returns: Any = None, key: str | None = None) -> Coroutine[Any, Any, Any]:
        """Record a value once; see `Run.value`."""
        return self._asked("value", self._value(name, source, returns, key))

    @overload
    def ask(
        self,
        question: str,
        *,
        returns: type[T],
        choices: None = ...,
        expires: float | None = ...,
        default: T = ...,
        key: str | None = ...,
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def ask(
        self,
        question: str,
        *,
        choices: Sequence[str],
        returns: None = ...,
        expires: float | None = ...,
        default: str = ...,
        key: str | None = ...,
    ) -> Coroutine[Any, Any, str]: ...
    @overload
    def ask(
        self,
        question: str,
        *,
        choices: None = ...,
        returns: None = ...,
        expires: float | None = ...,
        default: Any = ...,
        key: str | None = ...,
    ) -> Coroutine[Any, Any, Any]: ...
    def ask(
        self,
        question: str,
        *,
        choices: Sequence[str] | None = None,
        returns: Any = None,
        expires: float | None = None,
        default: Any = UNSET,
        key: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Ask a person; see `Run.ask`."""
        return adrive(self._ask(question, choices, returns, expires, default, key), self._live.io)

    def sleep(
        self, seconds: float | None = None, *, until: datetime | None = None, key: str | None = None
    ) -> Coroutine[Any, Any, None]:
        """Sleep durably; see `Run.sleep`."""
        return adrive(self._sleep(seconds, until, key), self._live.io)

    @overload
    async def gather(self, a: Item[A], /) -> tuple[A]: ...
    @overload
    async def gather(self, a: Item[A], b: Item[B], /) -> tuple[A, B]: ...
    @overload
    async def gather(self, a: Item[A], b: Item[B], c: Item[C], /) -> tuple[A, B, C]: ...
    @overload
    async def gather(self, *items: Item[T]) -> tuple[T, ...]: ...
    @overload
    async def gather(self, *items: Item[Any] | Callable[[], Any]) -> tuple[Any, ...]: ...
    async def gather(self, *items: Any) -> Any:
        """Run bound tools, functions without arguments or awaitables side by side; see `Run.gather`.  A plain tool
        takes a worker thread.
        """
        return tuple(await adrive(self._gather(items), self._live.io))

    @overload
    async def map(self, tool: Callable[[*Ts], Coroutine[Any, Any, R]], items: Iterable[tuple[*Ts]]) -> list[R]: ...
    @overload
    async def map(self, tool: Callable[[T], Coroutine[Any, Any, R]], items: Iterable[T]) -> list[R]: ...
    @overload
    async def map(self, tool: Callable[[*Ts], R], items: Iterable[tuple[*Ts]]) -> list[R]: ...
    @overload
    async def map(self, tool: Callable[[T], R], items: Iterable[T]) -> list[R]: ...
    async def map(self, tool: Any, items: Iterable[Any]) -> Any:
        """Call a tool or function for each item side by side; see `Run.map`."""
        return await adrive(self._map(tool, items), self._live.io)

    async def plan(self, steps: Sequence[str], files: Iterable[str] = ()) -> None:
        """Say what is intended; see `Run.plan`."""
        await adrive(self._plan(steps, files), self._live.io)

    async def brief(self, lang: str = "en") -> Brief:
        """What happened in this run so far; see `Run.brief`."""
        return await adrive(self._brief(lang), self._live.io)

    async def checkpoint(self, name: str, refs: Iterable[str] = ()) -> None:
        """Keep a restore point; see `Run.checkpoint`."""
        await adrive(self._checkpoint(name, refs), self._live.io)

    def record(
        self,
        kind: str,
        name: str,
        args: Mapping[str, Any],
        body: Callable[[], Any],
        *,
        key: str | None = None,
        effect: str = "read",
        codec: Any = None,
        usage: Any = None,
        plan: Any = None,
    ) -> Coroutine[Any, Any, Any]:
        """The base of `decide` and `call`, for integrations; see `Run.record`.  `body` may be async."""
        call = self._record(kind, name, args, body, key, effect, codec, usage, plan)
        return self._asked("record", call)

    def _asked(self, method: str, call: Call) -> Coroutine[Any, Any, Any]:
        """The coroutine that answers a call, under the name Python should use where it is never awaited."""
        coroutine: Any = adrive(perform(call), self._live.io)
        coroutine.__qualname__ = f"run.{method}({call.call_id})"
        answer: Coroutine[Any, Any, Any] = coroutine
        return answer

    def _home(self) -> Any:
        try:
            return asyncio.current_task()
        except RuntimeError:
            raise UsageError(
                "an async run was used in a thread that runs no event loop",
                hint="Use it in the agent's own loop; from another thread, hand the work over with "
                "asyncio.run_coroutine_threadsafe(...).",
            ) from None

    def _body(self, item: Any) -> Callable[[], Any]:
        if isinstance(item, Awaitable):
            return lambda: item
        return super()._body(item)

    def _bound_body(self, bound: Bound[Any]) -> Callable[[], Any]:
        drive = adrive if spec_of(bound.tool).is_async else adrive_in_turn
        return lambda: drive(perform(self._threaded_call(bound)), self._live.io)
