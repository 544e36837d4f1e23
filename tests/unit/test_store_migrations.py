"""Migrations: each is made whole or not at all, once, and what a file holds is kept."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from jumar.database import opening
from jumar.database.queries import migrations
from jumar.errors import SchemaMismatch, StoreError
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene

REAL = migrations("jumar.stores.sqlite")
NEXT = len(REAL) + 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def with_another(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A release with one migration more."""
    monkeypatch.setattr(opening, "migrations", lambda package: [*REAL, (NEXT, text)])
    monkeypatch.setattr(opening, "newest_number", lambda package: NEXT)


def number_of(file: Path) -> int:
    connection = sqlite3.connect(file)
    number: int = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return number


def test_a_file_of_an_older_schema_is_brought_up_to_date_and_keeps_its_runs(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"sqlite:///{file}")
    run = Scene(store).running()
    store.close()
    with_another(monkeypatch, "CREATE TABLE note (text TEXT);\nINSERT INTO note VALUES ('a; b');")
    store = open_store(f"sqlite:///{file}")
    assert store.migrated == (NEXT - 1, NEXT)  # type: ignore[attr-defined]
    assert store.run(run.run_id) == run
    store.close()
    assert number_of(file) == NEXT
    store = open_store(f"sqlite:///{file}")
    assert store.migrated == (NEXT, NEXT)  # type: ignore[attr-defined]
    store.close()


def test_a_migration_that_fails_half_way_leaves_the_file_at_its_schema(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"sqlite:///{file}")
    run = Scene(store).running()
    store.close()
    before = file.read_bytes()
    with_another(monkeypatch, "CREATE TABLE note (text TEXT);\nDELETE FROM run;\nINSERT INTO nowhere VALUES (1);")
    with pytest.raises(StoreError, match="nowhere"):
        open_store(f"sqlite:///{file}")
    assert file.read_bytes() == before
    monkeypatch.undo()
    store = open_store(f"sqlite:///{file}")
    assert store.run(run.run_id) == run
    store.close()


def test_a_migrated_file_is_refused_by_the_release_before(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_another(monkeypatch, "CREATE TABLE note (text TEXT);")
    open_store(f"sqlite:///{file}").close()
    monkeypatch.undo()
    before = file.read_bytes()
    with pytest.raises(SchemaMismatch, match=f"schema {NEXT}"):
        open_store(f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_a_fresh_file_gets_all_migrations_in_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_another(monkeypatch, "CREATE TABLE note (text TEXT);")
    store = open_store(f"sqlite:///{file}")
    assert store.migrated == (0, NEXT)  # type: ignore[attr-defined]
    store.close()
