"""The files of a rollback: how they were last known, what would be put back, and putting them back.

How they were last known is the newest whole snapshot of the run, with what each write did since grafted into it: the
run's own doing must not be taken for somebody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jumar.core.intents import Intent
from jumar.core.records import CallRecord, RunRecord
from jumar.core.requests import Capture, Flow, Graft, Known, Load, Occupy, Place, Restore, Sleep
from jumar.core.states import CallState
from jumar.engine.halting import Wait
from jumar.engine.live import LiveRun

if TYPE_CHECKING:
    from jumar.core.restoring import Report

_LOOK_SECONDS = 0.05


def last_known(run: RunRecord, calls: Sequence[CallRecord]) -> Flow[bytes | None]:
    """The snapshot of how a run's files were last known, None where there is none."""
    run_no, root = run.run_no, run.workspace
    newest = yield from Load(lambda store: store.last_snapshot(run_no))
    if newest is None or newest.tree is None or root is None:
        return None
    known = Known(newest.tree)
    writes = [call for call in calls if call.after is not None and (call.ended_version or 0) > newest.version]
    for call in sorted(writes, key=lambda call: (call.ended_version or 0, call.seq)):
        if call.state is CallState.SUCCEEDED and call.after is not None:
            yield from Graft(root, known, call.after)
    return known.tree


def foreseen(root: str, target: bytes, known: bytes | None, paths: Sequence[str], *, force: bool) -> Flow[Report]:
    """What would be put back; nothing is touched."""
    report: Report = yield Restore(root, target, known=known, paths=globs(paths), force=force, dry=True)
    return report


def put_files_back(live: LiveRun, intent: Intent) -> Flow[Report | Wait]:
    """Put the files back as a rollback has planned; a Wait where another process works on them for longer than a ttl.

    WorkspaceConflict where somebody has changed them since, RestoreFailed where one cannot be put back.
    """
    root, tree = live.run.workspace, intent.tree
    assert root is not None and tree is not None
    place, until = Place(live.run_id, 0), live.clock() + live.ttl_ms
    while (other := (yield from Occupy(root, place))) is not None:
        if live.clock() >= until:
            whose = f"run {other.run_id}" if other.run_id else "another process"
            return Wait(f"{whose} is writing into the workspace", None, live.wall() + live.ttl_ms)
        live.check_lease()
        live.progress_at = live.clock()
        yield from Sleep(_LOOK_SECONDS)
    try:
        live.check_lease()
        report: Report = yield Restore(root, tree, known=intent.known, paths=globs(intent.paths), force=intent.force)
    finally:
        live.io.files.of(root).vacate(place)
    live.progress_at = live.clock()
    return report


def known_after(live: LiveRun, intent: Intent) -> Flow[bytes | None]:
    """How the files are known once some paths of them were put back: nothing else counts as seen."""
    root = live.run.workspace
    if root is None or intent.known is None:
        return None
    known = Known(intent.known)
    part = yield from Capture(root, known, globs(intent.paths))
    yield from Graft(root, known, part.digest)
    return known.tree


def globs(paths: Sequence[str]) -> tuple[bytes, ...]:
    """Paths as a scope has them."""
    return tuple(path.encode("utf-8", "surrogateescape") for path in paths)
