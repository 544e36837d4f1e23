"""Group commit under asyncio: one tick goes together, no loop's thread waits for another process, and nobody hangs."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar.core.changes import Ack, Change, Guard, Refusal
from jumar.core.records import RunRecord
from jumar.core.requests import Lane
from jumar.core.states import CallState
from jumar.core.store import CommitUnknown
from jumar.stores import commits
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene, call, changed
from tests.conformance.wrapping import Watched

SOON = 60.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No commit counts as slow, however slow this machine is just now; the test of slow ones says otherwise."""
    monkeypatch.setattr(commits, "_SLOW_SECONDS", SOON)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(file: Path) -> Iterator[Watched]:
    store = Watched(open_store(f"sqlite:///{file}"))
    yield store
    store.before = store.after = None
    store.close()


@pytest.fixture
def scene(store: Watched) -> Scene:
    return Scene(store.store)


def submitted(queue: CommitQueue, change: Change, lane: Lane | None = None) -> asyncio.Future[Any]:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    queue.submit_async(change, lane, loop, future)
    return future


async def all_of(*futures: asyncio.Future[Any]) -> list[Any]:
    return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), SOON)


def acks(runs: list[RunRecord]) -> list[Ack]:
    return [Ack(run.run_no, run.version + 1, 1) for run in runs]


def versions(store: Watched, runs: list[RunRecord]) -> list[int]:
    return [store.run(run.run_id).version for run in runs]


def test_the_changes_of_one_tick_go_in_one_transaction(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(50)]
    queue = CommitQueue(store)

    async def work() -> None:
        async def one(run: RunRecord) -> Any:
            return await submitted(queue, scene.advance(run, calls=(call(1),)))

        assert await asyncio.gather(*(one(run) for run in runs)) == acks(runs)

    asyncio.run(work())
    assert [len(batch) for batch in store.batches] == [50]
    assert store.waits == [False]
    assert versions(store, runs) == [1] * 50


def test_what_one_task_does_after_another_goes_in_its_own_transaction(store: Watched, scene: Scene) -> None:
    run = scene.running()
    queue, lane = CommitQueue(store), Lane(0)

    async def work() -> None:
        for seq in (1, 2, 3):
            ack = await submitted(queue, scene.advance(run, calls=(call(seq),)), lane)
            assert ack.version == seq

    asyncio.run(work())
    assert [len(batch) for batch in store.batches] == [1, 1, 1]


def test_a_refused_change_and_one_that_cannot_be_stored_leave_the_others_of_their_tick(
    store: Watched, scene: Scene
) -> None:
    runs = [scene.running() for _ in range(4)]
    failed = scene.call_in(scene.running(), CallState.FAILED)
    queue = CommitQueue(store)

    async def work() -> list[Any]:
        bad: list[Change] = [
            scene.advance(runs[0], version=9),
            scene.advance(failed, changes=(changed(1, CallState.SUCCEEDED),)),
            scene.advance(runs[1], calls=(call(1, step="\ud800"),)),
        ]
        return await all_of(*(submitted(queue, change) for change in [*bad, *map(scene.advance, runs[2:])]))

    stale, illegal, poison, *good = asyncio.run(work())
    assert isinstance(stale, Refusal)
    assert stale.guard is Guard.VERSION
    assert isinstance(illegal, Refusal)
    assert illegal.guard is Guard.TRANSITION
    assert isinstance(poison, UnicodeEncodeError)
    assert good == acks(runs[2:])
    assert versions(store, runs) == [0, 0, 1, 1]
    # One by one, each change takes the database's lock anew: that is done where it may be waited for.
    assert store.waits == [False, True]
    # One by one, each change takes the database's lock anew: that is done where it may be waited for.
    assert store.waits == [False, True]


def test_a_blocking_submit_on_the_loops_own_thread_takes_the_queued_changes_along(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(4)]
    queue = CommitQueue(store)

    async def work() -> None:
        futures = [submitted(queue, scene.advance(run)) for run in runs[:3]]
        assert queue.submit(scene.advance(runs[3])) == acks(runs)[3]
        assert versions(store, runs) == [1, 1, 1, 1]
        assert await all_of(*futures) == acks(runs[:3])

    asyncio.run(work())
    assert [len(batch) for batch in store.batches] == [4]


def test_a_blocking_submit_of_the_same_run_comes_after_what_was_queued(store: Watched, scene: Scene) -> None:
    run = scene.running()
    queue, lane = CommitQueue(store), Lane(0)

    async def work() -> None:
        first = submitted(queue, scene.advance(run, calls=(call(1),)), lane)
        assert queue.submit(scene.advance(run, calls=(call(2),)), lane) == Ack(run.run_no, 2, 1)
        assert await all_of(first) == [Ack(run.run_no, 1, 1)]

    asyncio.run(work())


def test_a_blocking_submit_on_the_loops_thread_while_another_thread_commits_does_not_hang(
    store: Watched, scene: Scene
) -> None:
    runs = [scene.running() for _ in range(4)]
    queue = CommitQueue(store)
    reached, go = threading.Event(), threading.Event()

    def hold(changes: Any, wait: bool) -> None:
        if not reached.is_set():
            reached.set()
            assert go.wait(SOON)

    store.before = hold
    first = threading.Thread(target=queue.submit, args=(scene.advance(runs[0]),))
    first.start()
    assert reached.wait(SOON)

    async def work() -> None:
        futures = [submitted(queue, scene.advance(run)) for run in runs[1:3]]
        await asyncio.sleep(0)  # the flush comes, finds the other leading, and leaves it to him
        threading.Thread(target=go.set).start()
        assert queue.submit(scene.advance(runs[3])) == acks(runs)[3]
        assert await all_of(*futures) == acks(runs[1:3])

    asyncio.run(work())
    first.join(SOON)
    assert versions(store, runs) == [1, 1, 1, 1]


def test_what_a_loop_queues_while_a_thread_commits_is_committed_after_it(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(4)]
    queue = CommitQueue(store)
    reached, go = threading.Event(), threading.Event()

    def hold(changes: Any, wait: bool) -> None:
        if not reached.is_set():
            reached.set()
            assert go.wait(SOON)

    store.before = hold
    first = threading.Thread(target=queue.submit, args=(scene.advance(runs[0]),))
    first.start()
    assert reached.wait(SOON)

    async def work() -> None:
        futures = [submitted(queue, scene.advance(run)) for run in runs[1:]]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not any(future.done() for future in futures)
        go.set()
        assert await all_of(*futures) == acks(runs[1:])

    asyncio.run(work())
    first.join(SOON)
    assert [len(batch) for batch in store.batches] == [1, 3]


def test_two_loops_in_two_threads_are_each_told_in_their_own_thread(store: Watched, scene: Scene) -> None:
    runs = [[scene.running() for _ in range(20)] for _ in range(2)]
    queue = CommitQueue(store)
    told: list[set[int]] = [set(), set()]
    answers: list[list[Any]] = [[], []]

    async def work(side: int) -> None:
        async def one(run: RunRecord) -> None:
            lane = Lane(0)
            for seq in range(1, 6):
                future = submitted(queue, scene.advance(run, calls=(call(seq),)), lane)
                future.add_done_callback(lambda future: told[side].add(threading.get_ident()))
                answers[side].append(await future)

        await asyncio.wait_for(asyncio.gather(*(one(run) for run in runs[side])), SOON)
        assert told[side] == {threading.get_ident()}

    threads = [threading.Thread(target=asyncio.run, args=(work(side),)) for side in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert [len(given) for given in answers] == [100, 100]
    assert all(isinstance(answer, Ack) for given in answers for answer in given)
    assert versions(store, [*runs[0], *runs[1]]) == [5] * 40


def test_threads_and_loops_side_by_side_lose_nothing(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(24)]
    queue = CommitQueue(store)

    def in_thread(run: RunRecord) -> None:
        lane = Lane(0)
        for seq in range(1, 11):
            assert queue.submit(scene.advance(run, calls=(call(seq),)), lane) == Ack(run.run_no, seq, 1)

    async def in_task(run: RunRecord) -> None:
        lane = Lane(0)
        for seq in range(1, 11):
            change = scene.advance(run, calls=(call(seq),))
            # Every third blocks the loop's thread, as a plain tool in an async agent does.
            ack = queue.submit(change, lane) if seq % 3 == 0 else await submitted(queue, change, lane)
            assert ack == Ack(run.run_no, seq, 1)

    async def work(mine: list[RunRecord]) -> None:
        await asyncio.wait_for(asyncio.gather(*(in_task(run) for run in mine)), SOON)

    threads = [threading.Thread(target=in_thread, args=(run,)) for run in runs[:8]]
    threads += [threading.Thread(target=asyncio.run, args=(work(runs[8:16]),))]
    threads += [threading.Thread(target=asyncio.run, args=(work(runs[16:]),))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive()
    assert versions(store, runs) == [10] * 24
    assert sum(map(len, store.batches)) == 240


def test_a_loop_closed_while_its_change_is_queued_hinders_nobody(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(3)]
    queue = CommitQueue(store)
    loop = asyncio.new_event_loop()
    queue.submit_async(scene.advance(runs[0]), None, loop, loop.create_future())
    loop.close()
    assert queue.submit(scene.advance(runs[1])) == acks(runs)[1]

    async def work() -> None:
        assert await all_of(submitted(queue, scene.advance(runs[2]))) == acks(runs[2:])

    asyncio.run(work())


def test_a_loop_closed_while_its_change_is_being_committed_hinders_nobody(store: Watched, scene: Scene) -> None:
    runs = [scene.running() for _ in range(4)]
    queue = CommitQueue(store)
    loop = asyncio.new_event_loop()
    queue.submit_async(scene.advance(runs[0]), None, loop, loop.create_future())

    def close(changes: Any, wait: bool) -> None:
        store.before = None
        queue.submit_async(scene.advance(runs[2]), None, loop, loop.create_future())
        loop.close()

    store.before = close
    assert queue.submit(scene.advance(runs[1])) == acks(runs)[1]
    assert versions(store, runs[:2]) == [1, 1]
    assert queue.submit(scene.advance(runs[3])) == acks(runs)[3]


class TestOtherProcesses:
    """Another connection holds the database's lock, as another process does."""

    def test_a_loop_goes_on_while_its_commit_waits_for_another_process(
        self, store: Watched, scene: Scene, file: Path
    ) -> None:
        runs = [scene.running() for _ in range(3)]
        queue = CommitQueue(store)
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        threads = []
        store.before = lambda changes, wait: threads.append((threading.current_thread().name, wait))

        async def work() -> None:
            futures = [submitted(queue, scene.advance(run)) for run in runs]
            while len(threads) < 2:  # the loop turns meanwhile
                await asyncio.sleep(0)
            assert not any(future.done() for future in futures)
            later = submitted(queue, scene.create())
            await asyncio.sleep(0)
            other.execute("ROLLBACK")
            *answers, created = await all_of(*futures, later)
            assert answers == acks(runs)
            assert isinstance(created, Ack)

        asyncio.run(work())
        other.close()
        assert threads[0] == (threading.current_thread().name, False)
        assert threads[1] == ("jumar-commit", True)
        assert [len(batch) for batch in store.batches][:2] == [3, 3]
        assert versions(store, runs) == [1, 1, 1]

    def test_a_thread_simply_waits_for_another_process(self, store: Watched, scene: Scene, file: Path) -> None:
        run = scene.running()
        other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        reached = threading.Event()
        store.before = lambda changes, wait: reached.set()

        def let_go() -> None:
            assert reached.wait(SOON)
            other.execute("ROLLBACK")

        threading.Thread(target=let_go).start()
        assert CommitQueue(store).submit(scene.advance(run)) == Ack(run.run_no, 1, 1)
        other.close()


def test_after_a_slow_commit_the_next_is_made_in_a_thread(
    store: Watched, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "_SLOW_SECONDS", -1.0)
    run = scene.running()
    queue, lane = CommitQueue(store), Lane(0)
    threads = []
    store.before = lambda changes, wait: threads.append(threading.current_thread().name)

    async def work() -> None:
        for seq in (1, 2, 3):
            assert await all_of(submitted(queue, scene.advance(run), lane)) == [Ack(run.run_no, seq, 1)]

    asyncio.run(work())
    assert threads == [threading.current_thread().name, "jumar-commit", "jumar-commit"]


@pytest.mark.parametrize("landed", [True, False])
def test_an_unknown_outcome_is_read_back_in_a_thread_and_the_loop_goes_on(
    store: Watched, scene: Scene, landed: bool
) -> None:
    runs = [scene.running() for _ in range(3)]
    queue = CommitQueue(store)
    lose_once = iter([True])

    def lose(*_: Any) -> None:
        if next(lose_once, False):
            raise CommitUnknown("the connection was lost")

    if landed:
        store.after = lose
    else:
        store.before = lose
    threads = []
    read_back = store.store.read_back
    monkey: Any = store
    monkey.read_back = lambda change: threads.append(threading.current_thread().name) or read_back(change)

    async def work() -> None:
        assert await all_of(*(submitted(queue, scene.advance(run)) for run in runs)) == acks(runs)

    asyncio.run(work())
    assert threads == ["jumar-commit"] * 3
    assert versions(store, runs) == [1, 1, 1]
