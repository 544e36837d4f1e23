"""Real worker processes on one database: told to stop, killed, beside each other; and runs that kill them."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_helpers import SECONDS
from tests.integration.worker_app import Yard


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    made = Yard(tmp_path)
    yield made
    made.end()


# --- Told to stop. ---


def test_a_signal_in_the_middle_of_a_call_hands_the_run_over_and_another_worker_finishes_it(yard: Yard) -> None:
    run_id = yard.begin("holds_and_pays", 10)
    first = yard.worker("--grace", "0")
    yard.await_file("paying")
    first.tell(signal.SIGTERM)
    first.hear("handing-over", under_way=1)
    yard.go()
    first.hear("left", run_id=run_id, status="QUEUED")
    assert first.ends() == (0, "")
    run = yard.view(run_id)
    assert (run.run.status, run.run.owner) == ("QUEUED", None)
    assert [(call.call_id, call.state) for call in run.calls] == [("hold_and_pay.1", "SUCCEEDED")]
    second = yard.worker()
    assert second.hear("left", run_id=run_id, status="COMPLETED")["output"] == [10, 11]
    assert [line.tool for line in yard.witnessed()] == ["pay 10", "pay 11"]
    second.tell(signal.SIGTERM)
    assert second.ends() == (0, "")


@pytest.mark.sweep
def test_within_the_grace_a_run_ends_in_its_worker(yard: Yard) -> None:
    run_id = yard.begin("holds_and_pays", 10)
    worker = yard.worker("--grace", str(SECONDS))
    yard.await_file("paying")
    worker.tell(signal.SIGINT)  # as Ctrl-C does
    worker.hear("stopping", under_way=1)
    late = yard.begin("pays", 1)
    yard.go()
    worker.hear("left", run_id=run_id, status="COMPLETED")
    assert worker.hear("ended")["left"] == {"COMPLETED": 1}
    assert worker.ends() == (0, "")
    assert yard.view(late).run.status == "QUEUED"


def test_a_second_signal_ends_it_at_once_and_the_run_is_taken_over_when_its_lease_has_run_out(yard: Yard) -> None:
    run_id = yard.begin("orders", "disk")
    first = yard.worker("--grace", str(SECONDS))
    yard.await_file("ordering")
    first.tell(signal.SIGTERM)
    first.hear("stopping")
    first.tell(signal.SIGTERM)
    assert first.hear("ended")["abandoned"] == [run_id]
    code, said = first.ends()
    assert code == 143
    assert "terminated while 1 run was under way" in said
    assert yard.view(run_id).run.status == "RUNNING"
    yard.go()
    second = yard.worker()
    assert second.hear("left", run_id=run_id, status="COMPLETED")["output"] == "disk"
    assert second.hear("taken-up", run_id=run_id)["crashes"] == 1
    assert [(line.what, line.tool) for line in yard.witnessed()] == [("applied", "disk"), ("repeated", "disk")]


def test_a_worker_that_was_killed_has_its_runs_taken_over(yard: Yard) -> None:
    run_id = yard.begin("orders", "disk")
    first = yard.worker()
    yard.await_file("ordering")
    first.kill()
    second = yard.worker()
    second.hear("taken-up", run_id=run_id)
    yard.go()
    assert second.hear("left", run_id=run_id, status="COMPLETED")["output"] == "disk"
    assert [(line.what, line.tool) for line in yard.witnessed()] == [("applied", "disk"), ("repeated", "disk")]
    assert len({line.by for line in yard.witnessed()}) == 2


# --- Beside each other. ---


def test_two_workers_share_thirty_runs_and_none_is_run_twice(yard: Yard) -> None:
    workers = [yard.worker("--concurrency", "3"), yard.worker("--concurrency", "3")]
    runs = yard.begin_many("pays", list(range(30)))
    workers.append(yard.worker("--once"))
    assert workers[-1].hear("ended")["not_driven"] == 0
    assert workers[-1].ends() == (0, "")
    for worker in workers[:2]:
        worker.tell(signal.SIGTERM)
        worker.hear("ended")
        assert worker.ends() == (0, "")
    left = [told["run_id"] for worker in workers for told in worker.heard if told["event"] == "left"]
    assert Counter(left) == Counter(runs)
    assert Counter(line.tool for line in yard.witnessed()) == Counter(f"pay {cents}" for cents in range(30))
    assert {(yard.view(run_id).run.status, yard.view(run_id).run.epoch) for run_id in runs} == {("COMPLETED", 1)}


def test_a_worker_that_starts_while_somebody_drives_a_run_leaves_that_run_alone(yard: Yard) -> None:
    driver = yard.start("run", "yard:harness:holds_and_pays", "--input", "10", "--json")
    yard.await_file("paying")
    worker = yard.worker()
    other = yard.begin("pays", 1)
    worker.hear("left", run_id=other, status="COMPLETED")
    yard.go()
    out, _ = driver.communicate(timeout=SECONDS)
    result = json.loads(out)
    assert (driver.returncode, result["status"]) == (0, "COMPLETED")
    worker.tell(signal.SIGTERM)
    assert worker.ends() == (0, "")
    assert {told["run_id"] for told in worker.heard if "run_id" in told} == {other}
    assert yard.view(result["run_id"]).run.epoch == 1
    assert Counter(line.tool for line in yard.witnessed()) == {"pay 10": 1, "pay 11": 1, "pay 1": 1}


def test_a_worker_is_woken_by_what_another_process_starts(yard: Yard) -> None:
    worker = yard.worker("--poll", "3000")
    run_id = yard.begin("pays", 3)
    assert worker.hear("left", run_id=run_id, status="COMPLETED")["output"] == 3
    asked = yard.begin("asks")
    worker.hear("left", run_id=asked, status="WAITING")
    assert yard.here("answer", asked, "ask.1", '"yes"').code == 0
    assert worker.hear("left", run_id=asked, status="COMPLETED")["output"] == "yes"


# --- Runs that kill their workers. ---


def _die(yard: Yard, times: int, *words: str) -> None:
    for _ in range(times):
        code, _ = yard.worker(*words).ends()
        assert code == 7


def test_a_run_that_kills_its_process_again_and_again_is_given_up_and_goes_on_when_a_person_resumes_it(
    yard: Yard,
) -> None:
    run_id = yard.begin("kills")
    _die(yard, 2, "--max-crashes", "2")
    worker = yard.worker("--max-crashes", "2")
    told = worker.hear("left", run_id=run_id, status="FAILED")
    assert told["error_type"] == "WorkerCrashed"
    assert "2 times without recording anything new, after call pay.1" in told["error_message"]
    assert "then resume the run" in told["error_message"]
    other = yard.begin("pays", 3)
    worker.hear("left", run_id=other, status="COMPLETED")
    worker.tell(signal.SIGTERM)
    assert worker.ends()[0] == 0
    assert [line.tool for line in yard.witnessed()] == ["pay 1", "kills", "kills", "pay 3"], "it was not tried again"
    shown = yard.here("show", run_id)
    assert "WorkerCrashed" in shown.out and f"jumar resume {run_id[-8:]}" in shown.out
    assert "os._exit). Then resume it:" in " ".join(shown.out.split()), "it says once what to do"
    (yard.folder / "mended").touch()
    done = yard.here("resume", run_id, "--json")
    assert (done.code, done.json["output"]) == (0, "alive")
    assert [line.tool for line in yard.witnessed()] == ["pay 1", "kills", "kills", "pay 3", "kills"]


@pytest.mark.sweep
def test_a_run_that_is_given_up_in_an_external_call_asks_a_person_whether_it_happened(yard: Yard) -> None:
    run_id = yard.begin("kills_in_a_call")
    _die(yard, 1, "--max-crashes", "1")
    worker = yard.worker("--max-crashes", "1")
    told = worker.hear("left", run_id=run_id, status="FAILED")
    assert "once without recording anything new, the last time in call deadly.1" in told["error_message"]
    run = yard.view(run_id)
    assert [(asked.call_id, asked.kind) for asked in run.waiting_on] == [("deadly.1", "resolve")]
    assert [(call.call_id, call.state) for call in run.calls] == [("deadly.1", "UNCERTAIN")]
    assert yard.here("resolve", run_id, "deadly.1", "--happened", "5").code == 0
    assert yard.view(run_id).run.status == "FAILED", "nobody but a person takes it up again"
    done = yard.here("resume", run_id, "--json")
    assert (done.code, done.json["output"]) == (0, 5)
    assert [line.what for line in yard.witnessed()] == ["died"]


@pytest.mark.sweep
def test_after_a_resume_by_hand_the_count_begins_anew(yard: Yard) -> None:
    run_id = yard.begin("kills")
    _die(yard, 1, "--max-crashes", "1")
    given_up = yard.worker("--max-crashes", "1")
    given_up.hear("left", run_id=run_id, status="FAILED")
    given_up.kill()
    assert yard.view(run_id).run.status == "FAILED"
    again = yard.jumar("resume", run_id)
    assert again.code == 7, "it killed the process that resumed it"
    assert yard.crashes(run_id) == 0
    _die(yard, 1, "--max-crashes", "2")
    assert (yard.crashes(run_id), yard.view(run_id).run.status) == (1, "RUNNING")
