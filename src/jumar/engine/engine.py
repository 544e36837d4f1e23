"""One open store with everything that drives runs on it: its queue, its lease keeper, its settings.

The faces in `harness` ask this for whole operations; each is a flow carried out by one of the two drivers.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from jumar.core.changes import CallChange, Claimed
from jumar.core.lines import split
from jumar.core.naming import uuid7
from jumar.core.phases import FINAL
from jumar.core.records import CallRecord, RunRecord
from jumar.core.reopening import reopened
from jumar.core.requests import Flow, Load
from jumar.core.states import CallState, Control, Status, Strategy
from jumar.core.store import Store
from jumar.core.strategies import makes_again, of_run
from jumar.core.working import is_given_up
from jumar.engine.files import Files
from jumar.engine.flows.ended import Ended
from jumar.engine.flows.keeping import taken_up
from jumar.engine.flows.lifecycle import (
    BY_ITSELF,
    NOT_FAILED,
    RESUMABLE,
    AgentPlan,
    drive,
    input_artifact,
    read_input,
    release,
    start,
    stored_end,
    take_over,
)
from jumar.engine.flows.orders import claim_to_obey, give_order, obeyed
from jumar.engine.io import IO, Watcher
from jumar.engine.leases import LeaseKeeper
from jumar.engine.live import LiveRun
from jumar.engine.logs import INFO, WARNING, log
from jumar.engine.policy import Settings
from jumar.errors import EnvironmentDrifted, IllegalTransition, IntegrityError, JumarError, StaleVersion

if TYPE_CHECKING:
    from jumar.core.briefs.records import Drift
    from jumar.engine.flows.moving import Moving
    from jumar.engine.flows.rolling_back import Rolled
    from jumar.engine.places import Place
    from jumar.engine.policy import ToolPolicy
    from jumar.engine.recovering import Planned, Recovery, Wanted

Faces = Callable[[LiveRun], Any]  # makes the object an agent gets as its first argument


class Engine:
    """Drives runs on one store."""

    def __init__(
        self, store: Store, settings: Settings, watcher: Watcher | None = None, files: Files | None = None
    ) -> None:
        self.store = store if watcher is None else watcher.around(store)
        self.settings = settings
        self.files = files if files is not None else Files("memory:")
        self.io = IO(self.store, watcher, self.files, getattr(store, "lease_ms", None))
        self.leases = LeaseKeeper(self.io, settings.lease_ttl)
        # Unique for every claim: it tells our own lease from another thread's, and our claim's commit when its answer
        # was lost.
        self._name = f"{socket.gethostname()[:40]}/{os.getpid()}/{secrets.token_hex(4)}"
        self._claims = count(1)
        self.undoers: Callable[[str], ToolPolicy | None] = lambda name: None  # the tools that are known, by their names

    def close(self) -> None:
        """Stop renewing leases, write what is not on disk yet, and close the files and the store."""
        self.leases.close()
        self.io.queue.close()
        self.files.close()
        self.store.close()

    def new_run_id(self) -> str:
        """A fresh run id."""
        return uuid7(self.io.wall(), secrets.token_bytes(10))

    def new_owner(self) -> str:
        """The name under which one claim is made."""
        return f"{self._name}/{next(self._claims)}"

    def run_flow(self, agent: AgentPlan, faces: Faces, value: Any, run_id: str, task: str) -> Flow[Ended]:
        """Create a run and drive it."""
        artifact, decoded = input_artifact(agent.input_codec, value)
        owner = self.new_owner()
        sent_at = self.io.clock()
        ack = yield from start(agent, run_id, task, artifact, owner, self.settings)
        run = yield from self.record_of(run_id)
        assert run.run_no == ack.run_no
        log(INFO, run_id, None, "a run of %s has started", agent.name)
        return (yield from self._driven(run, owner, [], agent, faces, decoded, sent_at, recovered=False))

    def start_flow(self, agent: AgentPlan, value: Any, run_id: str, task: str) -> Flow[None]:
        """Create a run and leave it QUEUED."""
        artifact, _ = input_artifact(agent.input_codec, value)
        yield from start(agent, run_id, task, artifact, None, self.settings)

    def resume_flow(
        self,
        run_id: str,
        agent: AgentPlan,
        faces: Faces,
        *,
        wait: bool,
        waiting: Callable[[float], None] | None,
        asked: bool = True,
        strategy: Strategy | None = None,
        place: Place | None = None,
        max_crashes: int | None = None,
    ) -> Flow[Ended]:
        """Take a run over and drive it on from its last recorded fact.

        A run that was `asked` for is taken out of a pause, and a failed one is recovered by the strategy, or by the one
        that its error calls for.  A rollback that somebody has begun is finished first.

        One that nobody asked for is given up at `max_crashes`, or as the settings say.  A worker gives the `place`
        where it drives the run.
        """
        owner = self.new_owner()
        before = yield from self.record_of(run_id)
        value = yield from read_input(agent, before)
        yield from self._check_drift(before, owner)
        taken = yield from self._taken(run_id, owner, wait=wait, waiting=waiting, asked=asked, strategy=strategy)
        if not isinstance(taken, tuple):
            return (yield from stored_end(agent, taken))
        claimed, sent_at = taken
        run = claimed.run
        if place is not None:
            place.claimed(run)
        if not asked and not run.control and is_given_up(run, most := max_crashes or self.settings.max_crashes):
            return (yield from self._given_up(run, owner, sent_at, most))
        if run.intent is not None:
            rolled, sent_at = yield from self._recovery().carried_out(
                run, owner, sent_at, waits=agent.waits, goes_on=asked
            )
            run = rolled.run
            if run.status is not Status.RUNNING:
                return (yield from stored_end(agent, run))
        try:
            records = yield from self._replayed(run, agent)
        except JumarError:
            # What is recorded cannot be read, so nothing may be done; the lease is given back for whoever mends it.
            yield from release(self.live(run, owner, [], sent_at, recovered=True))
            raise
        _log_claim(claimed, agent, records)
        recovered = run.epoch > 1
        return (
            yield from self._driven(
                run, owner, records, agent, faces, value, sent_at, recovered=recovered, before=before, place=place
            )
        )

    def _given_up(self, run: RunRecord, owner: str, sent_at: int, max_crashes: int) -> Flow[Ended]:
        """Leave a run FAILED that has taken too many processes with it."""
        from jumar.engine.flows.dead_letters import give_up  # which a program whose runs go well never needs

        live = self.live(run, owner, [], sent_at, recovered=True)
        with self.kept(live):
            return (yield from give_up(live, max_crashes))

    def _check_drift(self, run: RunRecord, owner: str) -> Flow[None]:
        """Refuse a run before it is claimed, so that it stays as it is, where something outside has changed."""
        if self.settings.refuses_drift and self.settings.fingerprints and run.version and run.status not in FINAL:
            from jumar.engine.flows.environment import compare  # which a harness without fingerprints never loads

            yield from compare(self.live(run, owner, [], self.io.clock(), recovered=True))

    def _taken(
        self,
        run_id: str,
        owner: str,
        *,
        wait: bool,
        waiting: Callable[[float], None] | None,
        asked: bool,
        strategy: Strategy | None,
    ) -> Flow[tuple[Claimed, int] | RunRecord]:
        while True:
            run = yield from self.record_of(run_id)
            statuses = (RESUMABLE if run.status is Status.FAILED else NOT_FAILED) if asked else BY_ITSELF
            made: str | None = None
            if run.workspace is not None and self.files.is_elsewhere(run.workspace):
                moving = self._moving()
                run = yield from moving.at_rest(run, wait=wait, waiting=waiting)
                made = yield from moving.made(run, statuses)
            taken: tuple[Claimed, int] | RunRecord | None = None
            try:
                taken = yield from self._tried(
                    run, owner, made, wait=wait, waiting=waiting, asked=asked, strategy=strategy
                )
            finally:
                if made is not None and not isinstance(taken, tuple):
                    self._moving().forget(made)
            if isinstance(taken, tuple) and self._is_away(taken[0].run):  # which became due after it was looked at
                yield from release(self.live(taken[0].run, owner, [], taken[1], recovered=True))
            elif taken is not None:
                return taken

    def _is_away(self, run: RunRecord) -> bool:
        return run.workspace is not None and self.files.is_elsewhere(run.workspace)

    def _tried(
        self,
        run: RunRecord,
        owner: str,
        made: str | None,
        *,
        wait: bool,
        waiting: Callable[[float], None] | None,
        asked: bool,
        strategy: Strategy | None,
    ) -> Flow[tuple[Claimed, int] | RunRecord | None]:
        """Take over a run that was looked at, with the files that were `made` for it if any; None where it has to be
        looked at again.
        """
        failed = asked and run.status is Status.FAILED
        chosen = of_run(run.error_class, strategy) if failed and run.intent is None else Strategy.RETRY
        if chosen is Strategy.ROLLBACK:
            sent_at = self.io.clock()
            returning = yield from self._recovery().returning(run, owner, made=made)
            # Otherwise somebody took the failed run up meanwhile.
            return None if returning is None else (returning, sent_at)
        reopens: tuple[CallChange, ...] = ()
        if failed and run.failed_calls and makes_again(run.error_class, chosen):
            reopens = reopened(run, split(run, (yield from self._records(run)))[0])
        try:
            return (
                yield from take_over(
                    run.run_id,
                    owner,
                    self.settings,
                    self.io.clock,
                    wait=wait,
                    waiting=waiting,
                    statuses=(RESUMABLE if failed else NOT_FAILED) if asked else BY_ITSELF,
                    resumes=asked,
                    epoch=run.epoch if failed or made is not None else None,
                    version=None if made is None else run.version,
                    reopens=reopens,
                    workspace=made,
                )
            )
        except StaleVersion:
            return None  # somebody took the run up meanwhile
        except IllegalTransition:
            # It failed while it was waited for: which calls that concerns shows only now.
            if not asked or failed or (yield from self.record_of(run.run_id)).status is not Status.FAILED:
                raise
            return None

    def order_flow(
        self,
        run_id: str,
        control: Control,
        by: str,
        note: str | None,
        *,
        wait: bool,
        waiting: Callable[[float], None] | None,
    ) -> Flow[RunRecord]:
        """Order a run to pause or to end; where nobody drives it, do it at once.  Answers the run as it then stands."""
        yield from give_order(run_id, control, by, note)
        before = yield from self.record_of(run_id)
        owner = self.new_owner()
        taken = yield from claim_to_obey(
            run_id, control, owner, self.settings, self.io.clock, wait=wait, waiting=waiting
        )
        if not isinstance(taken, tuple):
            return (yield from self.record_of(run_id))
        claimed, sent_at = taken
        if claimed.run.intent is not None:  # whose end is to be waited for; it obeys then
            return (yield from self._recovery().carried_out(claimed.run, owner, sent_at, waits=False, goes_on=False))[
                0
            ].run
        live = self.live(claimed.run, owner, (yield from self._records(claimed.run)), sent_at, recovered=True)
        live.order(claimed.run.control)
        had_failed = before.status is Status.FAILED and claimed.run.epoch == before.epoch + 1
        with self.kept(live):
            return (yield from obeyed(live, before if had_failed else None)).run

    def _driven(
        self,
        run: RunRecord,
        owner: str,
        records: list[CallRecord],
        agent: AgentPlan,
        faces: Faces,
        value: Any,
        sent_at: int,
        *,
        recovered: bool,
        before: RunRecord | None = None,
        place: Place | None = None,
    ) -> Flow[Ended]:
        drift: tuple[Drift, ...] | None = None
        moved_from = before.workspace if before is not None and before.workspace != run.workspace else None
        while True:
            live = self.live(run, owner, records, sent_at, recovered=recovered)
            live.allowed_tools, live.before = agent.tools, before
            if place is not None:
                place.drives(live)
            if moved_from is not None:
                from jumar.engine.flows.moving import told_of_move

                told_of_move(live, moved_from)
                moved_from = None
            with self.kept(live):
                if run.control:  # an order that came before this claim
                    live.order(run.control)
                    ended: Ended | None = yield from obeyed(live)
                else:
                    yield from taken_up(live, None if agent.loop is not None else records)
                    if recovered and drift is None:
                        yield from self._compared(live)
                    drift = live.drift = drift or live.drift
                    ended = yield from drive(live, agent, faces(live), value)
            if ended is not None:
                if ended.run.epoch == live.epoch:
                    returned = (yield from self._returned(live, ended.run, agent)) if live.returning else None
                    if returned is None:
                        return ended
                    run, owner, sent_at = returned
                    if run.status is not Status.RUNNING:
                        return (yield from stored_end(agent, run))
                    records, recovered = (yield from self._replayed(run, agent)), True
                    continue
                # It was left, and somebody has taken it up before its record was read again.
                return (yield from stored_end(agent, ended.run))
            # The answer that the run was about to wait for is there: go through it again under the same lease.
            run, recovered = (yield from self.record_of(run.run_id)), True
            records = yield from self._replayed(run, agent)
            sent_at = live.renewed_at

    def _compared(self, live: LiveRun) -> Flow[None]:
        """Find out what has changed outside; where the harness refuses to go on then, the lease is given back."""
        if not self.settings.fingerprints:
            return
        from jumar.engine.flows.environment import compare

        try:
            yield from compare(live)
        except EnvironmentDrifted:
            yield from release(live)
            raise

    def _returned(self, live: LiveRun, run: RunRecord, agent: AgentPlan) -> Flow[tuple[RunRecord, str, int] | None]:
        """Take a run that has failed back, where a call that it failed with says so: its row, its new owner, and from
        when the lease may be trusted.  None where it stays as it is.
        """
        most = max((live.returning.get(seq, 0) for seq in run.failed_calls), default=0)
        if run.status is not Status.FAILED or run.control or not most:
            return None
        owner, sent_at = self.new_owner(), self.io.clock()
        recovery = self._recovery()
        try:
            claimed = yield from recovery.returning(run, owner, most)
        except JumarError as error:
            log(WARNING, run.run_id, None, "the run stays as it failed: %s", error.what)
            return None
        if claimed is None:
            return None
        rolled, sent_at = yield from recovery.carried_out(claimed.run, owner, sent_at, waits=agent.waits, goes_on=True)
        return rolled.run, owner, sent_at

    def live(self, run: RunRecord, owner: str, records: list[CallRecord], sent_at: int, *, recovered: bool) -> LiveRun:
        """A run under a lease of this process; `records` are all its calls, or none where nothing is replayed."""
        return LiveRun(run, owner, records, self.settings, self.io, recovered=recovered, sent_at=sent_at)

    @contextmanager
    def kept(self, live: LiveRun) -> Generator[None, None, None]:
        """Renew the run's lease within the block."""
        self.leases.keep(live)
        try:
            yield
        finally:
            self.leases.release(live)
            live.close()

    def record_of(self, run_id: str) -> Flow[RunRecord]:
        """A run's row; IntegrityError where it has vanished."""
        run = yield from Load(lambda store: store.run(run_id))
        if run is None:
            raise IntegrityError(f"run {run_id} has vanished from the store")
        return run

    def _replayed(self, run: RunRecord, agent: AgentPlan) -> Flow[list[CallRecord]]:
        """The calls that the agent is taken through again: none of a loop agent, which goes on where it stands, unless
        a rollback has left some behind.
        """
        return [] if agent.loop is not None and not run.line else (yield from self._records(run))

    def _moving(self) -> Moving:
        from jumar.engine.flows.moving import Moving  # which only stores that several hosts share need

        return Moving(self)

    def _recovery(self) -> Recovery:
        from jumar.engine.recovering import Recovery  # which most programs never need

        return Recovery(self)

    # --- Going back. ---

    def rollback_flow(self, run_id: str, wanted: Wanted) -> Flow[tuple[Planned, Rolled | None]]:
        """Roll a run back; see `Recovery`."""
        return self._recovery().rollback_flow(run_id, wanted)

    def fork_flow(self, run_id: str, at: int | str, folder: str | None, by: str) -> Flow[str]:
        """Make a new run out of another one; see `Recovery`."""
        return self._recovery().fork_flow(run_id, at, self.new_run_id(), folder, by)

    def _records(self, run: RunRecord) -> Flow[list[CallRecord]]:
        run_no = run.run_no
        return (yield from Load(lambda store: store.calls(run_no)))


def _log_claim(claimed: Claimed, agent: AgentPlan, records: list[CallRecord]) -> None:
    run = claimed.run
    how = "taken over" if claimed.taken_over else "resumed"
    what = f"{len(records)} recorded calls" if agent.loop is None else f"{run.step} recorded turns"
    log(INFO, run.run_id, None, "a run of %s is %s, with %s (epoch %d)", agent.name, how, what, run.epoch)
    if not claimed.uncertain:
        return
    for record in records:
        if record.state is CallState.UNCERTAIN:
            log(WARNING, run.run_id, record.call_id, "the call was sent, and whether it happened is not recorded")
