"""`doctor`: what is damaged in a store and in the files kept beside it, and what recovery would use.

Nothing is repaired.  For each run with damage it is told how far a recovery can still go: a damaged checkpoint is
passed over for the newest sound one before it; a damaged call is left behind by going back to before it; a row that
cannot be read at all can only be had again from a copy of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jumar.core.call_states import ENDED
from jumar.core.checksums import call_agrees, checkpoint_agrees
from jumar.core.lines import counts, is_on_line
from jumar.core.records import CallRecord, CheckpointRecord, RunRecord
from jumar.core.rollbacks import Point, find_point
from jumar.core.states import Effect, Phase, Status
from jumar.core.store import Finding, Store
from jumar.engine.files import Files
from jumar.errors import CannotRollBack, CheckpointNotFound, JumarError
from jumar.harness.results import Mending, Report
from jumar.stores.opening import newest_schema, shown_address

if TYPE_CHECKING:
    from jumar.workspace.objects import Objects

_EVERY = 1 << 31
_GONE = "the snapshot of the files that it names is not there, or is damaged"


def examine(store: Store, files: Files, address: str) -> Report:
    """Read all there is once."""
    found = store.inspect()
    snapshots = _Snapshots(files)
    findings = list(found.findings)
    findings += snapshots.findings
    for run_id in store.find("", _EVERY):
        findings += _files_of(store, run_id, snapshots)
    return Report(
        shown_address(address),
        newest_schema(address),
        found.runs,
        found.calls,
        found.checkpoints,
        found.artifacts,
        tuple(findings),
        snapshots.path,
        *snapshots.counts,
        _mendings(store, findings),
    )


# --- The files. -----------------------------------------------------------------------------------------------------


class _Snapshots:
    """The objects of a store's workspaces: what was found in them, and which snapshots can be given back."""

    def __init__(self, files: Files) -> None:
        self.findings: list[Finding] = []
        self.path: str | None = None
        self.counts = (0, 0, 0)
        self._objects: Objects | None = None
        self._known: dict[bytes, bool] = {}
        try:
            self._objects = files.looked_at()
            if self._objects is not None:
                self._inspect(self._objects)
        except JumarError as error:
            self.findings.append(Finding("files", error.what))

    def _inspect(self, objects: Objects) -> None:
        from jumar.workspace.inspection import inspect

        everything = objects.inspected()
        self.path = everything.where
        found = inspect(everything)
        self.counts = (found.contents, found.folders, found.snapshots)
        self.findings += (Finding(f"files, {finding.where}", finding.what) for finding in found.findings)
        self._known |= dict.fromkeys(found.lost, False)

    def has(self, digest: bytes) -> bool:
        """Whether a snapshot is there and can be given back whole."""
        known = self._known.get(digest)
        if known is None:
            known = self._known[digest] = self._is_there(digest)
        return known

    def _is_there(self, digest: bytes) -> bool:
        if self._objects is None:
            return False
        try:
            self._objects.get_snapshot(digest)
        except JumarError:
            return False
        return True


def _files_of(store: Store, run_id: str, snapshots: _Snapshots) -> Iterator[Finding]:
    """Snapshots that a run's rows name and that are not there: of its checkpoints, and of writes that may have to be
    put back.
    """
    try:
        run = store.run(run_id)
        if run is None or run.workspace is None:
            return
        checkpoints, calls = store.checkpoints(run.run_no), store.calls(run.run_no)
    except JumarError:
        return  # which has been found
    for kept in checkpoints:
        if kept.tree is not None and checkpoint_agrees(kept) and not snapshots.has(kept.tree):
            yield Finding(f"checkpoint {kept.version}", _GONE, run_id)
    for call in calls:
        may_be_put_back = call.effect is Effect.WRITE and call.before is not None and call.state not in ENDED
        if may_be_put_back and not snapshots.has(call.before or b""):
            yield Finding(f"call {call.call_id}", _GONE, run_id)


# --- What recovery would use. ---------------------------------------------------------------------------------------


def _mendings(store: Store, findings: Sequence[Finding]) -> tuple[Mending, ...]:
    wheres: dict[str, list[str]] = {}
    for finding in findings:
        if finding.run_id is not None:
            wheres.setdefault(finding.run_id, []).append(finding.where)
    return tuple(_mending(store, run_id, tuple(dict.fromkeys(found))) for run_id, found in wheres.items())


def _mending(store: Store, run_id: str, wheres: tuple[str, ...]) -> Mending:
    if "run" in wheres:
        return Mending(
            run_id,
            wheres,
            "its own row is damaged, so it cannot be taken up again; its calls are kept as they are.",
        )
    if "intent" in wheres:
        return Mending(
            run_id,
            wheres,
            "the rollback it is in cannot be read, so nothing else is done with it; its calls are kept as they are.",
        )
    try:
        run = store.run(run_id)
        assert run is not None
        checkpoints, calls = store.checkpoints(run.run_no), store.calls(run.run_no)
    except JumarError as error:
        return Mending(run_id, wheres, f"{error.what}, and neither resume nor rollback goes past it.")
    return _Damage(run, wheres, checkpoints, calls).mending()


class _Damage:
    """A run with damage whose rows can be read."""

    def __init__(
        self,
        run: RunRecord,
        wheres: tuple[str, ...],
        checkpoints: Sequence[CheckpointRecord],
        calls: Sequence[CallRecord],
    ) -> None:
        self._run, self._wheres, self._calls = run, wheres, calls
        self._bad = {each.version for each in checkpoints if f"checkpoint {each.version}" in wheres}
        self._here = [each for each in checkpoints if is_on_line(run.line, each.version)]
        self._lost = {where.removeprefix("artifact ") for where in wheres if where.startswith("artifact ")}

    def mending(self) -> Mending:
        """How far a recovery can go, and how."""
        damaged = [call for call in self._calls if counts(self._run.line, call) and not self._is_sound(call)]
        if damaged:
            return self._before(damaged)
        passed = [each for each in self._here if each.version in self._bad]
        if passed:
            return self._passing_over(passed)
        return Mending(self._run.run_id, self._wheres, _aside(self._wheres))

    def _before(self, damaged: Sequence[CallRecord]) -> Mending:
        """Calls that no resume can go past."""
        names = ", ".join(call.call_id for call in damaged)
        stops = f"resume answers what is sound from the record, and stops with an error where it needs {names}."
        first = min((call.ended_version or call.started_version) for call in damaged)
        point = self._newest(first - 1)
        if point is None:
            return Mending(self._run.run_id, self._wheres, f"{stops} It has no sound checkpoint before that.")
        command = f"jumar rollback {self._run.run_id[-8:]} --to {point.version}"
        doubt = [call for call in damaged if call.effect in (Effect.EXTERNAL, Effect.IDEMPOTENT)]
        care = f" What {doubt[0].call_id} did outside may be done again: look first." if doubt else ""
        return Mending(
            self._run.run_id,
            self._wheres,
            f"{stops} Its newest sound checkpoint before that is {point.version}, {point.name}; `{command}` leaves "
            f"behind what came after it.{care}",
            point.version,
            point.name,
            command,
        )

    def _passing_over(self, passed: Sequence[CheckpointRecord]) -> Mending:
        """Checkpoints alone: no resume needs them, and a rollback to one of them takes the newest sound one before."""
        is_over = self._run.status in (Status.COMPLETED, Status.CANCELLED)
        told = ["its calls are sound." if is_over else "its calls are sound, and resume goes on from them."]
        newest = self._newest(self._run.version)
        if newest is None:
            told.append("It has no sound checkpoint left.")
            return Mending(self._run.run_id, self._wheres, " ".join(told))
        told.append(f"Its newest sound checkpoint is {newest.version}, {newest.name}.")
        alike: dict[tuple[bool, str], list[str]] = {}
        for kept in passed:
            point = self._newest(kept.version)
            found = "" if point is None else f"{point.version}, {point.name}"
            alike.setdefault((checkpoint_agrees(kept), found), []).append(str(kept.version))
        told += [_passed(", ".join(versions), *what) for what, versions in alike.items()]
        return Mending(self._run.run_id, self._wheres, " ".join(told), newest.version, newest.name)

    def _newest(self, version: int) -> Point | None:
        """The newest sound restore point at a version or before it."""
        sound = [each for each in self._here if each.version not in self._bad]
        at = max((each.version for each in sound if each.version <= version), default=0)
        phases = [each.phase for each in sound]
        first = Phase.IN_CODE if Phase.IN_CODE in (*phases, self._run.phase) else Phase.READY_TO_DECIDE
        has_files = self._run.workspace is not None and any(each.tree is not None for each in self._here)
        try:
            return find_point(self._run, sound, self._calls, at, first=first, needs_tree=has_files, nearest=True)
        except (CannotRollBack, CheckpointNotFound):
            return None

    def _is_sound(self, call: CallRecord) -> bool:
        parts = [part for part in (call.args_artifact, call.result_artifact) if part is not None]
        named = f"call {call.call_id}" in self._wheres
        return call_agrees(call) and not named and not any(part.hex()[:12] in self._lost for part in parts)


def _passed(versions: str, files_alone: bool, found: str) -> str:
    """What a rollback to one of these checkpoints comes to; `found` is the newest sound one before them, if any."""
    none = "there is no sound one before it"
    if files_alone:  # which the rollback sees when it has begun to look
        return f"The files at {versions} are gone; the newest before it: {found or none}."
    return f"A rollback to {versions} takes {found}." if found else f"A rollback to {versions} is refused: {none}."


def _aside(wheres: Sequence[str]) -> str:
    """Of damage that is neither in the calls nor in the checkpoints that a recovery stands on."""
    told = []
    for where in wheres:
        if where.startswith(("name ", "path ")):
            told.append(f"who asks for {where} may wait in vain.")
        elif where == "origin":
            told.append(
                "what it has from the run it was made from cannot be had, and resume stops where it needs that."
            )
        elif where.startswith("request "):
            told.append(f"the {where} cannot be answered.")
        else:
            told.append(f"resume needs nothing of {where}.")
    return " ".join(told)
