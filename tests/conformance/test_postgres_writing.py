"""What a PostgreSQL store promises of its writing beyond what every store does: who is told, what an advance costs, and
that a checkpoint is as it was given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import psycopg
import pytest

from jumar.core.changes import Change, Renew
from jumar.core.records import CheckpointRecord, RunRecord
from jumar.core.states import CallState, Control, Level, Status
from jumar.core.store import Store
from jumar.errors import IntegrityError
from jumar.stores.postgres.address import parse
from jumar.stores.postgres.statements import statements
from jumar.stores.postgres.store import PostgresStore
from jumar.stores.postgres.writes import call_for
from jumar.testing.conformance_scene import AT, LONG, ROOT, Scene, answering, call
from tests.conformance import one_schema

Make: TypeAlias = Callable[[Scene], Change]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = one_schema.shared().store_of(tmp_path)
    yield store
    store.close()


@pytest.fixture
def scene(store: Store) -> Scene:
    return Scene(store)


# --- Who waits for runs to become due is told, and advances that go on are quiet. ---


def renewal(run: RunRecord) -> Renew:
    return Renew(run_no=run.run_no, owner="ann", epoch=1, ttl_ms=LONG)


def asked(scene: Scene) -> RunRecord:
    return scene.asked(scene.call_in(scene.running(), CallState.AWAITING), "r-1")


def asked_and_waiting(scene: Scene) -> RunRecord:
    run = asked(scene)
    scene.ack(scene.leave(run, Status.WAITING))
    return scene.again(run)


TELLING: dict[str, Make] = {
    "a start": lambda scene: scene.create(),
    "a release": lambda scene: scene.leave(scene.running(), Status.QUEUED),
    "an answer to who waits": lambda scene: answering(asked_and_waiting(scene), "r-1"),
    "an order to who waits": lambda scene: scene.order(scene.waiting(), Control.CANCEL),
}
QUIET: dict[str, Make] = {
    "a start under a lease": lambda scene: scene.create(owner="ann"),
    "a read": lambda scene: scene.advance(scene.running(), calls=(call(1),)),
    "a write": lambda scene: scene.writing(scene.running(), b"conf"),
    "an end": lambda scene: scene.leave(scene.running(), Status.COMPLETED),
    "a wait": lambda scene: scene.leave(scene.running(), Status.WAITING, wake_at=AT + 50),
    "a renewal": lambda scene: renewal(scene.running()),
    "a claim": lambda scene: scene.claim(scene.waiting(), early=True),
    "an answer to who runs": lambda scene: answering(asked(scene), "r-1"),
    "an order to who runs": lambda scene: scene.order(scene.running(), Control.PAUSE),
}


def told(scene: Scene, make: Make) -> bool:
    """Whether a change gives a notice: of two listeners one hears it, if any, before a word of our own."""
    change = make(scene)
    channel = f"jumar_{one_schema.shared().name}"
    with psycopg.connect(parse(one_schema.shared().address).uri, autocommit=True) as listener:
        listener.execute(f"LISTEN {channel}".encode())
        scene.write(change)
        one_schema.shared().execute(f"NOTIFY {channel}, 'over'")
        first = next(listener.notifies(timeout=60))
    return first.payload != "over"


@pytest.mark.parametrize("name", TELLING)
def test_whatever_makes_a_run_due_tells_of_it(scene: Scene, name: str) -> None:
    assert told(scene, TELLING[name])


@pytest.mark.parametrize("name", QUIET)
def test_whatever_makes_no_run_due_is_quiet(scene: Scene, name: str) -> None:
    """Commits with a notice wait for each other all over the database."""
    assert not told(scene, QUIET[name])


# --- What an advance costs. ---

TOUCHED = ("version", "phase", "step", "lease_until", "updated_at")


def test_no_index_of_runs_has_what_an_advance_changes(scene: Scene) -> None:
    """So that the new version of a run's row lies beside the old one, and no index is written."""
    rows = one_schema.shared().execute(
        "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = '{schema}.run'::regclass"
    )
    indexes = [row[0] for row in rows]
    assert len(indexes) > 5
    assert [index for index in indexes for name in TOUCHED if re.search(rf"\b{name}\b", index)] == []


def test_an_advance_leaves_the_indexes_of_its_run_alone(scene: Scene) -> None:
    run = scene.running()
    sql = statements(one_schema.shared().name)
    with psycopg.connect(parse(one_schema.shared().address).uri, autocommit=True) as connection:
        counted = (
            "SELECT pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid)"
            f" FROM pg_class WHERE oid = '{one_schema.shared().name}.run'::regclass"
        )
        connection.execute("BEGIN")
        for version in range(5):
            lone = call_for(scene.advance(run, version=version, calls=(call(version + 1),)))
            connection.execute(sql[lone.name], lone.parameters)
        assert connection.execute(counted.encode()).fetchall() == [(5, 5)]
        connection.execute("ROLLBACK")


# --- Checkpoints are read back where they are written. ---

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
    "checksum": "decode(repeat('00', 32), 'hex')",
    "tree": "context",
    "environment": "NULL",
    "storage": "1",
}


@pytest.fixture
def meddle() -> Iterator[Callable[[str], None]]:
    """Have the database do something with every checkpoint that is written."""
    schema = one_schema.shared()

    def interfere(body: str) -> None:
        schema.execute(
            f"CREATE FUNCTION {{schema}}.meddling() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; END $$;"
            "CREATE TRIGGER meddling BEFORE INSERT ON {schema}.checkpoint"
            " FOR EACH ROW EXECUTE FUNCTION {schema}.meddling()"
        )

    yield interfere
    schema.execute("DROP FUNCTION {schema}.meddling() CASCADE")


def test_every_column_of_a_checkpoint_is_tried() -> None:
    rows = one_schema.shared().execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = '{schema}.checkpoint'::regclass AND attnum > 0"
    )
    assert {row[0] for row in rows} - {"run_no"} == set(WRONG)


@pytest.mark.parametrize("column", WRONG)
def test_a_checkpoint_that_does_not_come_back_as_it_was_given_undoes_its_advance(
    scene: Scene, meddle: Callable[[str], None], column: str
) -> None:
    run = scene.running()
    before = scene.everything(run)
    meddle(f"SELECT {WRONG[column]} INTO NEW.{column} FROM (SELECT NEW.*) AS given; RETURN NEW")
    with pytest.raises(IntegrityError, match="did not come back"):
        scene.write(scene.advance(run, calls=(call(1),), after=KEPT))
    assert scene.everything(run) == before


def test_a_checkpoint_that_is_not_there_afterwards_undoes_its_advance(
    scene: Scene, meddle: Callable[[str], None]
) -> None:
    run = scene.running()
    meddle("RETURN NULL")
    with pytest.raises(IntegrityError, match="did not come back"):
        scene.write(scene.advance(run, after=KEPT))
    assert scene.again(run) == run


def test_only_the_change_with_the_lost_checkpoint_of_a_batch_fails(scene: Scene, meddle: Callable[[str], None]) -> None:
    first, second = scene.running(), scene.running()
    meddle("RETURN NULL")
    outcomes = scene.store.write([scene.advance(first, after=KEPT), scene.advance(second, calls=(call(1),))])
    assert isinstance(outcomes[0], IntegrityError)
    assert (scene.again(first).version, scene.again(second).version) == (0, 1)


# --- Transactions that may not see what others did meanwhile. ---


def test_paths_are_taken_where_the_database_isolates_transactions_more_by_itself(scene: Scene) -> None:
    run = scene.running()
    option = "-c%20default_transaction_isolation%3Dserializable"
    strict = PostgresStore(f"{one_schema.shared().address}&options={option}")
    assert strict.write([scene.writing(run, b"conf")]) == [scene.store.read_back(scene.writing(run, b"conf"))]
    assert strict.holds(ROOT, b"conf")
    strict.close()
