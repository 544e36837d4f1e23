"""What `doctor` looks at in a store of rows: the checksum of every row that has one, and what rows say of each other.

The rows come by the names of the statements that select them, which every dialect has.  Those of whole tables come in
pages: a page begins behind the key of the last row of the one before, and a row of `every_artifact`, `every_identity`
and `every_hold` begins with its key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jumar.core.call_states import ENDED
from jumar.core.checksums import call_agrees, checkpoint_agrees
from jumar.core.intents import intent_of
from jumar.core.records import RunRecord
from jumar.core.states import IdentityScope
from jumar.core.store import Finding, Inspection
from jumar.errors import IntegrityError
from jumar.stores.packing import unpack
from jumar.stores.rows import Row, call_record, checkpoint_record, request_record, run_record

Rows = Callable[[str, tuple[Any, ...]], Iterable[Row]]  # of a statement's name and its parameters
Keys = dict[str, tuple[Any, ...]]  # of each statement that pages through a table, a key before all others

FIRST_HOLD = ("", b"", 0, -1)


def inspect(rows: Rows, keys: Keys, own_check: Iterable[Finding], unreadable: type[Exception]) -> Inspection:
    """Read the whole store once and report what does not agree.  `unreadable` is what `rows` raises for a database that
    cannot be read on."""
    return _Check(rows, keys).made(own_check, unreadable)


class _Check:
    def __init__(self, rows: Rows, keys: Keys) -> None:
        self._rows = rows
        self._keys = keys
        self._runs = self._calls = self._checkpoints = self._artifacts = 0

    def made(self, own_check: Iterable[Finding], unreadable: type[Exception]) -> Inspection:
        findings = list(own_check)
        try:
            findings.extend(self._every_run())
            findings.extend(self._identities())
            findings.extend(self._holds())
            findings.extend(self._contents())
        except unreadable as error:
            findings.append(Finding("database", f"could not be read to the end ({error})"))
        return Inspection(self._runs, self._calls, self._checkpoints, self._artifacts, tuple(findings))

    def _paged(self, name: str, first: tuple[Any, ...]) -> Iterator[Row]:
        last = first
        while page := list(self._rows(name, last)):
            yield from page
            last = tuple(page[-1][: len(first)])

    def _every_run(self) -> Iterator[Finding]:
        for run_no, run_id in self._paged("every_run", (0,)):
            self._runs += 1
            yield from self._run(run_no, run_id)

    def _run(self, run_no: int, run_id: str) -> Iterator[Finding]:
        try:
            for row in self._rows("run_by_no", (run_no,)):
                yield from self._origins(run_record(row))
        except IntegrityError as error:
            yield Finding("run", error.what, run_id)
        for row in self._rows("calls", (run_no, 0)):
            self._calls += 1
            yield from _row(f"call {row[1]}", run_id, row, lambda row: call_agrees(call_record(row)))
        for row in self._rows("checkpoints", (run_no,)):
            self._checkpoints += 1
            yield from _row(f"checkpoint {row[0]}", run_id, row, lambda row: checkpoint_agrees(checkpoint_record(row)))
        for row in self._rows("requests", (run_no,)):
            yield from _row(f"request about {row[2]}", run_id, row, lambda row: request_record(row) is not None)

    def _origins(self, run: RunRecord) -> Iterator[Finding]:
        """What a run's row points to: the rollback it is in, and the run it was made from, which has its artifacts."""
        try:
            intent_of(run)
        except IntegrityError as error:
            yield Finding("intent", error.what, run.run_id)
        if run.forked_from is not None and not list(self._rows("run_by_id", (run.forked_from,))):
            yield Finding("origin", f"is a fork of run {run.forked_from}, which is not there", run.run_id)

    def _holds(self) -> Iterator[Finding]:
        """A path must be held by a call that has not ended or a rollback that is under way, or it would keep writes
        waiting for nothing.
        """
        for _, path, run_no, seq, run_id, intent, call_id, state in self._paged("every_hold", self._keys["every_hold"]):
            why = _why_not_held(run_no, seq, run_id, intent, call_id, state)
            if why is not None:
                where = path.decode("utf-8", "backslashreplace") if isinstance(path, bytes) else str(path)
                yield Finding(f"path {where or '(the whole workspace)'}", f"is held by {why}", run_id)

    def _identities(self) -> Iterator[Finding]:
        """A name must be held by a call that is there and carries it, or it would keep others waiting for nothing."""
        for row in self._paged("every_identity", self._keys["every_identity"]):
            scope_run, key, run_no, seq, run_id, call_id, carried, scope = row[-8:]
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

    def _contents(self) -> Iterator[Finding]:
        for row in self._paged("every_artifact", self._keys["every_artifact"]):
            run_no, digest, packing, data = row[-4:]
            self._artifacts += 1
            try:
                good = hashlib.sha256(unpack(packing, data)).digest() == digest
            except ValueError:
                good = False
            if not good:
                whose = [run[1] for run in self._rows("run_by_no", (run_no,))]
                yield Finding(
                    f"artifact {digest.hex()[:12]}", "does not agree with its digest", whose[0] if whose else None
                )


def _row(where: str, run_id: str, row: Row, agrees: Callable[[Row], bool]) -> Iterator[Finding]:
    try:
        if not agrees(row):
            yield Finding(where, "does not agree with its checksum", run_id)
    except IntegrityError as error:
        yield Finding(where, error.what, run_id)


def _why_not_held(
    run_no: int, seq: int, run_id: str | None, intent: bytes | None, call_id: str | None, state: int | None
) -> str | None:
    """Who it is that holds a path and should not; None where all is well."""
    if run_id is None:
        return f"run number {run_no}, which is not there"
    if seq == 0:
        return None if intent is not None else "a rollback that is not under way"
    if call_id is None:
        return f"call number {seq}, which is not there"
    return f"call {call_id}, which has ended" if state in ENDED else None
