"""Creating runs and taking leases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jumar.core.changes import Advance, Guard, Renew
from jumar.core.phases import CLAIMABLE, FINAL
from jumar.core.states import CallState, Control, ErrorClass, EventKind, Phase, Status, mask
from jumar.testing.conformance_scene import ANYTHING_UNFINISHED, AT, LONG, Scene, call, named
from jumar.testing.conformance_suite import Suite


class Creating(Suite):
    """Guard: no run has this id."""

    def test_a_run_made_without_an_owner_is_queued_and_held_by_nobody(self, scene: Scene) -> None:
        run = scene.queued()
        assert (run.status, run.owner, run.epoch, run.version, run.step) == (Status.QUEUED, None, 0, 0, 0)
        assert (run.control, run.answers, run.generation) == (Control.NONE, 0, 0)

    def test_a_run_made_with_an_owner_is_running_under_epoch_1_and_its_lease(self, scene: Scene) -> None:
        before = scene.store.now()
        run = scene.running("ann")
        assert (run.status, run.owner, run.epoch, run.version) == (Status.RUNNING, "ann", 1, 0)
        assert run.boot == before.boot
        assert before.ms + LONG <= run.lease_until <= scene.store.now().ms + LONG

    def test_a_new_run_keeps_what_it_was_given(self, scene: Scene) -> None:
        given = scene.create(agent="repair", agent_version="7", task="fix", phase=Phase.READY_TO_DECIDE, at=AT + 5)
        given = replace(given, workspace="/srv/site")
        ack = scene.ack(given)
        run = scene.named(given.run_id)
        assert (ack.run_no, ack.version, ack.epoch) == (run.run_no, 0, 0)
        assert (run.agent, run.agent_version, run.task, run.phase) == ("repair", "7", "fix", Phase.READY_TO_DECIDE)
        assert (run.created_at, run.updated_at, run.workspace) == (AT + 5, AT + 5, "/srv/site")
        assert (run.line, run.intent, run.origin, run.forked_from) == ((), None, None, None)
        assert scene.store.artifact(run.run_no, given.input.digest) == given.input.data

    def test_an_id_that_is_taken_is_refused_and_the_run_that_has_it_stays(self, scene: Scene) -> None:
        run = scene.running("ann")
        before = scene.everything(run)
        again = scene.create(run_id=run.run_id, owner="bob", input=named(b'"another"'))
        assert scene.refusal(again) is Guard.EXISTS
        assert scene.everything(run) == before
        assert scene.store.artifact(run.run_no, again.input.digest) is None

    def test_runs_are_numbered_apart(self, scene: Scene) -> None:
        assert scene.queued().run_no != scene.queued().run_no


class Claiming(Suite):
    """Guards: the run exists, its status may be claimed, no lease on it is live, and where it waits it is due, or was
    ordered to stop.
    """

    def test_a_free_run_is_claimed_under_a_new_epoch(self, scene: Scene) -> None:
        run = scene.queued()
        before = scene.store.now()
        claimed = scene.claimed(scene.claim(run, "bob"))
        assert (claimed.taken_over, claimed.uncertain) == (False, 0)
        assert claimed.run == scene.again(run)
        assert (claimed.run.status, claimed.run.owner, claimed.run.epoch) == (Status.RUNNING, "bob", 1)
        assert before.ms + LONG <= claimed.run.lease_until <= scene.store.now().ms + LONG

    def test_a_claim_counts_no_version_and_keeps_the_cursor(self, scene: Scene) -> None:
        run = scene.running(phase=Phase.READY_TO_DECIDE)
        scene.ack(scene.advance(run, phase=Phase.DECISION_RECORDED, step=3, ttl_ms=0))
        scene.until_expired(scene.again(run))
        claimed = scene.claimed(scene.claim(run, "bob")).run
        assert (claimed.version, claimed.phase, claimed.step) == (1, Phase.DECISION_RECORDED, 3)

    def test_a_held_lease_is_not_taken(self, scene: Scene) -> None:
        run = scene.call_in(scene.running("ann"), CallState.STARTED)
        before = scene.everything(run)
        assert scene.refusal(scene.claim(run, "bob")) is Guard.HELD
        assert scene.everything(run) == before

    def test_not_even_its_owner_claims_a_live_lease_again(self, scene: Scene) -> None:
        assert scene.refusal(scene.claim(scene.running("ann"), "ann")) is Guard.HELD

    def test_an_expired_lease_is_taken_over(self, scene: Scene) -> None:
        claimed = scene.claimed(scene.claim(scene.abandoned(), "bob"))
        assert claimed.taken_over
        assert (claimed.run.owner, claimed.run.epoch) == ("bob", 2)

    def test_every_claim_adds_one_to_the_epoch(self, scene: Scene) -> None:
        run = scene.queued()
        for number, owner in enumerate(["ann", "bob", "ann", "cal"], 1):
            claimed = scene.claimed(scene.claim(run, owner, ttl_ms=0))
            assert claimed.run.epoch == number
            assert claimed.taken_over is (number > 1)
            scene.until_expired(claimed.run)

    def test_a_refused_claim_adds_nothing_to_the_epoch(self, scene: Scene) -> None:
        run = scene.running("ann")
        scene.refusal(scene.claim(run, "bob"))
        assert scene.again(run).epoch == 1

    def test_a_claim_of_an_unknown_run_is_not_found(self, scene: Scene) -> None:
        assert scene.refusal(scene.claim(scene.new_id())) is Guard.NOT_FOUND

    @pytest.mark.parametrize("status", sorted(FINAL), ids=lambda status: status.label)
    def test_a_finished_run_is_not_claimed(self, scene: Scene, status: Status) -> None:
        run = scene.ended(status)
        before = scene.everything(run)
        assert scene.refusal(scene.claim(run)) is Guard.ENDED
        assert scene.everything(run) == before

    @pytest.mark.parametrize("status", sorted(CLAIMABLE - {Status.RUNNING}), ids=lambda status: status.label)
    def test_a_status_that_the_claim_leaves_out_is_refused(self, scene: Scene, status: Status) -> None:
        run = scene.ended(status, wake_at=AT if status is Status.WAITING else None)
        others = ANYTHING_UNFINISHED & ~mask(status)
        assert scene.refusal(scene.claim(run, statuses=others)) is Guard.TRANSITION
        assert scene.claimed(scene.claim(run, statuses=mask(status))).run.status is Status.RUNNING

    def test_a_failed_run_is_claimed_only_where_the_claim_says_so(self, scene: Scene) -> None:
        run = scene.ended(Status.FAILED)
        others = mask(*(status for status in Status if status is not Status.FAILED))
        assert scene.refusal(scene.claim(run, statuses=others)) is Guard.TRANSITION
        assert scene.claimed(scene.claim(run, statuses=mask(Status.FAILED))).run.epoch == 2

    def test_a_run_that_is_taken_up_again_has_no_error_any_more(self, scene: Scene) -> None:
        run = scene.ended(Status.FAILED, error_class=ErrorClass.PERMANENT, error_type="Declined", error_message="no")
        claimed = scene.claimed(scene.claim(run, statuses=mask(Status.FAILED))).run
        assert (claimed.error_class, claimed.error_type, claimed.error_message) == (None, None, None)

    def test_a_run_that_waits_is_not_claimed_before_it_is_due(self, scene: Scene) -> None:
        run = scene.waiting(wake_at=AT + 10)
        assert scene.refusal(scene.claim(run, at=AT + 9)) is Guard.NOT_DUE
        assert scene.again(run) == run

    def test_a_run_that_waits_is_claimed_once_it_is_due(self, scene: Scene) -> None:
        run = scene.waiting(wake_at=AT + 10, waiting_on="scan.search.1")
        claimed = scene.claimed(scene.claim(run, at=AT + 10)).run
        assert (claimed.status, claimed.wake_at, claimed.waiting_on) == (Status.RUNNING, None, None)

    def test_a_run_that_waits_for_somebody_is_never_due(self, scene: Scene) -> None:
        run = scene.waiting(waiting_on="scan.search.1")
        assert scene.refusal(scene.claim(run, at=AT * 10)) is Guard.NOT_DUE

    def test_what_was_started_is_uncertain_after_a_takeover_and_nothing_else_is(self, scene: Scene) -> None:
        run = scene.running()
        for seq, state in enumerate(CallState, 1):
            run = scene.call_in(run, state, seq)
        before = scene.store.calls(run.run_no)
        scene.ack(scene.advance(run, ttl_ms=0))
        scene.until_expired(scene.again(run))
        claimed = scene.claimed(scene.claim(run, "bob"))
        expected = [
            replace(record, state=CallState.UNCERTAIN) if record.state is CallState.STARTED else record
            for record in before
        ]
        assert scene.store.calls(run.run_no) == expected
        assert claimed.uncertain == 1

    def test_a_call_started_under_a_newer_epoch_is_not_marked(self, scene: Scene) -> None:
        run = scene.running()
        calls = (call(1, CallState.STARTED, epoch=1), call(2, CallState.STARTED, epoch=2))
        scene.ack(scene.advance(run, calls=calls, ttl_ms=0))
        scene.until_expired(scene.again(run))
        assert scene.claimed(scene.claim(run, "bob")).uncertain == 1
        states = [record.state for record in scene.store.calls(run.run_no)]
        assert states == [CallState.UNCERTAIN, CallState.STARTED]

    def test_a_takeover_leaves_other_runs_alone(self, scene: Scene) -> None:
        other = scene.call_in(scene.running("cal"), CallState.STARTED)
        before = scene.everything(other)
        scene.claimed(scene.claim(scene.abandoned(), "bob"))
        assert scene.everything(other) == before

    def test_the_trace_tells_of_claims_and_of_what_became_uncertain(self, scene: Scene) -> None:
        run = scene.queued()
        scene.claimed(scene.claim(run, "ann", at=AT + 1))
        run = scene.call_in(scene.again(run), CallState.STARTED)
        scene.ack(scene.advance(run, ttl_ms=0))
        scene.until_expired(scene.again(run))
        scene.claimed(scene.claim(run, "bob", at=AT + 2))
        told = [(event.kind, event.epoch, event.call_seq) for event in scene.store.events(run.run_no)]
        assert told == [
            (EventKind.CREATED, 0, None),
            (EventKind.CLAIMED, 1, None),
            (EventKind.TAKEN_OVER, 2, None),
            (EventKind.CALL_UNCERTAIN, 2, 1),
        ]


class Renewing(Suite):
    """Guards: RUNNING under this owner and epoch, with a live lease."""

    def test_renewing_moves_the_deadline_and_nothing_else(self, scene: Scene) -> None:
        run = scene.running(ttl_ms=LONG)
        before = scene.everything(run)
        ack = scene.ack(self._renewal(scene.advance(run), ttl_ms=2 * LONG))
        after = scene.everything(run)
        assert after[0].lease_until >= run.lease_until + LONG
        assert (replace(after[0], lease_until=run.lease_until), *after[1:]) == before
        assert (ack.version, ack.epoch, ack.control, ack.answers) == (0, 1, 0, 0)

    def test_a_renewal_never_revives_an_expired_lease(self, scene: Scene) -> None:
        run = scene.abandoned()
        assert scene.refusal(self._renewal(scene.advance(run))) is Guard.LEASE
        assert scene.again(run) == run

    def test_another_owner_renews_nothing(self, scene: Scene) -> None:
        run = scene.running("ann")
        assert scene.refusal(self._renewal(scene.advance(run), owner="bob")) is Guard.LEASE
        assert scene.again(run) == run

    @pytest.mark.parametrize("epoch", [0, 2])
    def test_another_epoch_renews_nothing(self, scene: Scene, epoch: int) -> None:
        run = scene.running("ann")
        assert scene.refusal(self._renewal(scene.advance(run), epoch=epoch)) is Guard.LEASE
        assert scene.again(run) == run

    def test_an_owner_renews_nothing_after_a_takeover_under_its_own_name(self, scene: Scene) -> None:
        run = scene.abandoned(owner="ann")
        taken = scene.claimed(scene.claim(run, "ann")).run
        assert scene.refusal(self._renewal(scene.advance(run))) is Guard.LEASE
        assert scene.again(run) == taken

    @pytest.mark.parametrize("status", [Status.QUEUED, Status.WAITING, Status.FAILED, Status.COMPLETED])
    def test_a_run_that_was_left_is_not_renewed(self, scene: Scene, status: Status) -> None:
        run = scene.running("ann")
        renewal = self._renewal(scene.advance(run))
        scene.ack(scene.leave(run, status))
        left = scene.again(run)
        assert scene.refusal(renewal) is Guard.LEASE
        assert scene.again(run) == left

    def test_an_unknown_run_is_not_renewed(self, scene: Scene) -> None:
        assert scene.refusal(Renew(run_no=999, owner="ann", epoch=1, ttl_ms=LONG)) is Guard.LEASE

    @staticmethod
    def _renewal(advance: Advance, *, owner: str | None = None, epoch: int | None = None, ttl_ms: int = LONG) -> Renew:
        return Renew(
            run_no=advance.run_no,
            owner=owner or advance.owner,
            epoch=advance.epoch if epoch is None else epoch,
            ttl_ms=ttl_ms,
        )
