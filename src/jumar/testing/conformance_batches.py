"""Several changes in one `write`, and finding out what became of a change whose commit had an unknown outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Ack, Change, Claimed, Guard, Refusal, Renew
from jumar.core.records import RunRecord
from jumar.core.states import CallState, Status, Verdict
from jumar.testing.conformance_advancing import laden
from jumar.testing.conformance_scene import AT, LONG, Scene, answering, call, changed, named
from jumar.testing.conformance_suite import Suite

# Text that UTF-8 cannot hold and a number that 64 bits cannot: two ways in which a single change breaks a whole
# transaction.
_POISON = {"a-lone-surrogate": {"call_id": "\ud800"}, "a-number-too-large": {"attempt": 1 << 80}}


def _kinds(answers: Sequence[Any]) -> list[Any]:
    return [answer.guard if isinstance(answer, Refusal) else type(answer) for answer in answers]


class Batches(Suite):
    """The changes of a batch are applied in order; a refused one leaves nothing, and the others stand."""

    def test_an_empty_batch_answers_nothing(self, scene: Scene) -> None:
        assert scene.store.write([]) == []

    def test_the_changes_of_a_batch_are_answered_in_order(self, scene: Scene) -> None:
        free, held = scene.queued(), scene.running()
        batch: list[Change] = [scene.create(), scene.claim(free), scene.claim(held), scene.advance(held)]
        assert _kinds(scene.store.write(batch)) == [Ack, Claimed, Guard.HELD, Ack]

    def test_a_change_sees_what_the_ones_before_it_did(self, scene: Scene) -> None:
        new = scene.create()
        answers = scene.store.write([new, scene.claim(new.run_id, "ann"), scene.claim(new.run_id, "bob")])
        assert _kinds(answers) == [Ack, Claimed, Guard.HELD]
        assert scene.named(new.run_id).owner == "ann"

    def test_two_advances_of_one_run_with_consecutive_versions_both_land(self, scene: Scene) -> None:
        run = scene.running()
        first, second = scene.advance(run, calls=(call(1),)), scene.advance(run, version=1, calls=(call(2),))
        answers = scene.store.write([first, second])
        assert [(answer.version) for answer in answers if isinstance(answer, Ack)] == [1, 2]
        versions = [(record.seq, record.started_version) for record in scene.store.calls(run.run_no)]
        assert versions == [(1, 1), (2, 2)]

    @pytest.mark.parametrize("why", ["phase", "call-state", "owner"])
    def test_where_the_first_of_two_advances_is_refused_the_second_is_stale(self, scene: Scene, why: str) -> None:
        run = scene.call_in(scene.running(), CallState.FAILED)
        wrong = {
            "phase": scene.advance(run, phase=next(iter(set(type(run.phase)) - {run.phase}))),
            "call-state": scene.advance(run, changes=(changed(1, CallState.SUCCEEDED),)),
            "owner": scene.advance(run, owner="bob"),
        }[why]
        before = scene.everything(run)
        answers = scene.store.write([wrong, scene.advance(run, version=run.version + 1, calls=(call(2),))])
        assert _kinds(answers) == [Guard.LEASE if why == "owner" else Guard.TRANSITION, Guard.VERSION]
        assert scene.everything(run) == before

    def test_changes_refused_by_every_guard_leave_the_others_of_their_batch(self, scene: Scene) -> None:
        good = [scene.call_in(scene.running(), CallState.STARTED) for _ in range(6)]
        failed = scene.call_in(scene.running(), CallState.FAILED)
        finished, waiting = scene.ended(Status.COMPLETED), scene.waiting()
        bad: list[tuple[Change, Guard]] = [
            (scene.create(run_id=failed.run_id), Guard.EXISTS),
            (scene.claim(finished), Guard.ENDED),
            (scene.claim(waiting), Guard.NOT_DUE),
            (replace(laden(scene, failed), version=9), Guard.VERSION),
            (laden(scene, failed), Guard.TRANSITION),
            (answering(failed, "never asked"), Guard.ANSWERED),
        ]
        batch: list[Change] = []
        for run, (change, _) in zip(good, bad, strict=True):
            batch += [laden(scene, run), change]
        before = scene.everything(failed)
        assert _kinds(scene.store.write(batch)) == [kind for _, guard in bad for kind in (Ack, guard)]
        assert scene.everything(failed) == before
        for run in good:
            assert [record.seq for record in scene.store.calls(run.run_no)] == [1, 7]
            assert scene.again(run).version == 2

    @pytest.mark.parametrize("poison", _POISON.values(), ids=_POISON.keys())
    def test_a_change_that_cannot_be_stored_fails_alone(self, scene: Scene, poison: dict[str, Any]) -> None:
        runs = [scene.running() for _ in range(3)]
        batch = [scene.advance(run, calls=(call(1),), artifacts=(named(b"1"),)) for run in runs]
        batch[1] = replace(batch[1], calls=(call(1), replace(call(2), **poison)))
        answers = scene.store.write(batch)
        assert [isinstance(answer, Exception) for answer in answers] == [False, True, False]
        assert [scene.again(run).version for run in runs] == [1, 0, 1]
        assert [len(scene.store.calls(run.run_no)) for run in runs] == [1, 0, 1]
        assert scene.store.artifact(runs[1].run_no, named(b"1").digest) is None

    @pytest.mark.parametrize("poison", _POISON.values(), ids=_POISON.keys())
    def test_the_store_goes_on_after_a_change_that_cannot_be_stored(self, scene: Scene, poison: dict[str, Any]) -> None:
        run = scene.running()
        [answer] = scene.store.write([scene.advance(run, calls=(replace(call(1), **poison),))])
        assert isinstance(answer, Exception)
        assert scene.ack(scene.advance(run, calls=(call(1),))).version == 1


class ReadingBack(Suite):
    """A change whose acknowledgement was lost: its answer where it is on disk, None where it is not."""

    def test_a_creation(self, scene: Scene) -> None:
        for change in (scene.create(), scene.create(owner="ann")):
            assert scene.store.read_back(change) is None
            ack = scene.ack(change)
            assert scene.store.read_back(change) == ack

    def test_a_creation_by_another_is_not_taken_for_ones_own(self, scene: Scene) -> None:
        theirs = scene.create(owner="ann")
        scene.ack(theirs)
        for ours in ({"owner": "bob"}, {"owner": None, "at": AT + 1}, {"owner": None, "input": named(b"2")}):
            assert scene.store.read_back(replace(theirs, **ours)) is None
            assert scene.refusal(replace(theirs, **ours)) is Guard.EXISTS

    def test_a_creation_is_found_again_though_the_run_has_moved_on(self, scene: Scene) -> None:
        change = scene.create()
        ack = scene.ack(change)
        run = scene.claimed(scene.claim(change.run_id)).run
        scene.ack(scene.advance(run))
        assert scene.store.read_back(change) == ack

    def test_a_claim(self, scene: Scene) -> None:
        change = scene.claim(scene.queued(), "bob/1")
        assert scene.store.read_back(change) is None
        claimed = scene.claimed(change)
        found = scene.store.read_back(change)
        assert isinstance(found, Claimed)
        assert found.run == claimed.run

    def test_a_claim_that_another_has_superseded(self, scene: Scene) -> None:
        run = scene.queued()
        change = scene.claim(run, "bob/1", ttl_ms=0)
        scene.until_expired(scene.claimed(change).run)
        scene.claimed(scene.claim(run, "cal/1"))
        assert scene.store.read_back(change) is None
        assert scene.refusal(change) is Guard.HELD

    def test_a_claim_of_an_unknown_run(self, scene: Scene) -> None:
        assert scene.store.read_back(scene.claim(scene.new_id())) is None

    def test_an_advance(self, scene: Scene) -> None:
        self._found_again(scene, lambda run: laden(scene, run))

    def test_an_advance_that_leaves(self, scene: Scene) -> None:
        self._found_again(scene, lambda run: scene.leave(run, Status.WAITING))

    def test_an_advance_is_found_again_though_its_owner_has_gone_on(self, scene: Scene) -> None:
        run = scene.running()
        change = scene.advance(run)
        scene.ack(change)
        scene.ack(scene.advance(scene.again(run)))
        found = scene.store.read_back(change)
        assert isinstance(found, Ack)
        assert found.version == 1

    def test_an_advance_that_a_takeover_has_superseded_is_refused(self, scene: Scene) -> None:
        run = scene.abandoned()
        change = scene.advance(run)
        taken = scene.claimed(scene.claim(run, "bob")).run
        for _ in range(2):
            found = scene.store.read_back(change)
            assert isinstance(found, Refusal)
            assert found.guard is Guard.LEASE
            scene.ack(scene.advance(taken))
            taken = scene.again(run)

    def test_a_renewal_is_simply_made_again(self, scene: Scene) -> None:
        run = scene.running()
        change = Renew(run_no=run.run_no, owner="ann", epoch=1, ttl_ms=2 * LONG)
        assert scene.store.read_back(change) is None
        scene.ack(change)
        assert scene.store.read_back(change) is None
        scene.ack(change)

    def test_a_renewal_that_a_takeover_has_superseded_is_refused(self, scene: Scene) -> None:
        run = scene.abandoned()
        scene.claimed(scene.claim(run, "bob"))
        found = scene.store.read_back(Renew(run_no=run.run_no, owner="ann", epoch=1, ttl_ms=LONG))
        assert isinstance(found, Refusal)
        assert found.guard is Guard.LEASE

    def test_an_answer(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        change = answering(run, "r1")
        assert scene.store.read_back(change) is None
        ack = scene.ack(change)
        assert scene.store.read_back(change) == ack
        assert scene.again(run).answers == 1

    def test_an_answer_by_another_is_not_taken_for_ones_own(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        theirs = answering(run, "r1")
        scene.ack(theirs)
        for ours in ({"by": "lee"}, {"at": AT}, {"value": None}, {"verdict": Verdict.NOT_HAPPENED}):
            assert scene.store.read_back(replace(theirs, **ours)) is None

    def test_reading_back_changes_nothing(self, scene: Scene) -> None:
        run = scene.asked(scene.running(), "r1")
        before = scene.everything(run)
        for change in (scene.create(), scene.claim(run), scene.advance(run), answering(run, "r1")):
            scene.store.read_back(change)
        assert scene.everything(run) == before

    @staticmethod
    def _found_again(scene: Scene, change_of: Callable[[RunRecord], Any]) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        change = change_of(run)
        if change.ending is not None:
            change = replace(change, changes=(changed(1, CallState.FAILED),))
        assert scene.store.read_back(change) is None
        ack = scene.ack(change)
        assert scene.store.read_back(change) == ack
