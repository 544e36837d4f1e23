"""Usage, read from whatever a model's client answers: with the responses of real clients, built for real."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from anthropic.types import Message
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import ResponseUsage

from jumar.core.records import Usage
from jumar.core.usage import both, split_usage, usage_by, usage_of

OPENAI = ChatCompletion.model_validate(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [],
        "usage": {
            "prompt_tokens": 900,
            "completion_tokens": 40,
            "total_tokens": 940,
            "prompt_tokens_details": {"cached_tokens": 512},
        },
    }
)
ANTHROPIC = Message.model_validate(
    {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 70, "output_tokens": 8, "cache_read_input_tokens": 60},
    }
)
RESPONSES = ResponseUsage.model_validate(
    {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 7,
    }
)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (OPENAI, Usage(900, 40, 512)),
        (ANTHROPIC, Usage(70, 8, 60)),
        (SimpleNamespace(usage=RESPONSES), Usage(5, 2, 3)),
        ({"usage": {"input_tokens": 1, "output_tokens": 2, "usd": 0.25}}, Usage(1, 2, 0, 0.25)),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": 0}}, Usage()),
        ({"usage": Usage(3, 4)}, Usage(3, 4)),
        (SimpleNamespace(usage=Usage(3, 4)), Usage(3, 4)),
        (Usage(3, 4, 1, 0.5), Usage(3, 4, 1, 0.5)),
    ],
)
def test_usage_is_found_where_the_providers_put_it(response: Any, expected: Usage) -> None:
    assert usage_of(response) == expected


@pytest.mark.parametrize(
    "response",
    [
        *(None, 5, "text", [], {}, SimpleNamespace(usage=5)),
        *({"usage": usage} for usage in (None, "how to use it", [], {"in": 5}, {"input_tokens": "5"})),
        {"usage": {"input_tokens": True}},
        {"usage": {"input_tokens": 2**63}},
    ],
)
def test_what_tells_no_usage_has_none(response: Any) -> None:
    assert usage_of(response) is None


class Hostile:
    @property
    def usage(self) -> Any:
        raise RuntimeError("not now")


def test_a_response_that_fails_in_telling_its_usage_has_none() -> None:
    assert usage_of(Hostile()) is None


def test_a_pair_is_the_answer_and_its_usage() -> None:
    assert split_usage(("text", Usage(1, 2))) == ("text", Usage(1, 2))
    assert split_usage(("text", "more")) == (("text", "more"), None)
    assert split_usage(("a", "b", Usage())) == (("a", "b", Usage()), None)
    assert split_usage(OPENAI) == (OPENAI, Usage(900, 40, 512))


def test_two_attempts_cost_what_both_do() -> None:
    one, other = Usage(1, 2, 3, 0.5), Usage(10, 20, 30)
    assert both(one, None) == both(None, one) == one and both(None, None) is None
    assert both(one, other) == both(other, one) == Usage(11, 22, 33, 0.5)
    assert both(other, other) == Usage(20, 40, 60, None)
    assert both(Usage(2**63 - 1), one) == Usage(2**63 - 1, 2, 3, 0.5)


def test_usage_is_given_or_read_by_a_function() -> None:
    assert usage_by(Usage(1, 2), "answer") == Usage(1, 2)
    assert usage_by(lambda answer: answer["tokens"], {"tokens": {"input_tokens": 9}}) == Usage(9)
    assert usage_by(lambda answer: None, "answer") is None
    assert usage_by(lambda answer: 1 / 0, "answer") is None
    assert usage_by("nonsense", "answer") is None


NONSENSE = st.one_of(
    st.none(), st.text(), st.floats(), st.integers(-(2**80), 2**80), st.booleans(), st.binary(), st.lists(st.none())
)


@given(NONSENSE, NONSENSE, NONSENSE, NONSENSE)
def test_whatever_it_is_made_of_usage_can_be_stored_and_read_back(a: Any, b: Any, c: Any, d: Any) -> None:
    found = usage_of({"usage": Usage(a, b, c, d)})
    if found is None:
        return
    assert msgspec.json.decode(msgspec.json.encode(found), type=Usage) == found
    assert all(0 <= count < 2**63 for count in (found.input_tokens, found.output_tokens, found.cached_tokens))
    assert found.usd is None or (math.isfinite(found.usd) and found.usd >= 0)
