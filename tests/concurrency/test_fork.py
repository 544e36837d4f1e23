"""A forked process leaves its parent's runs and its parent's database alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar import Harness, Run

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def in_child(work: Callable[[], object]) -> str:
    """What `work` says in a forked process: the type and first line of its error, or what it answers."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


def declared(address: str, seen: list[str]) -> Harness:
    """A harness with an agent that pays once for whoever it is given."""
    harness = Harness(address)

    @harness.tool(effect="external")
    def pay(whose: str) -> str:
        seen.append(whose)
        return whose

    @harness.agent
    def agent(run: Run, whose: str) -> str:
        return run.call(pay, whose)

    return harness


@pytest.mark.parametrize("store", ["memory", "file"])
def test_a_run_does_not_go_on_in_a_forked_process(address: str, store: str) -> None:
    seen: list[str] = []
    said: list[str] = []
    with Harness(address if store == "file" else "memory:") as harness:

        @harness.tool(effect="external")
        def pay(whose: str) -> str:
            seen.append(whose)
            return whose

        @harness.agent
        def agent(run: Run, task: str) -> str:
            run.call(pay, "before")
            said.append(in_child(lambda: (run.call(pay, "child"), seen)))
            said.append(in_child(lambda: run.step("scan").__enter__()))
            return run.call(pay, "parent")

        result = harness.run(agent, "x")
        assert result.unwrap() == "parent"
        refusal = f"IllegalTransition: run {result.run_id} cannot go on in a forked process"
        assert [line.partition(";")[0] for line in said] == [refusal, refusal]
        assert [call.call_id for call in harness.show("last").calls] == ["pay.1", "pay.2"]
    assert seen == ["before", "parent"]


def test_a_forked_agent_that_returns_writes_nothing_of_its_parents_run(address: str) -> None:
    with Harness(address) as harness:
        reading, writing = os.pipe()
        parent = os.getpid()

        @harness.agent
        def agent(run: Run, task: str) -> str:
            child = os.fork()
            if child:
                os.waitpid(child, 0)
            return "parent" if child else "child"

        try:
            result = harness.run(agent, "x")
        except BaseException as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            if os.getpid() != parent:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as pipe:
            assert pipe.read() == "IllegalTransition"
        assert result.unwrap() == "parent"


@pytest.mark.parametrize("same", [True, False], ids=["the same harness", "another harness"])
def test_a_database_that_is_open_is_not_opened_again_in_a_forked_process(address: str, same: bool) -> None:
    """SQLite would take the parent's locks for its own there, and lose commits when the parent closes the file."""
    with declared(address, []) as harness:
        harness.run("agent", "parent").unwrap()
        said = in_child(lambda: (harness if same else declared(address, [])).run("agent", "child").unwrap())
        assert said.startswith("StoreUnavailable: ")
        assert "was open in the process that this one was forked from" in said
        assert harness.run("agent", "parent").unwrap() == "parent"
        assert len(harness.runs()) == 2


def test_a_harness_that_was_closed_before_the_fork_is_used_in_both_processes(address: str) -> None:
    with declared(address, []) as harness:
        harness.run("agent", "parent").unwrap()
        harness.close()
        assert in_child(lambda: harness.run("agent", "child").unwrap()) == "child"
        harness.run("agent", "parent").unwrap()
        assert len(harness.runs()) == 3


def test_a_forked_process_opens_other_databases(address: str, tmp_path: Path) -> None:
    with declared(address, []) as harness:
        harness.run("agent", "parent").unwrap()

        def elsewhere() -> str:
            with harness.override(store=f"sqlite:///{tmp_path / 'other.db'}"):
                return str(harness.run("agent", "child").unwrap())

        assert in_child(elsewhere) == "child"
        with declared(f"sqlite:///{tmp_path / 'other.db'}", []) as other:
            assert len(other.runs()) == 1
