"""Values become JSON and come back as what they were, or are refused with the place that is to blame."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import hashlib
import http
import inspect
import math
import pathlib
import subprocess
import sys
import types
import typing
import uuid
import zoneinfo
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, NewType, NoReturn, TypedDict

import anthropic
import msgspec
import openai
import pydantic
import pydantic.dataclasses
import pytest
from anthropic.types import ContentBlock, Message, MessageParam
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessageParam, ParsedChatCompletion
from openai.types.responses import Response

from jumar.core.codec import codec_for, digest, encode_arguments, register_codec
from jumar.errors import NotStorable, UsageError

PLAIN = codec_for(Any)

COMPLETION = msgspec.json.decode(
    b"""{"id":"c1","object":"chat.completion","created":1,"model":"m","brand_new_field":{"a":1},"choices":[
    {"index":0,"finish_reason":"brand_new","message":{"role":"assistant","content":"hi","parsed":{"n":1}}}]}"""
)
MESSAGE = msgspec.json.decode(
    b"""{"id":"m1","type":"message","role":"assistant","model":"m","stop_reason":"brand_new","stop_sequence":null,
    "usage":{"input_tokens":1,"output_tokens":2,"brand_new":3},"content":[{"type":"text","text":"hi"},
    {"type":"tool_use","id":"t","name":"search","input":{"query":"x"}}]}"""
)
RESPONSE = {"id": "r1", "object": "response", "status": "brand_new", "output": [{"type": "brand_new", "x": 1}]}


Colour = enum.Enum("Colour", {"RED": "red"})


@dataclasses.dataclass
class Hit:
    title: str
    score: float | None = None


BetterHit = dataclasses.make_dataclass("BetterHit", [("reason", str, "")], bases=(Hit,))
Paid = dataclasses.make_dataclass("Paid", [("reference", str)])
Declined = dataclasses.make_dataclass("Declined", [("reference", str)])


@dataclasses.dataclass(eq=False)
class Node:
    payload: Any
    children: list[Node] = dataclasses.field(default_factory=list)


class Point(msgspec.Struct):
    x: int
    extra: Any = None


class Pair(NamedTuple):
    left: int
    right: str


class Row(TypedDict):
    name: str


class Plan(pydantic.BaseModel):
    n: int
    when: dt.datetime | None = None
    extra: Any = None


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    tags: set[str] = pydantic.Field(alias="theTags")
    day: dt.date

    @pydantic.computed_field
    def count(self) -> int:
        return len(self.tags)


@pydantic.dataclasses.dataclass
class Box:
    size: int = pydantic.Field(gt=0)
    labels: list[str] = pydantic.Field(default_factory=list)


class Celsius(float): ...


class Opaque: ...


class Share(fractions.Fraction): ...


register_codec(
    fractions.Fraction, encode=lambda value: {"text": str(value)}, decode=lambda kind, data: kind(data["text"])
)


class Fragile:
    def __init__(self, ink: int) -> None:
        self.ink = ink


register_codec(Fragile, encode=lambda value: 1 // value.ink, decode=lambda kind, data: {}[data])


def refused(value: Any, annotation: Any = Any) -> NotStorable:
    with pytest.raises(NotStorable) as caught:
        codec_for(annotation).round_trip(value)
    return caught.value


def itself() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


# --- Plain JSON. -----------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
)


@given(JSON)
def test_any_json_comes_back_as_it_was(value: Any) -> None:
    data, decoded = PLAIN.round_trip(value)
    assert decoded == value
    assert PLAIN.decode(data) == value
    assert codec_for(dict[str, Any]).round_trip({"value": value})[1] == {"value": value}


@pytest.mark.parametrize("annotation", [Any, object, inspect.Parameter.empty, inspect.Signature.empty])
def test_no_annotation_means_plain_json(annotation: Any) -> None:
    data, decoded = codec_for(annotation).round_trip({"b": (1, (2,)), "a": None})
    assert (data, decoded) == (b'{"a":null,"b":[1,[2]]}', {"a": None, "b": [1, [2]]})


@pytest.mark.parametrize("value", ["a\0b", 2**64, -(2**80), 10**400, "🙂", -0.0, 1e300])
def test_odd_but_sound_values_come_back(value: Any) -> None:
    assert PLAIN.round_trip([value])[1] == [value]


@pytest.mark.parametrize("value", [http.HTTPStatus.OK, Celsius(1.5), collections.Counter("aa")])
def test_a_value_that_equals_its_json_becomes_it(value: Any) -> None:
    assert PLAIN.round_trip(value)[1] == value


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"items": [1, 2, 3, {"callback": lambda: 1}]}, "$.items[3].callback", "function"),
        ({"a": [1.0, math.nan]}, "$.a[1]", "nan"),
        ([None, -math.inf], "$[1]", "-inf"),
        (["ok", "\ud800"], "$[1]", "surrogate"),
        ({"a": {"\ud800": 1}}, "$.a", "key"),
        ({"a": {1: "a", "1": "b"}}, "$.a", "key 1 "),
        ({"a b": {None: 1}}, '$["a b"]', "key None"),
        ({"\ud800": print}, "$", "key"),
        ([dt.date(2020, 1, 1)], "$[0]", "`date` and would come back as a `str`"),
        ([b"x"], "$[0]", "`bytes`"),
        ([Hit("x")], "$[0]", "`Hit` and would come back as a `dict`"),
        ([(1, Pair(1, "x"))], "$[0][1]", "`Pair`"),
        ([Plan(n=1)], "$[0]", "`Plan`"),
        ([Opaque()], "$[0]", "`Opaque`"),
        ([10**5000], "$[0]", "bits"),
        (itself(), "$[0].again", "contains itself"),
        ((letter for letter in "ab"), "$", "a generator can be read only once; return a list"),
        ({"a": iter([1])}, "$.a", "an iterator can be read only once; return a list"),
        ({"it": {"ok": None, "bad": range(3)}}, "$.it.bad", "`range`"),
    ],
)
def test_what_json_cannot_hold_is_refused_with_its_place(value: Any, path: str, words: str) -> None:
    error = refused(value)
    assert error.path == path
    assert words in error.what and f"`{path}`" in error.what


def test_a_coroutine_is_refused_as_never_awaited() -> None:
    coroutine = asyncio.sleep(0)
    assert "never awaited" in refused([coroutine]).what
    coroutine.close()


@pytest.mark.parametrize("annotation", [Any, list, Node])
def test_a_very_deep_value_is_refused(annotation: Any) -> None:
    error = refused(Node(nested(100_000)) if annotation is Node else nested(100_000), annotation)
    assert "nested" in error.what
    assert len(error.path) < 250


@pytest.mark.parametrize("data", [b"", b"{", b'"\xff"', b'{"$jumar":1}', b'{"$jumar":"os.system","value":1}'])
def test_bytes_that_are_no_value_are_refused(data: bytes) -> None:
    with pytest.raises(NotStorable):
        PLAIN.decode(data)
    with pytest.raises(NotStorable, match="nested too deeply"):
        PLAIN.decode(b"[" * 100_000 + data)


# --- Types that msgspec knows. ---------------------------------------------------------------------------------------

UserId = NewType("UserId", int)
ZURICH = dt.timezone(dt.timedelta(hours=1))


OF_ONE_TYPE = [
    *(Hit("a", 0.5), Point(1), Pair(1, "x"), Colour.RED, Celsius(20.5), b"\xff\x00", {3, 1}, None, 3.0),
    *(dt.datetime(2020, 1, 1, tzinfo=ZURICH), dt.timedelta(days=-1, microseconds=3), dt.time(1, 2)),
    *(uuid.UUID(int=7), decimal.Decimal("1.10")),
]


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        *((type(value), value) for value in OF_ONE_TYPE),
        (None, None),
        (NoReturn, None),
        (list[Hit], [Hit("a")]),
        (Row, {"name": "x"}),
        (dict[Colour, int], {Colour.RED: 1}),
        (dict[int, str], {1: "a", 2: "b"}),
        (tuple[int, str], (1, "a")),
        (int | str | None, None),
        (Literal["a", 1], 1),
        (UserId, UserId(3)),
        (Annotated[int, msgspec.Meta(ge=0)], 3),
        (typing.LiteralString, "x"),
        (pathlib.Path, pathlib.Path("a/b")),
        (Iterable[Hit], [Hit("a")]),
        (dt.datetime | str, "2020-01-01T00:00:00"),
        (dt.datetime | str, dt.datetime(2020, 1, 1)),
        (pathlib.Path | str | None, pathlib.Path("a")),
        (pathlib.Path | str | None, "a"),
        (Hit | Point, Point(1)),
        (str | Iterator[str], "x"),
        (Annotated[Paid | Declined, "note"], Declined("r1")),
    ],
)
def test_a_value_of_its_type_comes_back_the_same(annotation: Any, value: Any) -> None:
    codec = codec_for(annotation)
    data, decoded = codec.round_trip(value)
    assert decoded == value == codec.decode(data)
    assert type(decoded) is type(value)
    assert codec.encode(value) == data


@pytest.mark.parametrize(
    ("annotation", "value", "path", "words"),
    [
        (str, 3, "$", ("`str`", "`int`")),
        (list[str], ["a", 3], "$[1]", ("`str`", "`int`")),
        (Hit, {"title": 3}, "$.title", ("`str`", "`int`")),
        (int, True, "$", ("`int`", "`bool`")),
        (None, 3, "$", ("`null`", "`int`")),
        (str, dt.datetime(2020, 1, 1), "$", ("`datetime`", "`str`")),
        (str, b"x", "$", ("`bytes`", "`str`")),
        (bytes, "abcd", "$", ("`str`", "`bytes`")),
        (list[int], {1}, "$", ("`set`", "`list`")),
        (list[int] | Iterator[int], (n for n in [1]), "$", ("generator",)),
        (Hit, BetterHit("a"), "$", ("`BetterHit`", "`Hit`")),
        (dict[str, Any], {"a": {1: 2}}, "$.a", ("key 1",)),
        (dict[str, Any], {"a": [dt.date(2020, 1, 1)]}, "$.a[0]", ("`date`", "`str`")),
        (dict[int | str, str], {1: "a", "1": "b"}, "$", ("keys 1 and '1'",)),
        (float, math.nan, "$", ("nan",)),
        (list[float | None], [None, math.inf], "$[1]", ("inf",)),
        (list[Paid | Declined], [Paid("r"), Declined("r")], "$[1]", ("`Declined`", "`Paid`")),
        (Hit, Hit("a", math.nan), "$.score", ("nan",)),
        (Node, Node(1, [Node(lambda: 1)]), "$.children[0].payload", ("function",)),
        (Node, Node(1, [Node({2})]), "$.children[0].payload", ("`set`", "`list`")),
        (Point, Point(1, extra={"f": [print]}), "$.extra.f[0]", ("function",)),
        (set[Any], {1, print}, "$[...]", ("function",)),
        (Plan, Plan(n=1, extra=[lambda: 1]), "$.extra[0]", ("function",)),
        (Paid | Declined, 3, "$", ("`Paid`", "`Declined`")),
        (Paid | Declined, Paid(lambda: 1), "$.reference", ("function",)),
    ],
)
def test_a_value_of_another_type_is_refused_with_both_types(annotation: Any, value: Any, path: str, words: Any) -> None:
    error = refused(value, annotation)
    assert error.path == path
    assert [word for word in words if word not in error.what] == []


def test_json_of_a_type_stands_for_the_type() -> None:
    assert codec_for(Hit).round_trip({"title": "a"})[1] == Hit("a")
    assert type(codec_for(float).round_trip(3)[1]) is float
    assert codec_for(dt.date).round_trip("2020-01-01")[1] == dt.date(2020, 1, 1)
    assert codec_for(Row).round_trip({"name": "a", "undeclared": 1})[1] == {"name": "a"}


def test_json_without_a_name_finds_the_member_that_it_fits() -> None:
    assert codec_for(Hit | Point).decode(b'{"x":1}') == Point(1)
    with pytest.raises(NotStorable, match="fits no member"):
        codec_for(Hit | Point).decode(b"[]")


def test_equal_instants_in_the_hour_that_clocks_repeat_are_the_same() -> None:
    twice = dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Zurich"))
    assert codec_for(dt.datetime).round_trip(twice)[1].timestamp() == twice.timestamp()


def test_a_class_without_equality_still_round_trips() -> None:
    back = codec_for(Node).round_trip(Node(1, [Node([2])]))[1]
    assert (back.payload, back.children[0].payload) == (1, [2])


@pytest.mark.parametrize("annotation", [Opaque, list[Opaque], Opaque | int, dict[str, tuple[Opaque, int]]])
def test_an_unknown_class_is_refused_with_a_hint_to_register_it(annotation: Any) -> None:
    with pytest.raises(NotStorable) as caught:
        codec_for(annotation)
    assert "register_codec" in caught.value.hint


@pytest.mark.parametrize("annotation", [Iterator[int], AsyncIterator[int], list[Iterator[int]], openai.Stream[Any]])
def test_an_annotation_of_what_is_read_once_is_no_type_to_store(annotation: Any) -> None:
    with pytest.raises(NotStorable, match="read only once"):
        codec_for(annotation)


@pytest.mark.parametrize("annotation", ["Hit", list["Missing"], list[dt.datetime | str]])  # type: ignore[name-defined]  # noqa: F821
def test_an_annotation_that_says_too_little_is_refused(annotation: Any) -> None:
    with pytest.raises(NotStorable):
        codec_for(annotation)


def test_a_codec_is_made_once_and_also_for_what_cannot_be_hashed() -> None:
    assert codec_for(list[Hit]) is codec_for(list[Hit])
    assert codec_for(Annotated[int, []]).round_trip(3) == (b"3", 3)


# --- Users' own types. -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [fractions.Fraction(1, 3), Share(1, 3)])
def test_a_registered_type_comes_back_and_its_subclasses_too(value: Any) -> None:
    data, decoded = codec_for(list[type(value)]).round_trip([value])
    assert data == b'[{"text":"1/3"}]'
    assert decoded == [value] and type(decoded[0]) is type(value)


@pytest.mark.parametrize(("ink", "broken"), [(0, ZeroDivisionError), (1, KeyError)])
def test_an_exception_in_a_users_codec_is_chained(ink: int, broken: type[Exception]) -> None:
    error = refused([Fragile(ink)], list[Fragile])
    assert isinstance(error.__cause__, broken)
    assert broken.__name__ in error.what


@pytest.mark.parametrize("kind", [Hit, Point, Colour, int, collections.OrderedDict])
def test_a_codec_that_would_never_be_asked_is_refused(kind: type) -> None:
    with pytest.raises(UsageError, match="already written as JSON"):
        register_codec(kind, encode=str, decode=lambda kind, data: kind(data))


# --- pydantic. -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Plan, Plan(n=1, when=dt.datetime(2020, 1, 1))),
        (list[Plan], [Plan(n=1)]),
        (Plan | None, Plan(n=1)),
        (Plan | str, "x"),
        (dict[str, Plan], {"a": Plan(n=1)}),
        (list[Plan | Hit], [Plan(n=1), Hit("a")]),
        (Aliased, Aliased(theTags={"a"}, day=dt.date(2020, 1, 1))),
        (Box, Box(size=1, labels=["a"])),
        (list[Box], [Box(size=1)]),
    ],
)
def test_a_pydantic_model_comes_back_as_its_declared_type(annotation: Any, value: Any) -> None:
    data, decoded = codec_for(annotation).round_trip(value)
    assert decoded == value and type(decoded) is type(value)
    assert codec_for(annotation).decode(data) == value


def test_a_pydantic_model_is_validated() -> None:
    error = refused([Plan.model_construct(n="many")], list[Plan])
    assert (error.path, "`str`" in error.what) == ("$[0].n", True)
    with pytest.raises(NotStorable):
        codec_for(Box).decode(b'{"size":-1}')
    assert codec_for(Box).decode(b'{"size":1}').labels == []


def test_a_masked_secret_is_refused() -> None:
    login = pydantic.create_model("Login", password=pydantic.SecretStr)
    assert "secret" in refused(login(password=pydantic.SecretStr("s")), login).what


# --- The SDKs of OpenAI and Anthropic. -------------------------------------------------------------------------------

ANSWERS = [(ChatCompletion, COMPLETION), (Message, MESSAGE), (Response, RESPONSE)]


@pytest.mark.parametrize(("kind", "raw"), ANSWERS)
@pytest.mark.parametrize("annotated", [True, False])
def test_an_answer_newer_than_the_sdk_comes_back_as_its_type(kind: Any, raw: Any, annotated: bool) -> None:
    codec = codec_for(kind) if annotated else PLAIN
    value = kind.construct(**raw)
    data, decoded = codec.round_trip(value)
    assert type(decoded) is kind
    known = value.to_dict(warnings=False)
    assert known == decoded.to_dict(warnings=False) == codec.decode(data).to_dict(warnings=False)


def test_an_answer_in_a_union_with_a_stream_is_the_answer() -> None:
    annotation = ChatCompletion | openai.Stream[ChatCompletionChunk]
    value = ChatCompletion.construct(**COMPLETION)
    assert codec_for(annotation).round_trip(value)[1] == value


@pytest.mark.parametrize("kind", [openai.Stream, openai.AsyncStream, anthropic.Stream, anthropic.AsyncStream])
@pytest.mark.parametrize("annotation", [Any, ChatCompletion | openai.Stream[ChatCompletionChunk]])
def test_a_raw_stream_is_refused(kind: Any, annotation: Any) -> None:
    assert "record its final aggregate" in refused(object.__new__(kind), annotation).what


def test_parts_of_an_answer_come_back_as_the_members_of_their_union() -> None:
    blocks = Message.construct(**MESSAGE).content
    back = codec_for(list[ContentBlock]).round_trip(blocks)[1]
    assert [type(block) for block in back] == [type(block) for block in blocks]


def test_a_parsed_answer_needs_its_annotation() -> None:
    value = ParsedChatCompletion[Plan].construct(**COMPLETION)
    assert codec_for(ParsedChatCompletion[Plan]).round_trip(value)[1].choices[0].message.parsed == Plan(n=1)
    assert "`ParsedChatCompletion[Plan]`" in refused(value).what


@pytest.mark.parametrize("annotation", [list[ChatCompletionMessageParam], list[MessageParam]])
def test_messages_for_a_model_are_json(annotation: Any) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    assert codec_for(annotation).round_trip(messages)[1] == messages


@pytest.mark.parametrize("value", [{"$jumar": "openai.ChatCompletion", "value": COMPLETION}, {"$jumar": 1}])
def test_a_dict_that_looks_like_an_envelope_stays_a_dict(value: Any) -> None:
    data, decoded = PLAIN.round_trip(value)
    assert decoded == value == PLAIN.decode(data)


def test_neither_pydantic_nor_an_sdk_is_imported() -> None:
    code = "import sys, jumar.core.codec as c; c.codec_for(list[int]).round_trip([1]); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pydantic", "openai", "anthropic"} & set(done.stdout.split("'"))


# --- Arguments. ------------------------------------------------------------------------------------------------------


def test_arguments_are_one_object_whatever_their_order() -> None:
    arguments = {"b": {"y": 1, "x": {2, 1}}, "a": None, "c": Hit("t"), "e": pathlib.Path("p")}
    data = encode_arguments(arguments)
    assert data == b'{"a":null,"b":{"x":[1,2],"y":1},"c":{"title":"t","score":null},"e":"p"}'
    assert data == encode_arguments(types.MappingProxyType(dict(reversed(arguments.items()))))
    assert encode_arguments({"keys": {2: "y", 1: "x"}}) == b'{"keys":{"1":"x","2":"y"}}'
    assert digest(data) == hashlib.sha256(data).digest()


@pytest.mark.parametrize("value", [math.nan, "\ud800", Opaque(), print, iter([1]), itself(), {1: "a", "1": "b"}])
def test_an_argument_that_cannot_be_stored_is_refused_by_its_name(value: Any) -> None:
    with pytest.raises(NotStorable) as caught:
        encode_arguments({"limit": None, "query": value})
    assert caught.value.path.startswith("$.query")
