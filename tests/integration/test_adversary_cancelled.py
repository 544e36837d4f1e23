"""A task or a process that is stopped in an awkward moment: nothing goes out after it, nothing that surely did not go
out is in doubt, and whoever stopped it hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jumar import AsyncRun, Decision, Happened, Harness, NotHappened, Run
from jumar.core.changes import Advance
from jumar.core.limits import DEFAULT_STALL, DEFAULT_TTL
from jumar.core.requests import Commit, Request
from jumar.core.states import CallKind, CallState
from jumar.core.store import Store
from jumar.errors import Stopped
from jumar.testing import StoppedClock
from tests.integration.agents_helpers import states
from tests.integration.loops_helpers import Script, act, call, declare
from tests.integration.waits_helpers import at, clock

__all__ = ["clock"]


def commits(matches: Callable[[Any], bool]) -> Callable[[Request[Any]], bool]:
    """Whether a request records a call, or a change of one, like this."""

    def is_it(request: Request[Any]) -> bool:
        change = request.change if isinstance(request, Commit) else None
        return isinstance(change, Advance) and any(map(matches, (*change.calls, *change.changes)))

    return is_it


is_decision = commits(lambda row: getattr(row, "kind", None) is CallKind.DECISION)
is_start = commits(lambda row: row.state is CallState.STARTED)
is_question = commits(lambda row: row.state is CallState.AWAITING)


def cancelled_at(harness: Harness, moment: Callable[[Request[Any]], bool], agent: Any) -> str:
    """Run an agent whose task is cancelled in that moment; answers the run's id."""

    async def main() -> None:
        task = asyncio.create_task(harness.arun(agent, "x"))
        watcher = at(harness, moment, lambda: task.cancel() and None)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert watcher.acted

    asyncio.run(main())
    return harness.find("last")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_what_a_decision_planned_is_not_sent_once_the_task_is_cancelled_in_its_commit(
    harness: Harness, count: int
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external")
    async def pay(item: int) -> str:
        sent.append(item)
        return "paid"

    calls = [call("pay", item=number) for number in range(count)]
    agent = declare(harness, True, Script(act(*calls), Decision.finish("done")), tools=[pay])
    run_id = cancelled_at(harness, is_decision, agent)
    assert sent == []
    assert harness.show(run_id).run.status == "QUEUED"
    assert harness.resume(run_id).unwrap() == "done"
    assert sorted(sent) == list(range(count))


def test_a_call_whose_start_was_on_its_way_to_disk_is_not_in_doubt_where_its_task_is_cancelled(
    harness: Harness,
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external")
    async def pay(item: int) -> str:
        sent.append(item)
        return "paid"

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> Any:
        return await run.gather(pay.bind(1), pay.bind(2))

    run_id = cancelled_at(harness, is_start, agent)
    assert sent == []
    assert set(states(harness, run_id).values()) <= {"PLANNED"}
    assert harness.resume(run_id).unwrap() == ["paid", "paid"]
    assert sorted(sent) == [1, 2]


def test_an_approval_covers_a_call_that_was_approved_and_then_cut_off_before_it_was_sent(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always")
    async def pay(item: int) -> str:
        sent.append(item)
        return "paid"

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> Any:
        return await run.call(pay, 1)

    async def main() -> str:
        waiting = await harness.arun(agent, "x")
        await harness.aapprove(waiting.run_id, "pay.1", args={"item": 3})
        task = asyncio.create_task(harness.aresume(waiting.run_id))
        moment.target = task
        with pytest.raises(asyncio.CancelledError):
            await task
        return waiting.run_id

    class Target:
        target: Any = None

    moment = Target()
    at(harness, is_start, lambda: moment.target.cancel() and None)
    run_id = asyncio.run(main())
    assert (states(harness, run_id), sent) == ({"pay.1": "PLANNED"}, [])
    assert harness.resume(run_id).unwrap() == "paid"
    assert sent == [3]


def test_a_task_that_is_cancelled_while_the_run_begins_to_wait_is_told_so(harness: Harness) -> None:
    @harness.tool(effect="external")
    async def pay(item: int) -> str:
        return "paid"

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> Any:
        return await asyncio.gather(run.call(pay, 1), run.ask("Go on?"))

    run_id = cancelled_at(harness, is_question, agent)  # while the start of the other is on its way as well
    assert states(harness, run_id) == {"pay.1": "PLANNED", "ask.1": "AWAITING"}
    assert harness.show(run_id).run.status == "WAITING"
    harness.answer(run_id, "ask.1", True)
    assert harness.resume(run_id).unwrap() == ["paid", True]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_process_that_is_stopped_while_the_run_begins_to_wait_is_stopped(
    harness: Harness, error: type[BaseException]
) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> Any:
        try:
            return run.ask("Go on?")
        except Stopped:
            raise error() from None

    with pytest.raises(error):
        harness.run(agent, "x")
    assert [each.asked.call_id for each in harness.requests()] == ["ask.1"]
    harness.answer("last", "ask.1", True)


def test_a_run_that_is_answered_in_the_moment_its_process_is_stopped_is_left_to_be_resumed(harness: Harness) -> None:
    stop = [True]

    @harness.agent
    def agent(run: Run, task: str) -> Any:
        try:
            return run.ask("Go on?")
        except Stopped:
            harness.answer(run.id, "ask.1", "yes")
            if stop.pop():
                raise KeyboardInterrupt from None
            raise

    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    assert harness.due() == [harness.find("last")]
    assert harness.resume("last").unwrap() == "yes"


class Interrupts:
    """A watcher that interrupts whoever has made the n-th change, right after it is on disk."""

    def __init__(self, number: int) -> None:
        self.left = number

    def around(self, store: Store) -> Store:
        """The store, as it is."""
        return store

    def before(self, request: Request[Any]) -> None:
        """Nothing."""

    def after(self, request: Request[Any], answer: Any) -> None:
        """Interrupt, where it is time."""
        if isinstance(request, Commit):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize("number", range(1, 14))
def test_a_loop_agent_that_is_interrupted_after_any_of_its_changes_goes_on(
    harness: Harness, clock: StoppedClock, number: int
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", settle=0)
    def pay(item: int) -> str:
        sent.append(item)
        return "paid"

    @pay.probe
    def _(item: int) -> Happened[str] | NotHappened:
        return Happened("paid") if item in sent else NotHappened()

    one, two = [call("pay", item=1)], [call("pay", item=2), call("pay", item=3)]
    script = Script(act(*one), act(*two), Decision.finish("bad"), Decision.finish("good"))
    agent = declare(harness, False, script, tools=[pay], verify=lambda output: output == "good" or "no")
    harness._watcher = Interrupts(number)
    with pytest.raises(KeyboardInterrupt):
        harness.run(agent, "x")
    clock.move(DEFAULT_STALL + DEFAULT_TTL)  # what was started, and perhaps never sent, is sure not to act any more
    assert harness.resume("last").unwrap() == "good"
    assert sent in ([1, 2, 3], [1, 3, 2])


@pytest.mark.parametrize("count", [1, 2])
def test_a_signal_that_a_tool_raises_by_itself_does_not_let_the_run_go_on_without_its_call(
    harness: Harness, clock: StoppedClock, count: int
) -> None:
    @harness.tool(effect="external")
    def pay(item: int) -> str:
        raise Stopped("of no run")

    calls = [call("pay", item=number) for number in range(count)]
    script = Script(act(*calls), Decision.finish("done"))
    agent = declare(harness, False, script, tools=[pay])
    with pytest.raises(Stopped):
        harness.run(agent, "x")
    clock.move(DEFAULT_TTL + 1)
    waiting = harness.resume("last")
    assert [each.kind for each in waiting.waiting_on] == ["resolve"] * count
    for each in waiting.waiting_on:
        harness.resolve("last", each.call_id, Happened("paid"))
    assert harness.resume("last").unwrap() == "done"
    assert script.steps == [1, 2]
