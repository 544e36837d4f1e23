"""Named actions that an async agent gave up waiting for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness, NotApplied, NotHappened, Unknown
from jumar.core.limits import DEFAULT_TTL
from jumar.testing.crash_clock import StoppedClock
from tests.integration.agents_helpers import Interruption, states
from tests.integration.waits_helpers import asked, clock

__all__ = ["clock"]

NEVER = 60.0  # seconds; what waits so long waits to be cancelled


def hangs(harness: Harness, sent: list[int], verdict: Any = None, **options: Any) -> Any:
    """A tool `pay` whose first call never answers."""

    @harness.tool(
        effect=options.pop("effect", "external"),
        settle=0.0,
        identity=lambda invoice, cents: f"pay:{invoice}",
        **options,
    )
    async def pay(invoice: str, cents: int) -> int:
        sent.append(cents)
        if len(sent) == 1:
            await asyncio.sleep(NEVER)
        return cents

    if verdict is not None:

        @pay.probe
        async def _(invoice: str, cents: int) -> Any:
            return verdict

    return pay


async def gives_up(awaitable: Any) -> None:
    """Wait for a call, not for long."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(awaitable, 0.05)


@pytest.mark.parametrize(
    ("verdict", "cents", "found", "goes_out"),
    [(Happened(5), 5, 5, [5]), (NotHappened(), 5, 5, [5, 5]), (NotHappened(), 6, 6, [5, 6])],
    ids=["happened", "did not happen", "did not happen, and another sum"],
)
def test_the_action_asked_for_again_is_settled_first(
    harness: Harness, verdict: Any, cents: int, found: int, goes_out: list[int]
) -> None:
    sent: list[int] = []
    pay, interrupt = hangs(harness, sent, verdict), Interruption()

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        await gives_up(run.call(pay, "a", 5))
        answer = await run.call(pay, "a", cents)
        interrupt()
        return answer

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    assert harness.resume("last").unwrap() == found
    assert sent == goes_out


def test_the_run_waits_for_a_person_where_nobody_knows_of_the_action(harness: Harness) -> None:
    sent: list[int] = []
    pay = hangs(harness, sent, Unknown())

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        await gives_up(run.call(pay, "a", 5))
        return await run.call(pay, "a", 5)

    result = harness.run(agent, "x")
    assert (asked(result), sent) == ([("pay.1", "resolve", 1)], [5])
    harness.resolve(result.run_id, "pay.1", Happened(5))
    assert harness.resume(result.run_id).unwrap() == 5
    assert sent == [5]


def test_several_that_wait_for_an_action_that_was_given_up_settle_it_once(harness: Harness) -> None:
    sent: list[int] = []
    pay = hangs(harness, sent, Happened(5))

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        first = asyncio.create_task(run.call(pay, "a", 5))
        while not sent:
            await asyncio.sleep(0)
        others = asyncio.gather(*[run.call(pay, "a", 5) for _ in range(5)])
        while list(states(harness).values()).count("AWAITING") < 5:
            await asyncio.sleep(0.005)
        first.cancel()
        return await others

    assert harness.run(agent, "x").unwrap() == [5] * 5
    assert sent == [5]


def test_what_waits_for_an_action_can_be_given_up_itself_and_is_given_up_again(harness: Harness) -> None:
    sent: list[int] = []
    interrupt, gave_up = Interruption(), asyncio.Event()

    @harness.tool(effect="external", identity=lambda invoice: invoice)
    async def pay(invoice: str) -> str:
        sent.append(len(sent))
        await gave_up.wait()
        return "paid"

    @harness.tool(effect="external")
    async def mail(text: str) -> str:
        return text

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        first = asyncio.create_task(run.call(pay, "a"))
        while not sent and not run.recovered:
            await asyncio.sleep(0)
        try:
            await asyncio.wait_for(run.call(pay, "a"), 0.1)
        except TimeoutError:
            gave_up.set()
            found = await run.call(mail, "gave up"), await first
        else:
            found = await run.call(mail, "was answered"), await first
        interrupt()
        return found

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    assert states(harness) == {"pay.1": "SUCCEEDED", "pay.2": "FAILED", "mail.1": "SUCCEEDED"}
    assert harness.resume("last").unwrap() == ["gave up", "paid"]
    assert len(sent) == 1


@pytest.mark.parametrize("effect", ["external", "idempotent"])
def test_a_call_given_up_between_its_attempts_gives_its_name_up_unless_it_may_have_been_done(
    harness: Harness, effect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jumar.engine.flows.effects.backoff", lambda attempt, asked, luck: 25.0)
    sent: list[int] = []

    @harness.tool(effect=effect, identity=lambda invoice, cents: f"pay:{invoice}")
    async def pay(invoice: str, cents: int) -> int:
        sent.append(cents)
        if len(sent) == 1:
            raise NotApplied("busy")
        return cents

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        await gives_up(run.call(pay, "a", 5))
        return await run.call(pay, "a", 6)

    assert harness.run(agent, "x").unwrap() == 6
    assert sent == [5, 6]


def test_a_name_is_given_up_by_what_a_later_process_finds_out_of_a_call_that_was_given_up(
    harness: Harness, clock: StoppedClock
) -> None:
    sent: list[int] = []
    pay = hangs(harness, sent, NotHappened(), identity_scope="store")

    @harness.agent
    async def one(run: AsyncRun, task: Any) -> Any:
        await gives_up(run.call(pay, "a", 5))
        if not run.recovered:
            await run.value("a fact", 1)
            raise KeyboardInterrupt
        return "went on"

    @harness.agent
    async def two(run: AsyncRun, task: Any) -> Any:
        return await run.call(pay, "a", 6)

    with pytest.raises(KeyboardInterrupt):
        harness.run(one, "x")
    clock.move(DEFAULT_TTL + 0.001)
    assert harness.resume("last").unwrap() == "went on"
    assert states(harness) == {"pay.1": "FAILED", "a-fact.1": "SUCCEEDED"}
    assert harness.run(two, "x").unwrap() == 6
    assert sent == [5, 6]


def test_the_probe_of_a_call_that_was_given_up_is_asked_with_what_was_sent(harness: Harness) -> None:
    probed: list[tuple[str, int]] = []

    @harness.tool(effect="external", approval="always", settle=0.0)
    async def pay(invoice: str, cents: int) -> int:
        await asyncio.sleep(NEVER)
        return cents

    @pay.probe
    async def _(invoice: str, cents: int) -> Any:
        probed.append((invoice, cents))
        return Happened(cents)

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        await gives_up(run.call(pay, "a", 5))
        return await run.ask("go on?")

    run_id = harness.run(agent, "x").run_id
    harness.approve(run_id, "pay.1", args={"invoice": "b", "cents": 3})
    assert asked(harness.resume(run_id)) == [("ask.1", "ask", 1)]
    harness.answer(run_id, "ask.1", "yes")
    assert harness.resume(run_id).unwrap() == "yes"
    assert probed == [("b", 3)]


def test_a_call_that_was_given_up_and_failed_is_not_taken_for_one_to_be_made_again(harness: Harness) -> None:
    sent: list[int] = []
    pay = hangs(harness, sent, NotHappened())

    @harness.agent
    async def agent(run: AsyncRun, task: Any) -> Any:
        try:
            await asyncio.wait_for(run.call(pay, "a", 5), 0.05)
        except TimeoutError as error:
            raise RuntimeError("too slow") from error

    result = harness.run(agent, "x")
    assert (result.status, result.error_type) == ("FAILED", "RuntimeError")
    again = harness.resume(result.run_id)
    assert (again.status, again.error_type, sent) == ("FAILED", "RuntimeError", [5])
