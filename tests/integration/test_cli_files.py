"""Runs that wait for files which somebody else is writing, as the command line tells of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.cli_desk import commands, refused
from tests.integration.cli_files import Office
from tests.integration.cli_helpers import SECONDS, Done

QUICK = ("--app", "office:quick")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


@contextmanager
def _scribbling(office: Office) -> Iterator[None]:
    """A process that is in the middle of a write, and is killed at the end."""
    process = office.start("run", "office:quick:scribbles")
    try:
        office.await_file("held")
        yield
    finally:
        process.kill()
        process.communicate()


def _resumed(office: Office, run: str, wanted: Callable[[Done], bool]) -> Done:
    """Resume a run until its time has come and it has got so far."""
    deadline = time.monotonic() + SECONDS
    while True:
        done = office.here("resume", run, *QUICK)
        if wanted(done):
            return done
        assert time.monotonic() < deadline, done.out + done.err


def test_what_waits_for_files_says_so_and_whose_they_are_and_goes_on_once_they_are_free(office: Office) -> None:
    with _scribbling(office):
        waits = office.here("run", "office:quick:notes")
        assert waits.code == 6
        assert "somebody else is writing the files that it writes" in waits.out
        (scribbles, notes) = sorted(each["run_id"] for each in office.here("runs", "--json").json)
    # The process is dead, and what it has half written is its run's until that is taken up.
    again = _resumed(office, notes, lambda done: "scribble.1" in done.out)
    assert again.code == 6
    held = f"scribble.1 of run {scribbles[-8:]}"
    for text in (again.out, office.here("show", notes).out):
        assert f"It waits for another call that writes the files of note.1: {held}" in " ".join(text.split())
        assert [each.split()[2] for each in commands(text, "show")] == [scribbles[-8:]]
    assert held in office.here("runs").out
    (call,) = office.view(notes)["calls"]
    assert call["held_by"] == {"run_id": scribbles, "call_id": "scribble.1", "state": "STARTED"}

    office.go()
    assert office.here("resume", scribbles, *QUICK).code == 0
    assert "that one has ended" not in office.here("show", notes).out
    assert _resumed(office, notes, lambda done: done.code == 0).code == 0
    assert office.files()["conf/a.ini"] == "by the other\n"


def test_a_rollback_is_refused_while_another_run_writes_and_nothing_is_touched(office: Office) -> None:
    run = office.begin("quick:rides")
    before = office.view(run)
    with _scribbling(office):
        done = office.here("rollback", run, "--to", "at home", *QUICK)
        scribbles = office.view("last")["run"]["run_id"]
        refused(done, f"conf/a.ini is held by a write of run {scribbles} that has not ended", code=4)
        assert "where its process has gone, resume that run" in done.err
    assert office.view(run) == before
    assert "conf/trip" in office.files()
