"""An exception as a recorded failure, and a recorded failure as an exception again.

What the agent gets is made from the record, live and on replay alike.  An exception of a type that the tool declares
comes back as that type: made without the type's own constructor, which may want what is no longer there, with its
arguments and those of its attributes that are plain JSON.  Only a name is kept of the type, and it is looked up among
the declared types and the types below them: an import path never comes out of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from jumar.core.failures import short_message
from jumar.core.limits import INLINE_BYTES
from jumar.core.naming import storable
from jumar.core.records import Failure
from jumar.core.states import ErrorClass
from jumar.errors import CallFailed, JumarError, MapFailed, NotStorable, ResultNotStorable

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_NOT_STORABLE = "ResultNotStorable"

_ENDS = (StopIteration, StopAsyncIteration)  # would end the generator that raises them

Types: TypeAlias = tuple[type[BaseException], ...]


def failure_of(error: BaseException, error_class: ErrorClass, declared: Types) -> Failure:
    """What is kept of an exception."""
    kind = type(error)
    args = state = None
    if isinstance(error, declared):
        args, state = _arguments(error), _attributes(error)
    return Failure(kind.__name__, short_message(error), error_class, _hint(error), args, state, module=kind.__module__)


def unstorable_result(error: NotStorable) -> Failure:
    """What is kept of a result that cannot be stored; the call it came from has happened."""
    return Failure(
        _NOT_STORABLE, short_message(error), ErrorClass.PERMANENT, hint=_hint(error), path=storable(error.path)
    )


def raised(failure: Failure, call_id: str, declared: Types) -> Exception:
    """The exception for a recorded failure: of the declared type where it has one, else CallFailed."""
    if failure.type_name == _NOT_STORABLE and failure.path is not None:
        return ResultNotStorable(
            f"call {call_id} happened, but its result cannot be used: {failure.message}",
            path=failure.path,
            call_id=call_id,
            type_name=failure.type_name,
            message=failure.message,
            hint=failure.hint or None,
        )
    kind = _declared_type(failure, declared)
    error = None if kind is None else _rebuilt(kind, failure)
    if error is not None:
        return error
    return CallFailed(
        f"call {call_id} failed with {failure.type_name}: {failure.message}",
        call_id=call_id,
        type_name=failure.type_name,
        message=failure.message,
        error_class=failure.error_class.label,
        hint=failure.hint or None,
    )


# --- Which calls an exception comes from. ----------------------------------------------------------------------------

_CALLS = "__jumar_calls__"


def comes_from(error: BaseException, *calls: int) -> None:
    """Note on an exception the numbers of the calls whose recorded failure it is."""
    with suppress(Exception):  # one that takes no attributes
        setattr(error, _CALLS, calls)


def comes_from_all(failure: BaseException, errors: Iterable[BaseException | None]) -> None:
    """Note on the failure that stands for several errors, as that of a gather does, the calls of all of them."""
    calls = {call for error in errors for call in calls_of(error)}
    if calls:
        comes_from(failure, *sorted(calls))


def calls_of(error: BaseException | None) -> tuple[int, ...]:
    """The numbers of the calls that an exception comes from, through whatever it was raised from or stands for.

    What a failed call was raised after, in an `except` that had dealt with it, is no cause of it.
    """
    found: dict[int, None] = {}
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        own = getattr(each, _CALLS, None)
        if isinstance(own, tuple):
            found.update(dict.fromkeys(own))
        elif isinstance(each, MapFailed):
            waiting.extend(result for result in each.results if isinstance(result, BaseException))
        elif isinstance(each, BaseExceptionGroup):
            waiting.extend(each.exceptions)
        else:
            waiting.append(
                each.__cause__ if each.__cause__ is not None or each.__suppress_context__ else each.__context__
            )
    return tuple(sorted(found))


def _hint(error: BaseException) -> str:
    try:
        return storable(error.hint) if isinstance(error, JumarError) else ""
    except Exception:  # a hint that is no text
        return ""


# --- What is kept. ---------------------------------------------------------------------------------------------------


def _builtin(kind: type[BaseException]) -> type[BaseException]:
    """The nearest built-in base, whose constructor and arguments are known whatever the type's own do."""
    return next(base for base in kind.__mro__ if base.__module__ == "builtins" and issubclass(base, BaseException))


def _arguments(error: BaseException) -> bytes | None:
    """The exception's arguments, if all are plain: as they are pickled, which for OSError includes the file's name."""
    try:
        reduced = _builtin(type(error)).__reduce__(error)
        return _plain_json(list(reduced[1]))
    except Exception:
        return _plain_json(list(error.args))


def _attributes(error: BaseException) -> bytes | None:
    """Those attributes that are plain, in their order, for as long as they fit into a row."""
    kept: dict[str, Any] = {}
    room = INLINE_BYTES
    for name, value in vars(error).items():
        data = _plain_json({name: value})
        if data is not None and len(data) < room:
            kept[name] = value
            room -= len(data)
    return _encode(kept) if kept else None


def _plain_json(value: Any) -> bytes | None:
    """`value` as JSON where all of it is plain and little; None where it is not."""
    try:
        data = _encode(value)
        return data if len(data) <= INLINE_BYTES and _decode(data) == value else None
    except Exception:  # whatever a foreign object raises
        return None


# --- What is made of it. ---------------------------------------------------------------------------------------------


def _declared_type(failure: Failure, declared: Types) -> type[Exception] | None:
    """The declared type of this name, or the one below a declared type: of the same module, else the first."""
    first: type[Exception] | None = None
    for kind in _types_below(declared):
        if kind.__name__ != failure.type_name or not issubclass(kind, Exception) or issubclass(kind, _ENDS):
            continue
        if kind.__module__ == failure.module:
            return kind
        # A program's main module has another name where it is imported.
        first = first or kind
    return first


def _types_below(declared: Types) -> Iterator[type[BaseException]]:
    waiting, seen = list(declared), set[type]()
    while waiting:
        kind = waiting.pop(0)
        if kind not in seen:
            seen.add(kind)
            yield kind
            waiting.extend(kind.__subclasses__())


def _rebuilt(kind: type[Exception], failure: Failure) -> Exception | None:
    """An exception of the user's own type; None where one cannot be made without its constructor."""
    base: Any = _builtin(kind)
    args = [failure.message] if failure.args is None else _decode(failure.args)
    try:
        error: Exception = base.__new__(kind, *args)
        base.__init__(error, *args)
        if isinstance(error, JumarError):
            JumarError.__init__(error, failure.message, hint=failure.hint or None)
            error.__dict__.setdefault("retry_after", None)
        if failure.state is not None:
            error.__dict__.update(_decode(failure.state))
    except Exception:
        return None
    return error
