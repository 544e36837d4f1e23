"""A worker drives what is due: what was started, was answered, or slept; and leaves alone what is not its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import Decision, Harness, ToolCall
from jumar.errors import UsageError
from tests.integration.agents_helpers import until
from tests.integration.worker_helpers import PATIENCE, Gate, Working

# --- What is due is driven, at once. ---


@pytest.mark.parametrize("first", ["the start", "the worker"])
def test_a_run_that_is_started_is_driven_by_the_worker(harness: Harness, first: str) -> None:
    @harness.agent
    def doubles(run: Any, number: int) -> int:
        return number * 2

    before = [harness.start(doubles, 1)] if first == "the start" else []
    with Working(harness) as worker:
        worker.hear(lambda event: event.what == "left") if before else None
        run_id = harness.start(doubles, 21)
        assert worker.left(run_id, "COMPLETED").output == 42
        assert worker.told("taken-up", run_id).epoch == 1
        if before:
            assert worker.left(before[0], "COMPLETED").output == 2
    assert worker.report is not None
    assert worker.report.left == {"COMPLETED": 1 + len(before)}
    assert worker.report.taken_up == 1 + len(before)


def test_a_run_that_is_started_from_an_event_loop_wakes_the_worker(harness: Harness) -> None:
    @harness.agent
    async def doubles(run: Any, number: int) -> int:
        return number * 2

    with Working(harness) as worker:
        run_id = asyncio.run(harness.astart(doubles, 4))
        assert worker.left(run_id, "COMPLETED").output == 8


def test_a_run_that_sleeps_gives_its_place_to_another_and_is_woken_when_its_time_has_come(tmp_path: Path) -> None:
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}", lease_ttl=1.0) as harness:

        @harness.agent
        def sleeps(run: Any, seconds: float) -> str:
            run.sleep(seconds)
            return "awake"

        @harness.agent
        def quick(run: Any, task: Any) -> str:
            return "done"

        with Working(harness, concurrency=1) as worker:
            sleeper = harness.start(sleeps, 1.5)
            assert worker.left(sleeper, "WAITING").wake_at is not None
            other = harness.start(quick)
            worker.left(other, "COMPLETED")
            assert harness.show(sleeper).run.status == "WAITING"
            assert worker.left(sleeper, "COMPLETED").output == "awake"


def test_an_answer_wakes_the_run_that_waited_for_it(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", approval="always")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @harness.agent
    def pays(run: Any, cents: int) -> list[Any]:
        return [run.call(pay, cents), run.ask("Go on?", choices=["yes"])]

    with Working(harness) as worker:
        run_id = harness.start(pays, 5)
        worker.left(run_id, "WAITING")
        assert sent == []
        harness.approve(run_id, "pay.1")
        worker.hear(lambda event: event.result is not None and event.result.waiting_on[0].kind == "ask")
        harness.answer(run_id, "ask.1", "yes")
        assert worker.left(run_id, "COMPLETED").output == [5, "yes"]
    assert sent == [5]


def test_a_loop_agent_is_driven_too(harness: Harness) -> None:
    @harness.tool(effect="read")
    def look(page: int) -> int:
        return page

    @harness.loop(tools=[look])
    def operator(view: Any) -> Decision:
        if view.step_index < 2:
            return Decision.act([ToolCall("look", {"page": view.step_index})])
        return Decision.finish("done")

    with Working(harness) as worker:
        assert worker.left(harness.start(operator, "x"), "COMPLETED").output == "done"


@pytest.mark.parametrize("order", ["pause", "cancel"])
def test_an_order_to_a_run_that_waits_is_obeyed_and_a_paused_run_is_left_alone(harness: Harness, order: str) -> None:
    gate = Gate()

    @harness.tool(effect="external")
    def hold(name: str) -> str:
        gate.pause()
        return name

    @harness.agent
    def holds(run: Any, task: Any) -> list[str]:
        return [run.call(hold, "a"), run.call(hold, "b")]

    with Working(harness) as worker:
        run_id = harness.start(holds)
        gate.reached()
        getattr(harness, order)(run_id)
        gate.open()
        worker.left(run_id, "PAUSED" if order == "pause" else "CANCELLED")
        assert [call.call_id for call in harness.show(run_id).calls] == ["hold.1"]
        assert harness.due() == []


# --- How many at once. ---


def test_so_many_runs_are_driven_at_once_and_never_one_more(harness: Harness) -> None:
    gate, lock = Gate(), threading.Lock()
    under_way, most = 0, 0

    @harness.tool(effect="read")
    def hold(number: int) -> int:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        gate.pause()
        with lock:
            under_way -= 1
        return number

    @harness.agent
    def holds(run: Any, number: int) -> int:
        return int(run.call(hold, number))

    runs = [harness.start(holds, number) for number in range(7)]
    with Working(harness, concurrency=3) as worker:
        gate.reached(3)
        assert [harness.show(run_id).run.status for run_id in runs].count("RUNNING") == 3
        gate.open()
        assert [worker.left(run_id, "COMPLETED").output for run_id in runs] == list(range(7))
    assert most == 3


def test_async_agents_beside_each_other_have_each_a_loop_of_its_own(harness: Harness) -> None:
    gate = Gate()
    loops: list[Any] = []

    @harness.agent
    async def holds(run: Any, number: int) -> int:
        loops.append(asyncio.get_running_loop())
        gate.pause()  # which blocks its loop, and no other's
        return number

    runs = [harness.start(holds, number) for number in range(3)]
    with Working(harness, concurrency=3) as worker:
        gate.reached(3)
        gate.open()
        assert [worker.left(run_id, "COMPLETED").output for run_id in runs] == [0, 1, 2]
    assert len(set(map(id, loops))) == 3


# --- What is not its own. ---


def test_runs_of_agents_that_are_not_known_are_left_alone_and_that_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with Harness(address) as other, Harness(address) as harness:

        @other.agent
        def stranger(run: Any, task: Any) -> str:
            return "strange"

        @harness.agent
        def known(run: Any, task: Any) -> str:
            return "known"

        strange = [other.start(stranger) for _ in range(30)]
        with caplog.at_level(logging.WARNING, "jumar"), Working(harness, poll=0.01) as worker:
            until(lambda: any("stranger" in record.getMessage() for record in caplog.records))
            worker.left(harness.start(known), "COMPLETED")
        told = [record.getMessage() for record in caplog.records if "stranger" in record.getMessage()]
        assert told == ["runs of stranger are left alone: no agent of that name is known here"]
        assert {other.show(run_id).run.status for run_id in strange} == {"QUEUED"}
        with Working(other) as worker:
            assert [worker.left(run_id, "COMPLETED").output for run_id in strange] == ["strange"] * 30


def test_runs_whose_files_are_elsewhere_are_left_alone_and_keep_no_other_from_its_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.db"
    with Harness(f"sqlite:///{path}") as harness:

        @harness.agent
        def fine(run: Any, task: Any) -> str:
            return "fine"

        elsewhere = [harness.start(fine) for _ in range(50)]
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE run SET workspace = 'web-3:/srv/site'")
        with caplog.at_level(logging.WARNING, "jumar"), Working(harness, concurrency=2) as worker:
            worker.left(harness.start(fine), "COMPLETED")
        assert [record.getMessage() for record in caplog.records] == [
            "runs on the files of web-3:/srv/site are left to others: these files are not here"
        ]
        assert {harness.show(run_id).run.status for run_id in elsewhere} == {"QUEUED"}


def test_a_run_that_somebody_drives_is_left_alone(tmp_path: Path) -> None:
    gate = Gate()
    address = f"sqlite:///{tmp_path / 'runs.db'}"

    def app() -> Harness:
        harness = Harness(address)

        @harness.tool(effect="external")
        def hold(task: str) -> str:
            gate.pause()
            return task

        @harness.agent
        def holds(run: Any, task: str) -> str:
            return str(run.call(hold, task))

        return harness

    with app() as driver, app() as harness:
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(driver.run("holds", "mine")))
        thread.start()
        gate.reached()
        with Working(harness, poll=0.01) as worker:
            other = harness.start("holds", "its")
            gate.reached()
            gate.open()
            worker.left(other, "COMPLETED")
            thread.join(PATIENCE)
        assert results[0].unwrap() == "mine"
        assert driver.show(results[0].run_id).run.epoch == 1
        assert {event.run_id for event in worker.heard if event.run_id} == {other}


def test_a_run_that_is_to_be_left_for_a_person_is_left(harness: Harness) -> None:
    @harness.agent
    def fails(run: Any, task: Any) -> None:
        raise ValueError("the site has no pages")

    with Working(harness, poll=0.01) as worker:
        failed = harness.start(fails)
        assert worker.left(failed, "FAILED").error_type == "ValueError"
        paused = harness.start(fails, run_id="01900000-0000-7000-8000-000000000001")
        worker.left(paused, "FAILED")
    assert worker.report is not None
    assert worker.report.left == {"FAILED": 2}
    assert harness.show(failed).run.epoch == 1


# --- Ending. ---


def test_a_worker_that_works_until_nothing_is_due_says_what_it_did(harness: Harness) -> None:
    @harness.agent
    def fine(run: Any, task: Any) -> str:
        return "fine"

    @harness.agent
    def asks(run: Any, task: Any) -> Any:
        return run.ask("Go on?", choices=["yes"])

    for agent in (fine, asks, fine):
        harness.start(agent)
    report = harness.work(until_idle=True)
    assert (report.taken_up, report.left, report.not_driven, report.given_up, report.abandoned) == (
        3,
        {"COMPLETED": 2, "WAITING": 1},
        0,
        0,
        (),
    )
    assert harness.work(until_idle=True).taken_up == 0


def test_a_worker_that_is_awaited_ends_when_it_is_told_to(harness: Harness) -> None:
    @harness.agent
    def fine(run: Any, task: Any) -> str:
        return "fine"

    async def main() -> Any:
        stop = threading.Event()
        working = asyncio.create_task(harness.awork(stop=stop, told=lambda event: event.result and stop.set()))
        await harness.astart(fine)
        return await asyncio.wait_for(working, PATIENCE)

    assert asyncio.run(main()).left == {"COMPLETED": 1}


def test_a_worker_that_is_cancelled_lets_go_of_its_runs_first(harness: Harness) -> None:
    gate = Gate()

    @harness.tool(effect="external")
    def hold(name: str) -> str:
        gate.pause()
        return name

    @harness.agent
    def holds(run: Any, task: Any) -> list[str]:
        return [run.call(hold, "a"), run.call(hold, "b")]

    async def main() -> None:
        working = asyncio.create_task(harness.awork(grace=0))
        await asyncio.to_thread(gate.reached)
        working.cancel()
        await asyncio.sleep(0)
        gate.open()
        with pytest.raises(asyncio.CancelledError):
            await working

    run_id = harness.start(holds)
    asyncio.run(main())
    assert harness.show(run_id).run.status in ("QUEUED", "COMPLETED")
    assert {call.state for call in harness.show(run_id).calls} == {"SUCCEEDED"}


@pytest.mark.parametrize(
    "option",
    [
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"poll": 0},
        {"poll": "often"},
        {"poll": None},
        {"grace": -1},
        {"max_crashes": 0},
        {"max_crashes": True},
    ],
    ids=str,
)
def test_an_option_that_is_none_is_refused_before_anything_is_done(harness: Harness, option: dict[str, Any]) -> None:
    @harness.agent
    def fine(run: Any, task: Any) -> str:
        return "fine"

    run_id = harness.start(fine)
    with pytest.raises(UsageError, match=next(iter(option))):
        harness.work(until_idle=True, **option)
    assert harness.show(run_id).run.status == "QUEUED"


def test_a_harness_without_agents_has_nothing_to_work_on(harness: Harness) -> None:
    with pytest.raises(UsageError, match="no agents"):
        harness.work(until_idle=True)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """A worker that has let go has no thread of a run any more."""
    yield
    until(lambda: not [each for each in threading.enumerate() if each.name.startswith("jumar-run-")])
