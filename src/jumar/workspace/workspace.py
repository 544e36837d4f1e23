"""A workspace: one folder of files, of which snapshots are taken and to which files are put back.

This is the face of the package.  What a snapshot is made of stands in `jumar.core.trees`, how it is taken in `scanning`
and `capturing`, how files are put back in `restoring`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from jumar.core import trees
from jumar.core.grafting import graft
from jumar.core.restoring import Report
from jumar.core.trees import Change, RuleText, Snapshot
from jumar.errors import WorkspaceBusy
from jumar.workspace import roots
from jumar.workspace.calls import FileCalls
from jumar.workspace.capturing import capture
from jumar.workspace.collecting import Budget, Progress
from jumar.workspace.inspection import Safety, safety_snapshots
from jumar.workspace.locking import WorkspaceLock
from jumar.workspace.materialising import materialise
from jumar.workspace.objects import Objects
from jumar.workspace.restoring import Plan, Recovered, Restorer

_UNLIMITED = Budget()
SLACK_SECONDS = 2.0  # the coarsest time a filesystem in use stamps its files with


class Workspace:
    """The folder `root` with its snapshots in `objects`, a file that is best kept outside the root.

    `ignore` are lines as in a `.gitignore`, which count above all ignore files found in the root.  `own` names more
    files or folders of Jumar's own that may lie in the root (its store, say): they are never captured; those of the
    workspace itself are known.  `slack` is how close to a scan, in seconds, a file's time makes it read again.
    `calls` are those by which files are put back, where a test wants to stop between them.

    RootRefused where the root is `/`, a home directory, what contains one, or no directory.
    """

    def __init__(
        self,
        root: Path | str,
        objects: Objects,
        *,
        ignore: Iterable[str] = (),
        own: Iterable[Path | str] = (),
        slack: float = SLACK_SECONDS,
        calls: FileCalls | None = None,
    ) -> None:
        self.root = roots.checked(root)
        self.objects = objects
        lines = "".join(f"{line}\n" for line in ignore).encode("utf-8", "surrogateescape")
        self._given = (RuleText(b"", lines),) if lines else ()
        self._slack = slack
        self._restorer = Restorer(self.root, objects, self._captured, calls)
        beside = (objects.path, self._restorer.lock_path, self._restorer.journal.path)
        self._own = roots.own_paths(self.root, (*beside, *own))
        try:
            self.recover()
        except WorkspaceBusy:
            pass  # somebody is putting files back right now; whoever takes the lock next finds out how that ended

    # --- Snapshots. --------------------------------------------------------------------------------------------------

    def capture(
        self,
        paths: Iterable[bytes] = (),
        *,
        rules: tuple[RuleText, ...] | None = None,
        budget: Budget | None = None,
        progress: Callable[[Progress], None] | None = None,
        pin: str | None = None,
    ) -> Snapshot:
        """A snapshot of the files as they are now; it is on disk when this returns.

        `paths` are globs (see `jumar.core.scopes`): with any, only what they name is captured, and all of it is read.
        `rules` are those of an earlier snapshot, to be used instead of what the ignore files say now.  `progress` is
        told how far it is once it has taken two seconds.  With `pin` the snapshot is pinned for that reason.

        BudgetExceeded where it would cost more than the budget, unless that asks for a partial snapshot;
        WorkspaceError where the root can't be read; WorkspaceBusy where files are being put back right now.
        """
        self.recover()
        return self._captured(tuple(paths), rules, budget or Budget(), progress, pin)

    def _captured(
        self,
        scope: tuple[bytes, ...],
        rules: tuple[RuleText, ...] | None,
        budget: Budget = _UNLIMITED,
        progress: Callable[[Progress], None] | None = None,
        pin: str | None = None,
    ) -> Snapshot:
        return capture(
            self.root,
            self.objects,
            scope=scope,
            frozen=rules,
            given=self._given,
            own=self._own,
            slack=self._slack,
            budget=budget,
            progress=progress,
            pin=pin,
        )

    def diff(self, a: Snapshot, b: Snapshot) -> Iterator[Change]:
        """What differs between two snapshots, a folder before what it holds; equal subtrees are not opened."""
        return trees.diff(self.objects.load, a.root, b.root)

    def graft(self, base: Snapshot, part: Snapshot) -> Snapshot:
        """The whole snapshot `base` brought up to date by `part`, one of declared paths; kept like any other.

        The part is best captured with `rules=base.rules`; see `jumar.core.grafting`.
        """
        snapshot, nodes = graft(self.objects.load, base, part)
        self.objects.put_snapshot(snapshot, nodes)
        return snapshot

    # --- Putting files back. -----------------------------------------------------------------------------------------

    def plan(self, target: Snapshot, known: Snapshot | None, *, paths: Iterable[bytes] = ()) -> Plan:
        """What restoring `target` would do now, `known` being how the files were last known; nothing is touched."""
        return self._restorer.plan(target, known, paths)

    def foresee(self, plan: Plan, *, force: bool = False) -> Report:
        """What `restore` would tell now; nothing is touched."""
        return self._restorer.foresee(plan, force=force)

    def restore(
        self, plan: Plan, *, force: bool = False, skip: bool = False, held: WorkspaceLock | None = None
    ) -> Report:
        """Put files back as planned, after looking again; see `Restorer.restore`."""
        return self._restorer.restore(plan, force=force, skip=skip, held=held)

    def safety_snapshots(self) -> tuple[Safety, ...]:
        """The files as they were before each restore in this workspace, the newest first."""
        return safety_snapshots(self.objects, str(self.root))

    def recover(self) -> Recovered | None:
        """Take back, or finish, a restore that was cut off; None where none was.

        Opening a workspace, taking its lock and capturing it do this by themselves.  WorkspaceBusy where somebody
        holds the lock and is still at it.
        """
        return self._restorer.recover()

    def lock(self, wait: float | None = 0.0) -> WorkspaceLock:
        """The workspace's one lock, to be taken with `with`; see WorkspaceLock."""
        return self._restorer.lock(wait)

    def materialise(self, snapshot: Snapshot, folder: Path | str) -> None:
        """Make `folder`, which is not there or is empty, what the snapshot says; see `materialise`."""
        materialise(snapshot, Path(folder), self.objects)
