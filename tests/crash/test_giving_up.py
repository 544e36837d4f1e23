"""A call that the agent gives up, as `asyncio.wait_for` does: at whatever moment that happens, a replay goes the
same way, and nothing is done twice or left unsettled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness, NotApplied, NotHappened
from jumar.core.changes import Advance
from jumar.core.requests import Commit, Request
from jumar.core.states import Status
from jumar.testing.crash import Crashed, World, inhabit
from jumar.testing.crash_clock import StoppedClock
from jumar.testing.witness import Witness
from tests.crash.agents import TTL
from tests.crash.worlds import RUN


class Cancelling(World):
    """A world in which a call is cancelled at a point, and which ends when the run is about to be COMPLETED."""

    def __init__(self, at: int, clock: StoppedClock) -> None:
        super().__init__(clock=clock)
        self.point = at
        self.call: asyncio.Future[Any] | None = None

    def before(self, request: Request[Any]) -> None:
        """Cancel, or die."""
        if type(request) is Commit and isinstance(request.change, Advance):
            ending = request.change.ending
            if ending is not None and ending.status is Status.COMPLETED:
                self.end()
        super().before(request)
        self._cancel()

    def after(self, request: Request[Any], answer: Any) -> None:
        """Cancel."""
        super().after(request, answer)
        self._cancel()

    def _cancel(self) -> None:
        if self.points == self.point and self.call is not None:
            asyncio.get_running_loop().call_soon(self.call.cancel)


def harness_in(folder: Path, effect: str, world: Cancelling | None) -> Harness:
    """A harness whose agent makes a call that may be given up, and then one that tells how it went."""
    harness = Harness(f"sqlite:///{folder / 'run.db'}", lease_ttl=TTL)
    witness = Witness(folder / "witness", world=world)
    options: dict[str, Any] = {"effect": effect, "retries": 3}
    if effect == "external":
        options["settle"] = 5.0

    @harness.tool(**options)
    async def pay() -> str:
        await asyncio.sleep(0)
        if witness.count("refused") == 0:
            witness.note("refused", "pay")
            raise NotApplied("not now")
        if effect == "idempotent":
            witness.apply("pay")
        else:
            witness.send("pay")
        await asyncio.sleep(0)
        return "paid"

    if effect == "external":

        @pay.probe
        async def _() -> Happened[str] | NotHappened:
            return Happened("paid") if witness.happened() else NotHappened()

    @harness.tool(effect="idempotent")
    async def tell(how: str) -> None:
        witness.apply(f"tell {how}")

    @harness.agent
    async def work(run: AsyncRun, task: str) -> str:
        call = asyncio.ensure_future(run.call(pay))
        if world is not None:
            world.call = call
        await asyncio.wait({call}, timeout=0.2)
        call.cancel()
        try:
            how = await call
        except asyncio.CancelledError:
            how = "given up"
        await run.call(tell, how)
        return how

    return harness


@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
def test_a_call_given_up_at_any_moment_is_given_up_again_on_replay(
    folder: Path, clock: StoppedClock, effect: str
) -> None:
    ways: set[str] = set()
    for point in range(1, 200):
        (folder / str(point)).mkdir()
        world = Cancelling(point, clock)
        harness = harness_in(folder / str(point), effect, world)
        inhabit(harness, world)
        first = ended(harness, lambda harness=harness: harness.run("work", "go", run_id=RUN))
        harness.close()
        if first is None and world.points < point:
            break
        clock.move(TTL + 0.001)
        where = f"cancelled at point {point}, {world.trail[point - 1]}"
        result, states = recovered(folder / str(point), effect, clock, where)
        lines = Witness(folder / str(point) / "witness").lines()
        told = [line.tool for line in lines if line.what == "applied" and line.tool != "pay"]
        assert result.status == "COMPLETED", f"{where}: {result}"
        assert told == [f"tell {result.output}"], f"{where}: the agent went two ways"
        assert set(states.values()) <= {"SUCCEEDED", "FAILED"}, f"{where}: {states}"
        if effect != "read":
            assert sum(line.tool == "pay" and line.what in ("sent", "applied") for line in lines) <= 1, where
        ways.add(str(result.output))
    assert ways == {"paid", "given up"}


def ended(harness: Harness, drive: Any) -> Any:
    """The result of a life, or None where it died."""
    try:
        return drive()
    except Crashed:
        return None


def recovered(folder: Path, effect: str, clock: StoppedClock, where: str) -> tuple[Any, dict[str, str]]:
    """The run taken over and driven to its end, and the states of its calls."""
    with harness_in(folder, effect, None) as harness:
        try:
            result = harness.resume(RUN)
            while result.status == "WAITING" and result.wake_at is not None:
                clock.move_to_wall(result.wake_at)
                result = harness.resume(RUN)
        except BaseException as error:
            error.add_note(where)
            raise
        return result, {call.call_id: call.state for call in harness.show(RUN).calls}


def test_a_run_cancelled_while_a_result_is_on_its_way_to_disk_is_cancelled_at_its_next_await(folder: Path) -> None:
    harness = Harness(f"sqlite:///{folder / 'run.db'}")

    class CancelsAll(World):
        def before(self, request: Request[Any]) -> None:
            if type(request) is Commit and isinstance(request.change, Advance) and request.change.calls:
                asyncio.get_running_loop().call_soon(running[0].cancel)

    @harness.tool(effect="read")
    async def look() -> str:
        return "seen"

    @harness.agent
    async def work(run: AsyncRun, task: str) -> None:
        assert await run.call(look) == "seen"
        await asyncio.Event().wait()

    running: list[asyncio.Task[Any]] = []

    async def main() -> None:
        running.append(asyncio.create_task(harness.arun("work", "go", run_id=RUN)))
        with pytest.raises(asyncio.CancelledError):
            await running[0]

    inhabit(harness, CancelsAll())
    with harness:
        asyncio.run(main())
        seen = harness.show(RUN)
        assert (seen.run.status, [call.state for call in seen.calls]) == ("QUEUED", ["SUCCEEDED"])


def test_a_call_that_is_cancelled_because_the_run_is_torn_down_is_not_taken_for_given_up(folder: Path) -> None:
    torn_down = True

    with Harness(f"sqlite:///{folder / 'run.db'}") as harness:

        @harness.tool(effect="read")
        async def stuck() -> str:
            if torn_down:
                begun.release()
                await asyncio.Event().wait()
            return "read"

        @harness.tool(effect="idempotent")
        async def stubborn() -> str:
            # It ends in its own way when it is cancelled, so that its result is recorded while all else is torn down.
            try:
                begun.release()
                await asyncio.Event().wait() if torn_down else None
            except asyncio.CancelledError:
                pass
            return "sent"

        @harness.agent
        async def work(run: AsyncRun, task: str) -> list[str]:
            return list(await run.gather(stuck.bind(), stubborn.bind()))

        async def main() -> None:
            running = asyncio.create_task(harness.arun("work", "go", run_id=RUN))
            await begun.acquire()
            await begun.acquire()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

        begun = asyncio.Semaphore(0)
        asyncio.run(main())
        assert [(call.tool, call.state) for call in harness.show(RUN).calls] == [("stubborn", "SUCCEEDED")]
        assert harness.show(RUN).run.status == "QUEUED"
        torn_down = False
        assert not_for_ever(harness).output == ["read", "sent"]


def test_a_call_that_is_cancelled_because_the_run_must_wait_is_not_taken_for_given_up(folder: Path) -> None:
    waits = True

    with Harness(f"sqlite:///{folder / 'run.db'}") as harness:

        @harness.tool(effect="external")
        async def pay() -> str:
            await begun.wait()
            raise ConnectionError("the line is dead")

        @harness.tool(effect="idempotent")
        async def slow() -> str:
            begun.set()
            if waits:
                await asyncio.Event().wait()
            return "slow"

        @harness.agent
        async def work(run: AsyncRun, task: str) -> list[str]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(run.call(tool)) for tool in (pay, slow)]
            return [task.result() for task in tasks]

        begun = asyncio.Event()
        result = harness.run("work", "go", run_id=RUN)
        assert [each.call_id for each in result.waiting_on] == ["pay.1"]
        assert {call.state for call in harness.show(RUN).calls} == {"UNCERTAIN"}
        harness.resolve(RUN, "pay.1", Happened("paid"))
        waits = False
        assert not_for_ever(harness).output == ["paid", "slow"]


def not_for_ever(harness: Harness) -> Any:
    """Resume a run that must not wait for something that never comes."""

    async def main() -> Any:
        return await asyncio.wait_for(harness.aresume(RUN), 20)

    return asyncio.run(main())
