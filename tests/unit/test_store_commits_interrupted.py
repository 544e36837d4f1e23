"""A thread that is interrupted (Ctrl-C) anywhere in the queue leaves it working, and everyone else gets a true
answer.

Python looks for signals after calls, at the beginning of functions and where a loop goes round.  The tests raise
KeyboardInterrupt at each of these places in `jumar.stores.commits` in turn, by tracing single instructions; the last
ones send a real signal.
"""

from __future__ import annotations

import asyncio
import dis
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jumar.core.changes import Ack
from jumar.core.records import RunRecord
from jumar.stores import behind, commits, tickets
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene, call
from tests.conformance.wrapping import Watched

SOON = 10.0
_LOOKS = {"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}


class Interrupt:
    """Raises KeyboardInterrupt at the `place`-th place in the queue where Python looks for signals."""

    def __init__(self, place: int) -> None:
        self.left = place

    def __enter__(self) -> None:
        self.outer = sys.gettrace()
        sys.settrace(self.enter)

    def __exit__(self, *raised: object) -> None:
        sys.settrace(self.outer)

    def enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in (commits.__file__, behind.__file__, tickets.__file__):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code = frame.f_code.co_code
        before = ""

        def step(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal before
            if event == "opcode":
                if before in _LOOKS:
                    self.left -= 1
                    if self.left == 0:
                        raise KeyboardInterrupt
                before = dis.opname[code[frame.f_lasti]]
            return step

        return step


@pytest.fixture
def store() -> Iterator[Watched]:
    store = Watched(open_store("memory:"))
    yield store
    store.before = store.after = None
    store.close()


@pytest.fixture
def scene(store: Watched) -> Scene:
    return Scene(store.store)


class Once:
    """A real signal to the main thread that raises KeyboardInterrupt there, once.

    It is sent until it was seen: one that arrives just before the thread blocks is looked at by Python only afterwards.
    """

    def __init__(self) -> None:
        self.seen = threading.Event()
        self.before = signal.signal(signal.SIGUSR1, self.handle)

    def handle(self, number: int, frame: FrameType | None) -> None:
        if not self.seen.is_set():
            self.seen.set()
            raise KeyboardInterrupt

    def send(self) -> None:
        while not self.seen.wait(0.01):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


@pytest.fixture
def once() -> Iterator[Once]:
    once = Once()
    yield once
    signal.signal(signal.SIGUSR1, once.before)


class Worker(threading.Thread):
    """Submits one change in a thread of its own and keeps what came of it."""

    def __init__(self, queue: CommitQueue, scene: Scene, run: RunRecord, place: int = 0) -> None:
        super().__init__(daemon=True)
        self.queue, self.run_record, self.place = queue, run, place
        self.change = scene.advance(run, calls=(call(1),))
        self.came: Any = None

    def run(self) -> None:
        try:
            with Interrupt(self.place):
                self.came = self.queue.submit(self.change)
        except BaseException as error:
            self.came = error

    def ended(self) -> Any:
        self.join(SOON)
        assert not self.is_alive(), "a thread hangs"
        return self.came


def waiting(queue: CommitQueue, number: int) -> None:
    give_up = time.monotonic() + SOON
    while len(queue._pending) < number:
        assert time.monotonic() < give_up
        time.sleep(0)


def still_works(queue: CommitQueue, scene: Scene) -> None:
    worker = Worker(queue, scene, scene.running())
    worker.start()
    assert isinstance(worker.ended(), Ack)
    assert queue._pending == []


def told_the_truth(store: Watched, worker: Worker) -> None:
    assert isinstance(worker.ended(), Ack)
    assert store.run(worker.run_record.run_id).version == 1


def every_place(scenario: Callable[[int], Any], at_least: int) -> None:
    """Play a scenario with an interrupt at every place, until it is over before it comes to the place."""
    scenario(1 << 30)  # newer Pythons trace the instructions of a function only from its second call on
    for place in count(1):
        if not isinstance(scenario(place), KeyboardInterrupt):
            assert place > at_least
            return


def test_a_lone_thread_interrupted_anywhere(store: Watched, scene: Scene) -> None:
    queue = CommitQueue(store)

    def scenario(place: int) -> Any:
        worker = Worker(queue, scene, scene.running(), place)
        worker.start()
        came = worker.ended()
        still_works(queue, scene)
        return came

    every_place(scenario, at_least=4)


def test_a_thread_that_follows_and_then_leads_interrupted_anywhere(store: Watched, scene: Scene) -> None:
    queue = CommitQueue(store)

    def scenario(place: int) -> Any:
        reached, go = threading.Event(), threading.Event()

        def hold(changes: Any, wait: bool) -> None:
            if not reached.is_set():
                reached.set()
                assert go.wait(SOON)

        store.before = hold
        first = Worker(queue, scene, scene.running())
        first.start()
        assert reached.wait(SOON)
        heir = Worker(queue, scene, scene.running(), place)
        heir.start()
        give_up = time.monotonic() + SOON
        while heir.is_alive() and not queue._pending:
            assert time.monotonic() < give_up
            time.sleep(0)
        others = [Worker(queue, scene, scene.running()) for _ in range(2)]
        for worker in others:
            worker.start()
        # The heir may have been interrupted before or while it waited.
        while not all(any(ticket.change is worker.change for ticket in queue._pending) for worker in others):
            assert time.monotonic() < give_up
            time.sleep(0)
        go.set()
        came = heir.ended()
        for worker in [first, *others]:
            told_the_truth(store, worker)
        still_works(queue, scene)
        return came

    every_place(scenario, at_least=10)


def test_a_loops_thread_interrupted_anywhere_in_its_flush(store: Watched, scene: Scene) -> None:
    queue = CommitQueue(store)

    def scenario(place: int) -> Any:
        runs = [scene.running() for _ in range(3)]
        loop = asyncio.new_event_loop()

        async def submit_all() -> list[Any]:
            futures = [loop.create_future() for _ in runs]
            for run, future in zip(runs, futures, strict=True):
                queue.submit_async(scene.advance(run, calls=(call(1),)), None, loop, future)
            return await asyncio.gather(*futures)

        task = loop.create_task(submit_all())
        came: Any = None
        try:
            with Interrupt(place):
                loop.run_until_complete(task)
        except KeyboardInterrupt as error:
            came = error
        # Whoever commits next takes along what an interrupted flush has left.
        still_works(queue, scene)
        if not task.done():
            loop.run_until_complete(asyncio.wait_for(task, SOON))
            assert [store.run(run.run_id).version for run in runs] == [1, 1, 1]
        else:
            task.exception()
        loop.close()
        return came

    every_place(scenario, at_least=10)


def test_a_waiting_thread_is_interrupted_by_a_real_signal_and_the_queue_goes_on(
    store: Watched, scene: Scene, once: Once
) -> None:
    queue = CommitQueue(store)
    reached, go = threading.Event(), threading.Event()

    def hold(changes: Any, wait: bool) -> None:
        if not reached.is_set():
            reached.set()
            assert go.wait(SOON)

    store.before = hold
    first = Worker(queue, scene, scene.running())
    first.start()
    assert reached.wait(SOON)
    mine, other = scene.running(), Worker(queue, scene, scene.running())

    def interrupt() -> None:
        waiting(queue, 1)
        once.send()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        queue.submit(scene.advance(mine))
    other.start()
    waiting(queue, 1)
    go.set()
    for worker in (first, other):
        told_the_truth(store, worker)
    assert store.run(mine.run_id).version == 0
    still_works(queue, scene)


def test_a_leader_is_interrupted_by_a_real_signal_in_its_commit_and_its_followers_are_told_the_truth(
    tmp_path: Path, once: Once
) -> None:
    store = Watched(open_store(f"sqlite:///{tmp_path / 'runs.db'}"))
    scene, queue = Scene(store.store), CommitQueue(store)
    mine, others = scene.running(), [Worker(queue, scene, scene.running()) for _ in range(3)]

    def interrupt(changes: Any, answers: Any) -> None:
        store.after = None
        for worker in others:
            worker.start()
        waiting(queue, 3)
        once.send()

    store.after = interrupt
    with pytest.raises(KeyboardInterrupt):
        queue.submit(scene.advance(mine))
    assert store.run(mine.run_id).version == 1
    for worker in others:
        told_the_truth(store, worker)
    still_works(queue, scene)
    store.close()
