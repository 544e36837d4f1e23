"""What `import jumar` adds to the start of a program that has msgspec.

Fresh interpreters take turns, with their bytecode cached; each round's difference is one figure, and the median of
many is told.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import jumar
from benchmarks.measuring import Blocks, Figure, quartiles
from benchmarks.sizes import Sizes

MSGSPEC, JUMAR = "import msgspec", "import jumar"
UNWANTED = ("asyncio", "concurrent.futures", "multiprocessing", "sqlite3", "psycopg", "yaml", "click", "rich")


def measure_import(directory: Path, sizes: Sizes) -> list[Figure]:
    """The time that the import takes, and what it does not import."""
    blocks = Blocks(MSGSPEC, JUMAR)
    with tempfile.TemporaryDirectory(dir=directory) as cache:
        environment = _environment(cache)
        for side in blocks.turns(sizes.imports):
            with blocks.timed(side, 1):
                subprocess.run([sys.executable, "-c", side], env=environment, check=True)
        loaded = _loaded(environment)
    differences = [seconds * 1e3 for seconds in blocks.differences(JUMAR, MSGSPEC)]
    return [
        Figure(
            "import",
            "import jumar, over import msgspec",
            "ms",
            40.0,
            median(differences),
            quartiles(differences),
            blocks.median(MSGSPEC) * 1e6,
            blocks.median(JUMAR) * 1e6,
            _notes(loaded),
        )
    ]


def _notes(loaded: set[str]) -> tuple[str, ...]:
    present = [name for name in UNWANTED if name in loaded]
    absent = [name for name in UNWANTED if name not in loaded]
    told = f"not imported: {', '.join(absent)}"
    return (told, f"imported: {', '.join(present)}") if present else (told,)


def _environment(cache: str) -> dict[str, str]:
    """This process's environment, with bytecode cached in a folder of its own, and Jumar found where it is found
    here.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    source = str(Path(jumar.__file__).parent.parent)
    return kept | {"PYTHONPYCACHEPREFIX": cache, "PYTHONPATH": source}


def _loaded(environment: dict[str, str]) -> set[str]:
    program = f"{JUMAR}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    return set(done.stdout.split())
