"""Databases of older schemas, as their releases wrote them: they open, keep what they have, and their runs go on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from jumar import Happened, Harness, Run
from jumar.core.checksums import checkpoint_agrees
from jumar.core.records import RunRecord
from jumar.core.states import CallState, IdentityScope, Phase, Status, Storage
from jumar.core.store import RunFilter, Store
from jumar.database.queries import migrations
from jumar.errors import RunEnded
from jumar.stores.opening import open_store
from jumar.stores.sqlite.connection import newest_schema
from jumar.testing.conformance_scene import Scene, holding

GOLDEN = Path(__file__).parent / "golden"


def run_of(status: Status) -> str:
    """The run of this status in a golden database."""
    return f"01990000-0000-7000-8000-{status.value:012}"


def written_by(file: Path, schema: int) -> Path:
    """A database of this schema: that of schema 1, brought to the next ones by their own migrations alone."""
    connection = sqlite3.connect(file)
    connection.executescript((GOLDEN / "schema_1.sql").read_text("utf-8"))
    for number, text in migrations("jumar.stores.sqlite"):
        if 1 < number <= schema:
            connection.executescript(f"{text}; PRAGMA user_version = {number};")
    if schema >= 2:
        connection.executescript(SCHEMA_2)
    connection.close()
    return file


# What rows can hold since schema 2: the names of actions, an order with its note, the calls that a run failed with.
SCHEMA_2 = """
INSERT INTO identity (scope_run, key, run_no, call_seq, args_digest)
SELECT 0, 'pay:' || run_no, run_no, seq, args_digest FROM call WHERE tool = 'pay';
UPDATE call SET identity = 'pay:' || run_no, identity_scope = 1 WHERE tool = 'pay';
UPDATE run SET ordered_by = 'kim', order_note = 'enough' WHERE status = 3;
UPDATE run SET failed_calls = '3' WHERE status = 4;
UPDATE request SET expires_at = created_at + 60000;
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written_by(tmp_path / "runs.db", 1)


@pytest.fixture(params=[1, 2, 3], ids=["schema-1", "schema-2", "schema-3"])
def any_file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return written_by(tmp_path / "runs.db", request.param)


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
    assert store.due(0, 10) == [run_of(Status.RUNNING), run_of(Status.QUEUED)]
    store.close()


def test_a_file_of_schema_2_is_brought_up_to_date_and_keeps_what_schema_2_had(tmp_path: Path) -> None:
    store = opened(written_by(tmp_path / "runs.db", 2))
    assert store.migrated == (2, newest_schema())  # type: ignore[attr-defined]
    assert store.inspect().findings == ()
    runs = {run.status: run for run in store.runs(RunFilter())}
    assert (runs[Status.PAUSED].ordered_by, runs[Status.PAUSED].order_note) == ("kim", "enough")
    assert runs[Status.FAILED].failed_calls == (3,)
    done = runs[Status.COMPLETED]
    held = store.identity(IdentityScope.STORE, done.run_no, f"pay:{done.run_no}")
    assert held is not None
    assert (held.run_id, held.call_seq, held.undone) == (done.run_id, 3, 0)
    assert Scene(store).ack(Scene(store).starting(_claimed(store, Status.QUEUED), held.key)).taken == (1,)
    [(_, request)] = store.open_requests(9)
    assert request.expires_at == request.created_at + 60_000
    store.close()


def test_what_came_with_schema_3_is_empty_in_older_rows_and_their_checksums_hold(any_file: Path) -> None:
    store = opened(any_file)
    for run in store.runs(RunFilter()):
        assert (run.line, run.workspace, run.intent, run.origin, run.forked_from) == ((), None, None, None, None)
        calls, kept = store.calls(run.run_no), store.checkpoints(run.run_no)
        assert {(call.before, call.after, call.undone) for call in calls} <= {(None, None, 0)}
        assert {(point.tree, point.environment, point.storage) for point in kept} <= {(None, None, Storage.COLD)}
        assert all(map(checkpoint_agrees, kept))
        assert store.last_snapshot(run.run_no) is None
    assert store.holds("/srv/site", b"") == []
    store.close()


def test_nobody_has_crashed_under_older_rows_and_who_crashes_under_them_now_is_counted(any_file: Path) -> None:
    store = opened(any_file)
    assert {(run.crashes, run.crash_seq) for run in store.runs(RunFilter())} == {(0, 0)}
    scene = Scene(store)
    running = scene.named(run_of(Status.RUNNING))
    again = scene.claimed(scene.claim(running, ttl_ms=0)).run
    scene.until_expired(again)
    assert [again.crashes, scene.claimed(scene.claim(again)).run.crashes] == [1, 2]
    store.close()


def test_its_runs_hold_paths_and_are_rolled_back_and_forked_as_new_ones(any_file: Path) -> None:
    store = opened(any_file)
    scene = Scene(store)
    done = scene.named(run_of(Status.COMPLETED))
    change = scene.fork(done, 2, calls=(1, 2), checkpoints=(1, 2))
    scene.ack(change)
    fork = scene.named(change.run_id)
    assert [call.call_id for call in store.calls(fork.run_no)] == ["look.1", "pay.checkpoint.1"]
    assert fork.input_digest is not None
    assert store.artifact(fork.run_no, fork.input_digest) == b'"completed"'
    run = scene.rolling_back(done, holds=(holding(0, b"conf"),))
    assert scene.ack(scene.writing(_claimed(store, Status.QUEUED), b"conf/site.ini")).taken == (1,)
    scene.ack(scene.heading(run, 2, phase=Phase.IN_CODE))
    assert (scene.again(run).line, scene.holders()) == (((run.version + 1, 2),), [])
    store.close()


def _claimed(store: Store, status: Status) -> RunRecord:
    scene = Scene(store)
    return scene.claimed(scene.claim(run_of(status))).run


def test_its_runs_take_names_orders_and_claims_as_new_ones_do(any_file: Path) -> None:
    store = opened(any_file)
    scene = Scene(store)
    run = scene.claimed(scene.claim(run_of(Status.PAUSED))).run
    assert scene.ack(scene.starting(run, "pay:77")).taken == ()
    assert scene.holder(run, "pay:77") == (run.run_id, 1)
    store.close()


@pytest.mark.parametrize(
    ("status", "sent"),
    [(Status.QUEUED, ["look", "pay"]), (Status.PAUSED, ["look", "pay"]), (Status.FAILED, [])],
    ids=lambda value: value.label if isinstance(value, Status) else "",
)
def test_its_runs_that_can_go_on_go_on_from_what_they_recorded(any_file: Path, status: Status, sent: list[str]) -> None:
    repairing = Repairing(any_file)
    result = repairing.harness.resume(run_of(status))
    repairing.harness.close()
    assert (result.status, result.output) == ("COMPLETED", f"paid 700 for hits of {status.label}")
    assert repairing.sent == sent


@pytest.mark.parametrize("status", [Status.RUNNING, Status.WAITING], ids=lambda status: status.label)
def test_its_runs_that_were_cut_off_while_paying_ask_and_do_not_pay_again(any_file: Path, status: Status) -> None:
    repairing = Repairing(any_file)
    harness, run_id = repairing.harness, run_of(status)
    if status is Status.RUNNING:
        assert harness.resume(run_id).status == "WAITING"
    harness.resolve(run_id, "pay.pay.1", Happened("paid 700 after all"))
    result = harness.resume(run_id)
    harness.close()
    assert (result.status, result.output) == ("COMPLETED", "paid 700 after all")
    assert repairing.sent == []


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED], ids=lambda status: status.label)
def test_its_finished_runs_stay_finished(any_file: Path, status: Status) -> None:
    repairing = Repairing(any_file)
    with pytest.raises(RunEnded):
        repairing.harness.resume(run_of(status))
    repairing.harness.close()
    assert repairing.sent == []
