"""Putting a workspace's files back: plan, safety snapshot, journal, operations, check, and what follows a crash.

A plan only compares.  The restore compares again, under the workspace's lock and with a fresh capture that becomes the
safety snapshot: it is pinned before the journal says that anything is being done, so whatever a restore takes away, a
forced one included, can be put back from there.  What the capture sees is what the restore takes for the current
state; what changes after it is found when the file is moved (see `jumar.workspace.applying`).

A restore that fails takes itself back.  One that is cut off is taken back at the next open, or finished where only the
slots were left to empty.  So after a crash the files are as before or as after, and the journal's going is the end.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from msgspec import Struct, structs

from jumar.core.file_operations import Operation, operations
from jumar.core.ignoring import Boundary, Frozen
from jumar.core.restoring import (
    Coverage,
    Outcome,
    PathOutcome,
    Report,
    Step,
    Verdict,
    compare,
    same_content,
    settle,
    shown,
)
from jumar.core.scopes import covers
from jumar.core.trees import EntryKind, RuleText, Snapshot, digest_of, find, pack_snapshot
from jumar.errors import IntegrityError, RestoreFailed, WorkspaceConflict, WorkspaceError
from jumar.workspace.applying import Applier
from jumar.workspace.calls import FileCalls
from jumar.workspace.folders import Folders
from jumar.workspace.inspection import pin_of
from jumar.workspace.journal import Journal, Record, Stage
from jumar.workspace.locking import WorkspaceLock
from jumar.workspace.objects import Objects
from jumar.workspace.undoing import Undoer

_NAMED_IN_MESSAGES = 5  # paths


class Capture(Protocol):
    """Captures the files as they are now by given rules, those of a snapshot instead of the ignore files' own."""

    def __call__(self, scope: tuple[bytes, ...], rules: tuple[RuleText, ...]) -> Snapshot: ...


class Plan(Struct, frozen=True):
    """What a restore to `target` would do, as things stand: `steps` by path.  `paths` narrow it (empty: everything)."""

    target: Snapshot
    known: Snapshot | None
    paths: tuple[bytes, ...]
    steps: tuple[Step, ...]

    @property
    def conflicts(self) -> tuple[Step, ...]:
        """What would refuse the restore, unless skipped or, but for the blocked, forced."""
        return tuple(step for step in self.steps if step.verdict in (Verdict.CONFLICT, Verdict.BLOCKED))


class Recovered(Struct, frozen=True):
    """What became of a restore that was cut off: `finished`, or taken back.

    `left` are paths that others changed since, which stay as they made them.
    """

    finished: bool
    left: tuple[PathOutcome, ...] = ()


class Restorer:
    """Puts the files of one workspace back; its lock and journal lie beside the objects."""

    def __init__(self, root: Path, objects: Objects, capture: Capture, calls: FileCalls | None = None) -> None:
        self._root = os.fsencode(root)
        self._objects = objects
        self._capture = capture
        self._calls = calls or FileCalls()
        beside = f"{objects.path.name}-{sha256(self._root).hexdigest()[:16]}"
        self.lock_path = objects.path.parent / f"{beside}.lock"
        self.journal = Journal(objects.path.parent / f"{beside}.restore", self._calls)

    def lock(self, wait: float | None = 0.0) -> WorkspaceLock:
        """The workspace's lock, not taken yet; see WorkspaceLock.  Whoever takes it finds no restore half done."""
        return WorkspaceLock(self.lock_path, wait=wait, taken=self._recover)

    # --- Planning -------------------------------------------------------------------------------------------------

    def plan(self, target: Snapshot, known: Snapshot | None, paths: Iterable[bytes] = ()) -> Plan:
        """What restoring `target` would do now; nothing is touched.  `paths` are globs, as in a snapshot's scope."""
        narrowed = tuple(paths)
        current = self._current(target, narrowed)
        return Plan(target, known, narrowed, self._steps(target, known, narrowed, current, force=False))

    def _current(self, target: Snapshot, paths: tuple[bytes, ...]) -> Snapshot:
        return self._capture(target.scope or paths, target.rules)

    def _steps(
        self, target: Snapshot, known: Snapshot | None, paths: tuple[bytes, ...], current: Snapshot, *, force: bool
    ) -> tuple[Step, ...]:
        found = compare(self._objects.load, target, known, current, _coverage(target, known, paths))
        return settle(found, current, force=force)

    def foresee(self, plan: Plan, *, force: bool = False) -> Report:
        """What a restore would tell now, conflicts that would refuse it among the rest; nothing is touched.

        What is to be written is read once: a content that is damaged or gone has its path FAILED here, and not only
        when there is no way back any more.
        """
        current = self._current(plan.target, plan.paths)
        steps = self._steps(plan.target, plan.known, plan.paths, current, force=force)
        return Report(digest_of(pack_snapshot(plan.target)), None, tuple(map(self._foreseen, steps)))

    def _foreseen(self, step: Step) -> PathOutcome:
        told, after = _told(step), step.target
        if step.verdict is not Verdict.WRITE or after is None or after.kind is not EntryKind.FILE:
            return told
        if step.current is not None and same_content(step.current, after):  # only its mode differs
            return told
        try:
            for _ in self._objects.parts(after.digest or b""):
                pass
        except IntegrityError as error:
            return structs.replace(told, outcome=Outcome.FAILED, reason=error.what)
        return told

    # --- Restoring ------------------------------------------------------------------------------------------------

    def restore(
        self, plan: Plan, *, force: bool = False, skip: bool = False, held: WorkspaceLock | None = None
    ) -> Report:
        """Put the files back; what became of each path.

        With `force` what others changed since is put back too, from the safety snapshot it can be had again.  With
        `skip` paths in conflict, and those that can't be put back, stay as they are and are told; else the first of
        either leaves everything as it was, with WorkspaceConflict or RestoreFailed.  `held` is the workspace's lock
        where the caller has it already; WorkspaceBusy where somebody else has.
        """
        with self._locked(held):
            safety = self._current(plan.target, plan.paths)
            steps = self._steps(plan.target, plan.known, plan.paths, safety, force=force)
            _refuse(steps, force=force, skip=skip)
            told = {step.path: _told(step) for step in steps}
            digest = None
            if any(step.verdict in _WORK for step in steps):
                digest = digest_of(pack_snapshot(safety))
                told |= self._carry_out(plan, steps, digest, skip=skip)
            return Report(digest_of(pack_snapshot(plan.target)), digest, tuple(told[path] for path in sorted(told)))

    def _carry_out(self, plan: Plan, steps: tuple[Step, ...], safety: bytes, *, skip: bool) -> dict[bytes, PathOutcome]:
        name = secrets.token_hex(8)
        self._objects.pin(safety, pin_of(self._objects.place + self._root, name))
        with _explained(), Folders(self._root, self._calls) as folders:
            todo = operations(steps, lambda path: find(self._objects.load, plan.target.root, path), folders.entry, name)
            target = digest_of(pack_snapshot(plan.target))
            record = Record(self._root, name, Stage.STAGING, target, safety, tuple(todo))
            undertaking = _Undertaking(self.journal, record)
            applier = Applier(folders, self._objects.parts)
            try:
                failed = undertaking.apply(applier, skip=skip)
                failed |= self._changed_again(plan, steps, failed)
                undertaking.reach(Stage.DONE)
            except (Exception, KeyboardInterrupt) as error:
                if not undertaking.take_back(folders, error):
                    self._objects.unpin(safety, pin_of(self._objects.place + self._root, name))
                raise
            try:
                applier.clean(undertaking.record.operations)
                self.journal.clear()
            except OSError:
                pass  # everything is in its place; the next open empties the slots
        return failed

    def _changed_again(
        self, plan: Plan, steps: tuple[Step, ...], failed: dict[bytes, PathOutcome]
    ) -> dict[bytes, PathOutcome]:
        """The files, captured and compared once more: paths that were put back and are already different again."""
        again = self._steps(plan.target, plan.known, plan.paths, self._current(plan.target, plan.paths), force=False)
        done = {step.path for step in steps if step.verdict in _WORK} - failed.keys()
        return {
            step.path: PathOutcome(step.path, Outcome.CONFLICT, "it was changed after it had been put back")
            for step in again
            if step.path in done and step.verdict is not Verdict.UNCAPTURED
        }

    # --- After a crash --------------------------------------------------------------------------------------------

    def recover(self) -> Recovered | None:
        """Take back, or finish, a restore that was cut off; None where there is none.

        WorkspaceBusy where somebody holds the lock: then it is not cut off but under way.
        """
        if not self.journal.path.exists():
            return None
        with WorkspaceLock(self.lock_path):
            return self._recover()

    def _recover(self) -> Recovered | None:
        with _explained():
            record = self.journal.read()
        if record is None:
            return None
        try:
            with Folders(self._root, self._calls) as folders:
                undoer = Undoer(folders)
                if record.stage is Stage.DONE:
                    Applier(folders, self._objects.parts).clean(record.operations)
                else:
                    undoer.undo(record.operations, applied=record.stage is Stage.APPLYING)
        except OSError as error:
            raise _not_taken_back(record, error) from error
        if record.stage is not Stage.DONE and not undoer.left:
            self._objects.unpin(record.safety, pin_of(self._objects.place + self._root, record.name))
        with _explained():
            self.journal.clear()
        return Recovered(record.stage is Stage.DONE, tuple(undoer.left))

    @contextmanager
    def _locked(self, held: WorkspaceLock | None) -> Iterator[None]:
        if held is not None and not held.held:
            raise WorkspaceError("the workspace's lock that was given is not held", hint="Take it first.")
        with nullcontext() if held is not None else self.lock():
            yield


class _Undertaking:
    """One restore on its way: its journal's record, stage by stage."""

    def __init__(self, journal: Journal, record: Record) -> None:
        self._journal = journal
        self._begun = False  # the journal is surely there: before that nothing may be touched, be it to take back
        self._heading = record.stage  # the stage that the journal may have reached, whatever came of writing it
        self.record = record

    def reach(self, stage: Stage) -> None:
        """Have the journal say that the restore has come to `stage`."""
        self._write(stage, self.record.operations)

    def _write(self, stage: Stage, todo: tuple[Operation, ...]) -> None:
        record = structs.replace(self.record, stage=stage, operations=todo)
        self._heading = stage
        self._journal.write(record)
        self._begun = True
        self.record = record

    def apply(self, applier: Applier, *, skip: bool) -> dict[bytes, PathOutcome]:
        """Fill the slots and carry the operations out; what could not be done."""
        self.reach(Stage.STAGING)
        failed = applier.stage(self.record.operations)
        _give_up(failed, skip=skip)
        self._write(Stage.APPLYING, applier.drop(self.record.operations, failed))
        failed |= applier.apply(self.record.operations, skip=skip)
        _give_up(failed, skip=skip)
        return failed

    def take_back(self, folders: Folders, why: BaseException) -> list[PathOutcome]:
        """Undo what was done so far; the paths that others changed meanwhile."""
        undoer = Undoer(folders)
        try:
            if self._heading is Stage.DONE:  # else a crash on the way back would be taken for one on the way out
                self.reach(Stage.APPLYING)
            if self._begun:
                undoer.undo(self.record.operations, applied=self.record.stage is not Stage.STAGING)
            self._journal.clear()
        except OSError as error:
            raise _not_taken_back(self.record, error) from why
        return undoer.left


@contextmanager
def _explained() -> Iterator[None]:
    """Raise what the system refuses as an error that says what became of the files."""
    try:
        yield
    except OSError as error:
        raise RestoreFailed(f"the files can't be put back ({error})") from error


_WORK = (Verdict.WRITE, Verdict.DELETE)
_OUTCOMES = {
    Verdict.WRITE: Outcome.RESTORED,
    Verdict.DELETE: Outcome.DELETED,
    Verdict.CONFLICT: Outcome.CONFLICT,
    Verdict.BLOCKED: Outcome.CONFLICT,
    Verdict.UNCAPTURED: Outcome.UNCAPTURED,
}


def _told(step: Step) -> PathOutcome:
    return PathOutcome(step.path, _OUTCOMES[step.verdict], step.reason)


def _coverage(target: Snapshot, known: Snapshot | None, paths: tuple[bytes, ...]) -> Coverage:
    boundary, asked = Boundary(target), covers(paths)
    rules = Frozen(known.rules) if known is not None else None
    return Coverage(
        wants=lambda path, is_dir: asked(path) and boundary.would_capture(path, is_dir),
        ignored=lambda path, is_dir: rules is not None and rules.ignores(path, is_dir),
        named=covers(target.scope),
    )


def _refuse(steps: tuple[Step, ...], *, force: bool, skip: bool) -> None:
    refusing = [step for step in steps if step.verdict in (Verdict.CONFLICT, Verdict.BLOCKED)]
    if not refusing or skip:
        return
    hint = "They can only be left out (skip)." if force else None
    raise WorkspaceConflict(
        f"{_listed([(step.path, step.reason) for step in refusing])}; nothing was put back",
        paths=tuple(shown(step.path) for step in refusing),
        hint=hint,
    )


def _give_up(failed: dict[bytes, PathOutcome], *, skip: bool) -> None:
    """Raise what a restore that does not skip ends with, where a path could not be put back."""
    found = [each for each in failed.values() if each.outcome is not Outcome.UNCAPTURED]
    if not found or skip:
        return
    message = f"{_listed([(each.path, each.reason) for each in found])}; everything else was left as it was, too"
    paths = tuple(each.text for each in found)
    if any(each.outcome is Outcome.CONFLICT for each in found):
        raise WorkspaceConflict(message, paths=paths)
    raise RestoreFailed(message, paths=paths)


def _listed(found: list[tuple[bytes, str]]) -> str:
    named = ", ".join(f"{shown(path)} ({reason})" for path, reason in found[:_NAMED_IN_MESSAGES])
    more = len(found) - _NAMED_IN_MESSAGES
    return f"{len(found)} paths can't be put back: {named}{f' and {more} more' if more > 0 else ''}"


def _not_taken_back(record: Record, error: OSError) -> RestoreFailed:
    return RestoreFailed(
        f"a restore of {shown(record.root)} was cut off and can't be taken back now ({error})",
        safe="Its journal is kept, and so are all files: those moved lie beside their places, named '.jumar-...'.",
        hint="Mend what the message names; the next open of the workspace takes it back.",
    )
