"""What the PostgreSQL store reads: by its indexes, past rows that somebody is taking, at one moment, on whose clock."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import jumar.stores.postgres
from jumar.core.states import CallState, Control, Status
from jumar.stores.opening import open_store
from jumar.stores.postgres import clock
from jumar.stores.postgres.address import parse
from jumar.stores.postgres.clock import ServerClock
from jumar.stores.postgres.statements import statements
from jumar.testing.conformance_scene import Scene, call, named
from jumar.testing.postgres_clock import MovedClock
from jumar.testing.tcp_proxy import TcpProxy

FOLDER = Path(jumar.stores.postgres.__file__).parent
NAMES = sorted(statements("s"))
_ONE_ROW = frozenset({"object_store"})  # all that its table has
# Names that the code puts together from parts.
_ASSEMBLED = re.compile(r"(runs|requests|forget)(_|$)|(blob|node|snapshot)_(every|get|missing)$")
_PLACE = re.compile(r"%(?:\((\w+)\))?[sb]")


@pytest.fixture
def scene(postgres_address: str) -> Iterator[Scene]:
    made = Scene(open_store(postgres_address))
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def tables() -> Iterator[tuple[psycopg.Connection[Any], str]]:
    """A schema that is only looked at, by one connection."""
    from jumar.testing.postgres import fresh_schema, server

    with fresh_schema(server()) as address:
        open_store(address).close()
        place = parse(address)
        with psycopg.connect(place.uri, autocommit=True) as connection:
            connection.execute("SET enable_seqscan = off")
            yield connection, place.schema


def numbered(text: str) -> str:
    """A statement with the server's own placeholders."""
    places: dict[str, str] = {}
    return _PLACE.sub(lambda found: places.setdefault(found[1] or f"-{len(places)}", f"${len(places) + 1}"), text)


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_fits_the_schema_and_looks_at_no_table_row_by_row(
    name: str, tables: tuple[psycopg.Connection[Any], str]
) -> None:
    connection, schema = tables
    text = numbered(statements(schema)[name])
    if not text.startswith(("SELECT", "WITH")):
        connection.pgconn.prepare(b"", text.encode())
        return
    plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN (GENERIC_PLAN) {text}".encode()))
    assert "Seq Scan" not in plan or name in _ONE_ROW, plan


@pytest.mark.parametrize("name", NAMES)
def test_every_statement_is_used(name: str) -> None:
    code = "".join(file.read_text() for file in [*FOLDER.glob("*.py"), FOLDER.parent / "inspection.py"])
    parts = (f'"{name}"', f"'{name}'")
    assert any(part in code for part in parts) or _ASSEMBLED.match(name)


def test_a_run_that_somebody_is_taking_is_passed_over_and_not_waited_for(scene: Scene, postgres_address: str) -> None:
    runs = [scene.queued() for _ in range(3)]
    place = parse(postgres_address)
    with psycopg.connect(place.uri) as taking:
        taking.execute(f"SELECT FROM {place.schema}.run WHERE run_no = {runs[1].run_no} FOR UPDATE".encode())
        assert scene.store.due(0, 10) == [runs[0].run_id, runs[2].run_id]
        assert scene.store.due(0, 10, [runs[1].agent]) == [runs[0].run_id, runs[2].run_id]
    assert scene.store.due(0, 10) == [run.run_id for run in runs]


def test_what_is_due_is_listed_by_why_and_by_age(scene: Scene) -> None:
    expired = scene.running(ttl_ms=0)
    scene.until_expired(expired)
    later, sooner = scene.waiting(wake_at=20), scene.waiting(wake_at=10)
    ordered = scene.waiting(wake_at=None)
    scene.ack(scene.order(ordered, Control.CANCEL))
    queued = scene.queued()
    found = [run.run_id for run in (ordered, sooner, later, expired, queued)]
    assert scene.store.due(20, 10) == found
    assert scene.store.due(20, 2) == found[:2]
    assert scene.store.due(20, 10, ["somebody-else"]) == []


def test_a_run_is_exported_as_it_stood_at_one_moment(scene: Scene, postgres_address: str) -> None:
    run = scene.running()
    port = int(parse(postgres_address).uri.rpartition(":")[2].partition("/")[0])
    with TcpProxy(port) as proxy:
        store = open_store(postgres_address.replace(f":{port}/", f":{proxy.port}/"))

        def go_on() -> None:
            ended = call(1, CallState.SUCCEEDED, result=b"1")
            scene.ack(scene.advance(run, calls=(ended,), artifacts=(named(b"late"),)))
            scene.ack(scene.leave(scene.again(run), Status.COMPLETED))

        proxy.meet(b".artifact WHERE run_no", go_on)
        exported = store.export(run.run_id)
        store.close()
    assert exported is not None
    assert exported.run == run and exported.calls == ()
    assert [kept.digest for kept in exported.artifacts] == [run.input_digest]
    assert scene.again(run).status is Status.COMPLETED


def test_the_lease_clock_is_the_servers_wherever_that_goes(scene: Scene, postgres_address: str) -> None:
    hour = 3_600_000
    before = scene.store.now().ms
    with MovedClock(postgres_address, stopped=False) as moved:
        moved.show(hour)
        run = scene.running()  # whose answer has the clock
        assert scene.store.now().ms >= before + hour
        assert run.lease_until >= before + hour
        moved.show(-hour)
        scene.ack(scene.order(run, Control.PAUSE))
        assert scene.store.now().ms < before


def test_the_servers_clock_is_never_thought_to_be_ahead_of_what_was_heard_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ms = 1_000_000
    here = [1_000 * ms]
    monkeypatch.setattr(clock, "lease_ns", lambda: here[0])
    estimated = ServerClock()
    assert not estimated.is_fresh
    here[0] = 1_040 * ms + 999_999
    estimated.learn(500_000)
    assert (estimated.ms(), estimated.is_fresh) == (500_000, True)
    here[0] += ms - 1
    assert estimated.ms() == 500_000
    here[0] += 1
    assert estimated.ms() == 500_001
    here[0] += 3_999 * ms
    assert (estimated.ms(), estimated.is_fresh) == (504_000, True)
    here[0] += 1_000 * ms
    assert (estimated.ms(), estimated.is_fresh) == (505_000, False)
