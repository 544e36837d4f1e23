"""A store against its model: the same random changes to both, and every answer and every row must be equal.

Two owners create, claim, advance, leave, renew, roll back and fork, and somebody answers and orders, with what they
know of a run now or knew some time ago (`conformance_draws`); the lease clock moves only where a step moves it, and
the host may be restarted.  Hypothesis draws the steps, prints what repeats a failure, and shortens it.

A subclass makes the store so that it reads its lease clock from the `Clock` it is given:

    class MyMachine(StoreMachine):
        def make_store(self, clock):
            return MyStore(clock=lambda: LeaseTime(clock.boot, clock.ms))

    def test_my_store_does_what_the_model_does():
        run_state_machine_as_test(MyMachine)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from jumar.core.changes import Ack, Advance, Answer, Change, Claimed, Create, Fork, Outcome, Refusal, Renew
from jumar.core.records import HoldRecord, IdentityRecord, LeaseTime, RunRecord
from jumar.core.states import CallKind, IdentityScope, Status
from jumar.core.store import RunFilter, Store
from jumar.testing.conformance_draws import KEYS, WORKSPACES
from jumar.testing.conformance_draws_recovering import PATHS, RecoveringDraws
from jumar.testing.conformance_scene import AT, named
from jumar.testing.model import ModelStore

_ARTIFACTS = (named(b"1"), named(b"2" * 3000), named(b'"fix the site"'))
_Answer: TypeAlias = Outcome | Exception | None


class Clock:
    """The lease clock of one host: `ms` moves where a step says so, `boot` changes with a restart."""

    def __init__(self) -> None:
        self.ms = 1_000
        self.boot = b"boot0001"

    def now(self) -> LeaseTime:
        """A reading."""
        return LeaseTime(self.boot, self.ms)


class StoreMachine(RuleBasedStateMachine):
    """The steps.  A subclass gives `make_store`."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.model = ModelStore(self.clock.now)
        self.store = self.make_store(self.clock)
        self.draws = RecoveringDraws(self.model)
        self.numbers: dict[int, int] = {}

    def make_store(self, clock: Clock) -> Store:
        """An empty store that reads its lease clock from `clock`."""
        raise NotImplementedError("a subclass makes its store")

    def restarted(self) -> None:
        """The clock's boot is another one now; for a store that does not look at it each time."""

    def teardown(self) -> None:
        """Close the store."""
        self.store.close()

    # --- The steps. ---

    @initialize(data=st.data())
    def begins(self, data: st.DataObject) -> None:
        """There is a run to begin with."""
        self._both([self.draws.create(data)])

    @rule(data=st.data())
    def asks(self, data: st.DataObject) -> None:
        """Somebody asks for a change, sound or not, by what it knows."""
        self._both([data.draw(st.sampled_from(self.draws.kinds()))(data)])

    @precondition(lambda self: self.draws.held())
    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        """Whoever holds a run advances it as it should."""
        self._both([self.draws.sound_advance(data)])

    @precondition(lambda self: self.draws.held())
    @rule(data=st.data())
    def moves_a_call(self, data: st.DataObject) -> None:
        """Whoever holds a run brings one of its calls to its next state."""
        self._both([self.draws.sound_change(data)])

    @precondition(lambda self: self.draws.free())
    @rule(data=st.data())
    def takes_up(self, data: st.DataObject) -> None:
        """Somebody takes up a run that nobody holds."""
        self._both([self.draws.sound_claim(data)])

    @precondition(lambda self: self.draws.held())
    @rule(data=st.data())
    def lets_go(self, data: st.DataObject) -> None:
        """Whoever holds a run leaves it as it should."""
        self._both([self.draws.sound_leave(data)])

    @precondition(lambda self: self.draws.held())
    @rule(data=st.data())
    def writes(self, data: st.DataObject) -> None:
        """Whoever holds a run starts a write, or brings one to its next state."""
        self._both([self.draws.write_on(data)])

    @precondition(lambda self: self.draws.held())
    @rule(data=st.data())
    def acts(self, data: st.DataObject) -> None:
        """Whoever holds a run does something that has a name, or undoes it."""
        self._both([self.draws.act(data)])

    @rule(data=st.data())
    def rolls_back(self, data: st.DataObject) -> None:
        """Somebody begins a rollback, and perhaps ends it at once."""
        self._both([self.draws.rollback(data)])
        at_once: bool = data.draw(st.booleans())
        if at_once and self.draws.in_rollback():
            self._both([self.draws.end_rollback(data)])

    @precondition(lambda self: self.draws.in_rollback())
    @rule(data=st.data())
    def ends_a_rollback(self, data: st.DataObject) -> None:
        """Whoever rolls a run back ends that."""
        self._both([self.draws.end_rollback(data)])

    @rule(data=st.data())
    def forks(self, data: st.DataObject) -> None:
        """Somebody makes a new run out of another one."""
        self._both([self.draws.fork(data)])

    @precondition(lambda self: self.draws.asked())
    @rule(data=st.data())
    def answers(self, data: st.DataObject) -> None:
        """Somebody answers a request."""
        self._both([self.draws.answer(data)])

    @precondition(lambda self: self.draws.waiting())
    @rule(data=st.data())
    def orders_to_stop(self, data: st.DataObject) -> None:
        """Somebody orders a run that waits to stop, and perhaps claims it."""
        self._both(self.draws.stop(data))

    @rule(data=st.data())
    def batches(self, data: st.DataObject) -> None:
        """Several changes arrive at once."""
        drawn = data.draw(st.lists(st.sampled_from(self.draws.kinds()), min_size=2, max_size=5))
        changes: list[Change] = [make(data) for make in drawn]
        self._both(changes)

    @rule(ms=st.sampled_from([1, 10, 49, 50, 51, 199, 200]))
    def time_passes(self, ms: int) -> None:
        """The lease clock moves."""
        self.clock.ms += ms

    @rule()
    def the_host_restarts(self) -> None:
        """The lease clock begins anew, under another boot."""
        self.clock.boot = b"boot%04d" % (int(self.clock.boot[4:]) + 1)
        self.clock.ms = 10
        self.restarted()

    @rule(data=st.data())
    def reads_back(self, data: st.DataObject) -> None:
        """Somebody asks what became of a change."""
        change: Change = data.draw(st.sampled_from(self.draws.kinds()))(data)
        ours, theirs = self.model.read_back(change), self.store.read_back(self._for_store(change))
        self._compare([theirs], [ours])

    # --- What holds after each. ---

    @invariant()
    def every_row_is_equal(self) -> None:
        """All that can be read is as the model has it."""
        assert self.store.find("", 99) == self.model.find("", 99)
        for which in (RunFilter(), RunFilter(status=Status.RUNNING), RunFilter(limit=1)):
            assert [self._seen(run) for run in self.store.runs(which)] == self.model.runs(which)
        for run_id in self.draws.ids:
            run = self.model.run(run_id)
            assert self._seen(self.store.run(run_id)) == run
            if run is None:
                continue
            ours, theirs = run.run_no, self.numbers[run.run_no]
            assert self.store.calls(theirs) == self.model.calls(ours)
            assert self.store.checkpoints(theirs) == self.model.checkpoints(ours)
            assert self.store.requests(theirs) == self.model.requests(ours)
            assert self.store.events(theirs) == self.model.events(ours)
            self._same_calls_and_names(theirs, ours)

    @invariant()
    def what_can_go_on_and_what_is_asked_is_equal(self) -> None:
        """Over all runs."""
        for wall_ms, limit in ((AT, 99), (AT + 150, 99), (AT + 300, 3)):
            assert self.store.due(wall_ms, limit) == self.model.due(wall_ms, limit)
            assert self.store.due(wall_ms, limit, ["repair", "other"]) == self.model.due(wall_ms, limit)
        for limit in (99, 2):
            assert self.store.open_requests(limit) == self.model.open_requests(limit)

    @invariant()
    def what_is_held_and_what_was_kept_is_equal(self) -> None:
        """Paths of workspaces, and what a fork finds with the run it was made from."""
        for workspace in WORKSPACES:
            for path in PATHS:
                theirs = [self._our_hold(held) for held in self.store.holds(workspace, path)]
                assert sorted(theirs, key=str) == sorted(self.model.holds(workspace, path), key=str)
        for ours, theirs_no in self.numbers.items():
            assert self.store.last_snapshot(theirs_no) == self.model.last_snapshot(ours)
            for seq in (1, 2):
                assert self.store.shared(theirs_no, seq) == self.model.shared(ours, seq)
            for artifact in _ARTIFACTS:
                assert self.store.artifact(theirs_no, artifact.digest) == self.model.artifact(ours, artifact.digest)

    def _same_calls_and_names(self, theirs: int, ours: int) -> None:
        assert self.store.calls(theirs, 2) == self.model.calls(ours, 2)
        assert self.store.call(theirs, 1) == self.model.call(ours, 1)
        assert self.store.last_call(theirs, CallKind.TOOL) == self.model.last_call(ours, CallKind.TOOL)
        for seq in (None, 1):
            theirs_open = self.store.requests(theirs, seq, unanswered=True)
            assert theirs_open == self.model.requests(ours, seq, unanswered=True)
        assert self.store.requests(theirs, 1) == self.model.requests(ours, 1)
        for scope in IdentityScope:
            for key in KEYS:
                held = self.store.identity(scope, theirs, key)
                assert self._held(held) == self.model.identity(scope, ours, key)

    # --- Doing and comparing. ---

    def _both(self, changes: list[Change]) -> None:
        note("\n".join(map(str, changes)))
        ours = self.model.write(changes)
        theirs = self.store.write([self._for_store(change) for change in changes])
        for change, outcome in zip(changes, theirs, strict=True):
            if isinstance(change, (Create, Fork)) and isinstance(outcome, Ack):
                self._numbered(change)
        self._compare(theirs, ours)
        self.draws.remember()

    def _compare(self, theirs: Sequence[_Answer], ours: Sequence[_Answer]) -> None:
        assert [self._said(outcome) for outcome in theirs] == [self._said(outcome, own=True) for outcome in ours]
        for their, our in zip(theirs, ours, strict=True):
            # A store need not show the run it refused to change; where it does, it is the run as it was.
            if isinstance(their, Refusal) and isinstance(our, Refusal) and their.run is not None:
                assert self._seen(their.run) == our.run

    def _numbered(self, change: Create | Fork) -> None:
        """Stores number runs as they like; the model's number stands for theirs."""
        ours, theirs = self.model.run(change.run_id), self.store.run(change.run_id)
        assert ours is not None and theirs is not None
        self.draws.ids.append(change.run_id)
        self.numbers[ours.run_no] = theirs.run_no

    def _for_store(self, change: Change) -> Change:
        if isinstance(change, Advance) and change.takes:
            change = replace(
                change,
                takes=tuple(
                    replace(take, instead_of=(self.numbers[take.instead_of[0]], take.instead_of[1]))
                    if take.instead_of is not None
                    else take
                    for take in change.takes
                ),
            )
        if isinstance(change, Fork):
            return replace(change, source_no=self.numbers[change.source_no])
        if isinstance(change, (Advance, Renew, Answer)):
            return replace(change, run_no=self.numbers[change.run_no])
        return change

    def _seen(self, run: RunRecord | None) -> RunRecord | None:
        if run is None:
            return None
        return replace(run, run_no=self._our_number(run.run_no))

    def _held(self, name: IdentityRecord | None) -> IdentityRecord | None:
        if name is None or name.run_no == 0:  # nobody's
            return name
        return replace(name, run_no=self._our_number(name.run_no))

    def _our_hold(self, held: HoldRecord) -> HoldRecord:
        return replace(held, run_no=self._our_number(held.run_no))

    def _our_number(self, run_no: int) -> int:
        return next((ours for ours, theirs in self.numbers.items() if theirs == run_no), -1)

    def _said(self, outcome: _Answer, own: bool = False) -> Any:
        """What is compared of an answer: of a refusal its guard, of an error that it is one, of the rest everything."""
        if isinstance(outcome, Refusal):
            return outcome.guard
        if isinstance(outcome, Exception):
            return "an error"
        if own or outcome is None:
            return outcome
        if isinstance(outcome, Claimed):
            return replace(outcome, run=self._seen(outcome.run))
        return replace(outcome, run_no=self._our_number(outcome.run_no))
