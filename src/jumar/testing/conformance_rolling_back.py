"""Rollbacks: the claim that begins one, the intent that a takeover finds, and the head or the word that ends it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Ack, Advance, Claimed, Ending, Guard, Head
from jumar.core.phases import FINAL
from jumar.core.records import CheckpointRecord, RunRecord
from jumar.core.states import CallState, Control, ErrorClass, EventKind, Level, Phase, Status, Verdict, mask
from jumar.testing.conformance_scene import (
    ANYTHING_UNFINISHED,
    AT,
    INTENT,
    LONG,
    Scene,
    answering,
    asking,
    call,
    changed,
    holding,
    named,
)
from jumar.testing.conformance_suite import Suite

_LEFT = sorted(set(Status) - {Status.RUNNING})
_STATUSES = pytest.mark.parametrize("status", _LEFT, ids=lambda status: status.label)
_ENDS = pytest.mark.parametrize("ends", [{"head": Head(base=1)}, {"settles": True}], ids=["head", "settled"])


class BeginningRollbacks(Suite):
    """A claim that leaves an intent: guarded by epoch and version, refused where one is open or a path is held."""

    @_STATUSES
    def test_a_run_of_any_status_may_be_rolled_back_where_the_claim_says_so(self, scene: Scene, status: Status) -> None:
        run = scene.ended(status, output_digest=named(b"1").digest, error_type="Declined", failed_calls=(3,))
        claimed = scene.claimed(scene.rollback(run, intent=b'{"target":1}'))
        assert claimed.run == scene.again(run)
        assert (claimed.run.status, claimed.run.intent, claimed.run.epoch) == (Status.RUNNING, b'{"target":1}', 2)
        assert (claimed.run.version, claimed.run.line, claimed.run.generation) == (run.version, (), 0)
        kinds = [event.kind for event in scene.store.events(run.run_no)[-2:]]
        assert kinds == [EventKind.CLAIMED, EventKind.ROLLBACK_STARTED]

    @pytest.mark.parametrize("status", sorted(FINAL), ids=lambda status: status.label)
    def test_a_finished_run_is_refused_where_the_claim_leaves_it_out(self, scene: Scene, status: Status) -> None:
        run = scene.ended(status)
        assert scene.refusal(scene.rollback(run, statuses=ANYTHING_UNFINISHED)) is Guard.ENDED
        assert scene.refusal(scene.rollback(run, statuses=mask(Status.FAILED))) is Guard.ENDED
        assert scene.again(run) == run

    def test_a_live_lease_refuses_it(self, scene: Scene) -> None:
        run = scene.running()
        assert scene.refusal(scene.rollback(run)) is Guard.HELD
        assert scene.again(run).intent is None

    @pytest.mark.parametrize("wrong", [{"version": 0}, {"version": 2}, {"epoch": 0}, {"epoch": 2}])
    def test_a_run_that_has_gone_on_since_it_was_planned_refuses_it(self, scene: Scene, wrong: dict[str, int]) -> None:
        run = scene.ended(Status.PAUSED)
        before = scene.everything(run)
        assert scene.refusal(scene.rollback(run, holds=(holding(0, b""),), **wrong)) is Guard.VERSION
        assert scene.everything(run) == before
        assert scene.holders() == []

    def test_the_version_guards_any_claim_that_gives_it(self, scene: Scene) -> None:
        run = scene.ended(Status.QUEUED)
        assert scene.refusal(scene.claim(run, version=0)) is Guard.VERSION
        assert scene.claimed(scene.claim(run, version=1)).run.intent is None

    def test_a_second_rollback_is_refused_while_the_first_is_open(self, scene: Scene) -> None:
        run = scene.rolling_back(intent=b"first", ttl_ms=0)
        scene.until_expired(run)
        before = scene.everything(run)
        assert scene.refusal(scene.rollback(run, intent=b"second")) is Guard.TRANSITION
        assert scene.everything(run) == before

    def test_a_takeover_finds_the_intent(self, scene: Scene) -> None:
        run = scene.rolling_back(intent=b"first", holds=(holding(0, b"conf"),), ttl_ms=0)
        scene.until_expired(run)
        taken = scene.claimed(scene.claim(run, "cal")).run
        assert (taken.intent, taken.epoch) == (b"first", 3)
        assert scene.holders() == [(b"conf", run.run_id, 0)]

    def test_it_holds_paths_against_every_write(self, scene: Scene) -> None:
        run = scene.rolling_back(holds=(holding(0, b"conf"), holding(0, b"log")))
        assert scene.holders() == [(b"conf", run.run_id, 0), (b"log", run.run_id, 0)]
        assert scene.ack(scene.writing(scene.running(), b"conf/site.ini")).taken == (1,)
        assert scene.ack(scene.writing(scene.running(), b"conf2")).taken == ()

    @pytest.mark.parametrize("path", [b"", b"conf", b"conf/site.ini"], ids=["whole", "above", "same"])
    def test_a_path_that_an_open_write_holds_refuses_it_and_nothing_is_changed(self, scene: Scene, path: bytes) -> None:
        scene.ack(scene.writing(scene.running(), b"conf/site.ini"))
        run = self._cut_off(scene)
        before, held = scene.everything(run), scene.holders()
        wanted = (holding(0, b"log"), holding(0, path))
        assert scene.refusal(scene.rollback(run, holds=wanted)) is Guard.HOLD
        assert scene.everything(run) == before
        assert scene.holders() == held

    def test_a_write_of_its_own_run_refuses_it_too(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, b"conf", ttl_ms=0))
        scene.until_expired(scene.again(run))
        assert scene.refusal(scene.rollback(scene.again(run), holds=(holding(0, b""),))) is Guard.HOLD

    def test_of_two_rollbacks_in_one_batch_that_want_one_path_the_first_gets_it(self, scene: Scene) -> None:
        runs = [scene.ended(Status.PAUSED) for _ in range(2)]
        answers = scene.store.write([scene.rollback(run, holds=(holding(0, b""),)) for run in runs])
        assert isinstance(answers[0], Claimed)
        assert getattr(answers[1], "guard", None) is Guard.HOLD
        assert [scene.again(run).intent for run in runs] == [b"{}", None]

    def test_calls_left_started_are_marked_by_it_as_by_every_claim(self, scene: Scene) -> None:
        run = self._cut_off(scene)
        assert scene.claimed(scene.rollback(run)).uncertain == 1
        assert scene.store.calls(run.run_no)[0].state is CallState.UNCERTAIN

    @pytest.mark.parametrize("status", sorted(FINAL), ids=lambda status: status.label)
    def test_an_order_that_a_finished_run_was_given_is_spent(self, scene: Scene, status: Status) -> None:
        """It was obeyed, or came too late; the run that is rolled back is not to stop at once for it."""
        run = scene.running()
        scene.ack(scene.order(run, Control.CANCEL))
        scene.ack(scene.leave(scene.again(run), status))
        assert scene.again(run).control is Control.CANCEL
        assert scene.claimed(scene.rollback(scene.again(run))).run.control is Control.NONE

    def test_an_order_that_nobody_has_obeyed_yet_is_kept(self, scene: Scene) -> None:
        run = scene.waiting()
        scene.ack(scene.order(run, Control.CANCEL))
        assert scene.claimed(scene.rollback(run)).run.control is Control.CANCEL

    def test_an_advance_replaces_the_intent(self, scene: Scene) -> None:
        run = scene.rolling_back(intent=b"first")
        assert scene.ack(scene.advance(run, intent=b"second")) == Ack(run.run_no, run.version + 1, run.epoch)
        assert scene.again(run).intent == b"second"

    def test_an_advance_that_would_replace_an_intent_where_there_is_none_is_refused(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.PLANNED)
        before = scene.everything(run)
        change = scene.advance(run, intent=b"{}", changes=(changed(1, CallState.STARTED),))
        assert scene.refusal(change) is Guard.TRANSITION
        assert scene.everything(run) == before

    def test_calls_and_their_results_are_recorded_while_it_is_open(self, scene: Scene) -> None:
        run = scene.rolling_back(intent=b"first")
        scene.ack(scene.advance(run, calls=(call(1, CallState.STARTED, epoch=run.epoch),)))
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.SUCCEEDED, epoch=run.epoch),)))
        assert scene.again(run).intent == b"first"

    @pytest.mark.parametrize("status", [Status.WAITING, Status.PAUSED, Status.QUEUED, Status.FAILED])
    def test_a_run_that_leaves_in_the_middle_of_it_keeps_the_intent(self, scene: Scene, status: Status) -> None:
        run = scene.rolling_back(intent=b"first")
        scene.ack(scene.leave(run, status))
        assert (scene.again(run).status, scene.again(run).intent) == (status, b"first")
        assert scene.claimed(scene.claim(run, early=True)).run.intent == b"first"

    @pytest.mark.parametrize("status", sorted(FINAL), ids=lambda status: status.label)
    def test_no_run_ends_for_good_in_the_middle_of_it(self, scene: Scene, status: Status) -> None:
        run = scene.rolling_back()
        before = scene.everything(run)
        assert scene.refusal(scene.leave(run, status)) is Guard.TRANSITION
        assert scene.everything(run) == before

    def test_a_claim_whose_answer_was_lost_is_found_with_its_intent(self, scene: Scene) -> None:
        change = scene.rollback(scene.ended(Status.COMPLETED))
        assert scene.store.read_back(change) is None
        claimed = scene.claimed(change)
        found = scene.store.read_back(change)
        assert isinstance(found, Claimed)
        assert found.run == claimed.run

    def test_an_intent_that_cannot_be_read_is_found(self, scene: Scene) -> None:
        scene.rolling_back(intent=INTENT)
        assert scene.store.inspect().findings == ()
        run = scene.rolling_back(intent=b"{}")
        [finding] = scene.store.inspect().findings
        assert (finding.where, finding.run_id) == ("intent", run.run_id)

    @staticmethod
    def _cut_off(scene: Scene) -> RunRecord:
        """A run whose lease ran out while a call was started."""
        run = scene.running()
        scene.ack(scene.advance(run, calls=(call(1, CallState.STARTED),), ttl_ms=0))
        scene.until_expired(scene.again(run))
        return scene.again(run)


class EndingRollbacks(Suite):
    """The intent is gone, with a new head or without one; any phase may follow."""

    def test_a_head_begins_a_generation_and_lengthens_the_line(self, scene: Scene) -> None:
        run = self._gone_on(scene, 4)
        for generation, base in ((1, 2), (2, 1), (3, 5)):
            run = scene.rolling_back(run)
            scene.ack(scene.heading(run, base, ending=Ending(status=Status.PAUSED)))
            after = scene.again(run)
            assert (after.generation, after.version) == (generation, run.version + 1)
            assert after.line == (*run.line, (after.version, base))
            run = after
        assert run.line == ((5, 2), (6, 1), (7, 5))

    def test_a_head_leaves_the_run_to_whoever_has_it_where_nothing_ends(self, scene: Scene) -> None:
        run = scene.rolling_back(scene.ended(Status.COMPLETED, output_digest=named(b"1").digest))
        before = scene.store.now()
        assert scene.ack(scene.heading(run, 1, step=3, at=AT + 5)) == Ack(run.run_no, 2, 2)
        after = scene.again(run)
        assert (after.status, after.owner, after.epoch, after.step) == (Status.RUNNING, "bob", 2, 3)
        assert before.ms + LONG <= after.lease_until <= scene.store.now().ms + LONG
        assert (after.output_digest, after.intent, after.updated_at) == (None, None, AT + 5)
        assert scene.ack(scene.advance(after)).version == 3

    def test_a_head_leaves_the_run_paused_where_the_ending_says_so(self, scene: Scene) -> None:
        run = scene.rolling_back()
        scene.ack(scene.heading(run, 0, ending=Ending(status=Status.PAUSED)))
        after = scene.again(run)
        assert (after.status, after.owner, after.lease_until, after.intent) == (Status.PAUSED, None, 0, None)
        assert scene.claimed(scene.claim(run)).run.line == after.line

    @_STATUSES
    def test_a_rollback_of_files_alone_leaves_the_run_as_it_was(self, scene: Scene, status: Status) -> None:
        ending: dict[str, Any] = {
            "status": status,
            "wake_at": AT + 9,
            "waiting_on": "scan.ask.1",
            "output_digest": named(b"1").digest,
            "error_class": ErrorClass.PERMANENT,
            "error_type": "Declined",
            "error_message": "no",
            "failed_calls": (1, 2),
        }
        was = scene.ended(**ending)
        run = scene.rolling_back(was)
        assert run.output_digest == was.output_digest
        scene.ack(scene.advance(run, settles=True, ending=Ending(**ending)))
        after = scene.again(run)
        assert after == replace(was, version=2, epoch=2, boot=after.boot, updated_at=AT)

    @_ENDS
    @pytest.mark.parametrize("phase", Phase, ids=lambda phase: phase.label)
    def test_any_phase_may_follow_any(self, scene: Scene, phase: Phase, ends: dict[str, Any]) -> None:
        run = scene.running(phase=Phase.VERIFYING)
        scene.ack(scene.advance(run, phase=Phase.STOPPED, ending=Ending(status=Status.COMPLETED)))
        run = scene.rolling_back(scene.again(run))
        scene.ack(scene.advance(run, phase=phase, **ends))
        assert scene.again(run).phase is phase

    @_ENDS
    def test_without_an_intent_it_is_refused(self, scene: Scene, ends: dict[str, Any]) -> None:
        run = scene.running()
        before = scene.everything(run)
        for ending in (None, Ending(status=Status.PAUSED)):
            assert scene.refusal(scene.advance(run, ending=ending, **ends)) is Guard.TRANSITION
        assert scene.everything(run) == before

    @_ENDS
    @pytest.mark.parametrize(
        ("wrong", "guard"),
        [({"owner": "eve"}, Guard.LEASE), ({"epoch": 1}, Guard.LEASE), ({"version": 7}, Guard.VERSION)],
        ids=["owner", "epoch", "version"],
    )
    def test_it_is_guarded_as_every_advance(
        self, scene: Scene, ends: dict[str, Any], wrong: dict[str, Any], guard: Guard
    ) -> None:
        run = scene.rolling_back(holds=(holding(0, b""),))
        before = scene.everything(run)
        assert scene.refusal(scene.advance(run, drops=(0,), **(ends | wrong))) is guard
        assert scene.everything(run) == before
        assert scene.holders() == [(b"", run.run_id, 0)]

    @_ENDS
    def test_an_expired_lease_refuses_it(self, scene: Scene, ends: dict[str, Any]) -> None:
        run = scene.rolling_back(ttl_ms=0)
        scene.until_expired(run)
        assert scene.refusal(scene.advance(run, **ends)) is Guard.LEASE
        assert scene.again(run).intent == b"{}"

    @_ENDS
    @pytest.mark.parametrize("news", ["order", "answer"])
    def test_an_order_or_an_answer_refuses_it_only_where_the_run_leaves(
        self, scene: Scene, ends: dict[str, Any], news: str
    ) -> None:
        run = scene.rolling_back(scene.again(self._asked(scene)))
        scene.ack(scene.order(run, Control.CANCEL) if news == "order" else answering(run, "r1"))
        leaving = scene.advance(run, ending=Ending(status=Status.PAUSED), **ends)
        assert scene.refusal(leaving) is Guard.NEWS
        assert scene.again(run).intent == b"{}"
        now = scene.again(run)
        ack = scene.ack(scene.advance(run, **ends))
        assert (ack.control, ack.answers) == (now.control, now.answers)
        assert scene.again(run).control is now.control

    def test_its_paths_are_given_up_with_it(self, scene: Scene) -> None:
        run = scene.rolling_back(holds=(holding(0, b"conf"), holding(0, b"log")))
        scene.ack(scene.heading(run))
        assert scene.holders() == []

    def test_what_comes_with_a_head_lands_with_it(self, scene: Scene) -> None:
        run = scene.rolling_back(self._gone_on(scene, 3))
        kept = CheckpointRecord("back", Level.TASK, "manual", base_version=1, tree=b"\x05" * 32)
        rejected = changed(1, CallState.COMPENSATED)
        scene.ack(scene.heading(run, 1, after=kept, changes=(rejected,), artifacts=(named(b'"large"'),)))
        assert scene.store.calls(run.run_no)[0].state is CallState.COMPENSATED
        assert scene.store.checkpoints(run.run_no)[-1].version == run.version + 1
        assert scene.store.artifact(run.run_no, named(b'"large"').digest) == b'"large"'

    def test_a_head_is_refused_while_a_call_is_started(self, scene: Scene) -> None:
        run = scene.rolling_back()
        scene.ack(scene.advance(run, calls=(call(1, CallState.STARTED, epoch=run.epoch),)))
        run = scene.again(run)
        before = scene.everything(run)
        for ending in (None, Ending(status=Status.PAUSED)):
            assert scene.refusal(scene.heading(run, ending=ending)) is Guard.TRANSITION
        assert scene.everything(run) == before

    def test_after_it_another_rollback_may_begin(self, scene: Scene) -> None:
        run = scene.rolling_back()
        scene.ack(scene.heading(run, ending=Ending(status=Status.PAUSED)))
        assert scene.claimed(scene.rollback(scene.again(run), intent=b"second")).run.intent == b"second"

    @_ENDS
    @pytest.mark.parametrize("ending", [None, Ending(status=Status.PAUSED)], ids=["running", "paused"])
    def test_one_whose_ack_was_lost_is_found(self, scene: Scene, ends: dict[str, Any], ending: Ending | None) -> None:
        run = scene.rolling_back()
        change: Advance = scene.advance(run, ending=ending, **ends)
        assert scene.store.read_back(change) is None
        ack = scene.ack(change)
        assert scene.store.read_back(change) == ack

    @staticmethod
    def _gone_on(scene: Scene, version: int) -> RunRecord:
        """A paused run of this version, whose first advance made a call."""
        run = scene.call_in(scene.running(), CallState.SUCCEEDED)
        for _ in range(version - 2):
            scene.ack(scene.advance(scene.again(run)))
        scene.ack(scene.leave(scene.again(run), Status.PAUSED))
        return scene.again(run)

    @staticmethod
    def _asked(scene: Scene) -> RunRecord:
        run = scene.asked(scene.running(), "r1")
        scene.ack(scene.leave(run, Status.WAITING))
        return run


class Withdrawing(Suite):
    """Requests that nobody need answer any more."""

    def test_a_withdrawn_request_is_open_no_more_and_refuses_an_answer(self, scene: Scene) -> None:
        run = scene.asked(scene.asked(scene.running(), "r1"), "r2", 2)
        scene.ack(scene.advance(run, withdraws=("r1",), at=AT + 4))
        first, second = scene.store.requests(run.run_no)
        assert first == replace(asking("r1"), verdict=Verdict.WITHDRAWN, answered_at=AT + 4)
        assert second.verdict is None
        assert [request.request_id for _, request in scene.store.open_requests(9)] == ["r2"]
        assert scene.refusal(answering(run, "r1")) is Guard.ANSWERED
        assert scene.again(run).answers == run.answers

    def test_not_even_a_late_result_answers_it(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(scene.advance(run, withdraws=("r1",)))
        assert scene.refusal(answering(run, "r1", epoch=run.epoch)) is Guard.ANSWERED

    def test_what_was_answered_before_keeps_its_answer(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.ack(answering(run, "r1"))
        before = scene.store.requests(run.run_no)
        scene.ack(scene.advance(run, withdraws=("r1", "never asked")))
        assert scene.store.requests(run.run_no) == before

    def test_only_requests_of_its_own_run_are_withdrawn(self, scene: Scene) -> None:
        run, other = scene.running(), scene.asked(scene.running(), "r1")
        scene.ack(scene.advance(run, withdraws=("r1",)))
        assert scene.store.requests(other.run_no)[0].verdict is None

    def test_a_refused_advance_withdraws_nothing(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        scene.refusal(scene.advance(run, withdraws=("r1",), version=9))
        assert scene.store.requests(run.run_no)[0].verdict is None
