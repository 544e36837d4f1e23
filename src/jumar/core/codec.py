"""How argument and result values become JSON bytes, and come back as values of the annotated type.

The agent never gets what a tool returned, but what was recorded of it, decoded; so a run behaves the same live and on
replay.  That is only honest if nothing is lost on the way, and `TypedCodec.round_trip` sees to it: encode, decode with
the annotated type, compare.  All three run in C, for a plain value of 1 KiB in a few microseconds.  Only when they fail
or differ does Python look at the value (values.py), to allow the difference or to name the place in `NotStorable`.

Which codec an annotation gets is settled once, in `codec_for`:

- none, `Any`, `object`: plain JSON.  What JSON cannot hold is refused, except that a tuple becomes a list.  The main
  answers of the OpenAI and Anthropic SDKs come back as what they are: they are stored in an envelope which names an
  entry of a table in this file.  A path to import is never read out of data.
- what msgspec knows is msgspec's, by its strict rules.
- pydantic models, models of the SDKs, types given to `register_codec`, paths, and subclasses of str, int and float go
  through msgspec's hooks.  A pydantic model is validated as its declared type; an SDK's model is constructed without
  validation, so that an answer newer than the SDK does not break the run.
- a union that msgspec cannot tell apart by JSON alone (two models, a model or text) becomes a stand-in class, which
  msgspec hands to a hook that tries each member.  At the top of an annotation the stored bytes name the member.
- a raw stream or iterator in a union is left out, as no value of it can ever be stored.  A TypedDict that msgspec
  cannot compile (some of the SDKs' parameters) is a dict of JSON.
- any other class is refused here, when a tool is declared, and not when its first result is lost.

JSON is deterministic: keys are sorted, sets too, so that a digest of arguments stays the same.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import operator
import sys
import typing
from collections import abc
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from types import UnionType
from typing import Any, ClassVar, cast

import msgspec
import msgspec.inspect

from jumar.core import values
from jumar.core.values import name_of
from jumar.errors import NotStorable, UsageError

_ENVELOPE = b'{"$jumar":'
_PLAIN_JSON = "json"
_SDK_ANSWERS = {
    "openai.ChatCompletion": ("openai.types.chat", "ChatCompletion"),
    "openai.Response": ("openai.types.responses", "Response"),
    "openai.Completion": ("openai.types", "Completion"),
    "openai.CreateEmbeddingResponse": ("openai.types", "CreateEmbeddingResponse"),
    "anthropic.Message": ("anthropic.types", "Message"),
    "anthropic.BetaMessage": ("anthropic.types.beta", "BetaMessage"),
}
_READ_ONCE = (abc.Iterator, abc.AsyncIterator, abc.AsyncIterable, abc.Awaitable)

_REGISTER = "Give the class a codec with `register_codec(TheClass, encode=..., decode=...)`, or use a dataclass."
_COLLECT = f"Collect it first: use a list.  {values.FINAL_ANSWER}"


def digest(data: bytes) -> bytes:
    """The sha256 of some bytes."""
    return hashlib.sha256(data).digest()


def register_codec(kind: type, *, encode: Callable[[Any], Any], decode: Callable[[type, Any], Any]) -> None:
    """Store `kind` and its subclasses as what `encode(value)` makes of them; `decode(kind, data)` is the way back.

    `encode` returns JSON, or anything else that can be stored.  Register before tools with the type are declared.
    """
    if values.is_native(kind):
        raise UsageError(
            f"`{name_of(kind)}` is already written as JSON without a codec, so one would never be asked.",
            hint="Annotate with a dataclass, Struct or enum as it is; put anything else into a class of its own.",
        )
    values.registry[kind] = values.OwnCodec(encode, decode)
    _compiled.cache_clear()


# --- Reading what msgspec does not know. -----------------------------------------------------------------------------


def _decode_hook(kind: Any, data: Any) -> Any:
    origin = typing.get_origin(kind) or kind
    if origin is abc.Iterable:
        return _revive(codec_for(cast(Any, list)[typing.get_args(kind) or Any]), data)
    if issubclass(origin, _StandIn):
        return origin.revive(data)
    own = values.own_codec(origin)
    if own is not None:
        return own.decode(kind, data)
    if values.is_sdk_model(origin) and isinstance(data, dict):
        return kind.construct(**data)
    if values.is_pydantic_model(origin):
        return _validate_pydantic(origin, data)
    for base in (str, int, float):
        if issubclass(origin, base) and (type(data) is base or (base is float and type(data) is int)):
            return origin(data)
    raise ValueError(f"Expected `{name_of(kind)}`, got `{name_of(type(data))}`")


def _validate_pydantic(kind: Any, data: Any) -> Any:
    # Validated as JSON and not as Python objects: a strict model takes text for a date only there.
    names = {"by_alias": False, "by_name": True} if values.takes_field_names(kind) else {}
    return kind.__pydantic_validator__.validate_json(msgspec.json.encode(data), **names)


def _revive(codec: TypedCodec, data: Any) -> Any:
    try:
        return codec.decode(msgspec.json.encode(data))
    except NotStorable as refusal:
        raise values.Misfit(refusal) from refusal


_PLAIN = msgspec.json.Encoder(enc_hook=values.plain_hook, order="deterministic")
_JSON: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


# --- The codecs. -----------------------------------------------------------------------------------------------------


class TypedCodec:
    """Writes and reads the values of one annotation.  Get one from `codec_for`; threads may share it."""

    __slots__ = ("_decode", "_encode", "annotation")

    def __init__(self, annotation: Any, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        self.annotation = annotation
        self._encode = encode
        self._decode = decode

    def round_trip(self, value: Any) -> tuple[bytes, Any]:
        """What is recorded of a value, and what the agent gets in its stead; refuses what would not be the same."""
        try:
            data = self._encode(value)
            decoded = self._decode(data)
            if decoded == value and not data.startswith(_ENVELOPE):
                return data, decoded
        except Exception:  # whatever a class or codec of the user's raises: the slower way meets it again
            pass
        return self._round_trip_slowly(value)

    def encode(self, value: Any) -> bytes:
        """What is recorded of a value; refuses what would not come back the same."""
        return self.round_trip(value)[0]

    def decode(self, data: bytes) -> Any:
        """The value of the annotated type that some JSON stands for."""
        try:
            return self._decode(data)
        except Exception as error:
            raise values.misfit(error, self.annotation) from error

    def _round_trip_slowly(self, value: Any) -> tuple[bytes, Any]:
        data = values.write(value)
        try:
            decoded = self._decode(data)
        except Exception as error:
            values.refuse_unstorable(value, error)  # NaN is written as null, which a float is not: name the cause
            raise values.misfit(error, self.annotation) from error
        values.refuse_changed(value, decoded)
        return data, decoded


class _PlainCodec(TypedCodec):
    """Values without an annotation: JSON as it is, or an answer of an SDK in an envelope."""

    __slots__ = ()

    def decode(self, data: bytes) -> Any:
        if not data.startswith(_ENVELOPE):
            return super().decode(data)
        name, inner = _open(data)
        return super().decode(inner) if name == _PLAIN_JSON else _sdk_codec(name).decode(inner)

    def _round_trip_slowly(self, value: Any) -> tuple[bytes, Any]:
        answer = _sdk_answer(type(value))
        if answer is not None:
            data, decoded = codec_for(type(value)).round_trip(value)
            return _wrap(answer, data), decoded
        try:
            data = self._encode(value)
            decoded = self._decode(data)
        except Exception as error:
            values.refuse_unstorable(value, error, plain=True)
            raise values.unwritable(error) from error
        values.refuse_changed(value, decoded)
        return _wrap(_PLAIN_JSON, data) if data.startswith(_ENVELOPE) else data, decoded


class _UnionCodec(TypedCodec):
    """A union whose members look alike in JSON: the bytes name the member; JSON without a name is tried with each."""

    __slots__ = ("members",)

    def __init__(self, annotation: Any, members: dict[str, TypedCodec]) -> None:
        super().__init__(annotation, values.ENCODER.encode, _JSON.decode)
        self.members = members

    def round_trip(self, value: Any) -> tuple[bytes, Any]:
        tried: list[tuple[bool, bool, int, bytes, Any]] = []
        refusals: list[NotStorable] = []
        for position, (name, codec) in enumerate(self.members.items()):
            try:
                data, decoded = codec.round_trip(value)
            except NotStorable as refusal:
                refusals.append(refusal)
            else:
                other, unequal = type(decoded) is not type(value), not values.equal(decoded, value)
                tried.append((other, unequal, position, _wrap(name, data), decoded))
        if tried:
            return min(tried, key=lambda attempt: attempt[:3])[3:]
        values.write(value)
        raise self._no_member(refusals)

    def decode(self, data: bytes) -> Any:
        if not data.startswith(_ENVELOPE):
            return self._choose(data)
        name, inner = _open(data)
        if name not in self.members:
            raise NotStorable(f"The value was stored as a `{name}`, which is not in `{name_of(self.annotation)}`.")
        return self.members[name].decode(inner)

    def _choose(self, data: bytes) -> Any:
        """The member that fits best: fewest faults as an SDK's model, then nothing lost of the JSON, then the first."""
        tried: list[tuple[int, bool, int, Any]] = []
        refusals: list[NotStorable] = []
        for position, codec in enumerate(self.members.values()):
            try:
                found = codec.decode(data)
                loses = _JSON.decode(values.write(found)) != _JSON.decode(data)
            except NotStorable as refusal:
                refusals.append(refusal)
            else:
                tried.append((_faults(type(found), data), loses, position, found))
        if not tried:
            raise self._no_member(refusals)
        return min(tried, key=lambda attempt: attempt[:3])[3]

    def _no_member(self, refusals: list[NotStorable]) -> NotStorable:
        """The refusal that came furthest into the value tells most; at equal depth all are told."""
        furthest = max(len(refusal.path) for refusal in refusals)
        reasons = [refusal for refusal in refusals if len(refusal.path) == furthest]
        if len(reasons) == 1:
            return reasons[0]
        told = " ".join(refusal.what for refusal in reasons)
        return NotStorable(f"The value fits no member of `{name_of(self.annotation)}`: {told}", path=reasons[0].path)


def _faults(kind: Any, data: bytes) -> int:
    """How far some JSON is from an SDK's model, which can be constructed from anything."""
    if not values.is_sdk_model(kind):
        return 0
    try:
        kind.__pydantic_validator__.validate_json(data)
    except ValueError as error:
        return int(cast(Any, error).error_count())
    return 0


# --- Envelopes. ------------------------------------------------------------------------------------------------------


class _Envelope(msgspec.Struct):
    name: str = msgspec.field(name="$jumar")
    value: msgspec.Raw


_envelope = msgspec.json.Decoder(_Envelope)


def _wrap(name: str, data: bytes) -> bytes:
    return msgspec.json.encode(_Envelope(name, msgspec.Raw(data)))


def _open(data: bytes) -> tuple[str, bytes]:
    try:
        envelope = _envelope.decode(data)
    except Exception as error:
        raise values.misfit(error, _Envelope) from error
    return envelope.name, bytes(envelope.value)


def _sdk_answer(kind: type) -> str | None:
    """The table's name of an SDK's answer.  Its module is loaded already if there is a value of it."""
    answers = _SDK_ANSWERS.items()
    return next((name for name, (module, it) in answers if getattr(sys.modules.get(module), it, None) is kind), None)


def _sdk_codec(name: str) -> TypedCodec:
    if name not in _SDK_ANSWERS:
        raise NotStorable(f"The value was stored as a `{name}`, a codec that this version of Jumar does not know.")
    module, attribute = _SDK_ANSWERS[name]
    try:
        return codec_for(getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        hint = f"Install the package `{module.partition('.')[0]}` in this environment."
        raise NotStorable(f"The value was stored as a `{name}`, which cannot be imported.", hint=hint) from error


# --- Writing arguments. ----------------------------------------------------------------------------------------------


def encode_arguments(arguments: Mapping[str, Any]) -> bytes:
    """Deterministic JSON of a call's bound arguments, for its record and its digest."""
    try:
        data = values.ENCODER.encode(arguments)
    except Exception:  # as in round_trip: the slower way meets it again
        data = values.write(dict(arguments))
    if b"null" in data and not values.equal(_JSON.decode(data), arguments):
        values.refuse_unstorable(dict(arguments), None)  # a null may stand for NaN
    return data


# --- From an annotation to its codec. --------------------------------------------------------------------------------


class _AnyInstance(type):
    """msgspec asks whether what a hook made is an instance of the stand-in: whatever its members make is."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return True


class _StandIn(metaclass=_AnyInstance):
    """Takes the place of a type that msgspec would not take, or would not hand to a hook."""

    stands_for: ClassVar[Any]
    revive: ClassVar[Callable[[Any], Any]]
    codec: ClassVar[TypedCodec | None]


def _stand_in(annotation: Any, revive: Callable[[Any], Any], codec: TypedCodec | None = None) -> Any:
    body = {"stands_for": annotation, "revive": staticmethod(revive), "codec": codec}
    return _AnyInstance(name_of(annotation), (_StandIn,), body)


def codec_for(annotation: Any) -> TypedCodec:
    """The codec of an annotation, always the same one.  Refuses a type of which no value could be stored."""
    try:
        hash(annotation)
    except TypeError:
        return _compile(annotation)
    return _compiled(annotation)


def _compile(annotation: Any) -> TypedCodec:
    if annotation is inspect.Parameter.empty or annotation is Any or annotation is object:
        return _PlainCodec(annotation, _PLAIN.encode, _JSON.decode)
    if isinstance(annotation, (str, typing.ForwardRef)):
        raise NotStorable(f"The annotation {annotation!r} is not resolved to a type.")
    target = _rewrite(annotation, top=True)
    if _is_stand_in(target) and target.codec is not None:
        return cast(TypedCodec, target.codec)
    try:
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(target, dec_hook=_decode_hook)
        unknown = _find_unknown(msgspec.inspect.type_info(target))
    except Exception as error:
        raise NotStorable(f"`{name_of(annotation)}` cannot be stored: {error}.", hint=_REGISTER) from error
    if unknown is not None:
        raise _unknown_type(annotation, unknown)
    return TypedCodec(annotation, values.ENCODER.encode, decoder.decode)


_compiled = lru_cache(maxsize=4096)(_compile)


def _unknown_type(annotation: Any, unknown: Any) -> NotStorable:
    inside = "" if name_of(unknown) == name_of(annotation) else f", in `{name_of(annotation)}`"
    if _is_read_once(unknown):
        return NotStorable(f"`{name_of(unknown)}`{inside} can be read only once and is not stored.", hint=_COLLECT)
    return NotStorable(f"There is no way to store a `{name_of(unknown)}`{inside}.", hint=_REGISTER)


def _find_unknown(root: Any) -> Any:
    """The first class in a compiled type that neither msgspec nor a hook knows, else None."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, msgspec.inspect.CustomType) and not _is_known(node.cls):
            return node.cls
        if isinstance(node, tuple):
            waiting.extend(node)
        elif isinstance(node, (msgspec.inspect.Type, msgspec.inspect.Field)) and id(node) not in seen:
            seen.add(id(node))
            waiting.extend(getattr(node, name) for name in node.__struct_fields__)
    return None


def _is_known(kind: type) -> bool:
    known = kind is abc.Iterable or issubclass(kind, (_StandIn, str, int, float))
    return known or values.own_codec(kind) is not None or values.is_pydantic_model(kind)


def _is_read_once(annotation: Any) -> bool:
    kind = typing.get_origin(annotation) or annotation
    return isinstance(kind, type) and (values.is_sdk_stream(kind) or issubclass(kind, _READ_ONCE))


def _is_stand_in(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, _StandIn)


def _is_alias(annotation: Any) -> bool:
    return type(annotation).__name__ == "TypeAliasType"


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, UnionType)


def _rewrite(annotation: Any, *, top: bool = False) -> Any:
    """The same type in words that msgspec takes.  `top`: it is the whole annotation, whose bytes may name a member."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is typing.NoReturn or annotation is typing.Never:
        return None
    if annotation is typing.LiteralString:
        return str
    if _is_alias(annotation):
        return _rewrite(annotation.__value__, top=top)
    if _is_union(annotation):
        return _rewrite_union(annotation, top)
    if isinstance(annotation, type) and values.is_pydantic_dataclass(annotation):
        return _stand_in(annotation, lambda data: _validate_pydantic(annotation, data))
    if isinstance(annotation, type) and values.is_typed_dict(annotation) and not _compiles(annotation):
        return dict[str, Any]
    if origin is typing.Annotated:
        inner = _rewrite(arguments[0], top=top)
        return annotation if inner is arguments[0] else inner
    if origin is None or origin is typing.Literal:
        return annotation
    rewritten = tuple(part if part is ... or isinstance(part, list) else _rewrite(part) for part in arguments)
    unchanged = all(new is old for new, old in zip(rewritten, arguments, strict=True))
    return annotation if unchanged else origin[rewritten]


def _rewrite_union(annotation: Any, top: bool) -> Any:
    parts = _flatten(annotation)
    members: list[Any] = []
    for member in (_rewrite(part) for part in parts if not _is_read_once(part)):
        if member not in members:
            members.append(member)
    if not members:
        raise _unknown_type(annotation, parts[0])
    whole = _union_of(members)
    if _compiles(whole):
        return whole
    objects = [member for member in members if _is_object(member)]
    others = [member for member in members if not _is_object(member)]
    if len(others) > 1 and _compiles(_union_of(others)):
        others = [_union_of(others)]
    if len(others) > 1 and not top:
        raise NotStorable(f"The members of `{name_of(annotation)}` cannot be told apart in JSON.", hint=_REGISTER)
    named: dict[str, TypedCodec] = {}
    for member in (*objects, *others):
        name = name_of(member.stands_for if _is_stand_in(member) else member)
        named[name if name not in named else f"{name}#{len(named)}"] = codec_for(member)
    codec = _UnionCodec(annotation, named)
    return _stand_in(annotation, lambda data: _revive(codec, data), codec)


def _flatten(annotation: Any) -> list[Any]:
    """The members of a union, of unions inside it, and of the aliases of unions."""
    if _is_alias(annotation):
        return _flatten(annotation.__value__)
    if _is_union(annotation):
        return [part for member in typing.get_args(annotation) for part in _flatten(member)]
    if typing.get_origin(annotation) is typing.Annotated and _is_union(typing.get_args(annotation)[0]):
        return _flatten(typing.get_args(annotation)[0])
    return [annotation]


def _union_of(members: list[Any]) -> Any:
    return reduce(operator.or_, [type(None) if member is None else member for member in members])


def _compiles(annotation: Any) -> bool:
    try:
        msgspec.json.Decoder(annotation, dec_hook=_decode_hook)
    except Exception:
        return False
    return True


def _is_object(member: Any) -> bool:
    kind = typing.get_origin(member) or member
    if not isinstance(kind, type) or kind is type(None):
        return False
    return values.is_typed_dict(kind) or values.has_fields(kind) or not values.is_native(kind)
