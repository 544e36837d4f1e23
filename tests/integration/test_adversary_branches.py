"""Items of a `gather` or `map` that wait while something goes wrong around them: what they wait for is not lost."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from jumar import Decision, Happened, Harness, ToolCall
from jumar.errors import IllegalTransition, RunEnded
from tests.integration.waits_helpers import PATIENCE, both_kinds, clock, scripted

__all__ = ["clock"]

HOUR = 3600.0


async def for_ever() -> None:
    """Until it is cancelled."""
    await asyncio.Event().wait()


def over(deadline: asyncio.Timeout) -> None:
    """Let the time be over now."""
    deadline.reschedule(asyncio.get_running_loop().time())


# --- A fan that the agent gives up. ---


def test_a_gather_that_is_given_up_while_an_item_waits_leaves_nothing_unasked(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always")
    async def pay(number: int) -> int:
        sent.append(number)
        return number

    @harness.agent
    async def agent(run: Any, task: Any) -> Any:
        deadline, asked = asyncio.timeout(None), asyncio.Event()

        async def pays() -> Any:
            try:
                return await run.call(pay, 1)
            finally:
                asked.set()

        async def dawdles() -> None:
            await asked.wait()
            over(deadline)
            await for_ever()

        try:
            async with deadline:
                await run.gather(pays, dawdles)
        except TimeoutError:
            return "given up"

    result = harness.run(agent, "x")
    assert (result.status, sent) == ("WAITING", [])
    assert [asked.call_id for asked in result.waiting_on] == ["gather:0.pay.1"]
    harness.approve(result.run_id, "gather:0.pay.1")
    assert harness.resume(result.run_id).unwrap() == "given up"
    assert sent == [1]


def test_an_effect_that_was_given_up_with_its_gather_is_asked_about(harness: Harness) -> None:
    deadlines: list[asyncio.Timeout] = []

    @harness.tool(effect="external")
    async def pay() -> int:
        over(deadlines[-1])
        await for_ever()
        return 1

    @harness.agent
    async def agent(run: Any, task: Any) -> Any:
        deadlines.append(asyncio.timeout(None))
        try:
            async with deadlines[-1]:
                await run.gather(pay.bind())
        except TimeoutError:
            return "given up"

    result = harness.run(agent, "x")
    assert [(asked.call_id, asked.kind) for asked in result.waiting_on] == [("gather:0.pay.1", "resolve")]


# --- Calls that are cancelled beside what waits. ---


def test_a_call_that_is_cancelled_because_its_item_waits_is_made_again(harness: Harness) -> None:
    looked: list[str] = []
    noted = []

    @harness.tool(effect="read")
    async def look(word: str) -> str:
        looked.append(word)
        if len(looked) == 1:
            await for_ever()
        return word

    @harness.tool(effect="external")
    async def note(word: str) -> None:
        noted.append(word)

    @harness.agent
    async def agent(run: Any, task: Any) -> Any:
        stopped = asyncio.Event()

        async def both() -> Any:
            try:
                async with asyncio.TaskGroup() as group:
                    made = [group.create_task(run.call(look, "x")), group.create_task(run.ask("go?"))]
            finally:
                stopped.set()
            return [each.result() for each in made]

        async def works() -> None:
            await stopped.wait()
            await run.call(note, "on its way")

        return (await run.gather(both, works))[0]

    result = harness.run(agent, "x")
    assert (result.status, looked, noted) == ("WAITING", ["x"], ["on its way"])
    harness.answer(result.run_id, "ask.1", "yes")
    assert harness.resume(result.run_id).unwrap() == ["x", "yes"]
    assert (looked, noted) == (["x", "x"], ["on its way"])


def test_an_answer_that_comes_while_a_call_is_given_up_finds_what_became_of_it(harness: Harness) -> None:
    deadlines: list[asyncio.Timeout] = []

    @harness.tool(effect="external")
    async def pay(run_id: str) -> int:
        harness.answer(run_id, "ask.1", "yes")
        over(deadlines[-1])
        await for_ever()
        return 1

    @harness.agent
    async def agent(run: Any, task: Any) -> Any:
        asked = asyncio.Event()
        deadlines.append(asyncio.timeout(None))

        async def asks() -> Any:
            try:
                return await run.ask("go?")
            finally:
                asked.set()

        async def pays() -> Any:
            await asked.wait()
            try:
                async with deadlines[-1]:
                    return await run.call(pay, run.id)
            except TimeoutError:
                return "given up"

        return list(await run.gather(asks, pays))

    result = harness.run(agent, "x")
    assert [(asked.call_id, asked.kind) for asked in result.waiting_on] == [("gather:1.pay.1", "resolve")]
    assert len(deadlines) == 2  # the answer was there before the run could wait for it
    harness.resolve(result.run_id, "gather:1.pay.1", Happened(7))
    assert harness.resume(result.run_id).unwrap() == ["yes", 7]


# --- A process that is stopped. ---


@both_kinds
def test_an_item_that_ends_the_process_does_so_although_another_waits(harness: Harness, waits: bool) -> None:
    if waits:

        async def leaves() -> None:
            sys.exit(3)
    else:

        def leaves() -> None:  # type: ignore[misc]
            sys.exit(3)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.gather(lambda: run.ask("go?"), leaves))

    with pytest.raises(SystemExit):
        harness.run(agent, "x")
    assert [(run.status, len(harness.requests())) for run in harness.runs()] == [("WAITING", 1)]


def test_a_run_that_is_stopped_while_one_item_waits_goes_on_with_the_others_by_itself(harness: Harness) -> None:
    looked: list[int] = []
    looks = asyncio.Event()

    @harness.tool(effect="read")
    async def look() -> int:
        looked.append(1)
        if len(looked) == 1:
            looks.set()
            await for_ever()
        return 1

    @harness.agent
    async def agent(run: Any, task: Any) -> Any:
        asked = asyncio.Event()

        async def asks() -> Any:
            try:
                return await run.ask("go?")
            finally:
                asked.set()

        async def works() -> Any:
            await asked.wait()
            return await run.call(look)

        return list(await run.gather(asks, works))

    async def stopped() -> None:
        driving = asyncio.create_task(harness.arun(agent, "x"))
        await looks.wait()
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving

    asyncio.run(stopped())
    (run,) = harness.runs()
    assert (run.status, harness.due()) == ("QUEUED", [run.run_id])
    assert harness.resume(run.run_id).status == "WAITING"
    harness.answer(run.run_id, "ask.1", "yes")
    assert harness.resume(run.run_id).unwrap() == ["yes", 1]
    assert looked == [1, 1]


# --- What waits for whom. ---


def test_an_awaitable_as_an_item_waits_by_itself_too(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always")
    async def pay(number: int) -> int:
        sent.append(number)
        return number

    @harness.agent
    async def agent(run: Any, task: Any) -> Any:
        return list(await run.gather(run.sleep(HOUR), run.call(pay, 1), run.call(pay, 2)))

    result = harness.run(agent, "x")
    harness.approve(result.run_id, "pay.2")
    result = harness.resume(result.run_id)
    assert (result.status, sent) == ("WAITING", [2])
    assert [asked.call_id for asked in result.waiting_on] == ["pay.1"]
    assert result.wake_at is not None


def test_a_call_that_pauses_before_it_is_tried_again_is_made_although_another_comes_to_wait(harness: Harness) -> None:
    failed = threading.Event()
    tries: list[int] = []

    @harness.tool(effect="external")
    def unsure() -> int:
        assert failed.wait(PATIENCE)
        raise ConnectionError("lost")

    @harness.tool(effect="idempotent", retries=3)
    def again() -> int:
        tries.append(1)
        failed.set()
        if len(tries) == 1:
            raise ConnectionError("busy")
        return 1

    @harness.loop(tools=[unsure, again])
    def operator(view: Any) -> Decision:
        if view.history:
            return Decision.finish([result.value for result in view.history[0].results])
        return Decision.act([ToolCall("unsure", {}), ToolCall("again", {})])

    result = harness.run(operator, "x")
    assert [asked.call_id for asked in result.waiting_on] == ["turn.unsure.1"]
    assert len(tries) == 2
    states = {call.call_id: call.state for call in harness.show(result.run_id).calls}
    assert (states["turn.unsure.1"], states["turn.again.1"]) == ("UNCERTAIN", "SUCCEEDED")
    harness.resolve(result.run_id, "turn.unsure.1", Happened(5))
    assert harness.resume(result.run_id).unwrap() == [5, 1]


def test_a_question_that_has_lost_its_default_waits_for_somebody_alone(harness: Harness, clock: Any) -> None:
    expires: list[dict[str, Any]] = [{"expires": HOUR, "default": "no"}]

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        return run.ask("go?", key="go", **expires[0])

    result = harness.run(agent, "x")
    assert result.wake_at is not None
    clock.move_to_wall(result.wake_at)
    expires[0] = {}
    result = harness.resume(result.run_id)
    assert (result.status, result.wake_at, harness.due()) == ("WAITING", None, [])


def test_a_call_that_outlives_its_run_is_not_taken_for_a_damaged_record() -> None:
    going, may_end = threading.Event(), threading.Event()
    ends: list[BaseException] = []
    threads: list[threading.Thread] = []
    with Harness("memory:", lease_ttl=30.0, stall_timeout=0.1) as harness:

        @harness.tool(effect="external")
        def pay() -> None:
            going.set()
            assert may_end.wait(PATIENCE)

        @harness.agent
        def agent(run: Any, task: Any) -> Any:
            def aside() -> None:
                try:
                    with run.step("aside"):
                        run.call(pay)
                except RunEnded as error:
                    ends.append(error)

            threads.append(threading.Thread(target=aside))
            threads[0].start()
            assert going.wait(PATIENCE)
            try:
                return run.ask("go?")
            finally:
                harness.answer(run.id, "ask.1", "yes")

        try:
            with pytest.raises(IllegalTransition, match="under way"):
                harness.run(agent, "x")
        finally:
            may_end.set()
            threads[0].join(PATIENCE)
    assert len(ends) == 1
