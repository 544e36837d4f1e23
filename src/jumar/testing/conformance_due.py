"""What workers ask a store: which runs of their agents are due, when the next one is, and to be told; and how it counts
the processes that end under a run.
"""

from __future__ import annotations

import threading

import pytest

from jumar.core.changes import Change, Ending
from jumar.core.records import RunRecord
from jumar.core.states import CallState, Control, Status
from jumar.core.store import Watch
from jumar.testing.conformance_scene import AT, LONG, Scene, answering, call, changed
from jumar.testing.conformance_suite import Suite

SOON = 20.0  # seconds: nobody waits so long, for what is told arrives at once
PATIENCE = 60.0


class DueOfAgents(Suite):
    """A worker asks for runs of its own agents alone."""

    def test_only_runs_of_the_agents_named_are_due(self, scene: Scene) -> None:
        runs = {agent: self._one_of_each(scene, agent) for agent in ("ann", "bob", "cid")}
        assert scene.store.due(AT, 99, ["bob"]) == runs["bob"]
        assert sorted(scene.store.due(AT, 99, ["ann", "cid"])) == sorted(runs["ann"] + runs["cid"])
        assert sorted(scene.store.due(AT, 99)) == sorted(run_id for found in runs.values() for run_id in found)

    def test_of_several_agents_each_kind_comes_oldest_first(self, scene: Scene) -> None:
        queued = [scene.queued(agent=agent).run_id for agent in ("bob", "ann", "cid", "bob", "ann")]
        timers = [self._waiting(scene, agent, AT - late) for late, agent in enumerate(("ann", "bob", "ann"))]
        mine = [queued[0], queued[1], queued[3], queued[4]]
        assert scene.store.due(AT, 99, ["ann", "bob"]) == timers[::-1] + mine
        assert scene.store.due(AT, 5, ["ann", "bob"]) == timers[::-1] + mine[:2]
        assert scene.store.due(AT, 2, ["bob", "ann"]) == timers[:0:-1]

    def test_of_no_agents_and_of_unknown_ones_nothing_is_due(self, scene: Scene) -> None:
        self._one_of_each(scene, "ann")
        assert scene.store.due(AT, 99, []) == []
        assert scene.store.due(AT, 99, ["nobody", "an", "ANN"]) == []

    def test_an_agent_named_twice_has_its_runs_named_once(self, scene: Scene) -> None:
        assert scene.store.due(AT, 99, ["ann", "ann"]) == []
        runs = self._one_of_each(scene, "ann")
        assert scene.store.due(AT, 99, ["ann", "ann"]) == runs

    def test_agents_may_be_named_by_any_text(self, scene: Scene) -> None:
        names = ["ann's", '"', "ånn 维修", "a,b", "%", "\\", "{x}"]
        runs = [scene.queued(agent=name) for name in names]
        for name, run in zip(names, runs, strict=True):
            assert scene.store.due(AT, 99, [name]) == [run.run_id]

    def test_runs_of_others_keep_none_of_ones_own_from_being_found(self, scene: Scene) -> None:
        for _ in range(20):
            scene.queued(agent="bob")
        mine = scene.queued(agent="ann")
        assert scene.store.due(AT, 1, ["ann"]) == [mine.run_id]

    def _one_of_each(self, scene: Scene, agent: str) -> list[str]:
        queued = scene.queued(agent=agent).run_id
        lost = scene.abandoned(agent=agent).run_id
        come = self._waiting(scene, agent, AT)
        ordered = self._waiting(scene, agent, None)
        scene.ack(scene.order(ordered, Control.PAUSE))
        scene.running(agent=agent)
        return [ordered, come, lost, queued]

    @staticmethod
    def _waiting(scene: Scene, agent: str, wake_at: int | None) -> str:
        run = scene.running(agent=agent)
        scene.ack(scene.leave(run, Status.WAITING, wake_at=wake_at))
        return run.run_id


class NextDue(Suite):
    """When a run becomes due by time alone, a worker that waits for that moment need not look before it."""

    def test_in_an_empty_store_nothing_becomes_due_by_time(self, scene: Scene) -> None:
        assert scene.store.next_due(AT) is None

    def test_the_earliest_timer_counts(self, scene: Scene) -> None:
        for wake_at in (AT + 700, AT + 300, AT + 500):
            scene.waiting(wake_at=wake_at)
        scene.waiting()
        assert scene.store.next_due(AT) == 300
        assert scene.store.next_due(AT + 299) == 1

    @pytest.mark.parametrize("late", [0, 1, 10_000_000])
    def test_a_timer_whose_time_has_come_is_due_now(self, scene: Scene, late: int) -> None:
        scene.waiting(wake_at=AT)
        scene.waiting(wake_at=AT + LONG)
        assert scene.store.next_due(AT + late) == 0
        assert len(scene.store.due(AT + late, 9)) >= 1

    def test_a_lease_that_runs_out_counts_for_what_is_left_of_it(self, scene: Scene) -> None:
        before = scene.store.now().ms
        scene.running()
        left = scene.store.next_due(AT)
        after = scene.store.now().ms
        assert left is not None
        assert LONG - (after - before) - 1000 <= left <= LONG + 1000

    def test_a_lease_that_has_run_out_is_due_now(self, scene: Scene) -> None:
        scene.abandoned()
        scene.running()
        assert scene.store.next_due(AT) == 0

    def test_the_earlier_of_a_timer_and_a_lease_counts(self, scene: Scene) -> None:
        scene.running()
        scene.waiting(wake_at=AT + 40)
        assert scene.store.next_due(AT) == 40
        lasting = scene.store.next_due(AT - LONG * 10)
        assert lasting is not None
        assert lasting <= LONG + 1000

    def test_what_is_queued_and_what_was_ordered_is_due_by_no_time(self, scene: Scene) -> None:
        scene.queued()
        scene.ack(scene.order(scene.waiting(), Control.PAUSE))
        assert scene.store.next_due(AT) is None

    @pytest.mark.parametrize("status", [each for each in Status if each not in (Status.WAITING, Status.RUNNING)])
    def test_a_run_that_does_not_wait_has_no_timer(self, scene: Scene, status: Status) -> None:
        scene.ended(status, wake_at=AT + 5)
        assert scene.store.next_due(AT) is None

    def test_a_timer_of_a_run_that_was_taken_up_counts_no_more(self, scene: Scene) -> None:
        run = scene.waiting(wake_at=AT - 5)
        assert scene.store.next_due(AT) == 0
        scene.claimed(scene.claim(run))
        left = scene.store.next_due(AT)
        assert left is not None and left > 0


class Watching(Suite):
    """Whoever waits is told of what this process has written, at once."""

    @pytest.mark.parametrize("what", ["a start", "an answer", "a release", "an order"])
    def test_a_run_that_becomes_due_wakes_who_waits(self, scene: Scene, what: str) -> None:
        change = self._change(scene, what)
        watch = scene.store.watch()
        _quiet(watch)
        heard = _waits(watch)
        scene.ack(change)
        assert heard()
        watch.close()

    def test_what_happened_before_one_waits_ends_the_wait_at_once(self, scene: Scene) -> None:
        watch = scene.store.watch()
        _quiet(watch)
        scene.queued()
        assert watch.wait(SOON)
        watch.close()

    def test_every_one_who_waits_is_told(self, scene: Scene) -> None:
        watches = [scene.store.watch() for _ in range(3)]
        for watch in watches:
            _quiet(watch)
        heard = [_waits(watch) for watch in watches]
        scene.queued()
        assert all(each() for each in heard)
        for watch in watches:
            watch.close()

    def test_a_wait_ends_when_its_time_is_over(self, scene: Scene) -> None:
        watch = scene.store.watch()
        _quiet(watch)
        assert not watch.wait(0.01)
        assert not watch.wait(0)
        watch.close()

    def test_a_wait_is_ended_from_another_thread(self, scene: Scene) -> None:
        watch = scene.store.watch()
        _quiet(watch)
        heard = _waits(watch)
        watch.wake()
        assert heard()
        watch.wake()
        assert watch.wait(SOON), "nobody waited just then, so the next wait is the one that ends"
        watch.close()

    def test_one_who_is_told_no_more_keeps_nobody_from_being_told(self, scene: Scene) -> None:
        gone, there = scene.store.watch(), scene.store.watch()
        gone.close()
        _quiet(there)
        scene.queued()
        assert there.wait(SOON)
        there.close()

    @staticmethod
    def _change(scene: Scene, what: str) -> Change:
        if what == "a start":
            return scene.create()
        if what == "an answer":
            run = scene.asked(scene.running(), "r1")
            scene.ack(scene.leave(run, Status.WAITING))
            return answering(run, "r1")
        if what == "an order":
            return scene.order(scene.waiting(), Control.CANCEL)
        return scene.advance(scene.running(), ending=Ending(status=Status.QUEUED))


class Crashes(Suite):
    """How many processes have ended under a run since it last recorded something new."""

    def test_a_claim_of_a_run_that_nobody_held_counts_none(self, scene: Scene) -> None:
        run = scene.claimed(scene.claim(scene.queued())).run
        assert (run.crashes, run.crash_seq) == (0, 0)
        released = scene.claimed(scene.claim(scene.ended(Status.QUEUED))).run
        assert (released.crashes, released.crash_seq) == (0, 0)

    def test_each_claim_of_a_lease_that_ran_out_counts_one(self, scene: Scene) -> None:
        run = scene.abandoned()
        for times in (1, 2, 3):
            run = self._lost_again(scene, run)
            assert (run.crashes, run.crash_seq) == (times, 0)
        assert scene.again(run) == run

    def test_after_a_new_call_the_count_begins_anew(self, scene: Scene) -> None:
        run = self._lost_again(scene, self._lost_again(scene, scene.abandoned()))
        assert run.crashes == 2
        run = self._left_behind(scene, run, 4)
        run = self._lost_again(scene, run)
        assert (run.crashes, run.crash_seq) == (1, 4)
        run = self._lost_again(scene, run)
        assert (run.crashes, run.crash_seq) == (2, 4)

    def test_another_attempt_of_a_call_is_nothing_new(self, scene: Scene) -> None:
        run = scene.claimed(scene.claim(self._left_behind(scene, scene.abandoned(), 1, CallState.PLANNED))).run
        assert (run.crashes, run.crash_seq) == (1, 1)
        again = changed(1, CallState.STARTED, attempt=2, epoch=run.epoch)
        scene.ack(scene.advance(run, changes=(again,), ttl_ms=0))
        scene.until_expired(scene.again(run))
        run = scene.claimed(scene.claim(run)).run
        assert (run.crashes, run.crash_seq) == (2, 1)

    def test_a_release_in_between_leaves_the_count_as_it_is(self, scene: Scene) -> None:
        run = scene.claimed(scene.claim(scene.abandoned())).run
        scene.ack(scene.leave(run, Status.QUEUED))
        assert scene.again(run).crashes == 1
        run = scene.claimed(scene.claim(run)).run
        assert run.crashes == 1

    @pytest.mark.parametrize("status", [Status.FAILED, Status.PAUSED, Status.QUEUED], ids=lambda status: status.label)
    def test_somebody_who_resumes_it_begins_the_count_anew(self, scene: Scene, status: Status) -> None:
        run = scene.claimed(scene.claim(self._lost_again(scene, scene.abandoned()))).run
        assert run.crashes == 2
        scene.ack(scene.leave(run, status))
        assert scene.again(run).crashes == 2
        assert scene.claimed(scene.claim(run, resumes=True)).run.crashes == 0

    def test_somebody_who_resumes_a_run_whose_lease_ran_out_counts_none(self, scene: Scene) -> None:
        run = self._lost_again(scene, scene.abandoned())
        run = scene.claimed(scene.claim(run, resumes=True, ttl_ms=0)).run
        assert run.crashes == 0
        scene.until_expired(run)
        assert scene.claimed(scene.claim(run)).run.crashes == 1

    def test_a_claim_that_is_refused_counts_none(self, scene: Scene) -> None:
        run = scene.running()
        scene.refusal(scene.claim(run))
        assert scene.again(run).crashes == 0

    def test_two_recoverers_with_the_same_stale_list_count_one_crash_and_the_second_is_refused(
        self, scene: Scene
    ) -> None:
        runs = [scene.abandoned() for _ in range(3)]
        stale = scene.store.due(AT, 9)
        assert stale == [run.run_id for run in runs]
        for run_id in stale:
            scene.claimed(scene.claim(run_id, "first"))
        kept = [scene.everything(run) for run in runs]
        for run_id in stale:
            scene.refusal(scene.claim(run_id, "second"))
        assert [scene.everything(run) for run in runs] == kept
        assert [scene.again(run).crashes for run in runs] == [1, 1, 1]

    @staticmethod
    def _lost_again(scene: Scene, run: RunRecord) -> RunRecord:
        """Another owner takes it up, and is lost."""
        run = scene.claimed(scene.claim(run, ttl_ms=0)).run
        scene.until_expired(run)
        return run

    @staticmethod
    def _left_behind(scene: Scene, run: RunRecord, seq: int, state: CallState = CallState.SUCCEEDED) -> RunRecord:
        """Another owner takes it up, records a call, and is lost."""
        run = scene.claimed(scene.claim(run)).run
        record = call(seq, state, epoch=run.epoch)
        scene.ack(scene.advance(run, calls=(record,), ttl_ms=0))
        run = scene.again(run)
        scene.until_expired(run)
        return run


def _quiet(watch: Watch) -> None:
    """Hear what was written until now, so that what ends the next wait is new."""
    while watch.wait(0):
        continue


class _Waits:
    def __init__(self, watch: Watch) -> None:
        self._told: list[bool] = []
        self._thread = threading.Thread(target=lambda: self._told.append(watch.wait(SOON)), daemon=True)
        self._thread.start()

    def __call__(self) -> bool:
        """Whether the wait was ended by being told."""
        self._thread.join(PATIENCE)
        return self._told == [True]


def _waits(watch: Watch) -> _Waits:
    """Wait in a thread of its own."""
    return _Waits(watch)
