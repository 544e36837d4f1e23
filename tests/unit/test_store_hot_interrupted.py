"""A thread interrupted (Ctrl-C) anywhere while it makes a hot change, waits for room, or leads others' hot changes
through a failing store, leaves nothing lost, doubled or counted wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jumar.core.changes import Ack
from jumar.errors import StoreBusy
from jumar.stores import behind
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene
from tests.conformance.wrapping import Watched
from tests.unit.hot_scene import Held, Hot, in_thread, until
from tests.unit.test_store_commits_interrupted import Interrupt, every_place


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held back is tried again soon."""
    monkeypatch.setattr(behind, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(behind, "_LONGEST_PAUSE", 0.002)


@pytest.fixture
def store() -> Iterator[Watched]:
    store = Watched(open_store("memory:"))
    yield store
    store.before = store.after = None
    store.close()


@pytest.fixture
def scene(store: Watched) -> Scene:
    return Scene(store.store)


def interrupted(place: int, work: Callable[[], Any]) -> Callable[[], Any]:
    """Do it in a thread that is interrupted at a place."""

    def run() -> Any:
        with Interrupt(place):
            return work()

    return in_thread(run)


def comes_out_even(queue: CommitQueue, hot: Hot) -> None:
    """All that took a version is on disk, the queue has forgotten it, and goes on."""
    count = hot.lane.version
    assert queue.submit(hot.next(), hot.lane) == hot.ack(count + 1)
    assert hot.version() == count + 1
    assert [record.started_version for record in hot.scene.store.calls(hot.run.run_no)] == list(range(1, count + 2))
    until(queue.is_idle)
    assert (queue.stats().pending, queue._hot_bytes) == (0, 0)
    assert all(isinstance(each, Ack) for each in hot.told)


def test_a_thread_interrupted_anywhere_while_it_makes_a_hot_change(store: Watched, scene: Scene) -> None:
    queue = CommitQueue(store)

    def scenario(place: int) -> Any:
        hot = Hot(queue, scene)
        came = interrupted(place, hot.write)()
        comes_out_even(queue, hot)
        return came

    every_place(scenario, at_least=8)
    queue.close()


def test_a_thread_interrupted_anywhere_while_it_waits_for_room(
    store: Watched, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behind, "MOST_HOT", 2)
    queue = CommitQueue(store)

    def scenario(place: int) -> Any:
        hot, held = Hot(queue, scene), Held(store)
        hot.write()
        hot.write()
        waiting = interrupted(place, hot.write)
        assert held.reached.wait(10)
        held.go.set()
        came = waiting()
        comes_out_even(queue, hot)
        return came

    every_place(scenario, at_least=8)
    queue.close()


def test_a_leader_interrupted_anywhere_while_it_holds_hot_changes_back(store: Watched, scene: Scene) -> None:
    queue = CommitQueue(store)

    def scenario(place: int) -> Any:
        hot = Hot(queue, scene)
        failed = threading.Event()

        def fail(changes: Any, wait: bool) -> None:
            if not failed.is_set() and any(change.run_no == hot.run.run_no for change in changes):
                failed.set()
                raise StoreBusy("others kept it locked")

        with queue._lock:
            queue._leader = -3  # somebody leads, so that nobody else takes what is queued
        hot.write()
        hot.write()
        store.before = fail
        with queue._lock:
            queue._leader = 0
        came = interrupted(place, lambda: queue.submit(scene.create()))()
        queue.flush(None)
        comes_out_even(queue, hot)
        return came if isinstance(came, KeyboardInterrupt) else None

    every_place(scenario, at_least=10)
    queue.close()
