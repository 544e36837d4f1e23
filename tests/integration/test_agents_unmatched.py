"""What was done and is not asked for again keeps anything like it from being sent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.errors import ReplayDiverged
from tests.integration.agents_helpers import states


def paid_twice(harness: Harness, first: Callable[[Run, Any], Any], then: Callable[[Run, Any], Any]) -> list[int]:
    """Pay in one way, be interrupted, resume with code that pays in another; answers what was paid."""
    paid: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        paid.append(cents)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> Any:
        if run.recovered:
            return then(run, pay)
        first(run, pay)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    with pytest.raises(ReplayDiverged):
        harness.resume("last")
    return paid


def test_a_call_under_another_key_is_not_sent_beside_the_one_that_was(harness: Harness) -> None:
    assert paid_twice(
        harness,
        lambda run, pay: run.call(pay.using(key="order-1"), 5),
        lambda run, pay: run.call(pay.using(key="order-2"), 5),
    ) == [5]


def test_a_call_that_has_lost_its_key_is_found_out_at_the_latest_at_the_end(harness: Harness) -> None:
    paid = paid_twice(
        harness,
        lambda run, pay: run.call(pay.using(key="order-1"), 5),
        lambda run, pay: None,
    )
    assert paid == [5]


def test_a_call_that_has_moved_into_a_branch_is_not_sent_again(harness: Harness) -> None:
    assert paid_twice(
        harness,
        lambda run, pay: run.call(pay, 5),
        lambda run, pay: run.gather(pay.bind(5)),
    ) == [5]


def test_what_a_branch_around_recorded_later_does_not_keep_its_branches_from_going_on(harness: Harness) -> None:
    paid: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        paid.append(cents)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> int:
        run.gather(pay.bind(1), pay.bind(2))
        run.call(pay, 3)
        if not run.recovered:
            raise KeyboardInterrupt
        return run.call(pay, 4)

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    assert harness.resume("last").unwrap() == 4
    assert sorted(paid) == [1, 2, 3, 4]


def test_a_run_is_not_left_while_a_task_that_nobody_waits_for_is_sending(harness: Harness) -> None:
    paid: list[int] = []

    @harness.tool(effect="external")
    async def pay(cents: int) -> int:
        await asyncio.sleep(0)
        paid.append(cents)
        return cents

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> str:
        async def later() -> None:
            async with run.step("in the background"):
                await run.call(pay, 5)

        kept.append(asyncio.create_task(later()))
        await asyncio.sleep(0)
        return "done"

    kept: list[asyncio.Task[None]] = []
    assert harness.run(agent, "x").unwrap() == "done"
    assert paid == [5]
    assert states(harness) == {"in-the-background.pay.1": "SUCCEEDED"}


def test_a_key_that_another_tool_is_given_answers_nothing(harness: Harness) -> None:
    refunded: list[int] = []

    @harness.tool(effect="external")
    def refund(cents: int) -> int:
        refunded.append(cents)
        return cents

    assert paid_twice(
        harness,
        lambda run, pay: run.call(pay.using(key="order-1"), 5),
        lambda run, pay: run.call(refund.using(key="order-1"), 5),
    ) == [5]
    assert refunded == []


def test_what_another_branch_confirmed_is_recorded_although_the_run_diverges(harness: Harness) -> None:
    paid: list[int] = []
    diverged, sending = threading.Event(), threading.Event()

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        paid.append(cents)
        if cents == 7:
            sending.set()
            diverged.wait(60)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> None:
        def one() -> None:
            if not run.recovered:
                run.call(pay, 5)
                return
            sending.wait(60)
            try:
                run.call(pay, 6)  # not what was recorded
            finally:
                diverged.set()

        def other() -> None:
            if run.recovered:
                run.call(pay, 7)

        run.gather(one, other)
        if not run.recovered:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    with pytest.raises(ReplayDiverged):
        harness.resume("last")
    assert paid == [5, 7]
    assert states(harness) == {"gather:0.pay.1": "SUCCEEDED", "gather:1.pay.1": "SUCCEEDED"}
    assert harness.show("last").run.status == "FAILED"
