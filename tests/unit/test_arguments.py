"""Typed arguments out of a model's or a person's JSON."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest

from jumar.core.codec import encode_arguments
from jumar.errors import UsageError
from jumar.harness.arguments import Arguments
from jumar.harness.binding import Binder, hints_of


class Colour(Enum):
    """A choice."""

    RED = "red"


@dataclass
class Place:
    """A record."""

    street: str
    number: int = 1


def reads(function: Callable[..., Any]) -> Arguments:
    """The reader of a function's arguments."""
    return Arguments("act", Binder(function), hints_of(function, globals()) or {})


def called(function: Callable[..., Any], data: bytes) -> Any:
    """What the function answers to these arguments."""
    args, kwargs, _ = reads(function)(data)
    return function(*args, **kwargs)


def test_each_argument_is_of_its_annotated_type() -> None:
    def act(
        place: Place, when: datetime.date, colours: list[Colour], how: Literal["a", "b"] = "a", raw: bytes = b""
    ) -> Any:
        return place, when, colours, how, raw

    found = called(act, b'{"place": {"street": "x"}, "when": "2026-01-02", "colours": ["red"], "raw": "AA=="}')
    assert found == (Place("x"), datetime.date(2026, 1, 2), [Colour.RED], "a", b"\x00")


def test_an_argument_without_an_annotation_is_any_json() -> None:
    def act(value):  # type: ignore[no-untyped-def]
        return value

    for data, value in ((b"5", 5), (b'{"a": [null]}', {"a": [None]}), (b'"x"', "x")):
        assert called(act, b'{"value": ' + data + b"}") == value


def test_defaults_are_part_of_the_canonical_form_however_the_arguments_were_written() -> None:
    def act(a: int, b: str = "x") -> None:
        return None

    forms = {reads(act)(data)[2] for data in (b'{"a":1}', b'{ "b" : "x", "a": 1 }', b'{"a":1,"b":"\\u0078"}')}
    assert forms == {encode_arguments({"a": 1, "b": "x"})}


def test_arguments_of_every_kind_of_parameter_reach_their_place() -> None:
    def act(a: int, /, b: int, *rest: int, c: int, **more: int) -> Any:
        return a, b, rest, c, more

    assert called(act, b'{"a": 1, "b": 2, "c": 3}') == (1, 2, (), 3, {})
    assert called(act, b'{"a": 1, "b": 2, "c": 3, "d": 4}') == (1, 2, (), 3, {"d": 4})


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"a": 1}', (1, 2, (), 0, {})),
        (b'{"a": 1, "rest": [3, 4]}', (1, 2, (3, 4), 0, {})),
        (b'{"a": 1, "b": 5, "rest": [3], "c": 6}', (1, 5, (3,), 6, {})),
        (b'{"a": 1, "d": 7}', (1, 2, (), 0, {"d": 7})),
        (b'{"a": 1, "more": {"d": 7, "e": 8}}', (1, 2, (), 0, {"d": 7, "e": 8})),
        (b'{"a": 1, "more": 7}', (1, 2, (), 0, {"more": 7})),
    ],
)
def test_the_canonical_form_stands_for_the_same_arguments(data: bytes, found: Any) -> None:
    def act(a: int, b: int = 2, *rest: int, c: int = 0, **more: int) -> Any:
        return a, b, rest, c, more

    assert called(act, data) == found
    canonical = reads(act)(data)[2]
    assert called(act, canonical) == found
    assert reads(act)(canonical)[2] == canonical


def test_an_argument_that_only_has_a_place_keeps_it_where_one_before_it_is_left_out() -> None:
    def act(a: int = 1, b: int = 2, /, c: int = 3, **more: int) -> Any:
        return a, b, c, more

    assert called(act, b'{"b": 5}') == (1, 5, 3, {})
    assert called(act, b'{"b": 5, "more": {"a": 6}}') == (1, 5, 3, {"a": 6})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"rest": [1]}', "missing a required argument: 'a'"),
        (b'{"a": 1, "rest": 2}', "argument 'rest' is no list"),
        (b'{"a": 1, "rest": ["x"]}', "argument 'rest': `$` is not of the type `int`"),
        (b'{"a": 1, "d": "x"}', "argument 'd': `$` is not of the type `int`"),
        (b'{"a": 1, "more": {"d": "x"}}', "argument 'd': `$` is not of the type `int`"),
        (b'{"a": 1, "more": {"a": 2}}', "argument 'a' is given twice"),
    ],
)
def test_what_does_not_fit_the_rest_is_told_too(data: bytes, words: str) -> None:
    def act(a: int, *rest: int, **more: int) -> None:
        return None

    with pytest.raises(UsageError) as caught:
        reads(act)(data)
    assert caught.value.what.startswith(f"act: {words}")


def test_a_function_without_arguments_takes_an_empty_object() -> None:
    assert reads(lambda: None)(b"{}") == ([], {}, b"{}")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the arguments are no JSON object"),
        (b"null", "the arguments are no JSON object"),
        (b"[1]", "the arguments are no JSON object"),
        (b'"a"', "the arguments are no JSON object"),
        (b'{"a": 1', "the arguments are no JSON object"),
        (b'{"a": 1} {}', "the arguments are no JSON object"),
        (b'{"a": \xff}', "the arguments are no JSON object"),
        (b'{"a": 1, "c": 2}', "there is no argument 'c'"),
        (b'{"b": "x"}', "missing a required argument: 'a'"),
        (b"{}", "missing a required argument: 'a'"),
        (b'{"a": "1"}', "argument 'a':"),
        (b'{"a": 1.5}', "argument 'a':"),
        (b'{"a": null}', "argument 'a':"),
        (b'{"a": true}', "argument 'a':"),
        (b'{"a": 1, "b": 5}', "argument 'b':"),
    ],
)
def test_what_does_not_fit_is_told_with_the_signature(data: bytes, words: str) -> None:
    def act(a: int, b: str = "x") -> None:
        return None

    with pytest.raises(UsageError) as caught:
        reads(act)(data)
    assert caught.value.what.startswith(f"act: {words}")
    assert "act(a: int, b: str = 'x')" in caught.value.hint


def test_of_an_argument_given_twice_the_last_counts_as_json_has_it() -> None:
    def act(a: int) -> int:
        return a

    assert called(act, b'{"a": 1, "a": 2}') == 2
