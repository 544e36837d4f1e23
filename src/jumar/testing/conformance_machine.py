"""A store against its model: the same random changes to both, and every answer and every row must be equal.

Two owners create, claim, advance, leave, renew and answer, with what they know of a run now or knew some time ago;
the lease clock moves only where a step moves it, and the host may be restarted.  Hypothesis draws the steps, prints
what repeats a failure, and shortens it.

A subclass makes the store so that it reads its lease clock from the `Clock` it is given:

    class MyMachine(StoreMachine):
        def make_store(self, clock):
            return MyStore(clock=lambda: LeaseTime(clock.boot, clock.ms))

    def test_my_store_does_what_the_model_does():
        run_state_machine_as_test(MyMachine)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from jumar.core.changes import Ack, Advance, Answer, Change, Claim, Claimed, Create, Ending, Outcome, Refusal, Renew
from jumar.core.phases import CLAIMABLE
from jumar.core.records import CheckpointRecord, EventRecord, LeaseTime, RunRecord
from jumar.core.states import CallState, Control, Effect, ErrorClass, EventKind, Level, Phase, Status, Verdict, mask
from jumar.core.store import RunFilter, Store
from jumar.testing.conformance_scene import AT, asking, call, changed, named
from jumar.testing.model import ModelStore

_Answer: TypeAlias = Outcome | Exception | None

OWNERS = ("ann", "bob")
_RUNS = 4
_REMEMBERED = 12  # how many past views of runs an owner may still act on
_TTLS = st.sampled_from([0, 1, 50, 50, 200, 200])
_TIMES = st.integers(0, 300).map(lambda moment: AT + moment)


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
        self.ids: list[str] = []
        self.numbers: dict[int, int] = {}
        self.remembered: list[RunRecord] = []

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
        self._both([self._create(data)])

    @rule(data=st.data())
    def creates(self, data: st.DataObject) -> None:
        """Somebody creates a run, perhaps one that is there."""
        self._both([self._create(data)])

    @rule(data=st.data())
    def claims(self, data: st.DataObject) -> None:
        """An owner claims a run."""
        self._both([self._claim(data)])

    @rule(data=st.data())
    def advances(self, data: st.DataObject) -> None:
        """An owner advances a run by what it knows of it."""
        self._both([self._advance(data)])

    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        """Whoever holds a run advances it as it should."""
        self._both([self._sound_advance(data)])

    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        """An owner takes a run out of RUNNING."""
        self._both([self._leave(data)])

    @rule(data=st.data())
    def renews(self, data: st.DataObject) -> None:
        """An owner renews its lease."""
        self._both([self._renew(data)])

    @rule(data=st.data())
    def answers(self, data: st.DataObject) -> None:
        """Somebody answers a request."""
        self._both([self._answer(data)])

    @rule(data=st.data())
    def batches(self, data: st.DataObject) -> None:
        """Several changes arrive at once."""
        drawn = data.draw(st.lists(st.sampled_from(self._kinds()), min_size=2, max_size=5))
        changes: list[Change] = [make(data) for make in drawn]
        self._both(changes)

    @rule(ms=st.sampled_from([1, 10, 49, 50, 51, 199, 200, 1000]))
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
        change: Change = data.draw(st.sampled_from(self._kinds()))(data)
        ours, theirs = self.model.read_back(change), self.store.read_back(self._for_store(change))
        self._compare([theirs], [ours])

    # --- What holds after each. ---

    @invariant()
    def every_row_is_equal(self) -> None:
        """All that can be read is as the model has it."""
        assert self.store.find("", 99) == self.model.find("", 99)
        for which in (RunFilter(), RunFilter(status=Status.RUNNING), RunFilter(limit=1)):
            assert [self._seen(run) for run in self.store.runs(which)] == self.model.runs(which)
        for run_id in self.ids:
            run = self.model.run(run_id)
            assert self._seen(self.store.run(run_id)) == run
            if run is None:
                continue
            ours, theirs = run.run_no, self.numbers[run.run_no]
            assert self.store.calls(theirs) == self.model.calls(ours)
            assert self.store.checkpoints(theirs) == self.model.checkpoints(ours)
            assert self.store.requests(theirs) == self.model.requests(ours)
            assert self.store.events(theirs) == self.model.events(ours)

    # --- Drawing changes. ---

    def _kinds(self) -> list[Callable[[st.DataObject], Change]]:
        return [
            self._create,
            self._claim,
            self._advance,
            self._sound_advance,
            self._leave,
            self._renew,
            self._answer,
        ]

    def _create(self, data: st.DataObject) -> Create:
        taken = st.sampled_from(self.ids) if self.ids else st.nothing()
        number = len(self.ids) + 1
        fresh = f"{number:08x}-0000-7000-8000-{number:012x}"
        run_id = data.draw(taken | st.just(fresh) if number <= _RUNS else taken)
        return Create(
            run_id=run_id,
            agent="repair",
            agent_version="1",
            task="fix",
            phase=data.draw(st.sampled_from([Phase.IN_CODE, Phase.READY_TO_DECIDE])),
            input=named(b'"fix the site"'),
            at=data.draw(_TIMES),
            owner=data.draw(st.sampled_from([None, *OWNERS])),
            ttl_ms=data.draw(_TTLS),
        )

    def _claim(self, data: st.DataObject) -> Claim:
        return Claim(
            run_id=data.draw(st.sampled_from([*self.ids, "unknown"])),
            owner=data.draw(st.sampled_from(OWNERS)),
            ttl_ms=data.draw(_TTLS),
            at=data.draw(_TIMES),
            statuses=data.draw(
                st.sampled_from([mask(*CLAIMABLE), mask(*CLAIMABLE), mask(*Status), mask(Status.QUEUED)])
            ),
        )

    def _now(self) -> list[RunRecord]:
        return [run for run_id in self.ids if (run := self.model.run(run_id)) is not None]

    def _known(self, data: st.DataObject) -> RunRecord:
        """A run as somebody sees it, or saw it some time ago."""
        return data.draw(st.sampled_from(self._now()) | st.sampled_from(self.remembered or self._now()))

    def _speaking(self, data: st.DataObject, run: RunRecord) -> dict[str, Any]:
        """Who speaks for the run, of which version: mostly the right ones."""
        owner = data.draw(st.sampled_from([run.owner or "ann", run.owner or "ann", run.owner or "ann", *OWNERS]))
        epoch = run.epoch + data.draw(st.sampled_from([0, 0, 0, 0, -1, 1]))
        return {"run_no": run.run_no, "owner": owner, "epoch": epoch, "ttl_ms": data.draw(_TTLS)}

    def _sound_advance(self, data: st.DataObject) -> Advance:
        run = data.draw(st.sampled_from(self._now()))
        seq = len(self.model.calls(run.run_no)) + 1
        state = data.draw(
            st.sampled_from([CallState.PLANNED, CallState.STARTED, CallState.STARTED, CallState.SUCCEEDED])
        )
        return Advance(
            run_no=run.run_no,
            owner=run.owner or "ann",
            epoch=run.epoch,
            phase=run.phase,
            step=seq,
            ttl_ms=200,
            at=AT,
            version=run.version,
            control=run.control,
            answers=run.answers,
            calls=(call(seq, state, epoch=run.epoch),),
            requests=(asking(f"{run.run_id}/{seq}", seq),),
        )

    def _advance(self, data: st.DataObject) -> Advance:
        run = self._known(data)
        known = [record.seq for record in self.model.calls(run.run_no)]
        seqs = st.integers(1, len(known) + 1)
        states = st.sampled_from(CallState)
        fresh = st.builds(call, seqs, states, attempt=st.integers(1, 2), epoch=st.integers(0, 3), effect=_EFFECTS)
        moved = st.builds(
            changed,
            seqs,
            states,
            attempt=st.integers(1, 3),
            epoch=st.integers(0, 3),
            ended_at=st.none() | _TIMES,
            result=st.sampled_from([None, b'"done"']),
            dispatch_by=st.sampled_from([None, 7]),
            over_at=st.sampled_from([None, 8]),
        )
        checkpoints = st.none() | st.builds(CheckpointRecord, st.sampled_from(["a", "b"]), _LEVELS, st.just("by-hand"))
        events = st.builds(EventRecord, st.just(EventKind.RETRY), _TIMES, seqs, st.integers(0, 3))
        requests = st.builds(
            lambda seq, attempt: asking(f"{run.run_id}/{seq}/{attempt}", seq, attempt), seqs, _ATTEMPTS
        )
        return Advance(
            **self._speaking(data, run),
            phase=data.draw(st.sampled_from([run.phase, run.phase, *Phase])),
            step=data.draw(st.integers(0, 9)),
            at=data.draw(_TIMES),
            control=data.draw(st.sampled_from([Control.NONE, Control.NONE, Control.PAUSE])),
            answers=run.answers,
            version=run.version + data.draw(st.sampled_from([0, 0, 0, 0, -1, 1])),
            calls=tuple(data.draw(st.lists(fresh, max_size=2))),
            changes=tuple(data.draw(st.lists(moved, max_size=2))),
            artifacts=tuple(data.draw(st.lists(st.sampled_from([named(b"1"), named(b"2" * 3000)]), max_size=2))),
            before=data.draw(checkpoints),
            after=data.draw(checkpoints),
            requests=tuple(data.draw(st.lists(requests, max_size=2))),
            events=tuple(data.draw(st.lists(events, max_size=1))),
        )

    def _leave(self, data: st.DataObject) -> Advance:
        ending = st.builds(
            Ending,
            status=st.sampled_from([status for status in Status if status is not Status.RUNNING]),
            wake_at=st.none() | _TIMES,
            waiting_on=st.sampled_from([None, "scan.search.1"]),
            output_digest=st.sampled_from([None, named(b"1").digest]),
            error_class=st.sampled_from([None, ErrorClass.PERMANENT]),
            error_type=st.sampled_from([None, "Declined"]),
            error_message=st.sampled_from([None, "no"]),
        )
        advance = self._advance(data)
        if data.draw(st.booleans()):
            advance = replace(self._sound_advance(data), calls=())
        return replace(advance, ending=data.draw(ending))

    def _renew(self, data: st.DataObject) -> Renew:
        return Renew(**self._speaking(data, self._known(data)))

    def _answer(self, data: st.DataObject) -> Answer:
        run = self._known(data)
        asked = [request.request_id for request in self.model.requests(run.run_no)]
        verdict = data.draw(st.sampled_from([Verdict.HAPPENED, Verdict.NOT_HAPPENED]))
        return Answer(
            run_no=run.run_no,
            request_id=data.draw(st.sampled_from([*asked, "never asked"])),
            verdict=verdict,
            value=b'"paid"' if verdict is Verdict.HAPPENED else None,
            by=data.draw(st.sampled_from(["kim", "lee"])),
            note=data.draw(st.sampled_from([None, "seen"])),
            at=data.draw(_TIMES),
            epoch=data.draw(st.sampled_from([None, None, run.epoch, run.epoch - 1])),
        )

    # --- Doing and comparing. ---

    def _both(self, changes: list[Change]) -> None:
        note("\n".join(map(str, changes)))
        ours = self.model.write(changes)
        theirs = self.store.write([self._for_store(change) for change in changes])
        for change, outcome in zip(changes, theirs, strict=True):
            if isinstance(change, Create) and isinstance(outcome, Ack):
                self._numbered(change)
        self._compare(theirs, ours)
        self.remembered = [*self.remembered, *self._now()][-_REMEMBERED:]

    def _compare(self, theirs: Sequence[_Answer], ours: Sequence[_Answer]) -> None:
        assert [self._said(outcome) for outcome in theirs] == [self._said(outcome, own=True) for outcome in ours]
        for their, our in zip(theirs, ours, strict=True):
            # A store need not show the run it refused to change; where it does, it is the run as it was.
            if isinstance(their, Refusal) and isinstance(our, Refusal) and their.run is not None:
                assert self._seen(their.run) == our.run

    def _numbered(self, change: Create) -> None:
        """Stores number runs as they like; the model's number stands for theirs."""
        ours, theirs = self.model.run(change.run_id), self.store.run(change.run_id)
        assert ours is not None and theirs is not None
        self.ids.append(change.run_id)
        self.numbers[ours.run_no] = theirs.run_no

    def _for_store(self, change: Change) -> Change:
        if isinstance(change, (Advance, Renew, Answer)):
            return replace(change, run_no=self.numbers[change.run_no])
        return change

    def _seen(self, run: RunRecord | None) -> RunRecord | None:
        if run is None:
            return None
        return replace(run, run_no=self._our_number(run.run_no))

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


_LEVELS = st.sampled_from(Level)
_EFFECTS = st.sampled_from(Effect)
_ATTEMPTS = st.integers(1, 2)
