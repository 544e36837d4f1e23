"""External calls that may have happened, and calls past their timeout."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jumar import Happened, Harness, NotHappened, Run, Unknown
from jumar.errors import CallFailed
from tests.integration.agents_helpers import ids, states, until


class Declined(Exception):
    """Promises that nothing was done."""


def test_an_undeclared_error_of_an_external_tool_leaves_it_to_the_probe(harness: Harness) -> None:
    asked: list[tuple[str, int]] = []
    verdicts: list[Any] = [Happened(5), NotHappened, Unknown()]
    sent: list[str] = []

    @harness.tool(effect="external", settle=0)
    def pay(invoice: str, cents: int) -> int:
        sent.append(invoice)
        if sent.count(invoice) == 1:
            raise ConnectionError("cut")
        return cents * 10

    @pay.probe
    def _(invoice: str, cents: int) -> Any:
        asked.append((invoice, cents))
        return verdicts[int(invoice)]

    @harness.agent
    def agent(run: Run, task: str) -> list[int]:
        return [run.call(pay, "0", 5), run.call(pay, "1", 5), run.call(pay, "2", 5)]

    result = harness.run(agent, "x")
    assert sent == ["0", "1", "1", "2"]
    assert asked == [("0", 5), ("1", 5), ("2", 5)]
    assert (result.status, [waiting.call_id for waiting in result.waiting_on]) == ("WAITING", ["pay.3"])
    assert states(harness) == {"pay.1": "SUCCEEDED", "pay.2": "SUCCEEDED", "pay.3": "UNCERTAIN"}

    harness.resolve(result.run_id, "pay.3", Happened(7))
    assert harness.resume(result.run_id).unwrap() == [5, 50, 7]
    assert sent == ["0", "1", "1", "2"]


@pytest.mark.parametrize("answer", ["yes", None, 5, RuntimeError("down")], ids=str)
def test_a_probe_that_fails_or_answers_something_else_does_not_know(harness: Harness, answer: Any) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", settle=0)
    def pay(cents: int) -> int:
        sent.append(cents)
        raise ConnectionError("cut")

    @pay.probe
    def _(cents: int) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    @harness.agent
    def agent(run: Run, task: str) -> int:
        return run.call(pay, 5)

    assert harness.run(agent, "x").status == "WAITING"
    assert sent == [5]


def test_a_declared_error_of_an_external_tool_promises_that_nothing_was_done(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", errors=(Declined,))
    def pay(cents: int) -> int:
        sent.append(cents)
        raise Declined("no funds")

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(Declined):
            run.call(pay, 5)
        return "went on"

    assert harness.run(agent, "x").unwrap() == "went on"
    assert (sent, states(harness)) == ([5], {"pay.1": "FAILED"})


# --- Timeouts. -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_call_past_its_timeout_is_given_up_and_tried_again(harness: Harness, effect: str) -> None:
    never = threading.Event()
    attempts: list[int] = []

    @harness.tool(effect=effect, timeout=0.05, retries=1)
    def slow(name: str) -> str:
        attempts.append(threading.get_ident())
        if len(attempts) == 1:
            assert never.wait(60)
        return name

    @harness.agent
    def agent(run: Run, task: str) -> str:
        return run.call(slow, task)

    try:
        assert harness.run(agent, "x").unwrap() == "x"
    finally:
        never.set()
    assert len(attempts) == 2
    assert threading.get_ident() not in attempts


def test_a_call_past_its_timeout_to_the_end_is_a_call_that_failed(harness: Harness) -> None:
    never = threading.Event()

    @harness.tool(effect="read", timeout=0.05, retries=0)
    def slow(name: str) -> str:
        assert never.wait(60)
        return name

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(CallFailed, match=r"failed with TimeoutError: slow did not end within 0\.05 s") as caught:
            run.call(slow, task)
        return caught.value.error_class

    try:
        assert harness.run(agent, "x").unwrap() == "transient"
    finally:
        never.set()


def test_an_external_call_past_its_timeout_is_uncertain_and_its_late_result_is_evidence(harness: Harness) -> None:
    go = threading.Event()
    filed = threading.Event()

    @harness.tool(effect="external", timeout=0.05)
    def pay(cents: int) -> int:
        assert go.wait(60)
        filed.set()
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        return run.call(pay, 5)

    result = harness.run(agent, "x")
    assert (result.status, states(harness)) == ("WAITING", {"pay.1": "UNCERTAIN"})
    go.set()
    assert filed.wait(60)
    until(lambda: any(line.what == "answered" for line in harness.trace(result.run_id)))
    assert harness.resume(result.run_id).unwrap() == 5
    assert ids(harness) == ["pay.1"]


def test_a_no_counts_from_when_the_attempt_was_over_where_that_is_known(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", settle=0.0)  # without a timeout an unknown end would be reckoned with for 600 s
    def pay(cents: int) -> int:
        sent.append(cents)
        if len(sent) == 1:
            raise ValueError("the answer could not be read")
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        return run.call(pay, 5)

    waiting = harness.run(agent, "x")
    assert waiting.status == "WAITING"
    harness.resolve(waiting.run_id, "pay.1", NotHappened())
    assert harness.resume(waiting.run_id).unwrap() == 5
    assert sent == [5, 5]


def test_an_attempt_that_still_runs_in_this_process_is_not_taken_for_over(harness: Harness) -> None:
    may_end = threading.Event()
    sent: list[int] = []

    @harness.tool(effect="external", timeout=0.05, settle=0.0)
    def pay(cents: int) -> int:
        may_end.wait(60)
        sent.append(cents)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        return run.call(pay, 5)

    waiting = harness.run(agent, "x")
    harness.resolve(waiting.run_id, "pay.1", NotHappened())
    assert (harness.resume(waiting.run_id).status, sent) == ("WAITING", [])
    may_end.set()
    until(lambda: harness.resume(waiting.run_id).status == "COMPLETED")
    assert sent == [5]
