"""`jumar resume --due`: whatever can go on by itself goes on, and the exit code tells what needs somebody."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from jumar.cli.exits import worst
from tests.integration.cli_desk import Desk, refused
from tests.integration.cli_helpers import SECONDS, Terminal

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def _due(desk: Desk, agent: str, call: str = "ask.1", value: str = '"yes"', task: str = "null") -> str:
    """A run that has been answered, and can go on."""
    run = desk.begin(agent, task)
    assert desk.here("answer", run, call, value).code == 0
    return run


def test_every_run_that_can_go_on_is_resumed_with_a_line_each_and_0_where_all_are_done(desk: Desk) -> None:
    first, second = _due(desk, "asks"), _due(desk, "asks_type", value="7")
    waits = desk.begin("settles")
    done = desk.here("resume", "--due")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        [first[-8:], "asks", "completed"],
        [second[-8:], "asks_type", "completed"],
    ]
    assert lines[0].endswith('  "yes"')
    assert len({line.index("after") for line in lines}) == 1, "the columns stand under each other"
    assert desk.view(waits)["run"]["status"] == "WAITING"


def test_where_nothing_is_due_it_says_so_and_ends_with_0(desk: Desk) -> None:
    desk.begin("settles")
    done = desk.here("resume", "--due")
    assert (done.code, done.out.splitlines()) == (
        0,
        ["No run of this app can go on by itself.", "asking   1 run waits for a person: jumar requests"],
    )
    in_json = desk.here("resume", "--due", "--json")
    assert (in_json.code, in_json.json) == (0, [])


def test_the_exit_code_is_that_of_the_run_that_needs_somebody_most(desk: Desk) -> None:
    _due(desk, "asks")
    failed = _due(desk, "fails_after")
    waits = desk.begin("settles_two")
    desk.here("approve", waits, "gather:0.pay.1")
    done = desk.here("resume", "--due")
    assert done.code == 1
    lines = {line.split()[0]: line for line in done.out.splitlines()}
    assert "ValueError: the site has no pages" in lines[failed[-8:]]
    assert "asks a person" in lines[waits[-8:]]
    assert "may gather:1.pay.1 be sent?" in lines[waits[-8:]]
    desk.here("approve", waits, "gather:1.pay.1")
    assert desk.here("resume", "--due").code == 0
    assert desk.view(failed)["run"]["status"] == "FAILED", "a failed run is nobody's that is due"
    again = desk.begin("settles_two")
    desk.here("approve", again, "gather:0.pay.1")
    assert desk.here("resume", "--due").code == 3


def test_of_several_codes_damage_and_failure_come_first_and_a_time_last() -> None:
    assert worst([]) == worst([0, 0]) == 0
    order = [5, 1, 4, 2, 3, 7, 6]
    for at, code in enumerate(order):
        assert worst([0, *reversed(order[at:])]) == code


def test_a_run_whose_record_is_damaged_keeps_no_other_from_its_turn(desk: Desk) -> None:
    damaged, sound = _due(desk, "looks_then_asks"), _due(desk, "asks")
    number = "(SELECT run_no FROM run WHERE run_id LIKE ?)"
    desk.set(
        f"UPDATE call SET result = CAST('2' AS BLOB) WHERE tool = 'look' AND run_no = {number}", f"%{damaged[-8:]}"
    )
    done = desk.here("resume", "--due")
    assert done.code == 5
    lines = {line.split()[0]: line for line in done.out.splitlines()}
    assert "IntegrityError: " in lines[damaged[-8:]]
    assert "completed" in lines[sound[-8:]]


def test_paused_runs_and_those_of_other_harnesses_are_left_alone(desk: Desk) -> None:
    paused = _due(desk, "asks")
    foreign = desk.begin("other:elsewhere")
    desk.here("answer", foreign, "ask.1", "yes")
    desk.here("pause", paused)
    done = desk.here("resume", "--due")
    assert (done.code, done.out.splitlines()) == (
        0,
        [
            "No run of this app can go on by itself.",
            "others   1 run can go on, of an agent that this app does not have",
        ],
    )
    assert desk.view(paused)["run"]["status"] == "PAUSED"
    assert desk.here("resume", "--due", "--app", "desk:other").code == 0
    assert desk.view(foreign)["run"]["status"] == "COMPLETED"


def test_a_limit_leaves_the_rest_for_the_next_time(desk: Desk) -> None:
    runs = [_due(desk, "asks") for _ in range(3)]
    assert len(desk.here("resume", "--due", "--limit", "2", "--json").json) == 2
    (last,) = desk.here("resume", "--due", "--limit", "2", "--json").json
    assert last["run_id"] == runs[-1]


def test_in_json_all_results_are_one_list_and_what_agents_print_is_not_in_it(desk: Desk) -> None:
    done, waits = _due(desk, "asks"), desk.begin("settles_two")
    desk.here("approve", waits, "gather:0.pay.1")
    found = desk.here("resume", "--due", "--json").json
    assert {each["run_id"]: each["status"] for each in found} == {done: "COMPLETED", waits: "WAITING"}
    first = next(each for each in found if each["run_id"] == done)
    assert first["output"] == "yes"
    assert set(first) == {
        *("run_id", "agent", "status", "output", "waiting_on", "wake_at", "error_type", "error_message"),
    }


def test_a_question_whose_time_is_over_is_taken_up_with_its_default(desk: Desk) -> None:
    run = desk.begin("asks_until", task="0.01")
    desk.set("UPDATE run SET wake_at = 1")  # whatever the clock says
    found = desk.here("resume", "--due", "--json").json
    assert [(each["run_id"], each["output"]) for each in found] == [(run, "no")]
    assert 'ask.1 took its default, "no"' in desk.here("show", run).out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ((), "resume takes one of RUN and --due"),
        (("last", "--due"), "resume takes one of RUN and --due"),
        (("--due", "--no-wait"), "--no-wait goes with RUN"),
        (("last", "--limit", "3"), "--limit goes with --due"),
        (("--due", "--limit", "0"), "0"),
    ],
)
def test_what_does_not_go_together_is_refused(desk: Desk, words: tuple[str, ...], what: str) -> None:
    refused(desk.here("resume", *words), what)


def test_what_is_due_needs_the_agents_code(desk: Desk) -> None:
    del desk.environment["JUMAR_APP"]
    refused(desk.here("resume", "--due", "--store", "sqlite:///runs.db"), "resume needs the agent's code")


def test_a_failed_run_that_is_resumed_by_its_id_makes_the_call_again_that_it_failed_with(desk: Desk) -> None:
    run = desk.begin("tries_again", code=1)
    assert "Then resume it: mend.1, which it failed with, is made again" in desk.here("show", run).out
    (desk.folder / "mended").touch()
    resumed = desk.here("resume", run, "--json")
    assert (resumed.code, resumed.json["output"]) == (0, "site")
    (call,) = desk.view(run)["calls"]
    assert (call["state"], call["attempt"]) == ("SUCCEEDED", 2)
    assert "reopened" in desk.here("trace", run).out


def test_ctrl_c_stops_after_what_is_told_already(desk: Desk) -> None:
    held = desk.begin("asks_then_holds")
    desk.here("answer", held, "ask.1", "yes")
    process = desk.start("resume", "--due")
    try:
        desk.await_file("held")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert "interrupted after 0 runs; the one under way is left to be resumed" in err
    assert "`jumar resume --due`" in err
    assert "Traceback" not in err


def test_on_a_terminal_a_line_moves_while_a_run_goes_on_and_gives_way_to_what_is_told(desk: Desk) -> None:
    first, held = _due(desk, "asks"), _due(desk, "asks_then_holds")
    terminal = Terminal(desk, 100, "resume", "--due")
    try:
        terminal.read_until("resuming what is due: 2 s")
        desk.go()
        text = terminal.end()
    finally:
        terminal.process.kill()
    lines = [line.strip() for line in _CODES.sub("", text).replace("\r", "\n").splitlines()]
    told = [line.split()[0] for line in lines if "completed" in line]
    assert told == [first[-8:], held[-8:]]
    assert terminal.process.returncode == 0
