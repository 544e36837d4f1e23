"""Where the runs of the crash tests are kept: in a database file in each story's folder, or in a folder of files there,
or all in one PostgreSQL store, which is emptied for each story.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jumar.core.store import Store
from jumar.stores.opening import open_store
from jumar.testing.crash_clock import StoppedClock
from jumar.testing.postgres_clock import MovedClock, emptied

_elsewhere: list[str] = []
_emptied: list[str] = []  # of these stores, those that are emptied for each story
_begun: set[Path] = set()
_in_folders: list[None] = []


def address_of(folder: Path) -> str:
    """The address of the store of the story in this folder."""
    if _in_folders:
        return f"file:{folder / 'run'}"
    return _elsewhere[-1] if _elsewhere else f"sqlite:///{folder / 'run.db'}"


def reader_of(folder: Path) -> Store:
    """Somebody else's look at that store."""
    return open_store(address_of(folder))


def begin(folder: Path) -> None:
    """A story begins in this folder, unless it has begun already."""
    if _emptied and folder not in _begun:
        _begun.add(folder)
        emptied(_emptied[-1])


@contextmanager
def in_folders() -> Iterator[None]:
    """Keep the runs of each story in a store of files in its folder."""
    _in_folders.append(None)
    try:
        yield
    finally:
        _in_folders.pop()


@contextmanager
def looked_up_at(address: str) -> Iterator[None]:
    """The runs of all stories are in the store at this address."""
    _elsewhere.append(address)
    try:
        yield
    finally:
        _elsewhere.pop()


@contextmanager
def all_at(address: str, clock: StoppedClock) -> Iterator[None]:
    """Keep all runs in the PostgreSQL store at this address, whose clock is `clock`."""
    open_store(address).close()
    with MovedClock(address, stopped=True) as server, looked_up_at(address):
        server.show(clock.ms)
        clock.followers.append(server.show)
        _emptied.append(address)
        try:
            yield
        finally:
            _emptied.pop()
            clock.followers.remove(server.show)
            _begun.clear()
