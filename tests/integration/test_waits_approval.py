"""Calls that a person is asked about before they are sent."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jumar import Happened, Harness, NotApplied, NotHappened, current_call
from jumar.errors import CallRejected, RequestNotFound
from tests.integration.agents_helpers import Interruption, ids, states, until
from tests.integration.waits_helpers import asked, both_kinds, every_kind, once, scripted


def sends(harness: Harness, sent: list[Any], **options: Any) -> Any:
    """A tool `pay` that needs an approval, and notes what it sends."""

    @harness.tool(effect=options.pop("effect", "external"), approval="always", **options)
    def pay(cents: int) -> str:
        sent.append(cents)
        return f"paid {cents}"

    return pay


@both_kinds
def test_nothing_is_sent_before_somebody_has_said_yes(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    pay = sends(harness, sent)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    assert (result.status, asked(result), sent) == ("WAITING", [("pay.1", "approval", 1)], [])
    (waiting,) = result.waiting_on
    assert (waiting.tool, waiting.args, result.wake_at) == ("pay", {"cents": 5}, None)
    assert (states(harness), harness.show("last").calls[0].attempt) == ({"pay.1": "AWAITING"}, 0)
    assert harness.resume(result.run_id).status == "WAITING" and sent == []

    harness.approve(result.run_id, "pay.1", by="ada", note="go")
    assert harness.show("last").run.status == "QUEUED"
    assert harness.resume(result.run_id).unwrap() == "paid 5"
    assert sent == [5]
    (answer,) = harness.show("last").answers
    assert (answer.verdict, answer.by, answer.note) == ("approve", "ada", "go")


@both_kinds
@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
def test_a_rejected_call_is_not_sent_and_answers_the_same_on_every_replay(
    harness: Harness, waits: bool, effect: str
) -> None:
    sent: list[int] = []
    pay, interrupt, told = sends(harness, sent, effect=effect), Interruption(), []

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        try:
            yield run.call(pay, 5)
        except CallRejected as error:
            told.append((error.what, error.call_id, error.note))
        interrupt()
        return "went on"

    result = harness.run(agent, "x")
    harness.reject(result.run_id, "pay.1", by="ada", note="too much")
    with pytest.raises(KeyboardInterrupt):
        harness.resume(result.run_id)
    assert states(harness) == {"pay.1": "REJECTED"}
    assert harness.resume(result.run_id).unwrap() == "went on"
    assert told == [("call pay.1 was rejected by ada: too much", "pay.1", "too much")] * 2
    assert sent == []


@both_kinds
def test_a_rejection_that_nobody_catches_fails_the_run_for_good(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    pay = sends(harness, sent)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    harness.reject(result.run_id, "pay.1")
    for _ in range(2):
        failed = harness.resume(result.run_id)
        assert (failed.status, failed.error_type, sent) == ("FAILED", "CallRejected", [])
    assert states(harness) == {"pay.1": "REJECTED"}


@both_kinds
def test_reject_reject_approve_are_three_questions_and_one_effect(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    pay = sends(harness, sent)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        for tried in range(1, 5):
            try:
                return tried, (yield run.call(pay, 5))
            except CallRejected:
                continue
        return "never"

    result = harness.run(agent, "x")
    for number, say in enumerate([harness.reject, harness.reject, harness.approve], 1):
        assert asked(result) == [(f"pay.{number}", "approval", 1)]
        say(result.run_id, f"pay.{number}")
        result = harness.resume(result.run_id)
    assert result.unwrap() == [3, "paid 5"]
    assert sent == [5]
    assert states(harness) == {"pay.1": "REJECTED", "pay.2": "REJECTED", "pay.3": "SUCCEEDED"}


@both_kinds
@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
def test_an_approval_covers_retries_of_attempts_that_were_not_applied(
    harness: Harness, waits: bool, effect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []
    at_once(monkeypatch)

    @harness.tool(effect=effect, approval="always", retries=2)
    def pay(cents: int) -> int:
        call = current_call()
        assert call is not None
        attempts.append(call.attempt)
        if len(attempts) < 3:
            raise NotApplied("busy")
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.1")
    assert harness.resume(result.run_id).unwrap() == 5
    assert attempts == [1, 2, 3]


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every retry follow at once."""
    monkeypatch.setattr("jumar.engine.flows.effects.backoff", lambda attempt, asked, luck: 0.0)


@both_kinds
def test_an_approval_covers_a_retry_in_a_later_process(
    harness: Harness, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []
    monkeypatch.setattr("jumar.engine.flows.effects.backoff", lambda attempt, asked, luck: 3600.0)

    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> int:
        attempts.append(cents)
        if len(attempts) == 1:
            raise NotApplied("busy for an hour")
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.1")
    later = harness.resume(result.run_id)
    assert (later.status, asked(later), later.wake_at is not None) == ("WAITING", [], True)
    harness.pause(result.run_id)  # and resumed, it does not wait for its time
    assert harness.resume(result.run_id).unwrap() == 5
    assert attempts == [5, 5]
    assert harness.show("last").calls[0].attempt == 2


@both_kinds
def test_an_approval_never_covers_an_attempt_after_one_that_may_have_happened(harness: Harness, waits: bool) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always", settle=0.0)
    def pay(cents: int) -> int:
        sent.append(cents)
        if len(sent) == 1:
            raise ConnectionError("cut")
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.1")
    doubtful = harness.resume(result.run_id)
    assert (asked(doubtful), sent) == ([("pay.1", "resolve", 1)], [5])
    with pytest.raises(RequestNotFound, match="asks whether it happened, not for approval"):
        harness.approve(result.run_id, "pay.1")
    harness.resolve(result.run_id, "pay.1", NotHappened())
    again = harness.resume(result.run_id)
    assert (asked(again), sent) == ([("pay.1", "approval", 2)], [5])
    assert harness.resume(result.run_id).status == "WAITING" and sent == [5]
    harness.approve(result.run_id, "pay.1")
    assert harness.resume(result.run_id).unwrap() == 5
    assert sent == [5, 5]


@both_kinds
def test_an_approval_never_covers_an_attempt_after_one_that_a_probe_says_did_not_happen(
    harness: Harness, waits: bool
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always", settle=0.0)
    def pay(cents: int) -> int:
        sent.append(cents)
        if len(sent) == 1:
            raise ConnectionError("cut")
        return cents

    @pay.probe
    def _(cents: int) -> Any:
        return NotHappened()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.1")
    again = harness.resume(result.run_id)
    assert (asked(again), sent) == ([("pay.1", "approval", 2)], [5])
    harness.reject(result.run_id, "pay.1")
    assert harness.resume(result.run_id).error_type == "CallRejected"
    assert sent == [5]


@both_kinds
def test_a_call_that_happened_after_all_needs_no_other_approval(harness: Harness, waits: bool) -> None:
    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> int:
        raise ConnectionError("cut")

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 5))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.1")
    harness.resume(result.run_id)
    harness.resolve(result.run_id, "pay.1", Happened(7))
    assert harness.resume(result.run_id).unwrap() == 7


@every_kind
def test_what_runs_beside_an_approved_call_is_not_sent_again(harness: Harness, waits: bool) -> None:
    sent: list[Any] = []
    pay, mailing = sends(harness, sent), threading.Event()

    @harness.tool(effect="external")
    def mail(text: str) -> str:
        mailing.set()
        until(lambda: bool(harness.requests()))
        harness.approve("last", "gather:0.pay.1")
        sent.append(text)
        return "mailed"

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.gather(once(mailing, waits, lambda: run.call(pay, 5)), mail.bind("hello")))

    # The answer is there when the run is about to wait for it, so it does not wait at all.
    assert harness.run(agent, "x").unwrap() == ["paid 5", "mailed"]
    assert sent == ["hello", 5]
    assert harness.show("last").run.epoch == 1


@every_kind
def test_several_requests_at_once_are_answered_in_any_order(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    pay = sends(harness, sent)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.map(pay, [1, 2, 3]))

    result = harness.run(agent, "x")
    names = [f"map:{index}.pay.1" for index in range(3)]
    assert sorted(call for call, _, _ in asked(result)) == names
    for call in reversed(names):
        harness.approve(result.run_id, call)
    assert harness.resume(result.run_id).unwrap() == ["paid 1", "paid 2", "paid 3"]
    assert sorted(sent) == [1, 2, 3]


@every_kind
def test_each_answer_of_several_is_used_once_while_the_others_still_wait(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    pay = sends(harness, sent)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.gather(pay.bind(1), pay.bind(2)))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "gather:1.pay.1")
    for _ in range(3):
        half = harness.resume(result.run_id)
        assert asked(half) == [("gather:0.pay.1", "approval", 1)]
        assert sent in ([], [2])  # nothing new goes out once another branch waits
    harness.approve(result.run_id, "gather:0.pay.1")
    assert harness.resume(result.run_id).unwrap() == ["paid 1", "paid 2"]
    assert sorted(sent) == [1, 2]
    assert sorted(ids(harness)) == ["gather:0.pay.1", "gather:1.pay.1"]


@every_kind
def test_what_needs_somebody_asks_at_once_in_whatever_step_or_branch_it_stands(harness: Harness, waits: bool) -> None:
    pay = sends(harness, [])

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        def plain() -> Any:
            with run.step("deep"):
                return run.map(pay, [2, 3])

        async def awaited() -> Any:
            with run.step("deep"):
                return await run.map(pay, [2, 3])

        return (yield run.gather(pay.bind(1), awaited if waits else plain, lambda: run.ask("sure?")))

    result = harness.run(agent, "x")
    deep = "gather:1.deep.map:"
    names = {"gather:0.pay.1", f"{deep}0.pay.1", f"{deep}1.pay.1"}
    assert {call for call, kind, _ in asked(result) if kind == "approval"} == names
    assert [call for call, kind, _ in asked(result) if kind == "ask"] == ["gather:2.ask.1"]
