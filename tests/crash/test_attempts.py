"""How often a call is tried: attempts are counted over long pauses and over processes, and none is made twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Happened, Harness, NotApplied, NotHappened, Run
from jumar.errors import ReplayDiverged
from jumar.testing import Crashed, StoppedClock, Witness, World, crash_at
from tests.crash.agents import TTL
from tests.crash.worlds import RUN


class Busy(NotApplied):
    """The service asks to come back later than a lease lasts."""

    def __init__(self) -> None:
        super().__init__("come back later", retry_after=2 * TTL)


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


def harness_in(folder: Path, effect: str, world: World | None = None, *, waits: bool) -> Harness:
    """A harness whose tool is always told to come back later, and may be tried three times."""
    harness = Harness(f"sqlite:///{folder / 'run.db'}", lease_ttl=TTL)
    witness = Witness(folder / "witness", world=world)

    @harness.tool(effect=effect, retries=2)
    def ask() -> str:
        witness.note("asked", "ask")
        raise Busy

    if effect == "external":
        ask.probe(NotHappened)

    if waits:

        @harness.agent
        async def work(run: AsyncRun, task: str) -> Any:
            return await run.call(ask)
    else:

        @harness.agent
        def work(run: Run, task: str) -> Any:
            return run.call(ask)

    return harness


def to_the_end(harness: Harness, clock: StoppedClock, result: Any) -> Any:
    """Resume the run each time it is due."""
    while result.status == "WAITING":
        clock.move_to_wall(result.wake_at)
        result = harness.resume(RUN)
    return result


@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
def test_attempts_are_counted_over_pauses_longer_than_a_lease(
    folder: Path, clock: StoppedClock, effect: str, waits: bool
) -> None:
    with harness_in(folder, effect, waits=waits) as harness:
        result = to_the_end(harness, clock, harness.run("work", "go", run_id=RUN))
        assert (result.status, result.error_type) == ("FAILED", "CallFailed")
        assert [(call.state, call.attempt) for call in harness.show(RUN).calls] == [("FAILED", 3)]
    assert Witness(folder / "witness").count("asked") == 3


@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
def test_a_process_killed_while_a_call_is_tried_again_and_again_adds_at_most_the_attempt_it_was_making(
    folder: Path, clock: StoppedClock, effect: str, waits: bool
) -> None:
    for point in range(1, 200):
        here = folder / str(point)
        here.mkdir()
        world = World(point, clock=clock)
        harness = harness_in(here, effect, world, waits=waits)
        harness._watcher = world
        try:
            to_the_end(harness, clock, harness.run("work", "go", run_id=RUN))
            break
        except Crashed:
            clock.move(TTL + 0.001)
        finally:
            harness.close()
        with harness_in(here, effect, waits=waits) as later:
            if not later.runs():
                continue
            result = later.show(RUN).run
            if result.status != "FAILED":
                result = to_the_end(later, clock, later.resume(RUN))
            assert (result.status, result.error_type) == ("FAILED", "CallFailed"), world.trail[-1]
            (call,) = later.show(RUN).calls
        asked = Witness(here / "witness").count("asked")
        assert call.state == "FAILED" and 2 <= asked <= 4 and call.attempt <= 4, f"{asked} {world.trail[-1]}"
    else:
        raise AssertionError("the run never ended")


@pytest.mark.parametrize(("name", "cents"), [("pay", 7), ("transfer", 5)])
def test_a_call_that_may_have_happened_is_not_taken_up_as_another_one_under_the_same_key(
    folder: Path, clock: StoppedClock, name: str, cents: int
) -> None:
    def harness_with(name: str, cents: int) -> Harness:
        harness = Harness(f"sqlite:///{folder / 'run.db'}", lease_ttl=TTL)

        @harness.tool(effect="external", name=name)
        def pay(cents: int) -> str:
            Witness(folder / "witness").send("pay")
            return "paid"

        @pay.probe
        def _(cents: int) -> Happened[str] | NotHappened:
            return NotHappened()

        @harness.agent
        def work(run: Run, task: str) -> str:
            return run.call(pay.using(key="invoice-1"), cents)

        return harness

    with harness_with("pay", 5) as harness:
        crash_at(harness, r"after Invoke\(pay")
        with pytest.raises(Crashed):
            harness.run("work", "go", run_id=RUN)
    clock.move(3600)
    with harness_with(name, cents) as harness, pytest.raises(ReplayDiverged, match="under the same key"):
        harness.resume(RUN)
    assert Witness(folder / "witness").count("sent") == 1
