"""Eight real processes on one SQLite file: opening it fresh, writing at once, and taking each other's runs over.

A worker says on its standard output that it is ready and begins when its standard input is closed, so that all begin
at once.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jumar.core.states import CallState, Status
from jumar.core.store import RunFilter
from jumar.stores.opening import open_store
from jumar.stores.sqlite.connection import APPLICATION_ID, newest_schema
from jumar.testing.conformance_scene import Scene

PROCESSES = 8

PRELUDE = """
import json, sys
from jumar.core.changes import Ack, Claimed, Guard, Refusal
from jumar.core.requests import Lane
from jumar.core.states import CallState
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene, call, changed

address, number = sys.argv[1], int(sys.argv[2])

def begin():
    print("ready", flush=True)
    sys.stdin.read()

def tell(value):
    print(json.dumps(value), flush=True)

def own_id(seq=0):
    return f"{number:08x}-0000-7000-8000-{seq:012x}"
"""


def at_once(body: str, file: Path, processes: int = PROCESSES) -> list[Any]:
    """What each of the workers told when they ran `body` at the same time; none may fail."""
    command = [sys.executable, "-c", PRELUDE + body, f"sqlite:///{file}"]
    workers = [
        subprocess.Popen(
            [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(processes)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            line = worker.stdout.readline()
            assert line == "ready\n", worker.communicate()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.close()
            worker.stdin = None
        ended = [worker.communicate(timeout=120) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    complaints = [err for (_, err), worker in zip(ended, workers, strict=True) if worker.returncode or err]
    assert complaints == []
    return [json.loads(out) for out, _ in ended]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def test_a_fresh_file_opened_by_all_at_once_gets_its_schema_once(file: Path) -> None:
    body = """
begin()
store = open_store(address)
tell(store.migrated)
store.close()
"""
    migrated = at_once(body, file)
    # Some find the work done: before the transaction's lock, or behind it.
    assert Counter(map(tuple, migrated))[0, newest_schema()] == 1
    assert {after for _, after in migrated} == {newest_schema()}
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_file_opened_and_closed_by_all_over_and_over_refuses_nobody(file: Path) -> None:
    # The last to close folds the log into the file and deletes it, while others open.
    body = """
begin()
for seq in range(25):
    store = open_store(address)
    scene = Scene(store)
    scene.ack(scene.create(run_id=own_id(seq)))
    store.close()
tell(None)
"""
    at_once(body, file)
    store = open_store(f"sqlite:///{file}")
    assert len(store.runs(RunFilter(limit=1000))) == PROCESSES * 25
    assert store.inspect().findings == ()
    store.close()


def test_a_file_left_by_a_killed_process_is_recovered_while_all_open_it(file: Path) -> None:
    killed = """
import os, signal
store = open_store(address)
scene, queue = Scene(store), CommitQueue(store)
made = [scene.running() for _ in range(40)]
tell([run.run_id for run in made])
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", PRELUDE + killed, f"sqlite:///{file}", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == -9, ended.stderr
    made = json.loads(ended.stdout)
    assert file.with_name("runs.db-wal").stat().st_size > 0
    body = """
begin()
store = open_store(address)
scene = Scene(store)
found = store.find("", 1000)
scene.ack(scene.create(run_id=f"{number + 1000:08x}-0000-7000-8000-000000000001"))
tell(found)
store.close()
"""
    for found in at_once(body, file):
        assert set(made) <= set(found)
    store = open_store(f"sqlite:///{file}")
    assert len(store.runs(RunFilter(limit=1000))) == 40 + PROCESSES
    assert store.inspect().findings == ()
    store.close()


def test_a_hundred_advances_of_each_process_are_all_there_and_nobody_is_told_of_a_lock(file: Path) -> None:
    body = """
store = open_store(address)
scene, queue = Scene(store), CommitQueue(store)
begin()
queue.submit(scene.create(run_id=own_id(), owner=f"worker {number}"))
run, lane = store.run(own_id()), Lane(0)
for seq in range(1, 101):
    ack = queue.submit(scene.advance(run, calls=(call(seq),)), lane)
    assert ack.version == seq, ack
tell(len(store.calls(run.run_no)))
store.close()
"""
    assert at_once(body, file) == [100] * PROCESSES
    store = open_store(f"sqlite:///{file}")
    runs = store.runs(RunFilter())
    assert {run.owner for run in runs} == {f"worker {number}" for number in range(PROCESSES)}
    for run in runs:
        assert run.version == 100
        assert [record.seq for record in store.calls(run.run_no)] == list(range(1, 101))
    assert store.inspect().findings == ()
    store.close()


def test_of_all_that_claim_one_run_at_once_one_gets_it(file: Path) -> None:
    store = open_store(f"sqlite:///{file}")
    scene = Scene(store)
    runs = [scene.queued() for _ in range(20)]
    body = """
store = open_store(address)
scene = Scene(store)
ids = store.find("", 99)
begin()
won = []
for run_id in ids:
    answer = scene.write(scene.claim(run_id, f"worker {number}"))
    assert isinstance(answer, Claimed) or answer.guard is Guard.HELD, answer
    if isinstance(answer, Claimed):
        won.append(run_id)
tell(won)
store.close()
"""
    won = at_once(body, file)
    assert sorted(run_id for ids in won for run_id in ids) == sorted(run.run_id for run in runs)
    for number, ids in enumerate(won):
        for run_id in ids:
            assert (scene.named(run_id).owner, scene.named(run_id).epoch) == (f"worker {number}", 1)
    store.close()


def test_processes_that_take_one_run_from_each_other_never_write_under_an_old_epoch(file: Path) -> None:
    """Leases of no time at all: every claim is a takeover, and each claimant advances until it is refused."""
    store = open_store(f"sqlite:///{file}")
    scene = Scene(store)
    run = scene.queued()
    body = """
store = open_store(address)
scene, queue = Scene(store), CommitQueue(store)
run_id = store.find("", 1)[0]
begin()
made = []
for turn in range(12):
    answer = queue.submit(scene.claim(run_id, f"worker {number}/{turn}", ttl_ms=2))
    if not isinstance(answer, Claimed):
        assert answer.guard is Guard.HELD, answer
        continue
    run, lane = answer.run, Lane(answer.run.version)
    while True:
        seq = lane.version + 1
        started = call(seq, CallState.STARTED, epoch=run.epoch)
        answer = queue.submit(scene.advance(run, calls=(started,), ttl_ms=2), lane)
        if not isinstance(answer, Ack):
            assert answer.guard is Guard.LEASE, answer
            break
        made.append([answer.version, run.epoch, seq])
        if len(made) % 4 == 0:
            break
tell(made)
store.close()
"""
    made = sorted(tuple(each) for told in at_once(body, file) for each in told)
    assert made
    # Versions follow each other without a gap or a double, and epochs never go back.
    assert [version for version, _, _ in made] == list(range(1, len(made) + 1))
    assert [epoch for _, epoch, _ in made] == sorted(epoch for _, epoch, _ in made)
    final = scene.again(run)
    assert final.version == len(made)
    calls = store.calls(run.run_no)
    assert [(record.started_version, record.epoch, record.seq) for record in calls] == made
    # What an earlier epoch started and did not finish is uncertain; only the last one's may still be started.
    for record in calls:
        assert record.state is (CallState.UNCERTAIN if record.epoch < final.epoch else CallState.STARTED)
    store.close()


def test_one_request_answered_by_all_at_once_is_answered_once(file: Path) -> None:
    store = open_store(f"sqlite:///{file}")
    scene = Scene(store)
    run = scene.asked(scene.running(), "r1")
    scene.ack(scene.leave(run, Status.WAITING))
    body = """
from jumar.testing.conformance_scene import answering
store = open_store(address)
scene = Scene(store)
run = store.run(store.find("", 1)[0])
begin()
answer = scene.write(answering(run, "r1", by=f"person {number}"))
assert isinstance(answer, Ack) or answer.guard is Guard.ANSWERED, answer
tell(isinstance(answer, Ack))
store.close()
"""
    answered = at_once(body, file)
    assert sum(answered) == 1
    after = scene.again(run)
    assert (after.status, after.answers) == (Status.QUEUED, 1)
    assert store.requests(run.run_no)[0].by == f"person {answered.index(True)}"
    store.close()


def test_one_id_created_by_all_at_once_is_created_once(file: Path) -> None:
    body = """
store = open_store(address)
scene = Scene(store)
begin()
answer = scene.write(scene.create(run_id="00000001-0000-7000-8000-000000000001", owner=f"worker {number}"))
assert isinstance(answer, Ack) or answer.guard is Guard.EXISTS, answer
tell(isinstance(answer, Ack))
store.close()
"""
    created = at_once(body, file)
    assert sum(created) == 1
    store = open_store(f"sqlite:///{file}")
    [run] = store.runs(RunFilter())
    assert run.owner == f"worker {created.index(True)}"
    store.close()
