"""Every exit code the command line can end with, each reached by a real case in a real process."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli_helpers import SECONDS, Site

STORE = "sqlite:///runs.db"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_run_that_completes_ends_with_0_and_prints_its_id_and_output(site: Site) -> None:
    done = site.jumar("run", "site_app:harness:fine", "--input", '"mend it"')
    assert done.code == 0
    assert "COMPLETED" in done.out
    assert '{"found":["page one","page two"],"task":"mend it"}' in done.out
    assert site.last()["run"]["run_id"] in done.out
    assert done.err == ""


def test_a_run_that_fails_ends_with_1_and_shows_where_the_agent_failed(site: Site) -> None:
    done = site.jumar("run", "site_app:harness:fails")
    assert done.code == 1
    assert "FAILED" in done.out
    assert "ValueError: the site has no pages" in done.out
    assert 'raise ValueError("the site has no pages")' in done.err
    assert "jumar/engine" not in done.err


def test_an_unknown_run_ends_with_2(site: Site) -> None:
    site.here("run", "site_app:harness:fine")
    for words in (["show", "abcdef"], ["trace", "abcdef"], ["resolve", "abcdef", "a.1", "--not-happened"]):
        done = site.here(*words, "--store", STORE)
        assert done.code == 2
        assert f"`jumar runs --store {STORE}`" in done.err
    assert site.here("show", "no such run", "--store", STORE).code == 2
    assert site.jumar("resume", "abcdef", "--app", "site_app:harness").code == 2


def test_an_uncertain_call_ends_with_3_and_the_commands_it_prints_bring_the_run_to_its_end(site: Site) -> None:
    done = site.jumar("run", "site_app:harness:pays")
    assert done.code == 3
    assert "did pay.1 happen?" in done.out
    yes, resume = _commands(done.out, "resolve")[0], _commands(done.out, "resume")[0]
    assert site.jumar(*resume).code == 3
    answered = site.jumar(*[word if word != "JSON" else "1200" for word in yes])
    assert answered.code == 0
    assert _commands(answered.out, "resume") == [resume]
    resumed = site.jumar(*resume)
    assert resumed.code == 0
    assert "output   1200" in resumed.out


def _commands(text: str, name: str) -> list[list[str]]:
    """The words after `jumar` of each printed command of this name."""
    lines = [line.partition("jumar ")[2].split() for line in text.splitlines()]
    return [words for words in lines if words and words[0] == name]


def test_a_person_says_that_it_did_not_happen_and_the_run_goes_on_to_ask_again(site: Site) -> None:
    site.here("run", "site_app:harness:pays")
    run_id = site.last()["run"]["run_id"]
    done = site.jumar("resolve", run_id, "pay.1", "--not-happened", "--store", STORE, "--note", "looked it up")
    assert done.code == 0
    assert "did not happen" in done.out
    assert site.last()["run"]["status"] == "QUEUED"


def test_an_answer_is_given_once_then_refused_with_2(site: Site) -> None:
    site.here("run", "site_app:harness:pays")
    answer = ("resolve", "last", "pay.1", "--happened", "7", "--store", STORE)
    assert site.here(*answer).code == 0
    again = site.jumar(*answer)
    assert again.code == 2
    assert "has been answered" in again.err


def test_with_the_app_an_answer_of_another_type_is_refused_with_2(site: Site) -> None:
    site.here("run", "site_app:harness:pays")
    done = site.jumar("resolve", "last", "pay.1", "--happened", '"a text"', "--app", "site_app:harness")
    assert done.code == 2
    assert site.last()["run"]["status"] == "WAITING"


def test_a_run_that_another_process_holds_is_refused_with_4_at_once_without_waiting(site: Site) -> None:
    holder = site.start("run", "site_app:harness:holds")
    try:
        site.await_file("held")
        done = site.jumar("resume", "last", "--no-wait", "--app", "site_app:harness")
        assert done.code == 4
        assert f"/{holder.pid}" in done.err
        shown = site.here("show", "last", "--store", STORE).out
        assert f"/{holder.pid} drives it" in shown
        site.go()
        out, _ = holder.communicate(timeout=SECONDS)
        assert holder.returncode == 0
        assert "COMPLETED" in out
    finally:
        holder.kill()
        holder.communicate()


def test_resuming_a_finished_run_is_refused_with_4(site: Site) -> None:
    site.here("run", "site_app:harness:fine")
    done = site.jumar("resume", "last", "--app", "site_app:harness")
    assert done.code == 4
    assert "completed" in done.err
    assert "The run stands as it is." in done.err
    assert "Look at what it did with `jumar show" in done.err


def test_a_failed_run_that_is_resumed_unmended_fails_again_with_1(site: Site) -> None:
    site.here("run", "site_app:harness:fails")
    done = site.jumar("resume", "last", "--app", "site_app:harness")
    assert done.code == 1
    assert "the site has no pages" in done.out + done.err


def test_a_database_of_a_newer_schema_is_refused_with_4_and_left_as_it_is(site: Site) -> None:
    site.here("run", "site_app:harness:fine")
    with sqlite3.connect(site.folder / "runs.db") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    for words in (["runs"], ["doctor"], ["store", "migrate"]):
        done = site.here(*words, "--store", STORE)
        assert done.code == 4
        assert "schema 99" in done.err


@pytest.mark.parametrize("damage", ["CAST('[\"another\"]' AS BLOB)", "'text where bytes belong'"])
def test_a_damaged_record_ends_doctor_with_5_and_names_the_row(site: Site, damage: str) -> None:
    site.here("run", "site_app:harness:fine")
    with sqlite3.connect(site.folder / "runs.db") as connection:
        connection.execute(f"UPDATE call SET result = {damage}")
    connection.close()
    done = site.jumar("doctor", "--store", STORE)
    assert done.code == 5
    assert "call scan.look.1" in done.out
    assert "resume answers what is sound from the record" in done.out
    found = site.here("doctor", "--store", STORE, "--json")
    assert found.code == 5
    assert found.json["sound"] is False
    assert found.json["findings"][0]["where"] == "call scan.look.1"


def test_a_resume_that_needs_a_damaged_record_ends_with_5_and_repairs_nothing(site: Site) -> None:
    process = site.start("run", "site_app:harness:looks_and_holds")
    try:
        site.await_file("held")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()
    with sqlite3.connect(site.folder / "runs.db") as connection:
        connection.execute("UPDATE call SET result = CAST('[]' AS BLOB)")
    connection.close()
    site.go()
    done = site.jumar("resume", "last", "--app", "site_app:harness")
    assert done.code == 5
    assert "look.1" in done.err
    assert "`jumar doctor --app site_app:harness`" in done.err
    with sqlite3.connect(site.folder / "runs.db") as connection:
        assert connection.execute("SELECT result FROM call").fetchall() == [(b"[]",)]
    connection.close()


def test_a_damaged_checkpoint_is_found_and_the_newest_sound_one_named(site: Site) -> None:
    site.here("run", "site_app:harness:pays")
    site.here("run", "site_app:harness:fine")
    with sqlite3.connect(site.folder / "runs.db") as connection:
        newest = "(SELECT max(version) FROM checkpoint)"
        connection.execute(f"UPDATE checkpoint SET name = 'another' WHERE version = {newest}")
    connection.close()
    done = site.here("doctor", "--store", STORE, "--json")
    assert done.code == 5
    assert [finding["what"] for finding in done.json["findings"]] == ["does not agree with its checksum"] * len(
        done.json["findings"]
    )
    assert any("sound checkpoint" in sentence for sentence in done.json["recovery"])


def test_a_file_that_is_no_database_ends_with_5_for_every_command_and_doctor_says_what_is_left(site: Site) -> None:
    (site.folder / "runs.db").write_bytes(b"no database at all " * 400)
    for words in (["runs"], ["show", "last"], ["trace", "last"], ["store", "migrate"]):
        done = site.here(*words, "--store", STORE)
        assert done.code == 5
        assert "Traceback" not in done.err
    doctor = site.jumar("doctor", "--store", STORE)
    assert doctor.code == 5
    assert "cannot be opened" in doctor.out
    assert "sound copy" in doctor.out
    assert site.here("doctor", "--store", STORE, "--json").json["findings"][0]["where"] == "database"


def test_a_database_damaged_in_its_middle_ends_doctor_with_5(site: Site) -> None:
    for _ in range(3):
        site.here("run", "site_app:harness:fine")
    path = site.folder / "runs.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("PRAGMA journal_mode = DELETE")
    page, root = connection.execute(
        "SELECT (SELECT * FROM pragma_page_size), rootpage FROM sqlite_master WHERE name = 'call'"
    ).fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    data[(root - 1) * page : root * page] = b"\xa5" * page
    path.write_bytes(data)
    done = site.jumar("doctor", "--store", STORE)
    assert done.code == 5
    assert "database" in done.out
    assert "Traceback" not in done.err


def test_a_call_that_may_still_act_late_ends_with_6_and_says_until_when(site: Site) -> None:
    done = site.jumar("run", "site_app:harness:slows")
    assert done.code == 6
    assert "It waits about slow.1 until" in done.out
    assert "jumar resolve" in done.out
    again = site.jumar("resume", "last", "--app", "site_app:harness", "--json")
    assert again.code == 6
    assert again.json["status"] == "WAITING"
    assert again.json["wake_at"] > 0


@pytest.mark.parametrize(
    ("agent", "mark", "status"),
    [("holds", "held", "QUEUED"), ("aholds", "held", "QUEUED"), ("holds_and_pays", "paying", "RUNNING")],
)
def test_ctrl_c_ends_with_130_and_says_how_to_go_on(site: Site, agent: str, mark: str, status: str) -> None:
    process = site.start("run", f"site_app:harness:{agent}")
    try:
        site.await_file(mark)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    run = site.last()["run"]
    assert run["status"] == status
    assert f"`jumar resume {run['run_id'][-8:]} --app site_app:harness`" in err
    if status == "QUEUED":
        site.go()
        assert site.here("resume", "last", "--app", "site_app:harness").code == 0


@pytest.mark.parametrize(
    ("agent", "mark", "status"),
    [("holds", "held", "QUEUED"), ("aholds", "held", "QUEUED"), ("holds_and_pays", "paying", "RUNNING")],
)
@pytest.mark.parametrize("ctrl_c", [signal.SIG_DFL, signal.SIG_IGN], ids=["foreground", "background"])
def test_sigterm_leaves_the_run_as_ctrl_c_does_and_ends_with_143(
    site: Site, agent: str, mark: str, status: str, ctrl_c: signal.Handlers
) -> None:
    before = signal.signal(signal.SIGINT, ctrl_c)  # a shell's background job inherits it ignored
    try:
        process = site.start("run", f"site_app:harness:{agent}")
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        site.await_file(mark)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 143
    assert "Traceback" not in err
    assert "terminated" in err
    run = site.last()["run"]
    assert run["status"] == status
    assert f"`jumar resume {run['run_id'][-8:]} --app site_app:harness`" in err


def test_an_agent_that_ends_the_process_is_not_taken_for_done(site: Site) -> None:
    done = site.jumar("run", "site_app:harness:leaves")
    assert done.code == 4
    assert "left by SystemExit" in done.err
    assert site.last()["run"]["status"] == "QUEUED"


def test_a_reader_that_goes_away_ends_the_command_quietly(site: Site) -> None:
    site.here("run", "site_app:harness:fine")
    process = site.start("show", "last", "--store", STORE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(SECONDS) == 141
    assert err == ""


def test_the_module_and_the_script_are_the_same_command(site: Site) -> None:
    done = site.jumar("--version")
    assert done.code == 0
    assert done.out.startswith("jumar ")
    script = subprocess.run(
        [sys.executable, "-c", "import sys; from jumar.cli.main import main; sys.exit(main(['--version']))"],
        env=site.environment,
        capture_output=True,
        text=True,
    )
    assert script.stdout == done.out
