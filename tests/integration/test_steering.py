"""Orders to pause and to cancel a run that nobody drives, and what is left of it."""

from __future__ import annotations

from typing import Any

import pytest

from jumar import Happened, Harness, NotHappened
from jumar.core.limits import DEFAULT_TTL
from jumar.errors import (
    IllegalTransition,
    RequestNotFound,
    RunEnded,
    RunFailed,
    RunNotFinished,
    RunNotFound,
    UsageError,
)
from jumar.testing.crash_clock import StoppedClock
from tests.integration.agents_helpers import Interruption, states
from tests.integration.waits_helpers import asked, both_kinds, clock, in_memory, scripted

__all__ = ["clock"]


class Scene:
    """An agent that asks, pays and asks again, and a run of it in each status."""

    def __init__(self, harness: Harness, clock: StoppedClock, waits: bool) -> None:
        self.harness, self.clock, self.sent = harness, clock, list[int]()
        self.interrupt = Interruption()
        self.fails = True

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            self.sent.append(cents)
            if cents == 13:
                self.interrupt()
            return cents

        @scripted(harness, waits)
        def agent(run: Any, task: Any) -> Any:
            if task == "fails" and self.fails:
                raise RuntimeError("broken")
            if task == "asks":
                return (yield run.ask("go?"))
            return (yield run.call(pay, 13 if task == "dies" else 5))

        self.agent = agent

    def run_in(self, status: str) -> str:
        """A run that stands so; of a RUNNING one the process is gone, its lease is not."""
        harness = self.harness
        if status == "QUEUED":
            return harness.start(self.agent, "pays")
        if status in ("WAITING", "PAUSED", "CANCELLED"):
            run_id = harness.run(self.agent, "asks").run_id
            if status == "PAUSED":
                harness.pause(run_id)
            if status == "CANCELLED":
                harness.cancel(run_id)
            return run_id
        if status == "RUNNING":
            with pytest.raises(KeyboardInterrupt):
                harness.run(self.agent, "dies")
            return harness.runs(status="RUNNING")[0].run_id
        return harness.run(self.agent, "fails" if status == "FAILED" else "pays").run_id


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def scene(request: pytest.FixtureRequest, harness: Harness, clock: StoppedClock) -> Scene:
    """The scene, with a plain and with an async agent."""
    return Scene(harness, clock, request.param)


# --- Cancelling. -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["QUEUED", "WAITING", "PAUSED", "FAILED"])
def test_a_run_that_nobody_drives_is_cancelled_at_once_and_for_good(scene: Scene, status: str) -> None:
    harness, run_id = scene.harness, scene.run_in(status)
    assert harness.show(run_id).run.status == status
    epoch = harness.show(run_id).run.epoch
    info = harness.cancel(run_id, by="ada", note="enough")
    assert (info.status, info.phase, info.epoch, info.owner, info.wake_at) == (
        "CANCELLED",
        "STOPPED",
        epoch + 1,
        None,
        None,
    )
    assert info == harness.show(run_id).run and harness.requests() == [] and harness.due() == []
    for act in (harness.resume, harness.cancel, harness.pause):
        with pytest.raises(RunEnded):
            act(run_id)
    assert scene.sent == []
    assert [line.what for line in harness.trace(run_id)].count("cancelled") == 1


@pytest.mark.parametrize("status", ["COMPLETED", "CANCELLED"])
def test_a_run_that_has_ended_takes_no_order(scene: Scene, status: str) -> None:
    harness, run_id = scene.harness, scene.run_in(status)
    before = harness.show(run_id)
    for act in (harness.cancel, harness.pause):
        with pytest.raises(RunEnded):
            act(run_id)
        with pytest.raises(RunEnded):
            act(run_id, wait=True)
    assert harness.show(run_id) == before


def test_a_run_whose_process_is_gone_is_cancelled_once_its_lease_has_run_out(scene: Scene) -> None:
    harness, run_id = scene.harness, scene.run_in("RUNNING")
    info = harness.cancel(run_id)
    assert (info.status, info.control, info.epoch) == ("RUNNING", "cancel", 1)
    scene.clock.move(DEFAULT_TTL + 0.001)
    assert harness.due() == [run_id]
    info = harness.cancel(run_id)
    assert (info.status, info.control, info.epoch) == ("CANCELLED", "cancel", 2)
    assert (states(harness), scene.sent) == ({"pay.1": "UNCERTAIN"}, [13])
    assert [view.asked.call_id for view in harness.requests()] == ["pay.1"]


@pytest.mark.parametrize("how", ["resume", "due"])
def test_an_order_to_a_process_that_is_gone_is_obeyed_by_whoever_takes_the_run_up(scene: Scene, how: str) -> None:
    harness, run_id = scene.harness, scene.run_in("RUNNING")
    harness.cancel(run_id)
    scene.clock.move(DEFAULT_TTL + 0.001)
    result = harness.resume(run_id) if how == "resume" else harness.resume_due()[0]
    assert (result.status, result.run_id, scene.sent) == ("CANCELLED", run_id, [13])
    with pytest.raises(RunFailed, match=f"run {run_id} is CANCELLED\n"):
        result.unwrap()


def test_waiting_for_a_process_that_is_gone_ends_with_its_lease(scene: Scene) -> None:
    harness, run_id = scene.harness, scene.run_in("RUNNING")
    told: list[float] = []

    def waiting(left: float) -> None:
        told.append(left)
        scene.clock.move(10)

    info = harness.cancel(run_id, wait=True, waiting=waiting)
    assert info.status == "CANCELLED"
    assert told == sorted(told, reverse=True) and 0 < told[-1] < told[0] <= DEFAULT_TTL


@pytest.mark.parametrize("happened", [True, False])
def test_a_verdict_on_a_cancelled_run_settles_the_call(scene: Scene, happened: bool) -> None:
    harness, run_id = scene.harness, scene.run_in("RUNNING")
    scene.clock.move(DEFAULT_TTL + 0.001)
    harness.cancel(run_id)
    with pytest.raises(UsageError):
        harness.resolve(run_id, "pay.1", Happened("thirteen"))
    harness.resolve(run_id, "pay.1", Happened(13) if happened else NotHappened(), by="ada")
    (call,) = harness.show(run_id).calls
    assert (call.state, call.result) == (("SUCCEEDED", 13) if happened else ("FAILED", None))
    assert harness.requests() == [] and harness.show(run_id).run.status == "CANCELLED"
    with pytest.raises(RequestNotFound, match="has been answered"):
        harness.resolve(run_id, "pay.1", NotHappened())
    assert harness.doctor().sound


def test_a_cancelled_run_asks_nothing_any_more_but_what_may_have_happened(scene: Scene) -> None:
    harness, run_id = scene.harness, scene.run_in("CANCELLED")
    assert states(harness, run_id) == {"ask.1": "AWAITING"}
    with pytest.raises(RequestNotFound):
        harness.answer(run_id, "ask.1", "yes")
    assert harness.show(run_id).waiting_on == ()


@both_kinds
def test_answers_already_given_are_carried_out_by_a_cancellation(
    harness: Harness, clock: StoppedClock, waits: bool
) -> None:
    sent: list[int] = []

    @harness.tool(effect="external", settle=0.0)
    def pay(cents: int) -> int:
        sent.append(cents)
        raise ConnectionError("cut")

    @harness.tool(effect="external", approval="always")
    def mail(text: str) -> str:
        sent.append(0)
        return text

    @scripted(harness, waits)
    def agent(run: Any, task: Any) -> Any:
        if task == "pay":
            return (yield run.call(pay, 5))
        return (yield run.gather(mail.bind("a"), mail.bind("b"), lambda: run.ask("c?"), lambda: run.ask("d?")))

    several = harness.run(agent, "several").run_id
    harness.reject(several, "gather:0.mail.1", note="no")
    harness.approve(several, "gather:1.mail.1")
    harness.answer(several, "gather:2.ask.1", {"c": 1})
    assert harness.cancel(several).status == "CANCELLED"
    found = {call.call_id: (call.state, call.result) for call in harness.show(several).calls}
    assert found == {
        "gather:0.mail.1": ("REJECTED", None),
        "gather:1.mail.1": ("AWAITING", None),
        "gather:2.ask.1": ("SUCCEEDED", {"c": 1}),
        "gather:3.ask.1": ("AWAITING", None),
    }
    assert sent == []
    for verdict, state in ((Happened(5), "SUCCEEDED"), (NotHappened(), "FAILED")):
        doubtful = harness.run(agent, "pay").run_id
        harness.resolve(doubtful, "pay.1", verdict)
        harness.cancel(doubtful)
        assert states(harness, doubtful) == {"pay.1": state}
    assert harness.requests() == [] and harness.doctor().sound


# --- Pausing. --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["QUEUED", "WAITING"])
def test_a_run_that_nobody_drives_is_paused_at_once_until_it_is_resumed(scene: Scene, status: str) -> None:
    harness, run_id = scene.harness, scene.run_in(status)
    info = harness.pause(run_id, by="ada", note="lunch")
    assert (info.status, info.control, info.owner) == ("PAUSED", "pause", None)
    before = harness.show(run_id)
    assert harness.pause(run_id) == info and harness.show(run_id) == before  # paused already
    assert harness.due() == [] and harness.resume_due() == [] and scene.sent == []
    result = harness.resume(run_id)
    assert result.status == ("COMPLETED" if status == "QUEUED" else "WAITING")
    assert harness.show(run_id).run.control == "none"


def test_a_paused_run_is_a_result_that_is_not_finished(scene: Scene) -> None:
    harness, run_id = scene.harness, scene.run_in("RUNNING")
    harness.pause(run_id)
    scene.clock.move(DEFAULT_TTL + 0.001)
    (result,) = harness.resume_due()
    assert (result.status, result.waiting_on, result.wake_at, result.error) == ("PAUSED", (), None, None)
    with pytest.raises(RunNotFinished, match="is PAUSED"):
        result.unwrap()


def test_a_failed_run_cannot_be_paused(scene: Scene) -> None:
    harness, run_id = scene.harness, scene.run_in("FAILED")
    before = harness.show(run_id)
    with pytest.raises(IllegalTransition):
        harness.pause(run_id)
    assert harness.show(run_id) == before
    scene.fails = False
    assert harness.resume(run_id).unwrap() == 5


def test_an_explicit_resume_clears_a_pause_that_nobody_has_obeyed(scene: Scene) -> None:
    harness, run_id = scene.harness, scene.run_in("RUNNING")
    assert harness.pause(run_id).control == "pause"
    scene.clock.move(DEFAULT_TTL + 0.001)
    result = harness.resume(run_id)
    assert asked(result) == [("pay.1", "resolve", 1)]
    harness.resolve(run_id, "pay.1", Happened(13))
    assert harness.resume(run_id).unwrap() == 13
    assert harness.show(run_id).run.control == "none"


def test_a_paused_run_asks_about_what_may_have_happened(scene: Scene) -> None:
    harness, run_id = scene.harness, scene.run_in("RUNNING")
    scene.clock.move(DEFAULT_TTL + 0.001)
    assert harness.pause(run_id).status == "PAUSED"
    assert [view.asked.call_id for view in harness.requests()] == ["pay.1"]
    harness.resolve(run_id, "pay.1", Happened(13))
    assert (harness.show(run_id).run.status, states(harness)) == ("PAUSED", {"pay.1": "UNCERTAIN"})
    assert harness.resume(run_id).unwrap() == 13
    assert scene.sent == [13]


# --- One after the other. --------------------------------------------------------------------------------------------


def test_control_only_rises(scene: Scene) -> None:
    harness, clock = scene.harness, scene.clock
    both, one = scene.run_in("RUNNING"), scene.run_in("WAITING")
    assert harness.pause(both).control == "pause"
    assert harness.cancel(both).control == "cancel"
    assert harness.pause(both).control == "cancel"
    harness.pause(one)
    assert harness.cancel(one).status == "CANCELLED"
    clock.move(DEFAULT_TTL + 0.001)
    assert harness.pause(both).status == "CANCELLED"  # whoever obeys does what was ordered last


def test_a_resume_clears_no_cancellation(scene: Scene) -> None:
    harness, run_id = scene.harness, scene.run_in("RUNNING")
    harness.pause(run_id)
    harness.cancel(run_id)
    scene.clock.move(DEFAULT_TTL + 0.001)
    assert harness.resume(run_id).status == "CANCELLED"


@in_memory
@pytest.mark.parametrize("run", ["nothing", "", "ffffffff", None, 5])
def test_an_order_to_no_run_is_refused(harness: Harness, run: Any) -> None:
    for act in (harness.cancel, harness.pause):
        with pytest.raises(RunNotFound):
            act(run)


# --- What goes on by itself. -----------------------------------------------------------------------------------------


def test_what_can_go_on_by_itself_is_queued_or_due_or_left_by_its_process(scene: Scene) -> None:
    harness, clock = scene.harness, scene.clock
    runs = {status: scene.run_in(status) for status in ("QUEUED", "WAITING", "PAUSED", "FAILED", "COMPLETED")}
    dead = scene.run_in("RUNNING")
    assert harness.due() == [runs["QUEUED"]]
    clock.move(DEFAULT_TTL + 0.001)
    assert sorted(harness.due()) == sorted([runs["QUEUED"], dead])
    assert harness.due(limit=1) == [harness.due()[0]]
    told: list[str] = []
    results = harness.resume_due(told=lambda result: told.append(result.run_id))
    assert {result.run_id: result.status for result in results} == {runs["QUEUED"]: "COMPLETED", dead: "WAITING"}
    assert told == [result.run_id for result in results]
    assert harness.resume_due() == [] and scene.sent == [5, 13, 5]
    harness.answer(runs["WAITING"], "ask.1", "yes")
    assert [result.output for result in harness.resume_due()] == ["yes"]
    for limit in (0, -1, None, "all"):
        with pytest.raises(UsageError):
            harness.due(limit=limit)  # type: ignore[arg-type]
        with pytest.raises(UsageError):
            harness.resume_due(limit=limit)  # type: ignore[arg-type]
