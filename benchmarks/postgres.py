"""The rows on PostgreSQL: a server of its own, as it comes out of the box, with its data on the disk that is measured.

One recorded read call stands against one autocommit INSERT of 1 KiB over a connection of psycopg's, and runs side by
side against as many connections that commit their INSERTs.  Neither floor has anything of Jumar in it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any

from benchmarks.floors import DATA, RESULT
from benchmarks.measuring import Blocks, Figure, compared
from benchmarks.sizes import Sizes
from jumar import AsyncRun, Harness, Run

INSERT, JUMAR = "insert", "jumar"
CONNECTIONS = "connections"


def measure_calls(directory: Path, sizes: Sizes) -> list[Figure]:
    """One recorded read call, of a plain agent and of an async one."""
    with served(directory) as address:
        what = "a recorded read on PostgreSQL{}, over an autocommit INSERT of 1 KiB"
        plain, waits = _plain(address, sizes), _asyncio(address, sizes)
        return [
            compared("postgres-call", what.format(""), 1.7, plain, JUMAR, INSERT),
            compared("postgres-call-asyncio", what.format(" under asyncio"), None, waits, JUMAR, INSERT),
        ]


def measure_runs(directory: Path, sizes: Sizes) -> list[Figure]:
    """Runs side by side, in threads and as tasks of one event loop."""
    with served(directory) as address, Harness(address) as harness:
        figures = []
        for how, together in (("in threads", _threads(harness, sizes)), ("under asyncio", _tasks(harness, sizes))):
            blocks = _side_by_side(address, sizes, together)
            what = f"{sizes.runs} runs on PostgreSQL {how}, over {sizes.runs} connections that commit INSERTs"
            row = f"postgres-runs-{how.split()[-1]}"
            figures.append(compared(row, what, 1.2, blocks, JUMAR, CONNECTIONS))
        return figures


_running = ExitStack()  # the server, once a row has asked for it
_server: list[Any] = []


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The address of an empty store on a server with the settings that a server has by itself; all rows share it, and
    its data is beside `directory`.
    """
    from jumar.testing.postgres import PostgresServer, fresh_schema

    if not _server:
        within: Path | None = directory.parent
        directory.parent.chmod(0o755)
        if not _is_reached(directory):
            print("Warning: the server's data is where temporary files go: it cannot reach --dir.", file=sys.stderr)
            within = None
        usual = {"shared_buffers": "128MB", "autovacuum_naptime": "1min", "log_checkpoints": "on"}
        started = PostgresServer(fsync=True, max_connections=100, settings=usual, within=within)
        _server.append(_running.enter_context(started))
    with fresh_schema(_server[0]) as address:
        yield address


def _is_reached(directory: Path) -> bool:
    """Whether a server that root starts, which then runs as somebody else, comes to this directory."""
    return os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in directory.parents)


def stop_server() -> None:
    """Stop it, before its folder goes."""
    _server.clear()
    _running.close()


class Inserting:
    """Rows of 1 KiB, each committed by itself, over connections as a program would use them with psycopg."""

    def __init__(self, address: str, connections: int = 1) -> None:
        uri = address.partition("?")[0]
        with _connected(uri) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS record (number bigserial PRIMARY KEY, data bytea NOT NULL)")
        self._connections = [_connected(uri) for _ in range(connections)]

    def work(self, count: int) -> None:
        """Commit so many rows over the first connection."""
        _insert(self._connections[0], count)

    def work_together(self, count: int) -> None:
        """Commit so many over each connection, each in a thread of its own."""
        threads = [threading.Thread(target=_insert, args=(each, count)) for each in self._connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def rows(self) -> int:
        """How many rows there are."""
        return int(self._connections[0].execute("SELECT count(*) FROM record").fetchone()[0])

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            connection.close()


def _insert(connection: Any, count: int) -> None:
    for _ in range(count):
        connection.execute("INSERT INTO record (data) VALUES (%s)", (DATA,))


def _connected(uri: str) -> Any:
    import psycopg

    return psycopg.connect(uri, autocommit=True)


# --- One run. ---


def _plain(address: str, sizes: Sizes) -> Blocks:
    blocks, floor = Blocks(INSERT, JUMAR), Inserting(address)
    harness = Harness(address)

    @harness.tool(effect="read")
    def read(number: int) -> str:
        return RESULT

    @harness.agent(tools=[read])
    def reader(run: Run, first: int) -> int:
        numbers = count(first)
        for side in blocks.turns(sizes.rounds):
            with blocks.timed(side, sizes.block):
                if side == INSERT:
                    floor.work(sizes.block)
                    continue
                for number in islice(numbers, sizes.block):
                    run.call(read, number)
        return next(numbers)

    with harness:
        harness.run(reader, 0).unwrap()
    floor.close()
    return blocks


def _asyncio(address: str, sizes: Sizes) -> Blocks:
    blocks, floor = Blocks(INSERT, JUMAR), Inserting(address)
    harness = Harness(address)

    @harness.tool(effect="read")
    async def read(number: int) -> str:
        return RESULT

    @harness.agent(tools=[read])
    async def reader(run: AsyncRun, first: int) -> int:
        numbers = count(first)
        for side in blocks.turns(sizes.rounds):
            with blocks.timed(side, sizes.block):
                if side == INSERT:
                    floor.work(sizes.block)
                    continue
                for number in islice(numbers, sizes.block):
                    await run.call(read, number)
        return next(numbers)

    with harness:
        harness.run(reader, 0).unwrap()
    floor.close()
    return blocks


# --- Many. ---


def _threads(harness: Harness, sizes: Sizes) -> Callable[[], None]:
    @harness.tool(effect="read")
    def read(number: int) -> str:
        return RESULT

    @harness.agent(tools=[read])
    def reader(run: Run, steps: int) -> int:
        for number in range(steps):
            run.call(read, number)
        return 0

    def together() -> None:
        with ThreadPoolExecutor(sizes.runs) as pool:
            for result in pool.map(lambda _: harness.run(reader, sizes.run_steps), range(sizes.runs)):
                result.unwrap()

    return together


def _tasks(harness: Harness, sizes: Sizes) -> Callable[[], None]:
    @harness.tool(effect="read")
    async def aread(number: int) -> str:
        return RESULT

    @harness.agent(tools=[aread])
    async def areader(run: AsyncRun, steps: int) -> int:
        for number in range(steps):
            await run.call(aread, number)
        return 0

    async def gathered() -> None:
        results = await asyncio.gather(*(harness.arun(areader, sizes.run_steps) for _ in range(sizes.runs)))
        for result in results:
            result.unwrap()

    return lambda: asyncio.run(gathered())


def _side_by_side(address: str, sizes: Sizes, together: Callable[[], None]) -> Blocks:
    """Create every run, record its reads and finish it; on the other side, as many commits."""
    blocks = Blocks(CONNECTIONS, JUMAR)
    commits = sizes.run_steps + 2
    with ExitStack() as stack:
        floor = Inserting(address, sizes.runs)
        stack.callback(floor.close)
        before = floor.rows()
        for side in blocks.turns(sizes.run_rounds):
            with blocks.timed(side, sizes.runs * commits):
                if side == CONNECTIONS:
                    floor.work_together(commits)
                else:
                    together()
        if floor.rows() - before != sizes.runs * commits * (sizes.run_rounds + 1):
            raise AssertionError("a connection of the floor has failed")
    return blocks
