"""Items of a `gather` or `map` that wait: each goes on as far as it can, whatever the others wait for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jumar import Harness
from jumar.errors import Stopped
from jumar.testing.crash_clock import StoppedClock
from tests.integration.waits_helpers import both_kinds, clock, scripted

__all__ = ["clock"]

HOUR = 3600.0


def paying(harness: Harness, sent: list[int]) -> Any:
    @harness.tool(effect="external", approval="always")
    def pay(number: int) -> int:
        sent.append(number)
        return number

    return pay


@both_kinds
def test_an_approved_call_goes_out_although_another_item_still_waits(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    sent: list[int] = []
    pay = paying(harness, sent)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.gather(lambda: run.sleep(HOUR), pay.bind(1), pay.bind(2)))

    result = harness.run(agent, "x")
    assert {asked.call_id for asked in result.waiting_on} == {"gather:1.pay.1", "gather:2.pay.1"}
    harness.approve(result.run_id, "gather:2.pay.1")
    result = harness.resume(result.run_id)
    assert (result.status, sent) == ("WAITING", [2])
    assert [asked.call_id for asked in result.waiting_on] == ["gather:1.pay.1"]
    assert result.wake_at is not None
    clock.move_to_wall(result.wake_at)
    harness.approve(result.run_id, "gather:1.pay.1")
    assert list(harness.resume(result.run_id).unwrap()) == [None, 1, 2]
    assert sent == [2, 1]


@both_kinds
def test_an_item_that_waits_keeps_another_from_none_of_its_later_calls(harness: Harness, waits: bool) -> None:
    seen: list[str] = []

    @harness.tool(effect="external")
    def note(word: str) -> None:
        seen.append(word)

    if waits:

        @harness.agent(name="work")
        async def awaited(run: Any, task: Any) -> Any:
            async def talks() -> Any:
                return await run.ask("go?")

            async def works() -> None:
                for word in "abc":
                    await asyncio.sleep(0)
                    await run.call(note, word)

            return (await run.gather(talks, works))[0]
    else:

        @harness.agent(name="work")
        def plain(run: Any, task: Any) -> Any:
            def works() -> None:
                for word in "abc":
                    run.call(note, word)

            return run.gather(lambda: run.ask("go?"), works)[0]

    result = harness.run("work", "x")
    assert (result.status, seen) == ("WAITING", ["a", "b", "c"])
    harness.answer(result.run_id, "ask.1", "yes")
    assert harness.resume(result.run_id).unwrap() == "yes"
    assert seen == ["a", "b", "c"]


@both_kinds
def test_what_a_nested_item_waits_for_stops_the_item_around_it_and_no_other(harness: Harness, waits: bool) -> None:
    sent: list[int] = []
    pay = paying(harness, sent)

    @harness.tool(effect="read")
    def look(word: str) -> str:
        return word

    if waits:

        @harness.agent(name="work")
        async def awaited(run: Any, task: Any) -> Any:
            async def outer(number: int) -> Any:
                found = await run.gather(pay.bind(number), look.bind(str(number)))
                return [*found, await run.call(look, "after")]

            return await run.map(outer, [1, 2])
    else:

        @harness.agent(name="work")
        def plain(run: Any, task: Any) -> Any:
            def outer(number: int) -> Any:
                return [*run.gather(pay.bind(number), look.bind(str(number))), run.call(look, "after")]

            return run.map(outer, [1, 2])

    result = harness.run("work", "x")
    assert len(result.waiting_on) == 2
    harness.approve(result.run_id, "map:1.gather:0.pay.1")
    result = harness.resume(result.run_id)
    assert (result.status, sent) == ("WAITING", [2])
    assert {call.call_id for call in harness.show(result.run_id).calls if "after" in str(call.args)} == {"map:1.look.1"}
    harness.approve(result.run_id, "map:0.gather:0.pay.1")
    assert harness.resume(result.run_id).unwrap() == [[1, "1", "after"], [2, "2", "after"]]
    assert sent == [2, 1]


def test_an_item_that_swallows_the_signal_gets_it_again_and_does_not_complete(harness: Harness) -> None:
    swallowed = []

    @harness.tool(effect="external")
    def note(word: str) -> None:
        pytest.fail(f"{word} was sent by an item that waits")

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        def stubborn() -> str:
            try:
                run.ask("go?")
            except Stopped:
                swallowed.append("ask")
            for enter in (lambda: run.call(note, "x"), lambda: run.step("s").__enter__(), lambda: run.gather(note)):
                try:
                    enter()
                except Stopped:
                    swallowed.append("again")
            return "done all the same"

        return run.gather(stubborn, lambda: "other")

    result = harness.run(agent, "x")
    assert (result.status, swallowed) == ("WAITING", ["ask", "again", "again", "again"])
    assert [asked.call_id for asked in result.waiting_on] == ["gather:0.ask.1"]


@both_kinds
def test_a_failing_item_is_heard_of_once_the_waiting_one_has_its_answer(harness: Harness, waits: bool) -> None:
    tried: list[int] = []

    @harness.tool(effect="read", retries=0)
    def breaks(number: int) -> None:
        tried.append(number)
        raise ValueError("broken")

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.gather(lambda: run.ask("go?"), breaks.bind(1)))

    result = harness.run(agent, "x")
    assert result.status == "WAITING"
    harness.answer(result.run_id, "ask.1", "yes")
    result = harness.resume(result.run_id)
    assert (result.status, "broken" in str(result.error), tried) == ("FAILED", True, [1])
