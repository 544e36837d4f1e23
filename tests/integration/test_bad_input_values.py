"""Values that cannot be recorded: named by their place, live and on replay, and no effect is lost or repeated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jumar import Happened, Harness, Run
from jumar.errors import NotStorable, ResultNotStorable, UsageError
from tests.integration.agents_helpers import Interruption, ids, interrupted, states

LARGE = "x" * 5_000_000


@dataclass
class Hit:
    line: int


def nested(value: Any) -> Any:
    return {"items": [{"ok": 1}, {"deep": (0, value)}]}


def loop() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


class Thing:
    """No data."""


# What an unannotated result may not be: the value, the place that is named, and what is said.
UNSTORABLE: dict[str, tuple[Callable[[], Any], str, str]] = {
    "a lambda deep inside": (lambda: nested(lambda: 5), "$.items[1].deep[1]", "is a function (`<lambda>`)"),
    "a class": (lambda: [Thing], "$[0]", "is the class `Thing` itself"),
    "an object": (lambda: {"a": Thing()}, "$.a", "is a `Thing`"),
    "a generator": (lambda: (i for i in "ab"), "$", "is a generator"),
    "an iterator": (lambda: {"a": iter("ab")}, "$.a", "can be read only once"),
    "nan": (lambda: nested(math.nan), "$.items[1].deep[1]", "is nan, for which JSON has no number"),
    "infinity": (lambda: [math.inf], "$[0]", "is inf, for which JSON has no number"),
    "half a surrogate pair": (lambda: {"a": "\ud800"}, "$.a", "half a surrogate pair"),
    "such a key": (lambda: {"\udfff": 1}, "$", "cannot be written as text"),
    "bytes": (lambda: [b"raw"], "$[0]", "is a `bytes` and would come back as a `str`"),
    "a key that is no text": (lambda: {1: "a"}, "$", "the keys of a JSON object are text"),
    "a value of a dataclass": (lambda: [Hit(1)], "$[0]", "is a `Hit`"),
    "a set": (lambda: {"a"}, "$", "is a `set`"),
    "a number too long": (lambda: 10**5000, "$", "too long to be written"),
    "itself": (loop, "$[0]", "contains itself"),
    "too deep": (lambda: deep(100_000), "$[0]", "nested"),
    "5 MB": (lambda: [LARGE], "$", "the value has 5.0 MB as JSON; at most 4 MiB are kept"),
}


@pytest.mark.parametrize("effect", ["read", "external"])
@pytest.mark.parametrize(("make", "path", "what"), UNSTORABLE.values(), ids=UNSTORABLE.keys())
def test_a_result_that_cannot_be_stored_has_happened_all_the_same(
    harness: Harness, make: Callable[[], Any], path: str, what: str, effect: str
) -> None:
    interrupt = Interruption()
    called: list[int] = []
    said: list[tuple[str, str]] = []

    @harness.tool(effect=effect)
    def work(name: str) -> Any:
        called.append(1)
        return make()

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(ResultNotStorable) as caught:
            run.call(work, "x")
        said.append((caught.value.path, str(caught.value)))
        interrupt()
        return "went on"

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == "went on"
    assert (len(called), said[0]) == (1, said[1])
    assert said[0][0] == path or (path == "$[0]" and said[0][0].startswith("$[0]"))
    assert what in said[0][1]
    assert "is recorded as done; it is not sent again" in said[0][1]
    assert states(harness, run_id) == {"work.1": "SUCCEEDED"}
    assert harness.doctor().sound


# Arguments are never read back as values: what is written without loss is taken.
WRITABLE = ("bytes", "a key that is no text", "a value of a dataclass", "a set")


@pytest.mark.parametrize("name", UNSTORABLE)
def test_an_argument_that_cannot_be_recorded_is_refused_before_anything_is_sent(harness: Harness, name: str) -> None:
    sent: list[Any] = []

    @harness.tool(effect="external")
    def pay(name: str, details: Any = None) -> int:
        sent.append(details)
        return 5

    @harness.agent
    def agent(run: Run, task: str) -> int:
        make, _, what = UNSTORABLE[name]
        if name in WRITABLE:
            return run.call(pay, "x", details=make())
        with pytest.raises(NotStorable, match="argument") as caught:
            run.call(pay, "x", details=make())
        assert what.replace("the value has", "the arguments of pay have") in caught.value.what
        assert caught.value.path == "$" or caught.value.path.startswith("$.details")
        return 0

    assert harness.run(agent, "x").unwrap() == (5 if name in WRITABLE else 0)
    assert len(sent) == len(ids(harness)) == (1 if name in WRITABLE else 0)


@pytest.mark.parametrize(("make", "path", "what"), UNSTORABLE.values(), ids=UNSTORABLE.keys())
def test_an_input_that_cannot_be_stored_starts_no_run(
    harness: Harness, make: Callable[[], Any], path: str, what: str
) -> None:
    called: list[int] = []

    @harness.agent
    def agent(run: Run, task: Any) -> None:
        called.append(1)

    for ask in (harness.run, harness.start):
        with pytest.raises(NotStorable, match="the input: ") as caught:
            ask(agent, make())
        assert what in caught.value.what
        assert (caught.value.exit_code, caught.value.safe) == (2, "Nothing was changed.")
    assert (called, harness.runs()) == ([], [])


@pytest.mark.parametrize(("make", "path", "what"), UNSTORABLE.values(), ids=UNSTORABLE.keys())
def test_an_output_that_cannot_be_stored_fails_the_run_and_says_why(
    harness: Harness, make: Callable[[], Any], path: str, what: str
) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> Any:
        return make()

    result = harness.run(agent, "x")
    assert (result.status, result.error_type) == ("FAILED", "NotStorable")
    assert str(result.error_message).startswith("the output: ")
    assert what in str(result.error_message)
    assert harness.show("last").run.error_message == result.error_message


# --- Values that are not of their type. ------------------------------------------------------------------------------

MISFITS: dict[str, tuple[Any, Any, str, str]] = {
    "text for a number": (int, "5", "$", "Expected `int`, got `str`"),
    "a number for text": (str, 5, "$", "Expected `str`, got `int`"),
    "a fraction for a whole number": (int, 1.5, "$", "Expected `int`, got `float`"),
    "none": (list[int], None, "$", "Expected `array`, got `null`"),
    "a wrong item": (list[int], [1, 2, "x"], "$[2]", "Expected `int`, got `str`"),
    "a wrong field": (list[Hit], [{"line": "x"}], "$[0].line", "Expected `int`, got `str`"),
    "a missing field": (Hit, {}, "$", "missing required field `line`"),
    "something instead of nothing": (None, 5, "$", "Expected `null`, got `int`"),
}


@pytest.mark.parametrize(("kind", "value", "path", "what"), MISFITS.values(), ids=MISFITS.keys())
def test_a_result_that_is_not_of_the_annotated_type_is_refused_when_it_is_recorded(
    harness: Harness, kind: Any, value: Any, path: str, what: str
) -> None:
    interrupt = Interruption()
    called: list[int] = []
    said: list[str] = []

    def work() -> Any:
        called.append(1)
        return value

    work.__annotations__["return"] = kind
    tool = harness.tool(effect="external")(work)

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(ResultNotStorable) as caught:
            run.call(tool)
        assert caught.value.path == path
        said.append(str(caught.value))
        interrupt()
        return "went on"

    assert harness.resume(interrupted(harness, agent)).unwrap() == "went on"
    assert (len(called), said[0]) == (1, said[1])
    assert what in said[0]


@pytest.mark.parametrize(("kind", "value", "path", "what"), MISFITS.values(), ids=MISFITS.keys())
def test_an_input_or_output_that_is_not_of_its_type_is_refused_too(
    harness: Harness, kind: Any, value: Any, path: str, what: str
) -> None:
    def takes(run: Run, task: Any) -> None: ...

    def gives(run: Run, task: Any) -> Any:
        return value

    takes.__annotations__["task"] = kind
    gives.__annotations__["return"] = kind
    harness.agent(takes)
    harness.agent(gives)
    with pytest.raises(NotStorable) as caught:
        harness.run(takes, value)
    assert caught.value.path == path
    assert what in caught.value.what
    assert harness.runs() == []
    assert what in str(harness.run(gives, "x").error_message)


# --- Text that is odd, and large values that are not too large. ------------------------------------------------------

TEXTS = ["a\x00b", "\x00", "日本 🙂", "\ufeff\ufffe\uffff", "\r\n\t\x1b[31m", "'; DROP TABLE run; --", "$jumar", ""]


@pytest.mark.parametrize("text", TEXTS, ids=repr)
def test_odd_text_comes_back_as_it_was(harness: Harness, text: str) -> None:
    interrupt = Interruption()
    seen: list[Any] = []

    @harness.tool(effect="external")
    def echo(value: Any) -> Any:
        return {"$jumar": value, "value": [value]}

    @harness.agent
    def agent(run: Run, task: str) -> str:
        seen.append((task, run.call(echo, text), run.value("v", text)))
        interrupt()
        return text

    run_id = interrupted(harness, agent, text)
    assert harness.resume(run_id).unwrap() == text
    assert seen == [(text, {"$jumar": text, "value": [text]}, text)] * 2
    view = harness.show(run_id)
    assert (view.input, view.output, view.calls[0].args) == (text, text, {"value": text})
    assert harness.doctor().sound


def test_four_mebibytes_are_kept(harness: Harness) -> None:
    interrupt = Interruption()
    text = "x" * (4 * 1024 * 1024 - 2)

    @harness.tool(effect="read")
    def make(size: int) -> str:
        return text

    @harness.agent
    def agent(run: Run, task: str) -> str:
        made = run.call(make, len(task))
        interrupt()
        return made

    assert harness.resume(interrupted(harness, agent, text)).unwrap() == text


def test_a_large_prompt_is_no_matter_as_only_its_digest_is_kept(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> int:
        return run.decide(len, LARGE)

    assert harness.run(agent, "x").unwrap() == len(LARGE)


# --- A person's answer. ----------------------------------------------------------------------------------------------


def waiting(harness: Harness) -> str:
    """A run that waits for a person to say what became of `pay.1`, which answers a Hit."""

    @harness.tool(effect="external")
    def pay(cents: int) -> Hit:
        raise ConnectionError("cut")

    @harness.agent
    def agent(run: Run, task: str) -> int:
        return run.call(pay, 5).line

    return harness.run(agent, "x").run_id


@pytest.mark.parametrize(
    "result", [5, None, "text", {}, {"line": "x"}, [Hit(1)], print, math.nan, "\ud800", {"line": 1, "more": LARGE}]
)
def test_a_persons_answer_that_is_not_of_the_tools_type_is_refused_and_still_asked_for(
    harness: Harness, result: Any
) -> None:
    run_id = waiting(harness)
    with pytest.raises(NotStorable):
        harness.resolve(run_id, "pay.1", Happened(result))
    assert [each.call_id for each in harness.show(run_id).waiting_on] == ["pay.1"]
    harness.resolve(run_id, "pay.1", Happened(Hit(7)))
    assert harness.resume(run_id).unwrap() == 7


@pytest.mark.parametrize("verdict", [None, 5, "happened", True, Happened, Hit(1)], ids=repr)
def test_what_is_no_verdict_is_refused(harness: Harness, verdict: Any) -> None:
    run_id = waiting(harness)
    with pytest.raises(UsageError, match="is no verdict") as caught:
        harness.resolve(run_id, "pay.1", verdict)
    assert "Happened(result) or NotHappened()" in caught.value.hint
    assert harness.show(run_id).run.status == "WAITING"


@pytest.mark.parametrize("said", ["x" * 201, "a\x00", "\ud800", 5, b"x"], ids=lambda said: repr(said)[:10])
@pytest.mark.parametrize("option", ["by", "note"])
def test_a_persons_name_and_note_are_text_that_can_be_stored(harness: Harness, option: str, said: Any) -> None:
    run_id = waiting(harness)
    with pytest.raises(UsageError, match=f"{option}= is no text"):
        harness.resolve(run_id, "pay.1", Happened(Hit(1)), **{option: said})
    assert harness.show(run_id).run.status == "WAITING"


def test_an_answer_given_where_the_tool_is_not_known_and_not_of_its_type_still_says_that_it_happened(
    tmp_path: Path,
) -> None:
    sent: list[int] = []
    address = f"sqlite:///{tmp_path / 'runs.db'}"

    with Harness(address) as first:

        @first.tool(effect="external")
        def pay(cents: int) -> Hit:
            sent.append(cents)
            raise ConnectionError("cut")

        @first.agent
        def agent(run: Run, task: str) -> str:
            with pytest.raises(ResultNotStorable) as caught:
                run.call(pay, 5)
            return caught.value.what

        run_id = first.run(agent, "x").run_id
        with Harness(address) as stranger:
            stranger.resolve(run_id, "pay.1", Happened({"wrong": 1}))
        said = first.resume(run_id).unwrap()
        assert "`$` is not of the type `Hit`: Object missing required field `line`" in said
        assert (sent, states(first, run_id)) == ([5], {"pay.1": "SUCCEEDED"})
        assert first.doctor().sound
