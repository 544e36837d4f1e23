"""Packing artifacts, and reading `.sql` files."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import jumar.stores.sqlite
from jumar.database.queries import migrations, statements
from jumar.stores.packing import PLAIN, ZSTD, pack, unpack
from jumar.stores.sqlite.tables import SQL

PACKAGE = "jumar.stores.sqlite"
FOLDER = Path(jumar.stores.sqlite.__file__).parent


@given(st.binary(max_size=5000) | st.integers(1, 3000).map(lambda count: b'{"line": "ERROR"}, ' * count))
def test_what_is_packed_is_unpacked_the_same(data: bytes) -> None:
    packing, packed = pack(data)
    assert unpack(packing, packed) == data
    assert len(packed) <= len(data)


def test_what_packs_well_is_packed_and_what_does_not_is_left() -> None:
    assert pack(b"x" * 10_000)[0] == ZSTD
    assert pack(b"x" * 100)[0] == PLAIN
    noise = bytes((number * 2654435761 >> 13) & 255 for number in range(600))
    packing, packed = pack(noise)
    assert (packing, packed) == (PLAIN, noise) or len(packed) < len(noise)


@pytest.mark.parametrize("packing", [2, 77, -1])
def test_a_packing_that_is_not_known_is_a_value_error(packing: int) -> None:
    with pytest.raises(ValueError, match="not known"):
        unpack(packing, b"data")


@pytest.mark.parametrize("data", [b"", b"no zstd", b"\x28\xb5\x2f\xfd", pack(b"x" * 10_000)[1][:-2]])
def test_damaged_packed_bytes_are_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        unpack(ZSTD, data)


def schema() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    for _, text in migrations(PACKAGE):
        for statement in statements(text):
            connection.execute(statement)
    return connection


@pytest.mark.parametrize("name", SQL)
def test_every_statement_fits_the_schema_and_is_used(name: str) -> None:
    connection = schema()
    text = SQL[name]
    connection.execute(f"EXPLAIN {text}", _anything_for(text))
    connection.close()
    code = "".join(path.read_text("utf-8") for path in FOLDER.parent.rglob("*.py"))
    # The four that list runs, and those that forget one, are put together from parts of a name.
    assert f'"{name}"' in code or name.startswith(("runs_", "forget_"))


def _anything_for(text: str) -> dict[str, None] | tuple[None, ...]:
    named = set(re.findall(r":(\w+)", text))
    return dict.fromkeys(named) if named else (None,) * text.count("?")


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("run_by_id", "run_by_id"),
        ("run_ending", "run_by_end"),
        ("runs", "run_by_id"),
        ("runs_of_status", "run_by_status"),
        ("runs_of_agent", "run_by_agent"),
        ("runs_of_status_and_agent", "run_by_agent"),
        ("due_queued", "run_by_status"),
        ("due_queued_of_agent", "run_ready"),
        ("due_ordered", "run_ready"),
        ("due_waiting", "run_due"),
        ("due_expired", "run_by_status"),
        ("run_order", "run_by_id"),
        ("calls", "call_of_run"),
        ("call", "call_of_run"),
        ("last_call", "call_of_run"),
        ("call_state", "call_of_run"),
        ("run_open_calls", "call_open"),
        ("calls_uncertain", "call_open"),
        ("reads_uncertain", "call_open"),
        ("call_change", "call_of_run"),
        ("artifact", "artifact_of_run"),
        ("artifact_of_family", "artifact_of_run"),
        ("artifact_of_family", "run_by_id"),
        ("checkpoints", "checkpoint_of_run"),
        ("checkpoint", "checkpoint_of_run"),
        ("last_snapshot", "checkpoint_of_run"),
        ("run_claim", "run_by_id"),
        ("run_leave", "INTEGER PRIMARY KEY"),
        ("run_rebase", "INTEGER PRIMARY KEY"),
        ("run_intent", "INTEGER PRIMARY KEY"),
        ("run_fork", "INTEGER PRIMARY KEY"),
        ("fork_call", "call_of_run"),
        ("fork_name", "identity_of_call"),
        ("fork_names_undone", "identity_by_key"),
        ("fork_checkpoint", "checkpoint_of_run"),
        ("call_shared", "call_named"),
        ("call_shared", "run_of_origin"),
        ("holds_of_workspace", "PRIMARY KEY (workspace=?)"),
        ("holds_below", "PRIMARY KEY (workspace=? AND path>? AND path<?)"),
        ("holds_at", "PRIMARY KEY (workspace=? AND path=?)"),
        ("hold_drop", "hold_of_call"),
        ("request_withdraw", "request_by_id"),
        ("identity_take", "identity_by_key"),
        ("identity_left", "identity_of_call"),
        ("requests", "request_of_attempt"),
        ("requests_of_call", "request_of_attempt"),
        ("requests_unanswered", "request_unanswered"),
        ("requests_unanswered_of_call", "request_of_attempt"),
        ("requests_open", "request_open"),
        ("request_answer", "request_by_id"),
        ("identity_by_key", "identity_by_key"),
        ("identity_free", "identity_of_call"),
        ("events", "event_of_run"),
    ],
)
def test_a_statement_finds_its_rows_by_the_index_that_was_made_for_it(name: str, index: str) -> None:
    assert [line for line in _plan(name) if index in line], _plan(name)


# Rows that are made up or found on the way, which no index has.
_NO_TABLE = {"SCAN CONSTANT ROW", "SCAN origin"}


@pytest.mark.parametrize("name", SQL)
def test_no_statement_reads_a_table_from_end_to_end(name: str) -> None:
    read = [line for line in _plan(name) if line.startswith("SCAN") and "INDEX" not in line]
    assert set(read) <= _NO_TABLE, _plan(name)


def _plan(name: str) -> list[str]:
    connection = schema()
    text = SQL[name]
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", _anything_for(text))]
    connection.close()
    return plan


@pytest.mark.parametrize(
    "name",
    [
        *("due_queued", "due_queued_of_agent", "due_waiting", "due_expired"),  # those that are ordered to stop are few
        *("requests_unanswered", "requests_open", "runs", "calls", "last_call", "last_snapshot"),
        *("holds_of_workspace", "holds_below", "holds_at"),
    ],
)
def test_no_statement_sorts_what_an_index_has_in_order(name: str) -> None:
    assert not [line for line in _plan(name) if "TEMP B-TREE" in line], _plan(name)


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    assert [number for number, _ in migrations(PACKAGE)] == list(range(1, len(migrations(PACKAGE)) + 1))


def test_a_script_is_cut_at_the_ends_of_its_statements() -> None:
    text = """
-- A comment; with a semicolon.
CREATE TABLE a (x TEXT DEFAULT 'one; two'); -- and another; here
CREATE TRIGGER t AFTER INSERT ON a BEGIN
    INSERT INTO b VALUES (1);
    INSERT INTO b VALUES (2);
END;

CREATE TABLE b (y)
"""
    cut = list(statements(text))
    assert [statement.split()[:2] for statement in cut] == [
        ["CREATE", "TABLE"],
        ["CREATE", "TRIGGER"],
        ["CREATE", "TABLE"],
    ]
    connection = sqlite3.connect(":memory:")
    for statement in cut:
        connection.execute(statement)
    connection.close()
