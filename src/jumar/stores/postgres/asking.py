"""One statement and one answer, with as little in between as the driver allows.

A cursor of the driver's looks at each parameter's type, at the statement's places and at the columns of the answer, for
longer than the server needs for an advance.  Where all of these are known beforehand, the statement goes to the
connection beneath the cursors, and its answer is the bytes of the only value there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus

_TEXT, _BINARY = 0, 1


def ask(connection: psycopg.Connection[Any], statement: str, parameters: Sequence[str | bytes]) -> bytes:
    """The value that a statement answers with, as text in UTF-8; it names its parameters $1, $2 ...

    The connection is in autocommit mode, outside a transaction, and this thread's alone.  Raises psycopg's errors, and
    UnicodeEncodeError for text that is none.
    """
    values = [each.encode() if isinstance(each, str) else each for each in parameters]
    formats = [_TEXT if isinstance(each, str) else _BINARY for each in parameters]
    if any(form == _TEXT and b"\0" in value for form, value in zip(formats, values, strict=True)):
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    pgconn = connection.pgconn
    pgconn.send_query_params(statement.encode(), values, param_formats=formats)
    result = connection.wait(execute(pgconn))[-1]
    if result.status != ExecStatus.TUPLES_OK:
        raise error_from_result(result)
    value: bytes | None = result.get_value(0, 0)
    assert value is not None, statement
    return value
