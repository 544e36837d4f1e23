"""A workspace: one folder of files, of which snapshots are taken and to which files are put back.

This is the face of the package.  What a snapshot is made of stands in `jumar.core.trees`, how it is taken in `scanning`
and `capturing`, how files are put back in `restoring`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from jumar.core import trees
from jumar.core.restoring import Report
from jumar.core.trees import Change, RuleText, Snapshot
from jumar.workspace import roots
from jumar.workspace.capturing import capture
from jumar.workspace.collecting import Budget, Progress
from jumar.workspace.locking import WorkspaceLock
from jumar.workspace.objects import Objects
from jumar.workspace.restoring import Plan, Recovered, Restorer

SLACK_SECONDS = 2.0  # the coarsest time a filesystem in use stamps its files with


class Workspace:
    """The folder `root` with its snapshots in `objects`, a file that is best kept outside the root.

    `ignore` are lines as in a `.gitignore`, which count above all ignore files found in the root.  `own` names more
    files or folders of Jumar's own that may lie in the root (its store, say): they are never captured; those of the
    workspace itself are known.  `slack` is how close to a scan, in seconds, a file's time makes it read again.

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
    ) -> None:
        self.root = roots.checked(root)
        self.objects = objects
        lines = "".join(f"{line}\n" for line in ignore)
        self._given = (RuleText(b"", lines),) if lines else ()
        self._slack = slack
        self._restorer = Restorer(self.root, objects, lambda scope, rules: self.capture(scope, rules=rules))
        beside = (objects.path, self._restorer.lock_path, self._restorer.journal.path)
        self._own = roots.own_paths(self.root, (*beside, *own))

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
        WorkspaceError where the root can't be read.
        """
        return capture(
            self.root,
            self.objects,
            scope=tuple(paths),
            frozen=rules,
            given=self._given,
            own=self._own,
            slack=self._slack,
            budget=budget or Budget(),
            progress=progress,
            pin=pin,
        )

    def diff(self, a: Snapshot, b: Snapshot) -> Iterator[Change]:
        """What differs between two snapshots, a folder before what it holds; equal subtrees are not opened."""
        return trees.diff(self.objects.load, a.root, b.root)

    # --- Putting files back. -----------------------------------------------------------------------------------------

    def plan(self, target: Snapshot, known: Snapshot | None, *, paths: Iterable[bytes] = ()) -> Plan:
        """What restoring `target` would do now, `known` being how the files were last known; nothing is touched."""
        return self._restorer.plan(target, known, paths)

    def restore(
        self, plan: Plan, *, force: bool = False, skip: bool = False, held: WorkspaceLock | None = None
    ) -> Report:
        """Put files back as planned, after looking again; see `Restorer.restore`."""
        return self._restorer.restore(plan, force=force, skip=skip, held=held)
