"""Hot changes: queued and answered at once, committed in order by whoever leads next or by the queue's writer, and held
back where the store cannot take them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from jumar.core.changes import Guard, Refusal, Renew
from jumar.core.store import CommitUnknown
from jumar.errors import StoreBusy, StoreFull, StoreUnavailable
from jumar.stores.commits import CommitQueue
from jumar.testing.conformance_scene import LONG, Scene, call, named
from tests.conformance.wrapping import Watched
from tests.unit.hot_scene import SOON, Failing, FailingFor, Held, Hot, in_thread, locked, until

# --- Order. ---


def test_a_hot_change_is_answered_at_once_and_written_though_nobody_waits(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    held, hot = Held(store), Hot(queue, scene)
    assert hot.write() == hot.ack(1)
    assert held.reached.wait(SOON)
    assert (hot.told, hot.version()) == ([], 0)
    held.go.set()
    assert hot.told_of(1) == [hot.ack(1)]
    assert hot.version() == 1
    assert hot.times[0].cold >= hot.times[0].hot > 0


def test_hot_changes_made_while_a_commit_is_on_its_way_go_together_in_the_next(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    held, hot = Held(store), Hot(queue, scene)
    hot.write()
    assert held.reached.wait(SOON)
    for _ in range(49):
        hot.write()
    held.go.set()
    assert hot.told_of(50) == [hot.ack(version) for version in range(1, 51)]
    assert [len(batch) for batch in store.batches] == [1, 49]


def test_what_is_waited_for_is_on_disk_after_all_hot_changes_of_its_run_before_it(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    hot = Hot(queue, scene)
    for round_ in range(1, 20):
        for _ in range(3):
            hot.write()
        assert queue.submit(hot.next(), hot.lane) == hot.ack(round_ * 4)
        assert hot.version() == round_ * 4
        assert hot.told_of(round_ * 3)[-1] == hot.ack(round_ * 4 - 1)
    stored = [(record.seq, record.started_version) for record in store.calls(hot.run.run_no)]
    assert stored == [(number, number) for number in range(1, 77)]


def test_several_runs_in_several_threads_are_each_written_in_order(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    runs = [Hot(queue, scene) for _ in range(8)]

    def work(hot: Hot) -> None:
        for number in range(1, 101):
            if number % 10:
                assert hot.write() == hot.ack(number)
            else:
                assert queue.submit(hot.next(), hot.lane) == hot.ack(number)

    assert [ended() for ended in [in_thread(lambda hot=hot: work(hot)) for hot in runs]] == [None] * 8
    for hot in runs:
        assert len(hot.told_of(90)) == 90
        assert [record.started_version for record in store.calls(hot.run.run_no)] == list(range(1, 101))
    assert queue.stats().pending == 0


def test_to_flush_is_to_wait_for_what_is_hot(store: Watched, scene: Scene, queue: CommitQueue) -> None:
    held, hot = Held(store), Hot(queue, scene)
    queue.flush(hot.lane)
    for _ in range(5):
        hot.write()
    flushed = in_thread(lambda: queue.flush(hot.lane))
    held.go.set()
    assert flushed() is None
    assert hot.version() == len(hot.told) == 5


# --- What the store does not take. ---


@pytest.mark.parametrize(
    "error",
    [locked, lambda: StoreFull("no room"), lambda: StoreUnavailable("gone"), lambda: CommitUnknown("lost")],
    ids=["busy", "full", "out-of-reach", "unknown"],
)
def test_what_the_store_cannot_take_is_tried_again_in_order_until_it_is_made(
    store: Watched, scene: Scene, queue: CommitQueue, error: Callable[[], Exception]
) -> None:
    hot, failing = Hot(queue, scene), Failing(store, error)
    for number in range(1, 11):
        assert hot.write() == hot.ack(number)
    failing.failed(60)  # a commit of unknown outcome is made three times before it counts as failed
    for number in range(11, 21):
        assert hot.write() == hot.ack(number)
    failing.is_mended = True
    assert hot.told_of(20) == [hot.ack(number) for number in range(1, 21)]
    assert [record.started_version for record in store.calls(hot.run.run_no)] == list(range(1, 21))
    assert hot.times[0].retries > 0
    assert queue.stats().retried > 0
    assert queue.stats().pending == 0


def test_what_waits_behind_a_held_change_of_its_run_waits_until_that_is_made(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    hot, failing = Hot(queue, scene), Failing(store, locked)
    hot.write()
    failing.failed(1)
    waiting = in_thread(lambda: queue.submit(hot.next(), hot.lane))
    failing.failed(4)
    failing.is_mended = True
    assert waiting() == hot.ack(2)
    assert hot.told_of(1) == [hot.ack(1)]


def test_what_is_taken_along_with_a_change_that_the_store_cannot_take_waits_with_it(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    """In one batch: the later one would be refused as stale, because the earlier one is not there yet."""
    held, hot, other = Held(store), Hot(queue, scene), Hot(queue, scene)
    first = in_thread(lambda: queue.submit(other.next(), other.lane))
    assert held.reached.wait(SOON)
    hot.write(hot.next(artifacts=(named(b"large"),)))
    waiting = in_thread(lambda: queue.submit(hot.next(), hot.lane))
    until(lambda: len(queue._pending) == 2)
    real, refused = store.store.write, [0]

    def full_for_the_large(changes: Any, *, wait: bool = True) -> Any:
        if any(change.artifacts for change in changes) and refused[0] < 3:
            refused[0] += 1
            small = [change for change in changes if not change.artifacts]
            answers = iter(real(small, wait=wait))
            return [StoreFull("no room") if change.artifacts else next(answers) for change in changes]
        return real(changes, wait=wait)

    monkey: Any = store.store
    monkey.write = full_for_the_large
    held.go.set()
    assert first() == other.ack(1)
    assert waiting() == hot.ack(2)
    assert hot.told_of(1) == [hot.ack(1)]
    assert refused == [3]


def test_what_waits_gets_the_stores_error_once_the_lease_cannot_be_trusted(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    hot, failing = Hot(queue, scene), Failing(store, locked)
    hot.write()
    failing.failed(1)
    waiting = in_thread(lambda: queue.submit(hot.next(), hot.lane))
    until(lambda: len(queue._held) == 2)
    hot.is_trusted = False
    assert isinstance(waiting(), StoreBusy)
    failing.is_mended = True
    assert hot.told_of(1) == [hot.ack(1)], "the hot change itself is kept for as long as the process lives"
    assert hot.version() == 1
    stale = queue.submit(hot.next(), hot.lane)
    assert isinstance(stale, Refusal) and stale.guard is Guard.VERSION, "nothing goes on past what was not written"


def test_another_runs_change_goes_on_while_one_runs_is_held_back(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    hot, other = Hot(queue, scene), Hot(queue, scene)
    failing = FailingFor(store, locked, hot.run)
    hot.write()
    failing.failed(2)
    assert queue.submit(other.next(), other.lane) == other.ack(1)
    other.write()
    assert other.told_of(1) == [other.ack(2)]
    assert hot.told == []
    failing.is_mended = True
    assert hot.told_of(1) == [hot.ack(1)]


def test_another_runs_change_that_is_waited_for_gets_the_stores_error_at_once(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    hot, other = Hot(queue, scene), Hot(queue, scene)
    failing = Failing(store, locked)
    hot.write()
    failing.failed(1)
    with pytest.raises(StoreBusy):
        queue.submit(other.next(), other.lane)
    with pytest.raises(StoreBusy):
        queue.submit(Renew(run_no=hot.run.run_no, owner="ann", epoch=1, ttl_ms=LONG))
    failing.is_mended = True
    assert hot.told_of(1) == [hot.ack(1)]


@pytest.mark.parametrize("landed", [True, False], ids=["landed", "not-landed"])
def test_a_batch_whose_outcome_is_unknown_while_the_store_is_out_of_reach_is_made_once(
    store: Watched, scene: Scene, queue: CommitQueue, landed: bool
) -> None:
    hot = Hot(queue, scene)
    is_lost = threading.Event()

    def lose(*_: Any) -> None:
        if not is_lost.is_set():
            is_lost.set()
            raise CommitUnknown("the connection was lost")

    if landed:
        store.after = lose
    else:
        store.before = lose
    monkey: Any = store
    read_back, reads = store.store.read_back, []

    def out_of_reach(change: Any) -> Any:
        reads.append(change.version)
        if len(reads) < 5:
            raise StoreUnavailable("gone")
        return read_back(change)

    monkey.read_back = out_of_reach
    for _ in range(3):
        hot.write()
    assert queue.submit(hot.next(), hot.lane) == hot.ack(4)
    assert hot.told_of(3) == [hot.ack(1), hot.ack(2), hot.ack(3)]
    assert hot.version() == len(store.calls(hot.run.run_no)) == 4
    assert len(reads) >= 5


# --- What is not tried again. ---


def test_a_refused_hot_change_is_told_and_nothing_after_it_lands(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    hot, other = Hot(queue, scene), Hot(queue, scene)
    wrong = scene.advance(hot.run, calls=(call(1),), epoch=7)
    hot.write(wrong)
    hot.write()
    after = queue.submit(hot.next(), hot.lane)
    assert isinstance(after, Refusal) and after.guard is Guard.VERSION
    first, second = hot.told_of(2)
    assert isinstance(first, Refusal) and first.guard is Guard.LEASE
    assert isinstance(second, Refusal) and second.guard is Guard.VERSION
    assert hot.version() == 0
    assert queue.submit(other.next(), other.lane) == other.ack(1)
    assert queue.stats().pending == 0


def test_a_hot_change_that_no_store_could_take_is_told_and_nothing_after_it_lands(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    held, hot, other = Held(store), Hot(queue, scene), Hot(queue, scene)
    hot.write()
    assert held.reached.wait(SOON)
    hot.write(scene.advance(hot.run, calls=(call(2, step="\ud800"),)))
    hot.write()
    other.write()
    held.go.set()
    fine, poison, stale = hot.told_of(3)
    assert fine == hot.ack(1)
    assert isinstance(poison, UnicodeEncodeError)
    assert isinstance(stale, Refusal) and stale.guard is Guard.VERSION
    assert hot.version() == 1
    assert other.told_of(1) == [other.ack(1)]
