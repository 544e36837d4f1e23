"""Every store passes the same suite: a SQLite file, a database in memory, and the model they are compared with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from jumar.core.store import Store
from jumar.stores.clock import lease_now
from jumar.stores.opening import open_store
from jumar.testing import ModelStore, StoreConformance
from tests.conformance import one_schema


class TestSQLiteFile(StoreConformance):
    def make_store(self, folder: Path) -> Store:
        return open_store(f"sqlite:///{folder / 'runs.db'}")


class TestMemory(StoreConformance):
    durable = False

    def make_store(self, folder: Path) -> Store:
        return open_store("memory:")


class TestPostgres(StoreConformance):
    def make_store(self, folder: Path) -> Store:
        return one_schema.store_in(folder)


class TestModel(StoreConformance):
    """A suite that a model written from the same words did not pass would test the words of one implementation."""

    durable = False

    def make_store(self, folder: Path) -> Store:
        return ModelStore(lease_now)


def test_no_part_of_the_suite_hides_a_name_of_another() -> None:
    """A sentence that two parts begin alike would be tried once, for one of them."""
    names = [name for part in StoreConformance.__mro__[1:-2] for name in vars(part) if not name.startswith("__")]
    assert {name for name in names if names.count(name) > 1} == set()
    assert len([name for name in names if name.startswith("test_")]) > 250


LOADED = """
import json, sys
import jumar, jumar.testing
light = sorted({"pytest", "hypothesis", "_pytest"} & set(sys.modules))
from jumar.testing import ModelStore, StoreConformance
print(json.dumps([light, "hypothesis" in sys.modules, StoreConformance.__module__]))
"""


def test_pytest_and_hypothesis_are_loaded_only_where_a_suite_is_asked_for() -> None:
    told = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60)
    assert told.stderr == ""
    assert json.loads(told.stdout) == [[], False, "jumar.testing.conformance"]
