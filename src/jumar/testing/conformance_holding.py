"""The paths of workspaces: which ones are in each other's way, who has to wait, and when a path is free again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Ack, Guard
from jumar.core.phases import CLAIMABLE, FINAL
from jumar.core.records import EventRecord, HoldRecord, RunRecord
from jumar.core.states import CallState, Effect, EventKind, Status, Verdict
from jumar.testing.conformance_scene import AT, INTENT, ROOT, Scene, answering, call, changed, holding, taking
from jumar.testing.conformance_suite import Suite

_FILE = b"conf/site.ini"
_IN_THE_WAY = (_FILE, b"conf", b"", b"conf/site.ini/deeper", b"conf/site.ini/deeper/still")
_BESIDE = (
    *(b"conf/site.in", b"conf/site.ini2", b"conf/site.ini.bak", b"conf/other", b"con", b"conf2", b"conf-old"),
    *(b"conf/site.ini0", b"conf.d/site.ini", b"site.ini", b"CONF/site.ini", b"conf\xff", b"conf/site.ini\x00"),
)


def _named(path: bytes) -> str:
    return path.decode("latin-1").encode("unicode_escape").decode() or "the whole"


def _long(size: int, seed: int) -> str:
    """A path of segments that cannot be packed, always the same ones."""
    digits = random.Random(seed).choices("0123456789abcdef", k=size)
    return "".join("/" if at % 200 == 199 else digit for at, digit in enumerate(digits))


_OVERLAPS = pytest.mark.parametrize("path", _IN_THE_WAY, ids=_named)


class HoldingPaths(Suite):
    """A path is a call's where no other call holds it, one above or one below it; else the call is AWAITING."""

    def test_free_paths_go_to_the_call_that_is_started(self, scene: Scene) -> None:
        run = scene.running()
        assert scene.ack(scene.writing(run, _FILE, b"log")) == Ack(run.run_no, 1, 1)
        assert scene.store.holds(ROOT, b"") == [
            HoldRecord(ROOT, _FILE, run.run_no, run.run_id, 1),
            HoldRecord(ROOT, b"log", run.run_no, run.run_id, 1),
        ]
        assert self._state(scene, run) is CallState.STARTED

    @_OVERLAPS
    def test_a_path_above_or_below_or_the_same_is_in_the_way_whichever_came_first(
        self, scene: Scene, path: bytes
    ) -> None:
        for root, first, second in (("/a", _FILE, path), ("/b", path, _FILE)):
            one, other = scene.running(), scene.running()
            assert scene.ack(scene.writing(one, first, workspace=root)).taken == ()
            assert scene.ack(scene.writing(other, second, workspace=root)).taken == (1,)
            assert self._state(scene, other) is CallState.AWAITING
            assert scene.holders(second, root) == [(first, one.run_id, 1)]

    @pytest.mark.parametrize("path", _BESIDE, ids=_named)
    def test_a_path_beside_is_not_in_the_way(self, scene: Scene, path: bytes) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.writing(run, _FILE))
        assert scene.ack(scene.writing(other, path)).taken == ()
        assert scene.holders(_FILE) == [(_FILE, run.run_id, 1)]
        assert scene.holders(path) == [(path, other.run_id, 1)]

    @_OVERLAPS
    def test_a_path_of_another_workspace_is_another_path(self, scene: Scene, path: bytes) -> None:
        run, below, above = scene.running(), scene.running(), scene.running()
        scene.ack(scene.writing(run, path))
        for other, root in ((below, "/srv/sit"), (above, "/srv/site/")):
            assert scene.ack(scene.writing(other, _FILE, workspace=root)).taken == ()
            assert scene.holders(path, root) == [(_FILE, other.run_id, 1)]
        assert scene.holders(path) == [(path, run.run_id, 1)]

    def test_paths_as_long_as_a_system_takes_them_are_held(self, scene: Scene) -> None:
        run, below, beside = scene.running(), scene.running(), scene.running()
        root, folder = f"/{_long(4000, 1)}", _long(4000, 2).encode()
        scene.ack(scene.writing(run, folder, workspace=root))
        assert scene.ack(scene.writing(below, folder + b"/site.ini", workspace=root)).taken == (1,)
        assert scene.ack(scene.writing(beside, folder + b"2", workspace=root)).taken == ()
        assert scene.holders(folder, root) == [(folder, run.run_id, 1)]

    def test_a_call_of_the_same_run_is_in_the_way_too(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, b"conf"))
        assert scene.ack(scene.writing(scene.again(run), _FILE, seq=2)).taken == (2,)
        assert scene.holders() == [(b"conf", run.run_id, 1)]

    def test_a_call_is_never_in_its_own_way(self, scene: Scene) -> None:
        run = scene.running()
        assert scene.ack(scene.writing(run, _FILE, b"conf", b"")).taken == ()
        again = changed(1, CallState.STARTED, attempt=2)
        holds = (holding(1, _FILE), holding(1, b"conf"), holding(1, b"log"))
        assert scene.ack(scene.advance(scene.again(run), changes=(again,), holds=holds)).taken == ()
        assert [path for path, _, _ in scene.holders()] == [b"", b"conf", _FILE, b"log"]

    def test_a_path_held_by_a_call_with_the_same_number_in_another_run_is_in_the_way(self, scene: Scene) -> None:
        scene.ack(scene.writing(scene.running(), _FILE))
        assert scene.ack(scene.writing(scene.running(), _FILE)).taken == (1,)

    def test_of_two_runs_in_one_batch_the_first_gets_the_path(self, scene: Scene) -> None:
        runs = [scene.running(), scene.running()]
        answers = scene.store.write([scene.writing(run, _FILE) for run in runs])
        assert [answer.taken for answer in answers if isinstance(answer, Ack)] == [(), (1,)]
        assert scene.holders() == [(_FILE, runs[0].run_id, 1)]

    def test_of_two_calls_of_one_advance_the_first_gets_the_path(self, scene: Scene) -> None:
        run = scene.running()
        calls = tuple(call(seq, CallState.STARTED, effect=Effect.WRITE) for seq in (4, 3))
        change = scene.advance(run, calls=calls, holds=(holding(3, _FILE), holding(4, b"conf"), holding(3, b"log")))
        assert scene.ack(change).taken == (4,)
        assert scene.holders() == [(_FILE, run.run_id, 3), (b"log", run.run_id, 3)]

    def test_a_call_that_cannot_have_one_of_its_paths_gets_none_of_them(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.writing(run, b"conf"))
        assert scene.ack(scene.writing(other, b"a", _FILE, b"z")).taken == (1,)
        assert scene.holders() == [(b"conf", run.run_id, 1)]

    def test_of_a_call_that_waits_for_a_path_no_start_is_told(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.writing(run, b"conf"))
        told = tuple(EventRecord(kind, AT, 1, 1) for kind in (EventKind.CALL_STARTED, EventKind.RETRY))
        assert scene.ack(scene.writing(other, b"conf", events=told)).taken == (1,)
        kinds = [line.kind for line in scene.store.events(other.run_no)]
        assert EventKind.CALL_STARTED not in kinds
        assert kinds[-1] is EventKind.RETRY, "all else is told"
        assert scene.ack(scene.writing(scene.running(), b"elsewhere", events=told)).taken == ()

    def test_a_call_that_waits_for_a_path_does_not_take_its_name(self, scene: Scene) -> None:
        """It is not sent, so nobody need wait for what it does."""
        run, other = scene.running(), scene.running()
        scene.ack(scene.writing(run, b"conf"))
        assert scene.ack(scene.writing(other, _FILE, takes=(taking(1, "rewrite"),))).taken == (1,)
        assert scene.holder(other, "rewrite") is None

    def test_a_call_that_waits_for_its_name_holds_no_path(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.starting(run, "rewrite"))
        assert scene.ack(scene.writing(other, _FILE, takes=(taking(1, "rewrite"),))).taken == (1,)
        assert scene.holders() == []

    def test_what_a_call_held_before_it_keeps_though_it_has_to_wait_for_more(self, scene: Scene) -> None:
        """The attempt before may have written there, and nobody may write until that is put back."""
        run, other = scene.running(), scene.running()
        scene.ack(scene.writing(run, _FILE))
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.UNCERTAIN),)))
        scene.ack(scene.writing(other, b"log"))
        more = scene.advance(
            scene.again(run),
            changes=(changed(1, CallState.STARTED, attempt=2),),
            holds=(holding(1, _FILE), holding(1, b"log")),
        )
        assert scene.ack(more).taken == (1,)
        assert scene.holders(_FILE) == [(_FILE, run.run_id, 1)]
        assert scene.holders(b"log") == [(b"log", other.run_id, 1)]

    def test_a_planned_call_waits_for_its_path_with_one_attempt_less_and_takes_it_once_it_is_free(
        self, scene: Scene
    ) -> None:
        holder, run = scene.running(), scene.call_in(scene.running(), CallState.PLANNED)
        scene.ack(scene.writing(holder, b"conf"))
        start = changed(1, CallState.STARTED, before=b"\x07" * 32)
        assert scene.ack(scene.advance(run, changes=(start,), holds=(holding(1, _FILE),))).taken == (1,)
        [record] = scene.store.calls(run.run_no)
        assert (record.state, record.attempt, record.before) == (CallState.AWAITING, 0, b"\x07" * 32)
        scene.ack(scene.advance(scene.again(holder), changes=(changed(1, CallState.SUCCEEDED),), drops=(1,)))
        again = scene.advance(scene.again(run), changes=(start,), holds=(holding(1, _FILE),))
        assert scene.ack(again).taken == ()
        assert scene.holders() == [(_FILE, run.run_id, 1)]

    def test_the_rest_of_an_advance_lands_though_a_path_is_held(self, scene: Scene) -> None:
        scene.ack(scene.writing(scene.running(), b""))
        run = scene.running()
        mine = scene.writing(run, _FILE)
        ack = scene.ack(replace(mine, calls=(*mine.calls, call(2)), step=9))
        assert ack == Ack(run.run_no, 1, 1, taken=(1,))
        assert scene.again(run).step == 9
        assert [record.state for record in scene.store.calls(run.run_no)] == [CallState.AWAITING, CallState.SUCCEEDED]

    def test_a_started_call_whose_path_is_elsewhere_is_refused(self, scene: Scene) -> None:
        """What was sent does not go back to waiting."""
        scene.ack(scene.writing(scene.running(), _FILE))
        run = scene.call_in(scene.running(), CallState.STARTED)
        before = scene.everything(run)
        change = scene.advance(run, changes=(changed(1, CallState.STARTED),), holds=(holding(1, _FILE),))
        assert scene.refusal(change) is Guard.TRANSITION
        assert scene.everything(run) == before

    @staticmethod
    def _state(scene: Scene, run: RunRecord) -> CallState:
        return scene.store.calls(run.run_no)[0].state


class KeepingPaths(Suite):
    """A path is given up where an advance says so, or an answer that settles its call; and by nothing else."""

    def test_a_path_that_is_given_up_is_free(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, _FILE, b"log"))
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.SUCCEEDED),), drops=(1,)))
        assert scene.holders() == []
        assert scene.ack(scene.writing(scene.running(), b"")).taken == ()

    def test_a_call_that_ends_keeps_its_paths_where_nothing_is_said(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, _FILE))
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.SUCCEEDED),)))
        assert scene.holders() == [(_FILE, run.run_id, 1)]

    def test_only_the_paths_of_the_calls_that_are_named_are_given_up(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.writing(run, b"a"))
        scene.ack(scene.writing(scene.again(run), b"b", seq=2))
        scene.ack(scene.writing(other, b"c"))
        scene.ack(scene.advance(scene.again(run), drops=(1, 99)))
        assert scene.holders() == [(b"b", run.run_id, 2), (b"c", other.run_id, 1)]

    def test_a_path_given_up_in_an_advance_is_free_for_its_own_holds(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, _FILE))
        assert scene.ack(scene.writing(scene.again(run), b"conf", seq=2, drops=(1,))).taken == ()
        assert scene.holders() == [(b"conf", run.run_id, 2)]

    def test_a_write_that_a_takeover_finds_open_keeps_its_paths(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, _FILE, ttl_ms=0))
        scene.until_expired(scene.again(run))
        assert scene.claimed(scene.claim(run, "bob")).uncertain == 1
        assert scene.holders() == [(_FILE, run.run_id, 1)]
        assert scene.ack(scene.writing(scene.running(), b"")).taken == (1,)

    @pytest.mark.parametrize("status", sorted(set(CLAIMABLE) - {Status.RUNNING}), ids=lambda status: status.label)
    def test_a_run_that_leaves_with_an_uncertain_write_keeps_its_paths(self, scene: Scene, status: Status) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, _FILE))
        ending = scene.leave(run, status).ending
        scene.ack(scene.advance(scene.again(run), changes=(changed(1, CallState.UNCERTAIN),), ending=ending))
        assert scene.holders() == [(_FILE, run.run_id, 1)]

    @pytest.mark.parametrize(
        "wrong", [{"owner": "bob"}, {"epoch": 9}, {"version": 9}, {"changes": (changed(1, CallState.AWAITING),)}]
    )
    def test_a_refused_advance_takes_and_gives_up_no_path(self, scene: Scene, wrong: dict[str, Any]) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, _FILE))
        run = scene.again(run)
        before = scene.everything(run)
        scene.refusal(replace(scene.writing(run, b"log", seq=2), drops=(1,), **wrong))
        assert scene.holders() == [(_FILE, run.run_id, 1)]
        assert scene.everything(run) == before

    def test_an_advance_that_cannot_be_stored_takes_no_path(self, scene: Scene) -> None:
        run = scene.running()
        start = scene.writing(run, _FILE)
        [answer] = scene.store.write([replace(start, calls=(*start.calls, call(2, attempt=1 << 80)))])
        assert isinstance(answer, Exception)
        assert scene.holders() == []

    @pytest.mark.parametrize("status", sorted(FINAL), ids=lambda status: status.label)
    def test_an_answer_that_settles_a_call_of_a_finished_run_gives_up_its_paths(
        self, scene: Scene, status: Status
    ) -> None:
        run = self._waiting_for_a_verdict(scene, status)
        settles = changed(1, CallState.REJECTED)
        scene.ack(answering(run, "r1", verdict=Verdict.REJECT, value=None, settles=settles))
        assert scene.holders() == []

    @pytest.mark.parametrize(
        "answer", [{"settles": None, "frees": True}, {"settles": changed(1, CallState.COMPENSATED), "frees": True}]
    )
    def test_an_answer_that_settles_nothing_leaves_the_paths(self, scene: Scene, answer: dict[str, Any]) -> None:
        run = self._waiting_for_a_verdict(scene, Status.CANCELLED)
        scene.ack(answering(run, "r1", **answer))
        assert scene.holders() == [(_FILE, run.run_id, 1)]

    def test_an_answer_to_a_run_that_goes_on_leaves_the_paths_to_its_driver(self, scene: Scene) -> None:
        run = self._waiting_for_a_verdict(scene, Status.WAITING)
        scene.ack(answering(run, "r1", settles=changed(1, CallState.REJECTED), frees=True))
        assert scene.holders() == [(_FILE, run.run_id, 1)]

    def test_an_advance_whose_ack_was_lost_is_found_with_what_it_could_not_hold(self, scene: Scene) -> None:
        run, other = scene.running(), scene.running()
        scene.ack(scene.writing(run, _FILE))
        change = scene.writing(other, b"conf")
        free = scene.writing(other, b"log", seq=2)
        both = replace(change, calls=(*change.calls, *free.calls), holds=(*change.holds, *free.holds))
        assert scene.store.read_back(both) is None
        ack = scene.ack(both)
        assert ack.taken == (1,)
        assert scene.store.read_back(both) == ack

    def test_paths_are_held_after_the_store_was_opened_anew_where_it_is_durable(
        self, scene: Scene, tmp_path: Path
    ) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, _FILE))
        scene.store.close()
        opened = self.make_store(tmp_path)
        try:
            assert Scene(opened).holders() == ([(_FILE, run.run_id, 1)] if self.durable else [])
        finally:
            opened.close()

    def test_nothing_is_found_wrong_with_paths_of_open_writes_and_rollbacks_under_way(self, scene: Scene) -> None:
        run = scene.running()
        scene.ack(scene.writing(run, _FILE))
        scene.rolling_back(intent=INTENT, holds=(holding(0, b"log"),))
        assert scene.store.inspect().findings == ()

    def test_paths_that_nobody_needs_are_found(self, scene: Scene) -> None:
        missing, ended, over = scene.running(), scene.running(), scene.rolling_back(holds=(holding(0, b"c"),))
        scene.ack(scene.advance(missing, holds=(holding(5, b"a"),)))
        scene.ack(scene.writing(ended, b"b"))
        failed = changed(1, CallState.FAILED, checksum=call(1, CallState.FAILED, effect=Effect.WRITE).checksum)
        scene.ack(
            scene.advance(scene.again(ended), changes=(replace(failed, failure=call(1, CallState.FAILED).failure),))
        )
        scene.ack(scene.heading(over, drops=()))
        found = {(finding.where, finding.run_id) for finding in scene.store.inspect().findings}
        assert found == {("path c", over.run_id), ("path a", missing.run_id), ("path b", ended.run_id)}

    @staticmethod
    def _waiting_for_a_verdict(scene: Scene, status: Status) -> RunRecord:
        """A run of this status with an open request about its call 1, which holds a path and waits."""
        run = scene.running()
        record = call(1, CallState.AWAITING, effect=Effect.WRITE)
        scene.ack(scene.advance(run, calls=(record,), holds=(holding(1, _FILE),)))
        run = scene.asked(scene.again(run), "r1")
        scene.ack(scene.leave(run, status))
        return scene.again(run)
