"""Connections to PostgreSQL that are cut: between two steps, by a server that goes away and comes back, at a commit."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread, get_ident
from typing import Any

import psycopg
import pytest

from jumar import Harness, Run, errors
from jumar.core.changes import Ack, Answer, Change, Claimed
from jumar.core.requests import Flow, Lane, Load
from jumar.core.states import CallState, Control, Status, Verdict
from jumar.core.store import CommitUnknown
from jumar.engine.drivers.aio import adrive
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.stores.postgres.address import parse
from jumar.testing.conformance_scene import AT, Scene, call
from jumar.testing.postgres import PostgresServer, fresh_schema
from jumar.testing.tcp_proxy import TcpProxy
from tests.concurrency.postgres_beside import SECONDS, beside, counting, cut_connections, named, port_of, through


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that is stopped and started."""
    with PostgresServer() as server:
        yield server


@contextmanager
def schema_on(server: PostgresServer) -> Iterator[str]:
    with fresh_schema(server) as address:
        yield address


# --- Connections that are cut. ---------------------------------------------------------------------------------------


def test_an_agent_does_not_notice_that_its_connections_are_cut_between_its_steps(postgres_address: str) -> None:
    name = parse(postgres_address).schema
    with Harness(named(postgres_address, name)) as harness:

        @harness.tool(effect="read")
        def add(number: int) -> int:
            assert cut_connections(postgres_address, name) > 0
            return number + 1

        @harness.agent(tools=[add])
        def count(run: Run, steps: int) -> int:
            number = 0
            for _ in range(steps):
                number = run.call(add, number)
            return number

        result = harness.run(count, 5)
        assert result.unwrap() == 5
        assert [each.attempt for each in harness.show(result.run_id).calls] == [1] * 5


def test_a_write_that_may_not_wait_is_refused_at_once_where_no_connection_is_left(postgres_address: str) -> None:
    name = parse(postgres_address).schema
    store = open_store(named(postgres_address, name))
    scene = Scene(store)
    run = scene.queued()
    assert cut_connections(postgres_address, name) == 1
    with pytest.raises(errors.StoreBusy, match="no connection"):
        store.write([scene.order(run, Control.PAUSE)], wait=False)
    assert isinstance(store.write([scene.order(run, Control.PAUSE)])[0], Ack)
    assert isinstance(store.write([scene.order(run, Control.PAUSE)], wait=False)[0], Ack)
    store.close()


def test_a_store_that_is_closed_says_so(postgres_address: str) -> None:
    store = open_store(postgres_address)
    store.close()
    for use in (lambda: store.find("", 1), lambda: store.write([Scene(store).create()])):
        with pytest.raises(errors.StoreUnavailable, match="is closed"):
            use()


def test_a_forked_process_and_its_parent_both_go_on(postgres_address: str) -> None:
    store = open_store(postgres_address)
    scene = Scene(store)
    run = scene.queued()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        ok = b"n"
        try:
            if isinstance(scene.write(scene.order(run, Control.PAUSE)), Ack) and store.run(run.run_id) is not None:
                ok = b"y"
        finally:
            os.write(write, ok)
            os._exit(0)
    os.close(write)
    assert os.read(read, 1) == b"y"
    os.close(read)
    os.waitpid(child, 0)
    assert scene.again(run).control is Control.PAUSE, "over the connection that the child had a copy of"
    store.close()


# --- A server that goes away and comes back. -------------------------------------------------------------------------


def test_a_run_goes_on_when_the_server_was_stopped_and_started_in_the_middle(own_server: PostgresServer) -> None:
    done: list[int] = []

    def act(number: int) -> None:
        done.append(number)
        if number == 2:
            own_server.restart("immediate")
        if number == 4:  # it is still away when the agent comes to record what it did
            own_server.stop("fast")
            Thread(target=own_server.start).start()

    with schema_on(own_server) as address, Harness(address) as harness:
        result = harness.run(counting(harness, act), 6)
        assert result.unwrap() == 6
        calls = harness.show(result.run_id).calls
        assert done == [0, 1, 2, 3, 4, 5]
        assert [each.attempt for each in calls] == [1] * 6
        assert harness.doctor().sound


def test_no_run_of_an_event_loop_keeps_the_loop_from_going_on_while_the_server_is_away(
    own_server: PostgresServer,
) -> None:
    """The loop itself starts the server again: were it waiting for it, both would wait for ever."""
    done: list[tuple[int, int]] = []
    with schema_on(own_server) as address, Harness(address) as harness:

        async def start_again() -> None:
            for _ in range(200):  # as many turns as the other runs may need to meet the server that is away
                await asyncio.sleep(0)
            await asyncio.to_thread(own_server.start)

        @harness.tool(effect="external")
        async def step(run: int, number: int) -> int:
            done.append((run, number))
            if (run, number) == (7, 1):
                own_server.stop()
                starting.append(asyncio.create_task(start_again()))
            return number + 1

        @harness.agent(tools=[step])
        async def count(run: Any, own: int) -> int:
            number = 0
            for _ in range(3):
                number = await run.call(step, own, number)
            return number

        async def all_of_them() -> list[Any]:
            late = [harness.arun(count, own) for own in range(20, 25)]
            results = await asyncio.gather(*(harness.arun(count, own) for own in range(20)), *late)
            await asyncio.gather(*starting)
            return results

        starting: list[asyncio.Task[None]] = []
        results = asyncio.run(all_of_them())
        assert len(starting) == 1
        assert [result.unwrap() for result in results] == [3] * 25
        assert sorted(done) == [(run, number) for run in range(25) for number in range(3)]


def test_what_is_read_while_the_server_is_away_is_waited_for_beside_the_loop(own_server: PostgresServer) -> None:
    with schema_on(own_server) as address, Harness(address) as harness:

        @harness.agent
        async def double(run: Any, number: int) -> int:
            return number * 2

        started = [harness.start(double, number) for number in (3, 4)]
        io = harness._open()._engine.io

        async def while_it_is_away() -> tuple[Any, ...]:
            own_server.stop()
            tasks = [harness.aresume(started[0]), adrive(read_run(started[1]), io), harness.arun(double, 5)]
            waiting = [asyncio.create_task(task) for task in tasks]
            for _ in range(50):
                await asyncio.sleep(0)
            await asyncio.to_thread(own_server.start)
            return tuple(await asyncio.gather(*waiting))

        resumed, read, ran = asyncio.run(while_it_is_away())
        assert (resumed.unwrap(), read.run_id, ran.unwrap()) == (6, started[1], 10)


def read_run(run_id: str) -> Flow[Any]:
    return (yield from Load(lambda store: store.run(run_id)))


def test_who_waits_for_runs_is_told_of_them_again_after_the_server_was_started_anew(own_server: PostgresServer) -> None:
    with schema_on(own_server) as address:
        store, other = open_store(address), open_store(address)
        watch = store.watch()
        own_server.restart()
        assert watch.wait(SECONDS), "it is told to look, since something may have been missed"
        heard(watch)
        Scene(other).queued()
        assert watch.wait(SECONDS)
        watch.close()
        store.close()
        other.close()


def heard(watch: Any) -> None:
    """Wait until notifications come through, and drop what was told until then."""
    assert watch._hears.wait(SECONDS)
    while watch.wait(0):
        pass


# --- Connections cut at a commit. ------------------------------------------------------------------------------------


class Cutting:
    """A store behind a proxy, its queue, and a scene whose own writes pass beside the proxy."""

    def __init__(self, address: str, proxy: TcpProxy) -> None:
        self.proxy = proxy
        self.store = open_store(through(address, proxy.port))
        self.queue = CommitQueue(self.store)
        self.scene = Scene(open_store(address))

    def close(self) -> None:
        self.store.close()
        self.scene.store.close()


@pytest.fixture
def cutting(postgres_address: str) -> Iterator[Cutting]:
    with TcpProxy(port_of(postgres_address)) as proxy:
        made = Cutting(postgres_address, proxy)
        yield made
        made.close()


def plain_advance(cutting: Cutting) -> tuple[Change, Callable[[], bool]]:
    run = cutting.scene.running()
    change = cutting.scene.advance(run, calls=(call(1, CallState.SUCCEEDED, result=b"1"),))
    return change, lambda: [each.seq for each in cutting.store.calls(run.run_no)] == [1]


def leaving(cutting: Cutting) -> tuple[Change, Callable[[], bool]]:
    run = cutting.scene.running()
    change = cutting.scene.leave(run, Status.QUEUED)
    return change, lambda: cutting.scene.again(run).version == run.version + 1


def creation(cutting: Cutting) -> tuple[Change, Callable[[], bool]]:
    change = cutting.scene.create(owner="ann")
    return change, lambda: cutting.store.find("", 10) == [change.run_id]


def claim(cutting: Cutting) -> tuple[Change, Callable[[], bool]]:
    run = cutting.scene.queued()
    return cutting.scene.claim(run, "bob"), lambda: cutting.scene.again(run).epoch == run.epoch + 1


def order(cutting: Cutting) -> tuple[Change, Callable[[], bool]]:
    run = cutting.scene.queued()
    return cutting.scene.order(run, Control.CANCEL), lambda: cutting.scene.again(run).control is Control.CANCEL


def answer(cutting: Cutting) -> tuple[Change, Callable[[], bool]]:
    run = cutting.scene.asked(cutting.scene.running(), "q1")
    change = Answer(run_no=run.run_no, request_id="q1", verdict=Verdict.APPROVE, value=None, by="eve", note=None, at=AT)
    return change, lambda: cutting.scene.again(run).answers == 1


MAKERS = {each.__name__: each for each in (plain_advance, leaving, creation, claim, order, answer)}


@pytest.mark.parametrize("forwarded", [False, True], ids=["unsent", "unheard"])
@pytest.mark.parametrize("what", MAKERS)
def test_a_change_whose_commit_was_cut_off_is_made_once(cutting: Cutting, what: str, forwarded: bool) -> None:
    change, stands_once = MAKERS[what](cutting)
    # A lone advance and a renewal are one statement; whatever else goes as a transaction says COMMIT.
    cut = cutting.proxy.cut(b"advance_plain(" if what == "plain_advance" else b"COMMIT", forwarded=forwarded)
    answered = cutting.queue.submit(change)
    cut.wait()
    assert isinstance(answered, (Ack, Claimed)), answered
    assert stands_once()


@pytest.mark.parametrize("forwarded", [False, True], ids=["unsent", "unheard"])
def test_what_a_cut_commit_leaves_open_is_said_and_read_back(cutting: Cutting, forwarded: bool) -> None:
    change, stands_once = plain_advance(cutting)
    cutting.proxy.cut(b"advance_plain(", forwarded=forwarded)
    with pytest.raises(CommitUnknown):
        cutting.store.write([change])
    landed = cutting.store.read_back(change)
    assert isinstance(landed, Ack) is forwarded
    assert stands_once() is forwarded


@pytest.mark.parametrize("forwarded", [False, True], ids=["unsent", "unheard"])
def test_every_change_of_a_batch_whose_commit_was_cut_off_is_made_once(cutting: Cutting, forwarded: bool) -> None:
    runs = [cutting.scene.running() for _ in range(5)]
    changes = [cutting.scene.advance(run, calls=(call(1, CallState.SUCCEEDED, result=b"1"),)) for run in runs]

    async def together() -> list[Any]:
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in changes]
        for change, future in zip(changes, futures, strict=True):
            cutting.queue.submit_async(change, Lane(change.version), loop, future)
        return await asyncio.gather(*futures)

    cut = cutting.proxy.cut(b"COMMIT", forwarded=forwarded)
    answers = asyncio.run(together())
    cut.wait()
    assert all(isinstance(each, Ack) for each in answers)
    assert [len(cutting.store.calls(run.run_no)) for run in runs] == [1] * 5


@pytest.mark.parametrize("forwarded", [False, True], ids=["unsent", "unheard"])
def test_an_agent_whose_every_third_commit_is_cut_off_does_everything_once(
    postgres_address: str, tmp_path: Path, forwarded: bool
) -> None:
    sent: list[int] = []
    with TcpProxy(port_of(postgres_address)) as proxy, Harness(through(postgres_address, proxy.port)) as harness:

        def act(number: int) -> None:
            sent.append(number)
            if number % 3 == 0:
                proxy.cut(b".advance", forwarded=forwarded)

        assert harness.run(counting(harness, act), 9).unwrap() == 9
    assert sent == list(range(9))


def test_a_read_whose_answer_was_lost_is_made_again(cutting: Cutting) -> None:
    run = cutting.scene.queued()
    cut = cutting.proxy.cut(b".run WHERE run_id", forwarded=True, times=2)
    assert cutting.store.run(run.run_id) == run
    cut.wait()


def test_an_interrupted_write_is_called_off_and_the_store_can_be_used_on(postgres_address: str) -> None:
    name = parse(postgres_address).schema
    store = open_store(named(postgres_address, name))
    scene = Scene(store)
    run = scene.queued()
    waits = "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
    main = get_ident()

    def interrupt() -> None:
        with psycopg.connect(parse(postgres_address).uri, autocommit=True) as looking:
            while looking.execute(waits.encode(), (name,)).fetchone() is None:
                pass
        signal.pthread_kill(main, signal.SIGINT)

    with psycopg.connect(parse(postgres_address).uri) as holding:
        holding.execute(f"SELECT FROM {name}.run WHERE run_no = {run.run_no} FOR UPDATE".encode())
        interrupting = Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            store.write([scene.order(run, Control.CANCEL)])
        interrupting.join(SECONDS)
        assert beside(postgres_address, waits, name) == [], "nothing of it waits on in the server"
    assert scene.again(run).control is Control.NONE
    assert isinstance(store.write([scene.order(run, Control.PAUSE)])[0], Ack)
    store.close()
