"""What the state machine draws: changes as two owners and an operator would ask for them, sound and unsound.

Each is drawn from what the model has, as it stands now or as somebody saw it some time ago.  Calls are few, names are
two, and times lie close together, so that the changes meet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from jumar.core.call_states import CALL_STATES, ENDED
from jumar.core.changes import Advance, Answer, CallChange, Change, Claim, Create, Ending, Order, Renew, Take
from jumar.core.phases import CLAIMABLE
from jumar.core.records import CheckpointRecord, EventRecord, RequestRecord, RunRecord
from jumar.core.states import (
    CallState,
    Control,
    Effect,
    ErrorClass,
    EventKind,
    IdentityScope,
    Level,
    Phase,
    Status,
    Verdict,
    mask,
)
from jumar.testing.conformance_scene import AT, asking, call, changed, named, taking
from jumar.testing.model import ModelStore

OWNERS = ("ann", "bob")
KEYS = ("pay:1", "pay:2")
WORKSPACES = ("/v", "/w")
MOST_RUNS = 6
_REMEMBERED = 12  # how many past views of runs an owner may still act on
TTLS = st.sampled_from([200, 200, 200, 50, 1, 0])
TIMES = st.integers(0, 300).map(lambda moment: AT + moment)
_LEVELS = st.sampled_from(Level)
DIGESTS = st.sampled_from([b"\x01" * 32, b"\x02" * 32])
CHECKPOINTS = st.builds(
    CheckpointRecord, st.sampled_from(["a", "b"]), _LEVELS, st.just("by-hand"), tree=st.none() | DIGESTS
)
_EFFECTS = st.sampled_from(Effect)
_ATTEMPTS = st.integers(1, 2)
_PHASES = st.sampled_from([Phase.IN_CODE, Phase.READY_TO_DECIDE, Phase.DECISION_RECORDED])
NAMES = st.tuples(st.sampled_from(KEYS), st.sampled_from([IdentityScope.STORE, IdentityScope.STORE, IdentityScope.RUN]))
_ENDINGS = st.builds(
    Ending,
    status=st.sampled_from(
        [
            *(Status.FAILED, Status.FAILED, Status.WAITING, Status.WAITING, Status.WAITING),
            *(Status.QUEUED, Status.PAUSED, Status.CANCELLED, Status.COMPLETED),
        ]
    ),
    wake_at=st.none() | TIMES,
    waiting_on=st.sampled_from([None, "scan.search.1"]),
    output_digest=st.sampled_from([None, named(b"1").digest]),
    error_class=st.sampled_from([None, ErrorClass.PERMANENT]),
    error_type=st.sampled_from([None, "Declined"]),
    error_message=st.sampled_from([None, "no"]),
    failed_calls=st.sampled_from([(), (1,), (3, 12)]),
)

Draw = Callable[[st.DataObject], Change]


class Draws:
    """Draws changes; knows the runs by `ids`, and what was seen of them."""

    def __init__(self, model: ModelStore) -> None:
        self.model = model
        self.ids: list[str] = []
        self._remembered: list[RunRecord] = []

    def kinds(self) -> list[Draw]:
        """A way to draw each kind of change."""
        return [
            self.create,
            self.claim,
            self.advance,
            self.sound_advance,
            self.sound_change,
            self.sound_claim,
            self.sound_leave,
            self.leave,
            self.renew,
            self.answer,
            self.order,
        ]

    def remember(self) -> None:
        """Somebody looks at every run, and may act on that later."""
        self._remembered = [*self._remembered, *self.now()][-_REMEMBERED:]

    def create(self, data: st.DataObject) -> Create:
        """A run, perhaps one that is there."""
        return Create(
            run_id=self.new_id(data),
            agent="repair",
            agent_version="1",
            task="fix",
            phase=data.draw(_PHASES),
            input=named(b'"fix the site"'),
            at=data.draw(TIMES),
            owner=data.draw(st.sampled_from(["ann", "ann", "bob", None])),
            ttl_ms=data.draw(TTLS),
            workspace=data.draw(st.sampled_from([None, *WORKSPACES])),
        )

    def new_id(self, data: st.DataObject) -> str:
        """The id of a run to come, or of one that is there."""
        taken = st.sampled_from(self.ids) if self.ids else st.nothing()
        number = len(self.ids) + 1
        fresh = f"{number:08x}-0000-7000-8000-{number:012x}"
        return data.draw(taken | st.just(fresh) if number <= MOST_RUNS else taken)

    def sound_claim(self, data: st.DataObject) -> Claim:
        """A claim of a run that may be had, opening again what it failed with."""
        run = self.one(data, self.free())
        failed = [record.seq for record in self.model.calls(run.run_no) if record.state is CallState.FAILED]
        reopened = failed if run.status is Status.FAILED else []
        return Claim(
            run_id=run.run_id,
            owner=data.draw(st.sampled_from(OWNERS)),
            ttl_ms=200,
            at=AT,
            statuses=mask(*CLAIMABLE),
            early=run.control is Control.NONE or data.draw(st.booleans()),
            resumes=data.draw(st.booleans()),
            epoch=run.epoch,
            reopens=tuple(changed(seq, CallState.PLANNED, epoch=run.epoch + 1) for seq in reopened),
        )

    def claim(self, data: st.DataObject) -> Claim:
        """A claim of a run, perhaps with calls to reopen."""
        run = data.draw(st.none() | st.sampled_from(self.now()))
        reopens: tuple[CallChange, ...] = ()
        if run is not None:
            failed = [record.seq for record in self.model.calls(run.run_no) if record.state is CallState.FAILED]
            states = st.sampled_from([CallState.PLANNED, CallState.PLANNED, *CallState])
            again = st.builds(changed, st.sampled_from([*failed, 1]), states, epoch=st.just(run.epoch + 1))
            reopens = tuple(data.draw(st.lists(again, max_size=2)))
        return Claim(
            run_id="unknown" if run is None else run.run_id,
            owner=data.draw(st.sampled_from(OWNERS)),
            ttl_ms=data.draw(TTLS),
            at=data.draw(TIMES),
            statuses=data.draw(
                st.sampled_from([mask(*CLAIMABLE), mask(*CLAIMABLE), mask(*Status), mask(Status.QUEUED)])
            ),
            early=data.draw(st.booleans()),
            resumes=data.draw(st.booleans()),
            epoch=None if run is None else data.draw(st.sampled_from([None, run.epoch, run.epoch, run.epoch + 1])),
            reopens=reopens,
        )

    def sound_advance(self, data: st.DataObject) -> Advance:
        """An advance as whoever holds the run would make it: the next call, perhaps under a name."""
        run = self.one(data, self.held())
        seq = len(self.model.calls(run.run_no)) + 1
        states = [CallState.STARTED, CallState.STARTED, CallState.PLANNED, CallState.SUCCEEDED, CallState.FAILED]
        state = data.draw(st.sampled_from(states))
        name = data.draw(NAMES | st.none()) if state is CallState.STARTED else None
        key, scope = name or (None, None)
        effect = data.draw(st.sampled_from([Effect.READ, Effect.EXTERNAL]))
        record = call(seq, state, epoch=run.epoch, effect=effect, identity=key, identity_scope=scope)
        return replace(
            self.going_on(run),
            calls=(record,),
            requests=(replace(asking(f"{run.run_id}/{seq}", seq), created_at=data.draw(TIMES)),),
            takes=() if name is None else (self.take(data, run, seq, *name),),
        )

    def sound_change(self, data: st.DataObject) -> Advance:
        """An advance that brings a call to a state it may have next, and takes or gives up its name with that."""
        run = self.one(data, self.held())
        going = [record for record in self.model.calls(run.run_no) if CALL_STATES[record.state]]
        if not going:
            return self.going_on(run)
        record = data.draw(st.sampled_from(going))
        state = data.draw(st.sampled_from(CALL_STATES[record.state]))
        name = data.draw(NAMES | st.none()) if state is CallState.STARTED else None
        key, scope = name or (None, None)
        ended = state in ENDED and data.draw(st.booleans())
        return replace(
            self.going_on(run),
            changes=(changed(record.seq, state, epoch=run.epoch, identity=key, identity_scope=scope),),
            takes=() if name is None else (self.take(data, run, record.seq, *name),),
            frees=(record.seq,) if ended else (),
        )

    def sound_leave(self, data: st.DataObject) -> Advance:
        """An advance that ends what is open and takes a run out of RUNNING."""
        run = self.one(data, self.held())
        open_calls = [
            record.seq
            for record in self.model.calls(run.run_no)
            if record.state in (CallState.STARTED, CallState.UNCERTAIN)
        ]
        ends = st.sampled_from([CallState.SUCCEEDED, CallState.FAILED])
        return replace(
            self.going_on(run),
            changes=tuple(changed(seq, data.draw(ends), epoch=run.epoch) for seq in open_calls),
            ending=data.draw(_ENDINGS),
        )

    @staticmethod
    def going_on(run: RunRecord) -> Advance:
        """An advance as whoever holds the run would make it, of the cursor alone."""
        return Advance(
            run_no=run.run_no,
            owner=run.owner or "ann",
            epoch=run.epoch,
            phase=run.phase,
            step=run.step + 1,
            ttl_ms=200,
            at=AT,
            version=run.version,
            control=run.control,
            answers=run.answers,
        )

    def advance(self, data: st.DataObject) -> Advance:
        """An advance by what somebody knows of a run."""
        run = self.known(data)
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
            ended_at=st.none() | TIMES,
            result=st.sampled_from([None, b'"done"']),
            dispatch_by=st.sampled_from([None, 7]),
            over_at=st.sampled_from([None, 8]),
            identity=st.sampled_from([None, *KEYS]),
            identity_scope=st.none() | st.sampled_from(IdentityScope),
            before=st.none() | DIGESTS,
            after=st.none() | DIGESTS,
            undone=st.sampled_from([None, 1]),
        )
        checkpoints = st.none() | CHECKPOINTS
        events = st.builds(EventRecord, st.just(EventKind.RETRY), TIMES, seqs, st.integers(0, 3))
        return Advance(
            **self._speaking(data, run),
            phase=data.draw(st.sampled_from([run.phase, run.phase, *Phase])),
            step=data.draw(st.integers(0, 9)),
            at=data.draw(TIMES),
            control=data.draw(st.sampled_from([run.control, Control.NONE, Control.PAUSE])),
            answers=run.answers,
            version=run.version + data.draw(st.sampled_from([0, 0, 0, 0, -1, 1])),
            calls=tuple(data.draw(st.lists(fresh, max_size=2))),
            changes=tuple(data.draw(st.lists(moved, max_size=2))),
            artifacts=tuple(data.draw(st.lists(st.sampled_from([named(b"1"), named(b"2" * 3000)]), max_size=2))),
            before=data.draw(checkpoints),
            after=data.draw(checkpoints),
            requests=tuple(data.draw(st.lists(self._requests(run, seqs), max_size=2))),
            events=tuple(data.draw(st.lists(events, max_size=1))),
            through=tuple(data.draw(st.sampled_from([(), (), (run.phase,), *((phase,) for phase in Phase)]))),
            takes=tuple(
                self.take(data, run, data.draw(seqs), *name) for name in data.draw(st.lists(NAMES, max_size=2))
            ),
            frees=tuple(data.draw(st.lists(seqs, max_size=1))),
        )

    def leave(self, data: st.DataObject) -> Advance:
        """An advance that takes a run out of RUNNING."""
        return replace(self.advance(data), ending=data.draw(_ENDINGS))

    def renew(self, data: st.DataObject) -> Renew:
        """A renewal of a lease."""
        return Renew(**self._speaking(data, self.known(data)))

    def answer(self, data: st.DataObject) -> Answer:
        """A verdict on a request, perhaps one that settles its call."""
        run = self.one(data, self.asked())
        asked = {request.request_id: request.call_seq for request in self.model.requests(run.run_no)}
        request_id = data.draw(st.sampled_from([*self.open(run), *self.open(run), *asked, "never asked"]))
        verdict = data.draw(st.sampled_from([Verdict.HAPPENED, Verdict.NOT_HAPPENED]))
        ends = st.sampled_from([CallState.SUCCEEDED, CallState.FAILED, CallState.REJECTED])
        settles = st.none() | st.builds(changed, st.just(asked.get(request_id, 1)), ends, ended_at=TIMES)
        return Answer(
            run_no=run.run_no,
            request_id=request_id,
            verdict=verdict,
            value=b'"paid"' if verdict is Verdict.HAPPENED else None,
            by=data.draw(st.sampled_from(["kim", "lee"])),
            note=data.draw(st.sampled_from([None, "seen"])),
            at=data.draw(TIMES),
            epoch=data.draw(st.sampled_from([None, None, run.epoch, run.epoch - 1])),
            settles=data.draw(settles),
            frees=data.draw(st.booleans()),
        )

    def order(self, data: st.DataObject) -> Order:
        """An operator's order, perhaps for a run that is not there."""
        return Order(
            run_id=data.draw(st.sampled_from([*self.ids, *self.ids, "unknown"])),
            control=data.draw(st.sampled_from([Control.PAUSE, Control.PAUSE, Control.CANCEL])),
            at=data.draw(TIMES),
            by=data.draw(st.sampled_from(["kim", "ana"])),
            note=data.draw(st.sampled_from([None, "enough"])),
        )

    def stop(self, data: st.DataObject) -> list[Change]:
        """An order to a run that waits, and perhaps a claim of it that is not early."""
        run = self.one(data, self.waiting())
        order = replace(self.order(data), run_id=run.run_id)
        claim = replace(self.claim(data), run_id=run.run_id, early=False, epoch=None, reopens=())
        return data.draw(st.sampled_from([[order], [order, claim], [claim, order]]))

    def now(self) -> list[RunRecord]:
        """Every run as it stands."""
        return [run for run_id in self.ids if (run := self.model.run(run_id)) is not None]

    def held(self) -> list[RunRecord]:
        """The runs that somebody holds under a live lease."""
        now = self.model.now()
        return [run for run in self.now() if run.owner and run.boot == now.boot and run.lease_until > now.ms]

    def free(self) -> list[RunRecord]:
        """The runs that nobody holds and that have not ended for good."""
        return [run for run in self.now() if run.status in CLAIMABLE and run not in self.held()]

    def waiting(self) -> list[RunRecord]:
        """The runs that wait."""
        return [run for run in self.now() if run.status is Status.WAITING]

    def asked(self) -> list[RunRecord]:
        """The runs with an open request."""
        return [run for run in self.now() if self.open(run)]

    def one(self, data: st.DataObject, runs: list[RunRecord]) -> RunRecord:
        """One of these runs, or any where there is none."""
        return data.draw(st.sampled_from(runs or self.now()))

    def open(self, run: RunRecord) -> list[str]:
        """The ids of a run's open requests."""
        return [request.request_id for request in self.model.requests(run.run_no) if request.verdict is None]

    def known(self, data: st.DataObject) -> RunRecord:
        """A run as somebody sees it, or saw it some time ago."""
        return data.draw(st.sampled_from(self.now()) | st.sampled_from(self._remembered or self.now()))

    def _speaking(self, data: st.DataObject, run: RunRecord) -> dict[str, Any]:
        """Who speaks for the run, of which version: mostly the right ones."""
        owner = data.draw(st.sampled_from([run.owner or "ann", run.owner or "ann", run.owner or "ann", *OWNERS]))
        epoch = run.epoch + data.draw(st.sampled_from([0, 0, 0, 0, -1, 1]))
        return {"run_no": run.run_no, "owner": owner, "epoch": epoch, "ttl_ms": data.draw(TTLS)}

    def take(self, data: st.DataObject, run: RunRecord, seq: int, key: str, scope: IdentityScope) -> Take:
        """The wish for a name, perhaps for that of somebody."""
        known = self.model.identity(scope, run.run_no, key)
        undone = 0 if known is None else known.undone
        numbers = st.sampled_from([run.run_no for run in self.now()])
        instead = data.draw(st.none() | st.none() | st.tuples(numbers, st.integers(1, 2)))
        counted = data.draw(st.sampled_from([undone, undone, undone, undone, 0, 1]))
        return taking(seq, key, scope=scope, instead_of=instead, undone=counted)

    @staticmethod
    def _requests(run: RunRecord, seqs: st.SearchStrategy[int]) -> st.SearchStrategy[RequestRecord]:
        def asked(seq: int, attempt: int, at: int, expires_at: int | None) -> RequestRecord:
            name = f"{run.run_id}/{seq}/{attempt}"
            return replace(asking(name, seq, attempt), created_at=at, expires_at=expires_at)

        return st.builds(asked, seqs, _ATTEMPTS, TIMES, st.none() | TIMES)
