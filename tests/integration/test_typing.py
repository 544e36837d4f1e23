"""The types of a user's tools, models and agents flow through, as mypy --strict sees them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import jumar

RIGHT = """\
from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, assert_type

import jumar
from jumar import AsyncRun, Happened, Harness, NotHappened, Run, RunResult, Tool, Unknown, Usage
from jumar.harness.results import RunView

harness = Harness("memory:", lease_ttl=5)


@dataclass
class Hit:
    line: str


@dataclass
class Plan:
    files: list[str]


@harness.tool(effect="read")
def plain(query: str) -> list[Hit]:
    return [Hit(query)]


@harness.tool(effect="external", retries=1, timeout=2.0, errors=(ValueError,), not_applied=[KeyError], settle=1)
def pay(invoice: str, cents: int, *, note: str = "") -> float:
    return 0.5


@pay.probe
def _(invoice: str, cents: int, note: str) -> Happened[float] | NotHappened | Unknown:
    return Happened(0.5)


@jumar.tool(effect="idempotent")
async def fetch(url: str) -> bytes:
    return b""


@jumar.tool(effect="read")
def lone(number: int) -> int:
    return number


def model(prompt: str) -> str:
    return prompt


async def amodel(prompt: str) -> str:
    return prompt


@harness.agent(tools=[plain, pay, lone])
def agent(run: Run, task: str) -> Plan:
    assert_type(run.call(plain, "x"), list[Hit])
    assert_type(run.call(pay, "i", 5, note="n"), float)
    assert_type(run.call(pay, invoice="i", cents=5), float)
    assert_type(plain("x"), list[Hit])
    assert_type(lone(1), int)
    assert_type(run.call(pay.using(timeout=5, retries=0, key="k"), "i", 5), float)
    assert_type(run.decide(model, task), str)
    assert_type(run.decide(model, task, returns=Plan), Plan)
    assert_type(run.decide(model, task, returns=Plan, key="k", retries=1, timeout=3), Plan)
    assert_type(run.gather(plain.bind("a"), pay.bind("i", 1)), tuple[list[Hit], float])
    assert_type(run.gather(plain.bind("a"), lambda: 5, lone.bind(1)), tuple[list[Hit], int, int])
    assert_type(run.gather(*[plain.bind(word) for word in "abcd"]), tuple[list[Hit], ...])
    assert_type(run.map(plain, ["a", "b"]), list[list[Hit]])
    assert_type(run.map(lone, [1, 2]), list[int])
    assert_type(run.map(pay, [("i", 1), ("j", 2)]), list[float])
    assert_type(run.value("now", 5), int)
    assert_type(run.value("now", lambda: "x"), str)
    assert_type(run.record("tool", "name", {"a": 1}, lambda: 5, usage=Usage(1, 2)), int)
    with run.step("scan") as step:
        assert_type(step.path, str)
    run.plan(["scan"], files=["a"])
    run.checkpoint("before", refs=["claim:c"])
    assert_type(run.id, str)
    assert_type(run.recovered, bool)
    return Plan([])


@harness.agent
async def anagent(run: AsyncRun, task: str) -> Plan:
    assert_type(await run.call(fetch, "u"), bytes)
    assert_type(await run.call(plain, "x"), list[Hit])
    assert_type(await fetch("u"), bytes)
    assert_type(await run.call(fetch.using(timeout=1), "u"), bytes)
    assert_type(await run.decide(amodel, task), str)
    assert_type(await run.decide(model, task), str)
    assert_type(await run.decide(amodel, task, returns=Plan), Plan)
    assert_type(await run.value("now", lambda: 5), int)
    assert_type(await run.map(fetch, ["a"]), list[bytes])
    assert_type(await run.map(plain, ["a"]), list[list[Hit]])
    assert_type(await run.gather(fetch.bind("u"), plain.bind("x")), tuple[bytes, list[Hit]])
    async with run.step("scan"):
        pass
    await run.plan(["scan"])
    await run.checkpoint("before")
    return Plan([])


tool: Tool[[str], list[Hit]] = plain
assert_type(harness.run(agent, "x"), RunResult[Plan])
assert_type(harness.run(agent, "x").unwrap(), Plan)
assert_type(harness.run(anagent, "x").unwrap(), Plan)


async def main() -> None:
    assert_type(await harness.arun(anagent, "x"), RunResult[Plan])
    assert_type(await harness.arun(agent, "x"), RunResult[Plan])
    assert_type(await harness.ashow("last"), RunView)
"""

WRONG = """\
from __future__ import annotations

from jumar import AsyncRun, Harness, Run

harness = Harness("memory:")


@harness.tool(effect="read")
def search(query: str, limit: int = 5) -> list[str]:
    return [query]


@harness.tool(effect="read")
async def fetch(url: str) -> bytes:
    return b""


def model(prompt: str) -> str:
    return prompt


@harness.agent
def agent(run: Run, task: str) -> int:
    run.call(search, 5)  # error
    run.call(search)  # error
    run.call(search, "x", limit="y")  # error
    run.call(search, "x", offset=1)  # error
    search(5)  # error
    search.bind(5)  # error
    search.using(timeout="x")  # error
    search.using(speed=5)  # error
    run.call(search.using(key="k"), 5)  # error
    run.map(search, [1, 2])  # error
    run.map(search, [(1, 2)])  # error
    run.gather(5)  # error
    length: int = run.call(search, "x")  # error
    number: int = run.decide(model, task)  # error
    plan: str = run.decide(model, task, returns=int)  # error
    run.call(model, "x")  # error
    run.plan([1])  # error
    run.checkpoint(5)  # error
    run.checkpoint("x", refs=[5])  # error
    run.context = {}  # error
    run.id = "x"  # error
    return 5


@harness.agent
async def anagent(run: AsyncRun, task: str) -> int:
    await run.call(fetch, 5)  # error
    await run.map(fetch, [5])  # error
    await run.gather(5)  # error
    text: str = await run.call(fetch, "u")  # error
    run.call(fetch, "u")  # error
    return 5


@harness.tool(effect=5)  # error
def one() -> None: ...


@harness.tool(effect="read", retries="2")  # error
def two() -> None: ...

harness.run(agent, 5)  # error
output: str = harness.run(agent, "x").unwrap()  # error
harness.run(agent, "x", run_id=5)  # error
harness.run(5, "x")  # error
harness.resume(5)  # error
harness.run(anagent, 5)  # error
Harness("memory:", lease_ttl="x")  # error
"""


def mypy(folder: Path, code: str) -> list[str]:
    """What mypy finds in some code, as its lines."""
    snippet = folder / "snippet.py"
    snippet.write_text(code, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(folder / "cache")]
    environment = os.environ | {"MYPYPATH": str(Path(jumar.__file__).parents[1])}
    done = subprocess.run([*command, snippet.name], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1) and not done.stderr, done.stderr + done.stdout
    return done.stdout.splitlines()


def test_the_types_of_tools_models_and_agents_reach_their_callers(tmp_path: Path) -> None:
    assert mypy(tmp_path, RIGHT) == []


def test_every_wrong_type_is_an_error_and_nothing_else_is(tmp_path: Path) -> None:
    found = {int(line.split(":")[1]) for line in mypy(tmp_path, WRONG) if ": error: " in line}
    marked = {number for number, line in enumerate(WRONG.splitlines(), 1) if re.search(r"# error$", line)}
    assert len(marked) > 30
    assert found == marked
