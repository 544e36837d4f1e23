"""From a store's address to an open store."""

from __future__ import annotations

import os

from jumar.core.store import Store
from jumar.errors import NotSupported, UsageError

SQLITE = "sqlite:///"
_LATER = ("file:", "postgresql://", "postgres://")


def check_address(address: str) -> str:
    """`address` where a store can be opened by it; an error that says which can, otherwise."""
    if not isinstance(address, str):
        raise UsageError(f"a store's address is text, not {type(address).__name__}")
    if address.startswith(_LATER):
        raise NotSupported(f"stores at {address.partition(':')[0]}: addresses are not in this version")
    if address == "memory:" or (address.startswith(SQLITE) and len(address) > len(SQLITE) and _names_a_file(address)):
        return address
    meant = f" Did you mean sqlite:///{address}?" if "://" not in address and _names_a_file(address) else ""
    raise UsageError(f"{address!r} is no store's address", hint=f"Use memory: or sqlite:///PATH.{meant}")


def _names_a_file(address: str) -> bool:
    try:
        return b"\0" not in os.fsencode(address)
    except UnicodeEncodeError:
        return False


def open_store(address: str) -> Store:
    """Open the store at `memory:` or `sqlite:///PATH` (relative; `sqlite:////PATH` is absolute), bringing its schema
    up to date.
    """
    from jumar.stores.sqlite.connection import MEMORY
    from jumar.stores.sqlite.store import SQLiteStore

    address = check_address(address)
    return SQLiteStore(MEMORY if address == "memory:" else address.removeprefix(SQLITE))
