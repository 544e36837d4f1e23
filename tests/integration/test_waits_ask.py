"""Questions: what an answer may be, and what holds when nobody answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from jumar import Harness
from jumar.core.changes import Answer
from jumar.core.requests import Commit
from jumar.errors import RequestNotFound, UsageError
from jumar.testing.crash_clock import StoppedClock
from tests.integration.agents_helpers import Interruption, ids, states
from tests.integration.waits_helpers import (
    asked,
    at,
    both_kinds,
    clock,
    in_memory,
    kinds_in_memory,
    leaves_as,
    scripted,
)

__all__ = ["clock"]


@dataclass
class Plan:
    """What somebody may answer."""

    file: str
    lines: list[int]


class Colour(Enum):
    """What somebody may choose."""

    RED = "red"
    BLUE = "blue"


@kinds_in_memory
@pytest.mark.parametrize("value", ["yes", 5, 0.5, True, None, [1, "a"], {"a": {"b": []}}, "x" * 5000], ids=str)
def test_any_json_answers_a_plain_question_now_and_on_replay(harness: Harness, waits: bool, value: Any) -> None:
    interrupt, seen = Interruption(), []

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        seen.append((yield run.ask("what?")))
        interrupt()
        return seen[-1]

    result = harness.run(agent, "x")
    (waiting,) = result.waiting_on
    assert (asked(result), waiting.question, waiting.choices) == ([("ask.1", "ask", 1)], "what?", None)
    harness.answer(result.run_id, "ask.1", value, by="ada")
    with pytest.raises(KeyboardInterrupt):
        harness.resume(result.run_id)
    assert harness.resume(result.run_id).unwrap() == value
    assert seen == [value, value] and states(harness) == {"ask.1": "SUCCEEDED"}


@both_kinds
def test_of_choices_one_is_the_answer(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask("which?", choices=("left", "right")))

    result = harness.run(agent, "x")
    assert result.waiting_on[0].choices == ("left", "right")
    for value in ("up", "", None, ["left"], 1):
        with pytest.raises(UsageError, match="the answer is one of 'left', 'right'"):
            harness.answer(result.run_id, "ask.1", value)
    harness.answer(result.run_id, "ask.1", "right")
    assert harness.resume(result.run_id).unwrap() == "right"


@both_kinds
def test_an_answer_that_the_annotation_refuses_is_asked_for_again(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        plan = yield run.ask("plan?", returns=Plan)
        assert isinstance(plan, Plan)
        return plan.file, plan.lines

    result = harness.run(agent, "x")
    with pytest.raises(UsageError, match="the answer is JSON of type object, not 'a'"):
        harness.answer(result.run_id, "ask.1", "a")  # that much can be told without the agent's code
    for number, value in enumerate([{"file": 5}, {"file": "a", "lines": ["one"]}], 1):
        harness.answer(result.run_id, "ask.1", value)
        result = harness.resume(result.run_id)
        assert asked(result) == [("ask.1", "ask", number + 1)]
    harness.answer(result.run_id, "ask.1", {"file": "a", "lines": [1, 2]})
    assert harness.resume(result.run_id).unwrap() == ["a", [1, 2]]
    assert ids(harness) == ["ask.1"]


@kinds_in_memory
@pytest.mark.parametrize(
    ("returns", "good", "bad"),
    [
        (int, 5, "5"),
        (bool, False, 0),
        (float, 5, True),
        (str, "", 5),
        (list[int], [], {}),
        (dict[str, int], {"a": 1}, [1]),
        (None | int, None, "x"),
        (Colour, "red", "green"),
    ],
    ids=str,
)
def test_an_answer_is_of_the_type_asked_for(harness: Harness, waits: bool, returns: Any, good: Any, bad: Any) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        value = yield run.ask("what?", returns=returns)
        return value.value if isinstance(value, Enum) else value

    result = harness.run(agent, "x")
    try:
        harness.answer(result.run_id, "ask.1", bad)
    except UsageError:
        assert asked(harness.resume(result.run_id)) == [("ask.1", "ask", 1)]
    else:
        assert asked(harness.resume(result.run_id)) == [("ask.1", "ask", 2)]
    harness.answer(result.run_id, "ask.1", good)
    assert harness.resume(result.run_id).unwrap() == good


@both_kinds
def test_choices_of_a_type_are_answered_as_that_type(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask("which?", choices=["red", "blue"], returns=Colour)) is Colour.BLUE

    result = harness.run(agent, "x")
    harness.answer(result.run_id, "ask.1", "blue")
    assert harness.resume(result.run_id).unwrap() is True


@in_memory
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"question": ""}, "a question of 1 to"),
        ({"question": "   "}, "a question of 1 to"),
        ({"question": "x" * 4001}, "a question of 1 to"),
        ({"question": "a\x00"}, "a question of 1 to"),
        ({"question": None}, "a question of 1 to"),
        ({"choices": []}, "are not 1 to"),
        ({"choices": "yes"}, "is a list of texts"),
        ({"choices": ["a", "a"]}, "are not 1 to"),
        ({"choices": ["a", ""]}, "are not 1 to"),
        ({"choices": ["a", 5]}, "are not 1 to"),
        ({"choices": [str(number) for number in range(101)]}, "are not 1 to"),
        ({"choices": {"a"}}, "is a list of texts"),
        ({"choices": ["yes", "no"], "returns": bool}, "the choice 'yes' is not of the type"),
        ({"expires": 60}, "has no default"),
        ({"expires": 0, "default": "a"}, "expires=0"),
        ({"expires": -1, "default": "a"}, "expires=-1"),
        ({"expires": "soon", "default": "a"}, "expires='soon'"),
        ({"expires": float("nan"), "default": "a"}, "expires=nan"),
        ({"default": "c", "choices": ["a", "b"]}, "cannot be an answer"),
        ({"default": "5", "returns": int}, "not of the type asked for"),
        ({"default": 1j}, "not of the type asked for"),
        ({"key": ""}, "key="),
    ],
    ids=str,
)
def test_a_question_that_cannot_be_asked_is_refused_and_nothing_is_recorded(
    harness: Harness, options: dict[str, Any], words: str
) -> None:
    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        with pytest.raises(UsageError, match=words):
            run.ask(**{"question": "what?", **options})
        return "went on"

    assert harness.run(agent, "x").unwrap() == "went on"
    assert ids(harness) == []


# --- When nobody answers. --------------------------------------------------------------------------------------------


@kinds_in_memory
@pytest.mark.parametrize("default", ["no", None, False], ids=str)
def test_the_default_answers_once_the_time_is_over(
    harness: Harness, clock: StoppedClock, waits: bool, default: Any
) -> None:
    interrupt, began = Interruption(), clock.wall_ms()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        value = yield run.ask("go?", expires=3600, default=default)
        interrupt()
        return value

    result = harness.run(agent, "x")
    assert (result.wake_at, result.waiting_on[0].expires_at) == (began + 3_600_000, began + 3_600_000)
    clock.move(3599.999)
    assert harness.resume(result.run_id).status == "WAITING" and harness.due() == []
    clock.move(0.001)
    assert harness.due() == [result.run_id]
    with pytest.raises(KeyboardInterrupt):
        harness.resume_due()
    assert harness.resume(result.run_id).output == default
    (answer,) = harness.show("last").answers
    assert (answer.verdict, answer.value, answer.by) == ("value", default, "expiry")
    with pytest.raises(RequestNotFound, match=r"has been answered \(value by expiry\)"):
        harness.answer(result.run_id, "ask.1", "yes")


@both_kinds
def test_an_answer_after_the_time_is_over_counts_as_long_as_the_default_was_not_taken(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask("go?", expires=60, default="no"))

    result = harness.run(agent, "x")
    clock.move(61)
    harness.answer(result.run_id, "ask.1", "yes")
    assert harness.resume(result.run_id).unwrap() == "yes"


@both_kinds
def test_an_answer_in_the_moment_the_default_is_taken_counts(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask("go?", expires=60, default="no"))

    def takes_default(request: Any) -> bool:
        return isinstance(request, Commit) and isinstance(request.change, Answer)

    moment = at(harness, takes_default, lambda: harness.answer("last", "ask.1", "yes"))
    result = harness.run(agent, "x")
    clock.move(61)
    assert harness.resume(result.run_id).unwrap() == "yes"
    assert moment.acted
    (answer,) = harness.show("last").answers
    assert answer.value == "yes"


@both_kinds
def test_time_that_is_over_before_the_run_waits_is_noticed_when_it_is_due(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask("go?", expires=10, default="no"))

    at(harness, leaves_as("WAITING"), lambda: clock.move(11))
    result = harness.run(agent, "x")
    assert (result.status, harness.due()) == ("WAITING", [result.run_id])
    (resumed,) = harness.resume_due()
    assert resumed.unwrap() == "no"


@both_kinds
def test_when_it_expires_is_recorded_and_moved_by_no_resume_nor_by_an_answer_that_did_not_fit(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        plan = yield run.ask("plan?", returns=Plan, expires=60, default=Plan("none", []))
        return plan.file

    result = harness.run(agent, "x")
    expires_at = clock.wall_ms() + 60_000
    clock.move(30)
    harness.answer(result.run_id, "ask.1", {"file": 5})
    again = harness.resume(result.run_id)
    assert (asked(again), again.wake_at) == ([("ask.1", "ask", 2)], expires_at)
    clock.move(30)
    assert harness.resume(result.run_id).unwrap() == "none"


@both_kinds
def test_a_default_that_would_never_be_taken_is_refused(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask("go?", default="no"))

    result = harness.run(agent, "x")
    assert (result.status, type(result.error)) == ("FAILED", UsageError)
    assert "expires" in str(result.error)


# --- Many questions. -------------------------------------------------------------------------------------------------


@both_kinds
def test_the_same_question_asked_again_is_another_one(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        found = []
        while not found or found[-1] != "stop":
            found.append((yield run.ask("next?")))
        return found

    result = harness.run(agent, "x")
    for number, value in enumerate(["a", "a", "stop"], 1):
        assert asked(result) == [(f"ask.{number}", "ask", 1)]
        harness.answer(result.run_id, f"ask.{number}", value)
        result = harness.resume(result.run_id)
    assert result.unwrap() == ["a", "a", "stop"]


@both_kinds
def test_questions_and_approvals_of_parallel_branches_are_answered_in_any_order(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> int:
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        asks = [lambda text=text: run.ask(text) for text in ("a?", "b?")]
        return (yield run.gather(pay.bind(5), *asks))

    result = harness.run(agent, "x")
    run_id, left = result.run_id, {"gather:0.pay.1", "gather:1.ask.1", "gather:2.ask.1"}
    assert {call for call, _, _ in asked(result)} == left
    assert {view.asked.call_id for view in harness.requests()} == left
    harness.answer(run_id, "gather:2.ask.1", "B")
    harness.approve(run_id, "gather:0.pay.1")
    assert asked(harness.resume(run_id)) == [("gather:1.ask.1", "ask", 1)]
    harness.answer(run_id, "gather:1.ask.1", "A")
    assert harness.resume(run_id).unwrap() == [5, "A", "B"]


def test_open_requests_of_all_runs_are_listed_oldest_first_until_they_are_answered(
    harness: Harness, clock: StoppedClock
) -> None:
    @harness.agent
    def agent(run: Any, task: str) -> Any:
        return run.ask(f"{task}?", choices=["y", "n"])

    runs = []
    for task in ("a", "b", "c"):
        runs.append(harness.run(agent, task).run_id)
        clock.move(1)
    seen = harness.requests()
    assert [(view.run_id, view.asked.question) for view in seen] == list(zip(runs, ["a?", "b?", "c?"], strict=True))
    assert seen[0].asked.choices == ("y", "n")
    harness.answer(runs[0], "ask.1", "y")
    harness.cancel(runs[2])
    assert [view.run_id for view in harness.requests()] == [runs[1]]
    assert [view.run_id for view in harness.requests(limit=1)] == [runs[1]]
    for limit in (0, -1, "all", 1.5):
        with pytest.raises(UsageError):
            harness.requests(limit=limit)  # type: ignore[arg-type]
