"""Runs that end badly while a tool writes: whatever agents, tasks and timeouts do, no file stays half-done."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, NotHappened, Run
from jumar.core.requests import Place
from jumar.engine.files import OpenWorkspace
from tests.integration.agents_helpers import states
from tests.integration.writes_helpers import Site, furnished

TTL = 0.4


def half_writing(site: Site, begun: asyncio.Event, **options: Any) -> Any:
    """A tool that writes half of a file, and goes on until it is cancelled."""

    @site.harness.tool(effect="write", paths=["{name:path}"], **options)
    async def rewrite(name: str) -> None:
        (site.root / name).write_text("half")
        begun.set()
        await asyncio.sleep(3600.0)

    return rewrite


def test_a_write_given_up_by_an_agent_that_then_fails_is_put_back_and_holds_nothing(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True)
    rewrite = half_writing(site, asyncio.Event())

    @site.harness.agent
    async def work(run: AsyncRun, task: str) -> None:
        await asyncio.wait_for(run.call(rewrite, "conf/site.ini"), 0.05)

    before = site.files()
    with site.harness:
        result = site.harness.run(work, "x")
        assert (result.status, result.error_type) == ("FAILED", "TimeoutError")
        assert states(site.harness) == {"rewrite.1": "FAILED"}
        assert site.files() == before
        assert site.holds() == []
        result = site.harness.resume(result.run_id)
        assert (result.status, result.error_type) == ("FAILED", "TimeoutError")
        assert site.files() == before


def test_a_write_cancelled_because_a_task_beside_it_failed_is_put_back(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True)
    begun = asyncio.Event()
    rewrite = half_writing(site, begun)

    @site.harness.tool(effect="read", retries=0)
    async def look() -> None:
        await begun.wait()
        raise LookupError("nothing there")

    @site.harness.agent
    async def work(run: AsyncRun, task: str) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(run.call(rewrite, "conf/site.ini"))
            group.create_task(run.call(look))

    before = site.files()
    with site.harness:
        result = site.harness.run(work, "x")
        assert (result.status, result.error_type) == ("FAILED", "ExceptionGroup")
        assert site.files() == before
        assert site.holds() == []


def test_a_write_that_was_cut_off_and_that_its_agent_no_longer_comes_to_is_put_back(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True, lease_ttl=TTL)
    lives: list[int] = []

    @site.harness.tool(effect="write", paths=["{name:path}"])
    async def rewrite(name: str) -> None:
        (site.root / name).write_text("half")
        raise KeyboardInterrupt

    @site.harness.agent
    async def work(run: AsyncRun, task: str) -> None:
        lives.append(1)
        if len(lives) > 1:
            raise LookupError("its settings are gone")
        await run.call(rewrite, "conf/site.ini")

    before = site.files()
    with site.harness:
        with pytest.raises(KeyboardInterrupt):
            site.harness.run(work, "x")
        assert site.files() != before
        result = site.harness.resume(site.harness.find("last"))
        assert (result.status, result.error_type) == ("FAILED", "LookupError")
        assert states(site.harness) == {"rewrite.1": "PLANNED"}
        assert site.files() == before
        assert site.holds() == []


def test_nothing_is_put_back_under_the_cleaning_up_of_a_body_with_a_timeout_that_was_given_up(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True)
    begun, gone = asyncio.Event(), asyncio.Event()

    @site.harness.tool(effect="write", paths=["{name:path}"], timeout=60.0)
    async def rewrite(name: str) -> None:
        (site.root / name).write_text("half")
        begun.set()
        try:
            await asyncio.sleep(3600.0)
        finally:
            await asyncio.sleep(0.1)
            (site.root / name).write_text("half, and what its cleaning up wrote")
            gone.set()

    @site.harness.agent
    async def work(run: AsyncRun, task: str) -> None:
        call = asyncio.ensure_future(run.call(rewrite, "conf/site.ini"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    async def lives_on() -> None:
        await site.harness.arun(work, "x")
        await gone.wait()

    before = site.files()
    with site.harness:
        asyncio.run(lives_on())
        assert states(site.harness) == {"rewrite.1": "FAILED"}
        assert site.files() == before


@pytest.mark.parametrize("order", ["cancel", "pause"])
def test_a_run_whose_snapshots_are_lost_can_still_be_ordered_to_stop(tmp_path: Path, order: str) -> None:
    site = furnished(tmp_path, lease_ttl=TTL)

    def rewrite() -> None:
        site.write("conf/site.ini", "half")
        raise KeyboardInterrupt

    with site.harness, pytest.raises(KeyboardInterrupt):
        site.harness.run(site.agent(site.tool(rewrite, paths=["conf/site.ini"])), [])
    for kept in tmp_path.glob("runs.db.files*"):
        kept.unlink()
    with site.another() as other:
        run_id = other.find("last")
        getattr(other, order)(run_id, wait=True)
        shown = other.show(run_id)
        assert shown.run.status == {"cancel": "CANCELLED", "pause": "PAUSED"}[order]
        assert states(other) == {"rewrite.1": "UNCERTAIN"}
        if order == "cancel":
            other.resolve(run_id, "rewrite.1", NotHappened())
            assert other.store.holds(str(site.root.resolve()), b"") == []


def test_a_body_that_ends_in_the_moment_in_which_it_is_given_up_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True, lease_ttl=TTL)
    bodies: list[threading.Thread] = []
    begun, goes = threading.Event(), threading.Event()

    @site.harness.tool(effect="write", paths=["{name:path}"], timeout=60.0)
    def rewrite(name: str) -> None:
        bodies.append(threading.current_thread())
        (site.root / name).write_text("half")
        begun.set()
        goes.wait(60.0)

    @site.harness.agent
    async def work(run: AsyncRun, task: str) -> str:
        call = asyncio.ensure_future(run.call(rewrite, "conf/site.ini"))
        await asyncio.to_thread(begun.wait, 60.0)
        goes.set()
        bodies[0].join()  # the loop stands still meanwhile, and hears of both at once
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return "went on"

    before = site.files()
    with site.harness:
        assert site.harness.run(work, "x").output == "went on"
        assert site.files() == before
        assert site.holds() == []


def test_an_interrupt_in_the_moment_in_which_paths_are_taken_leaves_them_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = furnished(tmp_path, lease_ttl=TTL)
    occupied: list[Place] = []
    occupy = OpenWorkspace.occupy

    def interrupted(self: OpenWorkspace, place: Place, snapshot: bytes | None = None) -> Place | None:
        in_the_way = occupy(self, place, snapshot)
        occupied.append(place)
        if len(occupied) == 1:
            raise KeyboardInterrupt
        return in_the_way

    monkeypatch.setattr(OpenWorkspace, "occupy", interrupted)

    def rewrite() -> str:
        site.write("conf/site.ini", "whole")
        return "done"

    agent = site.agent(site.tool(rewrite, paths=["conf/site.ini"]))
    with site.harness:
        with pytest.raises(KeyboardInterrupt):
            site.harness.run(agent, [])
        run_id = site.harness.find("last")
        with site.another() as other:
            elsewhere = site.agent(site.tool(rewrite, paths=["conf"], harness=other), harness=other)
            assert other.run(elsewhere, []).status == "COMPLETED"
        assert site.harness.resume(run_id).output == "done"


# --- Other runs. -----------------------------------------------------------------------------------------------------


def test_a_restore_point_has_no_file_half_done_that_another_run_was_writing(tmp_path: Path) -> None:
    site = furnished(tmp_path)
    begun, goes = threading.Event(), threading.Event()

    @site.harness.tool(effect="write", paths=["conf/other.ini"])
    def rewrite() -> None:
        site.write("conf/other.ini", "half", 0o600)
        begun.set()
        goes.wait(60.0)
        site.write("conf/other.ini", "whole", 0o600)

    @site.harness.tool(effect="external")
    def act() -> None: ...

    @site.harness.agent
    def other(run: Run, task: str) -> None:
        rewrite()

    @site.harness.agent
    def work(run: Run, task: str) -> None:
        act()
        run.checkpoint("meanwhile")
        goes.set()
        beside.join()
        act()

    with site.harness:
        beside = threading.Thread(target=site.harness.run, args=(other, "x"))
        beside.start()
        begun.wait(60.0)
        run_id = site.harness.run(work, "x").run_id
        site.harness.rollback(run_id, to="meanwhile", force=True)
        assert site.read("conf/other.ini") == "port = 81\n"
