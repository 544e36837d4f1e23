"""Rolling runs back and forking them.

A rollback is planned from the run's rows as they stand, and begins with one claim, guarded by the version that they
were read at: nobody drives the run, nothing has changed since, and what is to be done is on record before any of it is
done.  A rollback that an earlier process left unfinished is finished first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jumar.core.changes import Ack, Claim, Claimed, Fork, Guard, Hold, Refusal
from jumar.core.intents import Former, Intent, intent_of, pack_intent
from jumar.core.leases import seconds_left
from jumar.core.lines import is_copied, is_on_line, left_by
from jumar.core.locations import root_of
from jumar.core.records import CallRecord, CheckpointRecord, RequestRecord, RunRecord
from jumar.core.requests import Commit, Flow, Load, Now
from jumar.core.rollbacks import (
    Point,
    Undoing,
    check_at_rest,
    closing,
    failures_left_behind,
    find_point,
    first_phase,
    return_point,
    undoing,
)
from jumar.core.states import CallState, Phase, Status, mask
from jumar.core.store import Store
from jumar.core.strategies import level_of
from jumar.engine.flows.lifecycle import release
from jumar.engine.flows.restoring import foreseen, globs, last_known
from jumar.engine.flows.rolling_back import Rolled, finish
from jumar.engine.threads import stops_process
from jumar.errors import (
    CannotRollBack,
    CheckpointNotFound,
    JumarError,
    LeaseHeld,
    Refused,
    StaleVersion,
    Stopped,
    UsageError,
)

if TYPE_CHECKING:
    from jumar.core.restoring import Report
    from jumar.engine.engine import Engine

_ANY_STATUS = mask(*Status)
FILES = "files:"  # before the first digits of a snapshot, to go back to the files as they were before a restore
_DIGITS = 6  # of them at least
_TRIES = 5  # plans, where the run goes on while it is looked at


class Wanted(Struct, frozen=True):
    """What somebody asks for: to go back to a version or the name of a checkpoint; with `paths`, with these alone.
    `files:` and the digits of a safety snapshot undo a restore of files, and nothing else.
    """

    to: int | str
    paths: tuple[str, ...] = ()
    force: bool = False
    dry_run: bool = False
    by: str = ""
    note: str | None = None


class Planned(Struct, frozen=True):
    """What a rollback would do: where it goes, what acted outside, about which calls nothing would be asked any more,
    and what would be done with the files, where that was asked.
    """

    run: RunRecord
    point: Point
    intent: Intent
    undoing: Undoing = Undoing()
    withdrawn: tuple[str, ...] = ()
    report: Report | None = None


def _only_files(wanted: Wanted) -> Wanted:
    return wanted if wanted.paths else replace(wanted, paths=(".",))


class Recovery:
    """How an engine goes back."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._settings = engine.settings
        self._io = engine.io

    # --- Rolling back. ---

    def rollback_flow(self, run_id: str, wanted: Wanted) -> Flow[tuple[Planned, Rolled | None]]:
        """Roll a run back; answers the plan, and what became of it unless only that was asked for.

        LeaseHeld where a process drives the run, CannotRollBack where it cannot go back there, CheckpointNotFound where
        there is no such place, WorkspaceConflict where files have been changed since, RestoreFailed where what is kept
        of them is damaged.
        """
        for _ in range(_TRIES):
            run = yield from self._engine.record_of(run_id)
            yield from _check_free(run)
            if run.intent is not None:
                yield from self._finish_earlier(run, wanted)
                continue
            planned = yield from self._planned(run, wanted)
            if wanted.dry_run:
                return planned, None
            owner, sent_at = self._engine.new_owner(), self._io.clock()
            claimed = yield from self.begun(planned, owner)
            if claimed is None:
                continue
            rolled, _ = yield from self.carried_out(claimed.run, owner, sent_at, waits=False, goes_on=False)
            return planned, rolled
        raise StaleVersion(f"run {run_id} goes on while it is to be rolled back", hint="Pause it first.")

    def _finish_earlier(self, run: RunRecord, wanted: Wanted) -> Flow[None]:
        """Finish the rollback that a run is in; CannotRollBack where somebody has to say something first."""
        intent = intent_of(run)
        assert intent is not None
        busy = f"run {run.run_id} is in the middle of a rollback to version {intent.target}"
        if wanted.dry_run:
            raise CannotRollBack(busy, hint="Resume the run, or roll it back: either finishes that first.")
        wall, _ = yield from Now()
        owner, sent_at = self._engine.new_owner(), self._io.clock()
        change = Claim(
            run_id=run.run_id,
            owner=owner,
            ttl_ms=self._settings.ttl_ms,
            at=wall,
            statuses=_ANY_STATUS,
            early=True,
            epoch=run.epoch,
        )
        outcome = yield from Commit(change)
        if isinstance(outcome, Refusal):
            if outcome.guard is Guard.VERSION:
                return
            raise outcome.error()
        assert isinstance(outcome, Claimed)
        rolled, _ = yield from self.carried_out(
            outcome.run, owner, sent_at, waits=False, goes_on=False, force=wanted.force
        )
        if not rolled.over:
            waiting = f", which waits for {rolled.run.waiting_on}" if rolled.run.waiting_on else ""
            raise CannotRollBack(
                busy + waiting, hint="`jumar show RUN` tells what it asks, and the command that answers."
            )

    def _planned(self, run: RunRecord, wanted: Wanted) -> Flow[Planned]:
        rows = yield from _read(run)
        check_at_rest(run, rows.calls)
        if isinstance(wanted.to, str) and wanted.to.startswith(FILES):
            point = yield from self._before_a_restore(run, wanted.to)
            return (yield from self._planned_to(run, rows, point, _only_files(wanted), goes_on=False))
        has_files = run.workspace is not None and any(each.tree is not None for each in rows.checkpoints)
        if wanted.paths and not has_files:
            raise UsageError(f"no snapshot of any files was kept for run {run.run_id}, so paths= says nothing")
        point = find_point(run, rows.checkpoints, rows.calls, wanted.to, first=rows.first_phase, needs_tree=has_files)
        return (yield from self._planned_to(run, rows, point, wanted, goes_on=False))

    def _before_a_restore(self, run: RunRecord, to: str) -> Flow[Point]:
        """The files as they were before a restore in the run's workspace, by the first digits of that snapshot."""
        root = run.workspace
        if root is None:
            raise UsageError(f"run {run.run_id} has no workspace, so no files of it were ever put back")
        kept = yield from Load(lambda store: self._io.files.of(root).workspace.safety_snapshots())
        digits = to.removeprefix(FILES).lower()
        found = {each.digest for each in kept if len(digits) >= _DIGITS and each.digest.hex().startswith(digits)}
        if len(found) != 1:
            newest = ", ".join(f"{FILES}{each.digest.hex()[:12]}" for each in kept[:3])
            many = "several snapshots of the files before a restore begin" if found else ""
            raise CheckpointNotFound(
                f"{many or 'no snapshot of the files before a restore begins'} with {digits!r}",
                hint=f"The newest are {newest}." if newest else "No files were put back here.",
            )
        return Point(run.version, to, run.phase, run.step, tree=found.pop())

    def _planned_to(self, run: RunRecord, rows: _Rows, point: Point, wanted: Wanted, *, goes_on: bool) -> Flow[Planned]:
        undo, withdrawn = Undoing(), tuple[str, ...]()
        if not wanted.paths:
            undo = undoing(run.line, point.version, rows.calls, self._compensates, rows.answered_by_others)
            closed = closing(run.line, point.version, rows.calls, rows.requests, 0)
            withdrawn = tuple(dict.fromkeys(each.call_id for each in closed.withdraws))
            self._check_known(undo, wanted)
        report, known = None, None
        if point.tree is not None and run.workspace is not None:
            known = yield from last_known(run, rows.calls)
            report = yield from foreseen(run.workspace, point.tree, known, wanted.paths, force=wanted.force)
        intent = Intent(
            point.version,
            point.phase,
            point.step,
            Former.of(run),
            tree=point.tree,
            known=known,
            paths=wanted.paths,
            force=wanted.force,
            undo=tuple(call.seq for call in undo.undo),
            goes_on=goes_on,
            context=point.context,
            environment=point.environment,
            by=wanted.by,
            note=wanted.note,
        )
        if report is not None and not wanted.dry_run:
            _refuse_conflicts(report, point.version, goes_on=goes_on)
        return Planned(run, point, intent, undo, withdrawn, report)

    def _compensates(self, tool: str) -> bool | None:
        policy = self._engine.undoers(tool)
        return None if policy is None else policy.compensate is not None

    def _check_known(self, undo: Undoing, wanted: Wanted) -> None:
        """Whether a call can be undone is for its tool to say: without it, nothing is rolled back unless forced."""
        if wanted.force or wanted.dry_run:
            return
        unknown = next((call for call, _ in undo.stand if self._engine.undoers(call.tool) is None), None)
        if unknown is not None:
            raise UsageError(
                f"call {unknown.call_id} acted outside, and no tool {unknown.tool} is known here that could undo it",
                hint="Use the harness that has the tool (--app MODULE:HARNESS), or leave the call as it is (force).",
            )

    def begun(
        self, planned: Planned, owner: str, *, resumes: bool = False, made: str | None = None
    ) -> Flow[Claimed | None]:
        """Claim a run to carry a plan out, on the files that were `made` for it if any; None where it has gone on since
        it was looked at.
        """
        run, intent = planned.run, planned.intent
        wall, _ = yield from Now()
        change = Claim(
            run_id=run.run_id,
            owner=owner,
            ttl_ms=self._settings.ttl_ms,
            at=wall,
            statuses=_ANY_STATUS,
            early=True,
            resumes=resumes,
            epoch=run.epoch,
            version=run.version,
            intent=pack_intent(intent),
            holds=_holds(run, intent),
            workspace=made,
        )
        outcome = yield from Commit(change)
        if isinstance(outcome, Claimed):
            return outcome
        assert isinstance(outcome, Refusal)
        if outcome.guard in (Guard.VERSION, Guard.TRANSITION):
            return None
        raise outcome.error()

    def carried_out(
        self, run: RunRecord, owner: str, sent_at: int, *, waits: bool, goes_on: bool, force: bool = False
    ) -> Flow[tuple[Rolled, int]]:
        """Finish the rollback of a run that was claimed; with it comes the lease-clock millisecond from which the lease
        may be trusted.  Where it cannot be finished here, the lease is given back and the rollback stands as it is.
        """
        intent = intent_of(run)
        assert intent is not None
        if force:
            intent = replace(intent, force=True)
        live = self._engine.live(run, owner, [], sent_at, recovered=True)
        with self._engine.kept(live):
            try:
                rolled = yield from finish(live, intent, self._engine.undoers, waits=waits, goes_on=goes_on)
            except Stopped as stopped:
                if stopped.error is None:
                    raise
                if not isinstance(stopped.error, Refused):
                    yield from release(live)
                raise stopped.error from None
            except JumarError:
                yield from release(live)
                raise
            except BaseException as error:
                if stops_process(error):
                    with suppress(Stopped, JumarError):
                        yield from release(live)
                raise
        return rolled, live.renewed_at

    def returning(
        self, run: RunRecord, owner: str, most: int | None = None, made: str | None = None
    ) -> Flow[Claimed | None]:
        """Claim a failed run for the rollback that a strategy has chosen: how far it goes, the calls tell that it
        failed with.  None where somebody took it up meanwhile; CannotRollBack where it did so `most` times already.
        Where the run's files are on another host, it works on those that were `made` for it from now on.
        """
        if made is not None:
            run = replace(run, workspace=made)
        rows = yield from _read(run)
        check_at_rest(run, rows.calls)
        failed = [call for call in rows.calls if call.seq in run.failed_calls]
        newest = max((call.seq for call in failed), default=0)
        version = return_point(run, rows.checkpoints, rows.calls, level_of(failed), newest)
        has_files = run.workspace is not None and any(each.tree is not None for each in rows.checkpoints)
        point = find_point(
            run, rows.checkpoints, rows.calls, version, first=rows.first_phase, needs_tree=has_files, nearest=True
        )
        if most is not None and failures_left_behind(run, rows.calls, newest) >= most:
            raise CannotRollBack(f"it went back for the same call {most} times already")
        planned = yield from self._planned_to(run, rows, point, Wanted(version), goes_on=True)
        return (yield from self.begun(planned, owner, resumes=True, made=made))

    # --- Forking. ---

    def fork_flow(self, run_id: str, at: int | str, new_id: str, folder: str | None, by: str) -> Flow[str]:
        """Make a new run out of another one as it stood at a checkpoint; answers its id.

        With a `folder` the files are put there as they were then, and are the new run's.
        """
        for _ in range(_TRIES):
            run = yield from self._engine.record_of(run_id)
            if run.intent is not None:
                raise CannotRollBack(f"run {run_id} is in the middle of a rollback, so it cannot be forked")
            rows = yield from _read(run)
            check_at_rest(run, rows.calls, "forked")
            point = find_point(
                run, rows.checkpoints, rows.calls, at, first=rows.first_phase, needs_tree=folder is not None
            )
            root = None
            if folder is not None:
                root = yield from self._materialised(run, point, folder)
            if (yield from self._forked(run, rows, point, new_id, root, by)):
                return new_id
            folder = None
        raise StaleVersion(f"run {run_id} goes on while it is to be forked", hint="Pause it first.")

    def _forked(self, run: RunRecord, rows: _Rows, point: Point, new_id: str, root: str | None, by: str) -> Flow[bool]:
        after = left_by(run.line, point.version)
        wall, _ = yield from Now()
        change = Fork(
            run_id=new_id,
            source_no=run.run_no,
            version=run.version,
            base=point.version,
            phase=point.phase,
            step=point.step,
            at=wall,
            calls=tuple(call.seq for call in rows.calls if is_copied(after, call)),
            checkpoints=tuple(each.version for each in rows.checkpoints if is_on_line(after, each.version)),
            workspace=root,
            by=by,
        )
        outcome = yield from Commit(change)
        if isinstance(outcome, Ack):
            return True
        assert isinstance(outcome, Refusal)
        if outcome.guard is Guard.VERSION:
            return False
        raise outcome.error()

    def _materialised(self, run: RunRecord, point: Point, folder: str) -> Flow[str]:
        from jumar.engine.files import checked_root

        assert point.tree is not None
        tree, source = point.tree, run.workspace
        if source is None:
            raise UsageError(f"run {run.run_id} has no workspace, so it has no files for {folder}")
        if self._io.files.is_here(source) and Path(root_of(source)) in Path(folder).resolve().parents:
            raise UsageError(
                f"{folder} lies inside the workspace of run {run.run_id}, whose next snapshot would take it in",
                hint=f"Name a folder outside of {root_of(source)}.",
            )
        yield from Load(lambda store: self._io.files.kept(source).materialise(tree, folder))
        return self._io.files.located(checked_root(folder))


class _Rows(Struct):
    """What a plan is made from."""

    calls: list[CallRecord]
    checkpoints: list[CheckpointRecord]
    requests: Sequence[RequestRecord]
    answered_by_others: Collection[int]

    @property
    def first_phase(self) -> Phase:
        """The phase that a run of this kind of agent begins in."""
        return first_phase(self.checkpoints, self.calls)


def _read(run: RunRecord) -> Flow[_Rows]:
    return (yield from Load(lambda store: _rows(store, run)))


def _rows(store: Store, run: RunRecord) -> _Rows:
    calls = store.calls(run.run_no)
    others = {call.seq for call in calls if call.identity is not None and _is_done_elsewhere(store, run, call)}
    return _Rows(calls, store.checkpoints(run.run_no), store.requests(run.run_no, unanswered=True), others)


def _is_done_elsewhere(store: Store, run: RunRecord, call: CallRecord) -> bool:
    """Whether another call did the action that this one names, and gave it its result."""
    if call.state is not CallState.SUCCEEDED or call.identity is None or call.identity_scope is None:
        return False
    holder = store.identity(call.identity_scope, run.run_no, call.identity)
    return holder is not None and holder.run_no != 0 and (holder.run_no, holder.call_seq) != (run.run_no, call.seq)


def _check_free(run: RunRecord) -> Flow[None]:
    """LeaseHeld where a process drives the run."""
    _, now = yield from Now()
    left = seconds_left(run, now)
    if left > 0:
        raise LeaseHeld(
            f"run {run.run_id} is driven by {run.owner} for another {left:.1f} s at least",
            hint="Pause it first (`jumar pause RUN`), or wait until its process has ended and its lease has run out.",
        )


def _holds(run: RunRecord, intent: Intent) -> tuple[Hold, ...]:
    """The paths that a rollback holds until the files are back."""
    if intent.tree is None or run.workspace is None:
        return ()
    from jumar.core.held_paths import held_paths

    root = run.workspace
    return tuple(Hold(seq=0, workspace=root, path=path) for path in held_paths(globs(intent.paths)))


def _refuse_conflicts(report: Report, version: int, *, goes_on: bool) -> None:
    """WorkspaceConflict, or RestoreFailed, before anything is claimed where the files would refuse the rollback."""
    from jumar.core.restoring import Outcome
    from jumar.errors import RestoreFailed, WorkspaceConflict

    stuck = [each for each in report.paths if each.outcome in (Outcome.CONFLICT, Outcome.FAILED)]
    if not stuck:
        return
    lost = next((each for each in stuck if each.outcome is Outcome.FAILED), None)
    first = lost or stuck[0]
    more = f", and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    safe, paths = "No file was touched, and nothing was undone.", tuple(each.text for each in stuck)
    if lost is not None:
        raise RestoreFailed(
            f"{first.text} cannot be put back ({first.reason}){more}",
            paths=paths,
            safe=safe,
            hint="Go back to another checkpoint, or put back the other files alone (paths).",
        )
    hint = "Look at them (dry_run); force puts them back all the same, and what that overwrites is kept."
    if goes_on:
        hint = (
            f"Move them out of the way; or say `jumar rollback RUN --to {version} --force`, which keeps what it "
            "overwrites; or resume the run by another strategy, which leaves the files as they are."
        )
    raise WorkspaceConflict(
        f"{first.text} stands in the way of the rollback ({first.reason}){more}", paths=paths, safe=safe, hint=hint
    )
