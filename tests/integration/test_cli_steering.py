"""Pausing and cancelling runs from the command line, whoever drives them."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.cli_desk import Desk, commands, refused
from tests.integration.cli_helpers import SECONDS, Terminal

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@contextmanager
def _driving(desk: Desk, agent: str) -> Iterator[subprocess.Popen[str]]:
    """A process that drives a run, in the middle of a call that ends when the test says `go`."""
    process = desk.start("run", f"desk:{agent}")
    try:
        desk.await_file("held")
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _ordering(desk: Desk, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command that waits until a run has obeyed."""
    process = desk.start(*words)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_run_that_nobody_drives_is_paused_at_once_and_goes_on_when_it_is_resumed(desk: Desk) -> None:
    run = desk.begin("sleeps", code=6)
    paused = desk.here("pause", run, "--by", "ana", "--note", "午休")
    assert paused.code == 0
    assert "status   PAUSED" in paused.out
    assert re.search(r"It is paused since .+ \(just now\), by ana: 午休\. It goes on when it is resumed\.", paused.out)
    assert commands(paused.out) == [f"jumar resume {run[-8:]}", f"jumar cancel {run[-8:]}"]
    assert desk.here("pause", run).code == 0, "it is paused already"
    shown = desk.here("show", run).out
    assert "── paused after" in shown
    assert "paused" in desk.here("runs").out
    resumed = desk.here("resume", run)
    assert resumed.code == 6, "it sleeps on"


def test_a_cancelled_run_is_over_for_every_command(desk: Desk) -> None:
    run = desk.begin("sleeps", code=6)
    assert desk.here("cancel", run, "--json").json == {
        "run_id": run,
        "status": "CANCELLED",
        "pending": None,
        "waiting_on": [],
        "next": [],
    }
    for words in (("cancel", run), ("pause", run), ("resume", run)):
        refused(desk.here(*words), "is cancelled", code=4)


def test_of_a_cancelled_run_what_may_have_happened_is_listed_with_the_commands_that_settle_it(desk: Desk) -> None:
    run = desk.begin("wires")
    done = desk.here("cancel", run)
    assert done.code == 0
    assert "status   CANCELLED" in done.out
    assert "did wire.1 happen?" in done.out
    assert len(commands(done.out, "resolve")) == 2
    assert commands(done.out, "resume") == []
    assert commands(desk.here("show", run).out, "resolve") == commands(done.out, "resolve")
    assert "did wire.1 happen?" in desk.here("runs").out
    assert [each["run_id"] for each in desk.here("requests", "--json").json] == [run]


def test_a_failed_run_cannot_be_paused_but_cancelled(desk: Desk) -> None:
    run = desk.begin("fails", code=1)
    refused(desk.here("pause", run), "is failed, so there is nothing to pause", code=4)
    assert desk.here("cancel", run, "--by", "ana", "--note", "enough").code == 0
    assert "status   CANCELLED  by ana: enough" in desk.here("show", run).out
    assert desk.view(run)["run"]["status"] == "CANCELLED"


def test_an_order_to_no_run_is_refused(desk: Desk) -> None:
    refused(desk.here("pause", "last", "--store", "sqlite:///none.db"), "there is no store at none.db")
    desk.begin("sleeps", code=6)
    refused(desk.here("cancel", "abcdef"), "no run's id ends in abcdef")
    refused(desk.here("pause", "last", "--by", "x" * 500), "by= is no text of at most")


def test_a_driven_run_obeys_once_its_call_has_settled_and_the_command_waits_for_that(desk: Desk) -> None:
    with _driving(desk, "harness:holds") as driver, _ordering(desk, "pause", "last", "--json") as ordering:
        assert ordering.stderr is not None
        told = ordering.stderr.readline()
        assert re.fullmatch(rf"waiting for [^ ]+/{driver.pid} to pause run [0-9a-f]{{8}}\n", told)
        desk.go()
        out, _ = ordering.communicate(timeout=SECONDS)
        assert ordering.returncode == 0, out
        assert '"PAUSED"' in out
        out, _ = driver.communicate(timeout=SECONDS)
        assert driver.returncode == 7
        assert "status   PAUSED" in out
    calls = desk.view("last")["calls"]
    assert [(call["tool"], call["state"]) for call in calls] == [("hold", "SUCCEEDED")], "nothing new was sent"


def test_with_no_wait_the_order_is_written_and_every_command_shows_it_as_pending(desk: Desk) -> None:
    with _driving(desk, "harness:holds") as driver:
        done = desk.here("pause", "last", "--no-wait")
        assert done.code == 0
        assert "RUNNING after" in done.out
        assert "to be paused" in done.out
        assert desk.here("pause", "last", "--no-wait", "--json").json["pending"] == "pause"
        shown = desk.here("show", "last").out
        assert "status   RUNNING  to be paused" in shown
        assert f"/{driver.pid} drives it, and stops once what it has in flight has settled" in shown
        assert commands(shown, "pause") == [f"jumar pause {desk.view('last')['run']['run_id'][-8:]}"]
        assert "to be paused; driven by" in desk.here("runs").out
        assert desk.here("cancel", "last", "--no-wait", "--json").json["pending"] == "cancel"
        assert "to be cancelled" in desk.here("show", "last").out
        desk.go()
        driver.communicate(timeout=SECONDS)
        assert driver.returncode == 7
    assert desk.view("last")["run"]["status"] == "CANCELLED"
    whats = [line["what"] for line in desk.here("trace", "last", "--json").json]
    assert whats.count("ordered") == 3
    assert whats[-1] == "cancelled"
    assert "ordered" in desk.here("trace", "last").out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_leaves_the_order_standing_and_says_so(desk: Desk, number: signal.Signals, code: int) -> None:
    with _driving(desk, "harness:holds") as driver, _ordering(desk, "cancel", "last") as ordering:
        desk.await_order("last")
        ordering.send_signal(number)
        out, err = ordering.communicate(timeout=SECONDS)
        assert ordering.returncode == code
        assert out == ""
        assert "The order stands: the run is to be cancelled" in err
        assert "`jumar cancel " in err
        desk.go()
        driver.communicate(timeout=SECONDS)
        assert driver.returncode == 7


def test_a_run_that_finishes_before_it_sees_the_order_is_completed_and_the_command_says_so(desk: Desk) -> None:
    with _driving(desk, "harness:ends_in_its_own_code") as driver, _ordering(desk, "cancel", "last") as ordering:
        desk.await_order("last")
        desk.go()
        out, _ = ordering.communicate(timeout=SECONDS)
        driver.communicate(timeout=SECONDS)
        assert driver.returncode == 0
    assert desk.view("last")["run"]["status"] == "COMPLETED"
    assert ordering.returncode == 4
    assert "It had finished before the order was seen, and is completed." in out


def test_a_run_whose_process_is_killed_is_cancelled_here_and_what_was_in_flight_is_asked_about(desk: Desk) -> None:
    with _driving(desk, "quick:holds_quick") as driver, _ordering(desk, "cancel", "last") as ordering:
        desk.await_order("last")
        driver.kill()
        out, err = ordering.communicate(timeout=SECONDS)
    assert ordering.returncode == 0, err
    assert "status   CANCELLED" in out
    assert "did hold.1 happen?" in out
    assert len(commands(out, "resolve")) == 2


def test_an_order_that_no_process_is_left_to_obey_is_shown_with_the_command_that_carries_it_out(desk: Desk) -> None:
    with _driving(desk, "harness:holds") as driver:
        assert desk.here("pause", "last", "--no-wait").code == 0
        driver.kill()
        driver.wait(SECONDS)
    desk.set("UPDATE run SET lease_until = 0")  # what time would do
    shown = desk.here("show", "last").out
    assert "its lease ran out. It was to be paused" in shown
    (command,) = commands(shown, "pause")
    assert "to be paused; its process has gone" in desk.here("runs").out
    done = desk.here(*command.split()[1:])
    assert done.code == 0
    assert "status   PAUSED" in done.out
    assert "did hold.1 happen?" in done.out
    assert desk.here("resume", "last").code == 3


def test_on_a_terminal_the_wait_is_a_line_that_moves_and_vanishes(desk: Desk) -> None:
    with _driving(desk, "harness:holds") as driver:
        terminal = Terminal(desk, 80, "pause", "last")
        try:
            seen = terminal.read_until(": 3 s")
            assert re.search(rf"waiting for [^ ]+/{driver.pid} to pause run [0-9a-f]{{8}}: ", seen)
            desk.go()
            rest = terminal.end().removeprefix(seen)
        finally:
            terminal.process.kill()
        assert "\x1b[2K" in rest
        assert "PAUSED" in _CODES.sub("", rest)
        assert "\x1b[1;35mPAUSED" in rest, "as paused runs are coloured everywhere"
        driver.communicate(timeout=SECONDS)
