"""The brief from the command line: what whoever goes on with a run is told, as prose or as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli_desk import refused
from tests.integration.cli_files import STORE, Office
from tests.integration.cli_helpers import Terminal


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_the_brief_is_printed_as_the_harness_gives_it(office: Office) -> None:
    run = office.begin("mends")
    told = office.here("brief", run, *STORE)
    assert told.code == 0
    data = office.here("brief", run, "--json", *STORE).json
    assert told.out.rstrip("\n") == data["prose"].rstrip("\n")
    assert (data["run_id"], data["lang"]) == (run, "en")
    assert [step["name"] for step in data["done"]] == ["scan", "fix"]
    assert data["files_changed"] == ["conf/a.ini", "conf/b.ini"]


def test_the_brief_can_be_had_in_chinese(office: Office) -> None:
    run = office.begin("mends")
    data = office.here("brief", run, "--lang", "zh", "--json", *STORE).json
    assert data["lang"] == "zh"
    assert any("一" <= character <= "鿿" for character in data["prose"])
    assert office.here("brief", run, "--lang", "zh", *STORE).out.rstrip("\n") == data["prose"].rstrip("\n")
    ascii_only = office.here("brief", run, "--lang", "zh", *STORE, PYTHONIOENCODING="ascii")
    assert ascii_only.code == 0
    assert "\\u" in ascii_only.out
    refused(office.here("brief", run, "--lang", "fr", *STORE), "'fr' is not one of")


def test_on_a_terminal_its_lines_are_wrapped_and_none_is_lost(office: Office) -> None:
    run = office.begin("mends")
    prose = office.here("brief", run, "--json", *STORE).json["prose"]
    shown = Terminal(office, 40, "brief", run, *STORE).end().replace("\r\n", "\n")
    assert shown.split() == prose.split()
    assert max(map(len, shown.splitlines())) <= 40 or any(len(word) > 40 for word in prose.split())


def test_no_run_has_no_brief(office: Office) -> None:
    office.begin("mends")
    refused(office.here("brief", "abcdef", *STORE), "no run's id ends in abcdef")
