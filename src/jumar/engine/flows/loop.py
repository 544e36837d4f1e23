"""A loop agent: decide, act, verify, stop.

The user's function decides; everything else is driven from here, over the table of phases.  A turn costs one commit for
its decision, which plans its calls, and what those calls cost.  Nothing is ever run again to find out where the run
stands: a run that is taken up reads its newest decision and the calls after it, and no more, however long it is.

- DECIDE: the function gets the view and answers a Decision, recorded with the calls it plans (`planning`).
- ACT: the calls go out side by side; each result, a failure included, is for the next decision to see (`acting`).
- VERIFY: an output is decoded as its type, and `verify` is asked about it.  A reason sends it back to the function.
- STOP: an accepted output ends the run.  Too many decisions, or too many refused outputs, fail it; its phase stays, so
  that it goes on once the limit is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from jumar.core import exceptions
from jumar.core.call_states import ENDED
from jumar.core.codec import codec_for
from jumar.core.lines import split
from jumar.core.naming import call_id as call_id_of
from jumar.core.naming import storable
from jumar.core.records import CallRecord, RunRecord
from jumar.core.requests import Attempt, Flow
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, Phase
from jumar.core.store import Store
from jumar.core.triggers import AFTER_PLANNING_STEP, BEFORE_PLANNING_STEP
from jumar.core.turns import (
    DECIDE,
    VERIFY,
    Limits,
    decision_of,
    refusals,
    turn_number,
    turn_path,
    verdict_of,
)
from jumar.engine.flows.acting import act
from jumar.engine.flows.calls import Call
from jumar.engine.flows.effects import make_read
from jumar.engine.flows.keeping import ready
from jumar.engine.flows.outcomes import load, raised, record_end, record_failure, replayed
from jumar.engine.flows.planning import LoopPlan, Opened, artifact, record_decision, taken_up
from jumar.engine.live import LiveRun
from jumar.engine.logs import WARNING, log
from jumar.engine.policy import ToolPolicy
from jumar.errors import IntegrityError, NotStorable, ReplayDiverged, StepsExhausted, UsageError, VerificationFailed

_encode = msgspec.json.Encoder().encode
_ANY = codec_for(Any)


class Views(Protocol):
    """What makes the view that each decision gets."""

    def at(self, task: Any, number: int, limits: Limits, brief: Callable[[], str] | None) -> Any:
        """The view of turn `number`; `brief` tells what happened before this process."""
        ...


def run_loop(live: LiveRun, plan: LoopPlan, views: Views, task: Any) -> Flow[Attempt]:
    """Drive a loop agent until it has an output, and answer how that ended, as if one body had done it all."""
    ended = Attempt()
    try:
        ended.value = yield from _Loop(live, plan, views, task).turns()
    except GeneratorExit:
        raise
    except BaseException as error:
        ended.error = error
    return ended


class _Rows(Struct):
    """What a run is taken up from: the rows of its newest turn, and, where that has no decision yet which would tell
    how many outputs were refused before it, the run's newest verification.
    """

    turn: list[CallRecord]
    verdict: CallRecord | None


def _newest(store: Store, run: RunRecord) -> _Rows:
    run_no = run.run_no
    if run.line:
        return _newest_of(split(run, store.calls(run_no))[0])
    last = store.last_call(run_no, CallKind.DECISION)
    if last is None:
        return _Rows([], None)
    is_decided = last.state is CallState.SUCCEEDED
    return _Rows(store.calls(run_no, last.seq), None if is_decided else store.last_call(run_no, CallKind.VALUE))


def _newest_of(calls: list[CallRecord]) -> _Rows:
    """The same of a run that was rolled back, from the calls on its line."""
    newest = {call.kind: call for call in calls}
    last = newest.get(CallKind.DECISION)
    if last is None:
        return _Rows([], None)
    is_decided = last.state is CallState.SUCCEEDED
    turn = [call for call in calls if call.seq >= last.seq]
    return _Rows(turn, None if is_decided else newest.get(CallKind.VALUE))


class _Loop:
    """One run of a loop agent in this process: `number` is the turn's, `refused` how many outputs were sent back."""

    def __init__(self, live: LiveRun, plan: LoopPlan, views: Views, task: Any) -> None:
        self.live = live
        self.plan = plan
        self.views = views
        self.task = task
        self.number = 1
        self.refused = 0
        self.brief: Callable[[], str] | None = None
        self.undecided: CallRecord | None = None  # a decision that has a row, and no answer yet

    def turns(self) -> Flow[Any]:
        """Turn after turn; answers the output that was accepted."""
        live = self.live
        if live.phase is Phase.IN_CODE:
            raise live.stop(_no_loop(live))
        opened = yield from self._taken_up()
        while True:
            live.check()
            if opened is None:
                opened = yield from self._decided()
            if opened.output is None:
                yield from act(live, self.plan, opened)
            elif (yield from self._is_accepted(opened)):
                return self.plan.output_codec.decode(opened.output)
            opened = None
            self.number += 1

    # --- Where the run stands. ---

    def _taken_up(self) -> Flow[Opened | None]:
        """The turn to go on with, its calls made; None where the next thing is a decision."""
        live = self.live
        if live.run.version == 0 and not live.recovered:
            return None
        run = live.run
        rows = yield from load(live, lambda store: _newest(store, run))
        if not rows.turn:
            self._recovered(0)
            return None
        live.go_on_after(rows.turn[-1].seq)
        first = rows.turn[0]
        self.number = self._sound(partial(turn_number, first.step))
        if first.state is not CallState.SUCCEEDED:
            self.undecided = first
            self.refused = self._sound(partial(refusals, rows.verdict))
            self._recovered(self.number - 1)
            return None
        return (yield from self._reopened(rows.turn))

    def _reopened(self, rows: list[CallRecord]) -> Flow[Opened | None]:
        """The newest turn, decided by an earlier process; what it planned is made before anything else."""
        live, first = self.live, rows[0]
        large = None
        if first.result_artifact is not None:
            large = yield from artifact(live, first.result_artifact)
        recorded = self._sound(partial(decision_of, first, lambda _: large or b""))
        self.refused = recorded.refused
        verdict = next((row for row in rows[1:] if row.kind is CallKind.VALUE), None)
        if live.phase is Phase.READY_TO_DECIDE:  # its output was sent back
            self.refused += 1
            self._recovered(self.number)
            self.number += 1
            return None
        opened = Opened(first.step, first.seq, recorded.output, [], verdict)
        if recorded.output is not None:
            self._recovered(self.number - 1)
            return opened
        doubts = [row for row in rows[1:] if row.state is CallState.UNCERTAIN and row.effect is not Effect.READ]
        for row in doubts:
            log(WARNING, live.run_id, row.call_id, "the call was sent, and whether it happened is not recorded")
        for row in rows[1:]:
            if row.kind is CallKind.TOOL and row.state not in ENDED:
                opened.calls.append((yield from taken_up(live, self.plan, row)))
        yield from act(live, self.plan, opened)
        run_no = live.run.run_no
        ended = (yield from load(live, lambda store: store.calls(run_no, first.seq))) if doubts else []
        now = {row.seq: row for row in ended}
        self._recovered(self.number, [(row, now[row.seq]) for row in doubts])
        self.number += 1
        return None

    def _recovered(self, turns: int, doubts: Any = ()) -> None:
        """The run goes on in this process, with so many turns on record; what is told of them is read when somebody
        asks for it, and is the same whenever that is.
        """
        if self.live.recovered:
            self.brief = partial(_told, self.live, turns + 1, self.live.next_number, doubts)

    def _sound(self, read: Any) -> Any:
        """What is read of a record; the run stops where it is damaged."""
        try:
            return read()
        except IntegrityError as error:
            raise self.live.stop(error) from error

    # --- Decide. ---

    def _decided(self) -> Flow[Opened]:
        live, plan = self.live, self.plan
        self._check_limits()
        live.step_index = self.number
        if self.undecided is None:
            yield from ready(live, AFTER_PLANNING_STEP, BEFORE_PLANNING_STEP)
            self._keep_start()
        limits = Limits(plan.max_steps - self.number + 1, plan.verify_limit - self.refused)
        view = self.views.at(self.task, self.number, limits, self.brief)
        policy = ToolPolicy(CallKind.DECISION, DECIDE, Effect.READ, _ANY, retries=plan.retries, timeout=plan.timeout)
        call = Call(live, policy, plan.decide, (view,), {}, b'{"turn":%d}' % self.number, None)
        record, self.undecided = self.undecided, None
        opened: Opened = yield from self._made(call, record, partial(record_decision, plan, self.refused))
        return opened

    def _keep_start(self) -> None:
        """The end of a turn and the start of the next are one version."""
        if self.number > 1:
            self.live.ride_checkpoint(AFTER_PLANNING_STEP, turn_path(self.number - 1), ())
        self.live.ride_checkpoint(BEFORE_PLANNING_STEP, turn_path(self.number), ())

    def _check_limits(self) -> None:
        """Fail the run where it has used up what it may: by an error that no call is to blame for."""
        plan = self.plan
        if self.refused >= plan.verify_limit:
            raise VerificationFailed(self._not_accepted())
        if self.number > plan.max_steps:
            steps = self.number - 1
            raise StepsExhausted(f"{plan.name} took {steps} step{'s' * (steps > 1)} without finishing")

    def _not_accepted(self) -> str:
        if self.refused == 1:
            return f"1 output of {self.plan.name} was not accepted"
        return f"{self.refused} outputs of {self.plan.name} were not accepted"

    def _made(self, call: Call, record: CallRecord | None, end: Any) -> Flow[Any]:
        """Make a read of this turn, or make it again where it has a row already."""
        live = self.live
        call.branch, call.step = live.root, turn_path(self.number)
        name = call.policy.name
        call.ordinal = 1 if record is None else record.ordinal
        call.call_id = call_id_of(call.step, name, call.ordinal, live.generation) if record is None else record.call_id
        if record is None:
            call.seq = live.take_numbers(1)
            return (yield from make_read(call, 1, new=True, record=end))
        call.seq, call.record = record.seq, record
        if record.state in ENDED:
            return (yield from replayed(call, record))  # a failure, in a run that was not asked to try again
        return (yield from make_read(call, record.attempt + 1, new=False, record=end))

    # --- Verify. ---

    def _is_accepted(self, opened: Opened) -> Flow[bool]:
        """Whether an output is one; where it is not, the reason is recorded and the run decides anew."""
        live, plan = self.live, self.plan
        assert opened.output is not None
        if live.phase is Phase.VERIFYING:
            return True
        reason: str | None = None
        output: Any = None
        try:
            output = plan.output_codec.decode(opened.output)
        except NotStorable as error:
            reason = error.what
        if reason is None and plan.verify is None:
            return True
        policy = ToolPolicy(
            CallKind.VALUE,
            VERIFY,
            Effect.READ,
            _ANY,
            retries=plan.retries,
            timeout=plan.timeout,
            threaded=plan.waits and reason is None,
        )
        body = (lambda _: reason) if plan.verify is None or reason is not None else plan.verify
        call = Call(live, policy, body, (output,), {}, b'{"number":%d}' % (self.refused + 1), None)
        verdict: str | None = yield from self._made(call, opened.verdict, record_verdict)
        if verdict is None:
            return True
        self.refused += 1
        if self.refused >= plan.verify_limit:
            raise VerificationFailed(f"{self._not_accepted()}{'; the last' * (self.refused > 1)}: {verdict}")
        return False


def record_verdict(
    call: Call, attempt: int, value: Any, started_at: int, ended_at: int, *, new: bool
) -> Flow[str | None]:
    """Record what `verify` said: the reason why an output is sent back, or None where it is accepted."""
    if not isinstance(value, (bool, str)):
        error = UsageError(
            f"verify returned {type(value).__name__}",
            safe="The output is recorded.",
            hint="It returns True, or the reason why not as a text.",
        )
        failure = exceptions.failure_of(error, ErrorClass.PERMANENT, ())
        yield from record_failure(call, attempt, failure, started_at, ended_at, new=new)
        raise raised(call, failure)
    data = _ANY.encode(storable(value) if isinstance(value, str) else value)
    reason = verdict_of(data)
    call.phase_after = Phase.VERIFYING if reason is None else Phase.READY_TO_DECIDE
    through = () if reason is None else (Phase.VERIFYING,)
    yield from record_end(
        call, CallState.SUCCEEDED, attempt, data, None, None, started_at, ended_at, new=new, through=through
    )
    return reason


def _told(live: LiveRun, turn: int, until: int, doubts: Any) -> str:
    """What happened before decision `turn`, in the calls with numbers before `until`, for a model."""
    from jumar.engine.flows.briefing import loop_brief  # which a run that nobody interrupts never loads

    return loop_brief(live, turn, until, doubts)


def _no_loop(live: LiveRun) -> ReplayDiverged:
    return ReplayDiverged(
        f"run {live.run_id} was recorded by a function agent, and {live.run.agent} is a loop agent now",
        recorded="calls of a function agent",
        asked="decisions of a loop agent",
    )


def no_function(live: LiveRun) -> ReplayDiverged:
    """The error for a run of a loop agent that a function agent is to take up."""
    return ReplayDiverged(
        f"run {live.run_id} was recorded by a loop agent, and {live.run.agent} is a function agent now",
        recorded="decisions of a loop agent",
        asked="calls of a function agent",
    )
