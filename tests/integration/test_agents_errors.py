"""Errors of tools: which are tried again, what the agent gets, and that it gets the same on replay."""

from __future__ import annotations

import threading
import traceback
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from jumar import Happened, Harness, NotApplied, NotHappened, Run, Unknown, current_call
from jumar.errors import CallFailed, RunFailed
from tests.integration.agents_helpers import Interruption, ids, interrupted, states, until


class Declined(Exception):
    """With a constructor that nobody can call again later."""

    def __init__(self, *, invoice: str, limit: int) -> None:
        super().__init__(f"{invoice} is over {limit}")
        self.limit = limit
        self.session = object()


class RateLimited(Exception):
    """Promises that nothing was done."""


def told(error: BaseException) -> tuple[Any, ...]:
    """Everything an agent can see of an error, but where it was raised."""
    return type(error), str(error), error.args, sorted((name, repr(value)) for name, value in vars(error).items())


ERRORS = {
    "declared": lambda: Declined(invoice="i-7", limit=50),
    "of a client": lambda: openai.BadRequestError(
        "bad prompt", response=httpx2.Response(400, request=httpx2.Request("GET", "http://h")), body={"code": "x"}
    ),
    "undeclared": lambda: RuntimeError("went wrong", 5),
    "os error": lambda: FileNotFoundError(2, "No such file", "/site.ini"),
    "odd text": lambda: RuntimeError("half \ud800 and \x00"),
}


@pytest.mark.parametrize("effect", ["read", "idempotent"])
@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_is_the_same_live_and_on_replay_and_the_call_is_not_repeated(
    harness: Harness, kind: str, effect: str
) -> None:
    interrupt = Interruption()
    called: list[int] = []
    seen: list[tuple[Any, ...]] = []

    @harness.tool(effect=effect, errors=(Declined, openai.APIError, FileNotFoundError))
    def work(name: str) -> int:
        called.append(1)
        raise ERRORS[kind]()

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(Exception) as caught:
            run.call(work, "x")
        seen.append(told(caught.value))
        interrupt()
        return "went on"

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == "went on"
    assert seen[0] == seen[1]
    assert len(called) == 1
    expected = CallFailed if kind in ("undeclared", "odd text") else type(ERRORS[kind]())
    assert seen[0][0] is expected


def test_a_declared_error_keeps_its_attributes_and_its_cause(harness: Harness) -> None:
    @harness.tool(errors=(Declined,))
    def pay(cents: int) -> int:
        raise Declined(invoice="i-7", limit=50)

    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        try:
            run.call(pay, 5)
        except Declined as error:
            shown = "".join(traceback.format_exception(error))
            return [error.limit, hasattr(error, "session"), 'raise Declined(invoice="i-7", limit=50)' in shown]
        return []

    assert harness.run(agent, "x").unwrap() == [50, False, True]


def test_an_undeclared_error_names_the_call_and_fails_the_run_that_does_not_catch_it(harness: Harness) -> None:
    @harness.tool
    def work(name: str) -> int:
        raise RuntimeError("went wrong")

    @harness.agent
    def agent(run: Run, task: str) -> None:
        with run.step("scan"):
            run.call(work, "x")

    result = harness.run(agent, "x")
    assert (result.status, result.output, result.error_type) == ("FAILED", None, "CallFailed")
    assert result.error_message == "call scan.work.1 failed with RuntimeError: went wrong"
    assert isinstance(result.error, CallFailed)
    assert (result.error.call_id, result.error.type_name, result.error.message, result.error.error_class) == (
        "scan.work.1",
        "RuntimeError",
        "went wrong",
        "permanent",
    )
    with pytest.raises(RunFailed, match=r"is FAILED: CallFailed: call scan\.work\.1 failed") as caught:
        result.unwrap()
    assert caught.value.__cause__ is result.error


# --- Trying again. ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["read", "idempotent"])
def test_a_passing_error_is_tried_again_and_the_attempts_are_counted(harness: Harness, effect: str) -> None:
    attempts: list[int] = []

    @harness.tool(effect=effect, retries=1)
    def work(name: str) -> str:
        call = current_call()
        assert call is not None
        attempts.append(call.attempt)
        if call.attempt == 1:
            raise ConnectionResetError("cut")
        return name

    @harness.agent
    def agent(run: Run, task: str) -> str:
        return run.call(work, task)

    assert harness.run(agent, "x").unwrap() == "x"
    assert attempts == [1, 2]
    (call,) = harness.show("last").calls
    assert (call.state, call.attempt) == ("SUCCEEDED", 2)
    assert [line.detail for line in harness.trace("last") if line.what == "retry"] == [
        "attempt 1 transient ConnectionResetError"
    ]


def test_an_error_that_does_not_pass_is_not_tried_again(harness: Harness) -> None:
    attempts: list[int] = []

    @harness.tool(retries=5)
    def work(name: str) -> str:
        attempts.append(1)
        raise ValueError("no")

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.call(work, task)

    assert harness.run(agent, "x").status == "FAILED"
    assert len(attempts) == 1


def test_the_last_error_is_the_one_that_is_kept(harness: Harness) -> None:
    attempts: list[int] = []

    @harness.tool(retries=1)
    def work(name: str) -> str:
        attempts.append(1)
        raise ConnectionError(f"cut {len(attempts)}")

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.call(work, task)

    result = harness.run(agent, "x")
    assert result.error_message == "call work.1 failed with ConnectionError: cut 2"
    assert isinstance(result.error, CallFailed)
    assert result.error.error_class == "transient"
    assert harness.show("last").calls[0].attempt == 2


def test_the_users_table_says_what_passes(tmp_path: Path) -> None:
    attempts: list[int] = []
    table = {ValueError: "transient", ConnectionError: "permanent"}
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}", error_classes=table) as harness:

        @harness.tool(retries=1)
        def work(name: str) -> str:
            attempts.append(1)
            raise (ValueError if name == "a" else ConnectionError)("no")

        @harness.agent
        def agent(run: Run, task: str) -> None:
            run.call(work, task)

        harness.run(agent, "a")
        assert len(attempts) == 2
        harness.run(agent, "b")
        assert len(attempts) == 3


@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
@pytest.mark.parametrize("error", [NotApplied("busy", retry_after=0.01), RateLimited("slow")], ids=["own", "listed"])
def test_what_was_not_applied_is_tried_again_whatever_the_effect(
    harness: Harness, effect: str, error: Exception
) -> None:
    attempts: list[int] = []

    @harness.tool(effect=effect, retries=1, not_applied=(RateLimited,))
    def pay(cents: int) -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise error
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        return run.call(pay, 5)

    assert harness.run(agent, "x").unwrap() == 5
    assert len(attempts) == 2
    assert states(harness) == {"pay.1": "SUCCEEDED"}


def test_what_was_not_applied_to_the_end_is_the_agents_to_handle(harness: Harness) -> None:
    interrupt = Interruption()
    attempts: list[int] = []
    seen: list[tuple[Any, ...]] = []

    @harness.tool(effect="external", retries=0, not_applied=[RateLimited])
    def pay(cents: int) -> int:
        attempts.append(1)
        raise RateLimited("slow")

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(RateLimited) as caught:
            run.call(pay, 5)
        seen.append(told(caught.value))
        interrupt()
        return "went on"

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == "went on"
    assert (len(attempts), seen[0]) == (1, seen[1])
    assert states(harness) == {"pay.1": "FAILED"}


def test_a_wait_longer_than_a_lease_is_a_run_that_waits_for_a_time(harness: Harness) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        raise NotApplied("busy", retry_after=100.0)

    @harness.agent
    def agent(run: Run, task: str) -> int:
        try:
            return run.call(pay, 5)
        except Exception:
            return -1  # a framework that swallows errors swallows no stopping signal

    result = harness.run(agent, "x")
    assert (result.status, result.output, result.waiting_on) == ("WAITING", None, ())
    view = harness.show("last")
    assert result.wake_at is not None and 99_000 < result.wake_at - view.run.created_at < 110_000
    assert states(harness) == {"pay.1": "PLANNED"}
    again = harness.resume(result.run_id)
    assert (again.status, again.wake_at) == ("WAITING", result.wake_at)


# --- External tools. -------------------------------------------------------------------------------------------------


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
        raise Declined(invoice="i", limit=1)

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

    @harness.tool(timeout=0.05, retries=0)
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
