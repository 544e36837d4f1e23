"""How a value of a type that msgspec does not know is written, and why a value cannot be stored, and where.

Encoding and decoding run in C and say little when they fail: msgspec names a type but no path when it cannot write a
value, and writes NaN as `null` without a word.  So the codec lets C do the work, and comes here only once something
went wrong, to walk the value in Python and name the place.  Apart from the hook, nothing here is on the way of a value
that is fine.

There are two walks.  `refuse_unstorable` looks for what cannot be written at all: a function, a generator, NaN, half a
surrogate pair, a list that contains itself.  `refuse_changed` lays a value beside what came back from its JSON, and
looks for what is no longer the same: a date that came back as text.  The rule it applies: JSON of a type may stand for
the type (a dict for a dataclass, ISO text for a date), but never the other way round, because then the type is lost.
A tuple may become a list.  Both walks keep a stack of their own: no value, however deep, exhausts the interpreter's.

Foreign types are told by their shape, never by importing their library: a pydantic model carries a validator, the
models of the OpenAI and Anthropic SDKs (and of their siblings) override `construct` and add `to_dict` in a base class.
"""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import msgspec.inspect

from jumar.errors import NotStorable

_DEEPEST = 1000
_LONGEST_PATH = 200
_MASKED = "*" * 10
_MSGSPEC_PATH = re.compile(r" - at `(\$[^`]*)`$")
_JSON_TYPES = frozenset({type(None), bool, int, float, str, list, dict})

_REGISTER = "Give the class a codec with `register_codec(TheClass, encode=..., decode=...)`, or return plain data."
_ANNOTATE = "Annotate it with the value's own type, so that it comes back as what it was; or use plain JSON."
FINAL_ANSWER = (
    "Return what the stream sums up to (`get_final_message()`, `get_final_completion()`, `get_final_response()`). "
    "`run.decide` also takes what an SDK's `.stream(...)` returns, or a generator whose return value is the answer."
)
_TELL_APART = (
    "Annotate it with the value's own class; classes that look alike in JSON need a Literal field that differs."
)

T = TypeVar("T")


def _per_type(function: Callable[[Any], T]) -> Callable[[Any], T]:
    return lru_cache(maxsize=4096)(function)


# --- Types told by their shape. --------------------------------------------------------------------------------------


@_per_type
def is_pydantic_model(kind: Any) -> bool:
    """A model of pydantic 2, or of a library built on it."""
    return hasattr(kind, "__pydantic_validator__") and hasattr(kind, "model_dump")


@_per_type
def is_pydantic_dataclass(kind: Any) -> bool:
    """A class made by `pydantic.dataclasses.dataclass`: msgspec would read it without its validators and defaults."""
    return hasattr(kind, "__pydantic_validator__") and dataclasses.is_dataclass(kind)


@_per_type
def _is_path(kind: Any) -> bool:
    return hasattr(kind, "__fspath__") and not inspect.isabstract(kind)


@_per_type
def is_sdk_model(kind: Any) -> bool:
    """A model of a generated SDK: it can be constructed without validation, so that a newer answer never breaks it."""
    return is_pydantic_model(kind) and any(
        "construct" in vars(base) and "to_dict" in vars(base) for base in kind.__mro__
    )


@_per_type
def is_sdk_stream(kind: Any) -> bool:
    """A raw stream of an SDK: the events of an answer, and not the answer."""
    library = kind.__module__.partition(".")[0]
    return library in ("openai", "anthropic") and "Stream" in kind.__name__ and not is_pydantic_model(kind)


@_per_type
def is_typed_dict(kind: Any) -> bool:
    """Also one made by typing_extensions, which `typing.is_typeddict` does not know."""
    return isinstance(kind, type) and issubclass(kind, dict) and hasattr(kind, "__required_keys__")


@_per_type
def has_fields(kind: Any) -> bool:
    """A class that msgspec writes as an object of its declared fields."""
    return dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) or hasattr(kind, "__attrs_attrs__")


@_per_type
def is_native(kind: Any) -> bool:
    """Whether msgspec writes instances of this class by itself, hooks or not."""
    if issubclass(kind, (list, tuple, dict, set, frozenset)) or has_fields(kind):
        return True
    return not isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType)


@_per_type
def _knows_secrets(kind: Any) -> bool:
    """Whether a pydantic model, or one inside it, has a field of a secret, which pydantic writes as a row of stars."""
    return "Secret" in repr(kind.__pydantic_core_schema__)


@_per_type
def takes_field_names(kind: Any) -> bool:
    """Whether this pydantic can be told to validate by the names of fields, whatever their aliases (2.11 and later)."""
    return "by_name" in inspect.signature(kind.__pydantic_validator__.validate_json).parameters


def name_of(kind: Any) -> str:
    """A type's name as a person would write it."""
    if isinstance(kind, type) and not getattr(kind, "__args__", None):
        return kind.__qualname__.split("<locals>.")[-1]
    return str(kind).replace("typing.", "")


# --- Writing what msgspec does not know. -----------------------------------------------------------------------------


class OwnCodec(NamedTuple):
    """How a user's own type is stored."""

    encode: Callable[[Any], Any]
    decode: Callable[[type, Any], Any]


registry: dict[type, OwnCodec] = {}
_PATH = OwnCodec(encode=lambda path: path.__fspath__(), decode=lambda kind, text: kind(text))


def own_codec(kind: type) -> OwnCodec | None:
    """The codec registered for a class, or for the nearest of its bases; a path is stored as its text."""
    return next((registry[base] for base in kind.__mro__ if base in registry), _PATH if _is_path(kind) else None)


class _Unwritable(Exception):
    def __init__(self, trouble: str, hint: str | None = None) -> None:
        super().__init__(trouble)
        self.trouble = trouble
        self.hint = hint


def encode_hook(value: Any) -> Any:
    """Plain data for an object that msgspec does not know, or an exception."""
    kind = type(value)
    own = own_codec(kind)
    if own is not None:
        return own.encode(value)
    if is_sdk_model(kind):
        return value.to_dict(mode="json", warnings=False)
    if is_pydantic_model(kind):
        return _dump_pydantic(value)
    return plain_hook(value)


def plain_hook(value: Any) -> Any:
    """The text or number inside an instance of a subclass of str, int or float."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise _refusal_of(value) or _Unwritable(f"is a `{name_of(type(value))}`, for which there is no codec", _REGISTER)


def _dump_pydantic(value: Any) -> Any:
    kind = type(value)
    written = value.model_dump(mode="json", round_trip=True, warnings=False, by_alias=not takes_field_names(kind))
    if _knows_secrets(kind) and _MASKED in repr(written):
        raise _Unwritable("holds a secret, of which pydantic writes nothing but stars")
    return written


def _refusal_of(value: Any) -> _Unwritable | None:
    """Why a value of this sort can never be stored, or None where its type is merely unknown."""
    kind = type(value)
    name = name_of(kind)
    if is_sdk_stream(kind):
        return _Unwritable(f"is a raw stream (`{name}`); record its final aggregate instead", FINAL_ANSWER)
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return _Unwritable("is a generator; a generator can be read only once; return a list", FINAL_ANSWER)
    if inspect.isawaitable(value):
        return _Unwritable(f"is a `{name}` that was never awaited; await it and return its result")
    if hasattr(kind, "__next__") or hasattr(kind, "__anext__"):
        return _Unwritable(f"is a `{name}`; an iterator can be read only once; return a list")
    if hasattr(value, "status_code") and hasattr(value, "headers"):
        return _Unwritable(f"is a `{name}`, an answer with its connection; return its data (`.json()`, `.parse()`)")
    if inspect.isroutine(value):
        return _Unwritable(f"is a function (`{getattr(value, '__name__', name)}`), which is not data")
    if isinstance(value, type):
        return _Unwritable(f"is the class `{name_of(value)}` itself, which is not data")
    return None


ENCODER = msgspec.json.Encoder(enc_hook=encode_hook, order="deterministic")


def write(value: Any) -> bytes:
    """JSON of anything storable; keys that are not text, which msgspec does not sort, are made text first."""
    try:
        return ENCODER.encode(value)
    except Exception as error:
        refuse_unstorable(value, error)
        first = error
    try:
        return ENCODER.encode(msgspec.to_builtins(value, str_keys=True, enc_hook=encode_hook, order="deterministic"))
    except Exception:
        raise unwritable(first) from first


def unwritable(error: Exception) -> NotStorable:
    if isinstance(error, RecursionError):
        return NotStorable("The value is nested too deeply to be written.")
    return NotStorable(f"The value cannot be written as JSON ({type(error).__name__}: {error}).")


# --- What cannot be written at all. ----------------------------------------------------------------------------------


class _Place(NamedTuple):
    parent: _Place | None
    step: str
    value: Any
    depth: int


class _Failed(NamedTuple):
    """Stands in for an object whose own writer failed, until everything inside it has been looked at."""

    trouble: str
    hint: str | None


_Inside = list[tuple[str, Any]]


def refuse_unstorable(root: Any, cause: Exception | None, *, plain: bool = False) -> None:
    """Raise `NotStorable` at the first place that cannot be written; `plain` allows only what JSON itself holds."""
    stack = [_Place(None, "$", root, 0)]
    while stack:
        place = stack.pop()
        if place.depth > _DEEPEST:
            raise _too_deep(place) from cause
        try:
            inside = _look(place.value, plain)
        except _Unwritable as trouble:
            first = None if isinstance(cause, _Unwritable) else cause
            raise _refusal(place, trouble.trouble, trouble.hint) from trouble.__cause__ or first
        stack.extend(_Place(place, step, value, place.depth + 1) for step, value in reversed(inside))


def _look(value: Any, plain: bool) -> _Inside:
    """What there is to look at inside this one value, if nothing is wrong with itself."""
    kind = type(value)
    if kind is _Failed:
        raise _Unwritable(value.trouble, value.hint)
    if isinstance(value, (list, tuple)):
        return _members(value)
    if isinstance(value, dict):
        _look_at_keys(value, plain)
        return [(step_to(key), item) for key, item in value.items()]
    if value is None or isinstance(value, (bool, str, int, float)):
        _look_at_scalar(value)
        return []
    if plain:
        raise _refusal_of(value) or _Unwritable(f"is a `{name_of(kind)}`, which plain JSON cannot hold", _ANNOTATE)
    if isinstance(value, (set, frozenset)):
        return [("[...]", item) for item in value]
    if has_fields(kind):
        return _fields_of(value)
    return [] if _encodes(value) else _look_through_hook(value)


def _look_at_scalar(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise _Unwritable(f"is {value!r}, for which JSON has no number")
    if isinstance(value, str) and not _encodes(value):
        raise _Unwritable("holds half a surrogate pair, which is not valid text")
    if isinstance(value, int) and not _encodes(value):
        raise _Unwritable(f"is a number of {value.bit_length()} bits, too long to be written")


def _look_through_hook(value: Any) -> _Inside:
    try:
        return [("", encode_hook(value))]
    except _Unwritable as error:
        failed = _Failed(error.trouble, error.hint)
    except Exception as error:
        failed = _Failed(f"could not be written by its own codec ({type(error).__name__}: {error})", None)
    # Pydantic writes many types that nothing else can: what is inside is blamed only where it is surely to blame.
    inside = _fields_of(value) if is_pydantic_model(type(value)) else []
    suspects = [(step, item) for step, item in inside if not hasattr(type(item), "__get_pydantic_core_schema__")]
    return [*suspects, ("", failed)]


def _look_at_keys(value: dict[Any, Any], plain: bool) -> None:
    written: dict[str, Any] = {}
    for key in value:
        shown = f"has the key {key!r} (`{name_of(type(key))}`)"
        if plain and not isinstance(key, str):
            raise _Unwritable(f"{shown}; the keys of a JSON object are text", _ANNOTATE)
        try:
            (text,) = msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins({key: None}, str_keys=True)))
        except Exception as error:
            raise _Unwritable(f"{shown}, which cannot be written as text") from error
        if text in written:
            raise _Unwritable(f"has the keys {written[text]!r} and {key!r}, which are the same in JSON")
        written[text] = key


def _encodes(value: Any) -> bool:
    try:
        msgspec.json.decode(msgspec.json.encode(value, enc_hook=plain_hook))
    except Exception:
        return False
    return True


# --- What is not the same after it was stored. -----------------------------------------------------------------------

_Pairs = list[tuple[str, Any, Any]]


def refuse_changed(root: Any, decoded: Any) -> None:
    """Raise `NotStorable` at the first place where what came back differs from what went in in a way not allowed."""
    stack = [(_Place(None, "$", root, 0), decoded)]
    while stack:
        place, back = stack.pop()
        if place.depth > _DEEPEST:
            raise _too_deep(place)
        try:
            pairs = [] if equal(place.value, back) else _compare(place.value, back)
        except _Unwritable as trouble:
            raise _refusal(place, trouble.trouble, trouble.hint) from None
        stack.extend((_Place(place, step, value, place.depth + 1), came) for step, value, came in reversed(pairs))


def _compare(value: Any, back: Any) -> _Pairs:
    """The pairs inside two things that are not equal, if these themselves may stand for each other."""
    kind, came = type(value), type(back)
    if isinstance(value, float):
        _look_at_scalar(value)
    if isinstance(value, (list, tuple)) and isinstance(back, (list, tuple)):
        loses_names = hasattr(kind, "_fields") and not hasattr(came, "_fields")
        if not loses_names and len(value) == len(back):
            return [(step, item, other) for (step, item), other in zip(_members(value), back, strict=True)]
    elif isinstance(value, dict) and isinstance(back, dict):
        return _compare_dicts(value, back)
    elif kind is came:
        return _compare_alike(value, back)
    elif (is_sdk_model(came) and isinstance(value, came)) or _may_stand_for(kind, came):
        return []
    hint = _ANNOTATE if came in _JSON_TYPES else _TELL_APART
    raise _Unwritable(f"is a `{name_of(kind)}` and would come back as a `{name_of(came)}`", hint)


def _may_stand_for(kind: type, came: type) -> bool:
    """JSON may stand for a richer type; only text is not taken for bytes, as any text is base64 of some garbage."""
    return (
        kind in _JSON_TYPES and came not in _JSON_TYPES and not (kind is str and issubclass(came, (bytes, bytearray)))
    )


def _compare_dicts(value: dict[Any, Any], back: dict[Any, Any]) -> _Pairs:
    for key in value:
        # A text key that is missing is one that a TypedDict does not declare: code of that type cannot see it.
        if key not in back and not isinstance(key, str):
            raise _Unwritable(f"has the key {key!r} (`{name_of(type(key))}`), which would come back as text", _ANNOTATE)
    return [(step_to(key), item, back[key]) for key, item in value.items() if key in back]


def _compare_alike(value: Any, back: Any) -> _Pairs:
    """Two of one class that are not equal: look inside, or find that they are the same all the same."""
    kind: Any = type(value)
    if is_pydantic_model(kind) or is_pydantic_dataclass(kind):
        return []  # validated as what it is; what its own serializers leave out is its author's choice
    if has_fields(kind):
        return [(step, it, other) for (step, it), (_, other) in zip(_fields_of(value), _fields_of(back), strict=True)]
    if kind.__eq__ is object.__eq__ or repr(value) == repr(back):
        return []
    if isinstance(value, (set, frozenset)) and len(value) == len(back):
        return []
    # In the hour that a clock repeats, datetimes of two zones never compare equal, though they are one instant.
    aware = isinstance(value, datetime.datetime) and value.tzinfo and back.tzinfo
    if aware and value.astimezone(datetime.UTC) == back.astimezone(datetime.UTC):
        return []
    raise _Unwritable(f"is {repr(value)[:80]} and would come back as {repr(back)[:80]}")


def equal(value: Any, back: Any) -> bool:
    """Whether two things are equal, even where a class's own way to compare them fails."""
    try:
        return bool(value == back)
    except Exception:
        return False


# --- Steps and paths. ------------------------------------------------------------------------------------------------


def step_to(key: Any) -> str:
    """How a path goes on to a key or an index."""
    if not isinstance(key, str):
        return f"[{key!r}]"
    shown = key.encode(errors="backslashreplace").decode()
    return f".{shown}" if key.isidentifier() else f'["{shown}"]'


def _members(value: Any) -> _Inside:
    names = getattr(type(value), "_fields", None)
    if names is not None:
        return [(step_to(name), item) for name, item in zip(names, value, strict=True)]
    return [(f"[{index}]", item) for index, item in enumerate(value)]


def _fields_of(value: Any) -> _Inside:
    kind = type(value)
    if is_pydantic_model(kind):
        held = {**value.__dict__, **(getattr(value, "__pydantic_extra__", None) or {})}
        return [(step_to(name), item) for name, item in held.items()]
    if issubclass(kind, msgspec.Struct):
        names = list(kind.__struct_fields__)
    else:
        names = [field.name for field in getattr(kind, "__attrs_attrs__", None) or dataclasses.fields(kind)]
    return [(step_to(name), getattr(value, name, None)) for name in names]


def _refusal(place: _Place, trouble: str, hint: str | None = None) -> NotStorable:
    path = "".join(above.step for above in _line_to(place))
    if len(path) > _LONGEST_PATH:
        path = f"{path[:120]}...{path[-60:]}"
    return NotStorable(f"`{path}` {trouble}.", path=path, hint=hint)


def _line_to(place: _Place | None) -> list[_Place]:
    line: list[_Place] = []
    while place is not None:
        line.append(place)
        place = place.parent
    return line[::-1]


def _too_deep(place: _Place) -> NotStorable:
    seen: set[int] = set()
    for above in _line_to(place):
        if id(above.value) in seen:
            return _refusal(above, "contains itself")
        seen.add(id(above.value))
    return _refusal(place, f"is nested more than {_DEEPEST} levels deep")


# --- What does not fit its type. -------------------------------------------------------------------------------------


class Misfit(ValueError):
    """A refusal on its way through msgspec, which adds the path of the hook's own place to it."""

    def __init__(self, refusal: NotStorable) -> None:
        super().__init__(refusal.what)
        self.refusal = refusal


def misfit(error: Exception, annotation: Any) -> NotStorable:
    path, trouble = _explain(error)
    return NotStorable(f"`{path}` is not of the type `{name_of(annotation)}`: {trouble}.", path=path)


def _explain(error: Exception) -> tuple[str, str]:
    """Where some JSON does not fit its type, and why, out of what msgspec, a hook or pydantic raised."""
    match = _MSGSPEC_PATH.search(str(error))
    path = match[1] if match else "$"
    cause: Any = error.__cause__ if isinstance(error, msgspec.ValidationError) else error
    if isinstance(cause, Misfit):
        return path + cause.refusal.path[1:], cause.refusal.what.rstrip(".")
    if hasattr(cause, "error_count"):  # pydantic's
        first = cause.errors(include_url=False)[0]
        steps = "".join(step_to(key) for key in first["loc"])
        return path + steps, f"{first['msg']}, got `{name_of(type(first['input']))}`"
    if isinstance(error, RecursionError):
        return path, "it is nested too deeply"
    if not isinstance(error, msgspec.MsgspecError):
        return path, f"its codec failed ({type(error).__name__}: {error})"
    return path, _MSGSPEC_PATH.sub("", str(error))
