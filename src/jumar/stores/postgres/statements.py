"""The SQL of the PostgreSQL store with the schema's name filled in, once a schema."""

from __future__ import annotations

from functools import cache

from jumar.database.queries import named_statements

_PACKAGE = "jumar.stores.postgres"
_FILES = ("reading.sql", "queries.sql", "moving.sql", "objects.sql")


def filled(text: str, schema: str) -> str:
    """SQL with the schema's name where it goes."""
    return text.replace("{schema}", schema)


@cache
def statements(schema: str) -> dict[str, str]:
    """The named statements of a store's files."""
    found: dict[str, str] = {}
    for file in _FILES:
        found |= named_statements(_PACKAGE, file)
    return {name: filled(text, schema) for name, text in found.items()}
