"""Fingerprints: the state of things outside is kept with restore points, and compared when a run is taken up."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jumar import AsyncRun, Decision, Harness, LoopView, Run, ToolCall
from jumar.core.briefs.records import Drift
from jumar.errors import EnvironmentDrifted, RunEnded, UsageError
from tests.integration.agents_helpers import Interruption, ids, interrupted


class Outside:
    """Something outside, with a value that can be told, and a count of how often it was asked."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.asked = 0

    def __call__(self) -> Any:
        self.asked += 1
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value() if callable(self.value) else self.value


def kept(harness: Harness, run_id: str = "last") -> list[Any]:
    """What the fingerprints were at each checkpoint; None where it does not say."""
    run = harness.store.run(harness.find(run_id))
    assert run is not None
    found = []
    for point in harness.store.checkpoints(run.run_no):
        data = None if point.environment is None else harness.store.artifact(run.run_no, point.environment)
        found.append(None if data is None else msgspec.json.decode(data))
    return found


def declare(harness: Harness, interrupt: Callable[[], None]) -> Any:
    """An agent with a step before and after it is interrupted."""

    @harness.agent
    def agent(run: Run, task: str) -> str:
        with run.step("scan"):
            run.value("one", 1)
        interrupt()
        with run.step("report"):
            run.value("two", 2)
        return run.brief().prose

    return agent


def drifted(harness: Harness, run_id: str = "last") -> list[str]:
    """What the trace says has changed."""
    return [line.detail for line in harness.trace(run_id) if line.what == "drifted"]


# --- What is kept. ---------------------------------------------------------------------------------------------------


def test_what_is_outside_is_kept_with_each_restore_point(harness: Harness) -> None:
    versions = iter([{"schema": 5}, {"schema": 6}, {"schema": 7}])
    harness.fingerprint("database")(lambda: next(versions))
    harness.fingerprint("release")(lambda: "v1")
    harness.run(declare(harness, lambda: None), "x").unwrap()
    assert kept(harness) == [
        {"values": {"database": {"schema": 5 + n}, "release": "v1"}, "unknown": []} for n in range(3)
    ]
    assert harness.doctor().sound


def test_it_is_asked_once_for_each_version_of_the_run_however_often_the_agent_is_taken_through_it(
    harness: Harness,
) -> None:
    outside = Outside(1)
    harness.fingerprint("outside")(outside)
    interrupt = Interruption()

    @harness.agent
    def agent(run: Run, task: str) -> int:
        for n in range(10):
            with run.step(f"step {n}"):
                run.value("n", n)
        interrupt()
        return run.value("last", 1)

    run_id = interrupted(harness, agent)
    assert outside.asked == 11
    harness.resume(run_id).unwrap()
    assert outside.asked == 13  # when the run is taken up, and at its end


def test_only_where_a_restore_point_is_kept_is_anything_asked(harness: Harness, tmp_path: Path) -> None:
    path = tmp_path / "jumar.yaml"
    path.write_text("checkpoint_triggers: []\n")
    with Harness("memory:", config=path) as bare:
        outside = Outside(1)
        bare.fingerprint("outside")(outside)
        agent = declare(bare, lambda: None)
        bare.run(agent, "x").unwrap()
        assert outside.asked == 0


def test_before_and_after_what_acts_outside_it_is_asked_anew(harness: Harness) -> None:
    balance = [100]
    harness.fingerprint("balance")(lambda: balance[0])

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        balance[0] -= cents
        return balance[0]

    @harness.agent
    def agent(run: Run, task: str) -> int:
        run.value("one", 1)
        left = run.call(pay, 30)
        run.value("two", 2)
        return left

    harness.run(agent, "x").unwrap()
    found = {
        point.trigger: entry["values"]["balance"]
        for point, entry in zip(harness.show("last").checkpoints, kept(harness), strict=True)
    }
    assert found == {"on_task_received": 100, "before_external_call": 100, "after_tool": 70, "on_task_end": 70}


def test_a_harness_without_fingerprints_loads_nothing_of_them() -> None:
    program = (
        "import sys, jumar\n"
        "harness = jumar.Harness('memory:')\n"
        "@harness.agent\n"
        "def agent(run, task):\n"
        "    with run.step('scan'):\n"
        "        return run.value('one', 1)\n"
        "assert harness.run(agent, 'x').output == 1\n"
        "found = [name for name in sys.modules if 'environment' in name or 'briefs' in name or name == 'yaml']\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# --- What cannot be read. --------------------------------------------------------------------------------------------


class Odd:
    """A value that no JSON can hold."""


UNKNOWN = {
    "raises": RuntimeError("no connection"),
    "is too large": "x" * 5000,
    "is no data": Odd(),
    "is not a number": float("nan"),
    "is no text": "\ud800",
    "gives up": SystemError("odd"),
}


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("case", UNKNOWN)
def test_a_fingerprint_that_cannot_be_read_is_unknown_and_fails_no_run(
    harness: Harness, case: str, waits: bool
) -> None:
    outside = Outside("v1")
    harness.fingerprint("outside")(outside)
    interrupt = Interruption()
    if waits:

        @harness.agent
        async def agent(run: AsyncRun, task: str) -> str:
            async with run.step("scan"):
                await run.value("one", 1)
            interrupt()
            return (await run.brief()).prose
    else:
        agent = declare(harness, interrupt)

    run_id = interrupted(harness, agent)
    outside.value = UNKNOWN[case]
    result = harness.resume(run_id)
    assert '- outside: was “"v1"”, is not known' in result.unwrap()
    assert kept(harness, run_id)[-1] == {"values": {}, "unknown": ["outside"]}
    assert drifted(harness, run_id) == ["outside"]


def test_one_that_hangs_is_given_up_after_its_time(harness: Harness) -> None:
    release = threading.Event()
    harness.fingerprint("slow", timeout=0.05)(release.wait)
    harness.fingerprint("quick")(lambda: 1)
    try:
        harness.run(declare(harness, lambda: None), "x").unwrap()
        assert {"values": {"quick": 1}, "unknown": ["slow"]} in kept(harness)
    finally:
        release.set()


def test_what_was_unknown_before_tells_no_change(harness: Harness) -> None:
    outside = Outside(RuntimeError("no connection"))
    harness.fingerprint("outside")(outside)
    interrupt = Interruption()
    run_id = interrupted(harness, declare(harness, interrupt))
    outside.value = "v1"
    harness.resume(run_id).unwrap()
    assert drifted(harness, run_id) == []


def test_a_fingerprint_declared_since_tells_no_change(harness: Harness) -> None:
    harness.fingerprint("old")(lambda: 1)
    interrupt = Interruption()
    run_id = interrupted(harness, declare(harness, interrupt))
    harness.fingerprint("new")(lambda: 2)
    harness.resume(run_id).unwrap()
    assert drifted(harness, run_id) == []
    assert kept(harness, run_id)[-1] == {"values": {"new": 2, "old": 1}, "unknown": []}


def test_a_tool_that_a_fingerprint_calls_is_no_call_of_the_run(harness: Harness) -> None:
    sent: list[int] = []

    @harness.tool(effect="read")
    def schema() -> int:
        return 5

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    harness.fingerprint("schema")(schema)
    harness.fingerprint("pays")(lambda: pay(5))
    harness.run(declare(harness, lambda: None), "x").unwrap()
    assert ids(harness) == ["scan.one.1", "report.two.1"]
    assert kept(harness)[-1] == {"values": {"schema": 5}, "unknown": ["pays"]}
    assert sent == []


# --- What has changed. -----------------------------------------------------------------------------------------------


def test_a_change_is_told_on_the_trace_and_in_the_brief(harness: Harness) -> None:
    outside = Outside({"b": 1, "a": [1]})
    harness.fingerprint("outside")(outside)
    harness.fingerprint("same")(lambda: "v1")
    run_id = interrupted(harness, declare(harness, Interruption()))
    assert harness.brief(run_id).drift == ()
    outside.value = {"a": [1], "b": 1}  # the order of keys is no change
    assert harness.brief(run_id).drift == ()
    outside.value = {"a": [2], "b": 1}
    assert harness.brief(run_id).drift == (Drift("outside", '{"a":[1],"b":1}', '{"a":[2],"b":1}'),)
    prose = harness.resume(run_id).unwrap()
    assert '- outside: was “{"a":[1],"b":1}”, is “{"a":[2],"b":1}”' in prose.splitlines()
    assert drifted(harness, run_id) == ["outside"]
    assert harness.brief(run_id).drift == ()  # what is kept since is how it is now


def test_a_loop_agent_is_told_in_its_view(harness: Harness) -> None:
    outside = Outside("v1")
    harness.fingerprint("outside")(outside)
    interrupt = Interruption()

    @harness.tool(effect="read")
    def look(what: str) -> str:
        return what

    @harness.loop(tools=[look])
    def operator(view: LoopView) -> Decision:
        if view.step_index == 2:
            interrupt()
        if view.recovered:
            return Decision.finish(view.brief)
        return Decision.act([ToolCall("look", {"what": "a"})])

    run_id = interrupted(harness, operator)
    outside.value = "v2"
    assert '- outside: was “"v1"”, is “"v2"”' in harness.resume(run_id).unwrap()


def test_a_run_that_is_only_begun_is_compared_with_nothing(harness: Harness) -> None:
    outside = Outside("v1")
    harness.fingerprint("outside")(outside)
    run_id = harness.start(declare(harness, lambda: None), "x")
    outside.value = "v2"
    assert "outside" not in harness.resume(run_id).unwrap()


def test_what_a_rollback_goes_back_to_is_what_it_is_compared_with(harness: Harness) -> None:
    outside = Outside("v1")
    harness.fingerprint("outside")(outside)

    @harness.agent
    def agent(run: Run, task: str) -> str:
        run.checkpoint("before")
        outside.value = "v2"
        run.checkpoint("after")
        return run.brief().prose

    run_id = harness.run(agent, "x").run_id
    assert harness.brief(run_id).drift == ()
    harness.rollback(run_id, to=1)
    assert harness.brief(run_id).drift == (Drift("outside", '"v1"', '"v2"'),)


def test_a_damaged_reading_leaves_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    outside = Outside("v1")

    def opened() -> Harness:
        harness = Harness(f"sqlite:///{path}")
        harness.fingerprint("outside")(outside)
        return harness

    with opened() as harness:

        @harness.agent
        def agent(run: Run, task: str) -> None:
            run.checkpoint("a")
            outside.value = "v2"
            run.checkpoint("b")
            raise ValueError("no")

        run_id = harness.run(agent, "x").run_id
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE checkpoint SET created_at = 1 WHERE version = 2")
    connection.close()
    with opened() as harness:
        assert harness.brief(run_id).drift == (Drift("outside", '"v1"', '"v2"'),)


# --- Refusing to go on. ----------------------------------------------------------------------------------------------


@pytest.fixture
def strict(tmp_path: Path) -> Any:
    """A harness that refuses to go on where something has changed."""
    with Harness(f"sqlite:///{tmp_path / 'runs.db'}", drift="refuse") as harness:
        yield harness


def test_a_run_is_refused_where_something_has_changed_and_stays_as_it_was(strict: Harness) -> None:
    outside = Outside("v1")
    strict.fingerprint("outside")(outside)
    sent: list[int] = []

    @strict.tool(effect="read", retries=0)
    def look(cents: int) -> int:
        sent.append(cents)
        if len(sent) == 1:
            raise ValueError("no")
        return cents

    @strict.agent
    def agent(run: Run, task: str) -> int:
        run.checkpoint("before")
        return run.call(look, 5)

    run_id = strict.run(agent, "x").run_id
    before = strict.show(run_id).run
    assert before.status == "FAILED"
    outside.value = "v2"
    with pytest.raises(EnvironmentDrifted) as caught:
        strict.resume(run_id)
    assert (caught.value.names, caught.value.exit_code) == (("outside",), 4)
    assert 'outside was "v1" and is "v2"' in caught.value.what
    assert strict.show(run_id).run == before
    assert sent == [5]
    outside.value = "v1"
    assert strict.resume(run_id).unwrap() == 5


def test_one_that_is_to_be_resumed_by_itself_is_told_as_not_driven(strict: Harness) -> None:
    outside = Outside("v1")
    strict.fingerprint("outside")(outside)
    run_id = interrupted(strict, declare(strict, Interruption()))
    outside.value = "v2"
    (result,) = strict.resume_due()
    assert (result.run_id, result.status, type(result.error)) == (run_id, "QUEUED", EnvironmentDrifted)
    assert strict.show(run_id).run.epoch == 1


def test_what_is_not_known_refuses_nothing(strict: Harness) -> None:
    outside = Outside("v1")
    strict.fingerprint("outside")(outside)
    run_id = interrupted(strict, declare(strict, Interruption()))
    outside.value = RuntimeError("no connection")
    assert "is not known" in strict.resume(run_id).unwrap()


def test_of_a_run_that_has_ended_nothing_is_compared(strict: Harness) -> None:
    outside = Outside("v1")
    strict.fingerprint("outside")(outside)
    result = strict.run(declare(strict, lambda: None), "x")
    outside.value = "v2"
    with pytest.raises(RunEnded):
        strict.resume(result.run_id)


def test_what_changes_between_looking_and_claiming_gives_the_lease_back(strict: Harness) -> None:
    outside = Outside("v1")
    strict.fingerprint("outside")(outside)
    run_id = interrupted(strict, declare(strict, Interruption()))
    answers = iter(["v1", "v2"])
    outside.value = lambda: next(answers)
    with pytest.raises(EnvironmentDrifted):
        strict.resume(run_id)
    info = strict.show(run_id).run
    assert (info.status, info.owner, info.epoch) == ("QUEUED", None, 2)


# --- Declaring. ------------------------------------------------------------------------------------------------------


async def _async() -> int:
    return 1


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (lambda harness: harness.fingerprint("")(lambda: 1), "cannot name a fingerprint"),
        (lambda harness: harness.fingerprint("a b")(lambda: 1), "cannot name a fingerprint"),
        (lambda harness: harness.fingerprint(5)(lambda: 1), "cannot name a fingerprint"),
        (lambda harness: harness.fingerprint("a")(5), "is no plain function"),
        (lambda harness: harness.fingerprint("a")(_async), "is no plain function"),
        (lambda harness: harness.fingerprint("a")(lambda x: x), "needs arguments"),
        (lambda harness: harness.fingerprint("a", timeout=0)(lambda: 1), "is not a number of seconds"),
        (lambda harness: [harness.fingerprint("a")(lambda: 1) for _ in range(2)], "two fingerprints are called a"),
        (lambda harness: Harness("memory:", drift="ignore"), "drift='ignore' is not known"),
        (lambda harness: Harness("memory:", drift=True), "drift=True is not known"),
    ],
    ids=["empty", "blank", "number", "no function", "async", "arguments", "no time", "twice", "ignore", "true"],
)
def test_what_makes_no_sense_is_refused(harness: Harness, declared: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        declared(harness)


def test_a_function_stays_what_it_was(harness: Harness) -> None:
    @harness.fingerprint("answer")
    def answer(of: int = 42) -> int:
        return of

    assert answer() == 42


def test_a_call_that_is_recorded_stays_so_although_it_was_cancelled_while_its_fingerprint_was_read(
    harness: Harness,
) -> None:
    reading, go_on = threading.Event(), threading.Event()

    @harness.tool(effect="external")
    async def pay(cents: int) -> int:
        harness.fingerprint("slow")(slow)
        return cents

    def slow() -> int:
        if not reading.is_set():
            reading.set()
            assert go_on.wait(60)
        return 1

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> list[Any]:
        paying = asyncio.ensure_future(run.call(pay, 5))
        await asyncio.to_thread(reading.wait, 60)
        paying.cancel()
        go_on.set()
        return [await paying, await run.value("one", 1)]

    result = harness.run(agent, "x")
    assert result.unwrap() == [5, 1]
    assert [call.state for call in harness.show(result.run_id).calls] == ["SUCCEEDED", "SUCCEEDED"]
