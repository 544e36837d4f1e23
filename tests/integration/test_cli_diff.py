"""Comparing a run's files from the command line: which paths differ, in what, and small texts line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli_desk import refused
from tests.integration.cli_files import STORE, Office
from tests.integration.cli_helpers import Terminal


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def _rows(text: str) -> list[list[str]]:
    """The table's rows, in words."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("what "))
    rows = [line.split() for line in lines[first + 1 :]]
    return rows[: rows.index([])] if [] in rows else rows


def test_the_files_at_a_checkpoint_are_compared_with_those_of_now(office: Office) -> None:
    run = office.begin("mends")
    done = office.here("diff", run, "0", *STORE)
    assert done.code == 0
    assert f"run      {run}" in done.out
    assert "files    1 added, 1 changed" in done.out
    assert _rows(done.out) == [
        ["changed", "5", "->", "4", "0644", "conf/a.ini"],
        ["added", "4", "0644", "conf/b.ini"],
    ]


def test_a_point_may_be_a_version_a_name_or_what_the_agent_called_it(office: Office) -> None:
    run = office.begin("mends")
    points = {each["version"]: each["name"] for each in office.view(run)["checkpoints"]}
    last = max(points)
    by_label = office.here("diff", run, "before restart", str(last), "--json", *STORE).json
    (version,) = [number for number, name in points.items() if name == by_label["names"][0]]
    assert by_label == office.here("diff", run, points[version], points[last], "--json", *STORE).json
    assert by_label == office.here("diff", run, str(version), str(last), "--json", *STORE).json
    assert (by_label["a"], by_label["b"]) == (version, last)
    changed, added = by_label["changes"]
    assert (changed["path"], changed["what"], changed["text"]) == ("conf/a.ini", "changed", None)
    assert changed["before"]["digest"] != changed["after"]["digest"]
    assert (added["path"], added["what"], added["before"]) == ("conf/b.ini", "added", None)
    backwards = office.here("diff", run, str(last), str(version), "--json", *STORE).json
    assert [each["what"] for each in backwards["changes"]] == ["changed", "deleted"]


def test_small_texts_are_compared_line_by_line_where_that_is_asked_for(office: Office) -> None:
    run = office.begin("mends")
    (office.site / "raw").write_bytes(b"\0\1")
    (office.site / "conf" / "b.ini").write_text("new\nand \x1b[31m more")
    done = office.here("diff", run, "before restart", "--text", *STORE)
    assert "--- a/conf/a.ini\n+++ b/conf/a.ini\n@@ -1 +1 @@\n-one\n+two\n" in done.out
    assert "--- /dev/null\n+++ b/conf/b.ini\n@@ -0,0 +1,2 @@\n+new\n+and \\x1b[31m more\n\\ No newline" in done.out
    assert "raw: not compared line by line: it is binary, or too long" in done.out
    texts = [each["text"] for each in office.here("diff", run, "0", "--text", "--json", *STORE).json["changes"]]
    assert texts[0].startswith("--- a/conf/a.ini\n+++ b/conf/a.ini\n")
    assert texts[2] is None


def test_modes_links_folders_and_what_is_replaced_are_told(office: Office) -> None:
    run = office.begin("mends")
    (office.site / "conf" / "a.ini").chmod(0o600)
    (office.site / "conf" / "b.ini").unlink()
    (office.site / "conf" / "b.ini").symlink_to("a.ini")
    (office.site / "empty").mkdir(mode=0o750)
    done = office.here("diff", run, str(max(each["version"] for each in office.view(run)["checkpoints"])), *STORE)
    assert "files    1 added, 1 with another mode, 1 replaced" in done.out
    assert _rows(done.out) == [
        ["mode", "4", "0644", "->", "0600", "conf/a.ini"],
        ["replaced", "4", "0644", "conf/b.ini", "->", "a.ini"],
        ["added", "0750", "empty/"],
    ]


def test_only_the_paths_that_are_asked_for_are_compared(office: Office) -> None:
    run = office.begin("mends")
    done = office.here("diff", run, "0", "--paths", "conf/b*", "--paths", "elsewhere", "--json", *STORE)
    assert [each["path"] for each in done.json["changes"]] == ["conf/b.ini"]
    nothing = office.here("diff", run, "0", "--paths", "elsewhere", *STORE)
    assert (nothing.code, "files    nothing differs" in nothing.out) == (0, True)


def test_looking_at_a_run_and_its_files_changes_none_of_them(office: Office) -> None:
    run = office.begin("mends")
    before = office.files(), {path.stat().st_mtime_ns for path in office.site.rglob("*")}
    for words in (("diff", run, "0", "--text"), ("show", run, "--all"), ("runs",)):
        assert office.here(*words, *STORE).code == 0
    assert (office.files(), {path.stat().st_mtime_ns for path in office.site.rglob("*")}) == before


def test_what_is_no_point_of_the_run_is_refused_with_those_that_are(office: Office) -> None:
    run = office.begin("mends")
    refused(office.here("diff", run, "77", *STORE), "no checkpoint was kept at version 77")
    refused(office.here("diff", run, "0", "never", *STORE), "has no checkpoint 'never'")
    refused(office.here("diff", run, "0", "--paths", "../x", *STORE), "'../x' is no path inside the workspace")
    refused(office.here("diff", run, *STORE), "Missing argument 'A'")
    twice = office.begin("bare:looks")
    refused(office.here("diff", twice, "0", *STORE), "has no workspace, so there are no files to compare")


def test_another_folder_than_the_runs_own_is_refused_with_the_way_to_work_there(office: Office) -> None:
    run = office.begin("mends")
    (office.folder / "copy").mkdir()
    done = office.here("diff", run, "0", "--workspace", "copy", *STORE)
    refused(done, f"works on the files of {office.site}, and not of copy")
    assert f"`jumar fork {run[-8:]} --at VERSION --workspace copy" in " ".join(done.err.split())
    assert office.here("diff", run, "0", "--workspace", "site", *STORE).code == 0
    refused(office.here("resume", run, "--workspace", "copy"), "and not of copy")


def test_on_a_terminal_lines_are_coloured_and_paths_are_whole(office: Office) -> None:
    run = office.begin("mends")
    long = "a-name-that-is-longer-than-the-terminal-is-wide.ini"
    (office.site / long).write_text("x\n")
    text = Terminal(office, 40, "diff", run, "0", "--text", *STORE).end()
    assert long in text.replace("\r\n", "")
    assert "\x1b[32m+two" in text
    assert "\x1b[31m-zero" in text
    plain = Terminal(office, 40, "diff", run, "0", "--text", *STORE, NO_COLOR="1").end()
    assert "\x1b[3" not in plain
