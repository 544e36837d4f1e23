"""A store in a folder is killed, loses its power, or is told of an error, at every call that it makes to the disk: what
it had acknowledged is there, and what was under way is there as a whole or not at all."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

from jumar.core.changes import Ack
from jumar.core.store import CommitUnknown
from jumar.errors import JumarError, StoreFull, StoreUnavailable
from jumar.stores.file.layout import entry_name
from jumar.stores.file.store import FileStore
from jumar.testing.conformance_scene import Scene
from tests.crash.file_scene import made, picture, steps
from tests.crash.power import Cut, PowerCut

EVERY = 22  # of the points, of which each of the two default tests tries one


Tale: TypeAlias = tuple[list[Any], list[str], list[int]]


@pytest.fixture(scope="module")
def tale(tmp_path_factory: pytest.TempPathFactory) -> Tale:
    """The pictures after each step of the history, the calls to the disk it takes, and how many until each step."""
    disk = PowerCut(tmp_path_factory.mktemp("tale") / "store")
    store = FileStore(str(disk.root), disk)
    scene, pictures, counts = Scene(store), [picture(store)], [len(disk.made)]
    for step in steps():
        assert made(scene, step(scene))
        pictures.append(picture(store))
        assert pictures[-1][-1] == []
        counts.append(len(disk.made))
    store.close()
    return pictures, disk.made, counts


def killed(disk: PowerCut) -> int:
    """Go through the history until the power goes; answers how many steps were acknowledged."""
    done = -1
    store = None
    try:
        store = FileStore(str(disk.root), disk)
        scene = Scene(store)
        done = 0
        for step in steps():
            assert made(scene, step(scene))
            done += 1
    except Cut:
        pass
    finally:
        if store is not None:
            store.close()
    return done


def look(place: Path, pictures: list[Any], done: int) -> int:
    """The folder opens, holds all that was acknowledged and nothing half, and takes what comes; answers which picture
    of the history it is.
    """
    store = FileStore(str(place))
    try:
        seen = picture(store)
        assert seen in pictures[max(done, 0) : done + 2], f"after {done} acknowledged steps"
        again, scene = pictures.index(seen), Scene(store)
        for step in list(steps())[again : again + 2]:
            assert made(scene, step(scene))
        assert picture(store) == pictures[min(again + 2, len(pictures) - 1)]
    finally:
        store.close()
    return again


@pytest.mark.parametrize("first", [0, 11])
def test_a_cut_at_any_call_leaves_what_was_acknowledged(tmp_path: Path, tale: Tale, first: int) -> None:
    pictures, calls, _ = tale
    for at in range(first, len(calls), EVERY):
        _cut_at(tmp_path, pictures, at, at % 2 == 0, (0.0, 1.0, 0.5), seed=at)


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(2))
def test_a_cut_at_every_call_leaves_what_was_acknowledged(tmp_path: Path, tale: Tale, first: int) -> None:
    pictures, calls, _ = tale
    for at in range(first, len(calls), 2):
        _cut_at(tmp_path, pictures, at, at // 2 % 2 == 0, (0.0, 0.5, 0.8), seed=1000 + at)


@pytest.mark.sweep
@pytest.mark.parametrize("folder", ["store", "runs", ".new", "run-1", "artifacts", "checkpoints"])
def test_a_folder_that_is_not_flushed_is_noticed(tmp_path: Path, tale: Tale, folder: str) -> None:
    """What looks at the cuts is itself looked at: it has to see each of these faults."""
    pictures, calls, _ = tale
    with pytest.raises((AssertionError, JumarError)):
        for at in range(0, len(calls), 2):
            _cut_at(tmp_path, pictures, at, at // 2 % 2 == 0, (0.0, 0.5, 0.5), seed=at, unflushed=folder)


def _cut_at(
    folder: Path,
    pictures: list[Any],
    at: int,
    after: bool,
    chances: tuple[float, ...],
    seed: int,
    unflushed: str | None = None,
) -> None:
    home = folder / "live"
    disk = PowerCut(home / "store", at, after=after, unflushed=unflushed)
    home.mkdir()
    done = killed(disk)
    random = Random(seed)
    for number, chance in enumerate(chances):
        print(f"call {at} {'after' if after else 'before'}, chance {chance}, seed {seed}")
        place = folder / f"left-{number}"
        look(disk.survivors(place, chance, random), pictures, done)
        shutil.rmtree(place)
    shutil.rmtree(home)


def test_what_is_acknowledged_needs_no_luck(tmp_path: Path, tale: Tale) -> None:
    """Where only what was flushed is left, right after each step, it is all there."""
    pictures, _, counts = tale
    for step, count in enumerate(counts):
        disk = PowerCut(tmp_path / "store", count)
        done = killed(disk)
        assert done == step
        left = disk.survivors(tmp_path / "left", 0.0, Random(0))
        assert look(left, pictures, done) == step
        shutil.rmtree(left)
        shutil.rmtree(disk.root)


CODES = pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=["full", "broken"])


@CODES
def test_an_error_at_any_call_is_told_and_the_store_goes_on(tmp_path: Path, tale: Tale, code: int) -> None:
    pictures, calls, counts = tale
    for at in range(counts[0] + (code == errno.EIO), len(calls), 13):
        _fails_at(tmp_path, pictures, at, calls[at], code)


@pytest.mark.sweep
@CODES
def test_an_error_at_every_second_call_is_told_and_the_store_goes_on(tmp_path: Path, tale: Tale, code: int) -> None:
    pictures, calls, counts = tale
    for at in range(counts[0] + (code == errno.EIO), len(calls), 2):
        _fails_at(tmp_path, pictures, at, calls[at], code)


def _fails_at(folder: Path, pictures: list[Any], at: int, name: str, code: int) -> None:
    print(f"call {at}, {name}")
    disk = PowerCut(folder / "store", failing=lambda number, _: OSError(code, "no") if number == at else None)
    store = FileStore(str(disk.root), disk)
    scene, failed = Scene(store), 0
    for number, step in enumerate(steps()):
        change = step(scene)
        try:
            answer = store.write([change])[0]
        except CommitUnknown:
            failed += 1
            known = store.read_back(change)
            # Of a rename that failed so nobody knows whether it was done; this one was not.
            assert isinstance(known, Ack) if name != "rename" else known is None
            answer = known or store.write([change])[0]
        if isinstance(answer, Exception):
            failed += 1
            assert isinstance(answer, StoreFull if code == errno.ENOSPC else StoreUnavailable)
            assert picture(store) == pictures[number]
            assert made(scene, change)
        assert picture(store) == pictures[number + 1]
    assert failed == 1
    store.close()
    shutil.rmtree(disk.root)


def test_what_killed_commits_left_is_removed_by_whoever_writes_next(tmp_path: Path, tale: Tale) -> None:
    """Wherever they were killed, and though the power stayed: all that is there later is what a head names."""
    _, calls, counts = tale
    for at in range(counts[0], len(calls), 13):
        disk = PowerCut(tmp_path / "store", at, after=at % 4 == 0)
        done = killed(disk)
        left = disk.survivors(tmp_path / "left", 1.0, Random(0))
        store = FileStore(str(left))
        scene = Scene(store)
        for step in list(steps())[done:] if _stands_at(store, tale, done) else ():
            assert made(scene, step(scene))
        scene.queued(run_id="one-more")
        assert picture(store)[-1] == []
        store.close()
        assert _unnamed(left) == [], f"killed at call {at}, {calls[at]}"
        shutil.rmtree(left)
        shutil.rmtree(disk.root)


def _stands_at(store: FileStore, tale: Tale, done: int) -> bool:
    return bool(picture(store) == tale[0][done])


def _unnamed(root: Path) -> list[str]:
    """The files of runs that no head names, by way of its entries."""
    found = []
    for home in (root / "runs").iterdir():
        head = json.loads((home / "head.json").read_text())["head"]
        named = {"head.json", *(entry_name(number) for number in range(1, head["entry"] + 1))}
        for number in range(head["first"], head["entry"] + 1):
            entry = json.loads((home / entry_name(number)).read_text())["entry"]
            named |= {
                each["file"] for kind in ("artifact", "checkpoint") for each in entry.get(kind, ()) if "file" in each
            }
        there = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
        found += sorted(there - named)
    return found
