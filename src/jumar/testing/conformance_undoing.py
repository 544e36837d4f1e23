"""Actions that were undone: their names are free again, and it is counted how often that happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jumar.core.changes import Ack
from jumar.core.records import IdentityRecord, RunRecord
from jumar.core.states import CallState, IdentityScope
from jumar.testing.conformance_scene import Scene, call, changed, taking
from jumar.testing.conformance_suite import Suite

_RUN, _STORE = IdentityScope.RUN, IdentityScope.STORE
_SCOPES = pytest.mark.parametrize("scope", IdentityScope, ids=lambda scope: scope.label)


class Undoing(Suite):
    """A name whose action was undone is nobody's, and is taken only by who knows how often it was undone."""

    @_SCOPES
    def test_the_name_of_an_undone_action_is_nobodys_and_its_undoing_is_counted(
        self, scene: Scene, scope: IdentityScope
    ) -> None:
        run = self._undone(scene, scope=scope)
        digest = taking(1, "pay:7").args_digest
        assert scene.store.identity(scope, run.run_no, "pay:7") == IdentityRecord(scope, "pay:7", 0, "", 0, digest, 1)
        assert scene.store.calls(run.run_no)[0].state is CallState.COMPENSATED
        assert scene.findings_of_names() == []

    @_SCOPES
    def test_whoever_knows_that_it_was_undone_takes_the_name(self, scene: Scene, scope: IdentityScope) -> None:
        run = self._undone(scene, scope=scope)
        assert scene.ack(scene.starting(run, "pay:7", 2, scope=scope, undone=1)).taken == ()
        digest = taking(2, "pay:7").args_digest
        held = scene.store.identity(scope, run.run_no, "pay:7")
        assert held == IdentityRecord(scope, "pay:7", run.run_no, run.run_id, 2, digest, 1)

    @pytest.mark.parametrize("undone", [0, 2])
    def test_whoever_counts_otherwise_does_not_and_the_name_stays_nobodys(self, scene: Scene, undone: int) -> None:
        run = self._undone(scene)
        before = scene.store.identity(_STORE, run.run_no, "pay:7")
        assert scene.ack(scene.starting(run, "pay:7", 2, undone=undone)).taken == (2,)
        assert scene.store.identity(_STORE, run.run_no, "pay:7") == before
        assert scene.store.calls(run.run_no)[1].state is CallState.AWAITING

    def test_a_name_that_nobody_has_had_was_never_undone(self, scene: Scene) -> None:
        run = scene.running()
        assert scene.ack(scene.starting(run, "pay:7", undone=1)).taken == (1,)
        assert scene.holder(run, "pay:7") is None

    def test_of_two_runs_that_saw_the_name_before_it_was_undone_neither_gets_it(self, scene: Scene) -> None:
        one, other = scene.running(), scene.running()
        self._undone(scene)
        answers = scene.store.write([scene.starting(run, "pay:7") for run in (one, other)])
        assert [answer.taken for answer in answers if isinstance(answer, Ack)] == [(1,), (1,)]

    def test_of_two_runs_that_saw_it_undone_the_first_gets_it(self, scene: Scene) -> None:
        one, other = scene.running(), scene.running()
        self._undone(scene)
        answers = scene.store.write([scene.starting(run, "pay:7", undone=1) for run in (one, other)])
        assert [answer.taken for answer in answers if isinstance(answer, Ack)] == [(), (1,)]
        assert scene.holder(one, "pay:7") == (one.run_id, 1)

    def test_neither_its_own_call_nor_a_place_that_was_given_away_gets_past_the_count(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        for seq, instead in ((1, None), (2, (run.run_no, 1))):
            change = scene.advance(
                scene.again(run),
                changes=(changed(1, CallState.UNCERTAIN),) if seq == 2 else (),
                calls=(call(2, CallState.STARTED),) if seq == 2 else (),
                takes=(taking(seq, "pay:7", undone=1, instead_of=instead),),
            )
            assert scene.ack(change).taken == (seq,)
            assert scene.holder(run, "pay:7") == (run.run_id, 1)

    def test_every_undoing_counts_and_a_name_given_up_otherwise_keeps_the_count(self, scene: Scene) -> None:
        run = self._undone(scene)
        scene.ack(scene.starting(run, "pay:7", 2, undone=1))
        scene.ack(scene.advance(scene.again(run), changes=(changed(2, CallState.FAILED),), frees=(2,)))
        assert self._count(scene, run) == (None, 1)
        scene.ack(scene.starting(scene.again(run), "pay:7", 3, undone=1))
        run = self._compensated(scene, scene.again(run), 3)
        assert self._count(scene, run) == (None, 2)

    def test_a_call_that_is_compensated_and_keeps_its_name_counts_nothing(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        run = self._compensated(scene, scene.again(run), 1, frees=())
        assert self._count(scene, run) == ((run.run_id, 1), 0)

    def test_only_the_calls_that_the_advance_makes_compensated_count(self, scene: Scene) -> None:
        run = scene.running()
        for seq, key in ((1, "pay:7"), (2, "pay:8")):
            scene.ack(scene.starting(scene.again(run), key, seq))
            scene.ack(scene.advance(scene.again(run), changes=(changed(seq, CallState.SUCCEEDED),)))
        run = self._compensated(scene, scene.again(run), 1, frees=(1, 2))
        assert self._count(scene, run) == (None, 1)
        assert scene.store.identity(_STORE, run.run_no, "pay:8") is None

    def test_a_refused_advance_undoes_nothing(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        scene.refusal(scene.advance(scene.again(run), changes=(changed(1, CallState.COMPENSATED),), frees=(1,)))
        assert self._count(scene, run) == ((run.run_id, 1), 0)

    def test_how_often_a_call_had_been_undone_stays_in_its_row(self, scene: Scene) -> None:
        run = scene.running()
        record = call(1, CallState.STARTED, identity="pay:7", identity_scope=_STORE, undone=3)
        scene.ack(scene.advance(run, calls=(record,)))
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.SUCCEEDED),)))
        assert scene.store.calls(run.run_no)[0].undone == 3

    def test_the_count_is_there_after_the_store_was_opened_anew_where_it_is_durable(
        self, scene: Scene, tmp_path: Path
    ) -> None:
        run = self._undone(scene)
        before = scene.store.identity(_STORE, run.run_no, "pay:7")
        scene.store.close()
        opened = self.make_store(tmp_path)
        try:
            assert opened.identity(_STORE, run.run_no, "pay:7") == (before if self.durable else None)
        finally:
            opened.close()

    def _undone(self, scene: Scene, scope: IdentityScope = _STORE) -> RunRecord:
        """A run whose call 1 had the name pay:7, and was compensated."""
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7", scope=scope))
        return self._compensated(scene, scene.again(run), 1)

    @staticmethod
    def _compensated(scene: Scene, run: RunRecord, seq: int, frees: tuple[int, ...] | None = None) -> RunRecord:
        if scene.store.calls(run.run_no)[seq - 1].state is CallState.STARTED:
            scene.ack(scene.advance(run, changes=(changed(seq, CallState.SUCCEEDED),)))
        gone = (seq,) if frees is None else frees
        scene.ack(scene.advance(scene.again(run), changes=(changed(seq, CallState.COMPENSATED),), frees=gone))
        return scene.again(run)

    @staticmethod
    def _count(scene: Scene, run: RunRecord) -> tuple[Any, int]:
        """Who holds pay:7, and how often it was undone."""
        held = scene.store.identity(_STORE, run.run_no, "pay:7")
        assert held is not None
        return scene.holder(run, "pay:7") if held.run_no else None, held.undone


class Sharing(Suite):
    """Whether another run counts on what a call did, so that nobody undoes it unasked."""

    def test_what_was_given_to_another_run_is_shared(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        for each in (run, other):
            assert not scene.store.shared(run.run_no, 1)
            record = call(1, CallState.SUCCEEDED, identity="pay:7", identity_scope=_STORE)
            scene.ack(scene.advance(each, calls=(record,)))
        assert scene.store.shared(run.run_no, 1)
        assert scene.store.shared(other.run_no, 1)

    @pytest.mark.parametrize(
        ("key", "scope", "state"),
        [
            ("pay:8", _STORE, CallState.SUCCEEDED),
            ("pay:7", _RUN, CallState.SUCCEEDED),
            ("pay:7", _STORE, CallState.FAILED),
            ("pay:7", _STORE, CallState.AWAITING),
            ("pay:7", _STORE, CallState.COMPENSATED),
        ],
        ids=["name", "scope", "failed", "awaiting", "undone"],
    )
    def test_what_another_run_was_not_given_is_not(
        self, scene: Scene, key: str, scope: IdentityScope, state: CallState
    ) -> None:
        run = scene.call_in(scene.running(), CallState.SUCCEEDED, identity="pay:7", identity_scope=_STORE)
        scene.call_in(scene.running(), state, identity=key, identity_scope=scope)
        assert not scene.store.shared(run.run_no, 1)

    def test_a_name_within_the_run_and_no_name_are_shared_with_nobody(self, scene: Scene) -> None:
        named: list[dict[str, Any]] = [{"identity": "pay:7", "identity_scope": _RUN}, {}]
        for fields in named:
            runs = [scene.call_in(scene.running(), CallState.SUCCEEDED, **fields) for _ in range(2)]
            assert not scene.store.shared(runs[0].run_no, 1)

    def test_another_call_of_the_same_run_shares_nothing(self, scene: Scene) -> None:
        run = scene.running()
        for seq in (1, 2):
            record = call(seq, CallState.SUCCEEDED, identity="pay:7", identity_scope=_STORE)
            scene.ack(scene.advance(scene.again(run), calls=(record,)))
        assert not scene.store.shared(run.run_no, 1)

    def test_what_a_fork_has_a_copy_of_is_shared_until_that_is_undone(self, scene: Scene) -> None:
        run = scene.call_in(scene.call_in(scene.running(), CallState.SUCCEEDED), CallState.SUCCEEDED, 2)
        change = scene.fork(run, calls=(1,))
        scene.ack(change)
        assert (scene.store.shared(run.run_no, 1), scene.store.shared(run.run_no, 2)) == (True, False)
        fork = scene.claimed(scene.claim(change.run_id)).run
        scene.ack(scene.advance(fork, calls=(call(2, epoch=fork.epoch),)))
        assert not scene.store.shared(run.run_no, 2)
        scene.ack(scene.advance(scene.again(fork), changes=(changed(1, CallState.COMPENSATED, epoch=fork.epoch),)))
        assert not scene.store.shared(run.run_no, 1)

    def test_a_call_that_is_not_there_is_not_shared(self, scene: Scene) -> None:
        assert not scene.store.shared(scene.running().run_no, 9)
        assert not scene.store.shared(999, 1)
