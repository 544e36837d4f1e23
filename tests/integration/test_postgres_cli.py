"""The command line on a store in PostgreSQL: every command that looks, the store's own, and what addresses show."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from jumar.stores.postgres.address import parse
from jumar.stores.postgres.migrating import newest_schema
from tests.integration.cli_helpers import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def address(postgres_address: str) -> str:
    """With a password, which the server does not ask for, and nobody is to see."""
    return postgres_address.replace("postgres@", "postgres:s3cr3t@", 1)


def words(text: str) -> str:
    return " ".join(text.split())


def do(address: str, statement: str) -> None:
    place = parse(address)
    with psycopg.connect(place.uri, autocommit=True) as connection:
        connection.execute(statement.replace("{schema}", place.schema).encode())


def test_a_run_is_made_looked_at_and_gone_on_with(site: Site, address: str) -> None:
    done = site.here("run", "site_app:harness:pays", "--store", address)
    assert done.code == 3, done.err
    (run,) = site.here("runs", "--store", address, "--json").json
    assert run["status"] == "WAITING"
    app = ("--app", "site_app:harness", "--store", address)
    told = [
        done,
        site.here("requests", "--store", address),
        site.here("resolve", "last", "pay.1", "--happened", "1200", *app),
    ]
    told += [site.here(command, "last", "--store", address) for command in ("show", "trace", "brief")]
    told.append(site.here("resume", "last", *app))
    assert [each.code for each in told] == [3, 0, 0, 0, 0, 0, 0], told[-1].err
    text = "".join(each.out + each.err for each in told)
    assert run["run_id"][-8:] in text
    assert "s3cr3t" not in text
    assert not (site.folder / "runs.db").exists(), "the app's own store is not touched"


def test_a_finished_run_is_told_of_as_from_any_store(site: Site, address: str) -> None:
    done = site.here("run", "site_app:harness:fine", "--store", address, "--json")
    assert done.code == 0, done.err
    run_id = done.json["run_id"]
    named = {"JUMAR_STORE": address}
    assert [run["run_id"] for run in site.here("runs", "--json", **named).json] == [run_id]
    assert site.here("show", run_id[-6:], "--json", **named).json["run"]["status"] == "COMPLETED"
    assert site.here("requests", "--json", **named).json == []
    assert site.here("trace", "last", "--json", **named).code == 0


def test_migrate_makes_the_tables_and_says_so_once(site: Site, address: str) -> None:
    first = site.here("store", "migrate", "--store", address)
    assert first.code == 0, first.err
    assert f"0 -> {newest_schema()}" in first.out and "postgres:***@" in first.out
    again = site.here("store", "migrate", "--json", "--store", address)
    assert (again.json["before"], again.json["after"]) == (newest_schema(), newest_schema())
    assert "s3cr3t" not in first.out + again.out


def test_looking_makes_no_tables(site: Site, address: str) -> None:
    done = site.here("runs", "--store", address)
    assert done.code == 2
    assert "there is no store at postgresql://postgres:***@" in words(done.err)
    with psycopg.connect(parse(address).uri) as connection:
        assert connection.execute("SELECT to_regnamespace(%s)", (parse(address).schema,)).fetchone() == (None,)


def test_the_doctor_finds_what_was_damaged_in_the_database(site: Site, address: str) -> None:
    run_id = site.here("run", "site_app:harness:fine", "--store", address, "--json").json["run_id"]
    sound = site.here("doctor", "--store", address)
    assert sound.code == 0, sound.out + sound.err
    assert f"schema {newest_schema()}" in words(sound.out) and "nothing wrong" in sound.out
    do(address, "UPDATE {schema}.call SET result = '\\x00' WHERE seq = 1")
    do(address, "UPDATE {schema}.artifact SET data = '\\x00'")
    do(address, "INSERT INTO {schema}.hold VALUES ('/srv/site', 'page', 999, 1)")
    do(
        address,
        "INSERT INTO {schema}.identity (scope_run, key, run_no, call_seq, args_digest) VALUES (0, 'k', 1, 99, '')",
    )
    damaged = site.here("doctor", "--store", address, "--json")
    assert damaged.code == 5
    found = {(each["run_id"], each["where"].split(" ")[0], each["what"]) for each in damaged.json["findings"]}
    assert (run_id, "call", "does not agree with its checksum") in found
    assert (run_id, "artifact", "does not agree with its digest") in found
    assert (None, "path", "is held by run number 999, which is not there") in found
    assert any(where == "name" for _, where, _ in found)
    assert "s3cr3t" not in damaged.out


def test_a_server_that_is_not_there_is_told_of_without_the_password(site: Site) -> None:
    with socket.socket() as nobody:  # bound, and not listened on
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        done = site.here("runs", "--store", f"postgresql://me:s3cr3t@127.0.0.1:{port}/x?connect_timeout=1")
    assert done.code == 4
    assert f"postgresql://me:***@127.0.0.1:{port}/x" in words(done.err) and "cannot be reached" in words(done.err)
    assert "s3cr3t" not in done.err


def test_two_stores_that_differ_are_told_apart_without_their_passwords(site: Site, address: str) -> None:
    site.here("run", "site_app:harness:fine")
    done = site.here("runs", "--app", "site_app:harness", JUMAR_STORE=address)
    assert "JUMAR_STORE (postgresql://postgres:***@" in words(done.err)
    assert "s3cr3t" not in done.err


LACKING = """
import sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")

sys.meta_path.insert(0, Lacking())
from jumar.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_where_psycopg_is_missing_the_extra_is_named(site: Site, address: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LACKING, "runs", "--store", address],
        cwd=site.folder,
        env=site.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    assert "pip install 'jumar[postgres]'" in words(done.stderr)
