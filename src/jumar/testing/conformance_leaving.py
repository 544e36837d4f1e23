"""Leaving RUNNING, and answers to what a run waits for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jumar.core.changes import Guard
from jumar.core.phases import CLAIMABLE, STATUSES
from jumar.core.records import RequestRecord
from jumar.core.states import CallState, Control, ErrorClass, EventKind, Phase, RequestKind, Status, Verdict
from jumar.testing.conformance_advancing import laden
from jumar.testing.conformance_scene import AT, Scene, answering, changed
from jumar.testing.conformance_suite import Suite

_ENDINGS = [status for status in STATUSES[Status.RUNNING] if status is not Status.RUNNING]


class Leaving(Suite):
    """Further guards of an advance with an ending: no order and no answer has come, and nothing is STARTED."""

    @pytest.mark.parametrize("status", _ENDINGS, ids=lambda status: status.label)
    def test_leaving_gives_the_lease_back(self, scene: Scene, status: Status) -> None:
        run = scene.running()
        assert scene.ack(scene.leave(run, status)).version == 1
        after = scene.again(run)
        assert (after.status, after.owner, after.epoch, after.version) == (status, None, 1, 1)

    def test_leaving_keeps_how_it_ended(self, scene: Scene) -> None:
        run = scene.ended(
            Status.FAILED,
            error_class=ErrorClass.RATE_LIMITED,
            error_type="RateLimited",
            error_message="too many",
            output_digest=b"\x03" * 32,
        )
        told = (run.error_class, run.error_type, run.error_message, run.output_digest)
        assert told == (ErrorClass.RATE_LIMITED, "RateLimited", "too many", b"\x03" * 32)

    def test_waiting_keeps_what_is_waited_for(self, scene: Scene) -> None:
        run = scene.waiting(wake_at=AT + 5, waiting_on="scan.search.1")
        assert (run.status, run.wake_at, run.waiting_on) == (Status.WAITING, AT + 5, "scan.search.1")

    def test_the_rows_of_a_last_advance_land_with_it(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        ending = scene.leave(run, Status.COMPLETED).ending
        scene.ack(replace(laden(scene, run), phase=Phase.STOPPED, ending=ending))
        after, calls, checkpoints, requests, _ = scene.everything(run)
        assert (after.status, after.phase, after.version) == (Status.COMPLETED, Phase.STOPPED, 2)
        assert ([record.seq for record in calls], len(checkpoints), len(requests)) == ([1, 7], 2, 1)

    def test_a_call_that_is_started_keeps_the_run_from_leaving(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        before = scene.everything(run)
        change = replace(laden(scene, run), changes=(), ending=scene.leave(run, Status.QUEUED).ending)
        assert scene.refusal(change) is Guard.TRANSITION
        assert scene.everything(run) == before
        assert scene.store.artifact(run.run_no, change.artifacts[0].digest) is None

    @pytest.mark.parametrize("state", sorted(set(CallState) - {CallState.STARTED}), ids=lambda state: state.label)
    def test_a_call_in_any_other_state_does_not(self, scene: Scene, state: CallState) -> None:
        run = scene.call_in(scene.running(), state)
        scene.ack(scene.leave(run, Status.WAITING))
        assert scene.again(run).status is Status.WAITING

    def test_a_call_that_is_uncertain_keeps_the_run_from_being_completed(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.UNCERTAIN)
        before = scene.everything(run)
        assert scene.refusal(scene.leave(run, Status.COMPLETED)) is Guard.TRANSITION
        assert scene.everything(run) == before

    def test_a_call_that_ends_in_the_same_advance_does_not(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        leaving = scene.leave(run, Status.QUEUED)
        scene.ack(replace(leaving, changes=(changed(1, CallState.FAILED),)))
        assert scene.again(run).status is Status.QUEUED

    def test_an_answer_that_came_in_between_refuses_the_leaving_and_nothing_else(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.UNCERTAIN)
        run = scene.asked(run, "r1")
        scene.ack(answering(run, "r1"))
        before = scene.everything(run)
        leaving = scene.leave(run, Status.WAITING)
        assert scene.refusal(leaving) is Guard.NEWS
        assert scene.everything(run) == before
        ack = scene.ack(scene.advance(run))
        assert (ack.version, ack.answers) == (run.version + 1, 1)
        scene.ack(scene.leave(scene.again(run), Status.WAITING))

    def test_the_refusal_shows_the_run_with_the_news(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(answering(run, "r1"))
        refusal = scene.write(scene.leave(run, Status.WAITING))
        assert getattr(refusal, "run", None) == scene.again(run)

    def test_an_order_that_the_driver_has_not_seen_refuses_the_leaving(self, scene: Scene) -> None:
        run = scene.running()
        assert scene.refusal(replace(scene.leave(run, Status.QUEUED), control=Control.PAUSE)) is Guard.NEWS
        assert scene.again(run) == run

    def test_leaving_is_guarded_by_owner_epoch_version_and_lease_too(self, scene: Scene) -> None:
        run = scene.running()
        leaving = scene.leave(run, Status.QUEUED)
        for wrong, guard in (
            ({"owner": "bob"}, Guard.LEASE),
            ({"epoch": 2}, Guard.LEASE),
            ({"version": 1}, Guard.VERSION),
            ({"phase": Phase.VERIFYING}, Guard.TRANSITION),
        ):
            assert scene.refusal(replace(leaving, **wrong)) is guard
            assert scene.again(run) == run
        expired = scene.abandoned()
        assert scene.refusal(scene.leave(expired, Status.QUEUED)) is Guard.LEASE

    def test_a_run_is_left_once(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.leave(run, Status.QUEUED))
        left = scene.again(run)
        assert scene.refusal(replace(scene.leave(run, Status.FAILED), version=1)) is Guard.LEASE
        assert scene.again(run) == left


class Answering(Suite):
    """Guards: the request is open; where an epoch is given, the run's epoch is still that one."""

    def test_a_request_is_kept_as_it_was_asked(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1", seq=4, attempt=2)
        assert scene.store.requests(run.run_no) == [RequestRecord("r1", 4, "scan.search.4", 2, RequestKind.RESOLVE, AT)]

    def test_asking_twice_about_one_attempt_is_asking_once(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        run = scene.asked(run, "r1")
        assert [request.request_id for request in scene.store.requests(run.run_no)] == ["r1"]

    def test_requests_come_oldest_first_and_answered_ones_stay(self, scene: Scene) -> None:
        run = scene.running()
        for name, seq in (("z", 9), ("a", 1), ("m", 4)):
            run = scene.asked(run, name, seq)
        scene.ack(answering(run, "z"))
        assert [request.request_id for request in scene.store.requests(run.run_no)] == ["z", "a", "m"]

    def test_an_answer_is_kept(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(answering(run, "r1", verdict=Verdict.NOT_HAPPENED, value=None, by="kim", note="saw no email"))
        request = scene.store.requests(run.run_no)[0]
        told = (request.verdict, request.value, request.by, request.note, request.answered_at)
        assert told == (Verdict.NOT_HAPPENED, None, "kim", "saw no email", AT + 9)

    def test_a_request_is_answered_once(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(answering(run, "r1"))
        before = scene.everything(run)
        assert scene.refusal(answering(run, "r1", verdict=Verdict.NOT_HAPPENED)) is Guard.ANSWERED
        assert scene.everything(run) == before

    def test_what_was_never_asked_cannot_be_answered(self, scene: Scene) -> None:
        run, other = scene.asked(scene.running(), "r1"), scene.running()
        before = scene.everything(run)
        assert scene.refusal(answering(run, "r2")) is Guard.ANSWERED
        assert scene.refusal(answering(other, "r1")) is Guard.ANSWERED
        assert scene.everything(run) == before

    def test_an_answer_adds_one_to_the_answers_of_a_run_and_no_version(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        ack = scene.ack(answering(run, "r1"))
        after = scene.again(run)
        assert (ack.answers, ack.version, ack.epoch) == (1, run.version, run.epoch)
        assert replace(after, answers=0, updated_at=run.updated_at) == run

    def test_an_answer_wakes_a_run_that_waits(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(scene.leave(run, Status.WAITING, wake_at=AT + 99, waiting_on="scan.search.1"))
        scene.ack(answering(run, "r1"))
        after = scene.again(run)
        assert (after.status, after.wake_at, after.waiting_on, after.answers) == (Status.QUEUED, None, None, 1)
        assert scene.claimed(scene.claim(run)).run.answers == 1

    @pytest.mark.parametrize("status", sorted(CLAIMABLE - {Status.WAITING}), ids=lambda status: status.label)
    def test_an_answer_leaves_any_other_status_alone(self, scene: Scene, status: Status) -> None:
        run = scene.asked(scene.running(), "r1")
        if status is not Status.RUNNING:
            scene.ack(scene.leave(run, status))
        scene.ack(answering(run, "r1"))
        assert (scene.again(run).status, scene.again(run).answers) == (status, 1)

    def test_a_late_result_of_this_epoch_is_taken(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(answering(run, "r1", epoch=1))
        assert scene.store.requests(run.run_no)[0].verdict is Verdict.HAPPENED

    def test_a_late_result_of_an_older_epoch_is_not(self, scene: Scene) -> None:
        run = scene.asked(scene.running("ann"), "r1")
        scene.ack(scene.advance(run, ttl_ms=0))
        scene.until_expired(scene.again(run))
        scene.claimed(scene.claim(run, "bob"))
        before = scene.everything(run)
        assert scene.refusal(answering(run, "r1", epoch=1)) is Guard.ANSWERED
        assert scene.everything(run) == before
        scene.ack(answering(run, "r1"))

    def test_a_late_result_outweighs_what_somebody_believed(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(answering(run, "r1", verdict=Verdict.NOT_HAPPENED, value=None))
        scene.ack(answering(run, "r1", epoch=1, by="the attempt"))
        request = scene.store.requests(run.run_no)[0]
        assert (request.verdict, request.value, request.by) == (Verdict.HAPPENED, b'"paid"', "the attempt")
        assert scene.again(run).answers == 2

    def test_a_late_result_does_not_outweigh_another_result(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(answering(run, "r1"))
        before = scene.everything(run)
        assert scene.refusal(answering(run, "r1", epoch=1, value=b'"other"')) is Guard.ANSWERED
        assert scene.everything(run) == before

    def test_the_trace_tells_of_answers(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1", seq=4)
        scene.ack(answering(run, "r1"))
        event = scene.store.events(run.run_no)[-1]
        assert (event.kind, event.call_seq, event.detail) == (EventKind.ANSWERED, 4, "happened")
