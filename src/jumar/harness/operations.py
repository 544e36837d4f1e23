"""A harness's work on one open store: each method carries a flow out, or reads."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jumar.core.records import RunRecord
from jumar.core.requests import Flow
from jumar.core.states import Control, Status, Strategy
from jumar.core.store import Store
from jumar.engine.engine import Engine
from jumar.engine.files import Files, checked_root
from jumar.engine.flows.ended import Ended
from jumar.engine.live import LiveRun
from jumar.engine.policy import Settings, ToolPolicy
from jumar.errors import IllegalTransition, JumarError, LeaseHeld, RunEnded, RunNotFound, UsageError
from jumar.harness.agents import AgentSpec
from jumar.harness.answering import Answering, check_note, user
from jumar.harness.results import Report, Rollback, RunResult, WaitingOn, result_of
from jumar.harness.tools import ToolSpec
from jumar.harness.views import rollback_view, waiting_on
from jumar.stores.opening import open_store

if TYPE_CHECKING:
    from jumar.core.briefs.records import Brief
    from jumar.engine.places import Happening, Place
    from jumar.engine.places import Options as WorkerOptions
    from jumar.engine.places import Told as StopTold
    from jumar.engine.working import Worker
    from jumar.harness.statistics import Stats

Waiting = Callable[[float], None] | None

_HOME_FIRST = 2  # part of a ttl that a run is left to the host that has its files
_TAKEN = (LeaseHeld, RunEnded, IllegalTransition)  # how a claim is refused where somebody else was quicker


class Operations:
    """One open store, and what a harness does with it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._refused: UsageError | None = None  # the workspace, where it can be none
        self.store: Store = engine.store

    @property
    def files(self) -> Files:
        """The workspaces of its runs."""
        return self._engine.files

    def content_of(self, snapshot: bytes) -> bytes | None:
        """A digest of the files in a snapshot, which is the same where they are; None where that cannot be read."""
        try:
            objects = self.files.looked_at()
            return None if objects is None else objects.get_snapshot(snapshot).root
        except JumarError:
            return None

    @classmethod
    def open(cls, address: str, settings: Settings, watcher: Any, workspace: str | None = None) -> Operations:
        """Open the store at an address; new runs work on the files of `workspace`."""
        refused = None
        store = open_store(address)
        files = Files(address, settings.snapshot_limits, getattr(store, "objects", None))
        if workspace is not None:
            try:
                settings = replace(settings, workspace=files.located(checked_root(workspace)))
            except UsageError as error:  # which only a new run minds: to look at the others no files are needed
                refused = error
        operations = cls(Engine(store, settings, watcher, files))
        operations._refused = refused
        return operations

    def close(self) -> None:
        """Stop renewing leases and close the store."""
        self._engine.close()

    def renew_leases(self) -> None:
        """Renew the leases of the runs driven here, as the background thread does each third of a ttl."""
        self._engine.leases.renew_all()

    def has_live_runs(self) -> bool:
        """Whether this process drives a run here."""
        return len(self._engine.leases) > 0

    # --- Driving. ---

    def run(self, spec: AgentSpec, value: Any, run_id: str | None, task: str) -> RunResult[Any]:
        """Create a run and drive it."""
        return self._drive(spec, self._run_flow(spec, value, run_id, task))

    async def arun(self, spec: AgentSpec, value: Any, run_id: str | None, task: str) -> RunResult[Any]:
        """Create a run and drive it, awaited."""
        return await self._adrive(spec, self._run_flow(spec, value, run_id, task))

    def start(self, spec: AgentSpec, value: Any, run_id: str | None, task: str) -> str:
        """Create a run."""
        from jumar.engine.drivers.plain import drive

        self._check_files(spec)
        identifier = run_id or self._engine.new_run_id()
        drive(self._engine.start_flow(spec.plan, value, identifier, task), self._engine.io)
        return identifier

    def resume(
        self,
        spec: AgentSpec,
        run_id: str,
        wait: bool,
        waiting: Waiting,
        *,
        asked: bool = True,
        strategy: Strategy | None = None,
    ) -> RunResult[Any]:
        """Take a run over and drive it on."""
        return self._drive(spec, self._resume_flow(spec, run_id, wait, waiting, asked, strategy))

    async def aresume(
        self,
        spec: AgentSpec,
        run_id: str,
        wait: bool,
        waiting: Waiting,
        *,
        asked: bool = True,
        strategy: Strategy | None = None,
    ) -> RunResult[Any]:
        """Take a run over and drive it on, awaited."""
        return await self._adrive(spec, self._resume_flow(spec, run_id, wait, waiting, asked, strategy))

    def resume_if_free(self, spec: AgentSpec, run_id: str) -> RunResult[Any] | None:
        """Take up a run that can go on by itself; None where another process was quicker."""
        try:
            return self.resume(spec, run_id, False, None, asked=False)
        except _TAKEN:
            return None
        except JumarError as error:
            return result_of(self.run_record(run_id), None, error, ())

    async def aresume_if_free(self, spec: AgentSpec, run_id: str) -> RunResult[Any] | None:
        """`resume_if_free`, awaited."""
        try:
            return await self.aresume(spec, run_id, False, None, asked=False)
        except _TAKEN:
            return None
        except JumarError as error:
            return result_of(self.run_record(run_id), None, error, ())

    def _check_files(self, spec: AgentSpec) -> None:
        """UsageError where a new run of the agent could not work on its files."""
        if self._refused is not None:
            raise self._refused
        if spec.writer is not None and self._engine.settings.workspace is None:
            from jumar.engine.flows.writing import no_workspace

            raise no_workspace(spec.writer)

    def _run_flow(self, spec: AgentSpec, value: Any, run_id: str | None, task: str) -> Flow[Ended]:
        self._check_files(spec)
        identifier = run_id or self._engine.new_run_id()
        return self._engine.run_flow(spec.plan, _faces(spec), value, identifier, task)

    def _resume_flow(
        self,
        spec: AgentSpec,
        run_id: str,
        wait: bool,
        waiting: Waiting,
        asked: bool,
        strategy: Strategy | None,
    ) -> Flow[Ended]:
        return self._engine.resume_flow(
            run_id, spec.plan, _faces(spec), wait=wait, waiting=waiting, asked=asked, strategy=strategy
        )

    def worked(self, spec: AgentSpec, place: Place, max_crashes: int) -> RunResult[Any]:
        """Take a run up in a worker's place, and drive it; an async agent gets an event loop of its own."""
        flow = self._engine.resume_flow(
            place.run.run_id,
            spec.plan,
            _faces(spec),
            wait=False,
            waiting=None,
            asked=False,
            place=place,
            max_crashes=max_crashes,
        )
        return self._drive(spec, flow)

    def worker(
        self,
        agents: Mapping[str, AgentSpec],
        options: WorkerOptions,
        *,
        stop: StopTold,
        told: Callable[[Happening], None],
    ) -> Worker:
        """A worker that drives what is due of these agents."""
        from jumar.engine.working import Worker

        def drive(place: Place) -> RunResult[Any]:
            return self.worked(agents[place.run.agent], place, options.max_crashes)

        return Worker(self._engine, agents, drive, options, can_open=self.can_open, stop=stop, told=told)

    def can_open(self, run: RunRecord) -> bool:
        """Whether a run is to be driven here: its files are on this host, or can be had from the store.

        A run that has lost its process in the middle is left to the host that has its files for a while, so that what
        it was writing is put back there, where other runs may work in the same folder.
        """
        if run.workspace is None or self.files.is_here(run.workspace):
            return True
        if not self.files.are_shared or (run.version == 0 and self._engine.settings.workspace is None):
            return False
        if run.status is not Status.RUNNING or run.owner is None:
            return True
        return self.store.now().ms - run.lease_until >= self._engine.settings.ttl_ms // _HOME_FIRST

    def _drive(self, spec: AgentSpec, flow: Flow[Ended]) -> RunResult[Any]:
        if spec.is_async:
            import asyncio

            if asyncio._get_running_loop() is not None:
                raise UsageError(
                    f"agent {spec.name} is async, and this thread runs an event loop already",
                    hint="Await harness.arun(...) or harness.aresume(...) instead.",
                )
            return asyncio.run(self._adrive(spec, flow))
        from jumar.engine.drivers.plain import drive

        return self._result(drive(flow, self._engine.io))

    async def _adrive(self, spec: AgentSpec, flow: Flow[Ended]) -> RunResult[Any]:
        if not spec.is_async:
            from jumar.engine.drivers.aside import in_own_thread

            return await in_own_thread(lambda: self._drive(spec, flow), "jumar-run")
        from jumar.engine.drivers.aio import adrive

        return self._result(await adrive(flow, self._engine.io))

    def _result(self, ended: Ended) -> RunResult[Any]:
        run = ended.run
        asked = self._asked(run) if run.status is Status.WAITING else []
        if run.status is Status.WAITING and run.wake_at is None and not asked:
            # What it waited for has come since the record was read: it is to be resumed, and waits for nothing.
            run = self.run_record(run.run_id)
            asked = self._asked(run) if run.status is Status.WAITING else []
        return result_of(run, ended.output, ended.error, tuple(asked))

    def _asked(self, run: RunRecord) -> list[WaitingOn]:
        return waiting_on(run, self.store)

    # --- Looking and answering. ---

    def run_record(self, run_id: str) -> RunRecord:
        """One run."""
        run = self.store.run(run_id)
        if run is None:
            raise RunNotFound(f"there is no run {run_id}")
        return run

    def agent_of(self, run_id: str) -> str:
        """The name of the agent a run was created for."""
        return self.run_record(run_id).agent

    def brief(self, run_id: str, lang: str) -> Brief:
        """What happened in a run so far."""
        from jumar.engine.drivers.plain import drive
        from jumar.engine.flows.briefing import stored_brief

        return drive(stored_brief(self._engine, self.run_record(run_id), lang), self._engine.io)

    def answering(self, run_id: str, tools: Mapping[str, ToolSpec]) -> Answering:
        """Answers to the requests of a run."""
        return Answering(self._engine, self.run_record(run_id), tools)

    def order(
        self, run_id: str, control: Control, by: str | None, note: str | None, *, wait: bool, waiting: Waiting
    ) -> RunRecord:
        """Pause or cancel a run; answers how it stands then."""
        from jumar.engine.drivers.plain import drive

        check_note("by", by)
        check_note("note", note)
        flow = self._engine.order_flow(run_id, control, by or user(), note, wait=wait, waiting=waiting)
        return drive(flow, self._engine.io)

    def knows(self, tools: Mapping[str, ToolSpec]) -> None:
        """These are the tools there are; more may come."""

        def policy(name: str) -> ToolPolicy | None:
            spec = tools.get(name)
            return None if spec is None else spec.policy

        self._engine.undoers = policy

    # --- Going back. ---

    def rollback(
        self,
        run_id: str,
        to: int | str,
        paths: tuple[str, ...],
        *,
        force: bool,
        dry_run: bool,
        by: str | None,
        note: str | None,
    ) -> Rollback:
        """Roll a run back, or tell what that would do."""
        from jumar.engine.drivers.plain import drive
        from jumar.engine.recovering import Wanted

        check_note("by", by)
        check_note("note", note)
        wanted = Wanted(to, paths, force, dry_run, by or user(), note)
        planned, rolled = drive(self._engine.rollback_flow(run_id, wanted), self._engine.io)
        return rollback_view(planned, rolled, self.store)

    def fork(self, run_id: str, at: int | str, folder: str | None, by: str | None) -> str:
        """Make a new run out of another one; answers its id."""
        from jumar.engine.drivers.plain import drive

        check_note("by", by)
        return drive(self._engine.fork_flow(run_id, at, folder, by or user()), self._engine.io)

    def due_of(self, agents: Container[str], limit: int) -> list[tuple[str, str]]:
        """Ids of runs of these agents that can go on by themselves, each with its agent's name; not of those that are
        left to the host that has their files.
        """
        most = limit
        while True:
            due = self.due(most)
            runs = [run for run in map(self.run_record, due) if run.agent in agents and not self._is_left(run)]
            found = [(run.run_id, run.agent) for run in runs]
            if len(found) >= limit or len(due) < most:
                return found[:limit]
            most *= 4

    def _is_left(self, run: RunRecord) -> bool:
        return run.workspace is not None and self.files.is_elsewhere(run.workspace) and not self.can_open(run)

    def due(self, limit: int) -> list[str]:
        """Ids of runs that can go on by themselves."""
        return self.store.due(self._engine.io.wall(), limit)

    def stats(self) -> Stats:
        """How writing to the store has gone so far."""
        from jumar.harness.statistics import Stats

        return Stats(self._engine.io.queue.stats())

    def doctor(self, address: str) -> Report:
        """Check the store, and the files that its runs have kept."""
        from jumar.harness.examining import examine  # which nobody needs who only runs agents

        return examine(self.store, self.files, address)


def _faces(spec: AgentSpec) -> Callable[[LiveRun], Any]:
    if spec.plan.loop is not None:
        from jumar.harness.view import Views

        return partial(Views, input_codec=spec.plan.input_codec)
    if spec.is_async:
        from jumar.harness.async_run import AsyncRun

        return AsyncRun
    from jumar.harness.run import Run

    return Run
