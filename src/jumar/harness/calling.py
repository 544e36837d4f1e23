"""Turning what an agent asks for into calls: the one place behind `run.call` and its kin, and behind direct calls of
tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from jumar.core.codec import TypedCodec, codec_for, encode_arguments
from jumar.core.naming import slug
from jumar.core.states import CallKind, Effect
from jumar.engine.flows.calls import Call, perform, prepare
from jumar.engine.live import LiveRun
from jumar.engine.policy import Codec, ToolPolicy
from jumar.engine.scope import Scope, branch_here, this_thread
from jumar.errors import NotStorable, ToolNotAllowed, UsageError
from jumar.harness.binding import hints_of
from jumar.harness.streams import answer_type, keeps_parsed, reading
from jumar.harness.tools import ToolSpec


def tool_call(
    live: LiveRun,
    spec: ToolSpec,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    home: Any,
    policy: ToolPolicy | None = None,
) -> Call:
    """A prepared call of a tool."""
    if live.allowed_tools is not None and spec.name not in live.allowed_tools:
        raise ToolNotAllowed(f"agent {live.run.agent} may not call {spec.name}")
    try:
        bound = spec.binder.bind(args, kwargs)
    except TypeError as error:
        raise UsageError(
            f"{spec.name}: {error}", hint=f"Its signature is {spec.name}{spec.binder.signature}."
        ) from None
    call = Call(
        live,
        spec.policy if policy is None else policy,
        spec.function,
        args,
        kwargs,
        encoded(spec.name, bound),
        spec.key,
    )
    return prepare(call, branch_here(live, home))


def encoded(name: str, bound: dict[str, Any]) -> bytes:
    try:
        return encode_arguments(bound)
    except NotStorable as error:
        raise NotStorable(
            f"an argument of {name} cannot be recorded: {error.what}", path=error.path, hint=error.hint
        ) from error


def decision_call(
    live: LiveRun,
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    returns: Any,
    key: str | None,
    on_event: Callable[[Any], Any] | None,
    options: dict[str, Any],
    home: Any,
    *,
    waits: bool,
) -> Call:
    """A prepared call of a model.  Its prompt is kept as a digest only."""
    if not callable(model):
        raise UsageError(f"decide takes a function that asks the model, not {type(model).__name__}")
    annotation = answer_type((hints_of(model, None) or {}).get("return", Any)) if returns is None else returns
    codec: Codec = codec_for(annotation) if returns is None else AnswerCodec(codec_for(returns))
    policy = ToolPolicy(CallKind.DECISION, name_of(model, "decide"), Effect.READ, codec, **options)
    body = reading(model, on_event, timeout=policy.timeout, waits=waits, keeps_parsed=keeps_parsed(annotation))
    call = Call(live, policy, body, args, kwargs, _prompt(args, kwargs), key)
    return prepare(call, branch_here(live, home))


def _prompt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """A prompt's bytes for its digest; clients and other things that are no data count by their type."""
    try:
        return encode_arguments({"args": args, "kwargs": kwargs})
    except NotStorable:
        return b"".join(_part(value) for value in (*args, *kwargs, *kwargs.values()))


def _part(value: Any) -> bytes:
    try:
        return encode_arguments({"part": value})
    except NotStorable:
        return type(value).__qualname__.encode()


class AnswerCodec:
    """The codec of `decide(..., returns=T)`: a T, or the JSON text of one as models write it."""

    __slots__ = ("_inner",)

    def __init__(self, inner: TypedCodec) -> None:
        self._inner = inner

    def round_trip(self, value: Any) -> tuple[bytes, Any]:
        """What is recorded of an answer, and what the agent gets."""
        if isinstance(value, str):
            try:
                return self._inner.round_trip(value)
            except NotStorable:
                value = self._read(value)
        return self._inner.round_trip(value)

    def _read(self, text: str) -> Any:
        try:
            return self._inner.decode(text.encode("utf-8", "surrogatepass"))
        except NotStorable as error:
            raise NotStorable(
                f"the model's text is no JSON of what was asked for: {error.what}",
                path=error.path,
                hint="The text is kept with the call (`jumar show RUN --json`); ask again, or decide without returns=.",
            ) from error

    def decode(self, data: bytes) -> Any:
        """The answer that was recorded."""
        return self._inner.decode(data)


def value_call(live: LiveRun, name: str, source: Any, returns: Any, key: str | None, home: Any) -> Call:
    """A prepared call that records a value once: what `source()` answers, or `source` itself."""
    body = source if callable(source) else lambda: source
    annotation = (hints_of(body, None) or {}).get("return", Any) if returns is None else returns
    policy = ToolPolicy(CallKind.VALUE, label_of(name), Effect.READ, codec_for(annotation))
    return prepare(Call(live, policy, body, (), {}, b"{}", key), branch_here(live, home))


def mark_call(live: LiveRun, kind: CallKind, details: dict[str, Any], home: Any) -> Call:
    """A prepared call that marks where the run stands."""
    policy = ToolPolicy(kind, kind.label, Effect.READ, codec_for(Any))
    call = Call(live, policy, nothing, (), {}, encoded(kind.label, details), None)
    return prepare(call, branch_here(live, home))


def nothing() -> None:
    return None


def name_of(function: Any, otherwise: str) -> str:
    """A name for call ids."""
    return label_of(getattr(function, "__name__", None) or type(function).__name__ or otherwise)


def label_of(name: str) -> str:
    """A label as it can stand in a call id."""
    return slug(name).replace(".", "-")


def call_plainly(scope: Scope, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A direct call of a plain tool inside a run."""
    from jumar.engine.drivers.plain import drive

    if scope.waits:
        raise UsageError(
            f"{spec.name} was called directly in an async run", hint=f"Use `await run.call({spec.name}, ...)`."
        )
    call = tool_call(scope.live, spec, args, kwargs, this_thread())
    return drive(perform(call), scope.live.io)


def call_awaited(scope: Scope, spec: ToolSpec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Awaitable[Any]:
    """A direct call of an async tool inside a run."""
    import asyncio

    from jumar.engine.drivers.aio import adrive

    if not scope.waits:
        raise UsageError(
            f"{spec.name} is async, and this agent is a plain one", hint="Write the agent with `async def`."
        )
    call = tool_call(scope.live, spec, args, kwargs, asyncio.current_task())
    return adrive(perform(call), scope.live.io)
