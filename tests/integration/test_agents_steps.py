"""Steps: how they name the calls inside, how they are entered again, and in threads and tasks of their own."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.errors import CallFailed, ReplayDiverged, UsageError
from tests.integration.agents_helpers import Interruption, ids, interrupted


def test_a_step_names_the_calls_inside_it_and_counts_its_entries(harness: Harness) -> None:
    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query.upper()

    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        paths = []
        for word in ("a", "b"):
            with run.step("scan") as step:
                run.call(search, word)
                run.call(search, word)
                with run.step("look closer") as inner:
                    run.call(search, word)
                paths += [step.path, inner.path]
        run.call(search, "last")
        return paths

    result = harness.run(agent, "x")
    assert result.unwrap() == ["scan", "scan.look-closer", "scan#2", "scan#2.look-closer"]
    assert ids(harness) == [
        "scan.search.1",
        "scan.search.2",
        "scan.look-closer.search.1",
        "scan#2.search.1",
        "scan#2.search.2",
        "scan#2.look-closer.search.1",
        "search.1",
    ]
    assert [call.step for call in harness.show("last").calls][2] == "scan.look-closer"


def test_a_resumed_run_answers_finished_steps_from_the_record_and_goes_on_in_the_open_one(harness: Harness) -> None:
    searched: list[str] = []
    interrupt = Interruption()

    @harness.tool(effect="read")
    def search(query: str) -> str:
        searched.append(query)
        return query.upper()

    @harness.agent
    def agent(run: Run, task: str) -> list[Any]:
        found: list[Any] = []
        for word in ("a", "b", "c"):
            with run.step("scan"):
                found.append(run.call(search, word))
                if word == "b":
                    interrupt()
                found.append(run.call(search, word + "!"))
        return [*found, run.step_index, run.recovered, run.epoch]

    run_id = interrupted(harness, agent)
    assert searched == ["a", "a!", "b"]
    assert harness.show(run_id).run.status == "QUEUED"

    result = harness.resume(run_id)
    assert result.unwrap() == ["A", "A!", "B", "B!", "C", "C!", 3, True, 2]
    assert searched == ["a", "a!", "b", "b!", "c", "c!"]
    assert ids(harness)[2:4] == ["scan#2.search.1", "scan#2.search.2"]


def test_steps_of_which_nothing_is_left_as_a_slug_keep_apart(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        paths = []
        for label in ("扫描", "修复", "扫描"):
            with run.step(label) as step:
                paths.append(step.path)
        return paths

    first, second, third = harness.run(agent, "x").unwrap()
    assert first != second
    assert third == f"{first}#2"


def test_a_step_that_ends_with_an_error_hands_it_on_and_the_agent_may_go_on(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(ValueError, match="inside"), run.step("scan"):
            raise ValueError("inside")
        with run.step("scan") as again:
            return again.path

    assert harness.run(agent, "x").unwrap() == "scan#2"


def test_a_restore_point_is_kept_at_the_start_and_end_of_a_step(harness: Harness) -> None:
    @harness.tool(effect="read")
    def search(query: str) -> str:
        return query

    @harness.agent
    def agent(run: Run, task: str) -> None:
        run.context["seen"] = 1
        run.call(search, "a")
        with run.step("scan"):
            run.call(search, "b")
        run.call(search, "c")

    harness.run(agent, "x", task="fix the site").unwrap()
    points = harness.show("last").checkpoints[1:3]
    kept = [(point.version, point.level, point.trigger) for point in points]
    assert kept == [(1, "step", "before_planning_step"), (2, "step", "after_planning_step")]
    assert all(point.name.startswith("fix-the-site_scan_step_") for point in points)


def test_an_effect_left_out_of_a_step_on_replay_diverges_at_its_end(harness: Harness) -> None:
    interrupt = Interruption()
    sent: list[int] = []

    @harness.tool(effect="external")
    def pay(cents: int) -> int:
        sent.append(cents)
        return cents

    @harness.agent
    def agent(run: Run, task: str) -> None:
        with run.step("paying"):
            if not sent:
                run.call(pay, 5)
        interrupt()

    run_id = interrupted(harness, agent)
    with pytest.raises(ReplayDiverged, match="the end of step paying, without this call") as caught:
        harness.resume(run_id)
    assert "pay.1" in caught.value.recorded
    assert harness.show(run_id).run.status == "FAILED"
    assert sent == [5]


# --- Steps in threads and tasks. -------------------------------------------------------------------------------------


def test_a_step_in_a_thread_of_its_own_is_a_branch_of_its_own(harness: Harness) -> None:
    interrupt = Interruption()
    searched: list[str] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        searched.append(query)
        return query.upper()

    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        found: dict[str, str] = {}

        def work(name: str) -> None:
            with run.step(name):
                found[name] = run.call(search, "same")

        threads = [threading.Thread(target=work, args=(name,)) for name in ("left", "right")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        interrupt()
        return sorted(found.items()) and [found["left"], found["right"]]

    run_id = interrupted(harness, agent)
    assert sorted(ids(harness)) == ["left.search.1", "right.search.1"]
    assert harness.resume(run_id).unwrap() == ["SAME", "SAME"]
    assert searched == ["same", "same"]


def test_a_step_in_a_thread_of_its_own_has_a_name_of_its_own(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> list[str]:
        said: list[str] = []

        def work() -> None:
            try:
                with run.step("same"):
                    pass
            except UsageError as error:
                said.append(error.what)

        for _ in range(2):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        return said

    (said,) = harness.run(agent, "x").unwrap()
    assert "'same' was already opened in a thread or task of its own" in said


def test_async_steps_in_tasks_of_their_own_are_branches_of_their_own(harness: Harness) -> None:
    interrupt = Interruption()
    searched: list[str] = []

    @harness.tool(effect="read")
    async def search(query: str) -> str:
        searched.append(query)
        await asyncio.sleep(0)
        return query.upper()

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> list[str]:
        async def work(name: str) -> str:
            async with run.step(name):
                return await run.call(search, name)

        found = await asyncio.gather(asyncio.create_task(work("left")), asyncio.create_task(work("right")))
        async with run.step("after"):
            found.append(await run.call(search, "z"))
        interrupt()
        return found

    run_id = interrupted(harness, agent)
    assert harness.resume(run_id).unwrap() == ["LEFT", "RIGHT", "Z"]
    assert sorted(searched) == ["left", "right", "z"]
    assert sorted(ids(harness)) == ["after.search.1", "left.search.1", "right.search.1"]


def test_a_step_cannot_be_opened_inside_a_tools_body(harness: Harness) -> None:
    held: list[Run] = []

    @harness.tool(effect="read")
    def search(query: str) -> str:
        with held[0].step("inside"):
            return query

    @harness.agent
    def agent(run: Run, task: str) -> str:
        held.append(run)
        with pytest.raises(CallFailed, match=r"the run was used inside search\.1, whose body is one call"):
            run.call(search, "a")
        with run.step("inside") as step:
            return step.path

    assert harness.run(agent, "x").unwrap() == "inside"
