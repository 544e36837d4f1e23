"""From a store's address to an open store.

`memory:`, `sqlite:///PATH`, `file:DIR` and `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME`.  An address may
hold a password: what people are shown of it is `shown_address`.
"""

from __future__ import annotations

import os

from jumar.core.store import Store
from jumar.errors import UsageError

MEMORY_ADDRESS = "memory:"
SQLITE = "sqlite:///"
FILE = "file:"
POSTGRES = ("postgresql://", "postgres://")
_FORMS = "memory:, sqlite:///PATH, file:DIR or postgresql://USER:PASSWORD@HOST:PORT/DATABASE"


def check_address(address: str) -> str:
    """`address` where a store can be opened by it; an error that says which can, otherwise."""
    if not isinstance(address, str):
        raise UsageError(f"a store's address is text, not {type(address).__name__}")
    if address == MEMORY_ADDRESS or _has_path(address):
        return address
    if address.startswith(POSTGRES):
        from jumar.stores.postgres.address import parse

        parse(address)
        return address
    shown = shown_address(address)
    path = _path_meant(address) if shown == address and _names_a_file(address) else ""
    meant = f" Did you mean {SQLITE}{path}?" if path else ""
    raise UsageError(f"{shown!r} is no store's address", hint=f"Use {_FORMS}.{meant}")


def _path_meant(address: str) -> str:
    """The path in `runs.db`, `sqlite:/srv/runs.db` and `sqlite://runs.db`; nothing where it could be anything."""
    if address.startswith("sqlite:"):
        path = address.removeprefix("sqlite:").removeprefix("//")
        return path if path.strip("/") else ""
    return "" if ":" in address or "=" in address else address


def shown_address(address: str) -> str:
    """The address as people may see it: with *** in place of a password."""
    if not any(sign in address for sign in "@?=") or address.startswith((SQLITE, FILE)):
        return address
    from jumar.stores.postgres.address import without_secrets

    return without_secrets(address)


def open_store(address: str) -> Store:
    """Open the store at an address, bringing its schema up to date.  SQLite's paths and those of folders are relative
    (`sqlite:////PATH` is absolute).
    """
    check_address(address)
    if address.startswith(POSTGRES):
        return _postgres_store(address)
    if address.startswith(FILE):
        from jumar.stores.file.store import FileStore

        return FileStore(address.removeprefix(FILE))
    from jumar.stores.sqlite.connection import MEMORY
    from jumar.stores.sqlite.store import SQLiteStore

    return SQLiteStore(MEMORY if address == MEMORY_ADDRESS else address.removeprefix(SQLITE))


def is_there(address: str) -> bool:
    """Whether there is a store at an address, so that opening it would not make one."""
    if address.startswith(POSTGRES):
        _require_psycopg()
        from jumar.stores.postgres.migrating import is_made

        return is_made(address)
    path = path_of(address)
    # Importing pathlib would take milliseconds of every start.
    if path is None or not os.path.exists(path):  # noqa: PTH110
        return path is None
    return not address.startswith(FILE) or not os.path.isdir(path) or bool(os.listdir(path))  # noqa: PTH112, PTH208


def path_of(address: str) -> str | None:
    """The file or folder that an address names; None for one that names none."""
    return next((address.removeprefix(each) for each in (SQLITE, FILE) if address.startswith(each)), None)


def newest_schema(address: str) -> int:
    """The number of the newest schema that this version knows of stores of that kind."""
    if address.startswith(POSTGRES):
        from jumar.stores.postgres.migrating import newest_schema as newest
    else:
        from jumar.stores.sqlite.connection import newest_schema as newest
    return newest()


def _postgres_store(address: str) -> Store:
    _require_psycopg()
    from jumar.stores.postgres.store import PostgresStore

    return PostgresStore(address)


def _require_psycopg() -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        # Without a libpq psycopg itself cannot be imported, and says what it has tried over many lines.
        lacks_libpq = error.name not in ("psycopg", None) or "libpq" in str(error) or "pq wrapper" in str(error)
        raise UsageError(
            "a store on PostgreSQL needs psycopg, which "
            + ("finds no libpq on this system" if lacks_libpq else "is not installed"),
            safe="Nothing was opened.",
            hint="Run pip install 'psycopg[binary]', or install the system's libpq (libpq5)."
            if lacks_libpq
            else "Run pip install 'jumar[postgres]'.",
        ) from error


def _has_path(address: str) -> bool:
    path = path_of(address)
    return bool(path) and _names_a_file(address)


def _names_a_file(address: str) -> bool:
    try:
        return b"\0" not in os.fsencode(address)
    except UnicodeEncodeError:
        return False
