"""Opening a store on PostgreSQL: by four processes at once, without rights, with a wrong address."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jumar import Harness, Run, errors
from jumar.core.states import Control
from jumar.stores.opening import open_store
from jumar.stores.postgres.address import parse
from jumar.stores.postgres.migrating import newest_schema
from jumar.stores.postgres.store import PostgresStore
from jumar.testing.conformance_scene import Scene
from jumar.testing.tcp_proxy import TcpProxy
from tests.concurrency.postgres_beside import SECONDS, beside, port_of, through

OPENING = """
import sys
from jumar.stores.opening import open_store
print("ready", flush=True)
sys.stdin.read()
store = open_store(sys.argv[1])
print(*store.migrated, len(store.find("", 10)), flush=True)
store.close()
"""


def test_of_four_processes_that_open_a_fresh_store_at_once_one_makes_its_tables(postgres_address: str) -> None:
    command = [sys.executable, "-c", OPENING, postgres_address]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
    for worker in workers:  # they wait for the end of their input
        assert worker.stdin is not None
        worker.stdin.close()
        worker.stdin = None
    told = []
    for worker in workers:
        out, err = worker.communicate(timeout=SECONDS)
        assert worker.returncode == 0, err
        told.append(out.split())
    newest = str(newest_schema())
    assert sorted(told) == sorted([["0", newest, "0"], *[[newest, newest, "0"]] * 3])
    assert beside(postgres_address, "SELECT number FROM {schema}.schema_version") == [(newest_schema(),)]


def test_a_migration_that_is_cut_off_leaves_nothing_and_is_made_anew(postgres_address: str) -> None:
    with TcpProxy(port_of(postgres_address)) as proxy:
        cut = proxy.cut(b"INSERT INTO " + parse(postgres_address).schema.encode() + b".schema_version")
        store = open_store(through(postgres_address, proxy.port))
        assert store.migrated == (0, newest_schema())  # type: ignore[attr-defined]
        store.close()
        cut.wait()
    assert beside(postgres_address, "SELECT count(*) FROM {schema}.schema_version") == [(1,)]


def test_a_schema_of_another_program_is_left_alone(postgres_address: str) -> None:
    beside(postgres_address, "CREATE SCHEMA {schema} CREATE TABLE customer (name text)")
    with pytest.raises(errors.SchemaMismatch, match=r"belongs to another program: it holds customer") as caught:
        open_store(postgres_address)
    assert "?schema=NAME" in caught.value.hint
    assert beside(
        postgres_address, "SELECT relname FROM pg_class WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'"
    ) == [("customer",)]


def test_a_schema_that_is_empty_is_taken(postgres_address: str) -> None:
    beside(postgres_address, "CREATE SCHEMA {schema}")
    store = open_store(postgres_address)
    assert store.find("", 1) == []
    store.close()


def test_a_store_of_a_newer_version_is_left_alone(postgres_address: str) -> None:
    open_store(postgres_address).close()
    beside(postgres_address, "UPDATE {schema}.schema_version SET number = %s", newest_schema() + 1)
    with pytest.raises(errors.SchemaMismatch, match=f"has schema {newest_schema() + 1}; this version of Jumar knows"):
        open_store(postgres_address)


def test_tables_that_are_gone_are_told_of(postgres_address: str) -> None:
    store = open_store(postgres_address)
    beside(postgres_address, "DROP TABLE {schema}.request")
    with pytest.raises(errors.SchemaMismatch, match="not what they should be") as caught:
        store.open_requests(1)
    assert "store migrate" in caught.value.hint
    store.close()


@contextmanager
def role(address: str) -> Iterator[str]:
    """The address with a role that has no rights, which is dropped at the end."""
    place = parse(address)
    name = f"{place.schema}_role"
    beside(address, f"CREATE ROLE {name} LOGIN")
    try:
        yield address.replace("postgres@", f"{name}:secret@", 1)
    finally:
        beside(address, f"DROP OWNED BY {name}")
        beside(address, f"DROP ROLE {name}")


def test_a_role_that_may_not_make_the_tables_is_told_who_does(postgres_address: str) -> None:
    with role(postgres_address) as limited:
        with pytest.raises(errors.StoreReadOnly, match="may not make or change the schema") as caught:
            open_store(limited)
        assert "GRANT" in str(caught.value).upper() and "jumar store migrate" in caught.value.hint
        assert "secret" not in str(caught.value) and ":***@" in str(caught.value)


class UntilItWarns(logging.Handler):
    """Hears what is logged, and stops whoever is to be stopped at the first warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.stop, self.said = threading.Event(), list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        self.stop.set()


def test_a_worker_whose_role_may_only_read_says_which_rights_it_lacks(postgres_address: str) -> None:
    heard = UntilItWarns()
    with role(postgres_address) as limited:
        harness = Harness(postgres_address)
        harness.agent(name="idle")(lambda run, task: None)
        harness.start("idle", 1)
        harness.close()
        name = parse(limited).schema + "_role"
        beside(
            postgres_address,
            f"GRANT USAGE ON SCHEMA {{schema}} TO {name}; GRANT SELECT ON ALL TABLES IN SCHEMA {{schema}} TO {name}",
        )
        logging.getLogger("jumar").addHandler(heard)
        try:
            with harness.override(store=limited):
                report = harness.work(stop=heard.stop)
        finally:
            logging.getLogger("jumar").removeHandler(heard)
    assert report.taken_up == 0
    (said,) = heard.said
    assert "permission denied" in said and "USAGE on the schema, SELECT, INSERT" in said and "secret" not in said


def test_a_role_with_the_rights_that_it_is_told_of_needs_no_more(postgres_address: str) -> None:
    open_store(postgres_address).close()
    with role(postgres_address) as limited:
        name = parse(limited).schema + "_role"
        beside(
            postgres_address,
            f"GRANT USAGE ON SCHEMA {{schema}} TO {name};"
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {{schema}} TO {name};"
            f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {{schema}} TO {name}",
        )
        with Harness(limited) as harness:

            @harness.agent
            def double(run: Run, number: int) -> int:
                return run.value("double", lambda: number * 2)

            assert harness.run(double, 4).unwrap() == 8


def test_a_role_that_only_reads_reads_and_is_told_that_it_may_not_write(postgres_address: str) -> None:
    scene = Scene(open_store(postgres_address))
    run = scene.queued()
    with role(postgres_address) as limited:
        name = parse(limited).schema + "_role"
        beside(
            postgres_address,
            f"GRANT USAGE ON SCHEMA {{schema}} TO {name}; GRANT SELECT ON ALL TABLES IN SCHEMA {{schema}} TO {name}",
        )
        reader = open_store(limited)
        assert reader.run(run.run_id) == run
        (answer,) = reader.write([scene.order(run, Control.PAUSE)])
        assert isinstance(answer, errors.StoreReadOnly)
        assert "secret" not in str(answer)
        reader.close()
    scene.store.close()


def test_where_nobody_listens_the_wait_is_over_when_the_address_says(postgres_address: str) -> None:
    with TcpProxy(1) as nobody:
        port = nobody.port
    with pytest.raises(errors.StoreUnavailable, match="cannot be reached") as caught:
        open_store(f"postgresql://me:secret@127.0.0.1:{port}/postgres?connect_timeout=1")
    assert "secret" not in str(caught.value) and f"me:***@127.0.0.1:{port}" in caught.value.what


def test_what_waiting_does_not_mend_is_told_at_once(postgres_address: str) -> None:
    address = postgres_address.replace("/postgres?", "/nothing_here?") + "&connect_timeout=600"
    with pytest.raises(errors.StoreUnavailable, match="refused the connection") as caught:
        open_store(address)
    assert "nothing_here" in caught.value.what


def test_the_server_misses_a_client_that_vanished_long_before_two_hours_are_over(postgres_address: str) -> None:
    store = PostgresStore(f"{postgres_address}&options=-c%20work_mem%3D5MB")
    with store.connected() as connection:
        for setting, expected in (("tcp_keepalives_idle", "10"), ("tcp_keepalives_count", "3"), ("work_mem", "5MB")):
            assert connection.execute(f"SHOW {setting}").fetchone() == (expected,)
    store.close()


def test_an_address_that_cannot_be_read_does_not_tell_its_password() -> None:
    for address in (
        "postgresql://me:sec/ret@host:1/x",
        "postgresql://me:secret@host/x?sslmod=1",
        "postgresql://me:%zz@host",
        "postgresql://me:pass@word@host/x",
    ):
        with pytest.raises(errors.UsageError, match="cannot be read as the address") as caught:
            open_store(address)
        shown = str(caught.value)
        assert not any(part in shown for part in ("sec", "ret@", "%zz", "pass@", "word@"))
        assert caught.value.__cause__ is None


def test_a_role_whose_commits_are_answered_before_they_are_on_disk_is_refused(postgres_address: str) -> None:
    open_store(postgres_address).close()
    with role(postgres_address) as limited:
        place = parse(postgres_address)
        name = f"{place.schema}_role"
        beside(postgres_address, f"GRANT USAGE ON SCHEMA {place.schema} TO {name}")
        beside(postgres_address, f"GRANT SELECT ON ALL TABLES IN SCHEMA {place.schema} TO {name}")
        beside(postgres_address, f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {place.schema} TO {name}")
        open_store(limited).close()
        beside(postgres_address, f"ALTER ROLE {name} SET synchronous_commit = off")
        with pytest.raises(errors.StoreUnavailable, match="synchronous_commit = off") as caught:
            open_store(limited)
        assert "ALTER ROLE" in caught.value.hint


@pytest.mark.parametrize("word", ["order", "user"])
def test_a_word_of_sql_is_no_name_of_a_schema(postgres_address: str, word: str) -> None:
    with pytest.raises(errors.UsageError, match=f"schema={word} cannot read") as refused:
        open_store(postgres_address.replace(parse(postgres_address).schema, word))
    assert "give it another name" in str(refused.value)
    assert not beside(postgres_address, "SELECT 1 FROM pg_namespace WHERE nspname = %s", word)
