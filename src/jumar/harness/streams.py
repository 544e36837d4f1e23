"""Answers that come as streams: what `decide` makes of what a model's function returns.

A stream is no answer.  It can break in the middle, and it can be read only once.  So a body is put around the model's
function; it reads what that returned to its end, inside the attempt, hands each event to `on_event` on the way, and
answers the whole, which alone is recorded.  What was shown before a stream broke counts for nothing: the attempt has
failed, and the next begins anew, which `current_call().attempt` tells a consumer.  A stream whose connection was closed
as if all were well, before the answer said why it ends, has broken too.

Streams are known by their shape, never by importing an SDK:

- a generator: its return value is the answer;
- an object with `get_final_message`, `get_final_completion` or `get_final_response`, plain or async, or an SDK's
  context manager that gives one: that method's answer;
- anything else that can be read only once is refused.

How to read is written once, as a generator that yields each awaitable it needs and gets back what that answers.  A
plain body runs it to its end in place; as soon as there is something to await, it answers a coroutine that goes on.
"""

from __future__ import annotations

import time
import typing
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from inspect import isasyncgen, isawaitable, iscoroutine, iscoroutinefunction, isgenerator
from math import inf
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from jumar.core.answers import as_created, broken, refuse_broken
from jumar.core.failures import short_message
from jumar.core.values import FINAL_ANSWER, is_sdk_stream, name_of, own_codec
from jumar.errors import NotStorable, UsageError

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

Steps: TypeAlias = Generator[Awaitable[Any], Any, Any]

_FINALS = ("get_final_message", "get_final_completion", "get_final_response")
# What needs no second look, as most answers are of these types.
_PLAIN = frozenset({str, dict, list, int, float, bool, type(None)})


# --- The types that `decide` shows. ----------------------------------------------------------------------------------


class FinalMessage(Protocol[T_co]):
    """A stream of Anthropic's SDK, by the method that answers the whole."""

    def get_final_message(self) -> T_co: ...


class FinalCompletion(Protocol[T_co]):
    """A stream of OpenAI's chat completions."""

    def get_final_completion(self) -> T_co: ...


class FinalResponse(Protocol[T_co]):
    """A stream of OpenAI's responses."""

    def get_final_response(self) -> T_co: ...


class Entered(Protocol[T_co]):
    """A context manager that gives a stream."""

    def __enter__(self) -> T_co: ...


class AsyncEntered(Protocol[T_co]):
    """An async context manager that gives a stream."""

    async def __aenter__(self) -> T_co: ...


Sums: TypeAlias = FinalMessage[T] | FinalCompletion[T] | FinalResponse[T]
Streamed: TypeAlias = Generator[Any, Any, T] | Sums[T] | Entered[Sums[T]]
AsyncStreamed: TypeAlias = Generator[Any, Any, T] | Sums[Awaitable[T]] | AsyncEntered[Sums[Awaitable[T]]]


def answer_type(annotation: Any) -> Any:
    """The type of the answer that a function so annotated gives in the end: a generator what it returns, an SDK's
    stream whatever it sums up to.
    """
    origin = typing.get_origin(annotation) or annotation
    if origin is Generator:
        arguments = typing.get_args(annotation)
        return arguments[2] if len(arguments) == 3 else Any
    if isinstance(origin, type) and is_sdk_stream(origin) and (_gives_final(origin) or _is_manager(origin)):
        return Any
    return annotation


def keeps_parsed(annotation: Any) -> bool:
    """Whether a function so annotated wants an SDK's own `Parsed...` answer."""
    return "Parsed" in name_of(annotation)


# --- The body around a model's function. -----------------------------------------------------------------------------


def reading(
    model: Callable[..., Any],
    on_event: Callable[[Any], Any] | None = None,
    *,
    timeout: float | None = None,
    waits: bool = False,
    keeps_parsed: bool = False,
) -> Callable[..., Any]:
    """`model`, but for that a stream it returns is read to its end and answered as a whole.

    `timeout` seconds after it began no event is passed on any more and the stream is closed: a thread that was given
    up goes on until then.  `waits` tells the body of an async run, which may await.  With `keeps_parsed` the answer
    stays of the SDK's class `Parsed...`.
    """
    if on_event is not None and not callable(on_event):
        raise UsageError(f"on_event takes a function of one event, not {type(on_event).__name__}")

    def steps(value: Any, deadline: float) -> Steps:
        answer = yield from _answer(value, _Reader(on_event, deadline, waits))
        if keeps_parsed:
            return answer
        if type(answer) is tuple:  # perhaps with its usage beside it
            return tuple(map(as_created, answer))
        return as_created(answer)

    def plain(*args: Any, **kwargs: Any) -> Any:
        deadline = inf if timeout is None else time.monotonic() + timeout
        value = model(*args, **kwargs)
        return value if type(value) in _PLAIN else _at_once(steps(value, deadline), waits)

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        deadline = inf if timeout is None else time.monotonic() + timeout
        value = await model(*args, **kwargs)
        return value if type(value) in _PLAIN else await _in_loop(steps(value, deadline))

    body: Any = awaited if iscoroutinefunction(model) else plain
    body.__name__ = str(getattr(model, "__name__", type(model).__name__))
    return cast(Callable[..., Any], body)


def _at_once(steps: Steps, waits: bool) -> Any:
    """What the steps answer; in an async run, once they need awaiting, a coroutine of that."""
    try:
        waiting = next(steps)
        if waits:
            return _in_loop(steps, waiting)
        refusal = UsageError(
            "the model's function gave something to await, and this agent is a plain one",
            hint="Write the agent with `async def`, or use the plain client.",
        )
        while True:
            if iscoroutine(waiting):
                waiting.close()
            waiting = steps.throw(refusal)
    except StopIteration as stop:
        return stop.value


async def _in_loop(steps: Steps, waiting: Awaitable[Any] | None = None) -> Any:
    """What the steps answer, awaiting what they yield.  A cancellation reaches them, so that they close the stream."""
    try:
        waiting = next(steps) if waiting is None else waiting
        while True:
            try:
                answer = await waiting
            except BaseException as error:
                waiting = steps.throw(error)
            else:
                waiting = steps.send(answer)
    except StopIteration as stop:
        return stop.value


# --- Reading. --------------------------------------------------------------------------------------------------------


class _Reader:
    """What happens to each event of one attempt's stream."""

    __slots__ = ("_deadline", "_on_event", "_waits", "last")

    def __init__(self, on_event: Callable[[Any], Any] | None, deadline: float, waits: bool) -> None:
        self._on_event = on_event
        self._deadline = deadline
        self._waits = waits
        self.last: Any = None

    @property
    def last_name(self) -> str:
        """What the last event was; nothing where none came."""
        return "" if self.last is None else str(getattr(self.last, "type", type(self.last).__name__))

    def take(self, event: Any) -> Generator[Awaitable[Any], Any, None]:
        """Pass an event on.  What the consumer raises is its own bug: asking the model again would not mend it."""
        self.last = event
        if time.monotonic() > self._deadline:
            raise TimeoutError("the time was over before the stream was")
        if self._on_event is None:
            return
        try:
            told = self._on_event(event)
            if isawaitable(told) and self._waits:
                yield told
        except Exception as error:
            raise UsageError(
                f"on_event raised {type(error).__name__}: {short_message(error)}",
                safe="The model was asked, and its answer was not recorded.",
                hint="Let on_event catch what it raises; the model is not asked again because of it.",
            ) from error
        if isawaitable(told) and not self._waits:
            if iscoroutine(told):
                told.close()
            raise UsageError("on_event is async, and this agent is a plain one", hint="Write it without `async`.")


def _answer(value: Any, reader: _Reader) -> Steps:
    """What a model's function answered in the end, read to its end where it is a stream."""
    if isawaitable(value):
        value = yield value
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isgenerator(value):
        return _checked((yield from _generated(value, reader)), reader)
    if _gives_final(kind) or (is_sdk_stream(kind) and _is_manager(kind)):
        return (yield from _streamed(value, reader))
    if _can_be_read_only_once(value):
        if not isasyncgen(value):  # which holds nothing before it is begun
            yield from _closed(value)
        raise _no_answer(f"`{name_of(kind)}`")
    return _checked(value, reader)  # the function may have summed a stream up by itself


def _generated(generator: Generator[Any, Any, Any], reader: _Reader) -> Steps:
    """What a generator returns; what it yields are its events."""
    try:
        while True:
            try:
                event = next(generator)
            except StopIteration as stop:
                answer = stop.value
                break
            yield from reader.take(event)
    finally:
        with suppress(Exception):
            generator.close()
    if answer is None:
        raise _no_answer("a generator without a return value")
    return answer


def _streamed(value: Any, reader: _Reader) -> Steps:
    """What an SDK's stream sums up to.  It is closed however this ends, as far as anything can still be awaited."""
    stream = yield from _entered(value)
    try:
        if not _gives_final(type(stream)):
            raise _no_answer(f"`{name_of(type(stream))}`")
        yield from _read(stream, reader)
        answer = yield from _summed_up(stream, reader)
    except GeneratorExit:  # dropped: nobody is there to await what closing may need
        raise
    except BaseException as error:
        yield from _closed(value, error)
        raise
    yield from _closed(value)
    return answer


def _entered(value: Any) -> Steps:
    kind = type(value)
    if hasattr(kind, "__aenter__"):
        return (yield value.__aenter__())
    return value.__enter__() if hasattr(kind, "__enter__") else value


def _read(stream: Any, reader: _Reader) -> Generator[Awaitable[Any], Any, None]:
    if not hasattr(type(stream), "__aiter__"):
        for event in stream:
            yield from reader.take(event)
        return
    # What an SDK's __aiter__ makes is one more async generator, which a break would leave open.
    events = stream if hasattr(type(stream), "__anext__") else aiter(stream)
    while True:
        try:
            event = yield events.__anext__()
        except StopAsyncIteration:
            return
        yield from reader.take(event)


def _summed_up(stream: Any, reader: _Reader) -> Steps:
    final = next(method for name in _FINALS if callable(method := getattr(stream, name, None)))
    try:
        answer = final()
        if isawaitable(answer):
            answer = yield answer
    except (AssertionError, RuntimeError) as error:  # how the SDKs say that the last event is missing
        if getattr(reader.last, "type", None) != "response.incomplete":
            raise broken(reader.last_name) from error
        answer = reader.last.response  # cut off at its limit of tokens, which is an end: `create` answers the same
    if answer is None:
        raise broken(reader.last_name)
    return _checked(answer, reader)


def _checked(answer: Any, reader: _Reader) -> Any:
    for part in answer if type(answer) is tuple else (answer,):
        refuse_broken(part, reader.last_name)
    return answer


def _closed(value: Any, error: BaseException | None = None) -> Generator[Awaitable[Any], Any, None]:
    """Leave the context, or close; that it fails changes nothing about what was read, or why that broke off."""
    why = (None, None, None) if error is None else (type(error), error, error.__traceback__)
    with suppress(Exception):
        kind = type(value)
        if hasattr(kind, "__aexit__"):
            yield value.__aexit__(*why)
        elif hasattr(kind, "__exit__"):
            value.__exit__(*why)
        elif callable(close := getattr(value, "aclose", None) or getattr(value, "close", None)):
            closing = close()
            if isawaitable(closing):
                yield closing


# --- Telling streams by their shape. ---------------------------------------------------------------------------------


def _gives_final(kind: type) -> bool:
    return any(callable(getattr(kind, name, None)) for name in _FINALS)


def _is_manager(kind: type) -> bool:
    enters = hasattr(kind, "__enter__") or hasattr(kind, "__aenter__")
    return enters and not (hasattr(kind, "__next__") or hasattr(kind, "__anext__"))


def _can_be_read_only_once(value: Any) -> bool:
    kind = type(value)
    if own_codec(kind) is not None:
        return False
    return is_sdk_stream(kind) or isasyncgen(value) or hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def _no_answer(what: str) -> NotStorable:
    return NotStorable(f"a stream cannot be recorded: the model's function gave {what}", hint=FINAL_ANSWER)
