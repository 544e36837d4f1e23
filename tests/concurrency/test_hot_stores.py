"""Hot writes on real stores that fail for a while: a PostgreSQL server that goes away in the middle and comes back, a
disk that is full and gets room again.  All is made good, in order, and nothing that depends on it comes before it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.core.states import CallState
from jumar.testing.postgres import PostgresServer, fresh_schema
from tests.integration.agents_helpers import until

READS = 200


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may stop."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def address(own_server: PostgresServer) -> Iterator[str]:
    with fresh_schema(own_server) as address:
        yield address


class Scene:
    """An agent whose server is stopped after its first reads, and which pays for what it has read in the end."""

    def __init__(self, address: str, server: PostgresServer) -> None:
        self.harness = Harness(address, durability="hot", lease_ttl=60.0)
        self.server = server
        self.paid: list[int] = []
        self.found: list[list[tuple[str, int | None]]] = []
        harness, address_ = self.harness, address

        @harness.tool(effect="read")
        def look(number: int) -> int:
            if number == READS // 4:
                until(lambda: self.harness.stats().store.pending == 0)
                self.server.stop("immediate")
                threading.Thread(target=self.starts_again).start()
            return number

        @harness.tool(effect="external")
        def pay(cents: int) -> int:
            self.paid.append(cents)
            with Harness(address_) as other:
                run = other.store.run(other.find("last"))
                assert run is not None
                rows = other.store.calls(run.run_no)
            self.found.append([(row.call_id, row.ended_version) for row in rows if row.state is CallState.SUCCEEDED])
            return cents

        @harness.agent
        def plain(run: Run, task: str) -> int:
            run.value("begun", 1)
            return pay(sum(look(number) for number in range(READS)))

        @harness.agent
        async def awaited(run: AsyncRun, task: str) -> int:
            await run.value("begun", 1)
            seen = [await run.call(look, number) for number in range(READS)]
            return await run.call(pay, sum(seen))

    def starts_again(self) -> None:
        """Start the server once the agent has read all there is, and nothing of it could be written."""
        until(lambda: self.harness.stats().store.pending >= READS - READS // 4)
        self.server.start()


@pytest.mark.parametrize("agent", ["plain", "awaited"])
def test_a_server_that_goes_away_and_comes_back_gets_all_that_was_read_in_order(
    address: str, own_server: PostgresServer, agent: str
) -> None:
    scene = Scene(address, own_server)
    with scene.harness as harness:
        result = harness.run(agent, "x")
        assert (result.status, result.output) == ("COMPLETED", sum(range(READS)))
        stats = harness.stats().store
        assert (stats.pending, stats.lost) == (0, 0)
        run = harness.store.run(result.run_id)
        assert run is not None
        rows = harness.store.calls(run.run_no)
    assert scene.paid == [sum(range(READS))]
    assert [row.call_id for row in rows] == ["begun.1", *(f"look.{n}" for n in range(1, READS + 1)), "pay.1"]
    assert [row.ended_version for row in rows[:-1]] == list(range(1, READS + 2))
    assert [call_id for call_id, _ in scene.found[0]] == [row.call_id for row in rows[:-1]], "when it was paid"


FULL = """
import json, os, sys, threading, time
from pathlib import Path
from jumar import Harness, Run

folder = Path(sys.argv[1])
ballast = folder / "ballast"
harness = Harness(f"sqlite:///{folder / 'runs.db'}", durability="hot")
paid = []

@harness.tool(effect="read")
def look(number: int) -> str:
    return os.urandom(1000).hex()

@harness.tool(effect="external")
def pay(cents: int) -> int:
    paid.append(cents)
    return cents

def make_room():
    while harness.stats().store.retried == 0:
        time.sleep(0.005)
    ballast.unlink()

@harness.agent
def agent(run: Run, task: str) -> int:
    run.value("begun", 1)
    ballast.write_bytes(b"")
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(os.urandom(4096))
        except OSError:
            pass
    threading.Thread(target=make_room).start()
    return pay(sum(len(look(number)) for number in range(100)))

result = harness.run(agent, "x")
store = harness.stats().store
run = harness.store.run(result.run_id)
rows = harness.store.calls(run.run_no)
print(json.dumps(dict(status=result.status, output=result.output, paid=paid, retried=store.retried, lost=store.lost,
                      pending=store.pending, versions=[row.ended_version for row in rows[:-1]],
                      findings=len(harness.store.inspect().findings))))
harness.close()
"""


def test_a_full_disk_that_gets_room_again_holds_all_that_was_read_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    shell = f"set -e; mount -t tmpfs -o size=2m none '{folder}'; exec \"$@\""
    command = ["unshare", "--mount", "sh", "-c", shell, "sh", sys.executable, "-c", FULL, str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
    told: dict[str, Any] = json.loads(ended.stdout)
    assert (told["status"], told["output"], told["paid"]) == ("COMPLETED", 200_000, [200_000])
    assert (told["lost"], told["pending"], told["findings"]) == (0, 0, 0)
    assert told["retried"] > 0
    assert told["versions"] == list(range(1, 102))


def test_the_loop_turns_while_an_async_agent_is_held_up_by_a_locked_database(tmp_path: Path) -> None:
    import sqlite3

    harness = Harness(f"sqlite:///{tmp_path / 'runs.db'}", durability="hot", lease_ttl=60.0)

    @harness.tool(effect="read")
    async def look(number: int) -> int:
        return number

    @harness.agent
    async def agent(run: AsyncRun, task: str) -> int:
        await run.value("begun", 1)
        other = sqlite3.connect(tmp_path / "runs.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        async def read_all() -> int:
            return sum([await run.call(look.using(key=str(number)), number) for number in range(1000)])

        reading = asyncio.create_task(read_all())
        while harness.stats().store.pending <= 256:
            assert not reading.done()
            await asyncio.sleep(0)
        for _ in range(1000):  # held up it is, and the loop turns
            await asyncio.sleep(0)
        assert harness.stats().store.pending == 257
        assert not reading.done()
        other.execute("ROLLBACK")
        other.close()
        return await reading

    with harness:
        assert harness.run(agent, "x").output == sum(range(1000))
        assert harness.stats().store.waited_ms > 0
