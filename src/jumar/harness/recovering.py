"""Going back: rolling a run back to one of its checkpoints, and making another run out of it from there."""

from __future__ import annotations

import os
from collections.abc import Iterable

from jumar.core.naming import is_storable
from jumar.errors import UsageError
from jumar.harness.operating import Operating
from jumar.harness.results import Rollback
from jumar.harness.twins import twin


class Recovering(Operating):
    """What an operator does to undo; `Harness` has it."""

    def rollback(
        self,
        run_id: str,
        *,
        to: int | str,
        paths: Iterable[str] | None = None,
        force: bool = False,
        dry_run: bool = False,
        by: str | None = None,
        note: str | None = None,
    ) -> Rollback:
        """Go back to a checkpoint of a run that no process drives, whatever its status, and leave it PAUSED there.

        `to` is the checkpoint's version, its name, or the label that `run.checkpoint` gave it.  Files are put back
        first; then what was done outside since is undone, the newest first, by the tools' compensations.  What cannot
        be undone stands and is told; what it answered is not done again without a person.  Where a compensation fails,
        the run WAITS in the middle of the rollback, until somebody says whether it is tried again (`approve`) or left
        (`reject`).

        With `paths` (globs, relative to the workspace) only these files are put back, and the run stays where it is.
        Files that somebody has changed since refuse it all, with WorkspaceConflict, unless `force` is given.  What was
        there before files were put back is kept, and `report.safety` is its digest: `to="files:<digest>"`, of which six
        digits are enough, puts that back, files alone.  `dry_run` only tells what would be done.

        LeaseHeld where a process drives the run, CannotRollBack where it cannot go back there or something is in
        flight, CheckpointNotFound where there is no such checkpoint.
        """
        return self._open().rollback(
            self.find(run_id),
            _point("to", to),
            _globs(paths),
            force=_truth("force", force),
            dry_run=_truth("dry_run", dry_run),
            by=by,
            note=note,
        )

    arollback = twin(rollback)

    def fork(
        self, run_id: str, *, at: int | str, workspace: str | os.PathLike[str] | None = None, by: str | None = None
    ) -> str:
        """Make a new run that goes on from a checkpoint of another one, and leave it PAUSED; answers its id.

        `at` is meant as `to` is in `rollback`.  The other run stays as it is.  With `workspace`, a folder that is not
        there or is empty, the new run works on files of its own, made as they were at the checkpoint; without it, on
        the same ones.  What the other run has done outside since is not done again without a person.
        """
        folder = None if workspace is None else os.fspath(workspace)
        if folder is not None and (not isinstance(folder, str) or not folder):
            raise UsageError(f"workspace={workspace!r} is no path")
        return self._open().fork(self.find(run_id), _point("at", at), folder, by)

    afork = twin(fork)


def _point(name: str, value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value and is_storable(value):
        return value
    raise UsageError(f"{name}={value!r} is neither a version nor the name of a checkpoint")


def _globs(paths: Iterable[str] | None) -> tuple[str, ...]:
    if paths is None:
        return ()
    from jumar.harness.comparing import globs  # which nothing but files needs

    found = globs(paths)
    if not found:
        raise UsageError("paths= names no path", hint="Leave it out to go back with all of the run.")
    return tuple(each.decode("utf-8", "surrogateescape") for each in found)


def _truth(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise UsageError(f"{name}={value!r} is neither True nor False")
