"""What `doctor` looks at in a SQLite store: the database's own check, and the checksum of every row that has one."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from typing import Any

from jumar.core.call_states import ENDED
from jumar.core.checksums import call_agrees, checkpoint_agrees
from jumar.core.intents import intent_of
from jumar.core.records import RunRecord
from jumar.core.states import IdentityScope
from jumar.core.store import Finding, Inspection
from jumar.errors import IntegrityError
from jumar.stores.packing import unpack
from jumar.stores.rows import call_record, checkpoint_record, request_record, run_record
from jumar.stores.sqlite.tables import SQL, run_by_id

_MOST_LINES = 100  # of SQLite's own findings


def inspect(reader: sqlite3.Connection) -> Inspection:
    """Read the whole store once and report what does not agree."""
    counts = {"runs": 0, "calls": 0, "checkpoints": 0, "artifacts": 0}
    findings = list(_own_check(reader))
    try:
        findings.extend(_runs(reader, counts))
        findings.extend(_identities(reader))
        findings.extend(_holds(reader))
        findings.extend(_artifacts(reader, counts))
    except sqlite3.DatabaseError as error:
        findings.append(Finding("database", f"could not be read to the end ({error})"))
    return Inspection(counts["runs"], counts["calls"], counts["checkpoints"], counts["artifacts"], tuple(findings))


def _own_check(reader: sqlite3.Connection) -> Iterator[Finding]:
    try:
        for (line,) in reader.execute(f"PRAGMA integrity_check({_MOST_LINES})"):
            if line != "ok":
                yield Finding("database", line)
    except sqlite3.DatabaseError as error:
        yield Finding("database", str(error))


def _runs(reader: sqlite3.Connection, counts: dict[str, int]) -> Iterator[Finding]:
    last = 0
    while rows := reader.execute(SQL["every_run"], (last,)).fetchall():
        for run_no, run_id in rows:
            counts["runs"] += 1
            yield from _run(reader, run_no, run_id, counts)
        last = rows[-1][0]


def _run(reader: sqlite3.Connection, run_no: int, run_id: str, counts: dict[str, int]) -> Iterator[Finding]:
    try:
        yield from _origins(reader, run_record(reader.execute(SQL["run_by_no"], (run_no,)).fetchone()))
    except IntegrityError as error:
        yield Finding("run", error.what, run_id)
    for row in reader.execute(SQL["calls"], (run_no, 0)):
        counts["calls"] += 1
        try:
            agrees = call_agrees(call_record(row))
        except IntegrityError as error:
            yield Finding(f"call {row[1]}", error.what, run_id)
            continue
        if not agrees:
            yield Finding(f"call {row[1]}", "does not agree with its checksum", run_id)
    for row in reader.execute(SQL["checkpoints"], (run_no,)):
        counts["checkpoints"] += 1
        try:
            agrees = checkpoint_agrees(checkpoint_record(row))
        except IntegrityError as error:
            yield Finding(f"checkpoint {row[0]}", error.what, run_id)
            continue
        if not agrees:
            yield Finding(f"checkpoint {row[0]}", "does not agree with its checksum", run_id)
    for row in reader.execute(SQL["requests"], (run_no,)):
        try:
            request_record(row)
        except IntegrityError as error:
            yield Finding(f"request about {row[2]}", error.what, run_id)


def _origins(reader: sqlite3.Connection, run: RunRecord) -> Iterator[Finding]:
    """What a run's row points to: the rollback it is in, and the run it was made from, which keeps its artifacts."""
    try:
        intent_of(run)
    except IntegrityError as error:
        yield Finding("intent", error.what, run.run_id)
    if run.forked_from is not None and run_by_id(reader, run.forked_from) is None:
        yield Finding("origin", f"is a fork of run {run.forked_from}, which is not there", run.run_id)


def _holds(reader: sqlite3.Connection) -> Iterator[Finding]:
    """A path must be held by a call that has not ended or a rollback that is under way, or it would keep writes waiting
    for nothing.
    """
    last: tuple[Any, ...] = ("", b"", 0, -1)
    while rows := reader.execute(SQL["every_hold"], last).fetchall():
        last = rows[-1][:4]
        for _, path, run_no, seq, run_id, intent, call_id, state in rows:
            why = None
            if run_id is None:
                why = f"run number {run_no}, which is not there"
            elif seq == 0:
                why = None if intent is not None else "a rollback that is not under way"
            elif call_id is None:
                why = f"call number {seq}, which is not there"
            elif state in ENDED:
                why = f"call {call_id}, which has ended"
            if why is not None:
                where = path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else str(path)
                yield Finding(f"path {where or '(the whole workspace)'}", f"is held by {why}", run_id)


def _identities(reader: sqlite3.Connection) -> Iterator[Finding]:
    """A name must be held by a call that is there and carries it, or it would keep others waiting for nothing."""
    last = 0
    while rows := reader.execute(SQL["every_identity"], (last,)).fetchall():
        for identity_no, scope_run, key, run_no, seq, run_id, call_id, carried, scope in rows:
            last = identity_no
            if run_no == 0:  # nobody's: its action was undone
                continue
            if call_id is None:
                yield Finding(
                    f"name {key}", f"is held by call number {seq} of run number {run_no}, which is not there", run_id
                )
                continue
            reach = 0 if scope == IdentityScope.STORE else run_no
            if (carried, reach) != (key, scope_run) or scope is None:
                yield Finding(f"name {key}", f"is held by call {call_id}, which does not carry it", run_id)


def _artifacts(reader: sqlite3.Connection, counts: dict[str, int]) -> Iterator[Finding]:
    last = 0
    while rows := reader.execute(SQL["every_artifact"], (last,)).fetchall():
        for artifact_no, run_no, digest, packing, data in rows:
            last = artifact_no
            counts["artifacts"] += 1
            try:
                good = hashlib.sha256(unpack(packing, data)).digest() == digest
            except ValueError:
                good = False
            if not good:
                row = reader.execute(SQL["run_by_no"], (run_no,)).fetchone()
                yield Finding(
                    f"artifact {digest.hex()[:12]}", "does not agree with its digest", row[1] if row else None
                )
