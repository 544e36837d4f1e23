"""What a person sees on a terminal: colours that mean something, a line that moves, and nothing longer than it."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from tests.integration.cli_helpers import SECONDS, Site, Terminal

STORE = ("--store", "sqlite:///runs.db")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _styles(text: str) -> set[str]:
    """The colour codes in a text, but for bold, dim and the end of a style."""
    return {code for codes in _COLOURS.findall(text) for code in codes[2:-1].split(";")} - {"0", "1", "2"}


def test_colour_is_for_terminals_without_no_color(site: Site) -> None:
    site.here("run", "site_app:harness:fails")
    assert {"31", "32"} <= _styles(Terminal(site, 100, "show", "last", *STORE).end())
    assert _styles(Terminal(site, 100, "show", "last", *STORE, NO_COLOR="1").end()) == set()
    assert "\x1b" not in site.here("show", "last", *STORE).out


def test_an_error_is_coloured_and_wrapped_on_a_terminal(site: Site) -> None:
    text = Terminal(site, 60, "run", "site_app:harness:fine", "--input", "mend the site").end()
    assert {"31", "32", "36"} <= _styles(text)
    lines = _CODES.sub("", text).splitlines()
    assert max(map(len, lines)) <= 60
    hint = [line for line in lines if line.startswith(" " * 15)]
    assert len(hint) >= 2, "the hint goes on under itself"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_timeline_fits_the_terminal(site: Site, columns: int) -> None:
    site.here("run", "site_app:harness:fails")
    lines = _CODES.sub("", Terminal(site, columns, "show", "last", *STORE).end()).splitlines()
    commands = [line for line in lines if " jumar " in line]  # they are copied whole
    assert max(len(line) for line in lines if line not in commands) <= columns


def test_a_run_that_takes_its_time_says_for_how_long_and_clears_the_line_at_its_end(site: Site) -> None:
    terminal = Terminal(site, 80, "run", "site_app:harness:holds")
    try:
        seen = terminal.read_until(": 3 s")
        assert re.search(r"running holds, run [0-9a-f]{8}: 2 s", seen)
        site.go()
        rest = terminal.end().removeprefix(seen)
    finally:
        terminal.process.kill()
    assert "\x1b[2K" in rest
    assert "COMPLETED" in rest
    assert terminal.process.returncode == 0


def test_ctrl_c_leaves_the_terminal_with_its_cursor_and_a_way_on(site: Site) -> None:
    terminal = Terminal(site, 80, "run", "site_app:harness:holds")
    try:
        terminal.read_until(": 2 s")
        terminal.process.send_signal(signal.SIGINT)
        text = terminal.end()
    finally:
        terminal.process.kill()
    assert terminal.process.returncode == 130
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "Traceback" not in text
    assert "jumar resume" in text


def test_a_long_error_is_shown_whole_on_lines_of_its_own(site: Site) -> None:
    site.here("run", "site_app:harness:fails_at_length")
    lines = _CODES.sub("", Terminal(site, 60, "show", "last", *STORE).end()).splitlines()
    at = lines.index("status   FAILED")
    assert lines[at + 1].startswith("error    ValueError: page one is missing")
    told = " ".join(line[9:] for line in lines[at + 1 : lines.index("")])
    assert "page one is missing, and so are pages two, three, four, five, six, seven, eight and nine" in told


def test_a_resume_that_waits_for_a_lease_says_whose_and_how_long(site: Site) -> None:
    holder = site.start("run", "site_app:harness:holds_and_pays")
    try:
        site.await_file("paying")
        holder.kill()
        holder.communicate(timeout=SECONDS)
        terminal = Terminal(site, 80, "resume", "last", "--app", "site_app:harness")
        try:
            seen = terminal.read_until("to run out: ")
            assert re.search(rf"waiting for the lease of [^ ]+/{holder.pid} to run out: ", seen)
            terminal.process.send_signal(signal.SIGINT)
            text = _CODES.sub("", terminal.end())
        finally:
            terminal.process.kill()
        assert terminal.process.returncode == 130
        assert f"/{holder.pid} still drives run" in text
    finally:
        holder.kill()
        holder.communicate()


def test_without_a_terminal_the_wait_is_one_line_in_the_log(site: Site) -> None:
    holder = site.start("run", "site_app:harness:holds_and_pays")
    try:
        site.await_file("paying")
        holder.kill()
        holder.communicate(timeout=SECONDS)
        resume = site.start("resume", "last", "--app", "site_app:harness")
        try:
            assert resume.stderr is not None
            line = resume.stderr.readline()
            assert re.fullmatch(rf"waiting for the lease of [^ ]+/{holder.pid} to run out: \d+ s\n", line)
            resume.send_signal(signal.SIGINT)
            out, err = resume.communicate(timeout=SECONDS)
        finally:
            resume.kill()
            resume.communicate()
        assert resume.returncode == 130
        assert "waiting" not in err
        assert out == ""
    finally:
        holder.kill()
        holder.communicate()
