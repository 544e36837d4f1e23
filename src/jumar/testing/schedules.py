"""A schedule explorer: two workers and an operator on one run, in every order.

The world is one run with one external call, as small as it can be and still go wrong.  Each worker is a driver in
miniature: it acts on what it has seen, and sees only what its own claims and advances answer, so between any two of
its steps everything may have changed.  Its steps are: claim the run, renew the lease, make the next advance, send the
call (which the outside witness counts).  The operator orders a pause or the end, and answers the request about a call
that may have happened, truthfully.  Time passes as a step of its own: leases run out, and a run that waits wakes.

`explore` walks the tree of all orders to a depth, once for each state that it meets with so many steps left.  Every
change goes to the pure model and to a SQLite store side by side; both must answer the same and hold the same rows, and
after every step the laws below must hold.  From every state that is met it is also tried whether the run can still
come to its end (none is stranded): leases run out, the operator answers, and a worker goes on.

SQLite is taken back by savepoints, the model by keeping its rows, which are never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jumar.core.changes import Ack, Answer, Change, Claimed, Guard, Order, Refusal, Renew
from jumar.core.changes import Outcome as StoreOutcome
from jumar.core.phases import FINAL, UNASKED
from jumar.core.records import CallRecord, LeaseTime, RequestRecord, RunRecord
from jumar.core.states import CallState, Control, Status, Verdict, mask
from jumar.stores.clock import BOOT
from jumar.stores.sqlite.connection import MEMORY
from jumar.stores.sqlite.store import SQLiteStore
from jumar.stores.sqlite.tables import Undo
from jumar.stores.sqlite.writes import apply
from jumar.testing.conformance_scene import ANYTHING_UNFINISHED, AT, Scene
from jumar.testing.crash_clock import StoppedClock, stopped_clock
from jumar.testing.model import ModelStore
from jumar.testing.schedules_driver import RUN_NO, SEQ, TTL, Worker, again, ask, begin, next_step, request_of

BY_ITSELF = mask(*UNASKED)
_NAMES = ("A", "B")
_LONGEST_END = 24  # steps within which every run must come to its end


class Broken(AssertionError):
    """A law does not hold, or the stores disagree; the message tells the steps that led there."""


class Reversible(SQLiteStore):
    """A SQLite store in memory whose changes can be taken back, step by step."""

    def __init__(self) -> None:
        super().__init__(MEMORY)
        self._writer.execute("BEGIN")

    @contextmanager
    def taken_back(self) -> Iterator[None]:
        """Undo what is done in the block."""
        self._writer.execute("SAVEPOINT step")
        try:
            yield
        finally:
            self._writer.execute("ROLLBACK TO step")
            self._writer.execute("RELEASE step")

    def _transaction(self, changes: Sequence[Change], wait: bool) -> list[StoreOutcome | Exception]:
        self._writer.execute("SAVEPOINT change")
        try:
            return [apply(self._writer, change) for change in changes]
        except Undo:
            self._writer.execute("ROLLBACK TO change")
            raise
        finally:
            self._writer.execute("RELEASE change")


class State(Struct, frozen=True):
    """All that is not in the stores: what the two workers know, and how often the call was carried out."""

    workers: tuple[Worker | None, Worker | None] = (None, None)
    carried_out: int = 0
    said_not_happened: bool = False


Step = tuple[str, int]  # what is done, and by which worker


class Explorer:
    """One exploration; `states` and `steps` count what it has seen."""

    def __init__(self, clock: StoppedClock) -> None:
        self.clock = clock
        self._began = clock.ms
        self.model = ModelStore(lambda: LeaseTime(BOOT, clock.ms))
        self.sqlite = Reversible()
        self.states = 0
        self.steps = 0
        self._seen: dict[Any, int] = {}
        self._path: list[Step] = []

    # --- Walking. ---

    def walk(self, state: State, depth: int) -> None:
        """Everything that can happen from here within so many steps."""
        key = self._key(state)
        if self._seen.get(key, -1) >= depth:
            return
        if key not in self._seen:
            self.states += 1
            self._comes_to_its_end(state)
        self._seen[key] = depth
        if depth == 0:
            return
        for step in self._possible(state):
            with self.tried(step):
                self.walk(self.take(step, state), depth - 1)

    @contextmanager
    def tried(self, step: Step) -> Iterator[None]:
        """Take a step back when the block ends."""
        runs, taken, ms = list(self.model._runs), self.model._taken, self.clock.ms
        self._path.append(step)
        with self.sqlite.taken_back():
            yield
        self._path.pop()
        self.model._runs, self.model._taken, self.clock.ms = runs, taken, ms

    def take(self, step: Step, state: State) -> State:
        """One step, in both stores; the laws are checked."""
        self.steps += 1
        before = self.run
        old = self.call
        after = _STEPS[step[0]](self, state, step[1])
        self._check(state, after, before, old)
        return after

    def _possible(self, state: State) -> list[Step]:
        steps: list[Step] = [("expire", 0), ("pause", 0), ("cancel", 0)]
        request = self.request
        if request is not None and request.verdict is None:
            steps.append(("answer", 0))
        for who, worker in enumerate(state.workers):
            steps.append(("claim", who))
            if worker is None:
                continue
            steps.append(("renew", who))
            if next_step(worker) is not None:
                steps.append(("advance", who))
            if self._may_send(worker):
                steps.append(("send", who))
        return steps

    def _may_send(self, worker: Worker) -> bool:
        started = worker.call is not None and worker.call.state is CallState.STARTED
        return started and not worker.sent and self.clock.ms < worker.sent_by

    def _comes_to_its_end(self, state: State) -> None:
        """From here on only good things happen: does the run end, and was the call carried out as often as it says?"""
        with self.tried(("finish", 1)):
            for _ in range(_LONGEST_END):
                run = self.run
                if run.status in FINAL:
                    break
                state = self.take(self._good_step(state), state)
            else:
                raise self.broken("the run never comes to its end")
            if self.run.status is Status.COMPLETED and state.carried_out != 1:
                raise self.broken(f"the run is completed, and its call was carried out {state.carried_out} times")

    def _good_step(self, state: State) -> Step:
        """What a world that is well again does next: the second worker drives the run."""
        request, worker = self.request, state.workers[1]
        if request is not None and request.verdict is None and self.run.owner is None:
            return "answer", 0
        if worker is None or worker.epoch != self.run.epoch or self.run.status is not Status.RUNNING:
            return ("expire", 0) if self.run.owner is not None and self._is_live() else ("claim", 1)
        if self._may_send(worker):
            return "send", 1
        if next_step(worker) is None or not self._is_live():
            return ("expire", 0) if self._is_live() else ("claim", 1)
        return "advance", 1

    # --- What both stores hold. ---

    @property
    def run(self) -> RunRecord:
        """The run as it stands."""
        return self.model._runs[0].record

    @property
    def call(self) -> CallRecord | None:
        """Its one call."""
        return self.model._runs[0].calls.get(SEQ)

    @property
    def request(self) -> RequestRecord | None:
        """The request about its latest attempt."""
        attempt = 0 if self.call is None else self.call.attempt
        return next((each for each in self.model._runs[0].requests if each.attempt == attempt), None)

    @property
    def wall(self) -> int:
        """The wall clock, in milliseconds."""
        return AT + self.clock.ms - self._began

    def _is_live(self) -> bool:
        return self.run.owner is not None and self.run.lease_until > self.clock.ms

    def write(self, change: Change) -> StoreOutcome:
        """One change, in both; they must answer the same."""
        one, other = self.model.write([change])[0], self.sqlite.write([change])[0]
        if isinstance(one, Refusal) and isinstance(other, Refusal):
            if (one.guard, one.run) != (other.guard, other.run):
                raise self.broken(f"the model refuses by {one.guard}, SQLite by {other.guard}")
            return one
        if one != other or isinstance(one, Exception):
            raise self.broken(f"the model answers {one}, SQLite {other}")
        return one

    # --- The laws. ---

    def _check(self, state: State, after: State, before: RunRecord, old: CallRecord | None) -> None:
        run, now = self.run, self.call
        if self.sqlite.run(run.run_id) != run or self.sqlite.calls(RUN_NO) != ([] if now is None else [now]):
            raise self.broken("the stores hold different rows")
        if self.sqlite.requests(RUN_NO) != self.model.requests(RUN_NO):
            raise self.broken("the stores hold different requests")
        if (run.version, run.epoch) < (before.version, before.epoch) or run.version > before.version + 1:
            raise self.broken("a version or an epoch was given twice")
        if after.carried_out > 1:
            raise self.broken(f"the call was carried out {after.carried_out} times")
        if now is None:
            return
        if old is not None and old.state is CallState.SUCCEEDED and now != old:
            raise self.broken("a confirmed call was changed")
        if now.state is CallState.STARTED and (run.status is not Status.RUNNING or now.epoch < run.epoch):
            raise self.broken("a call is STARTED under an epoch that is over, or in a run that is not RUNNING")
        if run.status is Status.WAITING and self.request is not None and self.request.verdict is not None:
            raise self.broken("the run waits for an answer that is there")
        if run.status is Status.COMPLETED and before.status is not Status.COMPLETED and before.control:
            raise self.broken("an order was overlooked")

    def broken(self, what: str) -> Broken:
        """The error, with the way that led to it."""
        way = ", ".join(f"{name} {_NAMES[who]}" for name, who in self._path)
        return Broken(f"{what}; after {way}")

    def _key(self, state: State) -> Any:
        """What two states must share to be one: times count by how far off they are, and traces do not."""
        rows = self.model._runs[0]
        record = rows.record
        run = replace(
            record,
            lease_until=max(0, record.lease_until - self.clock.ms),
            wake_at=None if record.wake_at is None else max(0, record.wake_at - self.wall),
            updated_at=0,
        )
        workers = tuple(
            None if each is None else replace(each, sent_by=max(0, each.sent_by - self.clock.ms), wakes_at=0)
            for each in state.workers
        )
        return run, tuple(rows.calls.values()), tuple(rows.requests), replace(state, workers=workers)


# --- The steps. ---


def _claim(explorer: Explorer, state: State, who: int) -> State:
    """The first worker takes only what goes on by itself; the second is a person's resume.  Neither waits."""
    by_hand = bool(who)
    change = Scene(explorer.model).claim(
        explorer.run,
        _owner(who, explorer.run.epoch + 1),
        ttl_ms=TTL,
        at=explorer.wall,
        statuses=ANYTHING_UNFINISHED if by_hand else BY_ITSELF,
        resumes=by_hand,
    )
    outcome = explorer.write(change)
    if not isinstance(outcome, Claimed):
        return state
    return _knows(state, who, _informed(explorer, outcome.run))


def _informed(explorer: Explorer, run: RunRecord, worker: Worker | None = None) -> Worker:
    """A worker that has read the run again; what it knows of its own call it keeps."""
    request = explorer.request
    return Worker(
        epoch=run.epoch,
        version=run.version,
        control=run.control,
        answers=run.answers,
        call=explorer.call if worker is None else worker.call,
        verdict=None if request is None else request.verdict,
        asked=request is not None,
        sent=worker is not None and worker.sent,
        sent_by=0 if worker is None else worker.sent_by,
    )


def _owner(who: int, epoch: int) -> str:
    return f"{_NAMES[who]}/{epoch}"


def _knows(state: State, who: int, worker: Worker | None) -> State:
    workers = (worker, state.workers[1]) if who == 0 else (state.workers[0], worker)
    return replace(state, workers=workers)


def _renew(explorer: Explorer, state: State, who: int) -> State:
    worker = state.workers[who]
    assert worker is not None
    change = Renew(run_no=RUN_NO, owner=_owner(who, worker.epoch), epoch=worker.epoch, ttl_ms=TTL)
    outcome = explorer.write(change)
    if not isinstance(outcome, Ack):
        return _knows(state, who, None)  # the lease is lost, and the driver stops
    return _knows(state, who, replace(worker, control=Control(outcome.control)))


def _make_advance(explorer: Explorer, state: State, who: int) -> State:
    worker = state.workers[who]
    assert worker is not None
    kind = next_step(worker)
    assert kind is not None
    worker = replace(worker, wakes_at=explorer.wall + TTL)
    change = kind(worker, _owner(who, worker.epoch))
    outcome = explorer.write(change)
    if isinstance(outcome, Refusal):
        if outcome.guard is Guard.NEWS:  # the driver looks again and goes on
            return _knows(state, who, _informed(explorer, explorer.run, worker))
        return _knows(state, who, None)
    assert isinstance(outcome, Ack)
    if change.ending is not None:
        return _knows(state, who, None)
    sent_by = explorer.clock.ms + TTL if kind in (begin, again) else worker.sent_by
    return _knows(
        state,
        who,
        replace(
            worker,
            version=outcome.version,
            control=Control(outcome.control),
            call=explorer.call,
            asked=kind is ask or (worker.asked and kind is not again),
            verdict=None if kind is again else worker.verdict,
            sent=False if kind in (begin, again) else worker.sent,
            sent_by=sent_by,
        ),
    )


def _send(explorer: Explorer, state: State, who: int) -> State:
    worker = state.workers[who]
    assert worker is not None
    return _knows(replace(state, carried_out=state.carried_out + 1), who, replace(worker, sent=True))


def _expire(explorer: Explorer, state: State, who: int) -> State:
    explorer.clock.move(TTL / 1000)
    return state


def _order(control: Control) -> Callable[[Explorer, State, int], State]:
    def give(explorer: Explorer, state: State, who: int) -> State:
        explorer.write(Order(run_id=explorer.run.run_id, control=control, at=AT, by="kim"))
        return state

    return give


def _answer(explorer: Explorer, state: State, who: int) -> State:
    """The truth, as far as it is known: a call that may still be on its way is not said not to have happened."""
    happened = state.carried_out > 0
    if not happened and any(each is not None and explorer._may_send(each) for each in state.workers):
        return state
    explorer.write(
        Answer(
            run_no=RUN_NO,
            request_id=request_of(explorer.call.attempt if explorer.call is not None else 0),
            verdict=Verdict.HAPPENED if happened else Verdict.NOT_HAPPENED,
            value=b'"paid"' if happened else None,
            by="kim",
            note=None,
            at=AT,
        )
    )
    return state


_STEPS: dict[str, Callable[[Explorer, State, int], State]] = {
    "claim": _claim,
    "renew": _renew,
    "advance": _make_advance,
    "send": _send,
    "expire": _expire,
    "pause": _order(Control.PAUSE),
    "cancel": _order(Control.CANCEL),
    "answer": _answer,
}

# Where an exploration may begin, by the steps that lead there from a run that was just started.
BEGINNINGS: dict[str, tuple[Step, ...]] = {
    "queued": (),
    "under way": (("claim", 0), ("advance", 0)),
    "taken over": (("claim", 0), ("advance", 0), ("send", 0), ("expire", 0), ("claim", 1), ("advance", 1)),
    "waiting": (*(("claim", 0), ("advance", 0), ("expire", 0), ("claim", 1), ("advance", 1), ("advance", 1)),),
}


def explore(beginning: str, depth: int) -> tuple[int, int]:
    """Every order of steps to this depth from one of `BEGINNINGS`; how many states and steps there were.  `Broken`
    tells the steps that led to what must not be.
    """
    with stopped_clock() as clock:
        explorer = Explorer(clock)
        create = Scene(explorer.model).create()
        explorer.write(create)
        state = State()
        for step in BEGINNINGS[beginning]:
            explorer._path.append(step)
            state = explorer.take(step, state)
        try:
            explorer.walk(state, depth)
        finally:
            explorer.sqlite.close()
        return explorer.states, explorer.steps
