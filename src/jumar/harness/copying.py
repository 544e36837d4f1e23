"""Moving a store's runs to another store.

Runs are taken oldest first, one at a time.  A run that has ended for good is copied.  Any other may go on, and must go
on in one of the stores alone: it is adopted by the target, where it stands as *arriving* and nobody can claim it; it is
read back there and compared; then it departs from the source, which is refused where somebody has gone on with it since
it was read; and then it arrives.  Whatever the copy breaks off at, the rows of both stores say what is left to do, and
the same copy once more does that.

Nothing in the target is ever overwritten but what is arriving there, and what had moved away from there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from jumar.core.carrying import has_ended, named_artifacts, named_snapshots, on_clock, unlike
from jumar.core.changes import ARRIVING, MOVED, Adopt, Arrive, Change, Depart, Guard, Outcome, Refusal
from jumar.core.leases import seconds_left
from jumar.core.locations import located, root_of
from jumar.core.moving import adoption, arrival, departure, elsewhere, is_elsewhere, moved_to, standing, stood
from jumar.core.records import Artifact, RunExport, RunRecord
from jumar.core.states import IdentityScope, Status
from jumar.core.store import CommitUnknown, RunFilter, Store
from jumar.engine.files import Files
from jumar.errors import IntegrityError, StoreError, StoreUnavailable, UsageError
from jumar.stores.clock import wall_ms
from jumar.stores.opening import MEMORY_ADDRESS, check_address, open_store, path_of, shown_address

if TYPE_CHECKING:
    from jumar.workspace.copying import Copier

_PAGE = 500
_ALL = 1 << 62
_TRIES = 5

Tell = Callable[[int, int], None]


class Fate(Enum):
    """What became of a run."""

    COPIED = "copied"
    MOVED = "moved"
    THERE = "there"  # the very same is in the target
    ELSEWHERE = "elsewhere"  # it had moved away from the source before
    BUSY = "busy"
    CONFLICT = "conflict"
    DAMAGED = "damaged"


class Move(Struct, frozen=True):
    """What became of one run, and why it was left where it is, or what of it is lost."""

    run_id: str
    fate: Fate
    why: str = ""


class CopyReport(Struct, frozen=True):
    """What a copy did.  `copied` counts runs that had ended, `moved` those that go on in the target; `there` those that
    were there before, the very same, and `elsewhere` those that had moved away from the source before.  `snapshots`
    counts those of the workspaces that were brought along.  `left` are runs that stay in the source, each with the
    reason, and `lost` such as came without something that the source does not have any more.
    """

    source: str
    target: str
    copied: int = 0
    moved: int = 0
    there: int = 0
    elsewhere: int = 0
    snapshots: int = 0
    left: tuple[Move, ...] = ()
    lost: tuple[Move, ...] = ()

    @property
    def damaged(self) -> bool:
        """Whether something in the source, or what came back from the target, is not whole."""
        return bool(self.lost) or any(move.fate is Fate.DAMAGED for move in self.left)


def copy_store(source: str, target: str, *, tell: Tell | None = None) -> CopyReport:
    """Move the runs of the store at one address to the store at another.

    `tell` is told after each run how many of how many have been looked at.  A run that somebody drives at the moment,
    one of which the target has something else, and one that is damaged stay where they are and are in the report;
    errors of the stores end the copy, and the same copy once more goes on where it ended.  UsageError where an address
    is none, or both are one.
    """
    if MEMORY_ADDRESS in (check_address(source), check_address(target)):
        raise UsageError("what is in memory cannot be copied", hint="Name two stores that stay.")
    if shown(source) == shown(target):
        raise UsageError("the source and the target are one store", hint="Name two stores.")
    with End(source) as first, End(target) as second:
        return Copying(first, second).run(tell)


def shown(address: str) -> str:
    """An address as it is told and kept: without a password, and the same from whichever folder it is used."""
    path = path_of(address)
    if path is not None:
        return address.removesuffix(path) + str(Path(path).resolve())
    return shown_address(address.replace("postgres://", "postgresql://", 1))


class End:
    """One of the two stores, with the files that it keeps for its runs."""

    def __init__(self, address: str, store: Store | None = None) -> None:
        self.name = shown(address)
        self.store = open_store(address) if store is None else store
        self.files = Files(address, shared=getattr(self.store, "objects", None))

    def __enter__(self) -> End:
        return self

    def __exit__(self, *_: object) -> None:
        self.files.close()
        self.store.close()


class Copying:
    """One copy, from an open store to another."""

    def __init__(self, source: End, target: End) -> None:
        self._source = source.store
        self._target = target.store
        self._ends = (source, target)
        self._copier: Copier | None = None
        self._snapshots = 0
        self._lost: list[Move] = []
        self._namers: list[str] | None = None

    def run(self, tell: Tell | None = None) -> CopyReport:
        """Copy every run that the source has now."""
        run_ids = self._oldest_first()
        counts = dict.fromkeys(Fate, 0)
        left: list[Move] = []
        for number, run_id in enumerate(run_ids, 1):
            move = self.carry(run_id)
            counts[move.fate] += 1
            if move.why:
                left.append(move)
            if tell is not None:
                tell(number, len(run_ids))
        source, target = self._ends
        return CopyReport(
            source.name,
            target.name,
            counts[Fate.COPIED],
            counts[Fate.MOVED],
            counts[Fate.THERE],
            counts[Fate.ELSEWHERE],
            self._snapshots,
            tuple(left),
            tuple(self._lost),
        )

    def _oldest_first(self) -> list[str]:
        """The ids of all runs; they begin with a time, so a run comes before the forks that were made of it."""
        return self._source.find("", _ALL)[::-1]

    def _namer(self) -> str | None:
        """A run that somebody drives and that holds the name of an action in the whole store.

        It stays, and its names with it.  Whatever went on in the target meanwhile would not find them there, and might
        do the same once more; so then nothing moves.
        """
        if self._namers is None:
            now = self._source.now()
            self._namers = [run.run_id for run in self._running() if seconds_left(run, now) > 0 and self._names(run)]
        return self._namers[0] if self._namers else None

    def _running(self) -> Iterator[RunRecord]:
        before = None
        while page := self._source.runs(RunFilter(status=Status.RUNNING, before=before, limit=_PAGE)):
            yield from page
            before = page[-1].run_id

    def _names(self, run: RunRecord) -> bool:
        try:
            export = self._source.export(run.run_id)
        except IntegrityError:
            return True  # which nobody can tell
        return export is not None and any(name.scope is IdentityScope.STORE for name in export.identities)

    # --- One run. ---

    def carry(self, run_id: str) -> Move:
        """Bring one run to the target."""
        try:
            for _ in range(_TRIES):
                move = self._carry(run_id)
                if move is not None:
                    return move
        except IntegrityError as error:
            return Move(run_id, Fate.DAMAGED, error.what)
        except StoreError as error:
            if type(error) is not StoreError:
                raise
            return Move(run_id, Fate.CONFLICT, error.what)  # it holds what the target cannot keep
        return Move(run_id, Fate.BUSY, "it went on each time it was to be moved")

    def _carry(self, run_id: str) -> Move | None:
        """What became of the run; None where it has gone on meanwhile and is to be looked at again."""
        run, there = self._source.run(run_id), self._target.run(run_id)
        if run is None:
            return Move(run_id, Fate.ELSEWHERE)
        if is_elsewhere(run):
            return self._gone(run, there)
        if there is not None and not is_elsewhere(there):
            return self._compared(run_id)
        if not has_ended(run) and (held := seconds_left(run, self._source.now())) > 0:
            return Move(run_id, Fate.BUSY, f"{run.owner} drives it; its lease ends in {held:.0f} s")
        if not has_ended(run) and (namer := self._namer()) is not None:
            why = f"run {namer}, which somebody drives, holds names in the whole store: both move once it is free"
            return Move(run_id, Fate.BUSY, why)
        export = self._source.export(run_id)
        return None if export is None else self._bring(export)

    def _bring(self, export: RunExport) -> Move | None:
        run = export.run
        change = adoption(self._whole(export))
        refusal = self._write(self._target, change)
        if isinstance(refusal, Refusal):
            return _kept_out(run.run_id, refusal)
        adopted = self._target.export(run.run_id)
        if adopted is None or adopted.run.error_type != ARRIVING:
            return None
        different = unlike(change.export, adopted)
        if different is not None:
            raise IntegrityError(f"its {different} did not come back from the target as they were written")
        self._bring_files(export)
        at, to = wall_ms(), self._ends[1].name
        if not has_ended(run):
            refusal = self._write(self._source, departure(run, to, at))
            if isinstance(refusal, Refusal):
                held = refusal.guard is Guard.HELD
                return Move(run.run_id, Fate.BUSY, refusal.detail) if held else None
        if isinstance(self._write(self._target, arrival(adopted.run, standing(run), at)), Refusal):
            return None
        return Move(run.run_id, Fate.COPIED if has_ended(run) else Fate.MOVED)

    def _whole(self, export: RunExport) -> RunExport:
        """The export as the target can use it: on its clock, and of a fork with what it has only from its origin, where
        the target does not have that one.
        """
        here = self._source.now()
        moved = self._placed(on_clock(export, here, self._target.now()))
        origin = export.run.forked_from
        there = None if origin is None else self._target.run(origin)
        if origin is None or (there is not None and there.error_type != ARRIVING):
            return moved
        own = {artifact.digest for artifact in export.artifacts}
        wanted = sorted(named_artifacts(export) - own)
        found = [(name, self._source.artifact(export.run.run_no, name)) for name in wanted]
        brought = tuple(Artifact(name, data) for name, data in found if data is not None)
        return replace(moved, artifacts=tuple(sorted(moved.artifacts + brought, key=lambda each: each.digest)))

    def _placed(self, export: RunExport) -> RunExport:
        """The export with its workspace as the target names it: with the host, where several share that store."""
        run = export.run
        return replace(
            export,
            run=replace(run, workspace=None if run.workspace is None else self._relocated(run.workspace)),
            holds=tuple(replace(held, workspace=self._relocated(held.workspace)) for held in export.holds),
        )

    def _relocated(self, workspace: str) -> str:
        source, target = self._ends
        location = located(workspace)
        return target.files.located(location.root) if location.host == source.files.host else workspace

    def _compared(self, run_id: str) -> Move | None:
        """A run that is in both stores: the same, or two different ones."""
        export, there = self._source.export(run_id), self._target.export(run_id)
        if export is None or there is None:
            return None
        if is_elsewhere(there.run) or is_elsewhere(export.run):
            return None
        different = unlike(export, there)
        if different is None and has_ended(export.run):
            self._bring_files(export)
            return Move(run_id, Fate.THERE)
        what = f"its {different} differ" if different is not None else "both can go on"
        return Move(run_id, Fate.CONFLICT, f"the target has this run too, and {what}")

    def _gone(self, run: RunRecord, there: RunRecord | None) -> Move | None:
        """A run that has left the source, or is only arriving there."""
        target = self._ends[1].name
        if run.error_type == ARRIVING:
            return Move(run.run_id, Fate.BUSY, elsewhere(run))
        if there is not None and there.error_type != ARRIVING:
            return Move(run.run_id, Fate.ELSEWHERE)
        if moved_to(run) != target:
            if there is None:
                return Move(run.run_id, Fate.ELSEWHERE)
            why = f"it moved to {moved_to(run)}; the target has it as one that is on its way"
            return Move(run.run_id, Fate.CONFLICT, why)
        if there is None:
            return Move(run.run_id, Fate.CONFLICT, "it moved to the target, which does not have it")
        change = arrival(run, stood(run), wall_ms())
        if isinstance(self._write(self._target, change), Refusal):
            again = self._target.run(run.run_id)
            if again is not None and is_elsewhere(again):
                return Move(run.run_id, Fate.CONFLICT, "it moved to the target, which has it as it was before that")
            return None
        return Move(run.run_id, Fate.MOVED)

    # --- Files. ---

    def _bring_files(self, export: RunExport) -> None:
        """Have the snapshots that a run names in the target's objects too."""
        wanted = named_snapshots(export)
        if not wanted:
            return
        copier = self._copying_files(export.run)
        lost = []
        for digest in wanted:
            try:
                if copier is None:
                    lost.append(digest)
                else:
                    self._snapshots += copier.bring(digest)
            except IntegrityError:
                lost.append(digest)
        if lost:
            some = f"{len(lost)} of its {len(wanted)} snapshots of the files are not whole in the source"
            self._lost.append(Move(export.run.run_id, Fate.DAMAGED, some))

    def _copying_files(self, run: RunRecord) -> Copier | None:
        if self._copier is None:
            from jumar.workspace.copying import Copier

            source, target = self._ends
            objects = source.files.looked_at()
            if objects is None:
                return None
            root = "/" if run.workspace is None else root_of(run.workspace)
            self._copier = Copier(objects, target.files.objects(root))
        return self._copier

    # --- Writing. ---

    def _write(self, store: Store, change: Adopt | Arrive | Depart) -> Outcome:
        """The answer to a change, whatever became of its commit."""
        for _ in range(_TRIES):
            answer = _answer(store, change)
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return answer
        raise StoreUnavailable("the store does not tell whether what was written is on disk")


def _kept_out(run_id: str, refusal: Refusal) -> Move | None:
    """Why the target did not adopt a run; None where another copy has just brought it there."""
    there = refusal.run
    if there is not None and there.error_type != MOVED and refusal.guard in (Guard.EXISTS, Guard.VERSION):
        return None
    return Move(run_id, Fate.CONFLICT, f"{refusal.detail} (in the target)")


def _answer(store: Store, change: Change) -> Outcome | Exception | None:
    try:
        return store.write([change])[0]
    except CommitUnknown:
        return store.read_back(change)
