"""The crash driver itself: a world ends where it is told to, and stays ended."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing
from pathlib import Path

import pytest

from jumar import Harness, Run
from jumar.core.records import RunRecord
from jumar.errors import LeaseLost, StoreUnavailable, UsageError
from jumar.stores.sqlite.store import SQLiteStore
from jumar.testing import Crashed, StoppedClock, Witness, crash_at
from jumar.testing.crash import World
from tests.crash.worlds import RUN


def harness_in(folder: Path, world: World | None = None) -> Harness:
    """A harness whose agent does all it can to go on after it was stopped."""
    harness = Harness(f"sqlite:///{folder / 'run.db'}")
    witness = Witness(folder / "witness", world=world)

    @harness.tool(effect="read")
    def look() -> str:
        witness.note("read", "look")
        return "seen"

    @harness.tool(effect="external")
    def pay(cents: int) -> str:
        witness.send("pay")
        return "paid"

    @harness.agent
    def work(run: Run, task: str) -> str:
        try:
            run.call(look)
            return run.call(pay, 1)
        except BaseException:
            run.call(look)
            raise
        finally:
            run.checkpoint("at the end")
            run.call(pay, 2)

    return harness


def test_a_run_is_crashed_at_each_of_its_points_and_then_at_none(tmp_path: Path) -> None:
    for point in itertools.count(1):
        folder = tmp_path / str(point)
        folder.mkdir()
        with harness_in(folder) as harness:
            world = crash_at(harness, point)
            try:
                assert harness.run("work", "go", run_id=RUN).status == "COMPLETED"
                break
            except Crashed:
                assert world.points == point == len(world.trail)
                assert world.dead
    assert world.points == point - 1
    assert world.trail.count("before Invoke(pay of pay.1, attempt 1)") == 1


def test_a_point_can_be_named(tmp_path: Path) -> None:
    with harness_in(tmp_path) as harness:
        world = crash_at(harness, r"after Invoke\(pay")
        with pytest.raises(Crashed):
            harness.run("work", "go", run_id=RUN)
        assert world.trail[-1] == "after Invoke(pay of pay.1, attempt 1)"


def test_a_dead_world_stays_dead_whatever_the_agent_does_while_it_unwinds(tmp_path: Path) -> None:
    world = World(r"after Invoke\(pay")
    with harness_in(tmp_path, world) as harness:
        harness._watcher = world
        with pytest.raises(Crashed):
            harness.run("work", "go", run_id=RUN)
        with pytest.raises(StoreUnavailable):
            harness.show(RUN)
        with pytest.raises(Crashed):
            harness.run("work", "go")
    with harness_in(tmp_path) as other:
        seen = other.show(RUN)
    assert [(call.call_id, call.state) for call in seen.calls] == [("look.1", "SUCCEEDED"), ("pay.1", "STARTED")]
    assert seen.run.status == "RUNNING"
    assert [line.tool for line in Witness(tmp_path / "witness").lines()] == ["look", "pay"]


def test_a_dead_world_renews_no_lease(tmp_path: Path, clock: StoppedClock) -> None:
    with harness_in(tmp_path) as harness:
        world = crash_at(harness, r"before Invoke\(look")
        keeper = harness._open()._engine.leases
        kept = []
        real = keeper.keep
        keeper.keep = lambda live: (kept.append(live), real(live))[1]  # type: ignore[method-assign]
        with pytest.raises(Crashed):
            harness.run("work", "go", run_id=RUN)
        until = run_record(tmp_path).lease_until
        clock.move(10)
        keeper.keep(kept[0])
        keeper.renew_all()
        assert world.dead
        assert run_record(tmp_path).lease_until == until


def test_a_frozen_world_goes_on_when_it_is_thawed(tmp_path: Path, clock: StoppedClock) -> None:
    with harness_in(tmp_path) as harness:
        world = crash_at(harness, r"after Invoke\(look", freezes=True)
        errors: list[BaseException] = []

        def drive() -> None:
            try:
                harness.run("work", "go", run_id=RUN)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=drive)
        thread.start()
        assert world.frozen.wait(30)
        assert world.trail[-1].startswith("after Invoke(look") and thread.is_alive()
        clock.move(31)
        world.thaw()
        thread.join(30)
        assert [type(error) for error in errors] == [LeaseLost]


def test_a_harness_in_use_cannot_be_given_another_world(tmp_path: Path) -> None:
    with harness_in(tmp_path) as harness:
        harness.runs()
        with pytest.raises(UsageError, match="in use already"):
            crash_at(harness, 1)


def run_record(folder: Path) -> RunRecord:
    """The run as it is on disk."""
    with closing(SQLiteStore(str(folder / "run.db"))) as store:
        run = store.run(RUN)
        assert run is not None
        return run


def test_a_wait_in_place_on_a_stopped_clock_keeps_the_lease_as_it_does_in_real_time(
    tmp_path: Path, clock: StoppedClock
) -> None:
    with Harness(f"sqlite:///{tmp_path / 'run.db'}", lease_ttl=30.0) as harness:

        @harness.agent
        def naps(run: Run, task: str) -> str:
            run.sleep(29.0)
            return "rested"

        crash_at(harness, None, clock=clock)
        assert harness.run(naps, "go").unwrap() == "rested"
