"""What holds for the shape of the source as a whole: its public names, sizes, layers and start-up."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jumar

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "jumar"
MOST_NAMES = 30
MOST_LINES = 500

# Calls that need no forbidden import and still reach for the clock, for randomness or for the world outside.
IMPURE_CALLS = {
    "__import__",
    "date.today",
    "datetime.now",
    "datetime.today",
    "datetime.utcnow",
    "input",
    "open",
    "print",
    "uuid.uuid1",
    "uuid.uuid4",
    "uuid1",
    "uuid4",
}

# Start-up is part of the product: whatever is heavy is imported where it is used.
HEAVY = {
    "anthropic",
    "asyncio",
    "click",
    "concurrent.futures",
    "multiprocessing",
    "openai",
    "psycopg",
    "pydantic",
    "rich",
    "sqlite3",
    "yaml",
}


def test_public_names_are_few_and_real() -> None:
    names = jumar.__all__
    assert 0 < len(names) <= MOST_NAMES
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(jumar, name)] == []


def test_public_names_are_documented() -> None:
    exported = {name: getattr(jumar, name) for name in jumar.__all__}
    assert [name for name, thing in exported.items() if not is_documented(name, thing)] == []


def is_documented(name: str, thing: Any) -> bool:
    if inspect.isclass(thing):
        # The class's own words: not its base's, nor the signature that a dataclass writes for itself.
        own = vars(thing).get("__doc__") or ""
        return bool(own.strip()) and not own.startswith(f"{name}(")
    return not inspect.isroutine(thing) or bool(inspect.getdoc(thing))


def test_types_are_shipped() -> None:
    assert (PACKAGE / "py.typed").is_file()


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_files_are_short(folder: str) -> None:
    sources = [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".pyi", ".sql"}]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in sources}
    assert lengths
    assert {name: length for name, length in lengths.items() if length >= MOST_LINES} == {}


def test_core_is_pure() -> None:
    modules = sorted((PACKAGE / "core").rglob("*.py"))
    assert modules
    forbidden = modules_forbidden_to_core()
    found = {
        str(path.relative_to(ROOT)): impurities
        for path in modules
        if (impurities := list(impurities_in(path.read_text("utf-8"), forbidden)))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "impurity"),
    [
        ("import os.path", "import os.path"),
        ("def late():\n    from concurrent.futures import Executor", "from concurrent.futures"),
        ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now()"),
        ("import uuid\nuuid.uuid4()", "uuid.uuid4()"),
        ("open('x')", "open()"),
    ],
)
def test_an_impure_core_would_be_seen(source: str, impurity: str) -> None:
    assert [found.partition(": ")[2] for found in impurities_in(source, modules_forbidden_to_core())] == [impurity]


def modules_forbidden_to_core() -> set[str]:
    """The list has one home, the import-linter contract; here it is read."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    return set(next(contract for contract in contracts if contract["id"] == "pure-core")["forbidden_modules"])


def impurities_in(source: str, forbidden: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                for alias in node.names:
                    if alias.name.partition(".")[0] in forbidden:
                        yield f"line {node.lineno}: import {alias.name}"
            case ast.ImportFrom(module=str(module), level=0) if module.partition(".")[0] in forbidden:
                yield f"line {node.lineno}: from {module}"
            case ast.Call():
                called = ast.unparse(node.func)
                if called in IMPURE_CALLS or ".".join(called.split(".")[-2:]) in IMPURE_CALLS:
                    yield f"line {node.lineno}: {called}()"


NEWLY_LOADED = """
import json, sys
before = set(sys.modules)
import jumar
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_import_is_light(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", NEWLY_LOADED], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert "jumar" in loaded
    assert loaded & HEAVY == set()
