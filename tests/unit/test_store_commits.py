"""Group commit among threads: a lone change commits at once, those that arrive meanwhile go together, and nobody
hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from jumar.core.changes import Ack, Advance, Change, Guard, Refusal
from jumar.core.records import RunRecord
from jumar.core.requests import Lane
from jumar.core.states import CallState, Status
from jumar.errors import StoreBusy, StoreUnavailable
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene, call, changed
from tests.conformance.wrapping import Watched

SOON = 60.0  # seconds after which a thread that has not ended is taken to hang


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Watched]:
    store = Watched(open_store(f"sqlite:///{tmp_path / 'runs.db'}"))
    yield store
    store.before = store.after = None
    store.close()


@pytest.fixture
def scene(store: Watched) -> Scene:
    return Scene(store.store)


class Held:
    """Holds the first write until it is let go."""

    def __init__(self, store: Watched) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        store.before = self

    def __call__(self, changes: Any, wait: bool) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self.go.wait(SOON)


def in_threads(works: list[Callable[[], Any]]) -> list[Any]:
    """Run these side by side and answer what each gave or raised."""
    results: list[Any] = [None] * len(works)
    barrier = threading.Barrier(len(works))

    def run(place: int) -> None:
        barrier.wait(SOON)
        try:
            results[place] = works[place]()
        except BaseException as error:
            results[place] = error

    threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return results


def pending(queue: CommitQueue, count: int) -> None:
    """Go on once so many changes wait in the queue: a change that only waits there gives no signal, so this looks."""
    give_up = time.monotonic() + SOON
    while len(queue._pending) < count:
        assert time.monotonic() < give_up
        time.sleep(0)


def advance_of(scene: Scene, run: RunRecord, seq: int = 1, **fields: Any) -> Advance:
    return scene.advance(run, calls=(call(seq),), **fields)


def test_a_lone_change_commits_in_its_own_thread_at_once(store: Watched, scene: Scene) -> None:
    run = scene.running()
    threads = []
    store.before = lambda changes, wait: threads.append(threading.current_thread())
    assert CommitQueue(store).submit(advance_of(scene, run)) == Ack(run.run_no, 1, 1)
    assert threads == [threading.current_thread()]
    assert store.waits == [True]


def test_thirty_threads_at_one_barrier_are_all_stored(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(30)]
    queue = CommitQueue(store)
    answers = in_threads([lambda run=run: queue.submit(advance_of(scene, run)) for run in runs])
    assert answers == [Ack(run.run_no, 1, 1) for run in runs]
    assert [len(store.calls(run.run_no)) for run in runs] == [1] * 30


def test_thirty_calls_of_one_run_are_all_stored_and_none_is_stale(store: Watched, scene: Scene) -> None:
    run = scene.running()
    queue, lane = CommitQueue(store), Lane(0)
    answers = in_threads([lambda seq=seq: queue.submit(advance_of(scene, run, seq), lane) for seq in range(1, 31)])
    assert sorted(answer.version for answer in answers) == list(range(1, 31))
    assert lane.version == 30
    stored = {record.seq: record.started_version for record in store.calls(run.run_no)}
    assert stored == {seq: answers[seq - 1].version for seq in range(1, 31)}


def test_what_arrives_while_a_commit_is_on_its_way_goes_together_in_the_next(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(12)]
    queue, held = CommitQueue(store), Held(store)
    first = threading.Thread(target=queue.submit, args=(advance_of(scene, runs[0]),))
    first.start()
    assert held.reached.wait(SOON)

    def let_go() -> None:
        pending(queue, 11)
        held.go.set()

    in_threads([let_go, *(lambda run=run: queue.submit(advance_of(scene, run)) for run in runs[1:])])
    first.join(SOON)
    assert [len(batch) for batch in store.batches] == [1, 11]
    assert [store.run(run.run_id).version for run in runs] == [1] * 12


def test_a_refused_change_is_refused_alone(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(8)]
    failed = scene.call_in(scene.running(), CallState.FAILED)
    queue = CommitQueue(store)
    bad: list[Change] = [
        advance_of(scene, runs[0], version=7),
        scene.advance(failed, changes=(changed(1, CallState.SUCCEEDED),)),
    ]
    works = [lambda change=change: queue.submit(change) for change in bad]
    works += [lambda run=run: queue.submit(advance_of(scene, run)) for run in runs[1:]]
    refused, illegal, *good = in_threads(works)
    assert isinstance(refused, Refusal)
    assert refused.guard is Guard.VERSION
    assert isinstance(illegal, Refusal)
    assert illegal.guard is Guard.TRANSITION
    assert good == [Ack(run.run_no, 1, 1) for run in runs[1:]]


def test_a_change_that_cannot_be_stored_fails_alone(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(9)]
    queue, held = CommitQueue(store), Held(store)
    poison = scene.advance(runs[4], calls=(call(1, step="\ud800"),))
    changes = [poison if place == 4 else advance_of(scene, run) for place, run in enumerate(runs)]

    def let_go() -> None:
        assert held.reached.wait(SOON)
        pending(queue, 8)
        held.go.set()

    _, *answers = in_threads([let_go, *(lambda change=change: queue.submit(change) for change in changes)])
    assert isinstance(answers[4], UnicodeEncodeError)
    assert [answer for place, answer in enumerate(answers) if place != 4] == [
        Ack(run.run_no, 1, 1) for place, run in enumerate(runs) if place != 4
    ]
    assert [store.run(run.run_id).version for run in runs] == [1, 1, 1, 1, 0, 1, 1, 1, 1]


def test_an_error_of_the_store_reaches_everyone_in_the_batch_and_the_queue_goes_on(
    store: Watched, scene: Scene
) -> None:
    runs = [scene.running() for _ in range(6)]
    queue = CommitQueue(store)

    def busy(changes: Any, wait: bool) -> None:
        raise StoreBusy("somebody else writes")

    store.before = busy
    answers = in_threads([lambda run=run: queue.submit(advance_of(scene, run)) for run in runs])
    assert [type(answer) for answer in answers] == [StoreBusy] * 6
    store.before = None
    assert [queue.submit(advance_of(scene, run)) for run in runs] == [Ack(run.run_no, 1, 1) for run in runs]


def test_a_closed_store_says_so_to_whoever_submits(store: Watched, scene: Scene) -> None:
    run = scene.running()
    queue = CommitQueue(store)
    store.close()
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            queue.submit(advance_of(scene, run))


def test_versions_follow_the_order_of_submission(store: Watched, scene: Scene) -> None:
    run = scene.running()
    queue, lane, held = CommitQueue(store), Lane(0), Held(store)
    first = threading.Thread(target=queue.submit, args=(advance_of(scene, run, 1), lane))
    first.start()
    assert held.reached.wait(SOON)
    threads = []
    for seq in (2, 3, 4):
        threads.append(threading.Thread(target=queue.submit, args=(advance_of(scene, run, seq), lane)))
        threads[-1].start()
        pending(queue, seq - 1)
    held.go.set()
    for thread in [first, *threads]:
        thread.join(SOON)
    stored = [(record.seq, record.started_version) for record in store.calls(run.run_no)]
    assert stored == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_where_an_advance_is_refused_those_queued_after_it_are_stale_and_nothing_of_them_lands(
    store: Watched, scene: Scene
) -> None:
    run = scene.call_in(scene.running(), CallState.FAILED)
    queue, lane, held = CommitQueue(store), Lane(run.version), Held(store)
    illegal = scene.advance(run, changes=(changed(1, CallState.SUCCEEDED),))
    changes = [illegal, advance_of(scene, run, 2), scene.leave(run, Status.QUEUED)]
    answers: list[Any] = [None] * 3

    def submit(place: int) -> None:
        answers[place] = queue.submit(changes[place], lane)

    threads = [threading.Thread(target=submit, args=(place,)) for place in range(3)]
    threads[0].start()
    assert held.reached.wait(SOON)
    for place in (1, 2):
        threads[place].start()
        pending(queue, place)
    held.go.set()
    for thread in threads:
        thread.join(SOON)
    assert [answer.guard for answer in answers] == [Guard.TRANSITION, Guard.VERSION, Guard.VERSION]
    assert replace(store.run(run.run_id)) == run
