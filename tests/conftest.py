"""Settings that every test shares."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from jumar.testing.postgres import OtherServer, PostgresServer, fresh_schema, server

# Examples that commit to a disk have no steady pace, so none has a deadline. A failure prints what repeats it.
settings.register_profile("jumar", deadline=None, print_blob=True)
settings.load_profile("jumar")

# A shell's job in the background ignores Ctrl-C, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two processes share folders of tests, which wait for the disk about as much as they compute.  Files and tests
    that are named one by one run in this process: that is sooner done, and where one is missing pytest says so."""
    return 2 if all(Path(argument).is_dir() for argument in config.args) else 0


@pytest.fixture(scope="session")
def postgres() -> PostgresServer | OtherServer:
    """The PostgreSQL server that the tests of this process share; none stops it."""
    return server()


@pytest.fixture
def postgres_address(postgres: PostgresServer | OtherServer) -> Iterator[str]:
    """The address of a store in a schema of its own."""
    with fresh_schema(postgres) as address:
        yield address
