"""Answers and orders from other processes, to runs that are driven, frozen or left by a process that died."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jumar import Harness
from jumar.testing.witness import Witness
from tests.concurrency.orders_scene import OTHER, RUN, drives, orders, resumes, resumes_due, says, scene
from tests.concurrency.workers import Worker, start
from tests.integration.agents_helpers import until

__all__ = ["start"]

Hire = Callable[..., Worker]

SHORT = 0.6  # seconds that the lease of one who is to lose it lasts
LONG = 30.0
ENDS = {"pause": "PAUSED", "cancel": "CANCELLED"}
either = pytest.mark.parametrize("order", list(ENDS))


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """The test's own harness on the workers' database."""
    with scene(None, tmp_path, "test") as opened:
        yield opened


@pytest.fixture
def hire(start: Callable[..., Worker], tmp_path: Path) -> Hire:
    """Starts a worker on the test's database."""
    return lambda body, *args: start(body, str(tmp_path), *args)


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """What the workers' tools did outside."""
    return Witness(tmp_path / "witness")


def ready(worker: Worker) -> Worker:
    """A worker that only waits for the word."""
    worker.expect("ready")
    return worker


def states(harness: Harness) -> dict[str, str]:
    """The state of each call of the run."""
    return {call.call_id: call.state for call in harness.show(RUN).calls}


# --- Answers. --------------------------------------------------------------------------------------------------------


def test_of_processes_that_approve_and_reject_at_once_one_is_heard_and_the_others_are_told(
    harness: Harness, hire: Hire, witness: Witness
) -> None:
    assert harness.run("wirer", run_id=RUN).status == "WAITING"
    people = [ready(hire(says, by, word)) for by, word in (("ada", "approve"), ("bob", "reject"), ("cid", "approve"))]
    for person in people:
        person.let_go("ready")
    words = [person.ends() for person in people]
    (heard,) = [word for word in words if word != "RequestNotFound"]
    assert words.count("RequestNotFound") == 2
    (answer,) = harness.show(RUN).answers
    assert heard == f"{answer.verdict} by {answer.by}"
    result = harness.resume(RUN)
    approved = answer.verdict == "approve"
    assert result.status == ("COMPLETED" if approved else "FAILED")
    assert witness.count("sent", "wire") == (1 if approved else 0)


# --- Orders to a process that is alive. ------------------------------------------------------------------------------


@either
def test_an_order_from_another_process_is_obeyed_once_the_call_in_flight_is_recorded(
    harness: Harness, hire: Hire, witness: Witness, order: str
) -> None:
    driver = hire(drives, "ada", "payer", RUN, LONG)
    driver.expect("paying")
    operator = ready(hire(orders, "bob", order, True))
    operator.let_go("ready")
    until(lambda: harness.show(RUN).run.control == order)
    said = ready(hire(orders, "cid", order, False))
    said.let_go("ready")
    assert said.ends() == f"RUNNING {order}"
    driver.let_go("paying")
    assert (driver.ends(), operator.ends()) == (ENDS[order], f"{ENDS[order]} {order}")
    assert (states(harness), witness.count("sent", "pay")) == ({"pay.1": "SUCCEEDED"}, 1)
    assert harness.show(RUN).run.epoch == 1
    if order == "pause":
        assert harness.resume(RUN).unwrap() == [1, 2]
        assert witness.count("sent", "pay") == 2


# --- Orders to a process that is gone. -------------------------------------------------------------------------------


@either
def test_an_order_to_a_process_that_was_killed_is_carried_out_when_its_lease_has_run_out(
    harness: Harness, hire: Hire, witness: Witness, order: str
) -> None:
    driver = hire(drives, "ada", "payer", RUN, SHORT)
    driver.expect("paying")
    driver.kill()
    operator = ready(hire(orders, "bob", order, True))
    operator.let_go("ready")
    assert operator.ends() == f"{ENDS[order]} {order}"
    run = harness.show(RUN).run
    assert (run.status, run.epoch, run.owner) == (ENDS[order], 2, None)
    assert (states(harness), witness.count("sent", "pay")) == ({"pay.1": "UNCERTAIN"}, 1)
    assert [(view.run_id, view.asked.call_id) for view in harness.requests()] == [(RUN, "pay.1")]


@either
def test_a_frozen_process_that_was_ordered_meanwhile_writes_and_sends_nothing_once_it_thaws(
    harness: Harness, hire: Hire, witness: Witness, order: str
) -> None:
    driver = hire(drives, "ada", "payer", RUN, SHORT)
    driver.expect("paying")
    driver.freeze()
    operator = ready(hire(orders, "bob", order, True))
    operator.let_go("ready")
    assert operator.ends() == f"{ENDS[order]} {order}"
    before = harness.show(RUN)
    driver.thaw()
    driver.let_go("paying")
    assert driver.ends() in ("LeaseLost", "RunEnded")
    assert harness.show(RUN) == before
    assert witness.count("sent", "pay") == 1


def test_a_process_that_takes_up_a_run_with_an_order_obeys_it_first(
    harness: Harness, hire: Hire, witness: Witness
) -> None:
    driver = hire(drives, "ada", "payer", RUN, SHORT)
    driver.expect("paying")
    driver.kill()
    assert harness.cancel(RUN).control == "cancel"
    other = ready(hire(resumes, "bob", SHORT))
    other.let_go("ready")
    assert other.ends() == "CANCELLED"
    assert witness.count("sent", "pay") == 1


# --- Several at once. ------------------------------------------------------------------------------------------------


def test_processes_that_take_up_what_is_due_at_once_drive_each_run_once(
    harness: Harness, hire: Hire, witness: Witness
) -> None:
    for _ in range(6):
        harness.run("wirer")
    for view in harness.requests():
        harness.approve(view.run_id, view.asked.call_id)
    workers = [ready(hire(resumes_due, by, LONG)) for by in ("ada", "bob", "cid")]
    for worker in workers:
        worker.let_go("ready")
    assert sum(int(worker.ends()) for worker in workers) == 6
    assert witness.count("sent", "wire") == 6
    assert {run.status for run in harness.runs()} == {"COMPLETED"} and harness.due() == []


def test_an_action_that_another_process_has_under_way_is_waited_for_and_not_done_again(
    harness: Harness, hire: Hire, witness: Witness
) -> None:
    first = hire(drives, "ada", "payer", RUN, LONG)
    first.expect("paying")
    second = hire(drives, "bob", "payer", OTHER, LONG)
    assert second.ends() == "WAITING"
    waiting = harness.show(OTHER).run
    assert waiting.wake_at is not None and waiting.wake_at > waiting.updated_at
    first.let_go("paying")
    assert first.ends() == "COMPLETED"
    harness.pause(OTHER)  # and resumed, it does not wait for its time
    assert harness.resume(OTHER).unwrap() == [1, 2]
    assert witness.count("sent", "pay") == 2 and {line.by for line in witness.lines()} == {"ada"}
