"""A harness's work on one open store: each method carries a flow out, or reads."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import Callable, Mapping
from typing import Any

from jumar.core.changes import Ack, Answer, Refusal
from jumar.core.codec import TypedCodec, codec_for
from jumar.core.limits import MAX_LABEL, check_size
from jumar.core.naming import is_storable, storable
from jumar.core.records import RequestRecord, RunRecord
from jumar.core.requests import Flow
from jumar.core.states import RequestKind, Status, Verdict
from jumar.core.store import Store
from jumar.core.verdicts import Happened, NotHappened
from jumar.engine.engine import Engine
from jumar.engine.flows.ended import Ended
from jumar.engine.live import LiveRun
from jumar.engine.policy import Settings
from jumar.errors import NotStorable, RequestNotFound, RunNotFound, UsageError
from jumar.harness.agents import AgentSpec
from jumar.harness.results import Report, RunResult, result_of
from jumar.harness.tools import ToolSpec
from jumar.harness.views import still_asked
from jumar.stores.opening import open_store

Waiting = Callable[[float], None] | None


class Operations:
    """One open store, and what a harness does with it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.store: Store = engine.store

    @classmethod
    def open(cls, address: str, settings: Settings, watcher: Any) -> Operations:
        """Open the store at an address."""
        return cls(Engine(open_store(address), settings, watcher))

    def close(self) -> None:
        """Stop renewing leases and close the store."""
        self._engine.close()

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

        identifier = run_id or self._engine.new_run_id()
        drive(self._engine.start_flow(spec.plan, value, identifier, task), self._engine.io)
        return identifier

    def resume(self, spec: AgentSpec, run_id: str, wait: bool, waiting: Waiting) -> RunResult[Any]:
        """Take a run over and drive it on."""
        return self._drive(spec, self._resume_flow(spec, run_id, wait, waiting))

    async def aresume(self, spec: AgentSpec, run_id: str, wait: bool, waiting: Waiting) -> RunResult[Any]:
        """Take a run over and drive it on, awaited."""
        return await self._adrive(spec, self._resume_flow(spec, run_id, wait, waiting))

    def _run_flow(self, spec: AgentSpec, value: Any, run_id: str | None, task: str) -> Flow[Ended]:
        identifier = run_id or self._engine.new_run_id()
        return self._engine.run_flow(spec.plan, _faces(spec), value, identifier, task)

    def _resume_flow(self, spec: AgentSpec, run_id: str, wait: bool, waiting: Waiting) -> Flow[Ended]:
        return self._engine.resume_flow(run_id, spec.plan, _faces(spec), wait=wait, waiting=waiting)

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
        return result_of(run, ended.output, ended.error, tuple(asked))

    def _asked(self, run: RunRecord) -> list[RequestRecord]:
        requests = self.store.requests(run.run_no)
        return still_asked(requests, self.store.calls(run.run_no)) if requests else []

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

    def resolve(
        self,
        run: RunRecord,
        call_id: str,
        verdict: Happened[Any] | NotHappened,
        by: str | None,
        note: str | None,
        tools: Mapping[str, ToolSpec],
    ) -> None:
        """Answer the open request about a call."""
        request = self._open_request(run, call_id)
        value: bytes | None = None
        if isinstance(verdict, Happened):
            value = self._checked(run, request, verdict.result, tools)
        elif not isinstance(verdict, NotHappened):
            raise UsageError(f"{verdict!r} is no verdict", hint="Give Happened(result) or NotHappened().")
        for name, text in (("by", by), ("note", note)):
            if text is not None and not (isinstance(text, str) and len(text) <= MAX_LABEL and is_storable(text)):
                raise UsageError(f"{name}= is no text of at most {MAX_LABEL} characters that can be stored")
        answer = Answer(
            run_no=run.run_no,
            request_id=request.request_id,
            verdict=Verdict.NOT_HAPPENED if value is None else Verdict.HAPPENED,
            value=value,
            by=by or _user(),
            note=note,
            at=self._engine.io.wall(),
        )
        outcome = self._engine.io.queue.submit(answer)
        if isinstance(outcome, Refusal):
            raise outcome.error()
        assert isinstance(outcome, Ack)

    def _open_request(self, run: RunRecord, call_id: str) -> RequestRecord:
        asked = self.store.requests(run.run_no)
        found = [request for request in asked if request.call_id == call_id]
        if not found:  # as for runs, a unique end of an id will do: what `show` prints under its step
            found = [request for request in asked if request.call_id.endswith(f".{call_id}")]
            if len({request.call_id for request in found}) > 1:
                names = ", ".join(sorted({request.call_id for request in found}))
                raise RequestNotFound(f"{call_id} may mean any of {names}", hint="Give the whole id.")
        for request in still_asked(found, self.store.calls(run.run_no)):
            if request.kind is RequestKind.RESOLVE:
                return request
        what = f"run {run.run_id} asks nothing about {call_id}"
        if found:
            verdict = found[-1].verdict
            told = "is settled" if verdict is None else f"has been answered ({verdict.label})"
            what = f"what was asked about {call_id} {told}"
        raise RequestNotFound(what)

    def _checked(self, run: RunRecord, request: RequestRecord, result: Any, tools: Mapping[str, ToolSpec]) -> bytes:
        """A person's result as JSON of the tool's type, where the tool is known here."""
        record = next((call for call in self.store.calls(run.run_no) if call.seq == request.call_seq), None)
        spec = tools.get(record.tool) if record is not None else None
        codec: Any = codec_for(Any) if spec is None else spec.policy.codec
        value = as_json(codec, result)
        check_size(value, "the result has")
        return value

    def doctor(self, address: str) -> Report:
        """Check the store."""
        from jumar.stores.sqlite.connection import newest_schema

        found = self.store.inspect()
        return Report(
            address, newest_schema(), found.runs, found.calls, found.checkpoints, found.artifacts, found.findings
        )


def as_json(codec: TypedCodec, result: Any) -> bytes:
    """`result` as JSON of a type; plain JSON that reads as a value of it is taken too."""
    try:
        data, _ = codec.round_trip(result)
        return data
    except NotStorable:
        data = codec_for(Any).encode(result)
        with contextlib.suppress(NotStorable):
            return codec.round_trip(codec.decode(data))[0]
        raise


def _faces(spec: AgentSpec) -> Callable[[LiveRun], Any]:
    if spec.is_async:
        from jumar.harness.async_run import AsyncRun

        return AsyncRun
    from jumar.harness.run import Run

    return Run


def _user() -> str:
    try:
        return storable(getpass.getuser())[:MAX_LABEL]
    except (OSError, KeyError, ImportError):
        return "someone"
