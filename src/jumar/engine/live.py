"""A run as the process that drives it sees it: its lease, its version, what is recorded, and whether it must stop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from jumar.core.changes import Outcome, Refusal
from jumar.core.codec import digest, encode_arguments
from jumar.core.limits import check_size
from jumar.core.lines import answering
from jumar.core.naming import checkpoint_name
from jumar.core.records import Artifact, CallRecord, CheckpointRecord, EventRecord, RunRecord
from jumar.core.replay import ReplayTable
from jumar.core.requests import Known, Lane
from jumar.core.states import CallState, Control, EventKind, Phase
from jumar.core.triggers import Trigger, replaces
from jumar.database import forks
from jumar.engine.halting import Halt, Wait, both
from jumar.engine.io import IO
from jumar.engine.policy import Settings
from jumar.engine.riders import Riders
from jumar.engine.scope import Branch, current_scope
from jumar.errors import (
    IllegalTransition,
    JumarError,
    LeaseLost,
    NotStorable,
    RunEnded,
    Stopped,
    UsageError,
)

if TYPE_CHECKING:
    from jumar.core.briefs.records import Drift
    from jumar.engine.behind import Behind

_OWN_NAME = "Give each step in a thread or task of its own a name that no other step has."


class LiveRun:
    """One run under this process's lease.  Used from several threads where the agent fans out; `lock` guards its
    counters.
    """

    def __init__(
        self,
        run: RunRecord,
        owner: str,
        records: list[CallRecord],
        settings: Settings,
        io: IO,
        *,
        recovered: bool,
        sent_at: int,
    ) -> None:
        self.run = run
        self.run_id, self.epoch = run.run_id, run.epoch
        self.owner = owner
        self.settings = settings
        self.ttl_ms = settings.ttl_ms
        self._trust_ms = settings.ttl_ms - settings.margin_ms
        self.io = io
        self.clock = io.clock
        self.wall = io.wall
        self.recovered = recovered
        self.phase = run.phase
        # A function agent runs again from the top and enters its steps again; a loop agent goes on where it stands.
        self.step_index = 0 if run.phase is Phase.IN_CODE else run.step
        self.generation = run.generation
        self.lane = Lane(run.version)
        self.control: int = run.control.value
        self.answers = run.answers
        self.table = ReplayTable(*answering(run, records)) if run.line else ReplayTable(records)
        self.root = Branch("", self.table.branch(""))
        self.halt: Halt | None = None
        self.returning: dict[int, int] = {}  # calls that failed and take the run back, and how often they may
        self.defers = False  # whether orders wait until a rollback is over
        self.lock = threading.Lock()
        self.context: dict[str, Any] = {}
        self.known = Known()  # of the workspace's files
        self.told_unportable = False  # whether it was said which of their names Windows cannot hold
        self.environment: Artifact | None = None  # what the fingerprints were,
        self.looked_at = -1  # at this version
        self.drift: tuple[Drift, ...] = ()
        self.before: RunRecord | None = None  # how the run stood before it was taken up
        self.trusted_until = sent_at + self._trust_ms
        self.progress_at = sent_at
        self.stalled = False  # whether the lease is left to run out because nothing happens
        self.is_worked = False  # whether a worker drives it, which must outlive what the agent does
        self.is_cut_off = False  # whether a `gather` or `map` was, with items that had not settled
        self.allowed_tools: frozenset[str] | None = None
        self._in_flight: dict[int, int] = {}
        self._next_seq = records[-1].seq + 1 if records else 1
        self.newest_seq = self._next_seq - 1  # of the calls that are on record
        self._names: set[str] = set()  # steps in threads or tasks of their own
        self._root_names: set[str] = set()  # steps of the agent's own code
        self._riders: Riders | None = None
        self.given_up: deque[Any] = deque()
        self._making: set[int] = set()
        self.aside: Riders | None = None
        self.behind: Behind | None = None  # what is written hot
        forks.watch(self, LiveRun._forked)

    # --- Going on or not. ---

    def check(self) -> None:
        """Raise the latched signal, if there is one."""
        if self.halt is not None:
            raise self.halt.signal()

    def stop(self, error: JumarError) -> BaseException:
        """Latch an error after which this process drives the run no further; answers what to raise."""
        with self.lock:
            halt = Halt(None, error)
            if self.halt is None or self.halt.error is None or (self.halt.ours and not halt.ours):
                self.halt = halt
            return self.halt.signal()

    def check_asking(self) -> None:
        """Raise the latched signal, unless the run is only about to wait: what else waits for somebody is asked at
        once, so that all of it can be answered in any order.
        """
        if self.halt is not None and self.halt.wait is None:
            raise self.halt.signal()

    def close(self) -> None:
        """The agent has ended, one way or another: nothing more is done under this lease."""
        error = RunEnded(f"run {self.run_id} was used after its agent had ended")
        with self.lock:
            self.halt = Halt(None, error, over=True)

    def _forked(self) -> None:
        """This is a forked process: the lease, the connection and the run's next version are its parent's."""
        self.lock = threading.Lock()
        error = IllegalTransition(
            f"run {self.run_id} cannot go on in a forked process; the one it was forked from drives it",
            hint="Fork outside of an agent, or use processes that only compute and answer.",
        )
        self.halt = Halt(None, error, over=True)

    def wait(self, wait: Wait, branch: Branch | None = None) -> BaseException:
        """Latch that the run waits; the earliest wake-up of several wins.  Answers what to raise.

        What an item of a `gather` or `map` waits for stops that item alone: the others go on as far as they can, so
        that what one of them was given is not held up by what another still waits for.  Where all have settled, the
        branch around them waits (`fan_out`).  The item is the one that makes the call, which may have been asked for
        in the branch around it; a loop agent's calls are made by none, and have a `branch` that is one.
        """
        item = self._item_here(branch)
        with self.lock:
            if item is not None and item.is_item and (self.halt is None or self.halt.wait is not None):
                item.wait = wait if item.wait is None else both(item.wait, wait)
                return Stopped(wait.reason)
            if self.halt is None:
                self.halt = Halt(wait, None)
            elif self.halt.wait is not None:
                self.halt = Halt(both(self.halt.wait, wait), None)
            return self.halt.signal()

    def _item_here(self, branch: Branch | None) -> Branch | None:
        scope = current_scope.get()
        return scope.branch if scope is not None and scope.live is self and scope.branch.is_item else branch

    def settled(self, item: Branch) -> Wait | None:
        """The item has ended; answers what it waits for.  Whoever still acts in its name stops the whole run."""
        with self.lock:
            item.is_item = False
            wait: Wait | None = item.wait
            return wait

    def order(self, control: int) -> None:
        """Latch an operator's order; it outranks whatever the run waits for.  What is in flight is still recorded."""
        with self.lock:
            if control <= self.control and self.halt is not None:
                return
            self.control = max(control, self.control)
            if self.defers:
                return
            if self.halt is None or self.halt.error is None:
                self.halt = Halt(None, None, order=Control(self.control))

    def leave_soon(self) -> None:
        """Latch that whoever drives the run is to end; an order outranks it, and so does what the run waits for."""
        with self.lock:
            if self.halt is None:
                self.halt = Halt(None, None, leaves=True)

    def before_dispatch(self) -> None:
        """Nothing new is sent after a stopping signal, nor when the lease may have run out unnoticed."""
        if self.halt is not None:
            raise self.halt.signal()
        if self.clock() >= self.trusted_until:
            raise self.stop(self._lease_lost())

    def check_lease(self) -> None:
        """Raise where the lease may have run out unnoticed, or is gone; not for a signal of the run's own."""
        if self.halt is not None and not self.halt.ours:
            raise self.halt.signal()
        if self.clock() >= self.trusted_until:
            raise self.stop(self._lease_lost())

    def _lease_lost(self) -> LeaseLost:
        if not self.stalled:
            return LeaseLost(f"the lease on run {self.run_id} could not be renewed in time")
        return LeaseLost(
            f"run {self.run_id} recorded nothing for {self.settings.stall_timeout:g} s (stall_timeout), so its lease "
            "was left to run out",
            hint="Resume it. Give a call that takes so long a timeout= of its own, make what is between calls shorter, "
            "or raise Harness(stall_timeout=).",
        )

    def seen(self, sent_at: int) -> None:
        """An advance sent at `sent_at` was acknowledged.

        What it tells of `control` and `answers` is not taken for seen: nobody has looked at that answer yet, and a
        run that left RUNNING as if it had would wait for what is there already.
        """
        self.progress_at = sent_at
        self.trust(sent_at)

    def trust(self, sent_at: int) -> None:
        """The lease surely lasts its ttl from when the message that prolonged it was sent."""
        until = sent_at + self._trust_ms
        if until > self.trusted_until:
            self.trusted_until = until

    @property
    def renewed_at(self) -> int:
        """When the newest message was sent that surely prolonged the lease, on its clock."""
        return self.trusted_until - self._trust_ms

    def refused(self, outcome: Outcome) -> BaseException:
        """Latch what a guard's refusal means; answers what to raise."""
        assert isinstance(outcome, Refusal)
        return self.stop(outcome.error())

    # --- Calls in flight. ---

    def begin(self, seq: int, timeout: float | None) -> None:
        """A body is being run; until `end` it counts as progress for as long as its own timeout, if that is longer."""
        self._in_flight[seq] = 0 if timeout is None else self.clock() + int(timeout * 1000)

    def end(self, seq: int) -> None:
        """The body has ended, or was given up."""
        del self._in_flight[seq]

    @contextmanager
    def making(self, seq: int) -> Generator[None, None, None]:
        """A call that is not a read is on its way from STARTED to how it ends: the run cannot be left meanwhile."""
        self._making.add(seq)
        try:
            yield
        finally:
            self._making.discard(seq)

    def is_making(self, seq: int) -> bool:
        """Whether this call, not a read, is between its start and its end in this process."""
        return seq in self._making

    def makes(self) -> bool:
        """Whether any call that is not a read is between its start and its end."""
        return bool(self._making)

    def busy(self) -> bool:
        """Whether a body is being run, or a call that is not a read is between its start and its end."""
        return bool(self._in_flight or self._making)

    def makes_progress(self, now: int) -> bool:
        """Whether the run deserves to be renewed: something happened lately, or a call is within its own timeout."""
        if now - self.progress_at <= self.settings.stall_timeout * 1000:
            return True
        return any(now <= until for until in list(self._in_flight.values()))

    # --- Numbers and names. ---

    def next_numbers(self, step: str, tool: str) -> tuple[int, int]:
        """For a new call: its number in the run, and that among the calls of its tool in its step."""
        with self.lock:
            seq = self._next_seq
            self._next_seq = seq + 1
            return seq, self.table.next_ordinal(step, tool)

    @property
    def next_number(self) -> int:
        """The number that the next new call gets."""
        return self._next_seq

    def take_numbers(self, count: int) -> int:
        """The first of so many numbers in a row, for new calls."""
        with self.lock:
            first = self._next_seq
            self._next_seq = first + count
            return first

    def go_on_after(self, seq: int) -> None:
        """The newest call on record has this number."""
        with self.lock:
            self._next_seq = max(self._next_seq, seq + 1)

    def check_branch(self, branch: Branch | None) -> None:
        """Raise the signal again where this item of a `gather` or `map` waits already."""
        if branch is not None and branch.wait is not None:
            raise Stopped(branch.wait.reason)

    def branch(self, path: str, parent: Branch | None = None) -> Branch:
        """A new branch, with whatever of it is recorded; `parent` waits for its end."""
        with self.lock:
            return Branch(path, self.table.branch(path), parent)

    def own_branch(self, path: str) -> Branch:
        """The branch of a step that has a thread or task of its own; its name must be the only one of its kind."""
        with self.lock:
            if path in self._names or path in self._root_names:
                whose = "in a thread or task of its own" if path in self._names else "by the agent itself"
                raise UsageError(f"a step {path!r} was already opened {whose}", hint=_OWN_NAME)
            self._names.add(path)
        return self.branch(path)

    def root_step(self, path: str) -> None:
        """The agent's own code enters a step; a step elsewhere has not that name, as their calls would mix."""
        with self.lock:
            if path in self._names:
                raise UsageError(f"a step {path!r} was already opened in a thread or task of its own", hint=_OWN_NAME)
            self._root_names.add(path)

    # --- Files. ---

    @property
    def tree(self) -> bytes | None:
        """The newest snapshot of the whole workspace that is known."""
        return self.known.tree

    @tree.setter
    def tree(self, digest: bytes | None) -> None:
        self.known.tree, self.known.seen = digest, self.known.changes

    @property
    def dirty(self) -> bool:
        """Whether something was made since that may have changed files, and that no snapshot tells."""
        return self.known.seen != self.known.changes

    @dirty.setter
    def dirty(self, dirty: bool) -> None:
        with self.lock:
            if dirty:
                self.known.changes += 1
            else:
                self.known.seen = self.known.changes

    @property
    def must_scan(self) -> bool:
        """Whether a checkpoint that keeps the files has to look at all of them."""
        return self.run.workspace is not None and (self.known.tree is None or self.dirty)

    @property
    def must_look(self) -> bool:
        """Whether something has to be looked at before a checkpoint is kept: the files, or what is outside."""
        return bool(self.settings.fingerprints) or self.must_scan

    # --- What rides with the next advance. ---

    def ride(self) -> Riders:
        """The rows that wait for the next advance; the caller holds `lock`."""
        if self._riders is None:
            self._riders = Riders()
        return self._riders

    def set_aside(self) -> Riders:
        """The marks of calls given up just now; the caller holds `lock`.

        Whether the agent gave them up, or is itself being stopped, shows only in what it does next: `goes_on` or
        `comes_to_rest` is called then, or neither where the process ends.
        """
        if self.aside is None:
            self.aside = Riders()
        return self.aside

    def goes_on(self) -> None:
        """The agent's code goes on: what it gave up stays given up, and the marks go with the next advance."""
        with self.lock:
            aside, self.aside = self.aside, None
            if aside is not None:
                riders = self.ride()
                riders.calls += aside.calls
                riders.changes += aside.changes
                riders.events += aside.events
                riders.frees += aside.frees
                riders.drops += aside.drops

    def comes_to_rest(self) -> None:
        """The run stops: nobody gave anything up, and a call in flight is left as a crash would leave it."""
        with self.lock:
            aside, self.aside = self.aside, None
            if aside is not None:
                riders = self.ride()
                riders.changes += aside.unmarked
                riders.events += aside.events
                riders.drops += [each.seq for each in aside.unmarked if each.state is CallState.PLANNED]

    def is_torn_down(self) -> None:
        """The process is being stopped: what is in flight is left as a crash would leave it, and what surely was not
        sent is put back.
        """
        with self.lock:
            aside, self.aside = self.aside, None
            back = [] if aside is None else [each for each in aside.unmarked if each.state is CallState.PLANNED]
            if back:
                riders = self.ride()
                riders.changes += back
                riders.drops += [each.seq for each in back]

    def ride_event(self, kind: EventKind, call_seq: int | None, detail: str, at: int | None = None) -> None:
        """Tell something with the next advance."""
        event = EventRecord(kind, self.wall() if at is None else at, call_seq, self.epoch, detail)
        with self.lock:
            self.ride().events.append(event)

    def kept_context(self) -> tuple[Artifact, ...]:
        """The run's context as a checkpoint keeps it: nothing where it is empty; NotStorable where it is no data.

        It is written when the checkpoint is asked for and before anything is sent, so that a context which cannot be
        stored never stands in the way of recording what has happened.
        """
        if not self.context:
            return ()
        try:
            data = encode_arguments(self.context)
            check_size(data)
        except NotStorable as error:
            raise NotStorable(f"run.context: {error.what}", path=error.path, hint=error.hint) from error
        return (Artifact(digest(data), data),)

    def ride_checkpoint(self, event: str, step: str, context: tuple[Artifact, ...]) -> None:
        """Keep the present version as a restore point where a trigger asks for it at this event; of two for the same
        version the coarser one stays.
        """
        trigger = self.settings.triggers.get(event)
        if trigger is None:
            return
        record = self.checkpoint_record(trigger, step, context)
        with self.lock:
            riders = self.ride()
            if riders.before is None or replaces(trigger.level, riders.before.level):
                riders.before, riders.context = record, context + self.kept_environment()

    def kept_environment(self) -> tuple[Artifact, ...]:
        """What the fingerprints were, as a checkpoint keeps it."""
        return () if self.environment is None else (self.environment,)

    def ride_checkpoint_after(self, event: str, step: str) -> None:
        """The same for what has happened already, which a context that cannot be stored must not stand in the way of:
        then there is no restore point.
        """
        if event in self.settings.triggers:
            with suppress(NotStorable):
                self.ride_checkpoint(event, step, self.kept_context())

    def checkpoint_record(
        self, trigger: Trigger, step: str, context: tuple[Artifact, ...], refs: tuple[str, ...] = ()
    ) -> CheckpointRecord:
        """A restore point for where the run stands now."""
        at = self.wall()
        name = checkpoint_name(self.run.task, step, trigger.level, at)
        return CheckpointRecord(
            name,
            trigger.level,
            trigger.event,
            storage=trigger.storage,
            refs=refs,
            step=self.step_index,
            phase=self.phase,
            context=context[0].digest if context else None,
            created_at=at,
            base_version=self.run.line[-1][1] if self.run.line else 0,
            tree=None if self.must_scan else self.known.tree,
            environment=None if self.environment is None else self.environment.digest,
        )

    def has_riders(self) -> bool:
        """Whether rows wait for the next advance."""
        return self._riders is not None

    def put_back(self, riders: Riders | None) -> None:
        """What was to go with an advance that was not made goes with the next one."""
        with self.lock:
            if self._riders is None:
                self._riders = riders

    def take_riders(self) -> Riders | None:
        """What goes with the advance that is being built."""
        if self._riders is not None:
            with self.lock:
                riders, self._riders = self._riders, None
                return riders
        return None
