"""Runs that leave one store and arrive in another: exports, and the three changes that move a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from jumar.core.changes import ARRIVING, MOVED, Ack, Arrive, CallChange, Guard, Refusal
from jumar.core.checksums import checksum_of
from jumar.core.moving import adoption, arrival, departure, moved_to, standing, stood
from jumar.core.phases import FINAL
from jumar.core.records import CheckpointRecord, EventRecord, RunExport, RunRecord
from jumar.core.states import CallState, Control, Effect, ErrorClass, EventKind, IdentityScope, Level, Status, Verdict
from jumar.testing.conformance_scene import (
    ANYTHING,
    AT,
    INTENT,
    ROOT,
    Scene,
    answering,
    call,
    changed,
    holding,
    named,
    taking,
)
from jumar.testing.conformance_suite import SECOND_FOLDER, Suite

_RUN, _STORE = IdentityScope.RUN, IdentityScope.STORE
_ALL = sorted(set(Status))
ELSEWHERE = "sqlite:///elsewhere.db"


class TwoStores(Suite):
    """A second store, which runs are moved to."""

    @pytest.fixture
    def there(self, tmp_path: Path) -> Iterator[Scene]:
        folder = tmp_path / SECOND_FOLDER
        folder.mkdir()
        store = self.make_store(folder)
        yield Scene(store)
        store.close()


def full(scene: Scene) -> RunRecord:
    """A run that has something of everything, of which the lease has run out."""
    run = scene.running(task="прочти", workspace=ROOT)
    records = (
        call(1, usage=None, before=b"\x01" * 32, after=b"\x02" * 32),
        call(2, CallState.FAILED),
        call(3, CallState.STARTED, identity="pay:7", identity_scope=_STORE, boot=b"boot", dispatch_by=7),
        call(4, CallState.STARTED, identity="pay:8", identity_scope=_RUN),
        call(5, CallState.STARTED, effect=Effect.WRITE),
    )
    kept = CheckpointRecord("step-1", Level.STEP, "manual", refs=("claim:c-17",), tree=b"\x03" * 32, context=b"{}")
    change = scene.advance(
        run,
        calls=records,
        takes=(taking(3, "pay:7"), taking(4, "pay:8", scope=_RUN)),
        holds=(holding(5, b"conf/\xff.ini"), holding(5, b"a")),
        artifacts=(named(b'"large"' * 2000), named(b'"small"')),
        events=(EventRecord(EventKind.RETRY, AT + 1, 2, 1, "2 of 3"),),
        after=kept,
        ttl_ms=0,
    )
    scene.ack(change)
    scene.until_expired(scene.again(run))
    run = scene.claimed(scene.claim(run)).run
    run = scene.asked(run, f"r-{run.run_id}", 3)
    scene.ack(scene.leave(run, Status.WAITING, wake_at=AT + 5, waiting_on="scan.search.3"))
    return scene.again(run)


def ending(scene: Scene, run: RunRecord, seq: int, state: CallState) -> CallChange:
    """A call's last state, with a checksum that holds."""
    record = scene.store.call(run.run_no, seq)
    assert record is not None
    checksum = checksum_of(replace(record, state=state, result=b"1"))
    return changed(seq, state, epoch=run.epoch, result=b"1", checksum=checksum)


def undo(scene: Scene, run: RunRecord, seq: int) -> None:
    """Let a started call succeed, and then its action be undone."""
    for state, frees in ((CallState.SUCCEEDED, ()), (CallState.COMPENSATED, (seq,))):
        again = scene.again(run)
        scene.ack(scene.advance(again, changes=(ending(scene, again, seq, state),), frees=frees))


def exported(scene: Scene, run: RunRecord) -> RunExport:
    """The export of a run that must be there."""
    export = scene.store.export(run.run_id)
    assert export is not None
    return export


def numbered(export: RunExport, run_no: int) -> RunExport:
    """The same run under another number."""
    return replace(
        export,
        run=replace(export.run, run_no=run_no),
        identities=tuple(replace(name, run_no=run_no and name.run_no and run_no) for name in export.identities),
        holds=tuple(replace(held, run_no=run_no) for held in export.holds),
    )


def adopted(scene: Scene, there: Scene, run: RunRecord) -> RunRecord:
    """The run as the other store has adopted it."""
    there.ack(adoption(exported(scene, run)))
    return there.again(run)


def moved(scene: Scene, there: Scene, run: RunRecord) -> RunRecord:
    """The run as it has arrived in the other store."""
    adopted(scene, there, run)
    scene.ack(departure(run, ELSEWHERE, AT + 20))
    there.ack(_arrival(there, run))
    return there.again(run)


def _arrival(there: Scene, run: RunRecord) -> Arrive:
    return arrival(there.again(run), standing(run), AT + 21)


class Exporting(TwoStores):
    """An export is all there is of one run."""

    def test_an_export_has_every_row_of_its_run_and_none_of_another(self, scene: Scene) -> None:
        run, other = full(scene), scene.running()
        scene.ack(scene.advance(other, calls=(call(1),), artifacts=(named(b'"other"'),)))
        look, number = scene.store, run.run_no
        export = exported(scene, run)
        assert export.run == run
        assert list(export.calls) == look.calls(number)
        assert list(export.checkpoints) == look.checkpoints(number)
        assert list(export.requests) == look.requests(number)
        assert list(export.events) == look.events(number)
        kept = [named(b'"fix the site"'), named(b'"large"' * 2000), named(b'"small"')]
        assert export.artifacts == tuple(sorted(kept, key=lambda artifact: artifact.digest))
        names = [look.identity(_RUN, number, "pay:8"), look.identity(_STORE, number, "pay:7")]
        assert list(export.identities) == names
        assert list(export.holds) == look.holds(ROOT, b"")
        assert [held.path for held in export.holds] == [b"a", b"conf/\xff.ini"]

    def test_there_is_no_export_of_a_run_that_is_not_there(self, scene: Scene) -> None:
        scene.queued()
        assert scene.store.export(scene.new_id()) is None

    def test_an_export_tells_how_often_the_actions_that_its_calls_name_were_undone(self, scene: Scene) -> None:
        run = scene.running()
        for seq, key, scope in ((1, "pay:1", _STORE), (2, "pay:2", _RUN)):
            scene.ack(scene.starting(scene.again(run), key, seq, scope=scope))
            undo(scene, run, seq)
        other = scene.running()
        found = [(name.scope, name.key, name.run_no, name.undone) for name in exported(scene, run).identities]
        assert found == [(_RUN, "pay:2", 0, 1), (_STORE, "pay:1", 0, 1)]
        assert exported(scene, other).identities == ()


class Adopting(TwoStores):
    """Guards: this store does not have the run, or has it as one that is on its way, or has gone."""

    def test_an_adopted_run_has_every_row_that_it_had(self, scene: Scene, there: Scene) -> None:
        there.queued(run_id="ffffffff-0000-7000-8000-000000000000")
        run = full(scene)
        change = adoption(exported(scene, run))
        ack = there.ack(change)
        assert ack == Ack(ack.run_no, run.version, run.epoch, run.control, run.answers)
        assert ack.run_no != run.run_no
        assert exported(there, run) == numbered(change.export, ack.run_no)
        assert there.store.artifact(ack.run_no, named(b'"small"').digest) == b'"small"'
        assert there.store.find(run.run_id[-6:], 5) == [run.run_id]
        assert there.store.inspect().findings == ()

    def test_a_run_is_adopted_among_other_changes(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        new = there.create(run_id="ffffffff-0000-7000-8000-000000000000")
        order = there.order(new.run_id, Control.PAUSE)
        answers = there.store.write([new, adoption(exported(scene, run)), order])
        assert [type(answer) for answer in answers] == [Ack, Ack, Ack]
        assert there.again(run).error_type == ARRIVING
        assert there.named(new.run_id).control is Control.PAUSE

    def test_the_names_of_undone_actions_keep_their_count(self, scene: Scene, there: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:1"))
        undo(scene, run, 1)
        adopted(scene, there, scene.again(run))
        held = there.store.identity(_STORE, 0, "pay:1")
        assert held is not None and (held.run_no, held.undone) == (0, 1)

    def test_nobody_goes_on_with_it_before_it_has_arrived(self, scene: Scene, there: Scene) -> None:
        run = adopted(scene, there, full(scene))
        assert (run.status, run.error_type, run.owner) == (Status.CANCELLED, ARRIVING, None)
        before = there.everything(run)
        assert there.refusal(there.claim(run, statuses=ANYTHING, early=True)) is Guard.ENDED
        assert there.refusal(there.rollback(run)) is Guard.ENDED
        assert there.refusal(there.order(run, Control.CANCEL)) is Guard.ENDED
        assert there.refusal(answering(run, f"r-{run.run_id}")) is Guard.ANSWERED
        assert there.store.due(AT * 2, 10) == []
        assert there.everything(run) == before

    def test_a_run_that_is_there_is_not_replaced(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        moved(scene, there, run)
        before = there.everything(run)
        further = replace(exported(scene, run), run=replace(run, epoch=99, version=99))
        assert there.refusal(adoption(further)) is Guard.EXISTS
        assert there.everything(run) == before

    def test_one_that_is_on_its_way_is_replaced_by_what_has_come_of_it(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        number = adopted(scene, there, run).run_no
        later = scene.claimed(scene.claim(run, "cyd", early=True)).run
        drops = scene.advance(later, changes=(ending(scene, later, 5, CallState.SUCCEEDED),), drops=(5,))
        scene.ack(replace(drops, calls=(call(6),), artifacts=(named(b'"later"'),)))
        again = scene.again(run)
        assert adopted(scene, there, again).run_no == number
        new = adoption(exported(scene, again)).export
        assert exported(there, run) == numbered(new, number)
        assert there.holders() == []
        assert there.store.inspect().findings == ()

    @pytest.mark.parametrize("field", ["epoch", "version", "answers"])
    def test_one_that_is_on_its_way_is_not_replaced_by_what_it_was_before(
        self, scene: Scene, there: Scene, field: str
    ) -> None:
        run = full(scene)
        export = exported(scene, run)
        there.ack(adoption(replace(export, run=replace(run, **{field: getattr(run, field) + 1}))))
        before = there.everything(run)
        assert there.refusal(adoption(export)) is Guard.VERSION
        assert there.everything(run) == before

    def test_a_name_that_another_run_holds_keeps_it_out(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        other = there.running(run_id="ffffffff-0000-7000-8000-000000000000")
        there.ack(there.starting(other, "pay:7"))
        assert there.refusal(adoption(exported(scene, run))) is Guard.EXISTS
        assert there.store.run(run.run_id) is None
        assert there.holder(other, "pay:7") == (other.run_id, 1)

    def test_a_name_that_was_undone_more_often_there_keeps_it_out(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        other = there.running(run_id="ffffffff-0000-7000-8000-000000000000")
        there.ack(there.starting(other, "pay:7"))
        undo(there, other, 1)
        assert there.refusal(adoption(exported(scene, run))) is Guard.EXISTS
        assert there.store.run(run.run_id) is None

    def test_a_path_that_another_run_holds_keeps_it_out(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        other = there.running(run_id="ffffffff-0000-7000-8000-000000000000")
        there.ack(there.writing(other, b"conf"))
        assert there.refusal(adoption(exported(scene, run))) is Guard.HOLD
        assert there.store.run(run.run_id) is None
        assert there.holders() == [(b"conf", other.run_id, 1)]


class Arriving(TwoStores):
    """Guards: the run was adopted, and stands as it was adopted."""

    @pytest.mark.parametrize("status", _ALL, ids=lambda status: status.label)
    def test_a_run_that_has_arrived_is_what_it_was_without_a_lease(
        self, scene: Scene, there: Scene, status: Status
    ) -> None:
        run = self._standing(scene, status)
        adopted(scene, there, run)
        ack = there.ack(_arrival(there, run))
        epoch = run.epoch + (status not in FINAL)
        assert ack == Ack(there.again(run).run_no, run.version, epoch, run.control, run.answers)
        came = replace(run, run_no=ack.run_no, epoch=epoch, owner=None, boot=b"", lease_until=0)
        assert there.again(run) == came

    def _standing(self, scene: Scene, status: Status) -> RunRecord:
        if status is Status.RUNNING:
            return scene.abandoned()
        failed = {"error_class": ErrorClass.PERMANENT, "error_type": "Declined", "error_message": "no\n{}"}
        waits = {"wake_at": AT + 5, "waiting_on": "scan.search.1"}
        return scene.ended(status, **(waits if status is Status.WAITING else failed))

    def test_what_was_running_is_taken_over_and_its_calls_are_uncertain(self, scene: Scene, there: Scene) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, calls=(call(1, CallState.STARTED),), ttl_ms=0))
        scene.until_expired(scene.again(run))
        came = moved(scene, there, scene.again(run))
        assert there.store.due(AT, 10) == [run.run_id]
        claimed = there.claimed(there.claim(came))
        assert (claimed.uncertain, claimed.run.epoch) == (1, run.epoch + 2)
        assert there.store.calls(came.run_no)[0].state is CallState.UNCERTAIN

    def test_what_waited_can_be_answered_where_it_is_now(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        came = moved(scene, there, run)
        assert [request_id for _, request_id in self._open(there)] == [f"r-{run.run_id}"]
        there.ack(answering(came, f"r-{run.run_id}"))
        assert there.again(came).status is Status.QUEUED

    def _open(self, there: Scene) -> list[tuple[str, str]]:
        return [(run_id, request.request_id) for run_id, request in there.store.open_requests(10)]

    @pytest.mark.parametrize("field", ["epoch", "version", "answers"])
    def test_what_was_adopted_anew_meanwhile_does_not_arrive(self, scene: Scene, there: Scene, field: str) -> None:
        run = full(scene)
        change = arrival(adopted(scene, there, run), standing(run), AT)
        further = replace(run, **{field: getattr(run, field) + 1})
        there.ack(adoption(replace(exported(scene, run), run=further)))
        assert there.refusal(change) is Guard.VERSION
        assert there.again(run).error_type == ARRIVING

    def test_what_was_not_adopted_does_not_arrive(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        change = arrival(run, standing(run), AT)
        assert there.refusal(change) is Guard.NOT_FOUND
        assert scene.refusal(change) is Guard.VERSION
        assert scene.again(run) == run

    def test_a_run_arrives_once(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        change = arrival(adopted(scene, there, run), standing(run), AT)
        there.ack(change)
        assert there.refusal(change) is Guard.VERSION


class Departing(TwoStores):
    """Guards: no live lease, not ended, and nothing has changed since the export."""

    def test_a_run_that_has_departed_says_where_it_is_and_what_it_was(self, scene: Scene) -> None:
        run = full(scene)
        ack = scene.ack(departure(run, ELSEWHERE, AT + 20))
        assert ack == Ack(run.run_no, run.version, run.epoch, run.control, run.answers)
        gone = scene.again(run)
        assert (gone.status, gone.error_type, gone.owner, gone.wake_at) == (Status.CANCELLED, MOVED, None, None)
        assert moved_to(gone) == ELSEWHERE
        assert stood(gone) == standing(run)

    def test_nobody_goes_on_with_it_where_it_was(self, scene: Scene) -> None:
        run = full(scene)
        scene.ack(departure(run, ELSEWHERE, AT + 20))
        answer = scene.write(scene.claim(run, statuses=ANYTHING, early=True))
        assert isinstance(answer, Refusal) and answer.guard is Guard.ENDED
        assert ELSEWHERE in answer.detail
        assert scene.refusal(scene.rollback(scene.again(run))) is Guard.ENDED
        assert scene.refusal(scene.order(run, Control.CANCEL)) is Guard.ENDED
        assert scene.refusal(answering(run, f"r-{run.run_id}")) is Guard.ANSWERED
        assert scene.store.due(AT * 2, 10) == []

    def test_a_late_result_of_an_attempt_does_not_change_what_has_departed(self, scene: Scene) -> None:
        run = scene.waiting()
        asked = scene.asked(scene.claimed(scene.claim(run, early=True)).run, "r-1")
        scene.ack(answering(asked, "r-1", verdict=Verdict.NOT_HAPPENED, value=None))
        scene.ack(scene.leave(scene.again(run), Status.QUEUED))
        scene.ack(departure(scene.again(run), ELSEWHERE, AT + 20))
        before = scene.everything(run)
        assert scene.refusal(answering(run, "r-1", epoch=before[0].epoch)) is Guard.ANSWERED
        assert scene.everything(run) == before

    def test_its_paths_are_free_its_requests_withdrawn_and_its_names_kept(self, scene: Scene) -> None:
        run = full(scene)
        scene.ack(departure(run, ELSEWHERE, AT + 20))
        assert scene.holders() == []
        assert scene.store.open_requests(10) == []
        request = scene.store.requests(run.run_no)[0]
        assert (request.verdict, request.answered_at) == (Verdict.WITHDRAWN, AT + 20)
        assert scene.holder(run, "pay:7") == (run.run_id, 3)
        assert scene.store.inspect().findings == ()

    def test_a_run_that_somebody_holds_stays(self, scene: Scene) -> None:
        run = scene.running()
        assert scene.refusal(departure(run, ELSEWHERE, AT)) is Guard.HELD
        assert scene.again(run) == run

    @pytest.mark.parametrize("field", ["epoch", "version", "answers"])
    def test_a_run_that_has_gone_on_stays(self, scene: Scene, field: str) -> None:
        run = full(scene)
        seen = replace(run, **{field: getattr(run, field) + 1})
        assert scene.refusal(departure(seen, ELSEWHERE, AT)) is Guard.VERSION
        assert scene.again(run) == run

    def test_a_run_that_was_given_an_order_stays(self, scene: Scene) -> None:
        run = full(scene)
        scene.ack(scene.order(run, Control.PAUSE))
        assert scene.refusal(departure(run, ELSEWHERE, AT)) is Guard.VERSION

    @pytest.mark.parametrize("status", sorted(FINAL), ids=lambda status: status.label)
    def test_a_run_that_has_ended_stays(self, scene: Scene, status: Status) -> None:
        run = scene.ended(status)
        assert scene.refusal(departure(run, ELSEWHERE, AT)) is Guard.ENDED
        assert scene.again(run) == run

    def test_a_run_departs_once(self, scene: Scene) -> None:
        run = full(scene)
        scene.ack(departure(run, ELSEWHERE, AT))
        assert scene.refusal(departure(run, ELSEWHERE, AT)) is Guard.ENDED
        assert scene.refusal(departure(replace(run, run_id=scene.new_id()), ELSEWHERE, AT)) is Guard.NOT_FOUND

    def test_it_comes_back_as_what_it_has_become(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        came = moved(scene, there, run)
        went_on = there.claimed(there.claim(came, early=True)).run
        there.ack(there.advance(went_on, calls=(call(6),)))
        there.ack(there.leave(there.again(run), Status.FAILED, error_type="Declined"))
        last = there.again(run)
        back = moved(there, scene, last)
        assert (back.run_no, back.status, back.epoch) == (run.run_no, Status.FAILED, last.epoch + 1)
        assert scene.store.calls(run.run_no) == there.store.calls(came.run_no)
        assert scene.holders() == [(b"a", run.run_id, 5), (b"conf/\xff.ini", run.run_id, 5)]
        assert scene.store.inspect().findings == ()

    def test_a_run_in_the_middle_of_a_rollback_moves_with_it(self, scene: Scene, there: Scene) -> None:
        claim = {"intent": INTENT, "holds": (holding(0, b""),), "ttl_ms": 0}
        run = scene.rolling_back(scene.ended(Status.FAILED, output_digest=b"\x03" * 32), **claim)
        scene.until_expired(run)
        came = moved(scene, there, run)
        assert (came.status, came.intent) == (Status.RUNNING, INTENT)
        assert (scene.holders(), there.holders()) == ([], [(b"", run.run_id, 0)])
        assert scene.store.inspect().findings == there.store.inspect().findings == ()
        took_over = there.claimed(there.claim(came)).run
        there.ack(there.heading(took_over, base=0))
        assert there.holders() == []

    def test_what_it_was_before_it_left_does_not_come_back(self, scene: Scene) -> None:
        run = full(scene)
        export = exported(scene, run)
        scene.ack(departure(run, ELSEWHERE, AT))
        assert scene.refusal(adoption(export)) is Guard.VERSION
        assert scene.again(run).error_type == MOVED


class ReadingMovesBack(TwoStores):
    """A move whose commit had an unknown outcome is known by how the run stands."""

    def test_an_adoption_that_landed_is_told_from_one_that_did_not(self, scene: Scene, there: Scene) -> None:
        change = adoption(exported(scene, full(scene)))
        assert there.store.read_back(change) is None
        ack = there.ack(change)
        assert there.store.read_back(change) == ack

    def test_an_arrival_that_landed_is_told_from_one_that_did_not(self, scene: Scene, there: Scene) -> None:
        run = full(scene)
        adopted(scene, there, run)
        change = _arrival(there, run)
        assert there.store.read_back(change) is None
        ack = there.ack(change)
        assert there.store.read_back(change) == ack

    def test_a_departure_that_landed_is_told_from_one_that_did_not(self, scene: Scene) -> None:
        run = full(scene)
        change = departure(run, ELSEWHERE, AT)
        assert scene.store.read_back(change) is None
        ack = scene.ack(change)
        assert scene.store.read_back(change) == ack
