"""A PostgreSQL server that does not answer: one that stands still, is gone behind a proxy, or ends the connection."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import psycopg
import pytest

from jumar import Harness, errors
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
