"""`jumar demo --loop` as it is: a loop agent's processes, really killed, and what is left on disk afterwards."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness
from jumar.demo import model_loop, run_demo
from jumar.demo.piece_loop import LOOP
from jumar.errors import UsageError
from tests.integration.demo_helpers import (
    PATIENCE,
    Kept,
    counted_again,
    lines,
    python,
    running_in,
    started,
    told,
    with_another,
)

MOMENTS = ["searching site/logs/journal.log", "ordered", "turn 6"]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """Started here and read at the end: most of its time is spent waiting for leases."""
    with started("-m", "jumar", "demo", "--loop", TMPDIR=str(tmp_path_factory.mktemp("story"))) as process:
        yield process


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, story: subprocess.Popen[str]) -> Kept:
    directory = tmp_path_factory.mktemp("demo") / "kept"
    done = python("-m", "jumar", "demo", "--loop", "--json", "--keep", str(directory))
    assert done.returncode == 0, done.stdout + done.stderr
    return Kept(LOOP, directory, json.loads(done.stdout), done)


# --- The figures, and what they are taken from. ---


def test_every_promise_is_kept(kept: Kept) -> None:
    figures = kept.figures
    assert kept.done.stderr == ""
    assert (figures["ok"], figures["problems"], figures["status"]) == (True, [], "COMPLETED")
    assert figures["searches"] == {"promised": 5, "recorded": 4, "counted": 5, "most_for_one": 2}
    assert figures["effects"] == {"promised": 1, "recorded": 1, "counted": 1, "questions": 1}
    assert figures["decisions"] == {"promised": 7, "recorded": 6, "counted": 7, "interrupted": 1}
    assert {row["what"]: (row["promised"], row["counted"]) for row in figures["promises"]} == {
        "searches made": (5, 5),
        "repairs ordered from the service": (1, 1),
        "times the service was asked for it": (1, 1),
        "orders without a place that reached it": (0, 0),
        "times the model was asked": (7, 7),
        "times a report was verified": (2, 2),
        "takeovers by another process": (3, 3),
    }


def test_three_processes_are_killed_and_each_has_a_successor(kept: Kept) -> None:
    takeovers = kept.figures["takeovers"]
    assert [takeover["moment"] for takeover in takeovers] == MOMENTS
    assert {takeover["signal"] for takeover in takeovers} == {"SIGKILL"}
    assert len(set(processes(kept))) == 4
    assert running_in(kept.directory) == []


def processes(kept: Kept) -> list[int]:
    """The four that drove the run, in order."""
    takeovers = kept.figures["takeovers"]
    return [takeovers[0]["killed"], *(takeover["successor"] for takeover in takeovers)]


def seen(kept: Kept, what: str) -> list[tuple[str, int]]:
    """What the witness saw of a kind: the detail, and which of the four processes it was."""
    order = processes(kept)
    found = lines(kept.directory / "witness.jsonl")
    return [(line["detail"], order.index(line["pid"]) + 1) for line in found if line["what"] == what]


def test_only_the_search_that_was_cut_off_is_made_again(kept: Kept) -> None:
    searches = seen(kept, "search")
    first = [detail for detail, process in searches if process == 1]
    assert len(first) == len(set(first)) == 3
    (again,) = [detail for detail in first if detail.endswith("journal.log")]
    assert [(detail, process) for detail, process in searches if process != 1] == [
        (again, 2),
        ('"sdb" in site/config/machine.json', 2),
    ]


def test_the_model_is_asked_again_only_where_its_answer_was_lost(kept: Kept) -> None:
    assert seen(kept, "decision") == [
        ("turn 1", 1),
        ("turn 2", 2),
        ("turn 3", 2),
        ("turn 4", 2),
        ("turn 5", 3),
        ("turn 6", 3),
        ("turn 6", 4),
    ]


def test_a_report_that_was_sent_back_is_not_verified_again_by_the_next_process(kept: Kept) -> None:
    (first, early), (second, late) = seen(kept, "verdict")
    assert (early, late) == (3, 4)
    assert kept.figures["output"]["order"] not in first
    assert kept.figures["output"]["order"] in second == kept.figures["output"]["advice"]["text"]


def test_the_service_took_one_order_with_its_place_and_was_then_asked_about_it_once(kept: Kept) -> None:
    order, question = lines(kept.directory / "service.jsonl")
    assert (order["what"], question["what"]) == ("order", "question")
    assert '"device": "sdb"' in order["place"]
    assert question["key"] == order["key"]
    assert question["number"] == order["number"] == kept.figures["output"]["order"]


def test_the_run_that_is_kept_is_whole(kept: Kept) -> None:
    with Harness(kept.figures["store"]) as harness:
        view = harness.show(kept.figures["run_id"])
        trace = harness.trace(kept.figures["run_id"])
        assert harness.doctor().sound
    assert (view.run.run_id, view.run.status, view.run.epoch) == (kept.figures["run_id"], "COMPLETED", 4)
    assert {call.call_id: (call.state, call.epoch) for call in view.calls} == {
        "turn.decide.1": ("SUCCEEDED", 1),
        "turn.search.1": ("SUCCEEDED", 1),
        "turn.search.2": ("SUCCEEDED", 2),
        "turn.search.3": ("SUCCEEDED", 1),
        "turn#2.decide.1": ("SUCCEEDED", 2),
        "turn#2.order_repair.1": ("FAILED", 2),
        "turn#3.decide.1": ("SUCCEEDED", 2),
        "turn#3.search.1": ("SUCCEEDED", 2),
        "turn#4.decide.1": ("SUCCEEDED", 2),
        "turn#4.order_repair.1": ("SUCCEEDED", 3),
        "turn#5.decide.1": ("SUCCEEDED", 3),
        "turn#5.verify.1": ("SUCCEEDED", 3),
        "turn#6.decide.1": ("SUCCEEDED", 4),
        "turn#6.verify.1": ("SUCCEEDED", 4),
    }
    assert all(call.usage["input_tokens"] > 0 for call in view.calls if call.kind == "decision")
    assert len(view.takeovers) == 3
    assert Counter(line.what for line in trace)["probed"] == 1


def test_the_model_was_told_of_both_its_mistakes(kept: Kept) -> None:
    with Harness(kept.figures["store"]) as harness:
        view = harness.view(kept.figures["run_id"])
    (badly_made,) = view.history[1].results
    assert badly_made.error is not None
    assert "missing a required argument: 'place'" in badly_made.error
    number = kept.figures["output"]["order"]
    assert [turn.verdict for turn in view.history] == [None] * 4 + [f"the advice does not name order {number}", None]


def test_more_than_was_promised_is_a_broken_promise(kept: Kept, tmp_path: Path) -> None:
    assert counted_again(kept).ok

    searched = with_another(kept, "witness.jsonl", "access.log", tmp_path)
    assert "searches made: promised 5, counted 6." in searched.problems
    assert any("access.log' was made 2 times." in problem for problem in searched.problems)
    asked = with_another(kept, "witness.jsonl", "turn 3", tmp_path)
    assert asked.problems == (
        "times the model was asked: promised 7, counted 8.",
        "decision 'turn 3' was made 2 times.",
    )
    paid = with_another(kept, "service.jsonl", '"order"', tmp_path)
    assert re.search(r"repairs ordered from the service +1 +2  BROKEN", told(paid))


# --- Told to a person. ---


def test_a_person_is_told_the_story_without_escape_codes_where_it_is_piped(
    story: subprocess.Popen[str], kept: Kept
) -> None:
    out, errors = story.communicate(timeout=PATIENCE)
    assert (story.returncode, errors) == (0, ""), out + errors
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    assert len(re.findall(r"KILL +Process \d+ is killed", out)) == 5
    assert len(re.findall(r" +\d+ +\d+  kept$", out, re.MULTILINE)) == 7 + 5
    assert len(re.findall(r" 0\d{3} [0-9a-f]{8}  0\d{3} +kept$", out, re.MULTILINE)) == 6
    assert "Nothing is sent; it is told: BadArguments: order_repair: missing a required argument: 'place'" in flat(out)
    assert "is told what is wrong with that: the advice does not name order RD-1041" in flat(out)
    assert "for 6 decisions, although killed 3 times" in flat(out)
    assert "jumar demo --loop --keep DIR" in out


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


# --- The model, and what there is to perform. ---


def asked(**found: list[str]) -> dict[str, Any]:
    """What the model decides once its first searches found so much."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "site"}]
    first = model_loop.complete(messages)["choices"][0]["message"]
    messages.append(first)
    for call in first["tool_calls"]:
        name = Path(json.loads(call["function"]["arguments"])["file"]).stem
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(found.get(name, []))})
    decided: dict[str, Any] = model_loop.complete(messages)["choices"][0]["message"]
    return decided


def test_the_model_decides_from_what_the_searches_found() -> None:
    disk = ["kernel: I/O error, dev sda, sector 8 op 0x0:(READ)"] * 3
    memory = ["kernel: Memory cgroup out of memory: Killed process 1430 (gunicorn) total-vm:1kB"]
    (order,) = asked(journal=disk)["tool_calls"]
    assert json.loads(order["function"]["arguments"]) == {"part": "sda"}
    for journal, action in ((memory, "restart"), (disk[:2], "watch")):
        report = json.loads(asked(journal=journal)["content"])
        assert (report["diagnosis"]["action"], report["order"]) == (action, None)


def test_an_agent_that_the_demonstration_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no agent nobody"):
        run_demo("nobody", keep=str(tmp_path / "never"))
    assert list(tmp_path.iterdir()) == []
