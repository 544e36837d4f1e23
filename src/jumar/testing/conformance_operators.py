"""What people do to a run from outside: orders, and verdicts on a run that nobody drives any more."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Ack, Guard, Refusal
from jumar.core.phases import CLAIMABLE, FINAL
from jumar.core.records import RunRecord
from jumar.core.states import CallState, Control, EventKind, Status, Verdict
from jumar.testing.conformance_scene import AT, Scene, answering, call, changed, taking
from jumar.testing.conformance_suite import Suite

_ORDERS = (Control.PAUSE, Control.CANCEL)
_FINAL = pytest.mark.parametrize("status", sorted(FINAL), ids=lambda status: status.label)


class Ordering(Suite):
    """Guard: the run exists and has not ended for good.  Control only rises."""

    @pytest.mark.parametrize("control", _ORDERS, ids=lambda control: control.label)
    def test_an_order_raises_the_control_of_a_run_and_touches_nothing_else(
        self, scene: Scene, control: Control
    ) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        before = scene.everything(run)
        ack = scene.ack(scene.order(run, control, at=AT + 8))
        assert ack == Ack(run.run_no, run.version, run.epoch, control, run.answers)
        after = scene.everything(run)
        assert after[0] == replace(run, control=control, updated_at=AT + 8, ordered_by="kim", order_note=None)
        assert (after[1:4], after[4][:-1]) == (before[1:4], before[4])

    @pytest.mark.parametrize("status", sorted(CLAIMABLE), ids=lambda status: status.label)
    def test_a_run_of_any_status_that_is_not_final_takes_an_order(self, scene: Scene, status: Status) -> None:
        run = scene.running() if status is Status.RUNNING else scene.ended(status)
        scene.ack(scene.order(run, Control.CANCEL))
        after = scene.again(run)
        assert (after.status, after.control) == (status, Control.CANCEL)

    @_FINAL
    def test_a_finished_run_takes_no_order(self, scene: Scene, status: Status) -> None:
        run = scene.ended(status)
        before = scene.everything(run)
        assert scene.refusal(scene.order(run, Control.CANCEL)) is Guard.ENDED
        assert scene.everything(run) == before

    def test_an_order_to_an_unknown_run_is_not_found(self, scene: Scene) -> None:
        assert scene.refusal(scene.order(scene.new_id(), Control.PAUSE)) is Guard.NOT_FOUND

    @pytest.mark.parametrize(("first", "second"), [(one, two) for one in _ORDERS for two in _ORDERS])
    def test_control_never_falls_by_an_order(self, scene: Scene, first: Control, second: Control) -> None:
        run = scene.running()
        scene.ack(scene.order(run, first))
        assert scene.ack(scene.order(run, second)).control == max(first, second)
        assert scene.again(run).control is max(first, second)

    def test_who_gave_the_order_that_counts_is_kept_with_the_note(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.order(run, Control.PAUSE, by="ana", note="lunch"))
        assert (scene.again(run).ordered_by, scene.again(run).order_note) == ("ana", "lunch")
        scene.ack(scene.order(run, Control.CANCEL, by="kim", note="enough"))
        scene.ack(scene.order(run, Control.PAUSE, by="ana", note="too late"))
        assert (scene.again(run).ordered_by, scene.again(run).order_note) == ("kim", "enough")

    def test_an_order_reaches_its_own_run_only(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.order(run, Control.CANCEL))
        assert scene.again(other) == other

    def test_the_owner_hears_of_an_order_with_its_next_advance_and_with_its_renewal(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.order(run, Control.PAUSE))
        ack = scene.ack(scene.advance(run))
        assert (ack.version, ack.control) == (1, Control.PAUSE)

    def test_a_run_is_not_left_past_an_order_that_its_owner_has_not_heard_of(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.order(run, Control.CANCEL))
        assert scene.refusal(scene.leave(run, Status.COMPLETED)) is Guard.NEWS
        scene.ack(scene.leave(scene.again(run), Status.CANCELLED))

    def test_the_trace_tells_of_orders_under_the_epoch_they_came_in(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.order(run, Control.PAUSE, at=AT + 3))
        event = scene.store.events(run.run_no)[-1]
        assert (event.kind, event.at, event.epoch, event.detail) == (EventKind.ORDERED, AT + 3, 1, "pause")

    def test_an_order_whose_ack_was_lost_is_found_by_the_control_it_asked_for(self, scene: Scene) -> None:
        run = scene.running()
        pause, cancel = scene.order(run, Control.PAUSE), scene.order(run, Control.CANCEL)
        assert scene.store.read_back(pause) is None
        ack = scene.ack(pause)
        assert scene.store.read_back(pause) == ack
        assert scene.store.read_back(cancel) is None
        ack = scene.ack(cancel)
        assert scene.store.read_back(pause) == scene.store.read_back(cancel) == ack

    def test_an_order_to_an_unknown_run_is_found_nowhere(self, scene: Scene) -> None:
        found = scene.store.read_back(scene.order(scene.new_id(), Control.PAUSE))
        assert isinstance(found, Refusal)
        assert found.guard is Guard.NOT_FOUND


class Settling(Suite):
    """What an answer makes of its call is carried out where the run has ended for good, and nowhere else."""

    @_FINAL
    def test_a_verdict_on_a_finished_run_settles_the_call_it_is_about(self, scene: Scene, status: Status) -> None:
        run = self._asked_about(scene, status)
        rejected = changed(1, CallState.REJECTED, ended_at=AT + 9, checksum=3)
        ack = scene.ack(answering(run, "r1", verdict=Verdict.REJECT, value=None, settles=rejected))
        assert (ack.version, ack.answers) == (run.version, 1)
        [record] = scene.store.calls(run.run_no)
        told = (record.state, record.ended_at, record.checksum, record.ended_version)
        assert told == (CallState.REJECTED, AT + 9, 3, run.version)
        assert scene.again(run) == replace(run, answers=1, updated_at=AT + 9)

    def test_what_was_uncertain_when_a_run_was_cancelled_is_settled_with_its_result(self, scene: Scene) -> None:
        run = self._asked_about(scene, Status.CANCELLED, CallState.UNCERTAIN)
        happened = changed(1, CallState.SUCCEEDED, result=b'"paid"', ended_at=AT + 9)
        scene.ack(answering(run, "r1", settles=happened))
        [record] = scene.store.calls(run.run_no)
        assert (record.state, record.result) == (CallState.SUCCEEDED, b'"paid"')

    @pytest.mark.parametrize("status", sorted(CLAIMABLE), ids=lambda status: status.label)
    def test_a_verdict_on_any_other_run_is_left_to_its_driver(self, scene: Scene, status: Status) -> None:
        run = self._asked_about(scene, status)
        calls = scene.store.calls(run.run_no)
        scene.ack(self._rejecting(run))
        assert scene.store.calls(run.run_no) == calls
        assert scene.holder(run, "pay:7") == (run.run_id, 1)
        assert scene.store.requests(run.run_no)[0].verdict is Verdict.REJECT

    @_FINAL
    def test_the_name_of_a_settled_call_is_given_up_where_the_answer_says_so(
        self, scene: Scene, status: Status
    ) -> None:
        run = self._asked_about(scene, status)
        scene.ack(self._rejecting(run))
        assert scene.holder(run, "pay:7") is None

    def test_the_name_is_kept_where_the_answer_says_nothing_of_it(self, scene: Scene) -> None:
        run = self._asked_about(scene, Status.CANCELLED)
        scene.ack(replace(self._rejecting(run), frees=False))
        assert scene.holder(run, "pay:7") == (run.run_id, 1)

    def test_a_name_may_be_given_up_though_nothing_is_settled(self, scene: Scene) -> None:
        run = self._asked_about(scene, Status.CANCELLED)
        scene.ack(replace(self._rejecting(run), settles=None))
        assert scene.holder(run, "pay:7") is None

    def test_only_the_call_that_was_asked_about_gives_up_its_name(self, scene: Scene) -> None:
        other = scene.running()
        scene.ack(scene.starting(other, "pay:8"))
        run = self._asked_about(scene, Status.CANCELLED)
        scene.ack(self._rejecting(run))
        assert scene.holder(run, "pay:8") == (other.run_id, 1)

    def test_a_call_whose_state_does_not_allow_it_stays_and_keeps_its_name_and_the_answer_stands(
        self, scene: Scene
    ) -> None:
        run = self._asked_about(scene, Status.CANCELLED, CallState.SUCCEEDED)
        calls = scene.store.calls(run.run_no)
        scene.ack(self._rejecting(run))
        assert scene.store.calls(run.run_no) == calls
        assert scene.holder(run, "pay:7") == (run.run_id, 1)
        assert scene.store.requests(run.run_no)[0].verdict is Verdict.REJECT

    def test_an_answer_that_is_refused_settles_nothing(self, scene: Scene) -> None:
        run = self._asked_about(scene, Status.CANCELLED)
        scene.ack(answering(run, "r1"))
        before = scene.everything(run)
        assert scene.refusal(self._rejecting(run)) is Guard.ANSWERED
        assert scene.everything(run) == before
        assert scene.holder(run, "pay:7") == (run.run_id, 1)

    @staticmethod
    def _asked_about(scene: Scene, status: Status, state: CallState = CallState.AWAITING) -> RunRecord:
        """A run of this status with an open request about its call 1, which holds the name pay:7."""
        run = scene.running()
        start = scene.starting(run, "pay:7")
        record: Any = call(1, state, identity="pay:7", identity_scope=start.takes[0].scope)
        scene.ack(replace(start, calls=(record,), takes=(taking(1, "pay:7"),)))
        run = scene.asked(scene.again(run), "r1")
        if status is not Status.RUNNING:
            scene.ack(scene.leave(run, status))
        return scene.again(run)

    @staticmethod
    def _rejecting(run: RunRecord) -> Any:
        settles = changed(1, CallState.REJECTED, ended_at=AT + 9)
        return answering(run, "r1", verdict=Verdict.REJECT, value=None, settles=settles, frees=True)
