"""Looking for something in particular: what can go on, what waits for somebody, one call among many."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.phases import FINAL
from jumar.core.records import RequestRecord, RunRecord
from jumar.core.states import CallKind, CallState, Control, RequestKind, Status, Verdict
from jumar.testing.conformance_scene import AT, Scene, answering, asking, call
from jumar.testing.conformance_suite import Suite


class Due(Suite):
    """Runs that can go on without anybody: those that wait although they were ordered to stop, those whose time has
    come, those whose lease has run out, and, after all that has begun, queued ones.
    """

    def test_nothing_is_due_in_an_empty_store(self, scene: Scene) -> None:
        assert scene.store.due(AT, 10) == []

    def test_each_kind_comes_oldest_first(self, scene: Scene) -> None:
        late, early = scene.waiting(wake_at=AT + 2), scene.waiting(wake_at=AT + 1)
        first_lost, first = scene.abandoned(), scene.queued()
        first_ordered, second_ordered = (
            self._waiting_under_orders(scene, Control.CANCEL),
            self._waiting_under_orders(scene, Control.PAUSE),
        )
        second_lost, second = scene.abandoned(), scene.ended(Status.QUEUED)
        expected = [first_ordered, second_ordered, early, late, first_lost, second_lost, first, second]
        assert scene.store.due(AT + 2, 10) == [run.run_id for run in expected]

    def test_runs_whose_time_came_at_once_come_oldest_first(self, scene: Scene) -> None:
        runs = [scene.waiting(wake_at=AT) for _ in range(3)]
        assert scene.store.due(AT, 10) == [run.run_id for run in runs]

    @pytest.mark.parametrize("limit", range(9))
    def test_at_most_so_many_come(self, scene: Scene, limit: int) -> None:
        for _ in range(2):
            scene.queued()
            scene.waiting(wake_at=AT)
            self._waiting_under_orders(scene, Control.PAUSE, wake_at=AT - 1)
            scene.abandoned()
        whole = scene.store.due(AT, 10)
        assert len(whole) == 8
        assert scene.store.due(AT, limit) == whole[:limit]

    def test_a_run_that_waits_is_due_when_its_time_has_come_and_not_before(self, scene: Scene) -> None:
        run = scene.waiting(wake_at=AT + 5)
        assert scene.store.due(AT + 4, 10) == []
        assert scene.store.due(AT + 5, 10) == [run.run_id]

    def test_a_run_that_waits_for_somebody_is_due_once_it_is_answered(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(scene.leave(run, Status.WAITING))
        assert scene.store.due(AT * 10, 10) == []
        scene.ack(answering(run, "r1"))
        assert scene.store.due(AT, 10) == [run.run_id]

    @pytest.mark.parametrize("control", [Control.PAUSE, Control.CANCEL], ids=lambda control: control.label)
    @pytest.mark.parametrize("wake_at", [None, AT, AT + 9], ids=str)
    def test_a_run_that_waits_is_due_once_it_is_ordered_to_stop_and_is_named_once(
        self, scene: Scene, wake_at: int | None, control: Control
    ) -> None:
        other, run = scene.waiting(wake_at=wake_at), scene.waiting(wake_at=wake_at)
        scene.ack(scene.order(run, control))
        assert scene.store.due(AT, 10) == ([run.run_id, other.run_id] if wake_at == AT else [run.run_id])
        scene.claimed(scene.claim(run))
        assert run.run_id not in scene.store.due(AT, 10)

    def test_a_run_under_a_live_lease_is_not_due(self, scene: Scene) -> None:
        scene.running()
        scene.claimed(scene.claim(scene.queued()))
        scene.ack(scene.order(scene.running(), Control.CANCEL))
        assert scene.store.due(AT, 10) == []

    @pytest.mark.parametrize(
        "status", [Status.PAUSED, Status.FAILED, Status.COMPLETED, Status.CANCELLED], ids=lambda status: status.label
    )
    def test_a_run_that_goes_on_only_by_somebodys_word_is_not_due(self, scene: Scene, status: Status) -> None:
        scene.ended(status, wake_at=AT)
        assert scene.store.due(AT, 10) == []

    @pytest.mark.parametrize("control", [Control.PAUSE, Control.CANCEL], ids=lambda control: control.label)
    def test_a_run_that_has_obeyed_is_not_due_though_its_order_is_kept(self, scene: Scene, control: Control) -> None:
        run = scene.running()
        scene.ack(scene.order(run, control))
        obeyed = Status.CANCELLED if control is Control.CANCEL else Status.PAUSED
        scene.ack(scene.leave(scene.again(run), obeyed))
        assert scene.again(run).control is control
        assert scene.store.due(AT, 10) == []

    @staticmethod
    def _waiting_under_orders(scene: Scene, control: Control, wake_at: int | None = None) -> RunRecord:
        """A run that waits, and an order that nobody has obeyed."""
        run = scene.waiting(wake_at=wake_at)
        scene.ack(scene.order(run, control))
        return scene.again(run)


class OpenRequests(Suite):
    """What waits for somebody, in all runs that have not ended, oldest first."""

    def test_a_request_is_kept_with_all_it_was_given(self, scene: Scene) -> None:
        run = scene.running()
        given = RequestRecord("r1", 4, "scan.ask.4", 2, RequestKind.ASK, AT, expires_at=AT + 60_000)
        scene.ack(scene.advance(run, requests=(given,)))
        assert scene.store.requests(run.run_no) == [given]
        assert scene.store.open_requests(10) == [(run.run_id, given)]

    def test_a_request_keeps_its_expiry_when_it_is_answered(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, requests=(replace(asking("r1"), expires_at=AT + 60_000),)))
        scene.ack(answering(run, "r1"))
        assert scene.store.requests(run.run_no)[0].expires_at == AT + 60_000

    def test_the_requests_of_one_call_are_its_own(self, scene: Scene) -> None:
        run = scene.running()
        for name, seq, attempt in (("z", 4, 1), ("b", 5, 1), ("a", 4, 2)):
            run = scene.asked(run, name, seq, attempt)
        scene.asked(scene.running(), "other", 4)
        scene.ack(answering(run, "z"))
        assert [request.request_id for request in scene.store.requests(run.run_no, 4)] == ["z", "a"]
        assert [request.request_id for request in scene.store.requests(run.run_no, 5)] == ["b"]
        assert scene.store.requests(run.run_no, 6) == []

    def test_the_unanswered_requests_of_a_run_or_of_one_call_are_those_that_nobody_has_answered(
        self, scene: Scene
    ) -> None:
        run, other = scene.running(), scene.running()
        for name, seq, attempt in (("z", 4, 1), ("b", 5, 1), ("a", 4, 2), ("m", 4, 3)):
            run = scene.asked(run, name, seq, attempt)
        scene.asked(other, "other", 4)
        assert self._unanswered(scene, run) == ["z", "b", "a", "m"]
        scene.ack(answering(run, "z"))
        assert self._unanswered(scene, run) == ["b", "a", "m"]
        assert self._unanswered(scene, run, 4) == ["a", "m"]
        assert self._unanswered(scene, run, 6) == []
        asked = [request for request in scene.store.requests(run.run_no) if request.verdict is None]
        assert scene.store.requests(run.run_no, unanswered=True) == asked
        for name in ("m", "a", "b"):
            scene.ack(answering(run, name, verdict=Verdict.NOT_HAPPENED, value=None))
        assert self._unanswered(scene, run) == self._unanswered(scene, run, 4) == []
        assert self._unanswered(scene, other) == ["other"]
        assert scene.store.requests(999, unanswered=True) == []

    @pytest.mark.parametrize("status", FINAL, ids=lambda status: status.label)
    def test_what_a_run_that_has_ended_was_not_answered_is_unanswered_all_the_same(
        self, scene: Scene, status: Status
    ) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, requests=(replace(asking("r1"), kind=RequestKind.APPROVAL),)))
        scene.ack(scene.leave(scene.again(run), status))
        assert self._unanswered(scene, run) == ["r1"]

    @staticmethod
    def _unanswered(scene: Scene, run: RunRecord, seq: int | None = None) -> list[str]:
        return [request.request_id for request in scene.store.requests(run.run_no, seq, unanswered=True)]

    def test_open_requests_of_all_runs_come_oldest_first(self, scene: Scene) -> None:
        runs = [scene.running(), scene.running()]
        asked = [("m", 0, AT + 2), ("a", 1, AT + 3), ("z", 1, AT + 1), ("b", 0, AT + 3)]
        for seq, (name, place, at) in enumerate(asked, 1):
            run = scene.again(runs[place])
            scene.ack(scene.advance(run, requests=(replace(asking(name, seq), created_at=at),)))
        found = [(run_id, request.request_id) for run_id, request in scene.store.open_requests(10)]
        ids = [run.run_id for run in runs]
        assert found == [(ids[1], "z"), (ids[0], "m"), (ids[1], "a"), (ids[0], "b")]
        assert [request.request_id for _, request in scene.store.open_requests(3)] == ["z", "m", "a"]
        assert scene.store.open_requests(0) == []

    def test_an_answered_request_is_not_open(self, scene: Scene) -> None:
        run = scene.asked(scene.asked(scene.running(), "r1"), "r2", 2)
        scene.ack(answering(run, "r1"))
        assert [request.request_id for _, request in scene.store.open_requests(10)] == ["r2"]

    @pytest.mark.parametrize("status", [status for status in Status if status is not Status.RUNNING])
    @pytest.mark.parametrize("kind", RequestKind, ids=lambda kind: kind.label)
    def test_of_a_run_that_has_ended_only_what_may_have_happened_is_still_asked(
        self, scene: Scene, kind: RequestKind, status: Status
    ) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, requests=(replace(asking("r1", 1, 1), kind=kind),)))
        run = scene.again(run)
        scene.ack(scene.leave(run, status))
        still = kind is RequestKind.RESOLVE or status not in FINAL
        assert len(scene.store.open_requests(10)) == (1 if still else 0)


class OneCall(Suite):
    """One call, or the newest ones, without the thousands before it."""

    def test_a_call_is_found_by_its_number(self, scene: Scene) -> None:
        run = self._run(scene)
        every = scene.store.calls(run.run_no)
        for record in every:
            assert scene.store.call(run.run_no, record.seq) == record
        assert scene.store.call(run.run_no, 4) is None
        assert scene.store.call(999, 1) is None

    @pytest.mark.parametrize("since", range(9))
    def test_calls_come_from_a_number_on(self, scene: Scene, since: int) -> None:
        run = self._run(scene)
        every = scene.store.calls(run.run_no)
        assert [record.seq for record in every] == [1, 2, 3, 5, 7]
        assert scene.store.calls(run.run_no, since) == [record for record in every if record.seq >= since]

    def test_the_newest_call_of_a_kind_is_found(self, scene: Scene) -> None:
        run = self._run(scene)
        newest: dict[CallKind, Any] = {CallKind.DECISION: 5, CallKind.TOOL: 7, CallKind.VALUE: 2}
        for kind in CallKind:
            record = scene.store.last_call(run.run_no, kind)
            assert (None if record is None else record.seq) == newest.get(kind)
        assert scene.store.last_call(999, CallKind.TOOL) is None

    @staticmethod
    def _run(scene: Scene) -> RunRecord:
        """A run whose calls 1, 2, 3, 5 and 7 are of several kinds and states, beside a run with others."""
        scene.call_in(scene.running(), CallState.STARTED, 9, kind=CallKind.DECISION)
        run = scene.running()
        kinds = {3: CallKind.TOOL, 7: CallKind.TOOL, 1: CallKind.DECISION, 5: CallKind.DECISION, 2: CallKind.VALUE}
        calls = tuple(
            call(seq, CallState.PLANNED if seq == 7 else CallState.SUCCEEDED, kind=kind) for seq, kind in kinds.items()
        )
        scene.ack(scene.advance(run, calls=calls))
        return scene.again(run)
