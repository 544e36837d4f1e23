"""A run as a whole, read at one moment: the statements see one snapshot of the database, which lasts as long as their
transaction, and go to the server together once the run's number is known.
"""

from __future__ import annotations

from typing import Any

from psycopg import Cursor

from jumar.core.moving import check_export
from jumar.core.records import Artifact, HoldRecord, IdentityRecord, RunExport, RunRecord
from jumar.core.states import IdentityScope
from jumar.errors import IntegrityError
from jumar.stores.packing import unpack
from jumar.stores.postgres.connecting import Connection
from jumar.stores.rows import call_record, checkpoint_record, event_record, request_record, run_record

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def export(connection: Connection, sql: dict[str, str], run_id: str) -> RunExport | None:
    """All there is of a run; None where there is no such run."""
    connection.execute(_BEGIN)
    try:
        row = connection.execute(sql["run_by_id"], (run_id,), binary=True).fetchone()
        return None if row is None else _rest(connection, sql, run_record(row))
    finally:
        if not connection.closed:
            connection.execute("ROLLBACK")


def _rest(connection: Connection, sql: dict[str, str], run: RunRecord) -> RunExport:
    of_run = (run.run_no,)
    whose = {"run_no": run.run_no, "run_id": run.run_id}

    def asked(name: str, values: Any) -> Cursor[tuple[Any, ...]]:
        return connection.execute(sql[name], values, binary=True)

    with connection.pipeline():
        calls, checkpoints, requests = (
            asked("calls", (run.run_no, 0)),
            asked("checkpoints", of_run),
            asked("requests", of_run),
        )
        events, artifacts = asked("events", of_run), asked("artifacts_of_run", of_run)
        identities, holds = asked("identities_of_run", whose), asked("holds_of_run", whose)
    lines = map(event_record, events)
    return check_export(
        RunExport(
            run,
            tuple(map(call_record, calls)),
            tuple(map(checkpoint_record, checkpoints)),
            tuple(map(request_record, requests)),
            tuple(line for line in lines if line is not None),
            tuple(_artifact(*row) for row in artifacts),
            tuple(IdentityRecord(IdentityScope(row[0]), *row[1:]) for row in identities),
            tuple(HoldRecord(*row) for row in holds),
        )
    )


def _artifact(digest: bytes, packing: int, data: bytes) -> Artifact:
    try:
        return Artifact(digest, unpack(packing, data))
    except ValueError as error:
        raise IntegrityError(f"artifact {digest.hex()[:12]} is damaged ({error})") from error
