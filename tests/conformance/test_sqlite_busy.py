"""Another connection holds the database's lock, as another process does: it is waited for, readers never wait, and
only a lock held for very long is told.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jumar.core.changes import Ack
from jumar.core.store import RunFilter
from jumar.database import opening
from jumar.database.opening import patiently
from jumar.errors import StoreBusy
from jumar.stores.opening import open_store
from jumar.stores.sqlite import store as sqlite_store
from jumar.testing.conformance_scene import Scene, call

SOON = 60.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def scene(file: Path) -> Iterator[Scene]:
    store = open_store(f"sqlite:///{file}")
    yield Scene(store)
    store.close()


@pytest.fixture
def other(scene: Scene, file: Path) -> Iterator[sqlite3.Connection]:
    """Another connection, which may be used from any thread."""
    connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    yield connection
    connection.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks are waited for so shortly that a test can wait it out."""
    for module in (opening, sqlite_store):
        monkeypatch.setattr(module, "patiently", partial(patiently, seconds=0.05))


def in_a_thread(work: Any) -> list[Any]:
    came: list[Any] = []
    thread = threading.Thread(target=lambda: came.append(work()), daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive()
    return came


def test_a_lock_is_waited_for_until_it_is_given_back(scene: Scene, other: sqlite3.Connection) -> None:
    run = scene.running()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        scene.store.write([scene.advance(run)], wait=False)
    release = threading.Thread(target=other.execute, args=("ROLLBACK",))
    release.start()
    assert scene.store.write([scene.advance(run)]) == [Ack(run.run_no, 1, 1)]
    release.join(SOON)


def test_without_waiting_a_busy_store_changes_nothing(scene: Scene, other: sqlite3.Connection) -> None:
    run = scene.running()
    before = scene.everything(run)
    other.execute("BEGIN IMMEDIATE")
    for batch in ([scene.advance(run)], [scene.advance(run, calls=(call(1),)), scene.create()]):
        with pytest.raises(StoreBusy):
            scene.store.write(batch, wait=False)
    assert scene.everything(run) == before
    other.execute("ROLLBACK")
    assert scene.store.write([scene.advance(run)], wait=False) == [Ack(run.run_no, 1, 1)]


def test_readers_do_not_wait_for_a_writer_and_see_what_is_committed(scene: Scene, other: sqlite3.Connection) -> None:
    run = scene.running()
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE run SET task = 'not yet'")
    assert scene.again(run) == run
    assert scene.store.runs(RunFilter()) == [run]
    assert scene.store.inspect().findings == ()
    other.execute("ROLLBACK")


def test_a_writer_does_not_wait_for_readers(scene: Scene, other: sqlite3.Connection) -> None:
    run = scene.running()
    other.execute("BEGIN")
    assert other.execute("SELECT version FROM run").fetchall() == [(0,)]
    assert scene.store.write([scene.advance(run)], wait=False) == [Ack(run.run_no, 1, 1)]
    assert other.execute("SELECT version FROM run").fetchall() == [(0,)]
    other.execute("COMMIT")


@pytest.mark.usefixtures("impatient")
def test_a_lock_held_for_too_long_is_told_and_nothing_is_lost(scene: Scene, other: sqlite3.Connection) -> None:
    run = scene.running()
    other.execute("BEGIN IMMEDIATE")
    for attempt in (
        lambda: scene.store.write([scene.advance(run)]),
        lambda: scene.store.write([scene.advance(run), scene.create()]),
        lambda: scene.store.read_back(scene.advance(run)),
    ):
        with pytest.raises(StoreBusy) as caught:
            attempt()
        assert caught.value.exit_code == 4
        assert caught.value.hint
    assert scene.again(run) == run
    other.execute("ROLLBACK")
    assert scene.store.write([scene.advance(run)]) == [Ack(run.run_no, 1, 1)]


@pytest.mark.usefixtures("impatient")
def test_a_database_locked_as_a_whole_is_told_to_whoever_opens_it(file: Path) -> None:
    open_store(f"sqlite:///{file}").close()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreBusy, match="kept"):
        open_store(f"sqlite:///{file}")
    other.execute("ROLLBACK")
    other.close()
    open_store(f"sqlite:///{file}").close()


def test_writing_and_reading_from_many_threads_is_safe(scene: Scene) -> None:
    runs = [scene.running() for _ in range(8)]
    barrier = threading.Barrier(len(runs))
    came: list[Any] = []

    def work(place: int) -> None:
        barrier.wait(SOON)
        run = runs[place]
        for seq in range(1, 16):
            [answer] = scene.store.write([scene.advance(run, version=seq - 1, calls=(call(seq),))])
            assert answer == Ack(run.run_no, seq, 1)
            assert len(scene.store.calls(run.run_no)) == seq
            assert len(scene.store.runs(RunFilter())) == len(runs)
        came.append(place)

    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(len(runs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert sorted(came) == list(range(len(runs)))


def test_a_store_closed_in_one_thread_is_closed_for_all(scene: Scene) -> None:
    run = scene.running()
    in_a_thread(scene.store.close)
    [answer] = in_a_thread(lambda: scene.store.write([scene.advance(run)]))
    assert isinstance(answer[0], Exception)
