"""Errors of tools: which are tried again, what the agent gets, and that it gets the same on replay."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from jumar import Harness, NotApplied, Run, current_call
from jumar.errors import CallFailed, RunFailed
from tests.integration.agents_helpers import Interruption, interrupted, states, until


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
    @harness.tool(effect="read", errors=(Declined,))
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
    @harness.tool(effect="read")
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

    @harness.tool(effect="read", retries=5)
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

    @harness.tool(effect="read", retries=1)
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

        @harness.tool(effect="read", retries=1)
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


@pytest.mark.parametrize("effect", ["read", "external"])
def test_a_run_that_waited_for_a_time_goes_on_once_it_has_come(effect: str) -> None:
    attempts: list[int] = []
    with Harness("memory:", lease_ttl=1.0) as harness:

        @harness.tool(effect=effect, retries=1)
        def pay(cents: int) -> int:
            attempts.append(cents)
            if len(attempts) == 1:
                raise NotApplied("busy", retry_after=1.1)
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            return run.call(pay, 5)

        run_id = harness.run(agent, "x").run_id
        assert harness.show(run_id).run.status == "WAITING"
        until(lambda: harness.resume(run_id).status == "COMPLETED")
        assert (attempts, harness.show(run_id).output) == ([5, 5], 5)
        assert harness.show(run_id).calls[0].attempt == 2


def test_an_agents_own_retries_are_calls_of_their_own_and_replay_in_their_order(harness: Harness) -> None:
    interrupt = Interruption()
    attempts: list[int] = []

    @harness.tool(effect="idempotent", retries=0)
    def work(name: str) -> int:
        attempts.append(1)
        if len(attempts) < 3:
            raise ValueError(f"no {len(attempts)}")
        return len(attempts)

    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        said: list[Any] = []
        while not said or isinstance(said[-1], str):
            try:
                said.append(run.call(work, "same"))
            except CallFailed as error:
                said.append(error.message)
        interrupt()
        return said

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == ["no 1", "no 2", 3]
    assert len(attempts) == 3
    assert states(harness) == {"work.1": "FAILED", "work.2": "FAILED", "work.3": "SUCCEEDED"}
