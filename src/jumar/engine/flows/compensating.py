"""Undoing one call that acted outside: a call of its own, recorded as any other.

It stands in the place of the original (its branch, step and tool), has the original's id as its key, and gets what the
original returned, then the arguments that it was sent with.  That it succeeded and that the original is COMPENSATED
come to disk in one advance, in which the name of the action, where it has one, becomes free again and counts as undone
once more.

What fails, and what may have happened without anybody knowing, is not guessed at: somebody is asked whether to try
again or to leave it, or says that it has happened.  So is somebody before anything is sent, where another run was
given the original's result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import copy_context
from functools import wraps
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from jumar.core import exceptions
from jumar.core.approvals import newest_yes
from jumar.core.changes import CallChange
from jumar.core.checksums import call_agrees, call_checksum, failure_bytes
from jumar.core.codec import codec_for, digest
from jumar.core.failures import backoff
from jumar.core.limits import INLINE_BYTES
from jumar.core.naming import request_id, undo_id
from jumar.core.records import CallRecord, EventRecord, Failure, RequestRecord, RunRecord
from jumar.core.replay import BranchTable
from jumar.core.requests import Attempt, Flow, Sleep
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, EventKind, RequestKind, Verdict
from jumar.core.store import Store
from jumar.core.triggers import retries
from jumar.core.uncertain import Ended, Judgement, judge
from jumar.engine.flows.advance import advance
from jumar.engine.flows.calls import Call
from jumar.engine.flows.effects import invoke
from jumar.engine.flows.outcomes import failure_of, how_ended, load, new_record
from jumar.engine.halting import Wait
from jumar.engine.live import LiveRun
from jumar.engine.logs import INFO, WARNING, log
from jumar.engine.policy import ToolPolicy
from jumar.engine.scope import Branch
from jumar.errors import IntegrityError, NotStorable, UsageError

Undoers = Callable[[str], "ToolPolicy | None"]  # the tools that are known, by their names

_NOTHING = b"null"
_ANY = codec_for(Any)


class Compensation(Struct, frozen=True):
    """How one original was dealt with: undone, left as it is (and `why`), or (with a `wait`) neither yet."""

    undone: bool = False
    wait: Wait | None = None
    why: str = ""


def compensate(
    live: LiveRun, original: CallRecord, record: CallRecord | None, undoers: Undoers, *, waits: bool
) -> Flow[Compensation]:
    """Undo a call, or go on with what an earlier process began of it (`record`).  `waits` where tasks are awaited.

    UsageError where its tool, or the tool's compensation, is not known here.
    """
    if record is not None and record.state is CallState.SUCCEEDED:
        return Compensation(undone=True)
    if record is not None and record.state is CallState.FAILED:
        return Compensation(why="" if record.failure is None else record.failure.message)
    policy = undoers(original.tool)
    if policy is None or policy.compensate is None:
        raise _unknown(original, policy)
    call = _call(live, original, record, policy, waits=waits)
    asked = yield from _asked(call)
    if asked is not None and asked.verdict is None:
        return _waits_for_somebody(call)
    if asked is not None and asked.verdict is Verdict.REJECT:
        return (yield from _left(call, asked))
    if asked is not None and asked.verdict is Verdict.HAPPENED:
        yield from _record(call, asked.attempt, None, live.wall())
        return Compensation(undone=True)
    made = 0 if record is None else record.attempt
    if record is None:
        call.seq = live.take_numbers(1)
        if (yield from _is_shared(live, original)):
            return (yield from _ask(call, 0, CallState.PLANNED, None, new=True))
    elif asked is None and record.state is CallState.UNCERTAIN and original.effect is not Effect.IDEMPOTENT:
        return (yield from _ask(call, made, CallState.UNCERTAIN, record.failure, new=False))
    try:
        yield from _fill(call, policy)
    except (NotStorable, IntegrityError, UsageError) as error:  # what is recorded is not what the code of now takes
        failure = exceptions.failure_of(error, ErrorClass.PERMANENT, ())
        return (yield from _ask(call, made + 1, CallState.PLANNED, failure, new=record is None))
    return (yield from _make(call, made + 1, new=record is None))


# --- The call. -------------------------------------------------------------------------------------------------------


def _call(live: LiveRun, original: CallRecord, record: CallRecord | None, policy: ToolPolicy, *, waits: bool) -> _Call:
    """The compensation as a call, but for what it is sent with."""
    body = policy.compensate
    assert body is not None
    own = replace(
        policy,
        kind=CallKind.COMPENSATION,
        effect=original.effect,
        approval=False,
        identity=None,
        probe=None,
        paths=(),
        verify=None,
        threaded=waits and not inspect.iscoroutinefunction(body),
    )
    call = _Call(live, own, body if waits else _plain(body), (), {}, original.args or b"", original.call_id)
    call.original = original
    call.args_digest = call.effective = original.args_digest
    call.branch = Branch(original.branch, BranchTable(), live.root)
    call.step, call.ordinal, call.call_id = original.step, original.ordinal, undo_id(original.call_id)
    call.seq = 0 if record is None else record.seq
    call.record = record
    return call


class _Call(Call):
    """The call that undoes `original`."""

    __slots__ = ("original",)
    original: CallRecord


def _first(call: _Call, state: CallState, attempt: int) -> CallRecord:
    """The first record of a compensation; its arguments are kept where the original's are."""
    record, _ = new_record(call, state, attempt)
    return replace(record, args=call.original.args, args_artifact=call.original.args_artifact)


def _fill(call: _Call, policy: ToolPolicy) -> Flow[None]:
    """What the original returned, and the typed arguments that it was sent with, for the compensation."""
    original = call.original
    if not call_agrees(original):
        raise IntegrityError(f"the record of call {original.call_id} does not agree with its checksum")
    data = original.result
    if data is None and original.result_artifact is not None:
        data = yield from _artifact(call.live, original, original.result_artifact)
    assert policy.arguments is not None and data is not None
    sent = original.args
    if sent is None and original.args_artifact is not None:
        sent = yield from _artifact(call.live, original, original.args_artifact)
    run = call.live.run
    yes = newest_yes((yield from load(call.live, lambda store: _asked_of(store, run, original))))
    if yes is not None and yes.value is not None:
        sent = yes.value
    assert sent is not None
    args, kwargs, canonical = policy.arguments(sent)
    call.effective = digest(canonical)
    call.args, call.kwargs = (policy.codec.decode(data), *args), kwargs


def _asked_of(store: Store, run: RunRecord, call: CallRecord) -> list[RequestRecord]:
    """What was asked about a call; of a fork's copy, in the run that made it."""
    made: CallRecord | None = call
    while made is not None and made.epoch == 0 and run.forked_from is not None:
        source = store.run(run.forked_from)
        if source is None:
            break
        run, made = source, store.call(source.run_no, call.seq)
    return store.requests(run.run_no, call.seq)


def _artifact(live: LiveRun, original: CallRecord, name: bytes) -> Flow[bytes]:
    run_no = live.run.run_no
    data = yield from load(live, lambda store: store.artifact(run_no, name))
    if data is None or digest(data) != name:
        raise IntegrityError(f"an artifact of call {original.call_id} is missing or damaged")
    return data


def _unknown(original: CallRecord, policy: ToolPolicy | None) -> UsageError:
    what = f"no tool {original.tool} is known here" if policy is None else f"{original.tool} has no compensation here"
    return UsageError(
        f"call {original.call_id} is to be undone, and {what}",
        safe="The rollback is under way and stands where it is; nothing else is done with the run before it is "
        "finished.",
        hint="Finish it with the code that has the tool (--app MODULE:HARNESS).",
    )


def _plain(body: Callable[..., Any]) -> Callable[..., Any]:
    """A compensation that a plain driver can run: an async one gets an event loop of its own."""
    if not inspect.iscoroutinefunction(body):
        return body

    @wraps(body)
    def awaited(*args: Any, **kwargs: Any) -> Any:
        import asyncio

        if asyncio._get_running_loop() is None:
            return asyncio.run(body(*args, **kwargs))
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1, "jumar-undo") as aside:  # this thread has a loop that it does not run meanwhile
            context = copy_context()
            return aside.submit(context.run, lambda: asyncio.run(body(*args, **kwargs))).result()

    # Else it would still be taken for an async function.
    awaited.__dict__.pop("__wrapped__", None)
    return awaited


def _asked(call: Call) -> Flow[RequestRecord | None]:
    """What is asked about the newest attempt."""
    run_no, seq, record = call.live.run.run_no, call.seq, call.record
    if record is None:
        return None
    found = yield from load(call.live, lambda store: store.requests(run_no, seq))
    return next(
        (each for each in found if (each.kind, each.attempt) == (RequestKind.UNDO, record.attempt)),
        None,
    )


def _is_shared(live: LiveRun, original: CallRecord) -> Flow[bool]:
    """Whether another run counts on what the original did; of a fork's copy that is the one it was made from."""
    if original.epoch == 0 and live.run.forked_from is not None:
        return True
    run_no, seq = live.run.run_no, original.seq
    return (yield from load(live, lambda store: store.shared(run_no, seq)))


# --- Making it. ------------------------------------------------------------------------------------------------------


def _make(call: _Call, attempt: int, *, new: bool) -> Flow[Compensation]:
    """Send it, again after what passes while its retries last, and record how that ended."""
    live, policy, original = call.live, call.policy, call.original
    most = retries(live.settings.triggers, policy.effect, in_step=False) if policy.retries is None else policy.retries
    last = max(attempt, 1 + most)
    while True:
        ended = yield from _sent(call, attempt, new=new)
        new = False
        if ended is not None and ended.error is None and not ended.timed_out:
            yield from _record(call, attempt, ended.value, ended.ended_at)
            return Compensation(undone=True)
        error = None if ended is None else ended.error
        if error is not None and not isinstance(error, Exception):
            raise error  # the process is being stopped; what was sent is left as a crash would leave it
        if ended is None:
            how, sorted_error, failure = Ended.NOT_SENT, None, _NOT_SENT
        else:
            how, sorted_error = how_ended(call, ended, live.wall())
            failure = failure_of(call, how, sorted_error, error)
        judgement = judge(policy.effect, how)
        why = f"{failure.type_name}: {failure.message}"
        log(WARNING, live.run_id, call.call_id, "attempt %d to undo %s failed (%s)", attempt, original.call_id, why)
        if judgement is Judgement.UNCERTAIN:
            return (yield from _ask(call, attempt, CallState.UNCERTAIN, failure, new=False))
        if judgement is Judgement.FAILED or attempt >= last:
            return (yield from _ask(call, attempt, CallState.PLANNED, failure, new=False))
        yield from advance(live, changes=(_change(call, attempt, CallState.PLANNED, failure),))
        wait = yield from _pause(call, attempt, None if sorted_error is None else sorted_error.retry_after)
        if wait is not None:
            return Compensation(wait=wait)
        attempt += 1


_NOT_SENT = Failure("NotApplied", "it was not sent: its deadline for being sent had passed", ErrorClass.TRANSIENT)


def _sent(call: _Call, attempt: int, *, new: bool) -> Flow[Attempt | None]:
    """Commit STARTED and run the body; None where it must not be sent any more."""
    live = call.live
    live.before_dispatch()
    dispatch_by, wall = live.clock() + live.settings.dispatch_ms, live.wall()
    told = (EventRecord(EventKind.CALL_STARTED, wall, call.seq, live.epoch, f"attempt {attempt}"),)
    if new:
        record = _first(call, CallState.STARTED, attempt)
        record = replace(record, boot=live.run.boot, dispatch_by=dispatch_by, started_at=wall)
        yield from advance(live, calls=(record,), events=told)
    else:
        change = replace(
            _change(call, attempt, CallState.STARTED, None),
            boot=live.run.boot,
            dispatch_by=dispatch_by,
            started_at=wall,
        )
        yield from advance(live, changes=(change,), events=told)
    if live.clock() > dispatch_by:
        return None
    return (yield from invoke(call, attempt))


def _pause(call: Call, attempt: int, asked: float | None) -> Flow[Wait | None]:
    from random import random  # a retry is rare, and `import jumar` is not

    live = call.live
    seconds = backoff(attempt, asked, random())
    if seconds > live.settings.lease_ttl:
        return Wait(f"{call.call_id} is tried again later", None, live.wall() + int(seconds * 1000))
    yield from Sleep(seconds)
    return None


def _change(call: Call, attempt: int, state: CallState, failure: Failure | None) -> CallChange:
    return CallChange(
        seq=call.seq,
        state=state,
        attempt=attempt,
        epoch=call.live.epoch,
        failure=failure,
        checksum=call.checksum(state, failure=failure),
    )


def _record(call: _Call, attempt: int, value: Any, ended_at: int) -> Flow[None]:
    """That the original is undone, and what its compensation returned, where that is short plain data."""
    live, original = call.live, call.original
    try:
        data = _ANY.encode(value)
    except NotStorable:
        data = _NOTHING
    data = data if len(data) <= INLINE_BYTES else _NOTHING
    done = replace(
        _change(call, attempt, CallState.SUCCEEDED, None),
        result=data,
        ended_at=ended_at,
        checksum=call.checksum(CallState.SUCCEEDED, data),
    )
    frees = () if original.identity is None else (original.seq,)
    event = EventRecord(EventKind.COMPENSATED, live.wall(), original.seq, live.epoch, "")
    yield from advance(live, changes=(done, _compensated(original)), frees=frees, events=(event,))
    log(INFO, live.run_id, original.call_id, "the call is undone")


def _compensated(original: CallRecord) -> CallChange:
    state, result = CallState.COMPENSATED, original.result
    checksum = call_checksum(
        original.call_id,
        original.args_digest,
        original.kind,
        original.effect,
        state,
        result if result is not None else original.result_artifact,
        failure_bytes(original.failure),
    )
    return CallChange(
        seq=original.seq,
        state=state,
        attempt=original.attempt,
        epoch=original.epoch,
        failure=original.failure,
        over_at=original.over_at,
        ended_at=original.ended_at,
        checksum=checksum,
    )


# --- Asking. ---------------------------------------------------------------------------------------------------------


def _ask(call: _Call, made: int, state: CallState, failure: Failure | None, *, new: bool) -> Flow[Compensation]:
    """Ask somebody whether to try (again) or to leave it, after `made` attempts."""
    live, at = call.live, call.live.wall()
    identifier = request_id(live.run_id, call.seq, made, RequestKind.UNDO)
    request = RequestRecord(identifier, call.seq, call.call_id, made, RequestKind.UNDO, at)
    event = EventRecord(EventKind.REQUESTED, at, call.seq, live.epoch, RequestKind.UNDO.label)
    if new:
        record = replace(_first(call, state, made), failure=failure, checksum=call.checksum(state, failure=failure))
        yield from advance(live, calls=(record,), requests=(request,), events=(event,))
    else:
        change = _change(call, made, state, failure)
        yield from advance(live, changes=(change,), requests=(request,), events=(event,))
    return _waits_for_somebody(call)


def _waits_for_somebody(call: Call) -> Compensation:
    return Compensation(wait=Wait(f"somebody is to say what becomes of {call.call_id}", call.call_id))


def _left(call: Call, answer: RequestRecord) -> Flow[Compensation]:
    """Somebody has said to leave the original as it is."""
    assert call.record is not None
    note = f": {answer.note}" if answer.note else ""
    failure = Failure("NotUndone", f"{answer.by or 'somebody'} left it as it is{note}", ErrorClass.PERMANENT)
    change = replace(_change(call, call.record.attempt, CallState.FAILED, failure), ended_at=call.live.wall())
    yield from advance(call.live, changes=(change,))
    return Compensation(why=failure.message)
