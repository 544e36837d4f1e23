"""Keeping restore points with the files: when the workspace is captured, and what a checkpoint says of it.

A run knows the newest snapshot of the whole workspace.  What a write has declared is grafted into it, so that a run
that writes declared paths alone never scans again; after anything else that may have changed files (`live.dirty`) the
next checkpoint that is kept scans first.  Reads change nothing and cost nothing.

A scan that fails, or that lacks something, never stands in the way of the run: the checkpoint is kept without files, or
with what there is, and that is told in the log and on the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from jumar.core.failures import short_message
from jumar.core.records import CallRecord, HoldRecord
from jumar.core.requests import Capture, Captured, Flow, Graft, Load, Sleep
from jumar.core.states import CallState, Effect, EventKind
from jumar.core.uncertain import leaves_no_file
from jumar.engine.live import LiveRun
from jumar.engine.logs import INFO, WARNING, log
from jumar.errors import WorkspaceBusy

if TYPE_CHECKING:
    from jumar.core.store import Store

_LOOK_SECONDS = 0.1


def ready(live: LiveRun, *events: str) -> Flow[None]:
    """Have the files captured as they are now where a trigger keeps a checkpoint at one of these events, and what is
    known of them is not up to date; and the fingerprints read.
    """
    if not live.must_look or not any(event in live.settings.triggers for event in events):
        return
    if live.must_scan:
        yield from scan(live)
    if live.settings.fingerprints:
        from jumar.engine.flows.environment import look  # which a harness without fingerprints never loads

        yield from look(live)


def scan(live: LiveRun) -> Flow[None]:
    """Capture the whole workspace; what goes wrong is told."""
    root = live.run.workspace
    assert root is not None
    until = live.clock() + live.ttl_ms
    while True:
        writing = yield from _written_by_others(live, root)
        try:
            found = yield from captured(live, root)
            yield from _as_recorded(live, root, {**writing, **(yield from _written_by_others(live, root))})
        except WorkspaceBusy as busy:  # files are being put back
            if live.clock() < until:
                live.progress_at = live.clock()
                yield from Sleep(_LOOK_SECONDS)
                continue
            _tell(live, f"the workspace cannot be captured: {busy.what}")
            return
        except Exception as error:
            live.tree = None
            _tell(live, f"the workspace cannot be captured: {short_message(error)}")
            return
        if not found.snapshot.complete:
            _tell(live, _lacking(found.snapshot))
        _tell_unportable(live, found.snapshot.unportable)
        return


def _written_by_others(live: LiveRun, root: str) -> Flow[dict[tuple[int, int], HoldRecord]]:
    """What writes of other runs that have not ended hold, by their run and number."""
    found = yield from Load(lambda store: store.holds(root, b""))
    return {(each.run_no, each.call_seq): each for each in found if each.run_no != live.run.run_no and each.path}


def _as_recorded(live: LiveRun, root: str, holds: Iterable[tuple[int, int]]) -> Flow[None]:
    """What other runs were writing while the files were captured counts as it was before, or as it was confirmed since:
    whoever goes back to this snapshot must not put files back half-written.
    """
    for run_no, seq in holds:
        call = yield from Load(partial(_call, run_no=run_no, seq=seq))
        if call is None:
            continue
        part = call.after if call.state is CallState.SUCCEEDED else call.before
        if part is not None:
            yield Graft(root, live.known, part)


def _call(store: Store, run_no: int, seq: int) -> CallRecord | None:
    return store.call(run_no, seq)


def captured(live: LiveRun, root: str, scope: tuple[bytes, ...] = ()) -> Flow[Captured]:
    """Take a snapshot; how far it is, is told where it takes long, and counts as progress."""
    found: Captured = yield Capture(root, live.known, scope, _telling(live))
    live.progress_at = live.clock()
    return found


def grafted(live: LiveRun, root: str, part: Captured) -> Flow[None]:
    """Bring what is known of the whole workspace up to date by a snapshot of declared paths."""
    if part.snapshot.scope and live.tree is not None:
        yield Graft(root, live.known, part.digest)


def _telling(live: LiveRun) -> Callable[[Any], None]:
    """What a capture tells its progress to: the log, and the run's lease, which a scan that gets on deserves."""

    def tell(progress: Any) -> None:
        live.progress_at = live.clock()
        told = f"{progress.files:,}", progress.seconds
        log(INFO, live.run_id, None, "scanned %s files (%.0f s)", *told, scan=True)

    return tell


def _tell(live: LiveRun, what: str) -> None:
    log(WARNING, live.run_id, None, "%s", what)
    live.ride_event(EventKind.UNCAPTURED, None, "")


def _tell_unportable(live: LiveRun, paths: tuple[bytes, ...]) -> None:
    """Say once which names another system cannot hold: nothing is wrong with them here."""
    if not paths or live.told_unportable:
        return
    from jumar.core.restoring import shown

    live.told_unportable = True
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    log(INFO, live.run_id, None, "%s%s: Windows cannot hold such names", shown(paths[0]), more)


def _lacking(snapshot: Any) -> str:
    from jumar.core.restoring import shown
    from jumar.core.trees import LACKING

    lacking = [f"{shown(each.path)} ({each.reason.value})" for each in snapshot.skipped if each.reason in LACKING]
    lacking += [f"{shown(path)} (it is being changed)" for path in snapshot.torn]
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    return f"the snapshot of the workspace is partial: it lacks {lacking[0]}{more}"


# --- Taking a run up. ------------------------------------------------------------------------------------------------


def taken_up(live: LiveRun, records: Iterable[CallRecord] | None) -> Flow[None]:
    """Find out what is known of the files of a run that this process begins to drive.  `records` are its calls, None
    where they are not at hand (a loop agent's), so that the files must be looked at.
    """
    root = live.run.workspace
    if root is None or live.run.version == 0:
        return
    run_no = live.run.run_no
    checkpoint = yield from Load(lambda store: store.last_snapshot(run_no))
    if checkpoint is None or checkpoint.tree is None:
        return
    live.tree = checkpoint.tree
    version = checkpoint.version
    if records is None:
        live.dirty = live.run.version > version
        return
    since = [each for each in records if each.ended_version is None or each.ended_version > version]
    acts = [each for each in since if each.effect is not Effect.READ and not leaves_no_file(each)]
    for each in sorted(acts, key=lambda call: call.ended_version or 0):
        if each.effect is Effect.WRITE and each.state is CallState.SUCCEEDED and each.after is not None:
            yield Graft(root, live.known, each.after)
        else:
            live.dirty = True
