"""Writes that outlive their timeout, or are given up, or whose run is left while they may be half-done."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Run
from tests.integration.agents_helpers import states, until
from tests.integration.writes_helpers import Site, furnished

TTL = 0.4


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = furnished(tmp_path, waits=request.param)
    with made.harness:
        yield made


class Slow:
    """A plain body that writes half of a file, goes on until it is let go, and writes once more."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.begun = threading.Event()
        self.goes = threading.Event()
        self.ended = threading.Event()
        self.seen: list[str] = []

    def __call__(self, name: str) -> str:
        place = self.site.root / name
        self.seen.append(place.read_text())
        if len(self.seen) > 1:
            place.write_text("whole")
            return "done"
        place.write_text("half")
        self.begun.set()
        self.goes.wait(60.0)
        place.write_text("half, and later still")
        self.ended.set()
        return "late"


def agent_of(site: Site, slow: Slow, **options: Any) -> Any:
    """An agent whose plain tool is slow once."""

    def rewrite(name: str) -> str:
        return slow(name)

    tool = site.harness.tool(effect="write", paths=["{name:path}"], **options)(rewrite)
    return site.agent(tool)


def test_bytes_that_a_body_writes_after_its_timeout_are_put_back_once_it_has_ended(site: Site) -> None:
    slow = Slow(site)
    agent = agent_of(site, slow, timeout=0.05)

    def lets_go() -> None:
        slow.begun.wait(60.0)
        until(lambda: states(site.harness).get("rewrite.1") == "UNCERTAIN")
        assert site.read("conf/site.ini") == "half", "files were put back under a body that still writes"
        slow.goes.set()

    helper = threading.Thread(target=lets_go)
    helper.start()
    assert site.harness.run(agent, ["conf/site.ini"]).unwrap() == "done"
    helper.join()
    assert slow.ended.is_set()
    assert slow.seen == ["port = 80\n", "port = 80\n"]
    assert site.read("conf/site.ini") == "whole"
    assert site.harness._open()._engine.io.going_on == {}, "what has ended is remembered for ever"


def test_the_run_waits_for_a_body_that_goes_on_for_longer_than_a_lease(tmp_path: Path) -> None:
    site = furnished(tmp_path, lease_ttl=TTL)
    slow = Slow(site)
    agent = agent_of(site, slow, timeout=0.05)
    with site.harness:
        result = site.harness.run(agent, ["conf/site.ini"])
        assert (result.status, result.wake_at is not None) == ("WAITING", True)
        assert states(site.harness) == {"rewrite.1": "UNCERTAIN"}
        assert site.read("conf/site.ini") == "half"
        with site.another() as other:
            agent_there = site.agent(site.tool(nothing, harness=other), harness=other)
            held = other.run(agent_there, [])
            assert held.status == "WAITING", "another harness wrote where a body still goes on"
            slow.goes.set()
            slow.ended.wait(60.0)
            until(lambda: site.harness.resume(result.run_id).status != "WAITING")
            until(lambda: other.resume(held.run_id).status == "COMPLETED")
        assert site.harness.show(result.run_id).output == "done"
    assert slow.seen == ["port = 80\n", "port = 80\n"]
    assert site.read("conf/site.ini") == "whole"


def nothing() -> None:
    return None


def test_a_write_that_the_agent_gives_up_is_put_back_before_the_run_ends(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True)
    begun, gone = asyncio.Event(), asyncio.Event()

    @site.harness.tool(effect="write", paths=["{name:path}"])
    async def rewrite(name: str) -> None:
        (site.root / name).write_text("half")
        begun.set()
        try:
            await asyncio.sleep(3600.0)
        finally:
            (site.root / name).write_text("half, and what its cleaning up wrote")
            gone.set()

    @site.harness.agent
    async def work(run: AsyncRun, task: str) -> str:
        call = asyncio.ensure_future(run.call(rewrite, "conf/site.ini"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return "went on"

    before = site.files()
    with site.harness:
        assert site.harness.run(work, "x").unwrap() == "went on"
        assert gone.is_set()
        assert states(site.harness) == {"rewrite.1": "FAILED"}
        assert site.files() == before
        assert site.holds() == []


def test_a_write_in_a_thread_that_the_agent_gives_up_is_put_back_once_it_has_ended(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True)
    slow = Slow(site)

    @site.harness.tool(effect="write", paths=["{name:path}"])
    def rewrite(name: str) -> str:
        return slow(name)

    @site.harness.agent
    async def work(run: AsyncRun, task: str) -> str:
        call = asyncio.ensure_future(run.call(rewrite.using(timeout=60.0), "conf/site.ini"))
        await asyncio.to_thread(slow.begun.wait, 60.0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        asyncio.get_running_loop().call_later(0.1, slow.goes.set)
        return "went on"

    before = site.files()
    with site.harness:
        assert site.harness.run(work, "x").unwrap() == "went on"
        assert slow.ended.is_set()
        assert site.files() == before


def test_another_write_to_what_was_given_up_waits_until_that_is_put_back(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True)
    begun = asyncio.Event()
    seen: list[str] = []

    @site.harness.tool(effect="write", paths=["{name:path}"])
    async def rewrite(name: str) -> None:
        seen.append(site.read(name))
        (site.root / name).write_text("half")
        if len(seen) == 1:
            begun.set()
            await asyncio.sleep(3600.0)

    @site.harness.agent
    async def work(run: AsyncRun, task: str) -> None:
        call = asyncio.ensure_future(run.call(rewrite, "conf/site.ini"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await run.call(rewrite, "conf/site.ini")

    with site.harness:
        assert site.harness.run(work, "x").status == "COMPLETED"
    assert seen == ["port = 80\n", "port = 80\n"]


def test_a_write_that_is_given_up_while_another_is_in_its_way_is_never_sent(tmp_path: Path) -> None:
    site = furnished(tmp_path, waits=True)
    begun, goes = asyncio.Event(), asyncio.Event()
    sent: list[str] = []

    @site.harness.tool(effect="write", paths=["conf"])
    async def rewrite(text: str) -> str:
        sent.append(text)
        if text == "first":
            begun.set()
            await goes.wait()
        site.write("conf/site.ini", text)
        return text

    died: list[int] = []

    @site.harness.agent
    async def work(run: AsyncRun, task: str) -> str:
        first = asyncio.ensure_future(run.call(rewrite, "first"))
        second = asyncio.ensure_future(run.call(rewrite, "second"))
        if not died:
            await begun.wait()
            until_it_waits = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.1, until_it_waits.set_result, None)
            await until_it_waits
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        goes.set()
        text: str = await first
        await run.value("went on", 1)
        if not died:
            died.append(1)
            raise KeyboardInterrupt
        return text

    with site.harness:
        with pytest.raises(KeyboardInterrupt):
            site.harness.run(work, "x")
        assert site.harness.resume(site.harness.find("last")).unwrap() == "first"
        assert states(site.harness) == {
            "rewrite.1": "SUCCEEDED",
            "rewrite.2": "FAILED",
            "went-on.1": "SUCCEEDED",
        }
    assert sent == ["first"]


# --- Strategies. -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("strategy", "seen"), [("rollback", "port = 80\n"), ("retry", "half")])
def test_a_write_that_was_cut_off_is_made_again_on_the_files_that_its_strategy_leaves(
    tmp_path: Path, strategy: str, seen: str
) -> None:
    site = furnished(tmp_path, lease_ttl=TTL)
    found: list[str] = []

    def rewrite() -> str:
        found.append(site.read("conf/site.ini"))
        site.write("conf/site.ini", "half")
        if len(found) == 1:
            raise KeyboardInterrupt
        return "done"

    agent = site.agent(site.tool(rewrite, paths=["conf/site.ini"], strategy=strategy))
    with site.harness:
        with pytest.raises(KeyboardInterrupt):
            site.harness.run(agent, [])
        assert site.harness.resume(site.harness.find("last")).unwrap() == "done"
        assert site.holds() == []
    assert found == ["port = 80\n", seen]


def test_a_write_that_was_cut_off_and_goes_forward_fails_with_its_files_as_they_are(tmp_path: Path) -> None:
    site = furnished(tmp_path, lease_ttl=TTL)
    made: list[int] = []

    def rewrite() -> None:
        made.append(1)
        site.write("conf/site.ini", "half")
        raise KeyboardInterrupt

    agent = site.agent(site.tool(rewrite, paths=["conf/site.ini"], strategy="forward"))
    with site.harness:
        with pytest.raises(KeyboardInterrupt):
            site.harness.run(agent, [])
        result = site.harness.resume(site.harness.find("last"))
        assert (result.status, result.error_type) == ("FAILED", "CallFailed")
        assert "its files are left as they are" in str(result.error)
        assert site.holds() == []
    assert made == [1]
    assert site.read("conf/site.ini") == "half"


# --- Orders. ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["cancel", "pause"])
def test_a_run_that_died_in_a_write_and_is_given_an_order_has_its_files_put_back(tmp_path: Path, order: str) -> None:
    site = furnished(tmp_path, lease_ttl=TTL)
    before = site.files()
    passed: list[int] = []

    def rewrite() -> str:
        site.write("conf/site.ini", "half")
        if not passed:
            passed.append(1)
            raise KeyboardInterrupt
        site.write("conf/site.ini", "whole")
        return "done"

    agent = site.agent(site.tool(rewrite, paths=["conf/site.ini"]))
    with site.harness:
        with pytest.raises(KeyboardInterrupt):
            site.harness.run(agent, [])
        run_id = site.harness.find("last")
        assert states(site.harness) == {"rewrite.1": "STARTED"}
        assert site.read("conf/site.ini") == "half"
        getattr(site.harness, order)(run_id, wait=True)
        assert site.files() == before
        assert site.holds() == []
        if order == "cancel":
            assert site.harness.show(run_id).run.status == "CANCELLED"
            assert states(site.harness) == {"rewrite.1": "FAILED"}
            return
        assert states(site.harness) == {"rewrite.1": "PLANNED"}
        assert site.harness.resume(run_id).unwrap() == "done"
        assert site.read("conf/site.ini") == "whole"


def test_a_run_that_is_paused_while_it_writes_lets_the_write_end_first(tmp_path: Path) -> None:
    site = furnished(tmp_path)
    begun, goes = threading.Event(), threading.Event()

    @site.harness.tool(effect="write", paths=["{name:path}"])
    def rewrite(name: str) -> None:
        (site.root / name).write_text("half")
        begun.set()
        goes.wait(60.0)
        (site.root / name).write_text("whole")

    @site.harness.agent
    def work(run: Run, task: str) -> str:
        rewrite("conf/site.ini")
        rewrite("conf/other.ini")
        return "done"

    with site.harness, site.another() as operator:
        results: list[Any] = []
        driver = threading.Thread(target=lambda: results.append(site.harness.run(work, "x")))
        driver.start()
        begun.wait(60.0)
        operator.pause(operator.find("last"), wait=False)
        goes.set()
        driver.join()
        assert results[0].status == "PAUSED"
        assert (site.read("conf/site.ini"), site.read("conf/other.ini")) == ("whole", "port = 81\n")
        assert site.holds() == []
        assert site.harness.resume(results[0].run_id).unwrap() == "done"
        assert site.read("conf/other.ini") == "whole"
