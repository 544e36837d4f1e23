"""An order whose giver died right after he wrote it down: whoever comes next obeys it, even where the run waits for
what may never come.
"""

from __future__ import annotations

from typing import Any

import pytest

from jumar import Harness
from jumar.core.changes import Ack, Order
from jumar.core.states import Control
from jumar.errors import RequestNotFound, RunEnded
from jumar.testing.crash import Crashed, crash_at
from jumar.testing.crash_clock import StoppedClock
from tests.integration.agents_helpers import states
from tests.integration.waits_helpers import asked, clock, scripted

__all__ = ["clock"]

ENDS = {Control.CANCEL: "CANCELLED", Control.PAUSE: "PAUSED"}
HOUR = 3600.0
orders = pytest.mark.parametrize("control", ENDS, ids=lambda control: control.label)
tasks = pytest.mark.parametrize("task", ["asks", "pays", "sleeps"])


class Scene:
    """An agent that waits for a question, an approval or a time; `went` counts how often it was run."""

    def __init__(self, harness: Harness, clock: StoppedClock, waits: bool) -> None:
        self.harness, self.clock, self.went, self.sent = harness, clock, 0, list[int]()

        @harness.tool(effect="external", approval="always")
        def pay(cents: int) -> int:
            self.sent.append(cents)
            return cents

        @scripted(harness, waits)
        def agent(run: Any, task: Any) -> Any:
            self.went += 1
            if task == "asks":
                return (yield run.ask("go?"))
            if task == "pays":
                return (yield run.call(pay, 5))
            return (yield run.sleep(HOUR))

        self.agent = agent

    def waiting(self, task: str) -> str:
        """A run that waits."""
        result = self.harness.run(self.agent, task)
        assert result.status == "WAITING"
        return result.run_id

    def lost(self, task: str, control: Control) -> str:
        """A run that waits, with an order that was written down and not carried out."""
        run_id = self.waiting(task)
        order = Order(run_id=run_id, control=control, at=self.clock.wall_ms(), by="kim", note="enough")
        assert isinstance(self.harness._open()._engine.io.queue.submit(order), Ack)
        info = self.harness.show(run_id).run
        assert (info.status, info.control, self.went) == ("WAITING", control.label, 1)
        return run_id


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def scene(request: pytest.FixtureRequest, harness: Harness, clock: StoppedClock) -> Scene:
    """The scene, with a plain and with an async agent."""
    return Scene(harness, clock, request.param)


@orders
@tasks
def test_a_lost_order_to_a_run_that_waits_is_due_and_obeyed_without_running_the_agent(
    scene: Scene, task: str, control: Control
) -> None:
    harness, run_id = scene.harness, scene.lost(task, control)
    other = scene.waiting(task)
    assert harness.due() == [run_id]
    (result,) = harness.resume_due()
    assert (result.run_id, result.status, result.waiting_on, result.wake_at) == (run_id, ENDS[control], (), None)
    assert (scene.went, scene.sent, harness.due(), harness.resume_due()) == (2, [], [], [])
    info = harness.show(run_id).run
    assert (info.ordered_by, info.order_note, info.owner) == ("kim", "enough", None)
    assert [line.what for line in harness.trace(run_id)].count(ENDS[control].lower()) == 1
    assert (harness.show(other).run.status, harness.doctor().sound) == ("WAITING", True)


@tasks
def test_a_resume_of_a_run_with_a_lost_cancellation_cancels_it(scene: Scene, task: str) -> None:
    harness, run_id = scene.harness, scene.lost(task, Control.CANCEL)
    result = harness.resume(run_id)
    assert (result.status, scene.went, scene.sent) == ("CANCELLED", 1, [])
    assert harness.requests() == [] and harness.due() == []
    with pytest.raises(RunEnded):
        harness.resume(run_id)
    with pytest.raises(RequestNotFound):
        harness.approve(run_id, "pay.1")


@tasks
def test_a_resume_of_a_run_with_a_lost_pause_takes_it_out_of_the_pause_and_it_waits_as_before(
    scene: Scene, task: str
) -> None:
    harness, run_id = scene.harness, scene.lost(task, Control.PAUSE)
    before = harness.show(run_id)
    result = harness.resume(run_id)
    after = harness.show(run_id)
    assert (result.status, after.run.control, scene.went, harness.due()) == ("WAITING", "none", 2, [])
    assert (after.waiting_on, after.run.wake_at) == (before.waiting_on, before.run.wake_at)
    assert states(harness, run_id) == {call.call_id: "AWAITING" for call in before.calls}


@orders
def test_an_answer_does_not_get_ahead_of_a_lost_order(scene: Scene, control: Control) -> None:
    harness, run_id = scene.harness, scene.lost("pays", control)
    harness.approve(run_id, "pay.1")
    (result,) = harness.resume_due()
    assert (result.status, scene.went, scene.sent) == (ENDS[control], 1, [])
    if control is Control.PAUSE:
        assert harness.resume(run_id).unwrap() == 5


@orders
def test_the_order_is_obeyed_once_where_its_time_has_come_as_well(scene: Scene, control: Control) -> None:
    harness, run_id = scene.harness, scene.lost("sleeps", control)
    scene.clock.move(HOUR)
    assert harness.due() == [run_id]
    assert [result.status for result in harness.resume_due()] == [ENDS[control]]
    assert scene.went == 1


@orders
def test_the_same_order_given_again_is_carried_out(scene: Scene, control: Control) -> None:
    harness, run_id = scene.harness, scene.lost("asks", control)
    info = harness.cancel(run_id) if control is Control.CANCEL else harness.pause(run_id)
    assert (info.status, scene.went, harness.due()) == (ENDS[control], 1, [])


@orders
def test_an_operator_who_dies_between_his_order_and_his_claim_is_obeyed_by_the_next_to_look(
    tmp_path: Any, clock: StoppedClock, control: Control
) -> None:
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    with Harness(address) as harness:
        scene = Scene(harness, clock, False)
        run_id = scene.waiting("asks")
    operator = Harness(address)
    crash_at(operator, r"before Commit\(Claim\)", clock=clock)
    with pytest.raises(Crashed):
        (operator.cancel if control is Control.CANCEL else operator.pause)(run_id)
    with Harness(address) as harness:
        scene = Scene(harness, clock, False)
        assert asked(harness.resume_due()[0]) == []
        assert (harness.show(run_id).run.status, scene.went) == (ENDS[control], 0)
