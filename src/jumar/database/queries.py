"""Reading `.sql` files: named statements, and numbered migrations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from sqlite3 import complete_statement

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


def named_statements(package: str, file: str = "queries.sql") -> dict[str, str]:
    """The statements of a package's file, by name."""
    parts = _NAME.split(files(package).joinpath(file).read_text(encoding="utf-8"))
    return {name: text.strip().rstrip(";") for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def migrations(package: str) -> list[tuple[int, str]]:
    """The numbered migrations of a package, in order: (number, text)."""
    folder = files(package).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name.split("_", 1)[0]), folder.joinpath(name).read_text(encoding="utf-8")) for name in names]


def statements(text: str) -> Iterator[str]:
    """The single statements of a script."""
    pending = ""
    for line in _COMMENT.sub("", text).splitlines():
        pending += line + "\n"
        if pending.strip() and complete_statement(pending):
            yield pending.strip()
            pending = ""
    if pending.strip():
        yield pending.strip()
