"""Real processes on one store in a folder: opening it fresh, writing at once, taking each other's runs over, and being
killed while they write.

A worker says on its standard output that it is ready and begins when its standard input is closed, so that all begin
at once.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from jumar.core.changes import Guard
from jumar.core.states import CallState, IdentityScope
from jumar.core.store import RunFilter
from jumar.errors import StoreBusy
from jumar.stores.file.store import FileStore
from jumar.stores.sqlite.connection import newest_schema
from jumar.testing.conformance_scene import Scene

PROCESSES = 4

PRELUDE = """
import json, sys
from jumar.core.changes import Ack, Claimed, Guard, Refusal
from jumar.core.states import CallState, Effect, IdentityScope
from jumar.core.store import RunFilter
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene, call, changed, named, taking

address, number = sys.argv[1], int(sys.argv[2])

def begin():
    print("ready", flush=True)
    sys.stdin.read()

def tell(value):
    print(json.dumps(value), flush=True)
"""


@contextmanager
def workers(body: str, root: Path, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """So many processes that are ready to run `body`."""
    command = [sys.executable, "-c", PRELUDE + body, f"file:{root}"]
    made = [
        subprocess.Popen(
            [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(count)
    ]
    try:
        for worker in made:
            assert worker.stdout is not None
            line = worker.stdout.readline()
            assert line == "ready\n", worker.communicate()
        yield made
    finally:
        for worker in made:
            worker.kill()
            worker.wait()
            for pipe in (worker.stdin, worker.stdout, worker.stderr):
                if pipe is not None:
                    pipe.close()


def start(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.close()
    worker.stdin = None


def at_once(body: str, root: Path, count: int = PROCESSES) -> list[Any]:
    """What each of the workers told when they ran `body` at the same time; none may fail."""
    with workers(body, root, count) as made:
        for worker in made:
            start(worker)
        ended = [worker.communicate(timeout=120) for worker in made]
        assert [err for (_, err), worker in zip(ended, made, strict=True) if worker.returncode or err] == []
    return [json.loads(out) for out, _ in ended]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_a_fresh_folder_opened_by_all_at_once_is_made_a_store_once(root: Path) -> None:
    body = """
begin()
store = open_store(address)
scene = Scene(store)
scene.ack(scene.create(run_id=f"run-{number}"))
tell(store.migrated)
store.close()
"""
    migrated = [tuple(each) for each in at_once(body, root)]
    assert migrated.count((0, newest_schema())) == 1
    store = FileStore(str(root))
    assert len(store.runs(RunFilter())) == PROCESSES
    assert store.inspect().findings == ()
    store.close()


def test_what_all_write_at_once_is_all_there_and_each_run_has_a_number_of_its_own(root: Path) -> None:
    body = """
store = open_store(address)
scene = Scene(store)
begin()
for seq in range(5):
    run = scene.running(run_id=f"run-{number}-{seq}")
    for version in range(4):
        scene.ack(scene.advance(scene.again(run), calls=(call(version + 1),)))
tell(len(store.runs(RunFilter())))
"""
    at_once(body, root)
    store = FileStore(str(root))
    runs = store.runs(RunFilter())
    assert len({run.run_no for run in runs}) == len(runs) == PROCESSES * 5
    assert {run.version for run in runs} == {4}
    assert [len(store.calls(run.run_no)) for run in runs] == [4] * len(runs)
    assert store.inspect().findings == ()
    store.close()


def test_of_all_that_claim_a_run_and_take_a_name_at_once_one_gets_it(root: Path) -> None:
    store = FileStore(str(root))
    scene = Scene(store)
    free = [scene.queued(run_id=f"free-{seq}") for seq in range(6)]
    body = """
store = open_store(address)
scene = Scene(store)
own = scene.running(run_id=f"own-{number}")
begin()
claimed, named = 0, 0
for seq in range(6):
    claimed += isinstance(scene.write(scene.claim(f"free-{seq}", f"worker-{number}")), Claimed)
    own = scene.again(own)
    ack = scene.ack(scene.starting(own, f"pay:{seq}", seq=seq + 1))
    named += not ack.taken
tell([claimed, named])
"""
    told = at_once(body, root)
    assert [sum(column) for column in zip(*told, strict=True)] == [6, 6]
    assert [scene.again(run).epoch for run in free] == [1] * 6
    for seq in range(6):
        held = store.identity(IdentityScope.STORE, 0, f"pay:{seq}")
        assert held is not None
        states = [
            call.state
            for run in store.runs(RunFilter(agent="repair"))
            for call in store.calls(run.run_no)
            if call.identity == f"pay:{seq}"
        ]
        assert states.count(CallState.STARTED) == 1
    assert [found for found in store.inspect().findings if not found.where.startswith("call")] == []
    store.close()


WRITING = """
from jumar.stores.sqlite import writes
clock, store = writes.lease_ms, open_store(address)
scene = Scene(store)
while True:
    line = sys.stdin.readline()
    generation = int(line)
    writes.lease_ms = lambda: clock() + generation * 1_000_000  # so the lease of the one before has run out
    claimed = scene.claimed(scene.claim("mine", f"writer-{generation}"))
    run = claimed.run
    print("claimed", claimed.uncertain, flush=True)
    while True:
        record = call(run.version + 1, CallState.STARTED, epoch=run.epoch)
        scene.ack(scene.advance(run, calls=(record,), artifacts=(named(b"%d" % run.version * 3000),)))
        run = scene.again(run)
        print(run.version, flush=True)
"""


@pytest.mark.parametrize("seed", range(2))
def test_a_run_of_a_killed_process_is_taken_over_with_all_it_had_acknowledged(root: Path, seed: int) -> None:
    random = Random(seed)
    print(f"seed {seed}")
    store = FileStore(str(root))
    scene = Scene(store)
    scene.queued(run_id="mine")
    with workers("print('ready', flush=True)" + WRITING, root, 4) as writers:
        open_calls = 0
        for generation, writer in enumerate(writers, 1):
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.write(f"{generation}\n")
            writer.stdin.flush()
            assert writer.stdout.readline() == f"claimed {open_calls}\n"
            heard = [int(writer.stdout.readline()) for _ in range(random.randint(1, 12))]
            writer.send_signal(signal.SIGKILL)
            heard += [int(line) for line in writer.stdout if line.endswith("\n")]
            run = scene.named("mine")
            assert run.version in (heard[-1], heard[-1] + 1)
            assert [call.seq for call in store.calls(run.run_no)] == list(range(1, run.version + 1))
            assert store.inspect().findings == ()
            assert scene.refusal(scene.claim(run)) is Guard.HELD
            open_calls = sum(call.state is CallState.STARTED for call in store.calls(run.run_no))
    again = FileStore(str(root))
    assert Scene(again).everything(run) == scene.everything(run)
    again.close()
    store.close()


def test_a_process_that_stopped_with_the_lock_keeps_others_waiting_until_it_is_killed(root: Path) -> None:
    store = FileStore(str(root))
    scene = Scene(store)
    run = scene.running(run_id="mine")
    body = """
store = open_store(address)
store._lock.acquire()
begin()
"""
    with workers(body, root, 1) as (holder,):
        holder.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreBusy):
            store.write([scene.advance(run)], wait=False)
        assert scene.again(run) == run  # reading waits for nobody
        holder.kill()
        holder.wait()
        assert scene.ack(scene.advance(run)).version == 1
    store.close()


def test_whoever_watches_is_told_of_what_another_process_makes_due(root: Path) -> None:
    store = FileStore(str(root))
    watch = store.watch()
    body = """
store = open_store(address)
begin()
Scene(store).queued(run_id="new")
tell(None)
"""
    with workers(body, root, 1) as (writer,):
        start(writer)
        assert watch.wait(60.0)
        assert store.due(0, 5) == ["new"]
        writer.communicate(timeout=60)
    watch.close()
    store.close()
