"""Addresses of PostgreSQL stores: libpq's URIs, with `schema=` among their parameters for where the tables are.

Only the schema is looked at here; the rest is libpq's to read when it connects.
"""

from __future__ import annotations

import re

from msgspec import Struct

from jumar.errors import UsageError

PREFIXES = ("postgresql://", "postgres://")
DEFAULT_SCHEMA = "jumar"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_RESERVED = ("pg_", "information_schema")
# From the first colon after the user's name to the last @: whatever of it is the password, nothing of it is shown.
# In a password that is not percent-encoded there may be any character.
_PASSWORD = re.compile(r"(?<=:)(//[^:@]*|[^:@]*):.*(@)", re.DOTALL)
_BARE = re.compile(r"^(?!file:|sqlite:)([^:@/]*):(?!//)[^@]*@")  # user:password@host, with nothing before it
_SECRETS = re.compile(r"([?&](?:password|sslpassword|oauth_client_secret|passfile)=)[^&]*", re.IGNORECASE)
# The same where there is no URI but words, host=db password=secret, which libpq takes as well and Jumar does not.
_WORDS = re.compile(r"\b((?:password|sslpassword|oauth_client_secret|passfile)\s*=).*", re.IGNORECASE | re.DOTALL)


class PostgresAddress(Struct, frozen=True):
    """Where a store is: `uri` as libpq reads it, the schema its tables are in, and the address as people see it."""

    uri: str
    schema: str
    shown: str

    def __repr__(self) -> str:
        return f"PostgresAddress({self.shown!r})"


def parse(address: str) -> PostgresAddress:
    """The parts of an address; UsageError where its schema cannot be one."""
    uri, _, query = address.partition("?")
    schema, rest = DEFAULT_SCHEMA, []
    for parameter in query.split("&") if query else []:
        name, _, value = parameter.partition("=")
        if name == "schema":
            schema = value
        else:
            rest.append(parameter)
    if not _SCHEMA.fullmatch(schema) or schema.startswith(_RESERVED):
        raise UsageError(
            f"schema={schema} cannot be the schema of a store",
            hint="Name it with at most 41 of a-z, 0-9 and _, the first of them no digit, and not pg_...",
        )
    return PostgresAddress(f"{uri}?{'&'.join(rest)}" if rest else uri, schema, without_secrets(address))


def without_secrets(address: str) -> str:
    """The address with *** in place of passwords; also one whose beginning was mistyped."""
    if "://" not in address and not address.startswith("file:") and _WORDS.search(address.partition("?")[0]):
        return _WORDS.sub(r"\1***", address)
    shown = _PASSWORD.sub(r"\1:***\2", address)
    return _SECRETS.sub(r"\1***", _BARE.sub(r"\1:***@", shown) if shown == address else shown)
