"""Answers: which request they are for, that each counts once, and that none is lost."""

from __future__ import annotations

from typing import Any

import pytest

from jumar import Happened, Harness, NotHappened
from jumar.errors import CallRejected, RequestNotFound, UsageError
from tests.integration.agents_helpers import states
from tests.integration.waits_helpers import (
    Moment,
    asked,
    at,
    both_kinds,
    every_kind,
    in_memory,
    leaves_as,
    scripted,
    side_by_side,
)


def payer(harness: Harness, waits: bool, sent: list[int], items: list[int]) -> Any:
    """An agent that pays each of some sums, each with an approval, and tells which were rejected."""

    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        found: list[Any] = []
        for cents in items:
            with run.step(f"pay {cents}"):
                try:
                    found.append((yield run.call(pay, cents)))
                except CallRejected as error:
                    found.append(error.note)
        return found

    return agent


# --- One verdict. ----------------------------------------------------------------------------------------------------


@every_kind
def test_of_an_approval_and_a_rejection_at_once_one_counts_and_the_other_is_told(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    rounds = list(range(1, 9))
    agent = payer(harness, waits, sent, rounds)
    run_id, approved = harness.run(agent, "x").run_id, []
    for cents in rounds:
        call = f"pay-{cents}.pay.1"
        ended = side_by_side(
            lambda call=call: harness.approve(run_id, call, by="ada"),
            lambda call=call: harness.reject(run_id, call, by="bob", note="no"),
        )
        (refusal,) = [each for each in ended if each is not None]
        winner = "approve by ada" if ended[0] is None else "reject by bob"
        assert isinstance(refusal, RequestNotFound) and f"has been answered ({winner})" in refusal.what
        approved += [cents] if ended[0] is None else []
        result = harness.resume(run_id)
    assert result.unwrap() == [cents if cents in approved else "no" for cents in rounds]
    assert sent == approved


@both_kinds
def test_an_answer_is_given_once(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    agent = payer(harness, waits, sent, [5])
    run_id = harness.run(agent, "x").run_id
    harness.approve(run_id, "pay-5.pay.1", by="ada")
    for again in (harness.approve, harness.reject):
        with pytest.raises(RequestNotFound, match=r"has been answered \(approve by ada\)"):
            again(run_id, "pay-5.pay.1")
    assert harness.resume(run_id).unwrap() == [5]
    with pytest.raises(RequestNotFound, match=r"has been answered \(approve by ada\)"):
        harness.reject(run_id, "pay-5.pay.1")
    assert (sent, states(harness)) == ([5], {"pay-5.pay.1": "SUCCEEDED"})


@every_kind
def test_the_same_person_asking_twice_at_once_is_heard_once(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask("which?"))

    run_id = harness.run(agent, "x").run_id
    ended = side_by_side(*[lambda value=value: harness.answer(run_id, "ask.1", value) for value in range(6)])
    assert sum(each is None for each in ended) == 1
    assert all(each is None or isinstance(each, RequestNotFound) for each in ended)
    assert harness.resume(run_id).unwrap() == ended.index(None)


# --- Which request is meant. -----------------------------------------------------------------------------------------


def test_a_request_is_named_by_the_end_of_its_calls_id_where_only_one_ends_so(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        def inside() -> Any:
            with run.step("late"):
                return run.call(pay, 2)

        return run.gather(pay.bind(1), inside)

    run_id = harness.run(agent, "x").run_id
    for ending in ("pay.1", "1"):
        with pytest.raises(RequestNotFound, match=r"may mean any of gather:0\.pay\.1, gather:1\.late\.pay\.1"):
            harness.approve(run_id, ending)
    for nothing in ("ay.1", "late.pay", "", "pay.2", "gather:0.pay.1 ", None, 5):
        with pytest.raises(RequestNotFound):
            harness.approve(run_id, nothing)  # type: ignore[arg-type]
    harness.approve(run_id[-8:], "late.pay.1")
    harness.approve("last", "gather:0.pay.1")
    assert harness.resume(run_id).unwrap() == [1, 2]


def test_a_whole_id_is_meant_even_where_it_is_also_the_end_of_another(harness: Harness) -> None:
    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> int:
        return cents

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        first = run.call(pay, 1)
        with run.step("late"):
            return first, run.call(pay, 2)

    run_id = harness.run(agent, "x").run_id
    harness.approve(run_id, "pay.1")
    assert asked(harness.resume(run_id)) == [("late.pay.1", "approval", 1)]
    with pytest.raises(RequestNotFound, match=r"pay\.1 has been answered"):
        harness.approve(run_id, "pay.1")
    harness.approve(run_id, "late.pay.1")
    assert harness.resume(run_id).unwrap() == [1, 2]


def test_an_answer_of_another_kind_says_what_is_asked(harness: Harness) -> None:
    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        return run.ask("which?")

    run_id = harness.run(agent, "x").run_id
    for say in (
        lambda: harness.approve(run_id, "ask.1"),
        lambda: harness.reject(run_id, "ask.1"),
        lambda: harness.resolve(run_id, "ask.1", Happened(1)),
    ):
        with pytest.raises(RequestNotFound, match="asks a question"):
            say()
    with pytest.raises(RequestNotFound, match="asks nothing about pay"):
        harness.answer(run_id, "pay.1", 5)


@in_memory
@pytest.mark.parametrize("field", ["by", "note"])
@pytest.mark.parametrize("text", ["x" * 201, "a\x00b", "\ud800", 5], ids=["long", "nul", "surrogate", "number"])
def test_a_remark_that_cannot_be_kept_is_refused_before_anything_is_answered(
    harness: Harness, field: str, text: Any
) -> None:
    sent: list[int] = []
    run_id = harness.run(payer(harness, False, sent, [5]), "x").run_id
    for say in (harness.approve, harness.reject):
        with pytest.raises(UsageError, match=f"{field}="):
            say(run_id, "pay-5.pay.1", **{field: text})
    for order in (harness.cancel, harness.pause):
        with pytest.raises(UsageError, match=f"{field}="):
            order(run_id, **{field: text})
    assert harness.show(run_id).run.control == "none"
    assert asked(harness.resume(run_id)) == [("pay-5.pay.1", "approval", 1)]


def test_a_verdict_that_is_none_is_refused(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay() -> int:
        raise ConnectionError("cut")

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        return run.call(pay)

    run_id = harness.run(agent, "x").run_id
    for verdict in (NotHappened, True, "happened", None):
        with pytest.raises(UsageError, match="is no verdict"):
            harness.resolve(run_id, "pay.1", verdict)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        harness.resolve(run_id, "pay.1", Happened("five"))
    assert states(harness) == {"pay.1": "UNCERTAIN"}


# --- None is lost. ---------------------------------------------------------------------------------------------------


@both_kinds
def test_an_answer_between_the_request_and_waiting_is_not_lost(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    agent = payer(harness, waits, sent, [5])
    moment = at(harness, leaves_as("WAITING"), lambda: harness.approve("last", "pay-5.pay.1"))
    assert harness.run(agent, "x").unwrap() == [5]
    assert (moment.acted, sent, harness.show("last").run.epoch) == (True, [5], 1)


@both_kinds
def test_an_answer_right_before_a_run_is_taken_up_is_not_lost(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.ask("a?")), (yield run.ask("b?"))

    moments: list[Moment] = []

    def answers_b() -> None:
        harness.answer("last", "ask.2", "b")

    def answers_a() -> None:
        harness.answer("last", "ask.1", "a")
        moments[0].acted = False  # once more, when it is about to wait for the second
        moments[0]._act = answers_b

    moments.append(at(harness, leaves_as("WAITING"), answers_a))
    assert harness.run(agent, "x").unwrap() == ["a", "b"]


@both_kinds
def test_an_answer_for_a_paused_run_is_used_once_it_is_resumed(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    agent = payer(harness, waits, sent, [5])
    run_id = harness.run(agent, "x").run_id
    assert harness.pause(run_id).status == "PAUSED"
    harness.approve(run_id, "pay-5.pay.1")
    assert harness.show(run_id).run.status == "PAUSED"
    assert harness.resume(run_id).unwrap() == [5]
