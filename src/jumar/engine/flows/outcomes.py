"""From how a body ended to what is recorded, and from what is recorded to what the agent gets.

The agent gets the same live and on replay: the decoded stored value, or an exception rebuilt from the stored failure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from jumar.core import exceptions
from jumar.core.changes import Ack, CallChange
from jumar.core.checksums import call_agrees
from jumar.core.codec import codec_for, digest
from jumar.core.failures import classify, short_message
from jumar.core.leaving import rejection
from jumar.core.limits import INLINE_BYTES, check_size
from jumar.core.records import Artifact, CallRecord, Failure, RequestRecord, Usage
from jumar.core.requests import Attempt, Flow, Load, Sleep
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, Phase
from jumar.core.store import Store
from jumar.core.triggers import AFTER_TOOL
from jumar.core.uncertain import Ended
from jumar.core.usage import split_usage, usage_by
from jumar.engine.flows.advance import advance
from jumar.engine.flows.keeping import ready
from jumar.engine.live import LiveRun
from jumar.errors import (
    CallRejected,
    IdentityConflict,
    IntegrityError,
    JumarError,
    NotApplied,
    NotStorable,
    PathRefused,
    ReplayDiverged,
)

if TYPE_CHECKING:
    from jumar.engine.flows.calls import Call

T = TypeVar("T")

# Looking an enum member up by its class costs a fifth of a microsecond in Python 3.11.
_DECISION, _SUCCEEDED = CallKind.DECISION, CallState.SUCCEEDED
_TOOL, _IN_CODE = CallKind.TOOL, Phase.IN_CODE
_READ, _WRITE = Effect.READ, Effect.WRITE
# What Jumar itself makes of a call that a person, or another call, kept from being sent.
_OWN, _OWN_MODULE = (CallRejected, IdentityConflict, PathRefused), CallRejected.__module__
_NOTHING_KEPT: tuple[Artifact, ...] = ()


def how_ended(call: Call, attempt: Attempt, wall_ms: int) -> tuple[Ended, Any]:
    """How an attempt ended by the tool's own lists and the table of error classes, and the sorted error."""
    if attempt.timed_out:
        return Ended.TIMED_OUT, None
    error = attempt.error
    if error is None:
        return Ended.RETURNED, None
    policy = call.policy
    sorted_error = classify(error, call.live.settings.error_classes, wall_ms)
    if isinstance(error, (NotApplied, *policy.not_applied)):
        return Ended.NOT_APPLIED, sorted_error
    if isinstance(error, policy.errors):
        return Ended.DECLARED, sorted_error
    return (Ended.PASSING if sorted_error.retried else Ended.LASTING), sorted_error


def record_success(
    call: Call,
    attempt: int,
    value: Any,
    started_at: int,
    ended_at: int,
    *,
    new: bool,
    after: bytes | None = None,
) -> Flow[Any]:
    """Record that the call happened, with its result, in one advance; answers what the agent gets.  `after` is the
    snapshot of the files that it has written.

    A result that cannot be stored does not undo what happened: the call is SUCCEEDED all the same, and the agent gets
    an error that names the place inside the result, now and on every replay.
    """
    policy = call.policy
    failure: Failure | None = None
    usage: Usage | None = None
    data: bytes | None
    if policy.usage is not None:
        usage = usage_by(policy.usage, value)
    elif policy.kind is _DECISION:
        value, usage = split_usage(value)
    try:
        data, decoded = policy.codec.round_trip(value)
        check_size(data)
    except Exception as error:  # the call has happened and must be recorded
        # The value itself may say that it was none: a person's answer that is not of the tool's type.
        failure = exceptions.unstorable_result(value if isinstance(value, NotStorable) else not_storable(error))
        data, decoded = _text_of_a_model(policy.kind, value), None
    yield from record_end(call, _SUCCEEDED, attempt, data, failure, usage, started_at, ended_at, new=new, after=after)
    if not new and policy.effect is not _READ:
        if call.live.must_look:
            yield from ready(call.live, AFTER_TOOL)
        call.live.ride_checkpoint_after(AFTER_TOOL, call.step)
    if failure is not None:
        raise raised(call, failure)
    return decoded


def not_storable(error: Exception) -> NotStorable:
    """Why a value cannot be stored, whatever its codec raised: a type's own hooks may raise anything."""
    return error if isinstance(error, NotStorable) else NotStorable(f"its codec failed: {short_message(error)}")


def _text_of_a_model(kind: CallKind, value: Any) -> bytes | None:
    """A model's text that did not fit is kept all the same: it was paid for, and somebody will want to see it."""
    if kind is not _DECISION or not isinstance(value, str):
        return None
    try:
        data = codec_for(str).encode(value)
        check_size(data)
    except NotStorable:
        return None
    return data


def record_failure(
    call: Call,
    attempt: int,
    failure: Failure,
    started_at: int,
    ended_at: int,
    *,
    new: bool,
    freed: bool = False,
    usage: Usage | None = None,
) -> Flow[Ack]:
    """Record that the call failed for good; `freed` gives up the name of its action, where it has one."""
    state = CallState.FAILED
    return record_end(call, state, attempt, None, failure, usage, started_at, ended_at, new=new, freed=freed)


def record_end(
    call: Call,
    state: CallState,
    attempt: int,
    data: bytes | None,
    failure: Failure | None,
    usage: Usage | None,
    started_at: int,
    ended_at: int,
    *,
    new: bool,
    freed: bool = False,
    planned: tuple[CallRecord, ...] = (),
    kept: tuple[Artifact, ...] = (),
    through: tuple[Phase, ...] = (),
    after: bytes | None = None,
) -> Flow[Ack]:
    """The advance that records how a call ended; with it come the calls that a decision has `planned`, what is `kept`
    of their arguments, and the phases that the run passes through.
    """
    inline, name = data, None
    artifacts = kept
    if data is not None and len(data) > INLINE_BYTES:
        inline, name = None, digest(data)
        artifacts = (*artifacts, Artifact(name, data))
    checksum = call.checksum(state, inline if name is None else name, failure)
    if new:
        record, large = new_record(
            call,
            state,
            attempt,
            result=inline,
            result_artifact=name,
            failure=failure,
            usage=usage,
            started_at=started_at,
            ended_at=ended_at,
            checksum=checksum,
        )
        calls, kept = (record, *planned), large + artifacts
        phase, hot = call.phase_after, is_hot(call)
        return advance(call.live, calls=calls, artifacts=kept, phase=phase, through=through, hot=hot)
    change = CallChange(
        seq=call.seq,
        state=state,
        attempt=attempt,
        epoch=call.live.epoch,
        result=inline,
        result_artifact=name,
        failure=failure,
        usage=usage,
        started_at=started_at or None,
        ended_at=ended_at,
        checksum=checksum,
        after=after,
    )
    frees = (call.seq,) if freed and call.identity is not None else ()
    return advance(
        call.live,
        calls=planned,
        changes=(change,),
        artifacts=artifacts,
        frees=frees,
        drops=drops_of(call),
        phase=call.phase_after,
        through=through,
        hot=is_hot(call),
    )


def is_hot(call: Call) -> bool:
    """Whether the end of a call is recorded without waiting for it: of a tool that only reads, where the tool, or else
    the harness, says so.  A loop agent waits, because what its next decision sees is read from the store.
    """
    policy, live = call.policy, call.live
    hot = live.settings.hot if policy.hot is None else policy.hot
    return hot and policy.effect is _READ and policy.kind is _TOOL and live.phase is _IN_CODE


def drops_of(call: Call) -> tuple[int, ...]:
    """What the advance gives up that ends a call, or puts it off: the paths of a write."""
    return (call.seq,) if call.policy.effect is _WRITE else ()


def reject(call: Call, attempt: int, request: RequestRecord, *, freed: bool) -> Flow[Exception]:
    """Record a person's no; answers what the agent gets for it."""
    failure = rejection(call.call_id, request)
    change = CallChange(
        seq=call.seq,
        state=CallState.REJECTED,
        attempt=attempt,
        epoch=call.live.epoch,
        failure=failure,
        ended_at=call.live.wall(),
        checksum=call.checksum(CallState.REJECTED, failure=failure),
    )
    frees, drops = (call.seq,) if freed else (), drops_of(call)
    yield from advance(call.live, changes=(change,), frees=frees, drops=drops, phase=call.phase_after)
    return raised(call, failure)


def new_record(
    call: Call,
    state: CallState,
    attempt: int,
    *,
    result: bytes | None = None,
    result_artifact: bytes | None = None,
    failure: Failure | None = None,
    usage: Usage | None = None,
    boot: bytes | None = None,
    dispatch_by: int | None = None,
    started_at: int = 0,
    ended_at: int | None = None,
    checksum: int | None = None,
) -> tuple[CallRecord, tuple[Artifact, ...]]:
    """The first record of a call, and the artifact that holds its arguments where they are large."""
    policy, live, data = call.policy, call.live, call.args_json
    if policy.kind is _DECISION:
        args, args_artifact, kept = None, None, _NOTHING_KEPT  # of a prompt only the digest is kept
    elif len(data) <= INLINE_BYTES:
        args, args_artifact, kept = data, None, _NOTHING_KEPT
    else:
        args, args_artifact, kept = None, call.args_digest, (Artifact(call.args_digest, data),)
    record = CallRecord(
        call.seq,
        call.call_id,
        call.branch.path if call.branch is not None else "",
        call.step,
        call.ordinal,
        policy.kind,
        policy.name,
        policy.effect,
        state,
        attempt,
        live.epoch,
        live.generation,
        call.args_digest,
        args,
        args_artifact,
        call.key,
        result,
        result_artifact,
        failure,
        usage,
        boot,
        dispatch_by,
        started_at,
        ended_at,
        0,
        None,
        call.checksum(state) if checksum is None else checksum,
        None,
        call.identity,
        None if call.identity is None else call.identity_scope,
    )
    return record, kept


def replayed(call: Call, record: CallRecord) -> Flow[Any]:
    """What a recorded call answers: its value, decoded, or its failure, raised."""
    if not call_agrees(record, call.args_json if call.args_digest == record.args_digest else None):
        raise call.live.stop(IntegrityError(f"the record of call {record.call_id} does not agree with its checksum"))
    failure = record.failure
    if failure is not None:
        if failure.cancelled:
            yield from forever()
        raise raised(call, failure)
    data = record.result
    if data is None:
        if record.result_artifact is None:
            raise call.live.stop(IntegrityError(f"the record of call {record.call_id} has lost its result"))
        data = yield from load_artifact(call, record.result_artifact)
    try:
        return call.policy.codec.decode(data)
    except NotStorable as error:
        raise call.live.stop(_other_type(call, record, error)) from error


def _other_type(call: Call, record: CallRecord, error: NotStorable) -> ReplayDiverged:
    """A confirmed result that the code of now cannot take is no failure of the call: the run must not go on as if."""
    return ReplayDiverged(
        f"what call {record.call_id} returned is not of the type that {call.policy.name} has now: {error.what}",
        recorded=f"a result of {record.call_id}",
        asked=f"{call.policy.name}, of another type",
        hint="Give the tool its old type back until this run has ended.",
    )


def load_artifact(call: Call, name: bytes) -> Flow[bytes]:
    """The bytes of an artifact that a record names; IntegrityError stops the run where they are gone or changed."""
    live = call.live
    run_no = live.run.run_no
    data = yield from load(live, lambda store: store.artifact(run_no, name))
    if data is None or digest(data) != name:
        raise live.stop(IntegrityError(f"artifact {name.hex()[:12]} of run {live.run_id} is missing or damaged"))
    return data


def load(live: LiveRun, read: Callable[[Store], T]) -> Flow[T]:
    """Read from the store on behalf of a call; an error stops the run, so that the agent's code does not swallow it."""
    try:
        return (yield from Load(read))
    except JumarError as error:
        raise live.stop(error) from error


def forever() -> Flow[None]:
    """A call that the agent once gave up waits to be given up again."""
    while True:
        yield from Sleep(3600.0)


def failure_of(call: Call, ended: Ended, sorted_error: Any, error: BaseException | None) -> Failure:
    """What is kept of an exception, or of a timeout."""
    if error is None:
        seconds = call.policy.timeout
        return Failure("TimeoutError", f"{call.policy.name} did not end within {seconds:g} s", ErrorClass.TRANSIENT)
    return exceptions.failure_of(error, sorted_error.error_class, _declared(call))


def raised(call: Call, failure: Failure) -> Exception:
    """The exception for a recorded failure: of the tool's declared type where it has one, else CallFailed."""
    declared = _declared(call) + (_OWN if failure.module == _OWN_MODULE else ())
    error = exceptions.raised(failure, call.call_id, declared)
    exceptions.comes_from(error, call.seq)
    return error


def _declared(call: Call) -> tuple[type[BaseException], ...]:
    return (*call.policy.errors, *call.policy.not_applied)
