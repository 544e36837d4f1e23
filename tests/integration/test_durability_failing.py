"""durability="hot" where something goes wrong: a process dies, a run is taken over, a store is slow or fails."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.errors import LeaseLost, StoreUnavailable
from jumar.testing.crash import Crashed
from tests.integration.agents_helpers import Interruption, interrupted, until
from tests.integration.durability_helpers import SOON, Tap, on_disk, opened


@pytest.fixture
def tap() -> Iterator[Tap]:
    tap = Tap()
    yield tap
    tap.error = None
    tap.open.set()


# --- Crashes and takeovers. ---


def test_what_was_not_on_disk_is_read_again_and_what_was_is_not(tmp_path: Path, tap: Tap) -> None:
    made: list[int] = []

    def declared(harness: Harness) -> None:
        @harness.tool(effect="read")
        def look(number: int) -> int:
            made.append(number)
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            made.append(100 + cents)
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            first = run.value("paid", pay(look(1) + look(2)))
            if tap.error is None and not tap.dead:
                tap.error = lambda: StoreUnavailable("the process is about to be killed")
            more = look(3) + look(4)
            tap.end()
            return first + more + look(5)

    with opened(tmp_path, tap, lease_ttl=0.3) as harness:
        declared(harness)
        with pytest.raises((Crashed, StoreUnavailable)):
            harness.run("agent", "x")
    assert on_disk(tmp_path).keys() == {"look.1", "look.2", "pay.1", "paid.1"}
    assert made == [1, 2, 103, 3, 4]
    tap.dead = True
    with opened(tmp_path, lease_ttl=0.3) as harness:
        declared(harness)
        assert harness.resume("last").output == 15
    assert made == [1, 2, 103, 3, 4, 3, 4, 5]


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "asyncio"])
def test_a_run_that_was_taken_over_meanwhile_is_latched_and_sends_nothing_more(
    tmp_path: Path, tap: Tap, waits: bool
) -> None:
    paid: list[int] = []
    with opened(tmp_path, tap) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            paid.append(cents)
            return cents

        def taken(run: Any) -> None:
            tap.reached.clear()
            database = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
            database.execute("UPDATE run SET epoch = epoch + 1, owner = 'somebody else'")
            database.close()

        @harness.agent(name="agent")
        def plain(run: Run, task: str) -> int:
            look(1)
            taken(run)
            look(2)
            assert tap.reached.wait(SOON)
            try:
                pay(5)
            except Exception:
                pay(6)
            return 1

        @harness.agent(name="aagent")
        async def awaited(run: AsyncRun, task: str) -> int:
            await run.call(look, 1)
            taken(run)
            await run.call(look, 2)
            assert tap.reached.wait(SOON)
            try:
                await run.call(pay, 5)
            except Exception:
                await run.call(pay, 6)
            return 1

        with pytest.raises(LeaseLost):
            harness.run("aagent" if waits else "agent", "x")
    assert paid == []


def test_a_hot_result_that_no_store_could_take_stops_the_run(tmp_path: Path, tap: Tap) -> None:
    paid: list[int] = []
    with opened(tmp_path, tap) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            paid.append(cents)
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            run.value("begun", 1)
            tap.error = lambda: ValueError("not to be written")
            look(1)
            until(lambda: harness.stats().store.lost == 1)
            tap.error = None
            return pay(look(2))

        with pytest.raises(Exception, match=r"a change could not be written .ValueError: not to be written"):
            harness.run(agent, "x")
        assert paid == []
        assert on_disk(tmp_path) == {"begun.1": "SUCCEEDED"}
        assert harness.show("last").run.status == "QUEUED", "what is on disk can be gone on from"


def test_ctrl_c_leaves_a_hot_run_to_be_resumed_with_all_it_has_read(tmp_path: Path) -> None:
    stop, made = Interruption(), []
    with opened(tmp_path) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            made.append(number)
            return number

        @harness.agent
        def agent(run: Run, task: str) -> int:
            seen = [look(number) for number in range(30)]
            stop()
            return sum(seen)

        run_id = interrupted(harness, agent)
        assert harness.show(run_id).run.status == "QUEUED"
        assert harness.resume(run_id).output == 435
        assert made == list(range(30))
        told = [line.detail for line in harness.trace(run_id) if line.what == "written-behind"]
        assert [line.split(",")[0] for line in told] == ["29 reads"]


# --- A slow or failing store. ---


def test_an_agent_reads_on_while_another_process_holds_the_stores_lock(tmp_path: Path) -> None:
    with opened(tmp_path) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.agent
        def agent(run: Run, task: str) -> int:
            run.value("begun", 1)
            other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            seen = [look(number) for number in range(100)]
            assert other.execute("SELECT count(*) FROM call").fetchone() == (1,)
            other.execute("ROLLBACK")
            other.close()
            return sum(seen)

        assert harness.run(agent, "x").output == 4950
        assert len(on_disk(tmp_path)) == 101


def test_a_store_out_of_reach_for_a_while_costs_nothing_and_is_told(
    tmp_path: Path, tap: Tap, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jumar")
    paid: list[int] = []
    with opened(tmp_path, tap) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            paid.append(cents)
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            run.value("begun", 1)
            tap.error = lambda: StoreUnavailable("the server went away")
            seen = [look(number) for number in range(100)]

            def mend() -> None:
                until(lambda: harness.stats().store.retried > 100)
                tap.error = None

            threading.Thread(target=mend).start()
            return pay(sum(seen))

        assert harness.run(agent, "x").output == 4950
        assert paid == [4950]
        stats = harness.stats().store
        assert (stats.pending, stats.lost) == (0, 0)
        assert stats.hot_ms.longest < stats.cold_ms.longest
        told = next(line.detail for line in harness.trace("last") if line.what == "written-behind")
        assert told.startswith("100 reads, hot ") and told.endswith(" retries")
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, text in said if "hot writes" in text] == ["WARNING", "INFO"]


def test_a_run_whose_store_stays_out_of_reach_stops_when_its_lease_cannot_be_trusted(tmp_path: Path, tap: Tap) -> None:
    paid: list[int] = []
    with opened(tmp_path, tap, lease_ttl=0.3) as harness:

        @harness.tool(effect="read")
        def look(number: int) -> int:
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            paid.append(cents)
            return cents

        @harness.agent
        def agent(run: Run, task: str) -> int:
            run.value("begun", 1)
            tap.error = lambda: StoreUnavailable("the server went away")
            return pay(look(1))

        with pytest.raises(StoreUnavailable):
            harness.run(agent, "x")
        assert paid == []


def test_the_figures_can_be_had_awaited_and_begin_at_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as harness:
        assert harness.stats().store.writes == 0
        assert asyncio.run(harness.astats()) == harness.stats()
