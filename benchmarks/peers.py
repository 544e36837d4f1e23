"""Other libraries that keep what an agent has done, on the same work: one step after the other that returns 1 KiB, each
on disk before the next one begins.

They come with `pip install '.[bench]'`; one that is not there, or does not run, says so in its row and has no figure.
Each runs in its own usual way on the disk and the server of the rows above, with the floor of these in the turns
between.  What a step is worth differs from one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any, TypedDict

from msgspec import Struct

from benchmarks.floors import RESULT, Inserts
from benchmarks.measuring import Blocks, Figure, compared
from benchmarks.postgres import Inserting, served
from benchmarks.sizes import Sizes

INSERT, PEER = "insert", "peer"

Floor = Callable[[int], None]  # commits so many rows of 1 KiB


class Peer(Struct, frozen=True):
    """One of them: its row, what the row says, what to install, and what measures it at a place."""

    row: str
    what: str
    package: str
    measure: Callable[[str, Floor, Sizes], Blocks]


def measure_peers(directory: Path, sizes: Sizes) -> list[Figure]:
    """All of them."""
    inserts = Inserts(directory / "insert.db")
    figures = [_measured(peer, str(directory / "peer.db"), inserts.work, sizes) for peer in ON_SQLITE]
    inserts.close()
    with served(directory) as address:
        floor = Inserting(address)
        figures += [_measured(peer, address.partition("?")[0], floor.work, sizes) for peer in ON_POSTGRES]
        floor.close()
    return figures


def _measured(peer: Peer, place: str, floor: Floor, sizes: Sizes) -> Figure:
    try:
        blocks = peer.measure(place, floor, sizes)
    except ModuleNotFoundError:
        why = f"not measured: {peer.package} is not installed (pip install '.[bench]')"
    except Exception as error:
        why = f"not measured: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
    else:
        return compared(peer.row, peer.what, None, blocks, PEER, INSERT)
    return Figure(peer.row, peer.what, "x", None, None, notes=(why,))


def _taken_in_turns(sizes: Sizes, floor: Floor, step: Callable[[int], Any]) -> Blocks:
    """Blocks of steps, which are numbered, and blocks of the floor."""
    blocks, numbers = Blocks(INSERT, PEER), count()
    for side in blocks.turns(sizes.peer_rounds):
        with blocks.timed(side, sizes.block):
            if side == INSERT:
                floor(sizes.block)
                continue
            for number in islice(numbers, sizes.block):
                step(number)
    return blocks


# --- LangGraph: a graph of one node that goes on to itself, each superstep of which is one checkpoint. ---


class _State(TypedDict):
    number: int
    result: str


def _langgraph_on_sqlite(place: str, floor: Floor, sizes: Sizes) -> Blocks:
    from langgraph.checkpoint.sqlite import SqliteSaver

    with SqliteSaver.from_conn_string(place) as saver:
        saver.setup()
        return _graph(saver, floor, sizes)


def _langgraph_on_postgres(place: str, floor: Floor, sizes: Sizes) -> Blocks:
    from langgraph.checkpoint.postgres import PostgresSaver

    with PostgresSaver.from_conn_string(place) as saver:
        saver.setup()
        return _graph(saver, floor, sizes)


def _graph(saver: Any, floor: Floor, sizes: Sizes) -> Blocks:
    from langgraph.graph import START, StateGraph

    def read(state: _State) -> _State:
        return {"number": state["number"] + 1, "result": RESULT}

    graph = StateGraph(_State)
    graph.add_node("read", read)
    graph.add_edge(START, "read")
    graph.add_conditional_edges("read", lambda state: "read")
    steps: Iterator[Any] = graph.compile(checkpointer=saver).stream(
        {"number": 0, "result": ""},
        {"configurable": {"thread_id": "1"}, "recursion_limit": 10**9},
        stream_mode="updates",
        durability="sync",
    )
    return _taken_in_turns(sizes, floor, lambda number: next(steps))


# --- DBOS: steps of a workflow. ---


def _dbos_on_postgres(place: str, floor: Floor, sizes: Sizes) -> Blocks:
    from dbos import DBOS

    DBOS(config={"name": "benchmark", "system_database_url": place, "log_level": "ERROR"})

    @DBOS.step()
    def read(number: int) -> str:
        return RESULT

    found: list[Blocks] = []

    @DBOS.workflow()
    def reader() -> None:
        found.append(_taken_in_turns(sizes, floor, read))

    DBOS.launch()
    try:
        reader()
    finally:
        DBOS.destroy(destroy_registry=True)
    return found[0]


# --- Absurd: steps of a task. ---


def _absurd_on_postgres(place: str, floor: Floor, sizes: Sizes) -> Blocks:
    import absurd_sdk
    import absurdctl
    import psycopg

    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
    app = absurd_sdk.Absurd(place, queue_name="benchmark")
    app.create_queue()
    found: list[Blocks] = []

    @app.register_task(name="reader", default_max_attempts=1)
    def reader(parameters: Any, context: Any) -> None:
        found.append(_taken_in_turns(sizes, floor, lambda number: context.step(f"read {number}", lambda: RESULT)))

    app.spawn("reader", {})
    app.work_batch(claim_timeout=3600)
    if not found:
        raise AssertionError("the task was not run to its end")
    return found[0]


ON_SQLITE = (
    Peer(
        "peer-langgraph-sqlite",
        "a superstep of LangGraph with its SQLite saver, over INSERT and COMMIT of 1 KiB",
        "langgraph-checkpoint-sqlite",
        _langgraph_on_sqlite,
    ),
)
ON_POSTGRES = (
    Peer(
        "peer-langgraph-postgres",
        "a superstep of LangGraph with its PostgreSQL saver, over an autocommit INSERT of 1 KiB",
        "langgraph-checkpoint-postgres",
        _langgraph_on_postgres,
    ),
    Peer(
        "peer-dbos-postgres",
        "a step of DBOS on PostgreSQL, over an autocommit INSERT of 1 KiB",
        "dbos",
        _dbos_on_postgres,
    ),
    Peer(
        "peer-absurd-postgres",
        "a step of Absurd on PostgreSQL, over an autocommit INSERT of 1 KiB",
        "absurd-sdk",
        _absurd_on_postgres,
    ),
)
