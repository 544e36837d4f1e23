"""Forking runs from the command line: a run of its own, on the same files or on its own copy of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.cli_desk import commands, refused
from tests.integration.cli_files import Office


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_a_fork_is_paused_at_the_checkpoint_and_the_other_run_stays_as_it_is(office: Office) -> None:
    run = office.begin("bare:looks")
    before = office.view(run)
    done = office.here("fork", run, "--at", "at home")
    assert done.code == 0, done.err
    made = office.view("last")["run"]
    assert done.out.splitlines()[0] == f"run      {made['run_id']}"
    assert f"from     {run}" in done.out
    short = made["run_id"][-8:]
    assert commands(done.out) == [f"jumar resume {short}", f"jumar show {short}"]
    assert (made["status"], made["forked_from"]) == ("PAUSED", run)
    assert office.view(run) == before
    shown = office.here("show", "last").out
    assert f"fork of  {run}" in shown
    assert "line     goes on from version" in shown
    assert "rolled back" not in shown
    resumed = office.here("resume", short, "--app", "office:bare", "--json")
    assert (resumed.code, resumed.json["output"]) == (0, "looked")


def test_in_json_the_new_run_and_the_commands_are_told(office: Office) -> None:
    run = office.begin("mends")
    told = office.here("fork", run, "--at", "0", "--json").json
    assert (told["forked_from"], told["status"], told["workspace"]) == (run, "PAUSED", str(office.site))
    short = told["run_id"][-8:]
    assert told["next"] == [f"jumar resume {short}", f"jumar show {short}"]


def test_with_a_workspace_the_fork_has_a_folder_of_its_own_as_the_files_were_then(office: Office) -> None:
    run = office.begin("mends")
    done = office.here("fork", run, "--at", "before restart", "--workspace", "copy")
    assert done.code == 0, done.err
    copy = office.folder / "copy"
    assert re.search(rf"^files    {re.escape(str(copy))}$", done.out, re.MULTILINE)
    assert [path.name for path in (copy / "conf").iterdir()] == ["a.ini"]
    assert (copy / "conf" / "a.ini").read_text() == "one\n"
    assert office.files() == {"conf/a.ini": "two\n", "conf/b.ini": "new\n"}
    assert office.view("last")["run"]["workspace"] == str(copy)
    compared = office.here("diff", "last", "before restart", "--json").json
    assert compared["changes"] == []
    (copy / "conf" / "a.ini").write_text("by hand\n")
    compared = office.here("diff", "last", "before restart", "--json").json
    assert [each["path"] for each in compared["changes"]] == ["conf/a.ini"]


def test_what_the_other_run_did_since_stands_in_the_fork_and_is_not_done_again_without_a_person(office: Office) -> None:
    run = office.begin("travels")
    office.here("fork", run, "--at", "at home")
    shown = office.here("show", "last").out
    assert "left behind, and stands" in shown
    assert office.here("resume", "last").code in (0, 3)
    assert office.sent() == ["mail ana", "book Oslo"]


def test_what_cannot_be_forked_is_refused_and_nothing_is_made(office: Office) -> None:
    run = office.begin("mends")
    refused(office.here("fork", run, "--at", "never"), "has no checkpoint 'never'")
    refused(office.here("fork", run), "Missing option '--at'")
    inside = office.here("fork", run, "--at", "0", "--workspace", "site/copy")
    refused(inside, f"site/copy lies inside the workspace of run {run}")
    assert not (office.site / "copy").exists()
    (office.folder / "full").mkdir()
    (office.folder / "full" / "file").touch()
    refused(office.here("fork", run, "--at", "0", "--workspace", "full"), "full is there and not empty", code=4)
    bare = office.begin("bare:looks")
    refused(office.here("fork", bare, "--at", "at home", "--workspace", "new"), "no snapshot of the files", code=4)
    assert len(office.here("runs", "--json").json) == 2
    assert not (office.folder / "new").exists()
