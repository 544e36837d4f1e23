"""A storm over workers on PostgreSQL, and over some on the stores of one host: whatever is killed, frozen, cut off or
restarted, nothing is lost, nothing is done twice, and of everything that was in doubt it is known how it was
settled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from jumar.testing.chaos import Storm, live_through
from jumar.testing.chaos_app import Terms
from jumar.testing.chaos_judge import Aftermath
from jumar.testing.postgres import PostgresServer, fresh_schema
from tests.crash.mutations_chaos import STORE, WORKERS

SMALL = Storm(runs=24, workers=2, seconds=3.0, every=0.5, bound=60.0, drops=0.02)
LARGE = Storm(runs=200, workers=4, seconds=50.0, every=0.6, bound=120.0, drops=0.01, restarts=2)
BESIDE = Storm(runs=40, workers=3, seconds=9.0, every=0.4, bound=60.0)
BROKEN = Storm(runs=40, workers=3, seconds=9.0, every=0.4, bound=20.0, drops=0.0, restarts=0)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of these tests' own, as they stop it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def address(server: PostgresServer) -> Iterator[str]:
    """The address of a store in a schema of its own."""
    with fresh_schema(server) as address:
        yield address


def terms(address: str, folder: Path, **rest: str) -> Terms:
    """Short times for all."""
    return Terms(address, str(folder), ttl=1.0, frozen=2.0, settle=1.0, body=0.2, **rest)


def worse_terms(address: str, folder: Path, **rest: str) -> Terms:
    """Under which whoever is frozen surely has something to do, and others surely have the time to take it over."""
    return replace(terms(address, folder, **rest), frozen=3.0, body=0.4, concurrency=8)


def survived(aftermath: Aftermath) -> None:
    """All is well after a storm that was one."""
    print(aftermath)
    assert not aftermath.problems, str(aftermath)
    assert {"kill", "freeze"} <= aftermath.blows.keys() and aftermath.taken_over > 0


def seed() -> int:
    """Another storm each time, told with what it left."""
    return random.randrange(2**32)


def test_after_a_small_storm_nothing_is_lost_or_doubled_and_every_doubt_is_settled(
    tmp_path: Path, address: str, server: PostgresServer
) -> None:
    survived(live_through(terms(address, tmp_path / "storm"), SMALL, seed=seed(), server=server))


@pytest.mark.sweep
def test_after_a_storm_nothing_is_lost_or_doubled_and_every_doubt_is_settled(
    tmp_path: Path, address: str, server: PostgresServer
) -> None:
    aftermath = live_through(terms(address, tmp_path / "storm", durability="hot"), LARGE, seed=seed(), server=server)
    survived(aftermath)
    assert aftermath.uncertain > 0 and aftermath.answers > 0
    assert {"kill", "freeze", "terminate", "restart", "unsent", "unheard"} <= aftermath.blows.keys()


@pytest.mark.sweep
@pytest.mark.parametrize("store", ["sqlite:///{}/runs.db", "file:{}/runs"], ids=["sqlite", "file"])
def test_after_a_storm_over_workers_on_one_host_nothing_is_lost_or_doubled(tmp_path: Path, store: str) -> None:
    survived(live_through(terms(store.format(tmp_path), tmp_path / "storm"), BESIDE, seed=seed()))


@pytest.mark.sweep
@pytest.mark.parametrize("name", STORE)
def test_a_storm_shows_that_the_store_is_broken(
    tmp_path: Path, address: str, server: PostgresServer, name: str
) -> None:
    STORE[name](address)
    aftermath = live_through(worse_terms(address, tmp_path / "storm"), BROKEN, seed=seed(), server=server)
    print(aftermath)
    assert aftermath.problems, "nobody noticed"


@pytest.mark.sweep
@pytest.mark.parametrize("name", WORKERS)
def test_a_storm_shows_that_its_workers_are_broken(
    tmp_path: Path, address: str, server: PostgresServer, name: str
) -> None:
    broken = worse_terms(address, tmp_path / "storm", mutation=f"tests.crash.mutations:{name}")
    aftermath = live_through(broken, BROKEN, seed=seed(), server=server)
    print(aftermath)
    assert aftermath.problems, "nobody noticed"
