"""The benchmarks run, and compare what they say they compare.  Nothing here looks at a time."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import jumar
from benchmarks.floors import RESULT, Guarded
from benchmarks.loop_floors import Turns
from benchmarks.loops import record_turns
from benchmarks.measuring import Blocks, Figure, quartiles
from benchmarks.report import put_into
from benchmarks.writes import Writes, record_writes
from jumar import Harness, Run

ROOT = Path(__file__).parents[2]
ROWS = {
    "call",
    "call-insert",
    "call-asyncio",
    "call-hot",
    "runs-asyncio",
    "runs-threads",
    "resume",
    "resume-asyncio",
    "loop-turn",
    "loop-turn-external",
    "loop-resume",
    "loop-messages",
    "write-call",
    "disk",
    "import",
    "files",
    "rollback-1000",
    "postgres-call",
    "postgres-call-asyncio",
    "postgres-runs-threads",
    "postgres-runs-asyncio",
    "workers-1",
    "workers-2",
    "takeover-p50",
    "takeover-p99",
    "peer-langgraph-sqlite",
    "peer-langgraph-postgres",
    "peer-dbos-postgres",
    "peer-absurd-postgres",
}
CLOCKS = {"started_at", "ended_at"}


def run_benchmarks(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(jumar.__file__).parents[1])}
    command = [sys.executable, "-m", "benchmarks", "--tiny", "--dir", str(directory), *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


def test_one_run_measures_every_row_against_its_floor(tmp_path: Path) -> None:
    done = run_benchmarks(tmp_path, "--json")
    assert done.returncode in (0, 1), done.stderr
    answer = json.loads(done.stdout)
    figures = {figure["row"]: figure for figure in answer["figures"]}
    assert set(figures) == ROWS
    for name, figure in figures.items():
        assert figure["met"] is (figure["budget"] is None or figure["measured"] <= figure["budget"])
        if figure["unit"] == "x" and figure["spread"] is not None:
            assert figure["measured"] > 0, name
            low, high = figure["spread"]
            assert 0 < low <= high, name
            assert abs(figure["jumar_us"] / figure["floor_us"] - figure["measured"]) < 1e-6, name
    assert {"Python", "SQLite", "filesystem", "fsync", "fdatasync"} <= set(answer["machine"])
    assert list(tmp_path.iterdir()) == [], "the databases were left behind"


def test_a_single_row_is_told_as_markdown(tmp_path: Path) -> None:
    done = run_benchmarks(tmp_path, "--markdown", "--only", "disk")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("| what | at most | measured |"), done.stderr
    assert lines[2].startswith("| bytes on disk a step, history growing | 2,048 bytes |")
    assert lines[3] == ""
    assert lines[-1].startswith("Machine: ")


def rows_in(path: Path, table: str) -> list[dict[str, Any]]:
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    rows = [dict(row) for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1")]
    connection.close()
    return rows


def test_the_guarded_floor_writes_the_rows_that_jumar_writes(tmp_path: Path) -> None:
    guarded = Guarded(tmp_path / "guarded.db")
    guarded.work(guarded.prepare(3))
    guarded.close()
    harness = Harness(f"sqlite:///{tmp_path / 'jumar.db'}")

    @harness.tool(effect="read")
    def read(number: int) -> str:
        return RESULT

    @harness.agent(tools=[read])
    def reader(run: Run, count: int) -> int:
        for number in range(count):
            run.call(read, number)
        return count

    with harness:
        harness.run(reader, 3).unwrap()
    floor, ours = rows_in(tmp_path / "guarded.db", "call"), rows_in(tmp_path / "jumar.db", "call")
    assert len(floor) == 3
    for one, other in zip(floor, ours, strict=True):
        for column in one.keys() - CLOCKS:
            assert one[column] == other[column], column


@pytest.mark.parametrize(("tool", "commits"), [("read", 2), ("send", 3)])
def test_the_floor_of_a_loop_agents_turns_writes_the_rows_that_jumar_writes(
    tmp_path: Path, tool: str, commits: int
) -> None:
    recorded = tmp_path / "jumar.db"
    run_id = record_turns(recorded, tool, 3)
    floor = Turns(tmp_path / "bare.db", recorded, run_id)
    for turns in (1, 2):
        transactions = floor.prepare(turns)
        assert len(transactions) == commits * turns
        floor.work(transactions)
    floor.close()
    bare = tmp_path / "bare.db"
    assert rows_in(bare, "call") == rows_in(recorded, "call")
    assert rows_in(bare, "checkpoint") == rows_in(recorded, "checkpoint")
    assert len(rows_in(bare, "checkpoint")) >= 3
    assert told_of_calls(bare) == told_of_calls(recorded)
    (bare_run,), (our_run,) = rows_in(bare, "run"), rows_in(recorded, "run")
    assert (bare_run["phase"], bare_run["step"] + 1) == (our_run["phase"], our_run["step"])  # it was left at the next


def test_the_floor_of_a_call_that_writes_writes_the_rows_that_jumar_writes(tmp_path: Path) -> None:
    recorded, bare = tmp_path / "recorded" / "runs.db", tmp_path / "bare.db"
    run_id = record_writes(tmp_path / "recorded", 3)
    floor = Writes(bare, recorded, run_id)
    for calls in (1, 2):
        floor.write(floor.prepare(calls), tmp_path / "site.ini", tmp_path / "copy")
    assert (tmp_path / "site.ini").read_bytes() == (tmp_path / "recorded" / "files" / "site.ini").read_bytes()
    floor.close()
    assert rows_in(bare, "call") == rows_in(recorded, "call")
    *kept, at_the_end = rows_in(recorded, "checkpoint")
    assert (rows_in(bare, "checkpoint"), at_the_end["trigger"]) == (kept, "on_task_end")
    assert rows_in(bare, "hold") == rows_in(recorded, "hold") == []
    assert told_of_calls(bare) == told_of_calls(recorded)


def told_of_calls(path: Path) -> list[dict[str, Any]]:
    """The trace's lines about calls, but for their times."""
    return [row | {"at": None} for row in rows_in(path, "event") if row["call_seq"] is not None]


def test_a_round_that_warms_up_is_not_counted() -> None:
    blocks = Blocks("floor", "jumar")
    turns = []
    for side in blocks.turns(2):
        turns.append(side)
        with blocks.timed(side, 10):
            pass
    assert turns == ["floor", "jumar", "jumar", "floor", "floor", "jumar"]
    assert len(blocks.differences("jumar", "floor")) == 2


def test_a_figure_over_its_budget_says_by_how_much() -> None:
    assert Figure("row", "what", "x", 2.0, 3.0).verdict == "not met, by 50%"
    assert Figure("row", "what", "x", 2.0, 2.0).verdict == "met"
    assert Figure("row", "what", "x", None, 9.0).is_met
    assert Figure("row", "what", "x", None, 9.0).verdict == ""
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 4.0)


def test_the_table_takes_the_place_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- end -->\nafter\n", encoding="utf-8")
    put_into(page, "new")
    assert page.read_text(encoding="utf-8") == "before\n<!-- measured -->\nnew\n<!-- end -->\nafter\n"


def test_a_page_without_marks_is_left_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="does not have the marks"):
        put_into(page, "new")
    assert page.read_text(encoding="utf-8") == "no marks"
