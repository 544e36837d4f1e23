"""Every store passes the same suite: a SQLite file, a database in memory, and the model they are compared with."""

from __future__ import annotations

from pathlib import Path

from jumar.core.store import Store
from jumar.stores.clock import lease_now
from jumar.stores.opening import open_store
from jumar.testing import ModelStore, StoreConformance


class TestSQLiteFile(StoreConformance):
    def make_store(self, folder: Path) -> Store:
        return open_store(f"sqlite:///{folder / 'runs.db'}")


class TestMemory(StoreConformance):
    durable = False

    def make_store(self, folder: Path) -> Store:
        return open_store("memory:")


class TestModel(StoreConformance):
    """A suite that a model written from the same words did not pass would test the words of one implementation."""

    durable = False

    def make_store(self, folder: Path) -> Store:
        return ModelStore(lease_now)
