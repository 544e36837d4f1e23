"""The face a plain agent gets as its first argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, TypeVarTuple, overload

from jumar.engine.drivers.plain import drive
from jumar.engine.flows.calls import perform
from jumar.engine.scope import this_thread
from jumar.harness.asking import UNSET
from jumar.harness.face import Face
from jumar.harness.streams import Streamed
from jumar.harness.tools import Bound, Tool

if TYPE_CHECKING:
    from jumar.core.briefs.records import Brief

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
Ts = TypeVarTuple("Ts")


class Run(Face):
    """A plain agent's hold on its run: what it does through here is recorded, and done only once."""

    def call(self, tool: Tool[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a tool; the recorded result where there is one.

        A recorded failure is raised as the tool's declared type, else as CallFailed.
        """
        result: R = drive(perform(self._tool_call(tool, args, kwargs)), self._live.io)
        return result

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
    ) -> T: ...
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
    ) -> T: ...
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
    ) -> T: ...
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
    ) -> Any:
        """Ask a model: `model(*args, **kwargs)`, once; its answer is recorded, of its prompt only a digest.

        With `returns=Plan` the answer is a Plan, or the JSON text of one.  Usage is read from the answer's `usage`,
        or from the second of a pair (answer, Usage).

        A stream is read to its end, and what it sums up to is recorded: of a generator its return value, of what an
        SDK's `.stream(...)` returns the final message.  `on_event(event)` gets each event as it arrives, of each
        attempt anew; never on replay.
        """
        return drive(
            perform(self._decision(model, args, kwargs, returns, key, retries, timeout, on_event)), self._live.io
        )

    @overload
    def value(self, name: str, source: Callable[[], T], *, returns: Any = ..., key: str | None = ...) -> T: ...
    @overload
    def value(self, name: str, source: T, *, returns: Any = ..., key: str | None = ...) -> T: ...
    def value(self, name: str, source: Any, *, returns: Any = None, key: str | None = None) -> Any:
        """Record a value once (the time, a random number, a setting) and answer the same on every replay."""
        return drive(perform(self._value(name, source, returns, key)), self._live.io)

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
    ) -> T: ...
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
    ) -> str: ...
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
    ) -> Any: ...
    def ask(
        self,
        question: str,
        *,
        choices: Sequence[str] | None = None,
        returns: Any = None,
        expires: float | None = None,
        default: Any = UNSET,
        key: str | None = None,
    ) -> Any:
        """Ask a person, once; the run waits, and costs no process, until `harness.answer` or `jumar answer` is used.

        The answer is one of `choices`, or a value of the type `returns`, or any JSON.  With `expires` (seconds) the
        run goes on with `default` where nobody has answered by then.
        """
        return drive(self._ask(question, choices, returns, expires, default, key), self._live.io)

    def sleep(self, seconds: float | None = None, *, until: datetime | None = None, key: str | None = None) -> None:
        """Sleep for so many seconds, or until a moment (a datetime with a time zone).  No restart begins it anew.

        Up to one lease ttl is slept in place; for longer the run waits, without a process, until it is resumed.
        """
        drive(self._sleep(seconds, until, key), self._live.io)

    @overload
    def gather(self, a: Bound[A] | Callable[[], A], /) -> tuple[A]: ...
    @overload
    def gather(self, a: Bound[A] | Callable[[], A], b: Bound[B] | Callable[[], B], /) -> tuple[A, B]: ...
    @overload
    def gather(
        self, a: Bound[A] | Callable[[], A], b: Bound[B] | Callable[[], B], c: Bound[C] | Callable[[], C], /
    ) -> tuple[A, B, C]: ...
    @overload
    def gather(self, *items: Bound[T] | Callable[[], T]) -> tuple[T, ...]: ...
    def gather(self, *items: Any) -> Any:
        """Run bound tools (or functions without arguments) side by side, each in a branch and a thread of its own, at
        most 64 at once.

        All settle; then the failure of the lowest index is raised, or their results are returned in order.
        """
        return tuple(drive(self._gather(items), self._live.io))

    @overload
    def map(self, tool: Callable[[*Ts], R], items: Iterable[tuple[*Ts]]) -> list[R]: ...
    @overload
    def map(self, tool: Callable[[T], R], items: Iterable[T]) -> list[R]: ...
    def map(self, tool: Any, items: Iterable[Any]) -> Any:
        """Call a tool (or function) for each item side by side: a tuple is its arguments, anything else its one
        argument.

        Raises MapFailed, which has a result or an exception for each item, where any failed.
        """
        return drive(self._map(tool, items), self._live.io)

    def brief(self, lang: str = "en") -> Brief:
        """What happened in this run so far: as data, and as `prose` in English ("en") or Chinese ("zh").

        It is read from the store when it is asked for, and not recorded: after a recovery it says something else.
        """
        return drive(self._brief(lang), self._live.io)

    def plan(self, steps: Sequence[str], files: Iterable[str] = ()) -> None:
        """Say what is intended: step names, and files that will change.  Keeps a checkpoint of the task."""
        drive(self._plan(steps, files), self._live.io)

    def checkpoint(self, name: str, refs: Iterable[str] = ()) -> None:
        """Keep a restore point, with references `kind:id` to things outside."""
        drive(self._checkpoint(name, refs), self._live.io)

    def record(
        self,
        kind: str,
        name: str,
        args: Mapping[str, Any],
        body: Callable[[], T],
        *,
        key: str | None = None,
        effect: str = "read",
        codec: Any = None,
        usage: Any = None,
        plan: Any = None,
    ) -> T:
        """The base of `decide` and `call`, for integrations: run `body` once, as a call of this kind, name and
        arguments.

        `key` is an id the caller has for the call (a model's tool_call_id), `codec` the type of the result, `usage` a
        Usage or a function that reads one from the result.
        """
        call = self._record(kind, name, args, body, key, effect, codec, usage, plan)
        result: T = drive(perform(call), self._live.io)
        return result

    def _home(self) -> Any:
        return this_thread()

    def _bound_body(self, bound: Bound[Any]) -> Callable[[], Any]:
        return lambda: self.call(bound.tool, *bound.args, **bound.kwargs)
