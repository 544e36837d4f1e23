"""Making the calls that a decision has planned.

They go out side by side, each in a branch of its own, and a call that fails is a result like any other.  One that must
wait for somebody keeps no other of them from going out: what needs an approval is asked for first, then everything goes
out that surely need not wait, then whatever may, one after the other.  Only when all of that has settled does the run
wait, for the earliest of what it waits for.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jumar.core.call_states import ENDED
from jumar.core.open_requests import newest
from jumar.core.requests import Attempt, Fan, Flow, Invoke
from jumar.core.states import CallState, Effect, Phase, RequestKind
from jumar.engine.flows.asking import ask_for
from jumar.engine.flows.calls import Call, perform
from jumar.engine.flows.outcomes import load
from jumar.engine.flows.planning import LoopPlan, Opened
from jumar.engine.live import LiveRun
from jumar.engine.scope import Scope
from jumar.errors import PathRefused, Stopped


def act(live: LiveRun, plan: LoopPlan, opened: Opened) -> Flow[None]:
    """Make the calls still to be made.  Raises Stopped where the run must wait for one, or go on elsewhere."""
    calls = opened.calls
    if not calls:
        return
    if len(calls) == 1:
        calls[0].phase_after = Phase.RESULTS_RECORDED
        failed = yield from _one(calls[0])
    else:
        # From here on every advance says so: with several calls on their way, none knows which comes to disk first.
        live.phase = Phase.AWAITING_RESULTS
        failed = yield from _all(live, plan, calls)
    if failed:
        yield from _check_recorded(live, opened.seq, failed)


class _Failed(Struct):
    call: Call
    error: Exception


def _all(live: LiveRun, plan: LoopPlan, calls: list[Call]) -> Flow[list[_Failed]]:
    for call in calls:
        yield from _ask_first(call)
    answered = yield from _answered(live, calls)
    earlier = _in_turn(calls)
    at_once = [call for call in calls if call.seq not in earlier and _need_not_wait(call, answered)]
    branches = [call.branch for call in calls if call.branch is not None]
    for branch in branches:
        branch.is_item = True  # what one of the calls waits for stops none of the others
    failed = yield from _side_by_side(live, plan, at_once)
    for call in calls:
        if call not in at_once:
            if any(other.branch is not None and other.branch.wait is not None for other in earlier.get(call.seq, ())):
                continue  # it comes after a call that waits, and the run waits for that
            live.check()
            failed += yield from _one_of_several(call)
    for branch in branches:
        if (wait := live.settled(branch)) is not None:
            live.wait(wait)
    live.check()
    return failed


def _in_turn(calls: list[Call]) -> dict[int, list[Call]]:
    """Writes that overlap earlier ones of their decision, by number, with those: they go out after them, in the order
    of the decision, since that is what it means.
    """
    if sum(call.policy.effect is Effect.WRITE for call in calls) < 2:
        return {}
    from jumar.core.held_paths import held_paths, overlapping
    from jumar.engine.flows.writing import declared

    before: list[tuple[Call, tuple[bytes, ...]]] = []
    found: dict[int, list[Call]] = {}
    for call in calls:
        if call.policy.effect is not Effect.WRITE:
            continue
        try:
            paths = held_paths(declared(call))
        except PathRefused:
            continue
        others = [other for other, theirs in before if overlapping(paths, theirs)]
        if others:
            found[call.seq] = others
        before.append((call, paths))
    return found


def _one_of_several(call: Call) -> Flow[list[_Failed]]:
    try:
        return (yield from _one(call))
    except Stopped as stopped:
        _check_own(call, stopped)
        return []


def _check_own(call: Call, stopped: BaseException) -> None:
    """Raise a stopping signal that is a tool's own: nobody stopped this run, and the call does not wait."""
    if call.live.halt is None and (call.branch is None or call.branch.wait is None):
        raise stopped


def _ask_first(call: Call) -> Flow[None]:
    """Ask for an approval that is surely needed, so that it can be given while the other calls go on."""
    record = call.record
    if not call.needs_yes or record is None or record.state is not CallState.PLANNED or record.attempt:
        return
    call.live.check()
    yield from ask_for(call, RequestKind.APPROVAL, 1, made=0, new=False)
    call.record = replace(record, state=CallState.AWAITING)


def _answered(live: LiveRun, calls: list[Call]) -> Flow[frozenset[int]]:
    """The numbers of those calls whose newest request is answered."""
    asking = [call.seq for call in calls if call.record is not None and call.record.state is CallState.AWAITING]
    if not asking:
        return frozenset()
    run_no = live.run.run_no
    found = yield from load(live, lambda store: [(seq, newest(store.requests(run_no, seq))) for seq in asking])
    return frozenset(seq for seq, request in found if request is not None and request.verdict is not None)


def _need_not_wait(call: Call, answered: frozenset[int]) -> bool:
    record = call.record
    assert record is not None
    if record.state is CallState.AWAITING:
        return call.seq in answered
    if call.needs_yes:
        return False
    return record.state is not CallState.UNCERTAIN or record.effect is not Effect.EXTERNAL


def _side_by_side(live: LiveRun, plan: LoopPlan, calls: list[Call]) -> Flow[list[_Failed]]:
    if len(calls) == 1:
        return (yield from _one_of_several(calls[0]))
    if not calls:
        return []
    live.check()
    requests = [
        Invoke(_body(plan, call), (), {}, Scope(live, call.branch or live.root, waits=plan.waits)) for call in calls
    ]
    ended: list[Attempt] = yield Fan(requests)
    failed = []
    for call, attempt in zip(calls, ended, strict=True):
        error = attempt.error
        if isinstance(error, Exception):
            failed.append(_Failed(call, error))
        elif isinstance(error, Stopped):
            _check_own(call, error)
        elif error is not None:
            raise error
    return failed


def _body(plan: LoopPlan, call: Call) -> Any:
    """What performs a call in a thread or task of its own."""
    io = call.live.io
    if not plan.waits:
        from jumar.engine.drivers.plain import drive

        return partial(_driven, drive, call, io)
    from jumar.engine.drivers.aio import adrive, adrive_in_turn

    return partial(_driven, adrive if plan.tools[call.policy.name].waits else adrive_in_turn, call, io)


def _driven(drive: Any, call: Call, io: Any) -> Any:
    return drive(perform(call), io)


def _one(call: Call) -> Flow[list[_Failed]]:
    try:
        yield from perform(call)
    except Exception as error:
        return [_Failed(call, error)]
    return []


def _check_recorded(live: LiveRun, decision: int, failed: list[_Failed]) -> Flow[None]:
    """A failure is a result once it is on record.  An error that is not is no call's: it ends the run."""
    run_no = live.run.run_no
    rows = yield from load(live, lambda store: store.calls(run_no, decision))
    ended = {row.seq for row in rows if row.state in ENDED}
    for each in failed:
        if each.call.seq not in ended:
            raise each.error
