"""Taking a run up again: before its time, out of a pause, where it failed, or in the middle of a decision."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Guard
from jumar.core.records import RunRecord
from jumar.core.states import CallState, Control, Effect, EventKind, Phase, Status, mask
from jumar.testing.conformance_scene import AT, Scene, call, changed
from jumar.testing.conformance_suite import Suite

_OPEN_DECISION = (Phase.DECISION_RECORDED, Phase.AWAITING_RESULTS)
_OTHER_PHASES = [phase for phase in Phase if phase not in _OPEN_DECISION]


class Resuming(Suite):
    """What a claim may say beyond whose it is: `early`, `resumes`, `epoch` and `reopens`."""

    @pytest.mark.parametrize("wake_at", [None, AT + 10])
    def test_an_early_claim_does_not_wait_for_the_time(self, scene: Scene, wake_at: int | None) -> None:
        run = scene.waiting(wake_at=wake_at, waiting_on="scan.search.1")
        assert scene.refusal(scene.claim(run)) is Guard.NOT_DUE
        claimed = scene.claimed(scene.claim(run, early=True)).run
        assert (claimed.status, claimed.wake_at, claimed.waiting_on) == (Status.RUNNING, None, None)

    def test_an_early_claim_is_held_to_every_other_guard(self, scene: Scene) -> None:
        held, finished, waiting = scene.running(), scene.ended(Status.COMPLETED), scene.waiting()
        assert scene.refusal(scene.claim(held, early=True)) is Guard.HELD
        assert scene.refusal(scene.claim(finished, early=True)) is Guard.ENDED
        assert scene.refusal(scene.claim(waiting, early=True, statuses=mask(Status.QUEUED))) is Guard.TRANSITION

    @pytest.mark.parametrize("control", [Control.PAUSE, Control.CANCEL], ids=lambda control: control.label)
    @pytest.mark.parametrize("wake_at", [None, AT + 10], ids=str)
    def test_a_run_that_waits_and_was_ordered_to_stop_is_claimed_before_its_time(
        self, scene: Scene, wake_at: int | None, control: Control
    ) -> None:
        run, resumed = (scene.waiting(wake_at=wake_at, waiting_on="scan.search.1") for _ in range(2))
        for each in (run, resumed):
            scene.ack(scene.order(each, control))
        claimed = scene.claimed(scene.claim(run)).run
        told = (claimed.status, claimed.control, claimed.wake_at, claimed.waiting_on)
        assert told == (Status.RUNNING, control, None, None)
        again = scene.claimed(scene.claim(resumed, resumes=True)).run
        assert again.control is (Control.NONE if control is Control.PAUSE else control)

    def test_a_run_that_was_ordered_to_stop_is_held_to_every_other_guard(self, scene: Scene) -> None:
        held, waiting = scene.running(), scene.waiting(wake_at=AT + 10)
        for run in (held, waiting):
            scene.ack(scene.order(run, Control.CANCEL))
        before = scene.everything(waiting)
        assert scene.refusal(scene.claim(held)) is Guard.HELD
        assert scene.refusal(scene.claim(waiting, statuses=mask(Status.QUEUED))) is Guard.TRANSITION
        assert scene.refusal(scene.claim(waiting, epoch=7)) is Guard.VERSION
        assert scene.everything(waiting) == before

    @pytest.mark.parametrize("control", Control, ids=lambda control: control.label)
    def test_a_claim_leaves_an_order_standing(self, scene: Scene, control: Control) -> None:
        run = self._ordered(scene, control)
        assert scene.claimed(scene.claim(run)).run.control is control

    def test_a_claim_that_resumes_ends_a_pause(self, scene: Scene) -> None:
        run = self._ordered(scene, Control.PAUSE)
        claimed = scene.claimed(scene.claim(run, resumes=True)).run
        assert claimed.control is Control.NONE
        assert scene.again(run) == claimed

    def test_a_claim_that_resumes_does_not_undo_a_cancellation(self, scene: Scene) -> None:
        run = self._ordered(scene, Control.CANCEL)
        assert scene.claimed(scene.claim(run, resumes=True)).run.control is Control.CANCEL

    def test_a_refused_claim_ends_no_pause(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.order(run, Control.PAUSE))
        assert scene.refusal(scene.claim(run, resumes=True)) is Guard.HELD
        assert scene.again(run).control is Control.PAUSE

    def test_a_claim_of_a_run_as_it_stood_under_its_epoch_is_made(self, scene: Scene) -> None:
        run = scene.ended(Status.FAILED)
        assert scene.claimed(scene.claim(run, epoch=1)).run.epoch == 2

    @pytest.mark.parametrize("epoch", [0, 2])
    def test_a_claim_of_a_run_as_it_stood_under_another_epoch_is_refused(self, scene: Scene, epoch: int) -> None:
        run = self._failed(scene)
        before = scene.everything(run)
        claim = scene.claim(run, epoch=epoch, reopens=(changed(1, CallState.PLANNED),))
        assert scene.refusal(claim) is Guard.VERSION
        assert scene.everything(run) == before

    def test_a_failed_run_keeps_the_numbers_of_the_calls_it_failed_with_until_it_is_taken_up(
        self, scene: Scene
    ) -> None:
        run = scene.ended(Status.FAILED, failed_calls=(2, 17, 3))
        assert run.failed_calls == (2, 17, 3)
        assert scene.claimed(scene.claim(run)).run.failed_calls == ()
        assert scene.again(run).failed_calls == ()

    def test_a_failed_run_may_have_failed_with_no_call(self, scene: Scene) -> None:
        assert scene.ended(Status.FAILED).failed_calls == ()

    def test_a_reopened_call_is_planned_again_with_its_attempts_and_without_its_failure(self, scene: Scene) -> None:
        run = self._failed(scene)
        before = scene.store.calls(run.run_no)
        again = changed(1, CallState.PLANNED, attempt=3, epoch=2, checksum=5)
        claimed = scene.claimed(scene.claim(run, epoch=1, reopens=(again,), at=AT + 7))
        assert claimed.uncertain == 0
        first, second = scene.store.calls(run.run_no)
        assert (first.state, first.attempt, first.epoch, first.failure) == (CallState.PLANNED, 3, 2, None)
        assert (first.ended_at, first.checksum, first.result) == (None, 5, None)
        assert second == before[1]
        event = scene.store.events(run.run_no)[-1]
        assert (event.kind, event.call_seq, event.epoch, event.at) == (EventKind.REOPENED, 1, 2, AT + 7)

    @pytest.mark.parametrize(
        "wrong",
        [changed(2, CallState.PLANNED), changed(9, CallState.PLANNED), changed(1, CallState.REJECTED)],
        ids=["succeeded", "not-there", "rejected"],
    )
    def test_a_call_whose_state_does_not_allow_it_is_not_reopened_nor_the_run_taken_up(
        self, scene: Scene, wrong: Any
    ) -> None:
        run = self._failed(scene)
        before = scene.everything(run)
        reopens = (changed(1, CallState.PLANNED), wrong)
        assert scene.refusal(scene.claim(run, reopens=reopens)) is Guard.TRANSITION
        assert scene.everything(run) == before

    def test_calls_are_reopened_after_others_are_marked(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        scene.ack(scene.advance(run, ttl_ms=0))
        scene.until_expired(scene.again(run))
        claimed = scene.claimed(scene.claim(run, reopens=(changed(1, CallState.PLANNED),)))
        assert claimed.uncertain == 1
        assert [record.state for record in scene.store.calls(run.run_no)] == [CallState.PLANNED]
        kinds = [event.kind for event in scene.store.events(run.run_no)]
        assert kinds[-2:] == [EventKind.CALL_UNCERTAIN, EventKind.REOPENED]

    @staticmethod
    def _ordered(scene: Scene, control: Control) -> RunRecord:
        """A paused run with an order standing."""
        run = scene.ended(Status.PAUSED)
        if control is not Control.NONE:
            scene.ack(scene.order(run, control))
        return scene.again(run)

    @staticmethod
    def _failed(scene: Scene) -> RunRecord:
        """A failed run whose call 1 failed and whose call 2 succeeded."""
        run = scene.running()
        calls = (call(1, CallState.FAILED, attempt=3), call(2))
        scene.ack(replace(scene.leave(run, Status.FAILED, failed_calls=(1,)), calls=calls))
        return scene.again(run)


class OpenDecisions(Suite):
    """A read that an open decision planned may have been made by a driver that is gone, and is counted as if it was."""

    @pytest.mark.parametrize("phase", _OPEN_DECISION, ids=lambda phase: phase.label)
    def test_a_planned_read_of_an_open_decision_is_uncertain_and_its_attempt_counted(
        self, scene: Scene, phase: Phase
    ) -> None:
        run = self._planned(scene, phase, Effect.READ, attempt=4)
        before = scene.store.calls(run.run_no)
        claimed = scene.claimed(scene.claim(run, "bob"))
        assert claimed.uncertain == 1
        expected = replace(before[0], state=CallState.UNCERTAIN, attempt=5)
        assert scene.store.calls(run.run_no) == [expected]

    @pytest.mark.parametrize("phase", _OTHER_PHASES, ids=lambda phase: phase.label)
    def test_a_planned_read_stays_planned_in_any_other_phase(self, scene: Scene, phase: Phase) -> None:
        run = self._planned(scene, phase, Effect.READ)
        before = scene.store.calls(run.run_no)
        assert scene.claimed(scene.claim(run, "bob")).uncertain == 0
        assert scene.store.calls(run.run_no) == before

    @pytest.mark.parametrize("effect", [Effect.WRITE, Effect.IDEMPOTENT, Effect.EXTERNAL], ids=lambda each: each.label)
    def test_a_planned_call_of_another_effect_was_surely_not_made(self, scene: Scene, effect: Effect) -> None:
        run = self._planned(scene, Phase.AWAITING_RESULTS, effect)
        before = scene.store.calls(run.run_no)
        assert scene.claimed(scene.claim(run, "bob")).uncertain == 0
        assert scene.store.calls(run.run_no) == before

    def test_reads_in_any_other_state_stay_as_they_are_and_a_started_call_keeps_its_attempt(self, scene: Scene) -> None:
        run = scene.running(phase=Phase.DECISION_RECORDED)
        for seq, state in enumerate(CallState, 1):
            run = scene.call_in(run, state, seq, effect=Effect.READ)
        before = scene.store.calls(run.run_no)
        scene.ack(scene.advance(run, ttl_ms=0))
        scene.until_expired(scene.again(run))
        assert scene.claimed(scene.claim(run, "bob")).uncertain == 2
        expected = {CallState.PLANNED: (CallState.UNCERTAIN, 2), CallState.STARTED: (CallState.UNCERTAIN, 1)}
        after = [(record.state, record.attempt) for record in scene.store.calls(run.run_no)]
        assert after == [expected.get(record.state, (record.state, record.attempt)) for record in before]

    def test_a_second_takeover_finds_them_uncertain_and_counts_nothing_more(self, scene: Scene) -> None:
        run = self._planned(scene, Phase.AWAITING_RESULTS, Effect.READ)
        scene.until_expired(scene.claimed(scene.claim(run, "bob", ttl_ms=0)).run)
        before = scene.store.calls(run.run_no)
        assert scene.claimed(scene.claim(run, "cal")).uncertain == 0
        assert scene.store.calls(run.run_no) == before

    def test_the_trace_tells_of_them_in_the_order_of_their_numbers(self, scene: Scene) -> None:
        run = scene.running(phase=Phase.AWAITING_RESULTS)
        calls = (
            call(1, CallState.PLANNED, effect=Effect.READ),
            call(2, CallState.STARTED),
            call(3, CallState.PLANNED, effect=Effect.READ),
        )
        scene.ack(scene.advance(run, calls=calls, ttl_ms=0))
        scene.until_expired(scene.again(run))
        scene.claimed(scene.claim(run, "bob", at=AT + 2))
        told = [(event.kind, event.call_seq, event.detail) for event in scene.store.events(run.run_no)[-3:]]
        kind = EventKind.CALL_UNCERTAIN
        assert told == [(kind, 1, "attempt 2"), (kind, 2, "attempt 1"), (kind, 3, "attempt 2")]

    def test_a_takeover_leaves_the_reads_of_other_runs_alone(self, scene: Scene) -> None:
        other = self._planned(scene, Phase.AWAITING_RESULTS, Effect.READ)
        before = scene.everything(other)
        scene.claimed(scene.claim(self._planned(scene, Phase.AWAITING_RESULTS, Effect.READ), "bob"))
        assert scene.everything(other) == before

    @staticmethod
    def _planned(scene: Scene, phase: Phase, effect: Effect, **fields: Any) -> RunRecord:
        """A run that was abandoned with one planned call; a run that stopped can only be left, not advanced."""
        run = scene.running(phase=Phase.IN_CODE if phase is Phase.STOPPED else phase)
        record = call(1, CallState.PLANNED, effect=effect, **fields)
        if phase is Phase.STOPPED:
            scene.ack(replace(scene.leave(run, Status.FAILED), phase=phase, calls=(record,)))
            return scene.again(run)
        scene.ack(scene.advance(run, calls=(record,), ttl_ms=0))
        scene.until_expired(scene.again(run))
        return scene.again(run)
