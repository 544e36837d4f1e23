"""What an agent, a loop's function and an operator are told of a run, out of the store."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Decision, Harness, LoopView, Run, ToolCall
from jumar.core.briefs.records import Brief
from jumar.errors import UsageError
from tests.integration.agents_helpers import Interruption, interrupted


def shop(harness: Harness, briefs: list[Brief], interrupt: Interruption) -> Any:
    """An agent of three planned steps that is interrupted at the end of the second."""

    @harness.tool(effect="read")
    def look(what: str) -> str:
        return f"{what} seen"

    @harness.tool(effect="external")
    def pay(cents: int) -> str:
        return f"paid {cents}"

    @harness.agent
    def agent(run: Run, task: str) -> str:
        briefs.append(run.brief())
        run.plan(["scan", "pay the bill", "report"])
        with run.step("scan"):
            run.call(look, "shop")
        with run.step("pay the bill"):
            run.call(pay, 500)
            interrupt()
        with run.step("report"):
            run.call(look, "report")
            briefs.append(run.brief("zh"))
        return "done"

    return agent


def test_an_agent_that_is_taken_up_is_told_what_it_has_done_and_where_to_go_on(harness: Harness) -> None:
    briefs: list[Brief] = []
    agent = shop(harness, briefs, Interruption())
    run_id = interrupted(harness, agent)
    before = harness.brief(run_id)
    assert (before.recoveries, before.status, before.step_number) == (0, "queued", 2)
    assert harness.resume(run_id).unwrap() == "done"

    first, taken_up, at_the_end = briefs
    assert (first.recoveries, first.calls, first.instruction) == (0, 0, "Continue with step 1.")
    assert (taken_up.run_id, taken_up.recoveries) == (run_id, 1)
    assert [(step.name, step.calls) for step in taken_up.done] == [("scan", 1)]
    assert taken_up.done[0].results[0].result == "shop seen"
    assert [(step.name, step.state) for step in taken_up.planned] == [
        ("scan", "done"),
        ("pay the bill", "now"),
        ("report", "to do"),
    ]
    assert [(each.call_id, each.result) for each in taken_up.standing] == [("pay-the-bill.pay.1", "paid 500")]
    assert str(taken_up).endswith("Continue with step 2 (“pay the bill”); do not repeat step 1.")
    assert at_the_end.prose.endswith("请从第 3 步（「report」）继续，不要重复第 1、2 步。")
    assert harness.brief(run_id).instruction == "Nothing is left to be done in this run."


def test_asking_for_a_brief_records_nothing_and_changes_nothing(harness: Harness) -> None:
    briefs: list[Brief] = []
    agent = shop(harness, briefs, Interruption())
    run_id = interrupted(harness, agent)
    version = harness.show(run_id).run.version
    for lang in ("en", "zh"):
        assert harness.brief(run_id, lang).run_id == run_id
    assert harness.show(run_id).run.version == version
    harness.resume(run_id).unwrap()
    assert [call.kind for call in harness.show(run_id).calls] == ["plan", "tool", "tool", "tool"]


def test_an_async_agent_awaits_its_brief(harness: Harness) -> None:
    briefs: list[Brief] = []
    interrupt = Interruption()

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> int:
        briefs.append(await run.brief("zh"))
        async with run.step("scan"):
            await run.value("one", 1)
        interrupt()
        return await run.value("two", 2)

    run_id = interrupted(harness, agent)
    harness.resume(run_id).unwrap()
    assert [brief.recoveries for brief in briefs] == [0, 1]
    assert briefs[1].instruction == "请从第 1 步（「scan」）继续；已有记录的调用会自动给出结果，不要重做。"


def test_an_operator_may_await_it(harness: Harness) -> None:
    run_id = harness.run(shop(harness, [], _never()), "x").run_id

    async def ask() -> Brief:
        return await harness.abrief(run_id, "zh")

    assert asyncio.run(ask()) == harness.brief(run_id, "zh")


def _never() -> Interruption:
    interrupt = Interruption()
    interrupt._passed.add("")
    return interrupt


def test_an_unknown_language_is_refused_and_the_agent_may_go_on(harness: Harness) -> None:
    @harness.agent
    def agent(run: Run, task: str) -> str:
        with pytest.raises(UsageError, match="lang='fr' is not known"):
            run.brief("fr")
        return "went on"

    run_id = harness.run(agent, "x").run_id
    assert harness.show(run_id).run.status == "COMPLETED"
    with pytest.raises(UsageError, match="lang='fr' is not known"):
        harness.brief(run_id, "fr")


def test_why_a_run_failed_is_told_to_whoever_takes_it_up(harness: Harness) -> None:
    told: list[Brief] = []
    tried: list[int] = []

    @harness.tool(effect="read", retries=0)
    def flaky() -> str:
        tried.append(1)
        if len(tried) == 1:
            raise ValueError("no such file: site.ini")
        return "ok"

    @harness.agent
    def agent(run: Run, task: str) -> str:
        told.append(run.brief())
        with run.step("scan"):
            return run.call(flaky)

    run_id = harness.run(agent, "x").run_id
    for brief in (harness.brief(run_id), (harness.resume(run_id).unwrap(), told[1])[1]):
        error = brief.last_error
        assert error is not None
        assert (error.type, error.message, error.call_id) == ("ValueError", "no such file: site.ini", "scan.flaky.1")
    assert harness.brief(run_id).last_error is None


def test_the_files_that_writes_changed_are_told(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "conf").mkdir(parents=True)
    (site / "conf" / "a.ini").write_text("old")
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    interrupt = Interruption()
    told: list[Brief] = []

    def declared(harness: Harness) -> Any:
        @harness.tool(effect="write", paths=["conf/{name}.ini"])
        def rewrite(name: str, text: str) -> int:
            return (site / "conf" / f"{name}.ini").write_text(text)

        @harness.agent(tools=[rewrite])
        def agent(run: Run, task: str) -> str:
            told.append(run.brief())
            run.plan(["write", "check"], files=["conf/a.ini", "conf/c.ini"])
            with run.step("write"):
                run.call(rewrite, "a", "new")
                run.call(rewrite, "b", "new")
                run.call(rewrite, "a", "new")
            interrupt()
            with run.step("check"):
                return str(run.value("one", "1"))

        return agent

    with Harness(address, workspace=site) as harness:
        run_id = interrupted(harness, declared(harness))
        brief = harness.brief(run_id)
        assert (brief.files_changed, brief.files_to_change) == (("conf/a.ini", "conf/b.ini"), ("conf/c.ini",))
        assert "Files changed so far: “conf/a.ini”, “conf/b.ini”." in brief.prose
    with Harness(address) as harness:  # which opens what the run's row names
        declared(harness)
        assert harness.resume(run_id).unwrap() == "1"
        assert told[-1].files_changed == ("conf/a.ini", "conf/b.ini")
    site.rename(tmp_path / "moved")
    with Harness(address) as harness:
        brief = harness.brief(run_id)
        assert (brief.files_changed, brief.unnamed_changes) == ((), 3)


def test_what_a_rollback_left_standing_is_told(harness: Harness) -> None:
    @harness.tool(effect="external")
    def book(trip: str) -> int:
        return 7

    @harness.agent
    def agent(run: Run, task: str) -> str:
        run.checkpoint("before")
        run.call(book, "t-1")
        raise ValueError("wrong trip")

    run_id = harness.run(agent, "x").run_id
    harness.rollback(run_id, to=1)
    brief = harness.brief(run_id)
    assert (brief.rolled_back_to, brief.calls) == (1, 1)
    assert [(each.call_id, each.left_behind) for each in brief.standing] == [("book.1", True)]
    assert "It was rolled back to version 1" in brief.prose


def test_a_loops_function_may_ask_in_its_own_language(harness: Harness) -> None:
    interrupt = Interruption()
    told: list[str | None] = []

    @harness.tool(effect="read")
    def look(what: str) -> str:
        return what

    @harness.loop(tools=[look])
    def operator(view: LoopView) -> Decision:
        if view.step_index == 2:
            interrupt()
        if view.recovered:
            told.extend([view.brief, harness.brief(view.run_id, "zh").prose])
        if view.step_index == 1:
            return Decision.act([ToolCall("look", {"what": "a"})])
        return Decision.finish("done")

    run_id = interrupted(harness, operator)
    harness.resume(run_id).unwrap()
    assert told[0] is not None and told[0].endswith("Continue from turn 2; do not repeat turn 1.")
    assert told[1] is not None and told[1].endswith("请从第 2 轮继续，不要重复第 1 轮。")


def test_a_result_that_is_damaged_or_lost_is_left_out_and_stands_in_no_briefs_way(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Harness(f"sqlite:///{path}") as harness:

        @harness.tool(effect="read")
        def look(size: int) -> str:
            return "x" * size

        @harness.agent
        def agent(run: Run, task: str) -> int:
            for size in (5, 5000):
                with run.step(f"look {size}"):
                    run.call(look, size)
            return run.value("one", 1)

        run_id = harness.run(agent, "x").run_id
        assert [step.results[0].result[:2] for step in harness.brief(run_id).done] == ["xx", "xx"]
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE call SET result = CAST('{' AS BLOB) WHERE result IS NOT NULL")
        connection.execute("DELETE FROM artifact WHERE digest IN (SELECT result_artifact FROM call)")
    connection.close()
    with Harness(f"sqlite:///{path}") as harness:
        assert [step.results[0].result for step in harness.brief(run_id).done] == ["null", "null"]
