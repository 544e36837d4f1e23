"""Durable sleeps: the moment they end is recorded when they begin, and no restart moves it."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest

from jumar import AsyncRun, Harness
from jumar.core.limits import DEFAULT_TTL
from jumar.errors import CallFailed, UsageError
from jumar.testing.crash_clock import StoppedClock
from tests.integration.agents_helpers import Interruption, ids, states
from tests.integration.waits_helpers import asked, both_kinds, clock, in_memory, scripted, sleeping_on

__all__ = ["clock"]

HOUR = 3600.0


@both_kinds
def test_a_long_sleep_is_a_run_that_waits_and_ends_when_it_was_to_end_when_it_began(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    interrupt = Interruption()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        answer = yield run.sleep(HOUR)
        interrupt()
        return answer

    result = harness.run(agent, "x")
    ends = clock.wall_ms() + 3_600_000
    assert (result.status, result.wake_at, asked(result)) == ("WAITING", ends, [])
    assert (states(harness), harness.show("last").calls[0].result) == ({"sleep.1": "AWAITING"}, ends)
    clock.move(HOUR / 2)
    assert harness.pause(result.run_id).status == "PAUSED"
    again = harness.resume(result.run_id)  # a new process, half an hour later
    assert (again.status, again.wake_at) == ("WAITING", ends)
    clock.move(HOUR / 2 - 0.001)
    assert (harness.due(), harness.resume(result.run_id).status) == ([], "WAITING")
    clock.move(0.001)
    assert harness.due() == [result.run_id]
    with pytest.raises(KeyboardInterrupt):
        harness.resume(result.run_id)
    assert states(harness) == {"sleep.1": "SUCCEEDED"}
    assert harness.resume(result.run_id).status == "COMPLETED"
    assert ids(harness) == ["sleep.1"]


@both_kinds
@pytest.mark.parametrize("seconds", [0.001, 1, DEFAULT_TTL - 5])
def test_less_than_a_lease_is_slept_in_place(
    harness: Harness, clock: StoppedClock, waits: bool, seconds: float
) -> None:
    sleeping_on(harness, clock)
    began = clock.wall_ms()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        yield run.sleep(seconds)
        return clock.wall_ms()

    result = harness.run(agent, "x")
    assert began + int(seconds * 1000) <= result.unwrap() < began + int(seconds * 1000) + 1000
    assert harness.show("last").run.epoch == 1


@both_kinds
def test_a_sleep_that_was_cut_short_in_place_goes_on_to_its_own_end(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    world = sleeping_on(harness, clock)
    began = clock.wall_ms()

    @harness.tool(effect="read")
    def look() -> int:
        return clock.wall_ms()

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        yield run.sleep(20)
        return (yield run.call(look))

    def dies(request: Any) -> None:
        if type(request).__name__ == "Sleep" and clock.wall_ms() > began + 5000 and not died:
            died.append(True)
            raise KeyboardInterrupt
        before(request)

    died: list[bool] = []
    before, world.before = world.before, dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    clock.move(7)
    assert harness.resume("last").unwrap() == began + 20_000


@both_kinds
@pytest.mark.parametrize("zone", [datetime.UTC, datetime.timezone(datetime.timedelta(hours=-7))], ids=str)
def test_until_is_a_moment_in_whatever_time_zone(
    harness: Harness, clock: StoppedClock, waits: bool, zone: datetime.tzinfo
) -> None:
    moment = datetime.datetime.fromtimestamp(clock.wall_ms() / 1000 + 7200, zone)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        yield run.sleep(until=moment)
        return "awake"

    result = harness.run(agent, "x")
    assert result.wake_at == int(moment.timestamp() * 1000)
    clock.move_to_wall(result.wake_at)
    assert harness.resume(result.run_id).unwrap() == "awake"


@both_kinds
def test_a_moment_that_is_past_and_no_time_at_all_are_slept_at_once(harness: Harness, waits: bool) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        yield run.sleep(0)
        yield run.sleep(until=datetime.datetime(1999, 1, 1, tzinfo=datetime.UTC))
        yield run.sleep(until=datetime.datetime(1900, 1, 1, tzinfo=datetime.UTC), key="long ago")
        return "awake"

    assert harness.run(agent, "x").unwrap() == "awake"
    assert states(harness) == {"sleep.1": "SUCCEEDED", "sleep.2": "SUCCEEDED", "sleep.3": "SUCCEEDED"}


@in_memory
@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((), {}),
        ((-1,), {}),
        ((float("nan"),), {}),
        ((float("inf"),), {}),
        ((1e9,), {}),
        (("1",), {}),
        ((True,), {}),
        ((datetime.timedelta(seconds=1),), {}),
        ((1,), {"until": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)}),
        ((), {"until": datetime.datetime(2999, 1, 1)}),
        ((), {"until": datetime.datetime(2999, 1, 1, tzinfo=datetime.UTC)}),
        ((), {"until": datetime.datetime.max.replace(tzinfo=datetime.timezone(-datetime.timedelta(hours=23)))}),
        ((), {"until": datetime.date(2999, 1, 1)}),
        ((), {"until": "2999-01-01T00:00:00Z"}),
        ((), {"until": 5}),
    ],
    ids=str,
)
def test_a_sleep_that_cannot_be_is_refused_and_nothing_is_recorded(
    harness: Harness, args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        with pytest.raises(UsageError, match="sleep"):
            run.sleep(*args, **options)
        return "went on"

    assert harness.run(agent, "x").unwrap() == "went on"
    assert ids(harness) == []


@both_kinds
def test_a_moment_is_slept_until_where_it_is_less_than_a_thousand_million_seconds_ahead(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    furthest = clock.wall_ms() + 1_000_000_000_000 - 1

    def moment(ms: int) -> datetime.datetime:
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(milliseconds=ms)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        with pytest.raises(UsageError, match=r"sleep.* is 1,000,000,000 seconds ahead, or more"):
            yield run.sleep(until=moment(furthest + 1))
        yield run.sleep(until=moment(furthest))

    assert harness.run(agent, "x").wake_at == furthest


@both_kinds
def test_a_run_with_several_sleeps_wakes_for_the_first_and_then_for_the_next(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.gather(*[lambda hours=hours: run.sleep(hours * HOUR) for hours in (3, 1, 2)]))

    result, began = harness.run(agent, "x"), clock.wall_ms()
    while result.status == "WAITING" and result.wake_at is not None:
        clock.move_to_wall(result.wake_at)
        (result,) = harness.resume_due()
    assert result.unwrap() == [None, None, None]
    assert clock.wall_ms() == began + 3 * 3_600_000


@both_kinds
def test_an_approval_given_before_a_sleep_is_over_is_not_held_up_by_it(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.gather(pay.bind(5), lambda: run.sleep(HOUR)))

    result = harness.run(agent, "x")
    while not result.waiting_on:  # the sleep may have been first
        result = harness.resume(result.run_id)
    assert result.wake_at == clock.wall_ms() + 3_600_000
    harness.approve(result.run_id, "gather:0.pay.1")
    (waiting,) = harness.resume_due()
    assert (waiting.status, waiting.wake_at) == ("WAITING", result.wake_at)
    clock.move(HOUR)
    assert harness.resume(result.run_id).unwrap() == [5, None]
    assert sent == [5]


# --- asyncio. --------------------------------------------------------------------------------------------------------


def test_a_sleep_that_the_agent_gave_up_is_given_up_again_even_where_its_time_is_over_by_then(
    harness: Harness, clock: StoppedClock
) -> None:
    interrupt, sent = Interruption(), []

    @harness.tool(effect="external")
    async def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        try:
            await asyncio.wait_for(run.sleep(20), 0.05)
        except TimeoutError:
            paid = await run.call(pay, 5)
            interrupt()
            return "gave up", paid
        return "slept"

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    clock.move(21)
    assert harness.resume("last").unwrap() == ["gave up", 5]
    assert sent == [5]


def test_a_long_sleep_or_a_question_is_waited_for_by_the_run_whatever_time_the_agent_gave_it(
    harness: Harness, clock: StoppedClock
) -> None:
    @harness.tool(effect="external", approval="always")
    async def pay(cents: int) -> int:
        return cents

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        await asyncio.wait_for(run.sleep(HOUR), 5)
        answer = await asyncio.wait_for(run.ask("sure?"), 5)
        return answer, await asyncio.wait_for(run.call(pay, 5), 5)

    result = harness.run(agent, "x")
    assert (result.status, asked(result)) == ("WAITING", [])
    clock.move(HOUR)
    assert asked(harness.resume(result.run_id)) == [("ask.1", "ask", 1)]
    harness.answer(result.run_id, "ask.1", "yes")
    assert asked(harness.resume(result.run_id)) == [("pay.1", "approval", 1)]
    harness.approve(result.run_id, "pay.1")
    assert harness.resume(result.run_id).unwrap() == ["yes", 5]


def test_neither_a_sleep_nor_a_question_can_be_had_inside_a_tool(harness: Harness) -> None:
    runs: list[Any] = []

    @harness.tool(effect="read")
    def look(what: str) -> str:
        if what == "ask":
            runs[0].ask("sure?")
        runs[0].sleep(1)
        return what

    @harness.agent
    def agent(run: Any, task: Any) -> Any:
        runs.append(run)
        for what in ("ask", "sleep"):
            with pytest.raises(CallFailed, match="whose body is one call"):
                run.call(look, what)
        return "went on"

    assert harness.run(agent, "x").unwrap() == "went on"
