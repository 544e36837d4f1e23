"""The workspace's one lock: who has it, who waits, and what a process that dies leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jumar.errors import WorkspaceBusy, WorkspaceError
from jumar.workspace.locking import WorkspaceLock
from tests.workspace.files import File
from tests.workspace.scene import Scene

HOLDING = """
import sys, time
from pathlib import Path
from jumar.workspace.locking import WorkspaceLock
with WorkspaceLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_a_second_holder_is_refused_at_once_and_let_in_afterwards(path: Path) -> None:
    with WorkspaceLock(path) as first:
        assert first.held
        with pytest.raises(WorkspaceBusy):
            WorkspaceLock(path).acquire()
    with WorkspaceLock(path):
        assert not first.held


def test_threads_of_one_process_keep_each_other_out(path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            with WorkspaceLock(path, wait=None):
                inside.append(number)
                most.append(len(inside))
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), set(most)) == (80, {1})


def test_who_waits_gets_the_lock_when_it_is_given_back(path: Path) -> None:
    first, taken = WorkspaceLock(path), threading.Event()

    def wait() -> None:
        with WorkspaceLock(path, wait=60.0):
            taken.set()

    first.acquire()
    thread = threading.Thread(target=wait)
    thread.start()
    assert not taken.is_set()
    first.release()
    thread.join()
    assert taken.is_set()


def test_a_wait_that_is_too_short_ends_in_a_refusal(path: Path) -> None:
    with WorkspaceLock(path), pytest.raises(WorkspaceBusy):
        WorkspaceLock(path, wait=0.05).acquire()


def test_the_lock_ends_with_the_process_that_held_it(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(WorkspaceBusy):
            WorkspaceLock(path).acquire()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with WorkspaceLock(path):
            pass


def test_a_child_neither_holds_its_parents_lock_nor_gives_it_back(path: Path) -> None:
    read, write = os.pipe()
    lock = WorkspaceLock(path)
    lock.acquire()
    child = os.fork()
    if child == 0:
        os.close(write)
        lock.release()
        os.read(read, 1)  # lives on until the parent has looked
        os._exit(int(lock.held))
    os.close(read)
    try:
        with pytest.raises(WorkspaceBusy):
            WorkspaceLock(path).acquire()
        lock.release()
        with WorkspaceLock(path):
            pass
    finally:
        os.close(write)
        assert os.waitpid(child, 0)[1] == 0


def test_a_program_that_is_started_does_not_inherit_the_lock(path: Path) -> None:
    lock = WorkspaceLock(path)
    lock.acquire()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as program:
        lock.release()
        with WorkspaceLock(path):
            assert program.poll() is None


def test_a_lock_is_not_taken_twice_by_one_holder_and_is_given_back_where_its_start_fails(path: Path) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with WorkspaceLock(path) as lock, pytest.raises(WorkspaceError):
        lock.acquire()
    with pytest.raises(ZeroDivisionError):
        WorkspaceLock(path, taken=fail).acquire()
    with WorkspaceLock(path):
        pass


def test_who_holds_the_lock_may_restore_and_nobody_else(scene: Scene) -> None:
    scene.become({b"a": File(b"1")})
    target = scene.workspace.capture()
    scene.become({b"a": File(b"2")})
    plan = scene.workspace.plan(target, scene.workspace.capture())
    with scene.workspace.lock() as held:
        with pytest.raises(WorkspaceBusy):
            scene.workspace.restore(plan)
        assert scene.read() == {b"a": File(b"2")}
        scene.workspace.restore(plan, held=held)
    assert scene.read() == {b"a": File(b"1")}
    with pytest.raises(WorkspaceError):
        scene.workspace.restore(plan, held=held)
