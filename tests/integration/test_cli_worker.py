"""`jumar worker` as a person, and as a program, sees it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli_desk import Desk, refused
from tests.integration.cli_helpers import SECONDS, Done, Terminal

_CLOCK = re.compile(r"^\d\d:\d\d:\d\d  ")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    (tmp_path / "shop.py").write_text(SHOP)
    made.environment["JUMAR_APP"] = "shop:harness"
    return made


SHOP = """
import sys
from pathlib import Path

from jumar import Harness

harness = Harness("sqlite:///runs.db")
empty = Harness("sqlite:///runs.db")


@harness.agent
def fine(run, task):
    print("a word of the agent's own")
    return {"task": task}


@harness.agent
def fails(run, task):
    raise ValueError("the site has no pages")


@harness.agent
def asks(run, task):
    return run.ask("Restart now?", choices=["yes"])


@harness.agent
def leaves(run, task):
    sys.exit(3)


@empty.tool(effect="read")
def look(page: int) -> int:
    return page
"""

START = """
import sys, shop
for agent in sys.argv[1:]:
    print(shop.harness.start(agent, 7))
shop.harness.close()
"""


def _begin(desk: Desk, *agents: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", START, *agents],
        cwd=desk.folder,
        env=desk.environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return done.stdout.split()


def _lines(done: Done) -> list[str]:
    """The lines it printed of runs and of itself, each of which begins with the time of day."""
    lines = [line for line in done.out.splitlines() if line != "a word of the agent's own"]
    assert all(_CLOCK.match(line) for line in lines), done.out
    return [_CLOCK.sub("", line) for line in lines]


def test_each_run_has_a_line_where_it_is_taken_up_and_one_where_it_is_left(desk: Desk) -> None:
    fine, fails, asks, leaves = _begin(desk, "fine", "fails", "asks", "leaves")
    done = desk.here("worker", "shop:harness", "--once", "--concurrency", "1")
    assert (done.code, done.err) == (0, "")
    first, *lines, last = _lines(done)
    assert first == "working on sqlite:///runs.db: 1 run at a time, of asks, fails, fine, leaves"
    assert last == "ended: 4 runs taken up, 1 completed, 2 failed, 1 waiting"
    words = [line.split()[:3] for line in lines]
    for run_id, agent, left in (
        (fine, "fine", "completed"),
        (fails, "fails", "failed"),
        (asks, "asks", "waiting"),
        (leaves, "leaves", "failed"),
    ):
        at = words.index([run_id[-8:], agent, "taken"])
        assert words[at + 1] == [run_id[-8:], agent, left]
    told = {line.split()[1]: line for line in lines}
    assert told["fine"].endswith('  {"task":7}')
    assert told["fails"].endswith("  ValueError: the site has no pages")
    assert told["leaves"].endswith("  AgentExited: the agent left by SystemExit")
    assert "asks a person" in told["asks"] and "Restart now?" in told["asks"]
    assert len({line.index(line.split()[1]) for line in lines}) == 1, "the columns stand under each other"


def test_a_run_that_is_taken_up_again_says_so(desk: Desk) -> None:
    (run_id,) = _begin(desk, "asks")
    assert desk.here("worker", "--once").code == 0
    assert desk.here("answer", run_id, "ask.1", "yes").code == 0
    done = desk.here("worker", "--once")
    assert f"{run_id[-8:]}  asks                  taken up    again" in _lines(done)


def test_in_json_each_line_is_an_object_and_what_agents_print_is_not_among_them(desk: Desk) -> None:
    (run_id,) = _begin(desk, "fine")
    done = desk.here("worker", "--once", "--json")
    assert done.code == 0
    told = [json.loads(line) for line in done.out.splitlines()]
    assert all(isinstance(each.pop("at"), int) for each in told)
    assert [each["event"] for each in told] == ["started", "taken-up", "left", "ended"]
    assert told[0] == {
        "event": "started",
        "store": "sqlite:///runs.db",
        "agents": ["asks", "fails", "fine", "leaves"],
        "concurrency": 4,
    }
    assert told[1] == {"event": "taken-up", "run_id": run_id, "agent": "fine", "epoch": 1, "crashes": 0}
    assert (told[2]["run_id"], told[2]["status"], told[2]["output"]) == (run_id, "COMPLETED", {"task": 7})
    assert (told[3]["taken_up"], told[3]["left"]) == (1, {"COMPLETED": 1})
    assert "a word of the agent's own" in done.err


def test_an_app_may_be_given_in_any_of_three_ways_and_has_to_be_given(desk: Desk) -> None:
    for words in (("shop:harness",), ("--app", "shop:harness"), ("shop.py:harness",), ()):
        assert desk.here("worker", *words, "--once").code == 0
    without = desk.here("worker", "--once", JUMAR_APP="")
    refused(without, "a worker needs the agents' code")
    assert "jumar worker shop:harness" in " ".join(without.err.split())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nowhere:harness",), "there is no module nowhere"),
        (("shop:empty",), "the harness has no agents"),
        (("shop",), "'shop' is no MODULE:HARNESS"),
        (("--concurrency", "0"), "0 is not in the range"),
        (("--poll", "0"), "0.0 is not in the range"),
        (("--grace", "-1"), "-1.0 is not in the range"),
        (("--max-crashes", "0"), "0 is not in the range"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_worked_with_is_refused(desk: Desk, words: tuple[str, ...], why: str) -> None:
    done = desk.here("worker", *words, "--once")
    assert done.code == 2
    assert why in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert done.out == "", "it does not say first that it works"


def test_warnings_are_written_to_standard_error(desk: Desk) -> None:
    assert desk.here("run", "desk:other:elsewhere", "--json").code == 3
    run_id = desk.here("runs", "--json").json[0]["run_id"]
    assert desk.here("answer", run_id, "ask.1", "yes").code == 0
    done = desk.jumar("worker", "--once")  # not in this process, whose logging is pytest's
    assert done.code == 0
    assert _CLOCK.sub("", done.err) == (
        "warning: runs of elsewhere are left alone: no agent of that name is known here\n"
    )


def test_on_a_terminal_lines_end_at_its_edge_and_ctrl_c_ends_the_worker(desk: Desk) -> None:
    (run_id,) = _begin(desk, "fails")
    terminal = Terminal(desk, 60, "worker", "--poll", "0.1")
    terminal.read_until("failed")
    os.kill(terminal.process.pid, signal.SIGINT)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.end())
    assert terminal.process.returncode == 0
    assert "stopping" in text and "ended: 1 run taken up, 1 failed" in text
    lines = [line for line in text.splitlines() if run_id[-8:] in line]
    assert len(lines) == 2
    assert max(map(len, lines)) <= 60


def test_a_worker_whose_output_nobody_reads_any_more_ends(desk: Desk) -> None:
    worker = desk.start("worker", "--poll", "0.1")
    assert worker.stdout is not None and worker.stderr is not None
    assert "working on" in worker.stdout.readline()
    worker.stdout.close()
    (run_id,) = _begin(desk, "asks")
    assert (worker.wait(SECONDS), worker.stderr.read()) == (141, "")
    worker.stderr.close()
    assert desk.view(run_id)["run"]["status"] in ("WAITING", "QUEUED")
