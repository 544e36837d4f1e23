"""Runs out of the rows in JSON that the functions of the database answer with."""

from __future__ import annotations

from typing import Any

from jumar.core.records import RunRecord
from jumar.stores.rows import run_record

_BYTES = (12, 18, 19, 30)  # boot, input_digest, output_digest and intent are hexadecimal digits


def run_of(row: list[Any] | None) -> RunRecord | None:
    """A run out of a row in JSON, where bytes are hexadecimal digits."""
    if row is None:
        return None
    for place in _BYTES:
        if row[place] is not None:
            row[place] = bytes.fromhex(row[place])
    return run_record(row)
