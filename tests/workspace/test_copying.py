"""Snapshots brought from one store's objects into another's: whole or not at all, whatever it breaks off at."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar.core.trees import Snapshot, snapshot_digest
from jumar.errors import IntegrityError
from jumar.workspace import packing
from jumar.workspace.copying import Copier
from jumar.workspace.inspection import inspect
from jumar.workspace.materialising import materialise
from jumar.workspace.objects import Objects
from jumar.workspace.workspace import Workspace
from tests.workspace.files import File, Folder, Link, Tree, read, write

LARGE = random.Random(7).randbytes(packing.PART_BYTES + 5) + b"x" * packing.PART_BYTES
SITE: Tree = {
    b"conf": Folder(0o750),
    b"conf/\xff.ini": File(b"[site]\n", 0o600),
    b"conf/deep": Folder(),
    b"conf/deep/a": File(b"same"),
    b"copy": Folder(),
    b"copy/a": File(b"same"),
    b"empty": Folder(0o700),
    b"large": File(LARGE),
    b"link": Link(b"conf"),
    b"nothing": File(b""),
}
CHANGED = SITE | {b"conf/\xff.ini": File(b"[site]\nworkers = 1\n"), b"new": File(b"new")}


class Places:
    """A workspace with two snapshots in one file of objects, and another file of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.target = Objects(folder / "source.db"), Objects(folder / "target.db")
        root = folder / "site"
        write(root, SITE)
        workspace = Workspace(str(root), self.source)
        self.first = workspace.capture()
        write(root, {path: thing for path, thing in CHANGED.items() if thing != SITE.get(path)})
        self.second = workspace.capture()

    def given_back(self, snapshot: Snapshot, objects: Objects) -> Tree:
        """The files of a snapshot, as objects have them."""
        place = self.folder / "given back"
        shutil.rmtree(place, ignore_errors=True)
        materialise(objects.get_snapshot(snapshot_digest(snapshot)), place, objects)
        return read(place)

    def empty_target(self) -> None:
        """Begin with another empty file."""
        self.target.close()
        for each in self.folder.glob("target.db*"):
            each.unlink()
        self.target = Objects(self.folder / "target.db")


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    made = Places(tmp_path)
    yield made
    made.source.close()
    made.target.close()


def test_a_snapshot_comes_with_all_it_names(places: Places) -> None:
    copier = Copier(places.source, places.target)
    assert copier.bring(snapshot_digest(places.first))
    assert places.given_back(places.first, places.target) == SITE
    assert copier.bring(snapshot_digest(places.second))
    assert places.given_back(places.second, places.target) == CHANGED
    assert inspect(places.target).findings == ()


def test_what_is_there_is_not_brought_again(places: Places) -> None:
    digest = snapshot_digest(places.first)
    copier = Copier(places.source, places.target)
    assert [copier.bring(digest), copier.bring(digest)] == [True, False]
    assert not Copier(places.source, places.target).bring(digest)


@pytest.mark.parametrize("table", ["blobs", "nodes", "snapshots"])
def test_of_a_damaged_snapshot_nothing_is_named_and_the_next_comes_whole(places: Places, table: str) -> None:
    first, second = snapshot_digest(places.first), snapshot_digest(places.second)
    only_first = set(rows(places.source, table)) - needed(places, table)
    with places.source.using() as db:
        db.execute(f"DELETE FROM {table} WHERE digest = ?", (min(only_first),))
    places.source.close()
    places.source = Objects(places.folder / "source.db")
    copier = Copier(places.source, places.target)
    with pytest.raises(IntegrityError):
        copier.bring(first)
    with pytest.raises(IntegrityError):
        places.target.get_snapshot(first)
    assert copier.bring(second)
    assert places.given_back(places.second, places.target) == CHANGED
    assert inspect(places.target).findings == ()


def rows(objects: Objects, table: str) -> list[bytes]:
    with objects.using() as db:
        return [row[0] for row in db.execute(f"SELECT digest FROM {table}")]


def needed(places: Places, table: str) -> set[bytes]:
    """The objects that the second snapshot needs."""
    Copier(places.source, places.target).bring(snapshot_digest(places.second))
    found = set(rows(places.target, table))
    places.empty_target()
    return found


class Died(Exception):
    """The process is gone."""


class Dying:
    """Objects that are written to so many times."""

    def __init__(self, objects: Objects, writes: int) -> None:
        self._objects = objects
        self._left = writes

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._objects, name)
        if not name.startswith("put_"):
            return method

        def put(*values: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise Died
            return method(*values, **options)

        return put


def test_a_copy_that_dies_at_any_write_is_finished_by_the_next(places: Places) -> None:
    digest = snapshot_digest(places.first)
    writes = 0
    while True:
        places.empty_target()
        try:
            Copier(places.source, Dying(places.target, writes)).bring(digest)  # type: ignore[arg-type]
            break
        except Died:
            writes += 1
        assert inspect(places.target).findings == ()
        assert Copier(places.source, places.target).bring(digest)
        assert places.given_back(places.first, places.target) == SITE
    assert writes > 3
