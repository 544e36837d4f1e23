"""`jumar demo` as it is: real processes, really killed, and what is left on disk afterwards."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness
from jumar.demo import model
from jumar.demo.piece_plain import PLAIN
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

FIGURES = "import sys; from jumar.demo import run_demo; sys.exit(run_demo(json=True, keep=sys.argv[1]))"
STORY = (
    "import sys; from jumar.demo import run_demo; "
    "sys.exit(run_demo(show=lambda store, run: print('SHOWN', store, run, sys.argv[1])))"
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the story makes, and removes, what it needs."""
    return tmp_path_factory.mktemp("story")


@pytest.fixture(scope="module")
def story(stage: Path) -> Iterator[subprocess.Popen[str]]:
    """Started here and read at the end: most of its time is spent waiting for leases."""
    with started("-c", STORY, "by the callback", TMPDIR=str(stage)) as process:
        yield process


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, story: subprocess.Popen[str]) -> Kept:
    directory = tmp_path_factory.mktemp("demo") / "with a space"
    done = python("-c", FIGURES, str(directory))
    assert done.returncode == 0, done.stdout + done.stderr
    return Kept(PLAIN, directory, json.loads(done.stdout), done)


# --- The figures, and what they are taken from. ---


def test_the_figures_are_all_that_is_printed(kept: Kept) -> None:
    assert kept.done.stderr == ""
    assert kept.done.stdout == json.dumps(kept.figures, indent=2) + "\n"


def test_every_promise_is_kept(kept: Kept) -> None:
    figures = kept.figures
    assert (figures["ok"], figures["problems"], figures["status"]) == (True, [], "COMPLETED")
    assert figures["searches"] == {"promised": 4, "recorded": 4, "counted": 4, "most_for_one": 1}
    assert figures["effects"] == {"promised": 1, "recorded": 1, "counted": 1, "questions": 1}
    assert figures["decisions"] == {"promised": 3, "recorded": 2, "counted": 3, "interrupted": 1}


def test_three_processes_are_killed_and_each_has_a_successor(kept: Kept) -> None:
    takeovers = kept.figures["takeovers"]
    assert [takeover["moment"] for takeover in takeovers] == ["searched", "ordered", "advising"]
    assert {takeover["signal"] for takeover in takeovers} == {"SIGKILL"}
    assert [takeover["killed"] for takeover in takeovers[1:]] == [takeover["successor"] for takeover in takeovers[:-1]]
    assert len({takeover["killed"] for takeover in takeovers} | {takeovers[-1]["successor"]}) == 4
    assert 0 < sum(takeover["seconds"] for takeover in takeovers) < kept.figures["seconds"]


def test_the_figures_say_where_everything_is(kept: Kept) -> None:
    figures = kept.figures
    assert (figures["directory"], figures["kept"]) == (str(kept.directory), True)
    assert figures["store"] == f"sqlite:///{kept.directory}/runs.db"


def test_the_witness_saw_each_search_once_and_only_the_interrupted_decision_twice(kept: Kept) -> None:
    seen = lines(kept.directory / "witness.jsonl")
    searches = Counter(line["detail"] for line in seen if line["what"] == "search")
    assert len(searches) == 4
    assert set(searches.values()) == {1}
    decisions = [(line["detail"], line["pid"]) for line in seen if line["what"] == "decision"]
    pids = [takeover["successor"] for takeover in kept.figures["takeovers"]]
    assert decisions == [("diagnose", pids[0]), ("advise", pids[1]), ("advise", pids[2])]


def test_the_service_took_one_order_and_was_then_asked_about_it_once(kept: Kept) -> None:
    order, question = lines(kept.directory / "service.jsonl")
    assert (order["what"], question["what"]) == ("order", "question")
    assert question["key"] == order["key"]
    assert question["number"] == order["number"] == kept.figures["output"]["order"]


def test_the_run_that_is_kept_is_whole(kept: Kept) -> None:
    with Harness(kept.figures["store"]) as harness:
        view = harness.show(kept.figures["run_id"])
        trace = harness.trace(kept.figures["run_id"])
        assert harness.doctor().sound
        runs = [run.run_id for run in harness.runs()]
    assert sorted(runs) == sorted([kept.figures["run_id"], kept.figures["fix"]["run_id"]])
    assert (view.run.run_id, view.run.status, view.run.epoch) == (kept.figures["run_id"], "COMPLETED", 4)
    assert {call.state for call in view.calls} == {"SUCCEEDED"}
    assert {call.call_id: call.epoch for call in view.calls} == {
        "plan.1": 1,
        "scan.gather:0.search.1": 1,
        "scan.gather:1.search.1": 1,
        "scan.gather:2.search.1": 1,
        "scan.checkpoint.1": 2,
        "diagnose.1": 2,
        "repair.search.1": 2,
        "repair.order_repair.1": 3,
        "advise.1": 4,
    }
    assert all(call.usage["input_tokens"] > 0 for call in view.calls if call.kind == "decision")
    assert ("file:error.log", "file:journal.log", "file:access.log") in [each.refs for each in view.checkpoints]
    assert len(view.takeovers) == 3
    told = Counter(line.what for line in trace)
    assert (told["call-uncertain"], told["probed"]) == (1, 1)


def test_the_site_that_is_searched_is_a_copy_of_the_one_in_the_package(kept: Kept) -> None:
    import jumar.demo

    package = Path(jumar.demo.__file__).parent / "site"
    names = sorted(str(path.relative_to(package)) for path in package.rglob("*") if path.is_file())
    assert [name for name in names if name.startswith("logs/")] == [
        "logs/access.log",
        "logs/error.log",
        "logs/journal.log",
    ]
    assert len(names) == 7
    for name in set(names) - {"config/shop.ini"}:  # which the second act changes
        assert (kept.directory / "site" / name).read_bytes() == (package / name).read_bytes()


def test_no_process_is_left_behind(kept: Kept) -> None:
    assert running_in(kept.directory) == []


# --- Told to a person. ---


def test_a_person_is_told_the_story_without_escape_codes_where_it_is_piped(
    story: subprocess.Popen[str], stage: Path, kept: Kept
) -> None:
    out, errors = story.communicate(timeout=PATIENCE)
    assert (story.returncode, errors) == (0, ""), out + errors
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    kills, takeovers = re.findall(r"KILL +Process \d+ is killed", out), re.findall(r"takes the run over", out)
    assert (len(kills), len(takeovers)) == (5, 5)
    shown = re.findall(r"SHOWN sqlite:///\S+/runs\.db ([0-9a-f-]{36}) by the callback", out)
    assert len(set(shown)) == len(shown) == 2
    assert len(re.findall(r" +\d+ +\d+  kept$", out, re.MULTILINE)) == 6 + 5
    assert len(re.findall(r" 0\d{3} [0-9a-f]{8}  0\d{3} +kept$", out, re.MULTILINE)) == 6
    assert "asked twice, because the first answer was never recorded; recorded once" in out
    assert list(stage.iterdir()) == []
    assert running_in(stage) == []


def test_one_search_too_many_or_a_second_order_is_a_broken_promise(kept: Kept, tmp_path: Path) -> None:
    assert counted_again(kept).ok

    result = with_another(kept, "witness.jsonl", "search", tmp_path)
    assert not result.ok
    assert "searches made: promised 4, counted 5." in result.problems
    assert re.search(r"searches made +4 +5  BROKEN", told(result))
    assert "Not as promised:" in told(result)

    result = with_another(kept, "service.jsonl", "order", tmp_path)
    assert not result.ok
    assert re.search(r"repairs ordered from the service +1 +2  BROKEN", told(result))


def test_what_is_kept_can_be_looked_at_with_the_commands_that_are_printed(kept: Kept) -> None:
    text = told(counted_again(kept))
    assert f"jumar show last --store 'sqlite:///{kept.directory}/runs.db'" in text
    named = re.findall(r"cat '(.*)'", text)
    assert [Path(file).name for file in named] == [
        "witness.jsonl",
        "service.jsonl",
        "fix-witness.jsonl",
        "fix-looks.jsonl",
    ]
    assert all(Path(file).stat().st_size for file in named)


def test_the_model_decides_from_what_the_searches_found() -> None:
    def action(gateway: list[str], journal: list[str], requests: list[str]) -> Any:
        text, usage = model.diagnose(gateway, journal, requests)
        assert usage.output_tokens > 0
        decided = json.loads(text)
        return decided["action"], decided["broken"]

    disk = ["kernel: I/O error, dev sda, sector 8 op 0x0:(READ)"] * 3
    memory = ["kernel: Memory cgroup out of memory: Killed process 1430 (gunicorn) total-vm:1kB"]
    assert action([], disk + memory, []) == ("replace", "sda")
    assert action([], disk[:2] + memory, []) == ("restart", "gunicorn")
    assert action([], disk[:2], []) == ("watch", "")


# --- Where it cannot be done, and where it is cut short. ---


def test_a_directory_with_something_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep this", "utf-8")
    done = python("-m", "jumar.demo", "--keep", str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("name", ["file", "file/below", "\udcff"])
def test_a_place_where_no_directory_can_be_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    done = python("-m", "jumar.demo", "--keep", f"{tmp_path}/{name}")
    assert done.returncode == 2
    assert "cannot be used as a directory" in done.stderr


@contextmanager
def under_way(tmp_path: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A demonstration in a directory below `tmp_path`, in a process group of its own as a shell would start it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jumar.demo", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        process_group=0,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until_told(process: subprocess.Popen[str], shape: str) -> re.Match[str]:
    """Read on until a line of this shape."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(shape, line)
        if found:
            return found
    raise AssertionError(f"{shape} was never told: {process.stderr and process.stderr.read()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_when_it_is_stopped_nothing_is_left_behind(tmp_path: Path, number: signal.Signals) -> None:
    with under_way(tmp_path) as process:
        until_told(process, r"wait +Process (\d+)")
        assert len(running_in(tmp_path)) == 2  # the one that waits, and the service
        os.killpg(process.pid, number)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors == "Stopped. The processes that were started are ended.\n"
    assert running_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_children_end_by_themselves_when_the_demonstration_itself_is_killed(tmp_path: Path) -> None:
    with under_way(tmp_path) as process:
        until_told(process, r"wait +Process (\d+)")
        children = {os.pidfd_open(pid) for pid in running_in(tmp_path)}
        assert len(children) == 2
        process.kill()
        while children:
            ended, _, _ = select.select(children, [], [], PATIENCE)
            assert ended, "a child lives on"
            for descriptor in ended:
                os.close(descriptor)
                children.remove(descriptor)
    assert running_in(tmp_path) == []


def test_a_process_that_is_lost_otherwise_is_told_and_the_evidence_is_kept(tmp_path: Path) -> None:
    with under_way(tmp_path) as process:
        successor = int(until_told(process, r"wait +Process (\d+)")[1])
        os.kill(successor, signal.SIGKILL)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert f"process {successor} ended by itself with exit code -9" in errors
    (left,) = tmp_path.iterdir()
    assert str(left) in errors
    assert (left / "runs.db").exists()
    assert running_in(tmp_path) == []
