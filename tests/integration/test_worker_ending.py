"""A worker that is told to stop lets what it drives end, or hands it over whole.

Nothing new is sent, what is in flight is recorded, and whoever is next goes on.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from jumar import Decision, Harness, ToolCall
from tests.integration.agents_helpers import states, until
from tests.integration.waits_helpers import every_kind, scripted
from tests.integration.worker_helpers import PATIENCE, Gate, Working


@pytest.fixture
def sent() -> list[Any]:
    """What reached the outside."""
    return []


@pytest.fixture
def gate() -> Gate:
    return Gate()


def _pays(harness: Harness, sent: list[Any], gate: Gate, effect: str = "external") -> Any:
    """A tool that acts, and then waits for the test."""

    @harness.tool(effect=effect)  # type: ignore[arg-type]
    def pay(cents: int) -> int:
        sent.append(cents)
        gate.pause()
        return cents

    return pay


@every_kind
def test_what_is_under_way_may_end_within_the_grace(harness: Harness, waits: bool, sent: list[Any], gate: Gate) -> None:
    pay = _pays(harness, sent, gate)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 1)), (yield run.call(pay, 2))

    run_id, other = harness.start(agent), ""
    with Working(harness, grace=PATIENCE) as worker:
        gate.reached()
        worker.stop.set()
        assert worker.told("stopping").under_way == 1
        other = harness.start(agent)
        gate.open()
        assert worker.left(run_id, "COMPLETED").output == [1, 2]
    assert harness.show(other).run.epoch == 0, "a worker that ends takes nothing up"
    assert sent == [1, 2]


@every_kind
def test_after_the_grace_the_call_in_flight_is_recorded_and_the_run_is_handed_over(
    harness: Harness, waits: bool, sent: list[Any], gate: Gate
) -> None:
    pay = _pays(harness, sent, gate)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 1)), (yield run.call(pay, 2))

    run_id = harness.start(agent)
    with Working(harness, grace=0) as worker:
        gate.reached()
        worker.stop.set()
        worker.told("handing-over")
        gate.open()
        worker.left(run_id, "QUEUED")
    run = harness.show(run_id)
    assert (run.run.status, run.run.owner, run.run.error_type) == ("QUEUED", None, None)
    assert (states(harness, run_id), sent) == ({"pay.1": "SUCCEEDED"}, [1])
    assert harness.due() == [run_id]
    with Working(harness) as worker:
        assert worker.left(run_id, "COMPLETED").output == [1, 2]
        assert (worker.told("taken-up", run_id).epoch, worker.told("taken-up", run_id).crashes) == (2, 0)
    assert sent == [1, 2]


@every_kind
@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
def test_of_a_fan_what_is_in_flight_is_recorded_and_nothing_else_is_sent(
    harness: Harness, waits: bool, effect: str, sent: list[Any], gate: Gate
) -> None:
    pay = _pays(harness, sent, gate, effect)

    @harness.tool(effect="read")
    def look(page: int) -> int:
        return page

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        paid = yield run.map(pay, [1, 2, 3])
        return [*paid, (yield run.call(look, 4))]

    run_id = harness.start(agent)
    with Working(harness, grace=0) as worker:
        gate.reached(3)
        worker.stop.set()
        worker.told("handing-over")
        gate.open()
        worker.left(run_id, "QUEUED")
    assert set(states(harness, run_id).values()) == {"SUCCEEDED"}
    assert len(states(harness, run_id)) == 3
    with Working(harness) as worker:
        assert worker.left(run_id, "COMPLETED").output == [1, 2, 3, 4]
    assert sorted(sent) == [1, 2, 3]


@every_kind
def test_a_run_that_sleeps_in_its_place_is_handed_over_asleep(harness: Harness, waits: bool, sent: list[Any]) -> None:
    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        sent.append("once more")
        yield run.sleep(PATIENCE / 3)
        return "awake"

    run_id = harness.start(agent)
    with Working(harness, grace=0) as worker:
        until(lambda: "sleep.1" in states(harness, run_id))
        worker.stop.set()
        worker.left(run_id, "QUEUED")
    assert states(harness, run_id) == {"sleep.1": "AWAITING"}


@every_kind
def test_a_run_that_waits_when_its_worker_ends_goes_on_waiting(
    harness: Harness, waits: bool, sent: list[Any], gate: Gate
) -> None:
    pay = _pays(harness, sent, gate)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.gather(pay.bind(1), lambda: run.ask("Go on?", choices=["yes"])))

    run_id = harness.start(agent)
    with Working(harness, grace=0) as worker:
        gate.reached()
        until(lambda: "ask" in str(harness.requests()))
        worker.stop.set()
        worker.told("handing-over")
        gate.open()
        worker.hear(lambda event: event.run_id == run_id and event.what == "left")
    status = harness.show(run_id).run.status
    assert status in ("QUEUED", "WAITING")
    harness.answer(run_id, "gather:1.ask.1", "yes")
    with Working(harness) as worker:
        assert worker.left(run_id, "COMPLETED").output == [1, "yes"]
    assert sent == [1]


@every_kind
@pytest.mark.parametrize("order", ["pause", "cancel"])
def test_an_order_goes_before_the_worker_s_end(
    harness: Harness, waits: bool, order: str, sent: list[Any], gate: Gate
) -> None:
    pay = _pays(harness, sent, gate)

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        return (yield run.call(pay, 1)), (yield run.call(pay, 2))

    run_id = harness.start(agent)
    with Working(harness, grace=0) as worker:
        gate.reached()
        worker.stop.set()
        worker.told("handing-over")
        getattr(harness, order)(run_id)
        gate.open()
        worker.left(run_id, "PAUSED" if order == "pause" else "CANCELLED")
    assert (states(harness, run_id), sent) == ({"pay.1": "SUCCEEDED"}, [1])


def test_a_loop_agent_is_handed_over_between_its_turns(harness: Harness, sent: list[Any], gate: Gate) -> None:
    pay = _pays(harness, sent, gate)

    @harness.loop(tools=[pay])
    def operator(view: Any) -> Decision:
        if view.step_index <= 2:
            return Decision.act([ToolCall("pay", {"cents": view.step_index})])
        return Decision.finish("paid")

    run_id = harness.start(operator, "x")
    with Working(harness, grace=0) as worker:
        gate.reached()
        worker.stop.set()
        worker.told("handing-over")
        gate.open()
        worker.left(run_id, "QUEUED")
    assert sent == [1]
    with Working(harness) as worker:
        assert worker.left(run_id, "COMPLETED").output == "paid"
    assert sent == [1, 2]


def test_an_agent_that_ends_while_it_is_to_be_handed_over_is_completed_by_the_next(
    harness: Harness, sent: list[Any], gate: Gate
) -> None:
    pay = _pays(harness, sent, gate)

    @harness.agent
    def pays(run: Any, cents: int) -> int:
        return int(run.call(pay, cents))

    run_id = harness.start(pays, 7)
    with Working(harness, grace=0) as worker:
        gate.reached()
        worker.stop.set()
        worker.told("handing-over")
        gate.open()
        worker.left(run_id, "QUEUED")
    with Working(harness) as worker:
        assert worker.left(run_id, "COMPLETED").output == 7
    assert sent == [7]


def test_an_agent_that_swallows_the_signal_is_handed_over_all_the_same(
    harness: Harness, sent: list[Any], gate: Gate
) -> None:
    pay = _pays(harness, sent, gate)

    @harness.agent
    def swallows(run: Any, task: Any) -> list[int]:
        paid = [run.call(pay, 1)]
        try:
            paid.append(run.call(pay, 2))
        except BaseException:
            paid.append(-1)
        return paid

    run_id = harness.start(swallows)
    with Working(harness, grace=0) as worker:
        gate.reached()
        worker.stop.set()
        worker.told("handing-over")
        gate.open()
        worker.left(run_id, "QUEUED")
    with Working(harness) as worker:
        assert worker.left(run_id, "COMPLETED").output == [1, 2]
    assert sent == [1, 2]


def test_runs_that_somebody_else_drives_in_the_same_process_go_on(
    harness: Harness, sent: list[Any], gate: Gate
) -> None:
    pay = _pays(harness, sent, gate)

    @harness.agent
    def pays(run: Any, cents: int) -> list[int]:
        return [run.call(pay, cents), run.call(pay, cents + 1)]

    results: list[Any] = []
    own = threading.Thread(target=lambda: results.append(harness.run(pays, 10)))
    own.start()
    gate.reached()
    worked = harness.start(pays, 20)
    with Working(harness, grace=0) as worker:
        gate.reached()
        worker.stop.set()
        worker.told("handing-over")
        gate.open()
        worker.left(worked, "QUEUED")
    own.join(PATIENCE)
    assert results[0].unwrap() == [10, 11]
    assert sorted(sent) == [10, 11, 20]


def test_a_body_that_goes_on_past_its_timeout_keeps_no_worker_and_is_not_taken_for_done(
    harness: Harness, sent: list[Any], gate: Gate
) -> None:
    @harness.tool(effect="external", timeout=0.05)
    def pay(cents: int) -> int:
        sent.append(cents)
        gate.pause()
        return cents

    @harness.agent
    def pays(run: Any, cents: int) -> int:
        return int(run.call(pay, cents))

    run_id = harness.start(pays, 7)
    with Working(harness, grace=0) as worker:
        gate.reached()
        worker.stop.set()
        worker.hear(lambda event: event.run_id == run_id and event.what == "left")
    run = harness.show(run_id)
    assert states(harness, run_id) == {"pay.1": "UNCERTAIN"}
    assert run.run.status in ("WAITING", "QUEUED")
    gate.open()
    assert sent == [7]


def test_two_workers_at_once_share_the_runs_and_drive_none_twice(harness: Harness, sent: list[Any]) -> None:
    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @harness.agent
    def pays(run: Any, cents: int) -> int:
        return int(run.call(pay, cents))

    runs = [harness.start(pays, number) for number in range(40)]
    with Working(harness, concurrency=3) as one, Working(harness, concurrency=3) as other:
        until(lambda: all(harness.show(run_id).run.status == "COMPLETED" for run_id in runs))
    assert sorted(sent) == list(range(40))
    assert one.report is not None and other.report is not None
    assert one.report.taken_up + other.report.taken_up == 40
    assert one.report.not_driven == other.report.not_driven == 0
