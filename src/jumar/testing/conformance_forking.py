"""Forks: a new run out of another one, by reference."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from jumar.core.changes import Ack, Ending, Guard
from jumar.core.records import CheckpointRecord, RunRecord
from jumar.core.states import CallState, Control, ErrorClass, EventKind, IdentityScope, Level, Phase, Status
from jumar.testing.conformance_scene import AT, Scene, call, changed, named, taking
from jumar.testing.conformance_suite import Suite

_RUN, _STORE = IdentityScope.RUN, IdentityScope.STORE
_OPEN = (CallState.PLANNED, CallState.AWAITING, CallState.STARTED, CallState.UNCERTAIN)


def _origin(scene: Scene) -> RunRecord:
    """A completed run with three calls (at the versions 1 to 3), a checkpoint for each, and an artifact."""
    run = scene.running(workspace="/srv/site", agent="repair", agent_version="4", task="fix-it")
    for seq in (1, 2, 3):
        kept = CheckpointRecord(f"step-{seq}", Level.STEP, "manual", tree=bytes([seq]) * 32)
        change = scene.advance(scene.again(run), step=seq, calls=(call(seq),), after=kept)
        scene.ack(replace(change, artifacts=(named(b'"large %d"' % seq),)))
    ending = Ending(status=Status.COMPLETED, output_digest=named(b'"large 3"').digest)
    scene.ack(scene.advance(scene.again(run), phase=Phase.STOPPED, ending=ending))
    return scene.again(run)


class Forking(Suite):
    """Guards: the source's version is the one given, and no run has the new id."""

    def test_a_fork_is_paused_after_its_source_and_in_another_generation(self, scene: Scene) -> None:
        run = _origin(scene)
        change = scene.fork(run, 2, phase=Phase.IN_CODE, step=2, at=AT + 70)
        ack = scene.ack(change)
        fork = scene.named(change.run_id)
        assert ack == Ack(fork.run_no, run.version + 1, 0)
        assert fork == replace(
            run,
            run_no=fork.run_no,
            run_id=change.run_id,
            status=Status.PAUSED,
            phase=Phase.IN_CODE,
            step=2,
            version=run.version + 1,
            generation=1,
            epoch=0,
            output_digest=None,
            created_at=AT + 70,
            updated_at=AT + 70,
            line=((run.version + 1, 2),),
            origin=run.run_id,
            forked_from=run.run_id,
        )

    def test_the_source_stays_as_it_is(self, scene: Scene) -> None:
        run = _origin(scene)
        before = scene.everything(run)
        scene.ack(scene.fork(run, 2, calls=(1, 2), checkpoints=(1, 2)))
        assert scene.everything(run) == before

    def test_nothing_that_held_its_source_up_holds_the_fork(self, scene: Scene) -> None:
        run = scene.waiting(wake_at=AT, waiting_on="scan.ask.1", error_class=ErrorClass.PERMANENT, failed_calls=(1,))
        scene.ack(scene.order(run, Control.CANCEL))
        fork = self._forked(scene, scene.again(run))
        stood = (fork.status, fork.owner, fork.control, fork.ordered_by, fork.answers, fork.wake_at, fork.waiting_on)
        assert stood == (Status.PAUSED, None, Control.NONE, None, 0, None, None)
        assert (fork.error_class, fork.failed_calls, fork.intent, fork.epoch) == (None, (), None, 0)
        assert scene.store.requests(fork.run_no) == []

    def test_a_fork_of_a_run_in_the_middle_of_a_rollback_has_no_intent(self, scene: Scene) -> None:
        run = scene.rolling_back()
        assert self._forked(scene, run).intent is None

    def test_it_has_the_calls_that_are_named_as_they_ended_and_no_others(self, scene: Scene) -> None:
        run = _origin(scene)
        fork = self._forked(scene, run, 2, calls=(1, 3))
        expected = [replace(record, epoch=0) for record in scene.store.calls(run.run_no) if record.seq != 2]
        assert scene.store.calls(fork.run_no) == expected

    def test_it_has_the_checkpoints_that_are_named_with_their_checksums_and_no_others(self, scene: Scene) -> None:
        run = _origin(scene)
        fork = self._forked(scene, run, 2, checkpoints=(1, 2, 99))
        assert scene.store.checkpoints(fork.run_no) == scene.store.checkpoints(run.run_no)[:2]
        last = scene.store.last_snapshot(fork.run_no)
        assert last is not None and last.version == 2
        assert scene.store.inspect().findings == ()

    def test_its_trace_begins_with_the_fork(self, scene: Scene) -> None:
        run = _origin(scene)
        [event] = scene.store.events(self._forked(scene, run, 2, at=AT + 70).run_no)
        assert (event.kind, event.at, event.detail) == (EventKind.FORKED, AT + 70, "at version 2")

    def test_it_works_in_another_workspace_where_it_is_given_one(self, scene: Scene) -> None:
        run = _origin(scene)
        assert self._forked(scene, run).workspace == "/srv/site"
        assert self._forked(scene, run, workspace="/srv/copy").workspace == "/srv/copy"

    @pytest.mark.parametrize("off", [-1, 1])
    def test_a_source_at_another_version_refuses_it(self, scene: Scene, off: int) -> None:
        run = _origin(scene)
        change = scene.fork(replace(run, version=run.version + off), calls=(1,), checkpoints=(1,))
        assert scene.refusal(change) is Guard.VERSION
        assert scene.store.run(change.run_id) is None

    def test_a_source_that_went_on_meanwhile_refuses_it(self, scene: Scene) -> None:
        run = scene.running()
        change = scene.fork(run)
        scene.ack(scene.advance(run))
        assert scene.refusal(change) is Guard.VERSION
        assert scene.ack(scene.fork(scene.again(run))).version == 2

    def test_an_unknown_source_is_not_found(self, scene: Scene) -> None:
        assert scene.refusal(replace(scene.fork(scene.running()), source_no=999)) is Guard.NOT_FOUND

    def test_an_id_that_is_taken_refuses_it_and_the_run_that_has_it_stays(self, scene: Scene) -> None:
        run, other = _origin(scene), scene.running()
        before = scene.everything(other)
        for taken in (other, run):
            assert scene.refusal(scene.fork(run, run_id=taken.run_id, calls=(1,))) is Guard.EXISTS
        assert scene.everything(other) == before

    @pytest.mark.parametrize("state", [*_OPEN, None], ids=lambda state: "missing" if state is None else state.label)
    def test_a_call_that_has_not_ended_or_is_not_there_refuses_it(self, scene: Scene, state: CallState | None) -> None:
        run = scene.call_in(scene.running(), CallState.SUCCEEDED)
        if state is not None:
            run = scene.call_in(run, state, 2)
        change = scene.fork(run, calls=(1, 2))
        assert scene.refusal(change) is Guard.TRANSITION
        assert scene.store.run(change.run_id) is None

    def test_it_goes_on_as_any_run(self, scene: Scene) -> None:
        run = _origin(scene)
        fork = scene.claimed(scene.claim(self._forked(scene, run, 2, calls=(1, 2)), "ann")).run
        assert fork.epoch == 1
        scene.ack(scene.advance(fork, calls=(call(4, CallState.STARTED),)))
        scene.ack(scene.advance(scene.again(fork), changes=(changed(4, CallState.SUCCEEDED),)))
        assert [record.seq for record in scene.store.calls(fork.run_no)] == [1, 2, 4]
        assert [record.seq for record in scene.store.calls(run.run_no)] == [1, 2, 3]

    def test_it_is_found_by_the_end_of_its_id_and_listed_and_nobody_takes_it_up_unasked(self, scene: Scene) -> None:
        fork = self._forked(scene, _origin(scene))
        assert scene.store.find(fork.run_id[-8:], 9) == [fork.run_id]
        assert scene.store.due(AT * 2, 9) == []

    def test_names_within_the_run_are_the_forks_too_where_their_calls_are(self, scene: Scene) -> None:
        run = scene.running()
        for seq, key in ((1, "a"), (2, "b")):
            scene.ack(scene.starting(scene.again(run), key, seq, scope=_RUN))
            scene.ack(scene.advance(scene.again(run), changes=(changed(seq, CallState.SUCCEEDED),)))
        fork = self._forked(scene, scene.again(run), calls=(2,))
        assert scene.holder(fork, "a", _RUN) is None
        assert scene.holder(fork, "b", _RUN) == (fork.run_id, 2)
        assert scene.holder(run, "b", _RUN) == (run.run_id, 2)
        assert scene.findings_of_names() == []

    def test_names_of_the_store_stay_with_the_source(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "a"))
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.SUCCEEDED),)))
        fork = self._forked(scene, scene.again(run), calls=(1,))
        assert scene.holder(fork, "a") == (run.run_id, 1)
        assert scene.findings_of_names() == []

    def test_it_knows_how_often_actions_within_the_run_were_undone_whoever_holds_their_names(
        self, scene: Scene
    ) -> None:
        """An idempotency key is made of the count, and the key of what was undone must not be sent again."""
        run = scene.running()
        for seq, key in ((1, "nobodys"), (2, "held"), (3, "left")):
            scene.ack(scene.starting(scene.again(run), key, seq, scope=_RUN))
            scene.ack(scene.advance(scene.again(run), changes=(changed(seq, CallState.SUCCEEDED),)))
            scene.ack(scene.advance(scene.again(run), changes=(changed(seq, CallState.COMPENSATED),), frees=(seq,)))
        for seq, key in ((4, "held"), (5, "left")):
            scene.ack(scene.starting(scene.again(run), key, seq, scope=_RUN, undone=1))
            scene.ack(scene.advance(scene.again(run), changes=(changed(seq, CallState.SUCCEEDED),)))
        fork = self._forked(scene, scene.again(run), calls=(1, 2, 3, 4))
        names = {key: scene.store.identity(_RUN, fork.run_no, key) for key in ("nobodys", "held", "left")}
        held = {key: (name.undone, name.run_id, name.call_seq) for key, name in names.items() if name is not None}
        assert held == {"nobodys": (1, "", 0), "held": (1, fork.run_id, 4), "left": (1, "", 0)}
        assert scene.holder(run, "left", _RUN) == (run.run_id, 5)
        started = scene.claimed(scene.claim(fork)).run
        change = scene.advance(
            started,
            calls=(call(6, CallState.STARTED, identity="left", identity_scope=_RUN),),
            takes=(taking(6, "left", scope=_RUN),),
        )
        assert scene.ack(change).taken == (6,)

    def test_paths_that_the_source_holds_stay_its_own(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, b"conf"))
        self._forked(scene, scene.again(run))
        assert scene.holders() == [(b"conf", run.run_id, 1)]

    def test_one_whose_ack_was_lost_is_found_though_it_has_gone_on(self, scene: Scene) -> None:
        run = _origin(scene)
        change = scene.fork(run, 2)
        assert scene.store.read_back(change) is None
        ack = scene.ack(change)
        assert scene.store.read_back(change) == ack
        fork = scene.claimed(scene.claim(change.run_id)).run
        scene.ack(scene.advance(fork))
        assert scene.store.read_back(change) == ack

    def test_another_run_of_that_id_is_not_taken_for_it(self, scene: Scene) -> None:
        run, other = _origin(scene), _origin(scene)
        change = scene.fork(run, 2)
        scene.ack(change)
        theirs = scene.fork(other, 2, run_id=change.run_id)
        for wrong in (replace(change, base=1), replace(change, at=AT), theirs, replace(change, source_no=999)):
            assert scene.store.read_back(wrong) is None
        assert scene.store.read_back(replace(change, run_id=other.run_id)) is None

    @staticmethod
    def _forked(scene: Scene, run: RunRecord, base: int = 0, **fields: object) -> RunRecord:
        change = scene.fork(run, base, **fields)
        scene.ack(change)
        return scene.named(change.run_id)


class ForksOfForks(Suite):
    """What a fork has from its source it has through any number of forks."""

    def test_artifacts_are_found_through_the_chain_of_forks(self, scene: Scene) -> None:
        run = _origin(scene)
        chain = [run]
        for _ in range(4):
            change = scene.fork(chain[-1])
            scene.ack(change)
            chain.append(scene.named(change.run_id))
        for number in (1, 2, 3):
            artifact = named(b'"large %d"' % number)
            assert {scene.store.artifact(each.run_no, artifact.digest) for each in chain} == {artifact.data}
        assert scene.store.artifact(chain[-1].run_no, b"\x00" * 32) is None

    def test_what_is_kept_in_a_fork_is_its_own_and_its_forks(self, scene: Scene) -> None:
        run = _origin(scene)
        mine = named(b'"mine"')
        one, two = scene.fork(run), scene.fork(run)
        for change in (one, two):
            scene.ack(change)
        claimed = scene.claimed(scene.claim(one.run_id)).run
        scene.ack(scene.advance(claimed, artifacts=(mine,)))
        deeper = scene.fork(scene.again(claimed))
        scene.ack(deeper)
        assert scene.store.artifact(scene.named(deeper.run_id).run_no, mine.digest) == mine.data
        for other in (run.run_id, two.run_id):
            assert scene.store.artifact(scene.named(other).run_no, mine.digest) is None

    def test_the_first_of_the_chain_is_the_origin_of_all(self, scene: Scene) -> None:
        run = _origin(scene)
        one = scene.fork(run, 2)
        scene.ack(one)
        two = scene.fork(scene.named(one.run_id), 5)
        scene.ack(two)
        fork = scene.named(two.run_id)
        assert (fork.origin, fork.forked_from, fork.generation) == (run.run_id, one.run_id, 2)
        assert fork.line == ((5, 2), (6, 5))

    def test_a_fork_is_there_after_the_store_was_opened_anew_where_it_is_durable(
        self, scene: Scene, tmp_path: Path
    ) -> None:
        change = scene.fork(_origin(scene), 2, calls=(1, 2), checkpoints=(1, 2))
        scene.ack(change)
        before = scene.everything(scene.named(change.run_id))
        artifact = named(b'"large 1"')
        scene.store.close()
        opened = self.make_store(tmp_path)
        try:
            if self.durable:
                assert Scene(opened).everything(before[0]) == before
                assert opened.artifact(before[0].run_no, artifact.digest) == artifact.data
            else:
                assert opened.run(change.run_id) is None
        finally:
            opened.close()
