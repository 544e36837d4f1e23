"""Bringing a store's schema up to date.

The number of the schema stands in a table of one row beside the others.  A migration is one transaction under an
advisory lock of that transaction, so processes that open a store at once make it one after the other, and the second
finds it made; an attempt that breaks off leaves nothing.  A schema that holds tables and no number is somebody else's.

A server that acknowledges commits before they are on disk is refused too: every promise stands on that.
"""

from __future__ import annotations

from hashlib import sha256

import psycopg

from jumar import errors
from jumar.database.queries import migrations
from jumar.stores.postgres.address import parse
from jumar.stores.postgres.clock import ServerClock
from jumar.stores.postgres.connecting import Connection, Connections, Patience, close, unhurried
from jumar.stores.postgres.failures import is_lost, translated
from jumar.stores.postgres.statements import filled

_PACKAGE = "jumar.stores.postgres"
_NUMBER = "SELECT number, {schema}.lease_ms() FROM {schema}.schema_version"
_NOT_THERE = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedFunction)


def newest_schema() -> int:
    """The number of the newest schema this version knows."""
    return migrations(_PACKAGE)[-1][0]


def schema_number(connection: Connection, schema: str, clock: ServerClock | None = None) -> int:
    """The number of the schema the database has; 0 where it has none.  What the server's clock said goes to `clock`."""
    try:
        row = connection.execute(filled(_NUMBER, schema), binary=True).fetchone()
    except _NOT_THERE:
        return 0
    if row is None:
        raise errors.SchemaMismatch(f"the table schema_version of {schema} is empty; its number is not known")
    if clock is not None:
        clock.learn(row[1])
    return int(row[0])


def is_made(address: str) -> bool:
    """Whether there are a store's tables at an address."""
    place = parse(address)
    connections = Connections(place)
    connection = connections.open_one(Patience(connections.opening_seconds, place.shown))
    try:
        return schema_number(connection, place.schema) > 0
    except psycopg.Error as error:
        raise translated(error, place.shown) from error
    finally:
        close(connection)


def migrate(connection: Connection, schema: str, where: str, clock: ServerClock) -> tuple[int, int]:
    """Bring the schema up to date; answers its number before and after.  psycopg's error where the connection is lost,
    or else the store's."""
    newest = newest_schema()
    try:
        before = schema_number(connection, schema, clock)
        _check(before, newest, where)
        if before < newest:
            before = _migrate(connection, schema, where, newest)
            schema_number(connection, schema, clock)
        _check_durable(connection, where)
    except psycopg.errors.InsufficientPrivilege as error:
        raise errors.StoreReadOnly(
            f"this role may not make or change the schema {schema} of {where} ({error.diag.message_primary})",
            safe="Nothing was changed.",
            hint="Run `jumar store migrate` once with a role that has CREATE on the database, and let that grant this "
            f"one USAGE on the schema {schema}, SELECT, INSERT, UPDATE and DELETE on all tables in it, and EXECUTE on "
            "all functions in it.",
        ) from error
    except psycopg.Error as error:
        if is_lost(error):
            raise
        raise translated(error, where) from error
    return before, newest


def _migrate(connection: Connection, schema: str, where: str, newest: int) -> int:
    with unhurried(connection), connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_number(schema),))
        _claim_schema(connection, schema, where)
        row = connection.execute(filled("SELECT number FROM {schema}.schema_version", schema)).fetchone()
        before = 0 if row is None else int(row[0])
        _check(before, newest, where)
        for number, text in migrations(_PACKAGE):
            if number > before:
                connection.execute(filled(text, schema))
        connection.execute(filled("DELETE FROM {schema}.schema_version", schema))
        connection.execute(filled("INSERT INTO {schema}.schema_version (number) VALUES (%s)", schema), (newest,))
    return before


def _claim_schema(connection: Connection, schema: str, where: str) -> None:
    """Make the schema and its table of one row, unless they are there; refuse a schema of another program's."""
    tables = connection.execute(
        "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
        " WHERE nspname = %s AND relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY relname LIMIT 100",
        (schema,),
    ).fetchall()
    names = [row[0] for row in tables]
    if "schema_version" in names:
        return
    if names:
        raise errors.SchemaMismatch(
            f"the schema {schema} of {where} belongs to another program: it holds {', '.join(names[:3])}",
            hint="Give Jumar a schema of its own with ?schema=NAME in the address.",
        )
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None:
        connection.execute(filled("CREATE SCHEMA {schema}", schema))
    connection.execute(filled("CREATE TABLE {schema}.schema_version (number integer NOT NULL)", schema))


def _check(number: int, newest: int, where: str) -> None:
    if number > newest:
        raise errors.SchemaMismatch(f"{where} has schema {number}; this version of Jumar knows schemas up to {newest}")


def _check_durable(connection: Connection, where: str) -> None:
    row = connection.execute("SELECT current_setting('synchronous_commit')").fetchone()
    if row is not None and row[0] == "off":
        raise errors.StoreUnavailable(
            f"{where} answers commits before they are on disk (synchronous_commit = off)",
            safe="Nothing was written.",
            hint="Run ALTER ROLE ... SET synchronous_commit = on for the role of the address.",
        )


def _lock_number(schema: str) -> int:
    """The advisory lock of a schema: the whole database shares these numbers, so it is drawn from all of them."""
    return int.from_bytes(sha256(f"jumar store {schema}".encode()).digest()[:8], "big", signed=True)
