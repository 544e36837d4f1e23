"""Databases of older schemas, as their releases wrote them: they open, keep what they have, and their runs go on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from jumar import Happened, Harness, Run
from jumar.core.records import RunRecord
from jumar.core.states import CallState, Status
from jumar.core.store import RunFilter, Store
from jumar.errors import RunEnded
from jumar.stores.opening import open_store
from jumar.stores.sqlite.connection import newest_schema
from jumar.testing.conformance_scene import Scene

GOLDEN = Path(__file__).parent / "golden"


def run_of(status: Status) -> str:
    """The run of this status in a golden database."""
    return f"01990000-0000-7000-8000-{status.value:012}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "runs.db"
    connection = sqlite3.connect(file)
    connection.executescript((GOLDEN / "schema_1.sql").read_text("utf-8"))
    connection.close()
    return file


def opened(file: Path) -> Store:
    return open_store(f"sqlite:///{file}")


class Repairing:
    """The agent whose runs are in the golden databases; `sent` tells what it did in this process."""

    def __init__(self, file: Path) -> None:
        self.harness = Harness(f"sqlite:///{file}", lease_ttl=2.0)
        self.sent: list[str] = []

        @self.harness.tool(effect="read")
        def look(task: str) -> str:
            self.sent.append("look")
            return "hits of " + task

        @self.harness.tool(effect="external")
        def pay(found: str, cents: int) -> str:
            self.sent.append("pay")
            return f"paid {cents} for {found}"

        @self.harness.agent(tools=[look, pay])
        def repair(run: Run, task: str) -> str:
            found = run.call(look, task)
            with run.step("pay"):
                run.checkpoint("before paying", refs=["claim:c-17"])
                return run.call(pay, found, 700)


def test_the_golden_database_has_schema_1_and_a_run_of_every_status(file: Path) -> None:
    connection = sqlite3.connect(file)
    number = connection.execute("PRAGMA user_version").fetchone()[0]
    statuses = connection.execute("SELECT status FROM run ORDER BY status").fetchall()
    connection.close()
    assert number == 1
    assert [status for (status,) in statuses] == list(Status)


def test_a_file_of_schema_1_is_brought_up_to_date_and_found_sound(file: Path) -> None:
    store = opened(file)
    assert store.migrated == (1, newest_schema())  # type: ignore[attr-defined]
    assert store.inspect().findings == ()
    store.close()


def test_its_rows_are_whole_and_have_nothing_of_what_came_later(file: Path) -> None:
    store = opened(file)
    runs: list[RunRecord] = store.runs(RunFilter())
    assert [run.status for run in runs] == sorted(Status, reverse=True)
    assert {run.failed_calls for run in runs} == {()}
    calls = store.calls(next(run.run_no for run in runs if run.status is Status.WAITING))
    assert [(record.call_id, record.state) for record in calls] == [
        ("look.1", CallState.SUCCEEDED),
        ("pay.checkpoint.1", CallState.SUCCEEDED),
        ("pay.pay.1", CallState.UNCERTAIN),
    ]
    assert {(record.identity, record.identity_scope) for record in calls} == {(None, None)}
    [(run_id, request)] = store.open_requests(10)
    assert (run_id, request.call_id, request.expires_at) == (run_of(Status.WAITING), "pay.pay.1", None)
    assert store.due(0, 10) == [run_of(Status.QUEUED), run_of(Status.RUNNING)]
    store.close()


def test_its_runs_take_names_orders_and_claims_as_new_ones_do(file: Path) -> None:
    store = opened(file)
    scene = Scene(store)
    run = scene.claimed(scene.claim(run_of(Status.PAUSED))).run
    assert scene.ack(scene.starting(run, "pay:7")).taken == ()
    assert scene.holder(run, "pay:7") == (run.run_id, 1)
    store.close()


@pytest.mark.parametrize(
    ("status", "sent"),
    [(Status.QUEUED, ["look", "pay"]), (Status.PAUSED, ["look", "pay"]), (Status.FAILED, [])],
    ids=lambda value: value.label if isinstance(value, Status) else "",
)
def test_its_runs_that_can_go_on_go_on_from_what_they_recorded(file: Path, status: Status, sent: list[str]) -> None:
    repairing = Repairing(file)
    result = repairing.harness.resume(run_of(status))
    repairing.harness.close()
    assert (result.status, result.output) == ("COMPLETED", f"paid 700 for hits of {status.label}")
    assert repairing.sent == sent


@pytest.mark.parametrize("status", [Status.RUNNING, Status.WAITING], ids=lambda status: status.label)
def test_its_runs_that_were_cut_off_while_paying_ask_and_do_not_pay_again(file: Path, status: Status) -> None:
    repairing = Repairing(file)
    harness, run_id = repairing.harness, run_of(status)
    if status is Status.RUNNING:
        assert harness.resume(run_id).status == "WAITING"
    harness.resolve(run_id, "pay.pay.1", Happened("paid 700 after all"))
    result = harness.resume(run_id)
    harness.close()
    assert (result.status, result.output) == ("COMPLETED", "paid 700 after all")
    assert repairing.sent == []


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED], ids=lambda status: status.label)
def test_its_finished_runs_stay_finished(file: Path, status: Status) -> None:
    repairing = Repairing(file)
    with pytest.raises(RunEnded):
        repairing.harness.resume(run_of(status))
    repairing.harness.close()
    assert repairing.sent == []
