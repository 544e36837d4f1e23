"""A pooler between, through which every transaction of a store has another connection to the server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from jumar import Harness, Run
from jumar.stores.opening import open_store
from jumar.stores.postgres.address import parse
from jumar.testing.pooler import TransactionPooler
from jumar.testing.postgres import OTHER_SERVER, PostgresServer
from tests.concurrency.postgres_beside import SECONDS, counting, port_of, through


@pytest.fixture
def pooled_address(postgres_address: str) -> Iterator[str]:
    with TransactionPooler(port_of(postgres_address)) as pooler:
        yield through(postgres_address, pooler.port)
        assert pooler.transactions > 0


def test_runs_go_through_a_pooler_that_gives_every_transaction_another_connection(
    pooled_address: str, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "page").write_text("old")
    with Harness(pooled_address, workspace=tmp_path / "site") as harness:

        @harness.tool(effect="write", paths=["page"])
        def put(text: str) -> int:
            return (tmp_path / "site" / "page").write_text(text)

        @harness.tool(effect="external", approval="always", identity=lambda who: f"mail:{who}", identity_scope="store")
        def mail(who: str) -> str:
            return f"mailed {who}"

        @harness.agent(tools=[put, mail])
        def publish(run: Run, text: str) -> str:
            with run.step("write"):
                run.call(put, text)
            run.checkpoint("written")
            return run.call(mail, "ann")

        waiting = harness.run(publish, "new")
        (asked,) = harness.requests()
        harness.approve(waiting.run_id, asked.asked.call_id)
        assert harness.resume(waiting.run_id).unwrap() == "mailed ann"
        harness.rollback(waiting.run_id, to="written", force=True)
        fork = harness.fork(waiting.run_id, at=harness.show(waiting.run_id).checkpoints[0].version)
        assert {run.run_id for run in harness.runs()} == {waiting.run_id, fork}
        assert harness.doctor().sound


def test_many_threads_and_batches_go_through_a_pooler(pooled_address: str) -> None:
    with Harness(pooled_address) as harness:
        seen: list[int] = []
        agent = counting(harness, seen.append)
        results: list[Any] = []
        threads = [Thread(target=lambda: results.append(harness.run(agent, 4))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert [result.unwrap() for result in results] == [4] * 8
        assert sorted(seen) == sorted([*range(4)] * 8)


def test_where_a_pooler_swallows_notifications_whoever_waits_is_told_to_look(pooled_address: str) -> None:
    store = open_store(pooled_address)
    watch = store.watch()
    assert watch.wait(SECONDS), "long before so much time has passed"
    assert not watch._hears.is_set()  # type: ignore[attr-defined]
    watch.wake()
    assert watch.wait(0)
    watch.close()
    store.close()


def test_a_pooler_meets_no_setting_of_a_session(pooled_address: str, postgres_address: str) -> None:
    """Were anything set for a session, another's transactions would run under it."""
    with Harness(pooled_address) as harness:
        harness.run(counting(harness, lambda number: None), 3)
        harness.doctor()
    place = parse(pooled_address)
    with psycopg.connect(place.uri, autocommit=True, prepare_threshold=None) as connection:
        for _ in range(3):  # as many as it has connections
            for left in (
                "SELECT name FROM pg_settings WHERE source = 'session' AND name NOT IN ('application_name')",
                "SELECT name FROM pg_prepared_statements",
                "SELECT relname FROM pg_class WHERE pg_my_temp_schema() = relnamespace",
                "SELECT objid::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
                "SELECT name FROM pg_cursors",
            ):
                assert connection.execute(left).fetchall() == [], left


@pytest.mark.sweep
def test_the_whole_suite_of_stores_is_passed_through_a_pooler(postgres: PostgresServer) -> None:
    with TransactionPooler(port_of(postgres.address)) as pooler:
        suite = subprocess.run(
            [sys.executable, "-m", "pytest", "tests/conformance/test_stores.py", "-k", "TestPostgres", "-q", "-n0"],
            env={**os.environ, OTHER_SERVER: through(postgres.address, pooler.port)},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=250,
        )
        assert suite.returncode == 0, suite.stdout[-5000:]
        assert pooler.transactions > 1000
