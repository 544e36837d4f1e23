"""`jumar store copy`: what it says, and what it ends with."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jumar.core.changes import Claim
from jumar.core.phases import CLAIMABLE
from jumar.core.states import mask
from jumar.stores.opening import open_store
from tests.integration.cli_desk import Desk
from tests.integration.cli_helpers import Site

FIRST, SECOND = "sqlite:///runs.db", "file:copy"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def begin(site: Site, agent: str) -> str:
    """Run an agent; the run's id."""
    run_id: str = site.here("run", f"site_app:harness:{agent}", "--input", '"ERROR"', "--json").json["run_id"]
    return run_id


def test_it_says_how_many_came_and_the_runs_go_on_there(site: Site) -> None:
    run_id = begin(site, "fine")
    failed = begin(site, "fails")
    done = site.here("store", "copy", FIRST, SECOND)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert f"from     sqlite:///{site.folder}/runs.db" in lines
    assert f"to       file:{site.folder}/copy" in lines
    assert "copied   1 run, ended" in lines
    assert "moved    1 run, to go on there, and no more here" in lines
    there = site.here("runs", "--store", SECOND, "--json").json
    assert {run["run_id"] for run in there} == {run_id, failed}


def test_where_a_run_has_moved_its_old_store_says_where_to(site: Site) -> None:
    run_id = begin(site, "fails")
    site.here("store", "copy", FIRST, SECOND)
    where = f"moved away: file:{site.folder}/copy"
    assert where in site.here("runs", "--store", FIRST, COLUMNS="200").out
    shown = site.here("show", run_id, "--store", FIRST).out
    assert where in shown
    assert "go back" not in shown
    assert "{" not in shown
    told = site.here("resume", run_id, "--store", FIRST, "--app", "site_app:harness")
    assert told.code == 4
    assert f"has moved to file:{site.folder}/copy" in told.err
    assert "Go on with it there: give that store's address with --store." in told.err
    assert "moved-away" in site.here("trace", run_id, "--store", FIRST).out
    assert "arrived" in site.here("trace", run_id, "--store", SECOND).out


def test_a_second_copy_counts_what_is_there_and_what_has_gone(site: Site) -> None:
    begin(site, "fine")
    begin(site, "fails")
    site.here("store", "copy", FIRST, SECOND)
    told = site.here("store", "copy", FIRST, SECOND, "--json").json
    assert (told["copied"], told["moved"], told["there"], told["elsewhere"], told["left"]) == (0, 0, 1, 1, [])


def test_a_run_that_is_driven_ends_it_with_4_and_a_damaged_one_with_5(site: Site) -> None:
    driven, damaged = begin(site, "fails"), begin(site, "fine")
    with closing(open_store(f"sqlite:///{site.folder}/runs.db")) as store:
        claim = Claim(run_id=driven, owner="kim/1", ttl_ms=600_000, at=1, statuses=mask(*CLAIMABLE), early=True)
        store.write([claim])
    done = site.here("store", "copy", FIRST, SECOND)
    assert done.code == 4
    assert "left     1 run" in done.out
    assert f"{driven[-8:]}  busy" in done.out
    with sqlite3.connect(site.folder / "runs.db") as db:
        db.execute("UPDATE call SET checksum = 1 WHERE run_no = 2")
    done = site.here("store", "copy", FIRST, "file:another", "--json")
    assert done.code == 5
    left = {move["run_id"]: move["fate"] for move in done.json["left"]}
    assert left == {driven: "busy", damaged: "damaged"}


def test_a_store_that_is_not_there_is_not_made(site: Site) -> None:
    done = site.here("store", "copy", "sqlite:///no.db", SECOND)
    assert done.code == 2
    assert "there is no store at sqlite:///no.db" in done.err
    assert not (site.folder / "no.db").exists()
    assert not (site.folder / "copy").exists()


def test_who_answers_a_run_that_has_moved_is_told_where_it_asks(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    run_id = desk.begin("settles")
    asked = desk.view(run_id)["waiting_on"][0]["call_id"]
    desk.here("store", "copy", FIRST, SECOND)
    done = desk.here("approve", run_id, asked, "--store", FIRST)
    assert (done.code, f"moved away: file:{desk.folder}/copy" in done.err) == (2, True), done.err
    assert desk.here("requests", "--store", FIRST, "--json").json == []
    assert [each["run_id"] for each in desk.here("requests", "--store", SECOND, "--json").json] == [run_id]
