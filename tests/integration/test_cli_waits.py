"""What the commands that look show of runs that wait: for whom, since when, and what to type."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.integration.cli_desk import Desk, commands
from tests.integration.cli_helpers import Terminal

_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, dict[str, str]]:
    """A folder with one run for each thing that a run can wait for."""
    desk = Desk(tmp_path_factory.mktemp("waiting"))
    runs = {
        agent: desk.begin(agent, task, code)
        for agent, task, code in [
            ("settles", "null", 3),
            ("settles_many", "null", 3),
            ("asks", "null", 3),
            ("asks_type", "null", 3),
            ("asks_of_many", "null", 3),
            ("asks_until", "3600", 3),
            ("sleeps", "null", 6),
            ("wires", "null", 3),
            ("wires_while_another_sleeps", "null", 3),
            ("posts", "null", 6),
        ]
    }
    runs["books"] = desk.begin("books")
    runs["books too"] = desk.begin("books", code=6)
    return desk, runs


def _now(text: str) -> str:
    """What stands below the timeline: why the run stands still, and the commands."""
    return text[text.index("\nnow ") + 1 :]


def _note(desk: Desk, run: str) -> str:
    (row,) = [line for line in desk.here("runs", COLUMNS="300").out.splitlines() if line.startswith(run[-8:])]
    return row


@pytest.mark.parametrize(
    ("agent", "said", "noted"),
    [
        ("settles", "It waits for a person, since ", "asks a person, "),
        ("settles", "may pay.1 be sent?", ": may pay.1 be sent?"),
        ("asks", "ask.1 asks: Restart now? It takes a minute.", ": Restart now? It takes a minute."),
        ("asks_type", "type    JSON, integer", "日本語"),
        ("asks_of_many", 'choices  "choice 0", "choice 1", ', ": Which?"),
        ("asks_until", 'then the default is taken: "no"', "; its default is taken in "),
        ("sleeps", "It waits: sleep.1 sleeps until ", "sleeps, can go on in "),
        ("wires", "did wire.1 happen?", ": did wire.1 happen?"),
        ("wires_while_another_sleeps", "did gather:0.wire.1 happen?", ": did gather:0.wire.1 happen?"),
        ("wires_while_another_sleeps", "sleep.1 sleeps until ", "asks a person, "),
        ("posts", "when post.1 is tried again: its last attempt came to nothing (NotApplied: come", "can go on in "),
        ("books too", "another call that does the same as book.1: book.1 of run ", "waits for book.1 of run "),
        ("books too", "may have happened; it looks again at ", "can go on in "),
        ("settles_many", "There are 21 more.", ", and 29 more"),
    ],
)
def test_show_and_runs_say_what_a_run_waits_for(
    waiting: tuple[Desk, dict[str, str]], agent: str, said: str, noted: str
) -> None:
    desk, runs = waiting
    assert said in _now(desk.here("show", runs[agent]).out)
    assert noted in _note(desk, runs[agent])


@pytest.mark.parametrize(
    ("agent", "printed"),
    [
        ("settles", ["approve {} pay.1", "approve {} pay.1 --args JSON", "reject {} pay.1", "resume {}"]),
        ("asks_type", ["answer {} ask.1 JSON", "resume {}"]),
        ("asks_of_many", ["answer {} ask.1 JSON", "resume {}"]),
        ("asks_until", ["answer {} ask.1 yes", "answer {} ask.1 no", "resume {}"]),
        ("sleeps", ["resume {}"]),
        (
            "wires",
            [
                "resolve {} wire.1 --happened JSON",
                "resolve {} wire.1 --not-happened",
                "reject {} wire.1",
                "resume {}",
            ],
        ),
        ("posts", ["resume {}"]),
    ],
)
def test_the_commands_are_those_that_answer_and_then_the_one_that_goes_on(
    waiting: tuple[Desk, dict[str, str]], agent: str, printed: list[str]
) -> None:
    desk, runs = waiting
    expected = [f"jumar {command}".format(runs[agent][-8:]) for command in printed]
    assert commands(_now(desk.here("show", runs[agent]).out)) == expected


def test_a_run_that_waits_for_another_says_where_to_look(waiting: tuple[Desk, dict[str, str]]) -> None:
    desk, runs = waiting
    look, resume = commands(_now(desk.here("show", runs["books too"]).out))
    assert look == f"jumar show {runs['books'][-8:]}"
    assert resume.startswith("jumar resume ")
    (call,) = desk.view(runs["books too"])["calls"]
    assert call["held_by"] == {"run_id": runs["books"], "call_id": "book.1", "state": "UNCERTAIN"}


def test_of_many_requests_the_first_are_shown_and_all_with_all(waiting: tuple[Desk, dict[str, str]]) -> None:
    desk, runs = waiting
    short = _now(desk.here("show", runs["settles_many"]).out)
    assert short.count("may map:") == 9
    assert f"jumar show {runs['settles_many'][-8:]} --all" in short
    whole = _now(desk.here("show", runs["settles_many"], "--all").out)
    assert whole.count("may map:") == 30


def test_requests_lists_what_all_runs_ask_with_the_commands_that_answer(
    waiting: tuple[Desk, dict[str, str]],
) -> None:
    desk, runs = waiting
    done = desk.here("requests", "--limit", "100")
    assert done.code == 0
    blocks = done.out.split("\n\n")
    assert len(blocks) == 30 + 8
    assert blocks[0].startswith(f"request  Run {runs['settles'][-8:]} asks, since ")
    assert commands(blocks[0], "approve")[0] == f"jumar approve {runs['settles'][-8:]} pay.1"
    assert "There are more" in desk.here("requests").out
    assert len(desk.here("requests", "--limit", "2", "--json").json) == 2


def test_requests_in_json_have_what_is_asked_and_the_commands(waiting: tuple[Desk, dict[str, str]]) -> None:
    desk, runs = waiting
    found: list[dict[str, Any]] = desk.here("requests", "--limit", "100", "--json").json
    by_run = {each["run_id"]: each for each in found}
    asked = by_run[runs["wires"]]["asked"]
    assert (asked["kind"], asked["call_id"], asked["args"]) == ("resolve", "wire.1", {"cents": 1200})
    assert asked["idempotency_key"] == desk.view(runs["wires"])["calls"][0]["idempotency_key"]
    assert asked["started_at"] > 0
    question = by_run[runs["asks_until"]]["asked"]
    assert (question["question"], question["choices"]) == ("Restart now?", ["yes", "no"])
    assert question["expires_at"] > question["since"]
    assert by_run[runs["asks_until"]]["next"] == [
        f"jumar answer {runs['asks_until'][-8:]} ask.1 yes",
        f"jumar answer {runs['asks_until'][-8:]} ask.1 no",
    ]


def test_where_nobody_is_asked_anything_requests_says_so(desk: Desk) -> None:
    desk.begin("sleeps", code=6)
    assert desk.here("requests").out == "No run asks anybody anything.\n"
    assert desk.here("requests", "--json").json == []


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_on_a_terminal_nothing_but_what_is_copied_is_wider_than_it_chinese_included(
    waiting: tuple[Desk, dict[str, str]], columns: int
) -> None:
    desk, runs = waiting
    for words in (["show", runs["asks_type"]], ["requests", "--limit", "4"], ["runs"]):
        lines = _CODES.sub("", Terminal(desk, columns, *words).end()).splitlines()
        copied = [line for line in lines if " jumar " in line or "jumar-" in line or line.startswith("run   ")]
        assert [line for line in lines if cell_len(line) > columns and line not in copied] == []
        if words[0] == "show":
            told = "".join(line.strip() for line in lines[lines.index("") :])
            assert "日本語のサーバーは何台ですか" * 6 in told, "it is taken apart, and nothing of it is lost"


def test_text_of_a_question_and_of_its_choices_cannot_move_the_cursor(waiting: tuple[Desk, dict[str, str]]) -> None:
    desk, runs = waiting
    for words in (["show", runs["asks"]], ["requests", "--limit", "100"], ["runs"], ["trace", runs["asks"]]):
        assert "\x1b" not in desk.here(*words).out


def test_a_stream_that_knows_ascii_alone_gets_ascii_alone(waiting: tuple[Desk, dict[str, str]]) -> None:
    desk, runs = waiting
    for words in (["show", runs["asks_type"]], ["requests", "--limit", "100"], ["show", runs["settles_many"]]):
        assert desk.here(*words, PYTHONIOENCODING="ascii").out.isascii()


def test_a_question_whose_time_is_over_says_that_the_default_comes_with_the_next_resume(desk: Desk) -> None:
    run = desk.begin("asks_until", task="0.01")
    desk.set("UPDATE run SET wake_at = 1")
    desk.set("UPDATE request SET expires_at = 1")
    text = _now(desk.here("show", run).out)
    assert 'when it is resumed, the default is taken: "no"' in text
    assert re.search(r"  go on +jumar resume ", text)
    assert "; its default can be taken" in _note(desk, run)


def test_a_sleep_that_is_over_says_so(desk: Desk) -> None:
    run = desk.begin("sleeps", code=6)
    desk.set("UPDATE run SET wake_at = 1")
    desk.set("UPDATE call SET result = CAST('1' AS BLOB)")
    text = _now(desk.here("show", run).out)
    assert "It waited: sleep.1 was to sleep until 1970-01-01 00:00:00 UTC" in text
    assert re.search(r"  go on +jumar resume ", text)
    assert "could go on since" in _note(desk, run)


def test_the_timeline_says_of_each_open_call_what_it_waits_for(waiting: tuple[Desk, dict[str, str]]) -> None:
    desk, runs = waiting
    expected = {
        "settles": ("▲ pay.1", "waits for approval"),
        "asks": ("· ask.1", "waits for an answer: Restart now? It takes a minute."),
        "sleeps": ("· sleep.1", "sleeps until "),
        "posts": ("▲ post.1", "to be tried again: NotApplied: come back later"),
        "books too": ("▲ book.1", f"waits for book.1 of run {runs['books'][-8:]}"),
    }
    for agent, (name, said) in expected.items():
        lines = desk.here("show", runs[agent], COLUMNS="200").out.splitlines()
        assert any(line.startswith(name) and said in line for line in lines), agent


def test_trace_tells_requests_answers_orders_and_identities(desk: Desk) -> None:
    run = desk.begin("settles")
    desk.here("pause", run)
    desk.here("approve", run, "pay.1")
    desk.here("resume", run)
    lines = desk.here("trace", run, "--json").json
    told = [(line["what"], line["call_id"], line["detail"]) for line in lines]
    for expected in [
        ("requested", "pay.1", "approval"),
        ("ordered", None, "pause"),
        ("paused", None, ""),
        ("answered", "pay.1", "approve"),
        ("completed", None, ""),
    ]:
        assert expected in told
    holder = desk.begin("books")
    waits = desk.begin("books", code=6)
    assert "identity-held" in desk.here("trace", waits).out
    assert "identity-held" not in desk.here("trace", holder).out


# --- Loop agents, and what is long. -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, str, str]:
    """A loop agent's run of three hundred turns that waits for an approval, and a map of three hundred items."""
    desk = Desk(tmp_path_factory.mktemp("long"))
    return desk, desk.begin("operator", "300"), desk.begin("looks_up", code=0)


def _rows(text: str) -> list[str]:
    lines = text.splitlines()
    first = lines.index("") + 2
    return lines[first : lines.index("", first)]


def test_a_loop_agents_run_is_shown_by_its_turns_with_its_phase(desk: Desk) -> None:
    run = desk.begin("operator", "2")
    text = desk.here("show", run, COLUMNS="160").out
    assert "turn     4, awaiting results" in text
    rows = _rows(text)
    names = [re.split(r"  +[✓✗…?]| {3,}", row.rstrip())[0].rstrip() for row in rows]
    assert names == [
        *("turn", "  ◆ decide.1", "  ○ look.1"),
        *("turn#2", "  ◆ decide.1", "  ○ look.1"),
        *("turn#3", "  ◆ decide.1", "  · verify.1"),
        *("turn#4", "  ◆ decide.1", "  ▲ pay.1", "  ○ fly.1", "  ○ look.1"),
    ]
    assert "12 tokens  calls look: page 1" in rows[1]
    assert 'finishes with "nearly": I think so' in rows[7]
    assert "not accepted: say that it is done" in rows[8]
    assert "calls pay, fly, look" in rows[10]
    assert "waits for approval" in rows[11]
    assert "UnknownTool: there is no tool 'fly'" in rows[12]
    assert "jumar approve" in text
    assert "'turn#4.pay.1'" in text


def test_a_loop_agents_run_goes_on_after_the_approval_and_shows_how_many_turns_it_took(desk: Desk) -> None:
    run = desk.begin("operator", "1")
    assert desk.here("approve", run, "turn#3.pay.1").code == 0
    assert desk.here("resume", run).code == 0
    text = desk.here("show", run).out
    assert "turn     4\n" in text
    assert "accepted" in text
    assert 'output   "done"' in text


def test_three_hundred_turns_are_folded_to_their_ends_and_to_what_stands_out(long: tuple[Desk, str, str]) -> None:
    desk, run, _ = long
    text = desk.here("show", run, COLUMNS="160").out
    rows = _rows(text)
    assert len(rows) <= 100
    folds = [row for row in rows if row.startswith("⋮")]
    assert len(folds) >= 2
    assert re.search(r"⋮ \d+ more .* \d+ calls: \d+ succeeded", folds[0])
    for name in ("turn ", "turn#50 ", "turn#150 ", "turn#250 ", "turn#302 "):  # three have a call that failed
        assert any(row.startswith(name) for row in rows), name
    shown, all_calls = re.search(r"(\d+) of (\d+) calls are shown", text).groups()  # type: ignore[union-attr]
    assert int(all_calls) == len(desk.view(run)["calls"])
    left_out = sum(int(re.search(r"(\d+) calls?:", row)[1]) for row in folds)  # type: ignore[index]
    assert int(shown) + left_out == int(all_calls)
    assert f"jumar show {run[-8:]} --all" in text


def test_with_all_every_turn_is_shown(long: tuple[Desk, str, str]) -> None:
    desk, run, _ = long
    rows = _rows(desk.here("show", run, "--all").out)
    assert not [row for row in rows if "⋮" in row]
    assert len([row for row in rows if row.startswith("turn")]) == 302
    assert json.loads(desk.here("show", run, "--json").out)["run"]["step"] == 302


def test_a_map_of_three_hundred_items_is_folded_around_those_that_failed(long: tuple[Desk, str, str]) -> None:
    desk, _, run = long
    rows = _rows(desk.here("show", run).out)
    assert len(rows) <= 100
    items = [int(found[1]) for row in rows if (found := re.search(r"map:(\d+)\.look", row))]
    assert items[0] == 0
    assert {50, 150, 250} <= set(items)
    assert sum(row.startswith("⋮") for row in rows) == 4
    assert [row.split()[0] for row in rows if row.startswith("night")] == ["night", "night#2", "night#3"]


@pytest.mark.parametrize("columns", [24, 40, 80, 120])
def test_no_folded_row_is_longer_than_the_screen(long: tuple[Desk, str, str], columns: int) -> None:
    desk, *runs = long
    for run in runs:
        rows = _rows(desk.here("show", run, COLUMNS=str(columns)).out)
        assert max(map(cell_len, rows)) <= columns


def test_of_many_answers_the_newest_are_shown(desk: Desk) -> None:
    run = desk.begin("settles_many")
    for at in range(12):
        assert desk.here("approve", run, f"map:{at}.pay.1").code == 0
    text = desk.here("show", run).out
    assert text.count(" approved by ") == 10 + 12, "in the timeline, and below it"
    assert "answered 2 more before these" in text
    assert desk.here("show", run, "--all").out.count(" approved by ") == 12 + 12
