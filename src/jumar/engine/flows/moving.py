"""Taking a run over whose files are on another host: they are made anew here, as they were last known.

All that is kept of them is in the store, so nobody has to reach the other host, which may be gone.  The folder is made
while nobody drives the run, and before it is claimed: where something is missing the run is left as it was, for a host
that has its files.  The claim then moves the run there, with the paths that its writes hold, and is guarded by the
version that the folder was made from; what comes between (a commit on its way when the lease ran out, another host that
was quicker) refuses it, and the folder goes again.

Each move makes a folder of its own.  A run that comes back to a host where it was before finds files there that others
have not touched and that are stale all the same: they are never looked at again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jumar.core.intents import intent_of
from jumar.core.last_tree import Since, since
from jumar.core.leases import seconds_left
from jumar.core.locations import located
from jumar.core.records import RunRecord
from jumar.core.requests import Flow, Load, Materialise, Now
from jumar.core.states import EventKind
from jumar.core.working import waits
from jumar.engine.flows.lifecycle import until_free
from jumar.engine.logs import INFO, WARNING, log
from jumar.errors import IntegrityError, LeaseHeld, WorkspaceElsewhere

if TYPE_CHECKING:
    from jumar.core.store import Store
    from jumar.engine.engine import Engine
    from jumar.engine.live import LiveRun

_SAFE = "Nothing was touched; the run is as it was."
_THERE = "Resume it on the host that has its files"


class Moving:
    """How an engine takes over runs whose files are on other hosts."""

    def __init__(self, engine: Engine) -> None:
        self._files = engine.files
        self._workspace = engine.settings.workspace

    def at_rest(self, run: RunRecord, *, wait: bool, waiting: Callable[[float], None] | None) -> Flow[RunRecord]:
        """The run once nobody drives it: a lease that is found is waited for.  LeaseHeld where it is renewed, or at
        once without `wait`.
        """
        found, run_id = (run.epoch, run.lease_until), run.run_id
        while True:
            _, now = yield from Now()
            left = seconds_left(run, now)
            if left <= 0:
                return run
            if not wait or (run.epoch, run.lease_until) != found:
                raise LeaseHeld(f"run {run_id} is driven by {run.owner} for another {left:.1f} s at least")
            yield from until_free(run, waiting)
            seen = yield from Load(lambda store: store.run(run_id))
            if seen is None:
                raise IntegrityError(f"run {run_id} has vanished from the store")
            run = seen

    def made(self, run: RunRecord, statuses: int) -> Flow[str | None]:
        """Where the run's files are on this host, which nobody drives: made anew, unless the run has not begun.  None
        where it may not be claimed in these `statuses`, so that there is no use in making them.

        WorkspaceElsewhere where too little is kept of them, IntegrityError where it is damaged.
        """
        wall, _ = yield from Now()
        if not 1 << int(run.status) & statuses or waits(run, wall):
            return None
        if not self._files.are_shared:
            self._files.root(run.workspace or "")  # raises
        if run.version == 0:
            if self._workspace is None:
                raise WorkspaceElsewhere(
                    f"run {run.run_id} was started on another host, and nothing says on which files it works here",
                    hint='Name the folder: Harness(workspace="site").',
                )
            return self._workspace
        tree, done = yield from self._last(run)
        try:
            made = yield Materialise(run.run_id, run.epoch + 1, tree, done.parts)
        except IntegrityError as damaged:
            raise IntegrityError(
                f"the files of run {run.run_id} cannot be made anew on this host: {damaged.what}",
                safe=_SAFE,
                hint=f"{_THERE}; `jumar doctor` tells what else is damaged.",
            ) from damaged
        if done.unseen:
            what = "what %s may have changed in files since they were captured last is not here"
            log(WARNING, run.run_id, None, what, ", ".join(done.unseen))
        assert isinstance(made, str)
        return made

    def _last(self, run: RunRecord) -> Flow[tuple[bytes, Since]]:
        """The snapshot that the run's files are made from, and what was done since."""
        intent = intent_of(run)
        if intent is not None and intent.restored and intent.tree is not None:
            return intent.tree, Since()
        kept, done = yield from Load(lambda store: _rows(store, run))
        if kept is None:
            raise WorkspaceElsewhere(
                f"no snapshot of the files of run {run.run_id} was kept, and they are on another host",
                safe=_SAFE,
                hint=f"{_THERE}. Triggers that keep checkpoints have the files captured.",
            )
        if done.lost:
            raise WorkspaceElsewhere(
                f"of what {done.lost[0]} wrote no snapshot was kept, and the files are on another host",
                safe=_SAFE,
                hint=f"{_THERE}.",
            )
        return kept, done

    def forget(self, made: str) -> None:
        """Remove what was made for a run that went another way."""
        if made != self._workspace:
            self._files.discard(made)


def told_of_move(live: LiveRun, before: str) -> None:
    """Tell the log and the trace that a run works on other files from now on; of one that had none yet nothing."""
    if live.before is not None and live.before.version == 0:
        return
    place = located(live.run.workspace or "")
    log(INFO, live.run_id, None, "its files, of %s, are made anew in %s", before, place.root)
    live.ride_event(EventKind.MATERIALISED, None, f"from {located(before).host}")


def _rows(store: Store, run: RunRecord) -> tuple[bytes | None, Since]:
    newest = store.last_snapshot(run.run_no)
    if newest is None or newest.tree is None:
        return None, Since()
    return newest.tree, since(newest.version, store.calls(run.run_no))
