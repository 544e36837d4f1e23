"""An interrupt at the worst spot leaves nothing behind: no lead that nobody has, no version that never comes, no open
transaction.

KeyboardInterrupt is raised at the exact spot: at every place of the queue where Python looks for signals, by tracing,
and before or after one statement, by a connection around the writer's own.
"""

from __future__ import annotations

import asyncio
import dis
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jumar.core.changes import Ack, Advance, Refusal
from jumar.core.requests import Lane
from jumar.core.states import CallState
from jumar.errors import StoreBusy, StoreFull
from jumar.stores import behind, commits, tickets
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.stores.sqlite.store import SQLiteStore
from jumar.testing.conformance_scene import Scene, changed
from tests.conformance.wrapping import Watched

SOON = 10.0
_LOOKS = {"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}
_WITHIN = ("_pass_on", "<listcomp>", "<genexpr>", "<setcomp>", "call_in", "_without_closed", "_ring")


class Interrupt:
    """Raises KeyboardInterrupt, in the thread that enters it, at the `place`-th place within the passing on of the
    lead where Python looks for signals.
    """

    def __init__(self, queue: CommitQueue, place: int) -> None:
        self.queue, self.left = queue, 0
        self.place = place

    def __enter__(self) -> None:
        self.outer = sys.gettrace()
        sys.settrace(self.enter)
        self.queue._pass_on(-2)  # as nobody: newer Pythons trace a function's instructions from its second call on
        self.left = self.place

    def __exit__(self, *raised: object) -> None:
        sys.settrace(self.outer)

    def enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if (
            frame.f_code.co_filename not in (commits.__file__, behind.__file__, tickets.__file__)
            or frame.f_code.co_name not in _WITHIN
        ):
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


class Held:
    """Holds the first write of a store until it is let go."""

    def __init__(self, store: Watched) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        store.before = self.hold

    def hold(self, changes: Any, wait: bool) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self.go.wait(SOON)


class Submitting(threading.Thread):
    def __init__(self, queue: CommitQueue, change: Advance, lane: Lane | None = None, place: int = 0) -> None:
        super().__init__(daemon=True)
        self.queue, self.change, self.lane, self.place = queue, change, lane, place
        self.came: Any = None
        self.start()

    def run(self) -> None:
        try:
            with Interrupt(self.queue, self.place):
                self.came = self.queue.submit(self.change, self.lane)
        except BaseException as error:
            self.came = error

    def ended(self) -> Any:
        self.join(SOON)
        assert not self.is_alive(), "a thread hangs"
        return self.came


class Around:
    """The writer's connection, where a KeyboardInterrupt comes once before or after a given statement."""

    def __init__(self, store: SQLiteStore, before: str = "", after: str = "") -> None:
        self.connection, self.before, self.after = store._writer, before, after
        store._writer = self  # type: ignore[assignment]

    def execute(self, statement: str, *values: Any) -> Any:
        if self.before and statement.startswith(self.before):
            self.before = ""
            raise KeyboardInterrupt
        cursor = self.connection.execute(statement, *values)
        if self.after and statement.startswith(self.after):
            self.after = ""
            raise KeyboardInterrupt
        return cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


@pytest.fixture
def store() -> Iterator[Watched]:
    store = Watched(open_store("memory:"))
    yield store
    store.before = store.after = None
    store.close()


@pytest.fixture
def scene(store: Watched) -> Scene:
    return Scene(store.store)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def sqlite(file: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(str(file))
    yield store
    store.close()


def until(condition: Any) -> None:
    give_up = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0)


def others_can_write(file: Path) -> bool:
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
    return True


def test_a_waiting_thread_is_woken_wherever_the_leader_is_interrupted_in_passing_on(
    store: Watched, scene: Scene
) -> None:
    queue = CommitQueue(store)
    for place in count(1):
        held = Held(store)
        leader = Submitting(queue, scene.advance(scene.running()), None, place)
        assert held.reached.wait(SOON)
        follower = Submitting(queue, scene.advance(scene.running()))
        until(lambda: queue._pending)
        held.go.set()
        assert isinstance(follower.ended(), Ack)
        if not isinstance(leader.ended(), KeyboardInterrupt):
            assert place > 3
            return


def test_a_waiting_loop_is_called_wherever_the_leader_is_interrupted_in_passing_on(
    store: Watched, scene: Scene
) -> None:
    queue = CommitQueue(store)

    async def answered(place: int) -> Any:
        held, loop = Held(store), asyncio.get_running_loop()
        leader = Submitting(queue, scene.advance(scene.running()), None, place)
        assert held.reached.wait(SOON)
        future = loop.create_future()
        queue.submit_async(scene.advance(scene.running()), None, loop, future)
        await asyncio.sleep(0)  # its own flush finds the leader under way
        await asyncio.sleep(0)
        held.go.set()
        assert isinstance(await asyncio.wait_for(future, SOON), Ack)
        return leader.ended()

    for place in count(1):
        if not isinstance(asyncio.run(answered(place)), KeyboardInterrupt):
            assert place > 3
            return


def interrupted_follower(store: Watched, queue: CommitQueue, change: Advance, lane: Lane) -> Any:
    """Submit in a thread that is interrupted while it waits at its gate."""

    class Gate:
        def __init__(self) -> None:
            self.lock, self.acquired = threading.Lock(), 0

        def acquire(self) -> None:
            self.acquired += 1
            if self.acquired == 2:
                raise KeyboardInterrupt
            self.lock.acquire()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.lock, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tickets, "Lock", Gate)
        return Submitting(queue, change, lane).ended()


def test_the_advances_behind_one_whose_thread_was_interrupted_are_not_stale(store: Watched, scene: Scene) -> None:
    queue, held, run = CommitQueue(store), Held(store), scene.running()
    lane = Lane(run.version)
    leader = Submitting(queue, scene.advance(scene.running()))
    assert held.reached.wait(SOON)
    assert isinstance(interrupted_follower(store, queue, scene.advance(run), lane), KeyboardInterrupt)
    follower = Submitting(queue, scene.advance(run), lane)
    until(lambda: len(queue._pending) == 2)
    held.go.set()
    assert isinstance(follower.ended(), Ack)
    assert isinstance(leader.ended(), Ack)
    assert store.run(run.run_id).version == lane.version == 2


@pytest.mark.parametrize("threads", [True, False], ids=["in-a-new-thread", "where-no-thread-can-be-started"])
def test_an_advance_whose_thread_was_interrupted_is_committed_though_nobody_else_waits(
    store: Watched, scene: Scene, threads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, held, run = CommitQueue(store), Held(store), scene.running()
    lane = Lane(run.version)
    leader = Submitting(queue, scene.advance(scene.running()))
    assert held.reached.wait(SOON)
    assert isinstance(interrupted_follower(store, queue, scene.advance(run), lane), KeyboardInterrupt)
    if not threads:

        class NoThread(threading.Thread):
            def start(self) -> None:
                raise RuntimeError("can't start new thread")

        monkeypatch.setattr(commits, "Thread", NoThread)
    held.go.set()
    assert isinstance(leader.ended(), Ack)
    until(lambda: queue._leader == 0)
    assert store.run(run.run_id).version == 1
    assert isinstance(queue.submit(scene.advance(run), lane), Ack)


def test_a_lead_that_no_thread_takes_up_is_not_lost(
    store: Watched, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, run = CommitQueue(store), scene.running()
    starts = 0

    class Interrupted(threading.Thread):
        def start(self) -> None:
            nonlocal starts
            starts += 1
            if starts == 1:
                raise KeyboardInterrupt
            super().start()

    monkeypatch.setattr(commits, "Thread", Interrupted)
    queue._leader, queue._pending = threading.get_ident(), []
    with pytest.raises(KeyboardInterrupt):
        queue._hand_over()
    queue._pass_on(threading.get_ident())
    assert isinstance(Submitting(queue, scene.advance(run)).ended(), Ack)


def test_a_batch_whose_handing_over_is_interrupted_is_still_committed(
    store: Watched, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, loop, run = CommitQueue(store), asyncio.new_event_loop(), scene.running()
    future = loop.create_future()
    made = 0

    class Interrupted(threading.Thread):
        def __init__(self, **given: Any) -> None:
            nonlocal made
            made += 1
            if made == 1:
                raise KeyboardInterrupt
            super().__init__(**given)

    def busy(changes: Any, wait: bool) -> None:
        if not wait:
            raise StoreBusy("another process writes")

    store.before = busy
    monkeypatch.setattr(commits, "Thread", Interrupted)
    queue.submit_async(scene.advance(run), None, loop, future)
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(future)
    assert isinstance(loop.run_until_complete(asyncio.wait_for(future, SOON)), Ack)
    loop.close()


def test_an_error_that_a_whole_batch_met_is_raised_in_each_thread_as_its_own(store: Watched, scene: Scene) -> None:
    queue, held = CommitQueue(store), Held(store)
    leader = Submitting(queue, scene.advance(scene.running()))
    assert held.reached.wait(SOON)
    followers = [Submitting(queue, scene.advance(scene.running())) for _ in range(3)]
    until(lambda: len(queue._pending) == 3)

    def full(changes: Any, wait: bool) -> None:
        raise StoreFull("the disk is full", hint="Buy one.") from OSError(28)

    store.before = full
    held.go.set()
    assert isinstance(leader.ended(), Ack)
    errors = [follower.ended() for follower in followers]
    assert len({id(error) for error in errors}) == 3
    for error in errors:
        assert isinstance(error, StoreFull)
        assert (str(error), error.hint) == (str(errors[0]), "Buy one.")
        assert isinstance(error.__cause__, OSError)


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "UPDATE"])
def test_an_interrupt_after_any_statement_of_a_change_leaves_no_transaction_open(
    sqlite: SQLiteStore, file: Path, statement: str
) -> None:
    scene = Scene(sqlite)
    run = scene.running()
    change = scene.create() if statement == "INSERT" else scene.advance(run)
    around = Around(sqlite, after=statement)
    with pytest.raises(KeyboardInterrupt):
        sqlite.write([change])
    assert not around.after
    assert not around.connection.in_transaction
    assert others_can_write(file)
    assert isinstance(sqlite.write([change])[0], Ack)


@pytest.mark.parametrize("next_use", ["write", "read_back"])
def test_what_an_interrupted_rollback_left_open_is_rolled_back_by_the_next_use(
    sqlite: SQLiteStore, file: Path, next_use: str
) -> None:
    scene = Scene(sqlite)
    run = scene.running()
    around = Around(sqlite, after="UPDATE", before="ROLLBACK")
    with pytest.raises(KeyboardInterrupt):
        sqlite.write([scene.advance(run)])
    assert around.connection.in_transaction
    if next_use == "write":
        assert sqlite.write([scene.advance(run)]) == [Ack(run.run_no, 1, 1)]
    else:
        assert sqlite.read_back(scene.advance(run)) is None
    assert others_can_write(file)


def test_an_interrupt_after_the_begin_of_a_reading_back_leaves_no_transaction_open(
    sqlite: SQLiteStore, file: Path
) -> None:
    scene = Scene(sqlite)
    change = scene.advance(scene.running())
    Around(sqlite, after="BEGIN")
    with pytest.raises(KeyboardInterrupt):
        sqlite.read_back(change)
    assert others_can_write(file)
    assert sqlite.read_back(change) is None


def test_a_batch_that_has_to_be_taken_apart_is_not_while_its_thread_may_not_wait(
    sqlite: SQLiteStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(sqlite)
    sound, refused = scene.running(), scene.running()
    batch = [scene.advance(sound), scene.advance(refused, changes=(changed(9, CallState.SUCCEEDED),))]
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as other:
        rolled_back = sqlite._roll_back

        def another_is_quick() -> None:
            was_open = sqlite._writer.in_transaction
            rolled_back()
            if was_open:
                other.execute("BEGIN IMMEDIATE")

        monkeypatch.setattr(sqlite, "_roll_back", another_is_quick)
        monkeypatch.setattr("jumar.stores.sqlite.store.patiently", lambda work: pytest.fail("it waits for a lock"))
        with pytest.raises(StoreBusy):
            sqlite.write(batch, wait=False)
        other.execute("ROLLBACK")
    monkeypatch.undo()
    assert sqlite.run(sound.run_id) == sound
    assert [type(answer) for answer in sqlite.write(batch)] == [Ack, Refusal]
