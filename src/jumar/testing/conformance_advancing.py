"""Advances: the guards of the only way in which a live run changes, and the rows that land with it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from msgspec.structs import astuple, replace

from jumar.core.call_states import CALL_STATES, ENDED
from jumar.core.changes import Ack, Advance, Ending, Guard
from jumar.core.phases import PHASES
from jumar.core.records import CheckpointRecord, EventRecord, RunRecord, Usage
from jumar.core.states import CallState, ErrorClass, EventKind, IdentityScope, Level, Phase, Status
from jumar.errors import StoreError
from jumar.testing.conformance_scene import AT, LONG, Scene, asking, call, changed, named
from jumar.testing.conformance_suite import Suite


def _legal(before: Phase, after: Phase) -> bool:
    return after in PHASES[before] or before is after


_PHASES = list(product(Phase, Phase))
_LEGAL_PHASES = [pair for pair in _PHASES if _legal(*pair)]
_ILLEGAL_PHASES = [pair for pair in _PHASES if not _legal(*pair)]
_STATES = list(product(CallState, CallState))
_LEGAL_STATES = [(before, after) for before, after in _STATES if after in CALL_STATES[before]]
_ILLEGAL_STATES = [(before, after) for before, after in _STATES if after not in CALL_STATES[before]]


_EXTRAS = (
    *("args_artifact", "result_artifact", "key", "boot", "dispatch_by", "over_at"),
    *("before", "after", "undone"),
)


def _pairs(pairs: list[tuple[Phase, Phase]] | list[tuple[CallState, CallState]]) -> list[str]:
    return [f"{before.label}-to-{after.label}" for before, after in pairs]


def laden(scene: Scene, run: RunRecord) -> Advance:
    """An advance that writes a row of every kind; call 1 must be there and be STARTED."""
    return scene.advance(
        run,
        step=run.step + 1,
        calls=(call(7),),
        changes=(changed(1, CallState.SUCCEEDED, result=b'"done"', checksum=1),),
        artifacts=(named(b'"large"'),),
        before=CheckpointRecord("before", Level.TOOL, "before-write"),
        after=CheckpointRecord("after", Level.STEP, "by-hand"),
        requests=(asking(f"{run.run_id}/7"),),
        events=(EventRecord(EventKind.RETRY, AT, 1, run.epoch, "attempt 2"),),
    )


class Advancing(Suite):
    """Guards: RUNNING under this owner, epoch and version, with a live lease, in a phase that allows the new one."""

    def test_an_advance_adds_one_to_the_version_and_moves_cursor_and_lease(self, scene: Scene) -> None:
        run = scene.running(phase=Phase.READY_TO_DECIDE, ttl_ms=LONG)
        before = scene.store.now()
        change = scene.advance(run, phase=Phase.DECISION_RECORDED, step=4, ttl_ms=2 * LONG, at=AT + 3)
        assert scene.write(change) == Ack(run.run_no, 1, 1)
        after = scene.again(run)
        assert (after.version, after.phase, after.step, after.updated_at) == (1, Phase.DECISION_RECORDED, 4, AT + 3)
        assert before.ms + 2 * LONG <= after.lease_until <= scene.store.now().ms + 2 * LONG
        assert (after.status, after.owner, after.epoch) == (run.status, run.owner, run.epoch)

    def test_an_advance_moves_its_own_run_only(self, scene: Scene) -> None:
        other = scene.call_in(scene.running(), CallState.STARTED)
        before = scene.everything(other)
        run = scene.call_in(scene.running(), CallState.STARTED)
        scene.ack(laden(scene, run))
        assert scene.everything(other) == before

    def test_another_owner_advances_nothing(self, scene: Scene) -> None:
        self._refused(scene, Guard.LEASE, owner="bob")

    @pytest.mark.parametrize("epoch", [0, 2])
    def test_another_epoch_advances_nothing(self, scene: Scene, epoch: int) -> None:
        self._refused(scene, Guard.LEASE, epoch=epoch)

    @pytest.mark.parametrize("version", [0, 2, -1])
    def test_another_version_advances_nothing(self, scene: Scene, version: int) -> None:
        self._refused(scene, Guard.VERSION, version=version)

    def test_an_advance_of_an_unknown_run_is_not_found(self, scene: Scene) -> None:
        self._refused(scene, Guard.NOT_FOUND, run_no=999)

    def test_an_expired_lease_advances_nothing(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        scene.ack(scene.advance(run, ttl_ms=0))
        run = scene.again(run)
        scene.until_expired(run)
        before = scene.everything(run)
        assert scene.refusal(laden(scene, run)) is Guard.LEASE
        assert scene.everything(run) == before

    def test_an_owner_that_wakes_up_after_a_takeover_advances_nothing(self, scene: Scene) -> None:
        run = scene.call_in(scene.running("ann"), CallState.STARTED)
        scene.ack(scene.advance(run, ttl_ms=0))
        run = scene.again(run)
        scene.until_expired(run)
        scene.claimed(scene.claim(run, "bob"))
        before = scene.everything(run)
        assert scene.refusal(laden(scene, run)) is Guard.LEASE
        assert scene.everything(run) == before

    def test_the_same_owner_under_a_new_epoch_does_not_speak_for_its_old_self(self, scene: Scene) -> None:
        run = scene.abandoned(owner="ann")
        scene.claimed(scene.claim(run, "ann"))
        assert scene.refusal(scene.advance(run)) is Guard.LEASE

    def test_a_run_that_nobody_has_claimed_is_not_advanced(self, scene: Scene) -> None:
        run = scene.queued()
        assert scene.refusal(scene.advance(run, owner="ann")) is Guard.LEASE
        assert scene.again(run) == run

    @pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED])
    def test_a_finished_run_is_not_advanced(self, scene: Scene, status: Status) -> None:
        run = scene.running()
        scene.ack(scene.leave(run, status))
        assert scene.refusal(scene.advance(run, version=1)) is Guard.ENDED

    @pytest.mark.parametrize("status", [Status.QUEUED, Status.WAITING, Status.PAUSED, Status.FAILED])
    def test_a_run_that_was_left_is_not_advanced(self, scene: Scene, status: Status) -> None:
        run = scene.running()
        scene.ack(scene.leave(run, status))
        before = scene.everything(run)
        assert scene.refusal(scene.advance(run, version=1)) is Guard.LEASE
        assert scene.everything(run) == before

    @pytest.mark.parametrize(("before", "after"), _LEGAL_PHASES, ids=_pairs(_LEGAL_PHASES))
    def test_a_phase_goes_where_the_table_says(self, scene: Scene, before: Phase, after: Phase) -> None:
        run = scene.running(phase=before)
        scene.ack(scene.advance(run, phase=after))
        assert scene.again(run).phase is after

    @pytest.mark.parametrize(("before", "after"), _ILLEGAL_PHASES, ids=_pairs(_ILLEGAL_PHASES))
    def test_a_phase_goes_nowhere_else(self, scene: Scene, before: Phase, after: Phase) -> None:
        run = scene.running(phase=before)
        rows = scene.everything(run)
        change = scene.advance(run, phase=after, calls=(call(1),), artifacts=(named(b"1"),))
        assert scene.refusal(change) is Guard.TRANSITION
        assert scene.everything(run) == rows
        assert scene.store.artifact(run.run_no, named(b"1").digest) is None

    def test_a_run_goes_through_several_phases_in_one_advance(self, scene: Scene) -> None:
        run = scene.running(phase=Phase.READY_TO_DECIDE)
        through = (Phase.DECISION_RECORDED, Phase.AWAITING_RESULTS)
        assert scene.ack(scene.advance(run, through=through, phase=Phase.RESULTS_RECORDED)).version == 1
        assert scene.again(run).phase is Phase.RESULTS_RECORDED

    @pytest.mark.parametrize("leaves", [False, True])
    @pytest.mark.parametrize(("before", "after"), _ILLEGAL_PHASES, ids=_pairs(_ILLEGAL_PHASES))
    def test_the_first_of_the_phases_gone_through_is_guarded(
        self, scene: Scene, before: Phase, after: Phase, leaves: bool
    ) -> None:
        """Though the last of them would be legal by itself."""
        run = scene.running(phase=before)
        change = scene.advance(run, through=(after,), phase=before, calls=(call(1),))
        if leaves:
            change = replace(change, ending=Ending(status=Status.QUEUED))
        rows = scene.everything(run)
        assert scene.refusal(change) is Guard.TRANSITION
        assert scene.everything(run) == rows

    @staticmethod
    def _refused(scene: Scene, guard: Guard, **wrong: Any) -> None:
        """What differs in one guarded field is refused, and nothing of a fully laden advance lands."""
        run = scene.call_in(scene.running(), CallState.STARTED)
        before = scene.everything(run)
        change = replace(laden(scene, run), **wrong)
        assert scene.refusal(change) is guard
        assert scene.everything(run) == before
        assert scene.store.artifact(run.run_no, change.artifacts[0].digest) is None
        assert scene.store.calls(999) == []
        scene.ack(laden(scene, run))


class CallsOfAdvances(Suite):
    """A call's state changes where the table says so, and an advance that asks for more leaves nothing."""

    @pytest.mark.parametrize(("before", "after"), _LEGAL_STATES, ids=_pairs(_LEGAL_STATES))
    def test_a_call_goes_where_the_table_says(self, scene: Scene, before: CallState, after: CallState) -> None:
        run = scene.call_in(scene.running(), before)
        scene.ack(scene.advance(run, changes=(changed(1, after),)))
        assert scene.store.calls(run.run_no)[0].state is after

    @pytest.mark.parametrize(("before", "after"), _ILLEGAL_STATES, ids=_pairs(_ILLEGAL_STATES))
    def test_a_call_goes_nowhere_else(self, scene: Scene, before: CallState, after: CallState) -> None:
        run = scene.call_in(scene.running(), before)
        rows = scene.everything(run)
        change = scene.advance(run, calls=(call(2),), changes=(changed(1, after),), artifacts=(named(b"1"),))
        assert scene.refusal(change) is Guard.TRANSITION
        assert scene.everything(run) == rows
        assert scene.store.artifact(run.run_no, named(b"1").digest) is None

    @pytest.mark.parametrize("state", CALL_STATES[None], ids=lambda state: state.label)
    def test_a_call_begins_as_the_table_says(self, scene: Scene, state: CallState) -> None:
        run = scene.running()
        scene.ack(scene.advance(run, calls=(call(1, state),)))
        assert scene.store.calls(run.run_no)[0].state is state

    @pytest.mark.parametrize("state", sorted(set(CallState) - set(CALL_STATES[None])), ids=lambda state: state.label)
    def test_a_call_begins_no_other_way(self, scene: Scene, state: CallState) -> None:
        run = scene.running()
        assert scene.refusal(scene.advance(run, calls=(call(1, state),))) is Guard.TRANSITION
        assert scene.again(run) == run
        assert scene.store.calls(run.run_no) == []

    def test_a_change_of_a_call_that_is_not_there_is_refused(self, scene: Scene) -> None:
        run = scene.running()
        rows = scene.everything(run)
        assert scene.refusal(scene.advance(run, changes=(changed(1, CallState.SUCCEEDED),))) is Guard.TRANSITION
        assert scene.everything(run) == rows

    def test_the_last_of_several_changes_being_illegal_undoes_them_all(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        run = scene.call_in(run, CallState.FAILED, seq=2)
        rows = scene.everything(run)
        change = replace(laden(scene, run), changes=(changed(1, CallState.SUCCEEDED), changed(2, CallState.SUCCEEDED)))
        assert scene.refusal(change) is Guard.TRANSITION
        assert scene.everything(run) == rows
        assert scene.store.artifact(run.run_no, change.artifacts[0].digest) is None

    def test_a_call_number_used_twice_is_an_error_and_nothing_lands(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        rows = scene.everything(run)
        answer = scene.store.write([replace(laden(scene, run), calls=(call(7), call(1)))])[0]
        assert isinstance(answer, StoreError)
        assert scene.everything(run) == rows

    def test_a_call_comes_back_as_it_was_written_with_the_versions_it_was_written_at(self, scene: Scene) -> None:
        run = scene.running()
        for seq, state in enumerate(CALL_STATES[None], 1):
            written = call(
                seq,
                state,
                branch="map:3",
                key="toolu_1",
                args_artifact=b"\x01" * 32,
                boot=b"12345678",
                dispatch_by=77,
                attempt=3,
                checksum=seq,
            )
            run = scene.again(run)
            scene.ack(scene.advance(run, calls=(written,)))
            version = run.version + 1
            ended = version if state in ENDED else None
            expected = replace(written, started_version=version, ended_version=ended)
            assert scene.store.calls(run.run_no)[-1] == expected

    def test_a_call_with_every_field_set_comes_back_whole(self, scene: Scene) -> None:
        written = call(
            1,
            CallState.FAILED,
            key="toolu_1",
            args_artifact=b"\x01" * 32,
            result=b"1",
            result_artifact=b"\x02" * 32,
            usage=Usage(900, 40, 100, 0.25),
            boot=b"12345678",
            dispatch_by=77,
            over_at=88,
            identity="pay:7",
            identity_scope=IdentityScope.RUN,
            before=b"\x03" * 32,
            after=b"\x04" * 32,
            undone=2,
        )
        run = scene.running()
        scene.ack(scene.advance(run, calls=(written,)))
        [kept] = scene.store.calls(run.run_no)
        assert kept == replace(written, started_version=1, ended_version=1)
        assert None not in astuple(kept), "a field was added that this test does not set"

    @pytest.mark.parametrize("extra", _EXTRAS)
    def test_no_field_of_a_finished_call_is_left_out(self, scene: Scene, extra: str) -> None:
        values: dict[str, Any] = {"key": "toolu_1", "boot": b"12345678", "dispatch_by": 77, "over_at": 88, "undone": 1}
        written = call(1, checksum=1, **{extra: values.get(extra, b"\x01" * 32)})
        run = scene.running()
        scene.ack(scene.advance(run, calls=(written,)))
        assert scene.store.calls(run.run_no) == [replace(written, started_version=1, ended_version=1)]

    def test_a_change_keeps_the_fields_it_does_not_give_but_for_failure_and_end(self, scene: Scene) -> None:
        run = scene.call_in(
            scene.running(), CallState.UNCERTAIN, boot=b"12345678", dispatch_by=77, ended_at=AT, failure=call(
                9, CallState.FAILED
            ).failure
        )  # fmt: skip
        before = scene.store.calls(run.run_no)[0]
        scene.ack(scene.advance(run, changes=(changed(1, CallState.STARTED, attempt=2, epoch=5),)))
        assert scene.store.calls(run.run_no)[0] == replace(
            before,
            state=CallState.STARTED,
            attempt=2,
            epoch=5,
            failure=None,
            ended_at=None,
            started_version=2,
        )

    def test_a_change_sets_every_field_it_gives(self, scene: Scene) -> None:
        run = scene.call_in(scene.running(), CallState.STARTED)
        before = scene.store.calls(run.run_no)[0]
        given = {
            "result": b'"paid"',
            "result_artifact": b"\x02" * 32,
            "boot": b"87654321",
            "dispatch_by": 99,
            "started_at": AT + 50,
            "ended_at": AT + 60,
            "checksum": 4242,
            "before": b"\x03" * 32,
            "after": b"\x04" * 32,
            "undone": 3,
        }
        scene.ack(scene.advance(run, changes=(changed(1, CallState.SUCCEEDED, attempt=4, epoch=1, **given),)))
        after = scene.store.calls(run.run_no)[0]
        assert after == replace(
            before, state=CallState.SUCCEEDED, attempt=4, ended_version=2, started_version=1, **given
        )

    def test_a_failure_comes_back_whole(self, scene: Scene) -> None:
        failure = replace(
            call(1, CallState.FAILED).failure,  # type: ignore[type-var]
            message="déjà \x00 \U0001f9d7",
            error_class=ErrorClass.TRANSIENT,
            hint="h",
            args=b"[1]",
            state=b"{}",
            path="$.a",
            cancelled=True,
        )
        run = scene.running()
        scene.ack(scene.advance(run, calls=(call(1, CallState.FAILED, failure=failure),)))
        assert scene.store.calls(run.run_no)[0].failure == failure
