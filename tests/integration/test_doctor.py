"""`doctor`: which rows and files are damaged, what recovery would use, and that it then does use that."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness, Run
from jumar.errors import IntegrityError, WorkspaceConflict
from jumar.harness.results import Mending, Report
from tests.integration.cli_helpers import Site


class Works:
    """A store and a workspace, with an agent that looks three times and writes in between, a checkpoint before each."""

    def __init__(self, folder: Path, *, files: bool = True) -> None:
        self.folder, self.site = folder, folder / "site"
        self.site.mkdir()
        (self.site / "a.ini").write_text("a = 1\n")
        self.looked: list[int] = []
        self.stops = True
        self.harness = self.opened(files=files)

    def opened(self, *, files: bool = True) -> Harness:
        harness = Harness(f"sqlite:///{self.folder / 'runs.db'}", workspace=self.site if files else None)

        @harness.tool(effect="read")
        def look(number: int) -> str:
            self.looked.append(number)
            return f"seen {number} " + "x" * (5000 if number == 2 else 5)

        @harness.tool(effect="write", paths=["a.ini"])
        def put(text: str) -> int:
            return (self.site / "a.ini").write_text(text)

        @harness.agent(tools=[look, put] if files else [look])
        def work(run: Run, task: str) -> str:
            for number in (1, 2, 3):
                run.call(look, number)
                run.checkpoint(f"looked {number}")
                if files and number < 3:
                    run.call(put, f"a = {number + 1}\n")
            if self.stops:
                raise RuntimeError("stop here")
            return "done"

        return harness

    def ran(self) -> str:
        """A run that has failed at its end."""
        result = self.harness.run("work", "go")
        assert result.status == "FAILED"
        self.stops = False
        self.looked.clear()
        return result.run_id

    def damage(self, statement: str, *values: Any, file: str = "runs.db") -> None:
        """Change rows behind the back of whoever has the file open; the harness opens it anew."""
        self.harness.close()
        with sqlite3.connect(self.folder / file) as connection:
            assert connection.execute(statement, values).rowcount > 0
        connection.close()

    def examined(self) -> tuple[Report, Mending]:
        """What `doctor` says of a store with one damaged run."""
        report = self.harness.doctor()
        [mending] = report.mendings
        assert not report.sound
        return report, mending

    def versions(self, run_id: str) -> dict[str, int]:
        """The versions of the checkpoints that the agent kept."""
        labels: dict[str, int] = {}
        for point in self.harness.show(run_id).checkpoints:
            if "looked" in point.name:
                labels[point.name.split("_")[1]] = point.version
        return labels


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


@pytest.fixture
def plain(tmp_path: Path) -> Works:
    return Works(tmp_path, files=False)


def checkpoints_of(works: Works) -> list[tuple[int, str]]:
    with sqlite3.connect(works.folder / "runs.db") as connection:
        rows = connection.execute("SELECT version, name FROM checkpoint ORDER BY version").fetchall()
    connection.close()
    return rows


def test_a_sound_store_with_files_is_found_sound_and_its_objects_are_counted(works: Works) -> None:
    works.ran()
    report = works.harness.doctor()
    assert (report.findings, report.mendings) == ((), ())
    assert report.objects is not None and Path(report.objects).exists()
    assert report.contents >= 3
    assert report.folders >= 3
    assert report.snapshots >= 3


def test_to_examine_a_store_without_files_makes_none(plain: Works) -> None:
    plain.ran()
    before = sorted(each.name for each in plain.folder.iterdir())
    report = plain.harness.doctor()
    assert (report.sound, report.objects, report.snapshots) == (True, None, 0)
    assert sorted(each.name for each in plain.folder.iterdir()) == before


@pytest.mark.parametrize(
    "damage", ["step = step + 1", "level = 99", "refs = x'00'", "checksum = x'00'", "tree = zeroblob(32)"]
)
def test_a_damaged_checkpoint_is_passed_over_for_the_newest_sound_one_before_it_as_doctor_says(
    works: Works, damage: str
) -> None:
    run_id = works.ran()
    kept = checkpoints_of(works)
    bad, (before, name) = kept[-2][0], kept[-3]
    works.damage(f"UPDATE checkpoint SET {damage} WHERE version = ?", bad)
    report, mending = works.examined()
    assert {finding.where for finding in report.findings} == {f"checkpoint {bad}"}
    assert (mending.run_id, mending.damaged, mending.command) == (run_id, (f"checkpoint {bad}",), None)
    assert (mending.version, mending.checkpoint) == kept[-1]
    assert f"A rollback to {bad} takes {before}, {name}." in mending.advice
    rolled = works.harness.rollback(run_id, to=bad)
    assert rolled.target == before
    assert works.harness.resume(run_id).output == "done"


def test_a_run_without_a_sound_checkpoint_is_said_to_have_none_and_goes_on_all_the_same(works: Works) -> None:
    run_id = works.ran()
    works.damage("UPDATE checkpoint SET step = step + 1")
    _, mending = works.examined()
    assert "It has no sound checkpoint left." in mending.advice
    assert (mending.version, mending.checkpoint) == (None, None)
    assert works.harness.resume(run_id).output == "done"
    assert works.looked == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE call SET result = CAST('\"another\"' AS BLOB) WHERE call_id = 'look.3'",
        "UPDATE call SET args_digest = zeroblob(32) WHERE call_id = 'look.3'",
        "UPDATE call SET state = 4 WHERE call_id = 'look.3'",
    ],
    ids=["result", "arguments", "state"],
)
def test_a_damaged_call_is_left_behind_by_the_command_that_doctor_gives(works: Works, damage: str) -> None:
    run_id = works.ran()
    works.damage(damage)
    report, mending = works.examined()
    assert [finding.where for finding in report.findings] == ["call look.3"]
    assert "resume answers what is sound from the record, and stops with an error where it needs look.3" in (
        mending.advice
    )
    assert mending.command == f"jumar rollback {run_id[-8:]} --to {mending.version}"
    assert mending.command in mending.advice
    assert (mending.version, mending.checkpoint) in checkpoints_of(works)
    assert mending.version is not None
    rolled = works.harness.rollback(run_id, to=mending.version)
    assert rolled.checkpoint == mending.checkpoint
    assert works.harness.resume(run_id).output == "done"
    assert works.looked == [3]
    assert (works.site / "a.ini").read_text() == "a = 3\n"


def test_a_result_that_was_kept_apart_and_is_damaged_counts_as_its_call(plain: Works) -> None:
    run_id = plain.ran()
    plain.damage("UPDATE artifact SET data = x'00' WHERE digest IN (SELECT result_artifact FROM call)")
    report, mending = plain.examined()
    assert [finding.where.split()[0] for finding in report.findings] == ["artifact"]
    assert "where it needs look.2" in mending.advice
    assert mending.version is not None
    plain.harness.rollback(run_id, to=mending.version)
    assert plain.harness.resume(run_id).output == "done"
    assert plain.looked == [2, 3]


def test_what_a_damaged_call_did_outside_is_warned_of(plain: Works) -> None:
    plain.ran()
    plain.damage("UPDATE call SET effect = 3 WHERE call_id = 'look.3'")
    _, mending = plain.examined()
    assert "What look.3 did outside may be done again: look first." in mending.advice


def test_a_call_whose_row_cannot_be_read_is_past_any_recovery_and_doctor_promises_none(plain: Works) -> None:
    run_id = plain.ran()
    plain.damage("UPDATE call SET kind = 99 WHERE call_id = 'look.3'")
    _, mending = plain.examined()
    assert (mending.version, mending.command) == (None, None)
    assert "neither resume nor rollback goes past it" in mending.advice
    for recover in (plain.harness.resume, lambda run: plain.harness.rollback(run, to=0)):
        with pytest.raises(IntegrityError):
            recover(run_id)


def test_a_damaged_row_of_a_run_ends_it(plain: Works) -> None:
    run_id = plain.ran()
    plain.damage("UPDATE run SET phase = 99")
    _, mending = plain.examined()
    assert (mending.run_id, mending.damaged) == (run_id, ("run",))
    assert "cannot be taken up again" in mending.advice


def test_an_intent_that_cannot_be_read_is_told(plain: Works) -> None:
    plain.ran()
    plain.damage("UPDATE run SET intent = x'7b'")
    _, mending = plain.examined()
    assert mending.damaged == ("intent",)
    assert "the rollback it is in cannot be read" in mending.advice


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("UPDATE run SET forked_from = 'gone'", "resume stops where it needs that"),
        (
            "INSERT INTO hold (workspace, path, run_no, call_seq) VALUES ('/w', CAST('conf' AS BLOB), 1, 0)",
            "who asks for path conf may wait in vain",
        ),
    ],
    ids=["origin", "path"],
)
def test_what_points_to_nothing_is_told_with_what_comes_of_it(plain: Works, damage: str, told: str) -> None:
    run_id = plain.ran()
    plain.damage(damage)
    _, mending = plain.examined()
    assert told in mending.advice
    assert plain.harness.resume(run_id).output == "done"


def test_files_that_are_gone_are_told_with_the_newest_checkpoint_that_still_has_its_own(works: Works) -> None:
    run_id = works.ran()
    with sqlite3.connect(works.folder / "runs.db") as connection:
        trees = connection.execute(
            "SELECT version, tree FROM checkpoint WHERE tree IS NOT NULL ORDER BY version"
        ).fetchall()
    connection.close()
    newest = trees[-1][1]
    gone = [version for version, tree in trees if tree == newest]
    works.damage("DELETE FROM snapshots WHERE digest = ?", newest, file="runs.db.files")
    report, mending = works.examined()
    assert [finding.where for finding in report.findings if finding.run_id] == [f"checkpoint {each}" for each in gone]
    left = max(version for version, tree in trees if tree != newest)
    assert mending.version == left
    told = ", ".join(map(str, gone))
    assert f"The files at {told} are gone; the newest before it: {left}, " in mending.advice
    with pytest.raises(WorkspaceConflict):  # what the agent wrote last is not known any more
        works.harness.rollback(run_id, to=left)
    works.harness.rollback(run_id, to=left, force=True)
    assert works.harness.resume(run_id).output == "done"


def test_where_no_checkpoint_has_its_files_any_more_that_is_told_once(works: Works) -> None:
    assert works.harness.resume(works.ran()).output == "done"
    works.damage("DELETE FROM snapshots", file="runs.db.files")
    _, mending = works.examined()
    assert len(mending.damaged) > 1
    assert mending.advice == "its calls are sound. It has no sound checkpoint left."  # nor is anything to be resumed


def test_a_damaged_content_is_told_of_the_files_and_of_every_checkpoint_that_needs_it(works: Works) -> None:
    works.ran()
    works.damage("DELETE FROM blobs WHERE rowid = (SELECT min(rowid) FROM blobs)", file="runs.db.files")
    report, mending = works.examined()
    wheres = {finding.where for finding in report.findings}
    assert "files, snapshot" in wheres
    assert [where for where in mending.damaged if where.startswith("checkpoint ")]


def test_files_that_no_longer_open_are_told_and_the_rows_are_examined_all_the_same(works: Works) -> None:
    works.ran()
    works.harness.close()
    for each in works.folder.glob("runs.db.files*"):
        each.unlink()
    (works.folder / "runs.db.files").write_bytes(b"no database at all " * 400)
    report = works.harness.doctor()
    assert "files" in {finding.where for finding in report.findings}
    assert report.calls > 5


def test_a_write_that_may_have_to_be_put_back_and_has_nothing_to_be_put_back_to_is_told(works: Works) -> None:
    run_id = works.ran()
    works.damage("UPDATE call SET state = 5, ended_version = NULL, before = zeroblob(32) WHERE call_id = 'put.2'")
    report, mending = works.examined()
    assert mending.run_id == run_id
    assert [finding.what for finding in report.findings if finding.where == "call put.2"][-1].startswith(
        "the snapshot of the files that it names is not there"
    )


def test_of_two_runs_only_the_damaged_one_is_named(plain: Works) -> None:
    first = plain.ran()
    plain.stops = True
    second = plain.ran()
    plain.damage("UPDATE checkpoint SET step = 9 WHERE run_no = 1")
    _, mending = plain.examined()
    assert mending.run_id == first != second


def test_the_command_line_tells_it_and_gives_the_command_as_it_is_to_be_typed(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.here("run", "site_app:harness:fine")
    with sqlite3.connect(tmp_path / "runs.db") as connection:
        connection.execute("UPDATE call SET result = CAST('[]' AS BLOB)")
    connection.close()
    done = site.jumar("doctor", "--store", "sqlite:///runs.db", "--app", "site_app:harness")
    assert done.code == 5
    told = site.here("doctor", "--json", "--store", "sqlite:///runs.db", "--app", "site_app:harness").json
    [mending] = told["mendings"]
    [sentence] = told["recovery"]
    if mending["command"] is None:
        assert "no sound checkpoint before that" in sentence
    else:
        assert f"jumar rollback {mending['run_id'][-8:]} --to {mending['version']} --app site_app:harness" in sentence
    assert json.dumps(mending["damaged"]) in json.dumps([[finding["where"] for finding in told["findings"]]])
