"""The names of actions: who holds one, who has to wait for it, and when it is free again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Ack, Guard
from jumar.core.records import IdentityRecord
from jumar.core.states import CallState, EventKind, IdentityScope, Status
from jumar.testing.conformance_advancing import laden
from jumar.testing.conformance_scene import Scene, call, changed, named, taking
from jumar.testing.conformance_suite import Suite

_RUN, _STORE = IdentityScope.RUN, IdentityScope.STORE
_SCOPES = pytest.mark.parametrize("scope", IdentityScope, ids=lambda scope: scope.label)


def _states(scene: Scene, run_no: int) -> list[CallState]:
    return [record.state for record in scene.store.calls(run_no)]


class TakingNames(Suite):
    """A name that is free, or the call's own, or its place given away, is the call's; else the call is AWAITING."""

    @_SCOPES
    def test_a_free_name_goes_to_the_call_that_is_started(self, scene: Scene, scope: IdentityScope) -> None:
        run = scene.running()
        assert scene.ack(scene.starting(run, "pay:7", scope=scope)) == Ack(run.run_no, 1, 1)
        digest = taking(1, "pay:7").args_digest
        assert scene.store.identity(scope, run.run_no, "pay:7") == IdentityRecord(
            scope, "pay:7", run.run_no, run.run_id, 1, digest
        )
        [record] = scene.store.calls(run.run_no)
        assert (record.state, record.identity, record.identity_scope) == (CallState.STARTED, "pay:7", scope)

    def test_a_name_that_nobody_took_is_held_by_nobody(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        for scope, key in ((_RUN, "pay:7"), (_STORE, "pay:8"), (_STORE, "pay"), (_STORE, "PAY:7"), (_STORE, "")):
            assert scene.store.identity(scope, run.run_no, key) is None

    @_SCOPES
    def test_a_call_whose_name_another_holds_waits_and_the_ack_says_so(
        self, scene: Scene, scope: IdentityScope
    ) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7", scope=scope))
        ack = scene.ack(scene.starting(scene.again(run), "pay:7", 2, scope=scope))
        assert (ack.version, ack.taken) == (2, (2,))
        assert _states(scene, run.run_no) == [CallState.STARTED, CallState.AWAITING]
        assert scene.holder(run, "pay:7", scope) == (run.run_id, 1)

    def test_a_name_of_the_store_reaches_into_every_run(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        assert scene.ack(scene.starting(other, "pay:7")).taken == (1,)
        assert _states(scene, other.run_no) == [CallState.AWAITING]
        assert scene.holder(other, "pay:7") == (run.run_id, 1)

    def test_a_name_of_a_run_reaches_no_other_run(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        for each in (run, other):
            assert scene.ack(scene.starting(each, "pay:7", scope=_RUN)).taken == ()
            assert scene.holder(each, "pay:7", _RUN) == (each.run_id, 1)

    def test_a_name_of_the_store_is_another_than_the_same_name_of_a_run(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7", scope=_RUN))
        assert scene.ack(scene.starting(scene.again(run), "pay:7", 2, scope=_STORE)).taken == ()
        assert scene.holder(run, "pay:7", _RUN) == (run.run_id, 1)
        assert scene.holder(run, "pay:7", _STORE) == (run.run_id, 2)

    def test_the_rest_of_an_advance_lands_though_a_name_is_taken(self, scene: Scene) -> None:
        scene.ack(scene.starting(scene.running(), "pay:7"))
        run = scene.call_in(scene.running(), CallState.STARTED)
        loaded = laden(scene, run)
        mine = call(8, CallState.STARTED, identity="pay:7", identity_scope=_STORE)
        ack = scene.ack(replace(loaded, calls=(*loaded.calls, mine), takes=(taking(8, "pay:7"),)))
        assert ack.taken == (8,)
        expected = [CallState.SUCCEEDED, CallState.SUCCEEDED, CallState.AWAITING]
        assert _states(scene, run.run_no) == expected
        _, _, checkpoints, requests, events = scene.everything(run)
        assert (len(checkpoints), len(requests), events[-1].kind) == (2, 1, EventKind.RETRY)
        assert scene.store.artifact(run.run_no, loaded.artifacts[0].digest) == loaded.artifacts[0].data

    def test_a_call_keeps_what_it_was_to_be_sent_with_while_it_waits(self, scene: Scene) -> None:
        scene.ack(scene.starting(scene.running(), "pay:7"))
        run = scene.running()
        record = call(
            1, CallState.STARTED, boot=b"12345678", dispatch_by=77, identity="pay:7", identity_scope=_STORE, attempt=2
        )
        scene.ack(scene.advance(run, calls=(record,), takes=(taking(1, "pay:7"),)))
        [kept] = scene.store.calls(run.run_no)
        assert kept == replace(record, state=CallState.AWAITING, attempt=1, started_version=1)

    def test_a_planned_call_waits_for_its_name_too(self, scene: Scene) -> None:
        scene.ack(scene.starting(scene.running(), "pay:7"))
        run = scene.call_in(scene.running(), CallState.PLANNED)
        ack = scene.ack(self._started(scene, run, dispatch_by=9))
        [kept] = scene.store.calls(run.run_no)
        assert (ack.taken, kept.state, kept.dispatch_by) == ((1,), CallState.AWAITING, 9)
        assert (kept.identity, kept.identity_scope, kept.started_version) == ("pay:7", _STORE, 1)

    def test_a_call_that_waited_takes_its_name_once_it_is_free(self, scene: Scene) -> None:
        holding, run = scene.running(), scene.running()
        scene.ack(scene.starting(holding, "pay:7"))
        scene.ack(scene.starting(run, "pay:7"))
        assert scene.ack(self._started(scene, scene.again(run))).taken == (1,)
        failed = changed(1, CallState.FAILED)
        scene.ack(scene.advance(scene.again(holding), changes=(failed,), frees=(1,)))
        assert scene.ack(self._started(scene, scene.again(run))).taken == ()
        assert _states(scene, run.run_no) == [CallState.STARTED]
        assert scene.holder(run, "pay:7") == (run.run_id, 1)

    def test_a_call_takes_the_name_again_that_is_its_own(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        other = named(b"other arguments").digest
        assert scene.ack(self._started(scene, scene.again(run), digest=other)).taken == ()
        held = scene.store.identity(_STORE, run.run_no, "pay:7")
        assert held == IdentityRecord(_STORE, "pay:7", run.run_no, run.run_id, 1, other)

    def test_a_call_with_the_same_number_in_another_run_is_another_call(self, scene: Scene) -> None:
        run, other = scene.running(), scene.call_in(scene.running(), CallState.PLANNED)
        scene.ack(scene.starting(run, "pay:7"))
        assert scene.ack(self._started(scene, other)).taken == (1,)

    @_SCOPES
    def test_a_holder_whose_place_may_be_taken_loses_the_name(self, scene: Scene, scope: IdentityScope) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7", scope=scope))
        start = scene.starting(scene.again(run), "pay:7", 2, scope=scope, instead_of=(run.run_no, 1))
        assert scene.ack(start).taken == ()
        assert scene.holder(run, "pay:7", scope) == (run.run_id, 2)

    def test_another_holder_than_the_one_whose_place_may_be_taken_keeps_it(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        for seq, instead in enumerate([(run.run_no, 2), (other.run_no, 1), (999, 1)], 4):
            start = scene.starting(scene.again(other), "pay:7", seq, instead_of=instead)
            assert scene.ack(start).taken == (seq,)
        assert scene.holder(run, "pay:7") == (run.run_id, 1)

    def test_of_two_calls_that_want_one_name_at_once_the_first_gets_it(self, scene: Scene) -> None:
        run = scene.running()
        calls = tuple(call(seq, CallState.STARTED, identity="pay:7", identity_scope=_STORE) for seq in (4, 3))
        takes = (taking(3, "pay:7"), taking(4, "pay:7"))
        assert scene.ack(scene.advance(run, calls=calls, takes=takes)).taken == (4,)
        assert _states(scene, run.run_no) == [CallState.STARTED, CallState.AWAITING]

    def test_of_two_runs_in_one_batch_the_first_gets_the_name(self, scene: Scene) -> None:
        runs = [scene.running(), scene.running()]
        answers = scene.store.write([scene.starting(run, "pay:7") for run in runs])
        assert [answer.taken for answer in answers if isinstance(answer, Ack)] == [(), (1,)]

    def test_a_call_that_waits_for_its_name_lets_the_run_leave(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(scene.running(), "pay:7"))
        ending = scene.leave(run, Status.WAITING, wake_at=7).ending
        assert scene.ack(replace(scene.starting(run, "pay:7"), ending=ending)).taken == (1,)
        assert scene.again(run).status is Status.WAITING

    def test_a_name_stays_with_its_call_over_a_takeover(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(replace(scene.starting(run, "pay:7"), ttl_ms=0))
        scene.until_expired(scene.again(run))
        scene.claimed(scene.claim(run, "bob"))
        assert scene.holder(run, "pay:7") == (run.run_id, 1)
        assert scene.ack(scene.starting(scene.running(), "pay:7")).taken == (1,)

    @staticmethod
    def _started(scene: Scene, run: Any, digest: bytes | None = None, **fields: Any) -> Any:
        """An advance that starts call 1 of a run, which has a row."""
        start = changed(1, CallState.STARTED, identity="pay:7", identity_scope=_STORE, **fields)
        take = taking(1, "pay:7") if digest is None else taking(1, "pay:7", args_digest=digest)
        return scene.advance(run, changes=(start,), takes=(take,))


class KeepingNames(Suite):
    """A name is given up where an advance says so, and by nothing that was refused."""

    def test_a_name_that_is_given_up_is_free(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.FAILED),), frees=(1,)))
        assert scene.holder(run, "pay:7") is None
        assert scene.ack(scene.starting(other, "pay:7")).taken == ()

    def test_a_call_that_ends_keeps_its_name_where_nothing_is_said(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.SUCCEEDED),)))
        assert scene.holder(run, "pay:7") == (run.run_id, 1)

    def test_all_the_names_of_a_call_are_given_up_and_no_others(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.starting(run, "a"))
        scene.ack(scene.advance(scene.again(run), takes=(taking(1, "b", scope=_RUN),)))
        scene.ack(scene.starting(scene.again(run), "c", 2))
        scene.ack(scene.starting(other, "d"))
        scene.ack(scene.advance(scene.again(run), frees=(1,)))
        assert (scene.holder(run, "a"), scene.holder(run, "b", _RUN)) == (None, None)
        assert (scene.holder(run, "c"), scene.holder(run, "d")) == ((run.run_id, 2), (other.run_id, 1))

    def test_a_name_given_up_in_an_advance_is_free_for_its_own_takes(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        start = replace(scene.starting(scene.again(run), "pay:7", 2), frees=(1,))
        assert scene.ack(start).taken == ()
        assert scene.holder(run, "pay:7") == (run.run_id, 2)

    def test_to_give_up_what_one_does_not_have_is_nothing(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, frees=(1, 99)))
        assert scene.again(run).version == 1

    @pytest.mark.parametrize(
        "wrong", [{"owner": "bob"}, {"epoch": 9}, {"version": 9}, {"changes": (changed(1, CallState.AWAITING),)}]
    )
    def test_a_refused_advance_takes_and_gives_up_no_name(self, scene: Scene, wrong: dict[str, Any]) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        run = scene.again(run)
        before = scene.everything(run)
        scene.refusal(replace(scene.starting(run, "pay:8", 2), frees=(1,), **wrong))
        assert (scene.holder(run, "pay:7"), scene.holder(run, "pay:8")) == ((run.run_id, 1), None)
        assert scene.everything(run) == before

    def test_an_advance_that_cannot_be_stored_takes_no_name(self, scene: Scene) -> None:
        run = scene.running()
        start = scene.starting(run, "pay:7")
        [answer] = scene.store.write([replace(start, calls=(*start.calls, call(2, attempt=1 << 80)))])
        assert isinstance(answer, Exception)
        assert scene.holder(run, "pay:7") is None

    def test_a_change_leaves_the_name_in_a_calls_row_where_it_gives_none(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.UNCERTAIN),)))
        [record] = scene.store.calls(run.run_no)
        assert (record.identity, record.identity_scope) == ("pay:7", _STORE)

    def test_a_call_that_ended_at_once_keeps_its_name_in_its_row(self, scene: Scene) -> None:
        run = scene.running()
        record = call(1, CallState.SUCCEEDED, identity="pay:7", identity_scope=_STORE)
        scene.ack(scene.advance(run, calls=(record,), takes=(taking(1, "pay:7"),)))
        assert scene.store.calls(run.run_no) == [replace(record, started_version=1, ended_version=1)]

    def test_a_started_call_whose_name_is_elsewhere_is_refused(self, scene: Scene) -> None:
        """What was sent does not go back to waiting."""
        scene.ack(scene.starting(scene.running(), "pay:7"))
        run = scene.call_in(scene.running(), CallState.STARTED)
        start = changed(1, CallState.STARTED)
        before = scene.everything(run)
        change = scene.advance(run, changes=(start,), takes=(taking(1, "pay:7"),))
        assert scene.refusal(change) is Guard.TRANSITION
        assert scene.everything(run) == before

    def test_an_advance_whose_ack_was_lost_is_found_with_what_it_could_not_take(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        first = scene.starting(other, "pay:7")
        free = call(2, CallState.STARTED, identity="pay:8", identity_scope=_STORE)
        change = replace(first, calls=(*first.calls, free), takes=(*first.takes, taking(2, "pay:8")))
        assert scene.store.read_back(change) is None
        ack = scene.ack(change)
        assert ack.taken == (1,)
        assert scene.store.read_back(change) == ack

    def test_names_are_held_after_the_store_was_opened_anew_where_it_is_durable(
        self, scene: Scene, tmp_path: Path
    ) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        scene.store.close()
        opened = self.make_store(tmp_path)
        try:
            assert Scene(opened).holder(run, "pay:7") == ((run.run_id, 1) if self.durable else None)
        finally:
            opened.close()

    def test_nothing_is_found_wrong_with_names_that_their_calls_carry(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.starting(run, "pay:7"))
        scene.ack(scene.starting(scene.again(run), "pay:7", 2, scope=_RUN))
        assert scene.store.inspect().findings == ()

    @pytest.mark.parametrize("carried", [None, ("pay:8", _STORE), ("pay:7", _RUN)])
    def test_a_name_that_its_call_does_not_carry_is_found(
        self, scene: Scene, carried: tuple[str, IdentityScope] | None
    ) -> None:
        run = scene.running()
        key, scope = carried or (None, None)
        record = call(1, CallState.STARTED, identity=key, identity_scope=scope)
        scene.ack(scene.advance(run, calls=(record,), takes=(taking(1, "pay:7"),)))
        [finding] = scene.store.inspect().findings
        assert finding.run_id == run.run_id
        assert "pay:7" in finding.where

    def test_a_name_held_by_a_call_that_is_not_there_is_found(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, takes=(taking(5, "pay:7"),)))
        [finding] = scene.store.inspect().findings
        assert finding.run_id == run.run_id
        assert "pay:7" in finding.where
