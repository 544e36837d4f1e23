"""A PostgreSQL server that does not answer: one that stands still, is gone behind a proxy, or ends the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from threading import Event

import psycopg
import pytest

from jumar import AsyncRun, Harness, errors
from jumar.core.changes import Ack
from jumar.core.states import Control
from jumar.stores.opening import open_store
from jumar.stores.postgres import connecting
from jumar.stores.postgres.address import parse
from jumar.stores.postgres.connecting import Connections, unhurried
from jumar.stores.postgres.failures import is_lost, may_pass
from jumar.testing.conformance_scene import Scene
from jumar.testing.tcp_proxy import TcpProxy
from tests.concurrency.postgres_beside import SECONDS, counting, port_of, through


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Until it is set, what meets it is not handed on; whoever is not answered has soon waited long enough."""
    monkeypatch.setattr(connecting._Answering, "answer_seconds", 0.3)
    over = Event()
    yield over
    over.set()


def test_a_run_goes_on_by_another_connection_where_the_server_does_not_answer(
    postgres_address: str, silence: Event
) -> None:
    sent: list[int] = []
    handed_on: list[int] = []
    with TcpProxy(port_of(postgres_address)) as proxy, Harness(through(postgres_address, proxy.port)) as harness:

        def act(number: int) -> None:
            sent.append(number)
            if number == 2:
                proxy.meet(b"advance", lambda: silence.wait(SECONDS) or handed_on.append(number))

        count = counting(harness, act)
        assert harness.run(count, 5).unwrap() == 5
        assert not handed_on
        silence.set()
    assert sent == [0, 1, 2, 3, 4]


def test_a_read_that_is_not_answered_is_made_again(postgres_address: str, silence: Event) -> None:
    with TcpProxy(port_of(postgres_address)) as proxy:
        store = open_store(through(postgres_address, proxy.port))
        run = Scene(store).queued()
        proxy.meet(b"run_id =", lambda: silence.wait(SECONDS))
        assert store.run(run.run_id) == run
        assert proxy.accepted == 2
        silence.set()
        store.close()


def test_a_change_that_waits_for_a_row_for_ever_is_given_up_and_can_be_made_afterwards(
    postgres_address: str, silence: Event
) -> None:
    place = parse(postgres_address)
    store = open_store(f"{postgres_address}&connect_timeout=1")
    scene = Scene(store)
    run = scene.queued()
    with psycopg.connect(place.uri) as other:
        other.execute(f"SELECT FROM {place.schema}.run WHERE run_no = {run.run_no} FOR UPDATE".encode())
        with pytest.raises(errors.StoreUnavailable, match="gave no answer"):
            store.read_back(scene.order(run, Control.PAUSE))
    assert isinstance(store.write([scene.order(run, Control.PAUSE)])[0], Ack)
    store.close()


@pytest.mark.parametrize("statement", ["advance", "FROM"], ids=["a write", "a read"])
def test_an_event_loop_is_not_held_up_by_a_server_that_does_not_answer(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr(connecting, "LOOP_ANSWER_SECONDS", 0.2)
    sent: list[int] = []
    over, ended = Event(), Event()
    by_the_loop: list[bool] = []

    async def scene(harness: Harness, proxy: TcpProxy) -> list[int]:
        loop, silent = asyncio.get_running_loop(), asyncio.Event()

        def meet() -> None:
            loop.call_soon_threadsafe(silent.set)
            by_the_loop.append(over.wait(SECONDS))
            ended.set()

        @harness.tool(effect="external")
        async def step(number: int) -> int:
            sent.append(number)
            if number == 2:
                proxy.meet(statement.encode(), meet)
            return number

        @harness.agent(tools=[step])
        async def count(run: AsyncRun, steps: int) -> list[int]:
            return [await run.call(step, number) for number in range(steps)]

        async def watch() -> None:
            await silent.wait()
            over.set()

        watching = asyncio.create_task(watch())
        done = (await harness.arun(count, 5)).unwrap()
        await watching
        return done

    with TcpProxy(port_of(postgres_address)) as proxy, Harness(through(postgres_address, proxy.port)) as harness:
        assert asyncio.run(scene(harness, proxy)) == [0, 1, 2, 3, 4]
        assert ended.wait(SECONDS)
    assert by_the_loop == [True]
    assert sent == [0, 1, 2, 3, 4]


def test_a_migration_may_take_its_time(postgres_address: str, silence: Event) -> None:
    connection = Connections(parse(postgres_address)).once(SECONDS)
    with unhurried(connection):
        connection.execute("SELECT pg_sleep(0.5)")
    with pytest.raises(psycopg.OperationalError, match=r"no answer in 0\.3 s"):
        connection.execute("SELECT pg_sleep(60)")
    assert connection.closed


@pytest.mark.parametrize(
    "ended", ["AdminShutdown", "IdleInTransactionSessionTimeout", "IdleSessionTimeout", "TransactionTimeout"]
)
def test_what_a_server_says_as_it_ends_a_connection_is_known_for_a_lost_one(ended: str) -> None:
    error = getattr(psycopg.errors, ended)("said")
    assert is_lost(error)
    assert may_pass(error)
