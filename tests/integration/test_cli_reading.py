"""What `runs`, `show`, `trace`, `doctor` and `store migrate` print, for people and as JSON."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.integration.cli_helpers import SECONDS, Site

STORE = ("--store", "sqlite:///runs.db")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A folder with one run that died, was taken over and now waits for a person, and two that have ended."""
    site = Site(tmp_path_factory.mktemp("ran"))
    assert site.jumar("run", "site_app:quick:repair", "--input", '"mend it"').code == -signal.SIGKILL
    assert site.here("resume", "last", "--app", "site_app:quick").code == 3
    assert site.here("run", "site_app:harness:fine", "--task", "Büro 7").code == 0
    assert site.here("run", "site_app:harness:fails").code == 1
    return site


def _waiting_run(site: Site) -> str:
    (run,) = site.here("runs", "--status", "waiting", "--json", *STORE).json
    return str(run["run_id"])


def _show(site: Site, *more: str, **environment: str) -> str:
    return site.here("show", _waiting_run(site), *STORE, *more, **environment).out


def test_show_has_one_line_a_call_in_the_order_of_the_run_indented_under_its_step(ran: Site) -> None:
    lines = _show(ran).splitlines()
    rows = lines[lines.index("") + 2 : lines.index("", lines.index("") + 1)]
    names = [row[: rows[0].index("✓")].rstrip() for row in rows]
    takeover = next(index for index, name in enumerate(names) if "taken over" in name)
    assert [name for name in names if "taken over" not in name] == [
        "◆ model.1",
        "· plan.1",
        "scan",
        "  ○ gather:0.search.1",
        "  ○ gather:1.search.1",
        "  gather:2",
        "    ○ search.1",
        "    ○ flaky.1 \u00d72",
        "  deep",
        "    ○ map:0.search.1",
        "    ○ map:1.search.1",
        "    ○ broken.1",
        "fix",
        "  ◎ order.1 \u00d72",
        "  · checkpoint.1",
        "  ▲ send.1",
    ]
    assert names[takeover + 1] == "fix"


def test_show_marks_what_failed_what_is_uncertain_and_what_it_cost(ran: Site) -> None:
    text = _show(ran)
    line = {word: next(line for line in text.splitlines() if f" {word}" in line) for word in ("broken.1", "send.1")}
    assert "✗" in line["broken.1"]
    assert "ValueError: no such" in line["broken.1"]
    assert "?" in line["send.1"]
    assert "may have happened" in line["send.1"]
    assert "940 tokens, $0.012" in text
    assert "taken over once" in text
    assert "before sending claim:c-17" in text
    assert "1 failed, 1 uncertain" in text


def test_show_ends_with_the_commands_to_type_next(ran: Site) -> None:
    short = _waiting_run(ran)[-8:]
    at_store = "--store sqlite:///runs.db"
    assert [line[line.index("jumar") :] for line in _show(ran).rstrip().splitlines()[-4:]] == [
        f"jumar resolve {short} fix.send.1 --happened JSON {at_store}",
        f"jumar resolve {short} fix.send.1 --not-happened {at_store}",
        f"jumar reject {short} fix.send.1 {at_store}",
        f"jumar resume {short} --app MODULE:HARNESS {at_store}",
    ]
    with_app = ran.here("show", short, "--app", "site_app:quick").out
    assert with_app.rstrip().endswith(f"jumar resume {short} --app site_app:quick")
    by_environment = ran.here("show", short, JUMAR_APP="site_app:quick").out
    assert by_environment.rstrip().endswith(f"jumar resume {short}")


@pytest.mark.parametrize("columns", [24, 40, 60, 80, 100, 120, 200])
def test_no_line_of_the_timeline_is_longer_than_the_screen(ran: Site, columns: int) -> None:
    text = _show(ran, COLUMNS=str(columns))
    timeline = text[: text.index("now  ")].splitlines()
    table = timeline[timeline.index("") + 1 : -3]
    assert len(table) > 16
    assert max(map(cell_len, table)) <= columns
    assert any(cell_len(line) == columns for line in table), "the takeover's rule reaches the edge"


def test_text_of_the_run_cannot_move_the_terminals_cursor(ran: Site) -> None:
    assert "\x1b" not in _show(ran)
    assert "\\u001b[31m" in _show(ran, COLUMNS="200")


def test_a_stream_that_knows_ascii_alone_gets_ascii_alone(ran: Site) -> None:
    text = _show(ran, PYTHONIOENCODING="ascii")
    assert text.isascii()
    assert "* model.1" in text
    assert "flaky.1 x2" in text
    assert "\\u65e5" in _show(ran, PYTHONIOENCODING="ascii", COLUMNS="200")


def test_show_in_json_is_the_view_of_the_run(ran: Site) -> None:
    view = json.loads(_show(ran, "--json"))
    assert view["run"]["status"] == "WAITING"
    assert view["input"] == "mend it"
    assert [call["call_id"] for call in view["calls"]][-1] == "fix.send.1"
    assert view["waiting_on"][0]["call_id"] == "fix.send.1"
    assert [takeover["epoch"] for takeover in view["takeovers"]] == [2]


def test_show_of_a_finished_run_shows_its_output_and_asks_for_nothing(ran: Site) -> None:
    (run,) = ran.here("runs", "--agent", "fine", "--json", *STORE).json
    text = ran.here("show", run["run_id"], *STORE).out
    assert 'output   {"found":["page one","page two"],"task":null}' in text
    assert "\nnow  " not in text
    assert "took " in text


def test_show_of_a_failed_run_says_why(ran: Site) -> None:
    text = ran.here("show", "last", *STORE).out
    assert "FAILED  ValueError: the site has no pages" in text


def test_show_of_a_failed_run_says_how_to_go_on(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.here("run", "site_app:harness:fails_in_a_call").code == 1
    text = site.here("show", "last", *STORE).out
    assert "Mend the cause. Then resume it: lose.1, which it failed with, is made again" in text
    assert "Catch it" not in text, "there is one way out, and not two"
    assert text.rstrip().splitlines()[-1].startswith("  then  jumar resume ")


def test_show_of_a_waiting_run_says_what_to_look_up_where_the_call_may_have_acted(ran: Site) -> None:
    call = json.loads(_show(ran, "--json"))["calls"][-1]
    assert call["idempotency_key"].startswith("jumar-")
    text = _show(ran, COLUMNS="40")
    at = text[text.index("now  ") :].splitlines()
    assert at[1].split(maxsplit=1) == ["call", 'send {"to":"shop"}']
    assert at[2].startswith("  attempt       1, started ")
    assert at[3].split(maxsplit=1) == ["reason", "RuntimeError: the line went dead"]
    assert at[4].split() == ["key", call["idempotency_key"]], "a key is never cut"


def test_show_after_an_answer_says_which_by_whom_and_with_which_note(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.here("run", "site_app:harness:pays")
    words = ("resolve", "last", "pay.1", "--happened", "7", "--by", "ana", "--note", "seen at the bank")
    assert site.here(*words, *STORE).code == 0
    text = site.here("show", "last", *STORE).out
    assert "may have happened" not in text
    line = next(line for line in text.splitlines() if "▲ pay.1" in line)
    assert "happened, says ana" in line
    answered = next(line for line in text.splitlines() if line.startswith("answered"))
    assert answered.startswith("answered pay.1 happened, says ana, at ")
    assert answered.endswith(": seen at the bank")
    (answer,) = site.last()["answers"]
    assert (answer["call_id"], answer["verdict"], answer["value"]) == ("pay.1", "happened", 7)
    assert (answer["by"], answer["note"]) == ("ana", "seen at the bank")


def test_a_call_that_was_uncertain_is_marked_on_a_narrow_screen_too(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.here("run", "site_app:harness:pays")
    site.here("resolve", "last", "pay.1", "--happened", "7", *STORE)
    assert site.here("resume", "last", "--app", "site_app:harness").code == 0
    for columns in ("30", "120"):
        text = site.here("show", "last", *STORE, COLUMNS=columns).out
        line = next(line for line in text.splitlines() if "pay.1" in line)
        assert "✓?" in line
        assert ("was uncertain" in line) is (columns == "120")
        assert "✓? was uncertain" in text, "the legend tells what the sign means"


def test_after_it_did_not_happen_nobody_is_asked_that_again_and_every_command_says_why_it_waits(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.here("run", "site_app:harness:pays").code == 3
    answered = site.here("resolve", "last", "pay.1", "--not-happened", "--app", "site_app:harness")
    assert "what it sent may still act" in answered.out
    assert "\nfrom     " in answered.out
    assert "what it sent may still act" in site.here("show", "last", *STORE).out
    waits = site.here("resume", "last", "--app", "site_app:harness")
    assert waits.code == 6
    shown = site.here("show", "last", *STORE)
    for text in (waits.out, shown.out):
        assert "It waits about pay.1 until" in text
        assert "what it sent may still act" in text
        assert "--not-happened" not in text
    assert "waits for pay.1, can go on in" in site.here("runs", *STORE).out


def test_without_the_app_resolve_says_in_words_from_when_the_run_goes_on(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.here("run", "site_app:harness:pays")
    done = site.here("resolve", "last", "pay.1", "--not-happened", "--json", *STORE)
    assert done.json["resume_from"] is None
    site.here("run", "site_app:harness:pays")
    told = site.here("resolve", "last", "pay.1", "--not-happened", *STORE).out
    assert "from     once it is certain" in told


def test_the_column_of_tasks_is_there_only_where_a_task_has_a_name(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.here("run", "site_app:harness:fine")
    title, row = site.here("runs", *STORE).out.splitlines()
    assert title.split() == ["run", "agent", "status", "step", "updated"]
    assert row.split()[1:3] == ["fine", "completed"]


def test_where_there_are_no_runs_yet_nobody_is_told_to_list_them(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.here("store", "migrate", *STORE)
    done = site.here("show", "last", *STORE)
    assert done.code == 2
    assert "there are no runs yet" in done.err
    assert "jumar runs" not in done.err


def test_runs_lists_the_newest_first_with_why_each_stands_where_it_stands(ran: Site) -> None:
    title, *rows = ran.here("runs", *STORE).out.splitlines()
    assert title.split() == ["run", "agent", "task", "status", "step", "updated"]
    assert [row.split()[1] for row in rows] == ["fails", "fine", "repair"]
    assert "ValueError: the site has no pages" in rows[0]
    assert "B-ro-7" in rows[1]
    assert "asks a person" in rows[2]
    assert "did fix.send.1 happen?" in rows[2]
    at = title.index("status")
    assert [row[at:].split()[0] for row in rows] == ["failed", "completed", "waiting"]


def test_runs_filters_and_says_that_there_are_more(ran: Site) -> None:
    assert "There are more" in ran.here("runs", "--limit", "1", *STORE).out
    assert len(ran.here("runs", "--limit", "1", "--json", *STORE).json) == 1
    assert len(ran.here("runs", "--status", "Completed", "--json", *STORE).json) == 1
    assert ran.here("runs", "--agent", "nobody", "--json", *STORE).json == []
    assert ran.here("runs", "--agent", "nobody", *STORE).out == "There are no such runs.\n"
    wrong = ran.here("runs", "--status", "sleeping", *STORE)
    assert wrong.code == 2
    assert "COMPLETED" in wrong.err


@pytest.mark.parametrize("columns", [30, 50, 80])
def test_no_line_of_the_list_or_of_the_trace_is_longer_than_the_screen(ran: Site, columns: int) -> None:
    for words in (["runs"], ["trace", _waiting_run(ran)]):
        text = ran.here(*words, *STORE, COLUMNS=str(columns)).out
        assert max(map(cell_len, text.splitlines()[1:])) <= columns


def test_on_a_narrow_screen_the_list_of_runs_does_without_steps_and_its_words_are_whole(ran: Site) -> None:
    titles, *rows = ran.here("runs", *STORE, COLUMNS="66").out.splitlines()
    assert titles.split() == ["run", "agent", "task", "status", "updated"]
    assert {word for row in rows for word in row.split() if word in ("waiting", "completed", "failed")} == {
        "waiting",
        "completed",
        "failed",
    }


def test_on_a_narrow_screen_the_trace_does_without_the_time_of_day_and_its_words_are_whole(ran: Site) -> None:
    wide, narrow = (ran.here("trace", _waiting_run(ran), *STORE, COLUMNS=width).out for width in ("80", "70"))
    assert "time (UTC)" in wide and "time (UTC)" not in narrow
    whats = {line["what"] for line in ran.here("trace", _waiting_run(ran), "--json", *STORE).json}
    assert whats == {row.split()[2] for row in narrow.splitlines()[2:]}


def test_trace_is_in_the_order_of_time_with_offset_clock_and_epoch(ran: Site) -> None:
    _, _, *rows = ran.here("trace", _waiting_run(ran), *STORE).out.splitlines()
    offsets = [float(row.split()[0]) for row in rows]
    assert offsets[0] == 0.0
    assert offsets == sorted(offsets)
    assert "created" in rows[0]
    taken = next(row.split() for row in rows if "taken-over" in row)
    assert taken[3:] == ["taken-over", "2"]
    lines: list[dict[str, Any]] = ran.here("trace", _waiting_run(ran), "--json", *STORE).json
    assert len(lines) == len(rows)
    assert {line["what"] for line in lines} >= {"started", "succeeded", "failed", "retry", "requested", "waiting"}


def test_doctor_says_what_it_looked_at_and_that_it_found_nothing(ran: Site) -> None:
    done = ran.here("doctor", *STORE)
    assert done.code == 0
    assert "3 runs" in done.out
    assert "nothing wrong" in done.out
    report = ran.here("doctor", "--json", *STORE).json
    assert report["sound"] is True
    assert report["runs"] == 3
    assert report["findings"] == report["recovery"] == []


def test_store_migrate_says_from_which_schema_to_which(tmp_path: Path) -> None:
    site = Site(tmp_path)
    first = site.here("store", "migrate", "--json", "--store", "sqlite:///fresh.db").json
    assert first["before"] == 0
    assert first["after"] >= 1
    with sqlite3.connect(tmp_path / "fresh.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (first["after"],)
    connection.close()
    again = site.here("store", "migrate", "--store", "sqlite:///fresh.db")
    assert again.code == 0
    assert "as it was" in again.out


def test_a_look_at_a_mistyped_path_makes_no_database(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for words in (
        ["runs"],
        ["show", "last"],
        ["trace", "last"],
        ["doctor"],
        ["resolve", "last", "a.1", "--not-happened"],
    ):
        done = site.here(*words, "--store", "sqlite:///mistyped.db")
        assert done.code == 2
        assert "there is no store at mistyped.db" in done.err
    assert not (tmp_path / "mistyped.db").exists()


def test_a_run_whose_process_is_gone_is_shown_as_such_with_the_command_that_takes_it_over(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.jumar("run", "site_app:quick:dies").code == -signal.SIGKILL
    taken = site.here("resume", "last", "--app", "site_app:quick", "--json")
    assert taken.json["output"] == "came back"
    holder = site.start("run", "site_app:harness:holds_and_pays")
    try:
        site.await_file("paying")
        shown = site.here("show", "last", *STORE).out
        assert "under way" in shown
        holder.kill()
        holder.communicate(timeout=SECONDS)
        with sqlite3.connect(tmp_path / "runs.db") as connection:
            connection.execute("UPDATE run SET lease_until = 0")  # what time would do
        connection.close()
        shown = site.here("show", "last", *STORE).out
        assert "sent, and its answer never recorded" in shown
        assert "its lease ran out" in shown
        assert "jumar resume" in shown
        assert "its process has gone; resume it" in site.here("runs", *STORE).out
    finally:
        holder.kill()
        holder.communicate()
