"""Answering and steering from an event loop, the one that drives the run included: no loop is blocked meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness
from jumar.errors import CallRejected
from tests.integration.waits_helpers import asked


def test_everything_can_be_answered_from_a_loop(harness: Harness) -> None:
    @harness.tool(effect="external", approval="always")
    async def pay(cents: int) -> int:
        if cents == 1:
            raise ConnectionError("cut")
        return cents

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        paid = await run.call(pay, 1)
        try:
            await run.call(pay, 2)
        except CallRejected as error:
            return paid, error.note, await run.ask("go?")

    async def person() -> Any:
        result = await harness.arun(agent, "x")
        run_id = result.run_id
        await harness.aapprove(run_id, "pay.1", by="ada")
        assert asked(await harness.aresume(run_id)) == [("pay.1", "resolve", 1)]
        await harness.aresolve(run_id, "pay.1", Happened(1))
        (again,) = await harness.aresume_due()
        assert asked(again) == [("pay.2", "approval", 1)]
        await harness.areject(run_id, "pay.2", note="no")
        assert await harness.adue() == [run_id]
        assert asked(await harness.aresume(run_id)) == [("ask.1", "ask", 1)]
        assert [view.asked.question for view in await harness.arequests()] == ["go?"]
        await harness.aanswer(run_id, "ask.1", "yes")
        return (await harness.aresume(run_id)).unwrap()

    assert asyncio.run(person()) == [1, "no", "yes"]


@pytest.mark.parametrize("order", ["pause", "cancel"])
def test_whoever_waits_for_an_order_to_be_obeyed_does_not_hold_up_the_loop_that_obeys_it(
    harness: Harness, order: str
) -> None:
    going, may_end = asyncio.Event(), asyncio.Event()

    @harness.tool(effect="external")
    async def pay(cents: int) -> int:
        going.set()
        await may_end.wait()
        return cents

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        return await run.call(pay, 1), await run.call(pay, 2)

    async def work() -> tuple[str, str]:
        driving = asyncio.create_task(harness.arun(agent, "x"))
        await going.wait()
        run_id = (await harness.aruns())[0].run_id
        steering = asyncio.create_task(getattr(harness, f"a{order}")(run_id, wait=True))
        while (await harness.ashow(run_id)).run.control != order:
            await asyncio.sleep(0.005)
        assert not steering.done()
        may_end.set()
        return (await driving).status, (await steering).status

    ended = "PAUSED" if order == "pause" else "CANCELLED"
    assert asyncio.run(work()) == (ended, ended)
