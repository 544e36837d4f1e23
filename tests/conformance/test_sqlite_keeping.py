"""Checkpoints are read back where they are written: one that the database did not take as it was given undoes the
whole advance, while the run still stands at it.

Triggers in the database are what changes the rows in between.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from jumar import Harness, Run
from jumar.core.changes import Ack
from jumar.core.records import CheckpointRecord
from jumar.core.requests import Lane
from jumar.core.states import CallState, Level
from jumar.core.store import Store
from jumar.errors import IntegrityError
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_advancing import laden
from jumar.testing.conformance_scene import AT, Scene, call, named

KEPT = CheckpointRecord(
    "fix_scan_step_20300317T174640.000Z",
    Level.STEP,
    "manual",
    refs=("claim:c-17",),
    step=2,
    context=b"\x05" * 32,
    created_at=AT,
    tree=b"\x06" * 32,
    environment=b"\x07" * 32,
)
WRONG = {
    "version": "version + 100",
    "base_version": "1",
    "name": "'another'",
    "level": "2",
    "trigger": "''",
    "refs": "'claim:c-17 claim:c-18'",
    "step": "step + 1",
    "phase": "phase - 1",
    "context": "NULL",
    "created_at": "0",
    "checksum": "zeroblob(32)",
    "tree": "context",
    "environment": "NULL",
    "storage": "1",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    open_store(f"sqlite:///{tmp_path / 'runs.db'}").close()
    return tmp_path / "runs.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{file}")
    yield store
    store.close()


def interfere(file: Path, body: str, when: str = "AFTER INSERT") -> None:
    """Have the database do something with every checkpoint that is written."""
    with sqlite3.connect(file) as connection:
        connection.execute(f"CREATE TRIGGER meddling {when} ON checkpoint BEGIN {body}; END")
    connection.close()


def leave_alone(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TRIGGER meddling")
    connection.close()


def test_every_column_of_a_checkpoint_is_tried(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(checkpoint)")}
    connection.close()
    assert columns - {"checkpoint_no", "run_no"} == set(WRONG)


@pytest.mark.parametrize("column", WRONG)
def test_a_checkpoint_of_which_any_column_is_kept_otherwise_undoes_its_advance(
    file: Path, store: Store, column: str
) -> None:
    scene = Scene(store)
    run = scene.running()
    before = scene.everything(run)
    interfere(
        file, f"UPDATE checkpoint SET {column} = {WRONG[column]} WHERE run_no = new.run_no AND version = new.version"
    )
    [answer] = store.write([scene.advance(run, calls=(call(1),), artifacts=(named(b'"x"'),), after=KEPT)])
    assert isinstance(answer, IntegrityError)
    assert KEPT.name in answer.what
    assert scene.everything(run) == before
    assert store.artifact(run.run_no, named(b'"x"').digest) is None


@pytest.mark.parametrize(
    ("when", "body"),
    [
        ("BEFORE INSERT", "SELECT RAISE(IGNORE)"),
        ("AFTER INSERT", "DELETE FROM checkpoint WHERE run_no = new.run_no AND version = new.version"),
        ("AFTER INSERT", "UPDATE checkpoint SET run_no = run_no + 1 WHERE version = new.version"),
    ],
    ids=["ignored", "deleted", "given-away"],
)
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_checkpoint_that_is_not_kept_at_all_undoes_its_advance(
    file: Path, store: Store, when: str, body: str, place: str
) -> None:
    scene = Scene(store)
    run = scene.running()
    interfere(file, body, when)
    kept = {place: KEPT}
    [answer] = store.write([scene.advance(run, before=kept.get("before"), after=kept.get("after"))])
    assert isinstance(answer, IntegrityError)
    assert (scene.again(run).version, store.checkpoints(run.run_no)) == (0, [])


def test_the_others_of_a_batch_stand_and_the_run_goes_on_once_nothing_interferes(file: Path, store: Store) -> None:
    scene, lane = Scene(store), Lane(0)
    queue = CommitQueue(store)
    run, other = scene.running(), scene.running()
    interfere(file, "UPDATE checkpoint SET step = 9 WHERE version = new.version")
    answers = store.write([scene.advance(run, after=KEPT), scene.advance(other, calls=(call(1),))])
    assert [type(answer) for answer in answers] == [IntegrityError, Ack]
    assert [scene.again(each).version for each in (run, other)] == [0, 1]
    leave_alone(file)
    assert queue.submit(scene.advance(run, after=KEPT), lane) == Ack(run.run_no, 1, 1)


def test_a_checkpoint_that_was_there_before_stays_and_is_not_looked_at(file: Path, store: Store) -> None:
    scene = Scene(store)
    run = scene.running()
    scene.ack(scene.advance(run, after=KEPT))
    interfere(file, "UPDATE checkpoint SET step = 9 WHERE version = new.version")
    scene.ack(scene.advance(scene.again(run), before=replace(KEPT, name="second")))
    assert [kept.name for kept in store.checkpoints(run.run_no)] == [KEPT.name]


def test_with_nothing_in_between_everything_lands(store: Store) -> None:
    scene = Scene(store)
    run = scene.running()
    scene.ack(laden(scene, scene.call_in(run, CallState.STARTED)))
    assert len(store.checkpoints(run.run_no)) == 2


def test_a_run_whose_checkpoint_did_not_come_back_stops_with_the_error_and_can_be_resumed(file: Path) -> None:
    harness = Harness(f"sqlite:///{file}", lease_ttl=0.5)

    @harness.agent
    def work(run: Run, task: str) -> str:
        run.checkpoint("half way")
        return "done"

    interfere(file, "UPDATE checkpoint SET step = 9 WHERE version = new.version")
    with harness:
        with pytest.raises(IntegrityError, match="did not come back"):
            harness.run(work, "go")
        leave_alone(file)
        [run] = harness.runs()
        result = harness.resume(run.run_id)
        assert (result.status, result.output) == ("COMPLETED", "done")
        assert harness.doctor().sound
