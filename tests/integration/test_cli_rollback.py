"""Rolling runs back from the command line: what is put back and undone, what stands, and what is refused and why."""

from __future__ import annotations

import re
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.integration.cli_desk import commands, refused
from tests.integration.cli_files import STORE, Office
from tests.integration.cli_helpers import SECONDS, Terminal


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def _words(text: str) -> str:
    return " ".join(text.split())


def test_files_go_back_and_the_run_is_paused_there_with_the_command_to_go_on(office: Office) -> None:
    run = office.begin("mends")
    done = office.here("rollback", run, "--to", "before restart")
    assert done.code == 0, done.err
    assert office.files() == {"conf/a.ini": "one\n"}
    assert "status   PAUSED" in done.out
    assert "files    1 restored, 1 deleted" in done.out
    assert "restored  conf/a.ini" in done.out
    assert "deleted   conf/b.ini" in done.out
    assert "It goes on from there when it is resumed." in done.out
    resume, cancel, undo = commands(done.out)
    assert (resume, cancel) == (f"jumar resume {run[-8:]}", f"jumar cancel {run[-8:]}")
    resumed = office.here("resume", run)
    assert (resumed.code, office.files()) == (0, {"conf/a.ini": "two\n", "conf/b.ini": "new\n"})
    assert undo.startswith(f"jumar rollback {run[-8:]} --to files:")


def test_the_files_that_a_rollback_overwrote_are_had_again_by_the_command_that_it_names(office: Office) -> None:
    run = office.begin("mends")
    (office.site / "conf/a.ini").write_text("mine\n")
    touched = office.files()
    forced = office.here("rollback", run, "--to", "before restart", "--force")
    assert forced.code == 0, forced.err
    assert office.files() == {"conf/a.ini": "one\n"}
    *_, undo = commands(forced.out)
    undone = office.here(*undo.split()[1:])
    assert undone.code == 0, undone.err
    assert office.files() == touched


def test_a_dry_run_says_what_would_be_done_and_does_nothing(office: Office) -> None:
    run = office.begin("travels")
    before, view = office.files(), office.view(run)
    done = office.here("rollback", run, "--to", "at home", "--dry-run")
    assert done.code == 0, done.err
    assert "status   COMPLETED" in done.out
    assert "would go" in done.out
    assert "to delete  conf/trip" in done.out
    assert "to undo     book.1" in done.out
    assert "not undone  mail.1  mail has no compensation" in done.out
    assert commands(done.out) == []
    assert (office.files(), office.view(run)) == (before, view)
    told = office.here("rollback", run, "--to", "at home", "--dry-run", "--json").json
    assert told["dry_run"] is True
    assert told["files"] == [{"path": "conf/trip", "outcome": "deleted", "reason": ""}]
    assert told["undone"] == ["book.1"]


def test_what_can_be_undone_is_undone_and_what_cannot_is_listed_with_why(office: Office) -> None:
    run = office.begin("travels")
    done = office.here("rollback", run, "--to", "at home", "--json")
    assert done.code == 0, done.err
    told = done.json
    assert (told["status"], told["undone"]) == ("PAUSED", ["book.1"])
    assert [(each["call_id"], each["why"]) for each in told["not_undone"]] == [("mail.1", "mail has no compensation")]
    assert office.sent() == ["mail ana", "book Oslo", "give back ticket of Oslo"]
    assert told["next"][0] == f"jumar resume {run[-8:]}"


def test_after_a_rollback_show_tells_what_was_left_behind_and_what_stands_all_the_same(office: Office) -> None:
    run = office.begin("travels")
    assert office.here("rollback", run, "--to", "at home").code == 0
    shown = office.here("show", run).out
    (home,) = [each["version"] for each in office.view(run)["checkpoints"] if each["trigger"] == "manual"]
    assert f"line     rolled back once to version {home}; what came after that is left behind" in shown
    assert f"files    {office.site}" in shown
    (mail,) = [line for line in shown.splitlines() if "mail.1" in line and "left behind" in line]
    assert "left behind, and stands" in mail
    (booked,) = [line for line in shown.splitlines() if "book.1 " in line and "left behind" in line]
    assert "left behind  undone" in booked
    assert "book.1.undo" in shown
    assert "── rolled back after" in shown
    points = office.view(run)["checkpoints"]
    assert any(each["left_behind"] for each in points)
    assert all(each["left_behind"] is False for each in points if each["version"] <= home)
    behind = [line for line in shown.splitlines() if "left behind: " in line]
    assert len(behind) == sum(each["left_behind"] for each in points)
    assert "rolled-back" in office.here("trace", run).out


def test_a_file_that_somebody_else_changed_refuses_all_of_it_unless_it_is_forced(office: Office) -> None:
    run = office.begin("mends")
    (office.site / "conf" / "a.ini").write_text("by hand\n")
    done = office.here("rollback", run, "--to", "before restart")
    assert (done.code, done.out) == (4, "")
    assert "conflict   conf/a.ini  it was changed since" in done.err
    assert "to delete  conf/b.ini" in done.err
    again = f"jumar rollback {run[-8:]} --to 'before restart' --force"
    assert f"`{again}` puts them back all the same" in _words(done.err)
    assert office.files()["conf/a.ini"] == "by hand\n"
    assert office.view(run)["run"]["status"] == "COMPLETED"
    dry = office.here("rollback", run, "--to", "before restart", "--dry-run")
    assert (dry.code, "files    1 to delete, 1 conflict" in dry.out) == (4, True)
    in_json = office.here("rollback", run, "--to", "before restart", "--json")
    assert in_json.code == 4
    assert in_json.json["error"]["code"] == "workspace-conflict"
    assert in_json.json["error"]["paths"] == ["conf/a.ini"]
    forced = office.here("rollback", run, "--to", "before restart", "--force")
    assert forced.code == 0, forced.err
    assert office.files() == {"conf/a.ini": "one\n"}


def test_with_paths_only_those_files_change_and_the_run_stays_where_it_is(office: Office) -> None:
    run = office.begin("mends")
    done = office.here("rollback", run, "--to", "0", "--paths", "conf/b*", "--paths", "elsewhere")
    assert done.code == 0, done.err
    assert office.files() == {"conf/a.ini": "two\n"}
    assert "status   COMPLETED" in done.out
    assert office.view(run)["run"]["generation"] == 0


def test_files_that_are_as_they_were_need_nothing(office: Office) -> None:
    run = office.begin("mends")
    assert office.here("rollback", run, "--to", "before restart").code == 0
    done = office.here("rollback", run, "--to", "before restart")
    assert (done.code, "files    as they were then" in done.out) == (0, True)
    assert "rolled back 2 times, last to version" in office.here("show", run).out


def test_what_cannot_be_undone_now_is_asked_about_and_the_run_waits_in_the_middle(office: Office) -> None:
    run = office.begin("travels")
    (office.folder / "closed").touch()
    done = office.here("rollback", run, "--to", "at home")
    assert done.code == 3, done.err
    assert "status   WAITING" in done.out
    assert "asked about  book.1  NotApplied: the office is closed" in done.out
    asks = "book.1 could not be undone: again, or leave it as it is?"
    again, leave = f"jumar approve {run[-8:]} book.1.undo", f"jumar reject {run[-8:]} book.1.undo"
    undone = f"jumar resolve {run[-8:]} book.1.undo --happened null"
    for text in (done.out, office.here("show", run).out, office.here("requests").out):
        assert asks in _words(text)
        assert [each for each in commands(text) if "resume" not in each] == [again, undone, leave]
        assert "the office is closed" in text
    assert "a rollback to version" in office.here("show", run).out
    assert "in a rollback to version" in office.here("runs").out
    assert office.here("requests", "--json").json[0]["asked"]["kind"] == "undo"

    refused(office.here("approve", run, "book.1.undo", "--args", "{}"), "--args cannot be given for book.1.undo")
    said = office.here("approve", run, "book.1.undo", "--by", "ana")
    assert f"call book.1 of run {run[-8:]} is to be undone\n" in said.out
    (office.folder / "closed").unlink()
    resumed = office.here("resume", run, "--json")
    assert office.sent()[:3] == ["mail ana", "book Oslo", "give back ticket of Oslo"]
    assert resumed.json["run_id"] == run


def test_a_call_that_somebody_leaves_as_it_is_counts_as_not_undone(office: Office) -> None:
    run = office.begin("travels")
    (office.folder / "closed").touch()
    assert office.here("rollback", run, "--to", "at home").code == 3
    said = office.here("reject", run, "book.1.undo", "--by", "ana", "--note", "we go by train")
    assert "call book.1 of run" in said.out
    assert "is left as it is, and counts as not undone" in said.out
    assert "It is in the middle of a rollback to version" in office.here("show", run).out
    done = office.here("rollback", run, "--to", "at home")
    assert done.code == 0, done.err
    shown = office.here("show", run).out
    assert "left as it is, says ana" in shown
    assert "we go by train" in shown


def test_a_call_that_somebody_has_undone_by_hand_counts_as_undone(office: Office) -> None:
    run = office.begin("travels")
    (office.folder / "closed").touch()
    assert office.here("rollback", run, "--to", "at home").code == 3
    given = office.here("resolve", run, "book.1.undo", "--happened", "null", "--by", "ana")
    assert f"call book.1 of run {run[-8:]} is undone\n" in given.out, given.err
    done = office.here("rollback", run, "--to", "at home")
    assert done.code == 0, done.err
    shown = office.here("show", run).out
    assert " undone, says ana" in shown
    assert "left behind  undone" in shown
    assert office.sent() == ["mail ana", "book Oslo"]


def test_what_cannot_be_gone_back_to_is_refused_with_what_can(office: Office) -> None:
    run = office.begin("mends")
    refused(office.here("rollback", run, "--to", "77"), "has no version 77")
    refused(office.here("rollback", run, "--to", "never"), "has no checkpoint 'never'")
    refused(office.here("rollback", run), "Missing option '--to'")
    refused(office.here("rollback", run, "--to", "0", "--paths", "/etc"), "'/etc' is no path inside the workspace")
    assert office.here("rollback", run, "--to", "0").code == 0
    refused(office.here("rollback", run, "--to", "before restart"), "was left behind by a rollback", code=4)


def test_where_a_checkpoint_is_damaged_the_newest_sound_one_before_it_is_gone_back_to_and_that_is_said(
    office: Office,
) -> None:
    run = office.begin("mends")
    versions = [each["version"] for each in office.view(run)["checkpoints"]]
    (home,) = [each["version"] for each in office.view(run)["checkpoints"] if each["trigger"] == "manual"]
    with sqlite3.connect(office.folder / "runs.db") as connection:
        connection.execute("UPDATE checkpoint SET step = 99 WHERE version = ?", (home,))
    connection.close()
    before = max(version for version in versions if version < home)
    dry = office.here("rollback", run, "--to", "before restart", "--dry-run", "--json").json
    assert (dry["target"], dry["damaged"]) == (before, [home])
    done = office.here("rollback", run, "--to", "before restart")
    assert done.code == 0
    assert f"went     back to {before}, " in done.out
    assert f"what was kept at {home} is damaged; this is the newest before it that is not" in done.out
    refused(office.here("diff", run, str(home), *STORE), f"checkpoint {home} of run {run} is damaged", code=5)


def test_ctrl_c_leaves_a_rollback_that_was_begun_and_says_how_it_is_finished(office: Office) -> None:
    run = office.begin("quick:rides")
    app = ("--app", "office:quick")
    process = office.start("rollback", run, "--to", "at home", *app)
    try:
        office.await_file("undoing")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (130, "")
    assert f"interrupted while run {run[-8:]} was being rolled back" in err
    assert f"`jumar resume {run[-8:]} --app office:quick` finishes it, once this process's lease" in _words(err)
    assert "conf/trip" not in office.files()
    assert "a rollback to version 1 is under way" in office.here("show", run).out
    resumed = office.here("resume", run, *app)
    assert resumed.code == 3
    asks = "nobody knows whether reserve.1 was undone: undo it again, or leave it as it is?"
    assert asks in _words(resumed.out)
    (request,) = office.here("requests", "--json").json
    assert (request["asked"]["kind"], request["asked"]["state"]) == ("undo", "UNCERTAIN")


def test_a_run_that_a_process_drives_is_not_rolled_back(office: Office) -> None:
    process = office.start("run", "office:harness:holds")
    try:
        office.await_file("held")
        refused(office.here("rollback", "last", "--to", "0"), "is driven by", code=4)
        office.go()
        process.communicate()
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0


def test_a_failed_run_is_rolled_back_by_its_strategy_when_it_is_resumed(office: Office) -> None:
    run = office.begin("fails", code=1)
    (office.folder / "mended").touch()
    resumed = office.here("resume", run, "--strategy", "rollback", "--json")
    assert (resumed.code, resumed.json["output"]) == (0, "mended"), resumed.err
    assert office.view(run)["run"]["generation"] == 1
    refused(office.here("resume", run, "--strategy", "hope"), "'hope' is not one of")
    refused(office.here("resume", "--due", "--strategy", "retry"), "--strategy goes with RUN")


def test_a_run_that_a_verify_failed_is_said_to_go_back_and_does_so_unless_told_otherwise(office: Office) -> None:
    done = office.here("run", "office:harness:spoils")
    assert done.code == 1
    said = "it goes back to the start of the step that fix.check.1 is in"
    assert said in _words(done.out)
    assert "By --strategy retry only that call is made again" in _words(done.out)
    run = office.here("runs", "--json").json[0]["run_id"]
    assert said in _words(office.here("show", run).out)
    (office.folder / "mended").touch()
    (office.site / "mine").write_text("my own\n")
    stopped = office.here("resume", run)
    refused(stopped, "mine stands in the way of the rollback (it appeared since)", code=4)
    assert re.search(rf"`jumar rollback {run[-8:]} --to \d+ --force`, which keeps", _words(stopped.err))
    (office.site / "mine").unlink()
    assert office.here("resume", run).code == 0
    assert office.view(run)["run"]["generation"] == 1


def test_a_failed_run_that_acted_after_its_failure_is_pointed_to_a_rollback_and_a_fork(office: Office) -> None:
    run = office.begin("acts_late", code=1)
    done = office.here("resume", run, "--strategy", "retry")
    refused(done, "mail.1 (external) was begun after it", code=4)
    said = _words(done.err)
    for command in ("rollback {} --to VERSION", "fork {} --at VERSION", "show {}"):
        assert f"`jumar {command.format(run[-8:])}`" in said
    assert office.sent() == ["mail ana"]


def test_on_a_terminal_what_was_left_behind_is_dim(office: Office) -> None:
    run = office.begin("travels")
    text = Terminal(office, 120, "rollback", run, "--to", "at home").end()
    assert "\x1b[32mundone" in text
    assert "\x1b[33mnot undone" in text
    shown = Terminal(office, 120, "show", run, *STORE).end()
    assert "\x1b[2mleft behind" in shown
    assert "\x1b[33mleft behind, and stands" in shown
