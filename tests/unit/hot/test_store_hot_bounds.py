"""Hot changes are bounded, however slow the store is; and what is told of them, and done about them in the end."""

from __future__ import annotations

import threading

import pytest

from jumar.core.changes import Refusal
from jumar.errors import StoreBusy
from jumar.stores import behind
from jumar.stores.commits import CommitQueue
from jumar.testing.conformance_scene import Scene, named
from tests.conformance.wrapping import Watched
from tests.unit.hot_scene import SOON, Failing, Held, Hot, in_thread, locked, until


def test_twenty_thousand_hot_changes_against_a_stalled_store_stay_within_the_bound(
    store: Watched, scene: Scene, queue: CommitQueue
) -> None:
    threads, each = 4, 5000
    runs = [Hot(queue, scene) for _ in range(threads)]
    most = [0]
    held = Held(store)

    def work(hot: Hot) -> None:
        for number in range(1, each + 1):
            assert hot.write() == hot.ack(number)
            most[0] = max(most[0], len(queue._pending), queue.stats().pending)

    works = [in_thread(lambda hot=hot: work(hot)) for hot in runs]
    until(lambda: queue.stats().pending >= behind.MOST_HOT + threads)
    stalled = queue.stats()
    assert stalled.hot_ms.count <= behind.MOST_HOT + threads, "the runs are held up"
    held.go.set()
    assert [ended() for ended in works] == [None] * threads
    assert most[0] <= behind.MOST_HOT + threads
    for hot in runs:
        assert len(hot.told_of(each)) == each
        assert hot.version() == each
    stats = queue.stats()
    assert (stats.writes, stats.pending, stats.retried, stats.lost) == (threads * each, 0, 0, 0)
    assert stats.waited_ms > 0
    assert stats.commits < stats.writes / 4


def test_large_hot_changes_are_bounded_by_their_bytes(store: Watched, scene: Scene, queue: CommitQueue) -> None:
    held, hot = Held(store), Hot(queue, scene)
    large = [named(bytes([number]) * (1 << 20)) for number in range(12)]

    def work() -> None:
        for artifact in large:
            hot.write(hot.next(artifacts=(artifact,)))

    ended = in_thread(work)
    until(lambda: hot.lane.version == 9)
    assert queue.stats().hot_ms.count == 8
    held.go.set()
    assert ended() is None
    assert len(hot.told_of(12)) == 12


def test_where_no_thread_can_be_started_a_hot_change_is_waited_for(
    store: Watched, scene: Scene, queue: CommitQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(behind, "Thread", NoThread)
    hot = Hot(queue, scene)
    for number in (1, 2, 3):
        assert hot.write() == hot.ack(number)
        assert hot.version() == number
    Failing(store, locked)
    with pytest.raises(StoreBusy):
        hot.write()


def test_the_writer_ends_when_nothing_comes_and_begins_again(
    store: Watched, scene: Scene, queue: CommitQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behind, "_IDLE_SECONDS", 0.01)
    hot = Hot(queue, scene)
    for number in (1, 2, 3):
        hot.write()
        assert hot.told_of(number)[-1] == hot.ack(number)
        writer = queue._writer
        if writer is not None:
            writer.join(SOON)
            assert not writer.is_alive()
    assert hot.version() == 3


# --- The end, and what is told. ---


def test_closing_makes_what_is_hot_good(store: Watched, scene: Scene) -> None:
    queue = CommitQueue(store)
    hot, failing = Hot(queue, scene), Failing(store, locked)
    for _ in range(5):
        hot.write()
    failing.failed(1)
    failing.is_mended = True
    queue.close()
    assert hot.version() == len(hot.told) == 5
    until(lambda: queue._writer is None)


def test_what_cannot_be_made_at_the_end_is_told_and_counted(store: Watched, scene: Scene) -> None:
    notes: list[tuple[bool, str]] = []
    queue = CommitQueue(store, lambda wrong, what: notes.append((wrong, what)))
    hot, failing = Hot(queue, scene), Failing(store, locked)
    for _ in range(5):
        hot.write()
    failing.failed(1)
    waiting = in_thread(lambda: queue.submit(hot.next(), hot.lane))
    until(lambda: len(queue._held) == 6)
    queue.close()
    assert [type(each) for each in hot.told_of(5)] == [StoreBusy] * 5
    assert isinstance(waiting(), (StoreBusy, Refusal))
    assert queue.stats().lost == 5
    assert notes[-1] == (True, "5 hot writes could not be made before the store was closed")
    with pytest.raises(StoreBusy):
        hot.write()


def test_a_failing_store_is_told_once_and_once_more_when_it_has_made_good(store: Watched, scene: Scene) -> None:
    notes: list[tuple[bool, str]] = []
    queue = CommitQueue(store, lambda wrong, what: notes.append((wrong, what)))
    hot, failing = Hot(queue, scene), Failing(store, locked)
    for _ in range(3):
        hot.write()
    failing.failed(4)
    assert [wrong for wrong, _ in notes] == [True]
    assert "others kept it locked" in notes[0][1]
    failing.is_mended = True
    hot.told_of(3)
    until(lambda: len(notes) == 2)
    assert notes[1][0] is False
    assert "takes hot writes again" in notes[1][1]
    queue.close()


def test_that_runs_are_held_up_is_told_once(store: Watched, scene: Scene) -> None:
    notes: list[tuple[bool, str]] = []
    queue = CommitQueue(store, lambda wrong, what: notes.append((wrong, what)))
    held, hot = Held(store), Hot(queue, scene)

    def work() -> None:
        for _ in range(4 * behind.MOST_HOT):
            hot.write()

    ended = in_thread(work)
    until(lambda: bool(notes))
    assert notes == [(True, f"runs are held up by the store: {behind.MOST_HOT} hot writes wait to be made")]
    held.go.set()
    assert ended() is None
    hot.told_of(4 * behind.MOST_HOT)
    assert len(notes) == 1
    queue.close()
