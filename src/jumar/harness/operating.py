"""Looking at runs, answering what they ask, and steering them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jumar.core.naming import is_storable
from jumar.core.states import Control, Status
from jumar.core.store import RunFilter
from jumar.core.verdicts import Happened, NotHappened
from jumar.engine.scope import current_scope
from jumar.errors import IllegalTransition, RunNotFound, UsageError
from jumar.harness.declaring import Declaring
from jumar.harness.options import whole
from jumar.harness.results import Report, RequestView, RunInfo, RunView, TraceLine
from jumar.harness.twins import twin
from jumar.harness.views import open_requests, run_info, run_view, status_named, trace_lines

if TYPE_CHECKING:
    from jumar.core.briefs.records import Brief
    from jumar.core.comparing import Diff
    from jumar.harness.answering import Answering
    from jumar.harness.operations import Operations
    from jumar.harness.statistics import Stats
    from jumar.harness.view import LoopView

Waiting = Callable[[float], None] | None


class Operating(Declaring):
    """What an operator does with a harness; `Harness` has it."""

    def _open(self) -> Operations:
        raise NotImplementedError

    @property
    def address(self) -> str:
        """The address of the store in use."""
        raise NotImplementedError

    def find(self, run: str) -> str:
        """The whole id of a run, from its id, a unique end of one, or `last`."""
        operations = self._open()
        text = run.strip().lower() if isinstance(run, str) else ""
        if not text or (not all(character in "0123456789abcdef-" for character in text) and text != "last"):
            raise RunNotFound(f"{run!r} names no run", hint="Give a run's id, the end of one, or `last`.")
        found = operations.store.find("" if text == "last" else text, 2)
        if not found:
            if text == "last":
                raise RunNotFound("there are no runs yet", hint="Check which store this is, or start a run.")
            raise RunNotFound(f"no run's id ends in {text}")
        if text != "last" and len(found) > 1:
            raise RunNotFound(f"more than one run's id ends in {text}", hint="Give more of the id.")
        return found[0]

    afind = twin(find)

    def runs(
        self, *, status: str | None = None, agent: str | None = None, limit: int = 100, before: str | None = None
    ) -> list[RunInfo]:
        """Runs, newest first, at most `limit`; `before` is the last id of the page before."""
        wanted: Status | None = None
        if status is not None:
            wanted = status_named(status) if isinstance(status, str) else None
            if wanted is None:
                known = ", ".join(each.name for each in Status)
                raise UsageError(f"{status!r} is no status of a run", hint=f"Use one of {known}.")
        for name, value in (("agent", agent), ("before", before)):
            if value is not None and not (isinstance(value, str) and is_storable(value)):
                raise UsageError(f"{name}={value!r} is no text that a run could have")
        which = RunFilter(wanted, agent, before, whole("limit", limit, 1, 1_000_000))
        store = self._open().store
        return [run_info(run, store) for run in store.runs(which)]

    aruns = twin(runs)

    def show(self, run_id: str) -> RunView:
        """A run with its calls, checkpoints and what it waits for."""
        operations = self._open()
        return run_view(operations.run_record(self.find(run_id)), operations.store, operations.content_of)

    ashow = twin(show)

    def view(self, run_id: str) -> LoopView:
        """A loop agent's run as its function would see it, for looking: its history, and `messages("openai")` to go on
        from in a conversation.  UsageError for a run of a function agent.
        """
        from jumar.harness.view import view_of

        operations = self._open()
        return view_of(operations.store, operations.run_record(self.find(run_id)))

    aview = twin(view)

    def trace(self, run_id: str) -> list[TraceLine]:
        """What happened in a run, in the order of time; for looking only, nothing decides from it."""
        operations = self._open()
        return trace_lines(operations.run_record(self.find(run_id)), operations.store)

    atrace = twin(trace)

    def requests(self, limit: int = 100) -> list[RequestView]:
        """What the runs of this store ask somebody, oldest first, at most `limit`."""
        return open_requests(self._open().store, whole("limit", limit, 1, 1_000_000))

    arequests = twin(requests)

    def diff(
        self,
        run_id: str,
        a: int | str,
        b: int | str = "now",
        *,
        paths: str | Iterable[str] | None = None,
        text: bool = False,
    ) -> Diff:
        """How a run's files differ between two points, each a checkpoint's version or name, or "now".

        `paths` are globs, relative to the workspace, that narrow it.  With `text` the changes of small texts have their
        lines.  CheckpointNotFound where a point is none, or has no files.
        """
        from jumar.harness.comparing import compare, globs

        operations = self._open()
        run = operations.run_record(self.find(run_id))
        return compare(operations.store, operations.files, run, a, b, globs(paths), text=text)

    adiff = twin(diff)

    def brief(self, run_id: str, lang: str = "en") -> Brief:
        """What happened in a run so far, for whoever goes on with it: as data, and as `prose` in English ("en") or
        Chinese ("zh").

        Fingerprints are read now, so that it tells what a resume would find changed.
        """
        return self._open().brief(self.find(run_id), lang)

    abrief = twin(brief)

    # --- Answering. ---

    def resolve(
        self,
        run_id: str,
        call_id: str,
        verdict: Happened[Any] | NotHappened,
        *,
        by: str | None = None,
        note: str | None = None,
    ) -> None:
        """Say whether a call that may have happened did: `Happened(result)` with what the tool would have returned, or
        `NotHappened()`.  Answered once; the run is then QUEUED, to be resumed.  RequestNotFound where nothing is asked.
        """
        self._answering(run_id).resolve(call_id, verdict, by, note)

    aresolve = twin(resolve)

    def approve(
        self,
        run_id: str,
        call_id: str,
        *,
        args: Mapping[str, Any] | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> None:
        """Let a call that waits for approval be sent; with `args`, arguments by name, it is sent with those instead."""
        self._answering(run_id).approve(call_id, args, by, note)

    aapprove = twin(approve)

    def reject(self, run_id: str, call_id: str, *, by: str | None = None, note: str | None = None) -> None:
        """Keep a call that waits for approval from being sent: the agent gets CallRejected, with the note.

        Of a call that may have happened it says that it did not, and is not to be made again.
        """
        self._answering(run_id).reject(call_id, by, note)

    areject = twin(reject)

    def answer(self, run_id: str, call_id: str, value: Any, *, by: str | None = None, note: str | None = None) -> None:
        """Answer what `run.ask` asked, with JSON; UsageError where the answer cannot be one."""
        self._answering(run_id).answer(call_id, value, by, note)

    aanswer = twin(answer)

    def _answering(self, run_id: str) -> Answering:
        return self._open().answering(self.find(run_id), self._tools)

    # --- Steering. ---

    def pause(
        self,
        run_id: str,
        *,
        by: str | None = None,
        note: str | None = None,
        wait: bool = False,
        waiting: Waiting = None,
    ) -> RunInfo:
        """Have a run stop as soon as what it has in flight has settled, until it is resumed by its id.

        A run that nobody drives is PAUSED at once.  One that is driven gets the order and goes on until it sees it;
        with `wait`, this returns once it has obeyed, or has been paused here because its process was gone.  `waiting`
        is told the seconds left of its lease meanwhile.  IllegalTransition where the run has failed, RunEnded where it
        has ended.
        """
        run_id = self.find(run_id)
        status = self._open().run_record(run_id).status
        if status is Status.FAILED:
            raise IllegalTransition(
                f"run {run_id} is failed, so there is nothing to pause",
                hint="`jumar resume RUN`, or `jumar cancel RUN`.",
            )
        if status is Status.PAUSED:
            return self._info(run_id)
        return self._order(run_id, Control.PAUSE, by, note, wait, waiting)

    apause = twin(pause)

    def cancel(
        self,
        run_id: str,
        *,
        by: str | None = None,
        note: str | None = None,
        wait: bool = False,
        waiting: Waiting = None,
    ) -> RunInfo:
        """End a run for good, as `pause` stops it for a while.  What it did stays done; what may have happened is asked
        about, and can still be answered.  RunEnded where it has ended.
        """
        return self._order(self.find(run_id), Control.CANCEL, by, note, wait, waiting)

    acancel = twin(cancel)

    def _order(
        self, run_id: str, control: Control, by: str | None, note: str | None, wait: bool, waiting: Waiting
    ) -> RunInfo:
        scope = current_scope.get()
        if wait and scope is not None and scope.live.run_id == run_id:
            raise UsageError(
                f"an order with wait=True was given inside the run it is for, {run_id}",
                hint="Give it without wait=True: the run obeys once the call that is being made has ended.",
            )
        operations = self._open()
        run = operations.order(run_id, control, by, note, wait=wait, waiting=waiting)
        return run_info(run, operations.store)

    def _info(self, run_id: str) -> RunInfo:
        operations = self._open()
        return run_info(operations.run_record(run_id), operations.store)

    def due(self, limit: int = 100) -> list[str]:
        """Ids of at most `limit` runs that can go on by themselves: QUEUED ones, those that wait although they were
        ordered to stop, those whose time has come, those whose process is gone.
        """
        return self._open().due(whole("limit", limit, 1, 1_000_000))

    adue = twin(due)

    def stats(self) -> Stats:
        """How writing to the store has gone in this process since it was opened: how long hot writes took until they
        were accepted and all until they were on disk, how many are not on disk yet, how often one was tried again, and
        how long runs were held up meanwhile.
        """
        return self._open().stats()

    astats = twin(stats)

    def doctor(self) -> Report:
        """Check every checksum in the store and in the files kept for its runs, and have the databases check
        themselves; for each damaged run, say what recovery would use (`Report.mendings`).  Nothing is repaired.
        """
        return self._open().doctor(self.address)

    adoctor = twin(doctor)
