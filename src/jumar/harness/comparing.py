"""How the files of a run differ between two of its points: versions, names of checkpoints, or now.

Any checkpoint that has a snapshot of the files will do, one that a rollback left behind too: what is compared need not
be a place to go back to.  The files as they are now are captured by the rules of the other side, so that what is
ignored since then is not told as gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from jumar.core.checksums import checkpoint_agrees
from jumar.core.comparing import Diff, FileChange, changes, may_be_text, told, unified
from jumar.core.records import CheckpointRecord, RunRecord
from jumar.core.rollbacks import labels
from jumar.core.store import Store
from jumar.core.trees import Change, Snapshot
from jumar.errors import CheckpointNotFound, IntegrityError, UsageError
from jumar.harness.options import several

if TYPE_CHECKING:
    from jumar.engine.files import Files
    from jumar.workspace.objects import Objects

NOW = "now"
_MOST_TEXT_BYTES = 4 << 20  # of all files whose lines are compared; the others are told without them
_MOST_VERSIONS = 10  # that an error lists


def compare(
    store: Store, files: Files, run: RunRecord, a: int | str, b: int | str, paths: Iterable[bytes], *, text: bool
) -> Diff:
    """What differs between the files at `a` and at `b`; with `text`, line by line too.

    UsageError where the run has no workspace, CheckpointNotFound where a point is none or has no files, IntegrityError
    where what is stored of it is damaged.
    """
    if run.workspace is None:
        raise UsageError(f"run {run.run_id} has no workspace, so there are no files to compare")
    points = tuple(None if each == NOW else _Points(store, run).find(_point(each)) for each in (a, b))
    objects = files.kept(run.workspace).objects
    old, new = _snapshots(files, run.workspace, points)
    found = changes(objects.load, old, new, paths)
    told_of = tuple(_with_texts(objects, found) if text else map(told, found))
    first, second = points
    return Diff(
        run.run_id,
        None if first is None else first.version,
        None if second is None else second.version,
        (NOW if first is None else first.name, NOW if second is None else second.name),
        told_of,
        old.complete and new.complete,
    )


def _point(point: object) -> int | str:
    if isinstance(point, (int, str)) and not isinstance(point, bool):
        return point
    raise UsageError(f"{point!r} is no point of a run", hint='Give a version, a name, or "now".')


def globs(paths: object) -> tuple[bytes, ...]:
    """Globs as a person gives them, relative to the workspace; UsageError where they are none."""
    given = (paths,) if isinstance(paths, str) else () if paths is None else tuple(several("paths", paths))
    for each in given:
        if not isinstance(each, str) or not each or each.startswith("/") or ".." in each.split("/") or "\0" in each:
            raise UsageError(
                f"{each!r} is no path inside the workspace",
                hint="Give paths relative to it, with '/' between segments.",
            )
    return tuple(each.encode("utf-8", "surrogateescape") for each in given)


def _snapshots(files: Files, root: str, points: Sequence[CheckpointRecord | None]) -> tuple[Snapshot, Snapshot]:
    known = files.kept(root)
    kept = [None if each is None or each.tree is None else known.snapshot(each.tree) for each in points]
    rules = next((each.rules for each in kept if each is not None), None)
    now = files.of(root).workspace.capture(rules=rules) if None in kept else None
    first, second = (now if each is None else each for each in kept)
    assert first is not None and second is not None
    return first, second


def _with_texts(objects: Objects, found: Iterable[Change]) -> Iterator[FileChange]:
    """The changes, with the lines of small texts as long as those are not too many."""
    left = _MOST_TEXT_BYTES
    for change in found:
        size = sum(side.size for side in (change.before, change.after) if side is not None)
        if not may_be_text(change) or size > left:
            yield told(change)
            continue
        left -= size
        before, after = (
            None if side is None else objects.get_blob(side.digest or b"") for side in (change.before, change.after)
        )
        yield told(change, unified(change.path, before, after))


class _Points:
    """The checkpoints of a run that have a snapshot of the files."""

    def __init__(self, store: Store, run: RunRecord) -> None:
        self._run = run
        self._all = {each.version: each for each in store.checkpoints(run.run_no)}
        self._labels = labels(store.calls(run.run_no))

    def find(self, to: int | str) -> CheckpointRecord:
        """The checkpoint of this version, name or label."""
        record = self._all.get(to) if isinstance(to, int) else self._named(to)
        if record is None:
            raise CheckpointNotFound(f"no checkpoint was kept at version {to}", hint=self._hint())
        if not checkpoint_agrees(record):
            raise IntegrityError(f"checkpoint {record.version} of run {self._run.run_id} is damaged")
        if record.tree is None:
            raise CheckpointNotFound(
                f"no snapshot of the files was kept with checkpoint {record.version}", hint=self._hint()
            )
        return record

    def _named(self, name: str) -> CheckpointRecord:
        versions = {each.version for each in self._all.values() if each.name == name}
        versions |= {version for version in self._labels.get(name, ()) if version in self._all}
        if not versions:
            raise CheckpointNotFound(f"run {self._run.run_id} has no checkpoint {name!r}", hint=self._hint())
        if len(versions) > 1:
            raise CheckpointNotFound(
                f"run {self._run.run_id} has several checkpoints {name!r}",
                hint=f"Give the version: {', '.join(map(str, sorted(versions)))}.",
            )
        return self._all[versions.pop()]

    def _hint(self) -> str:
        with_files = [each.version for each in self._all.values() if each.tree is not None]
        if not with_files:
            return "None of its checkpoints has one."
        newest = sorted(with_files)[-_MOST_VERSIONS:]
        return f"The newest with files are at {', '.join(map(str, newest))}; `jumar show RUN --all` lists all."
