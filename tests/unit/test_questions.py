"""What a person may be asked, and what can be told of an answer without the agent's code."""

from __future__ import annotations

from typing import Any

import pytest

from jumar.core.questions import MAX_CHOICES, MAX_QUESTION, check_choices, check_question, misfit
from jumar.errors import UsageError


@pytest.mark.parametrize("question", ["?", "x" * MAX_QUESTION, "ja\n\u00e4\U0001f600"])
def test_a_text_is_a_question(question: str) -> None:
    assert check_question(question) == question


@pytest.mark.parametrize("question", ["", " \n", "x" * (MAX_QUESTION + 1), "a\x00", "\ud800", None, 5, b"?", ["?"]])
def test_anything_else_is_none(question: object) -> None:
    with pytest.raises(UsageError, match="a question of 1 to"):
        check_question(question)


def test_choices_are_different_texts_in_their_order() -> None:
    assert check_choices(None) is None
    assert check_choices(("b", "a")) == ["b", "a"]
    assert check_choices([str(number) for number in range(MAX_CHOICES)]) is not None
    for choices in (
        [],
        ["a", "a"],
        ["a", ""],
        ["a", None],
        ["\x00"],
        [str(number) for number in range(MAX_CHOICES + 1)],
    ):
        with pytest.raises(UsageError, match="are not 1 to"):
            check_choices(choices)
    for no_list in ("ab", b"ab", {"a"}, 5, iter("ab")):
        with pytest.raises(UsageError, match="is a list of texts"):
            check_choices(no_list)


FITTING: dict[str, list[Any]] = {
    "string": ["", "a"],
    "integer": [0, -5],
    "number": [0, 0.5],
    "boolean": [True, False],
    "array": [[], [None]],
    "object": [{}, {"a": 1}],
    "null": [None],
}


@pytest.mark.parametrize("wanted", FITTING)
def test_an_answer_fits_its_json_type_and_no_other(wanted: str) -> None:
    for kind, values in FITTING.items():
        for value in values:
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            fits = is_whole if wanted == "integer" else kind == wanted or (wanted == "number" and kind == "integer")
            assert (misfit({"type": wanted}, value) is None) is fits, (wanted, value)


def test_choices_are_what_counts_where_there_are_any() -> None:
    assert misfit({"choices": ["a", "b"], "type": "integer"}, "b") is None
    assert misfit({"choices": ["a"]}, "b") == "the answer is one of 'a', not 'b'"
    assert misfit({"choices": ["1"]}, 1) is not None


@pytest.mark.parametrize("details", [{}, {"type": None}, {"type": "anything"}, {"type": ["string"]}])
@pytest.mark.parametrize("value", ["a", None, 5, {}])
def test_without_a_type_that_can_be_told_every_answer_may_fit(details: dict[str, Any], value: Any) -> None:
    assert misfit(details, value) is None
