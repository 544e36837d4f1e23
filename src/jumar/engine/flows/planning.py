"""A loop agent's decision, recorded together with the calls it plans.

Both are in one advance: a decision whose calls are not on record cannot be read anywhere, and neither can a call that
nobody decided.  A call that cannot be made (no such tool, not one of this agent's, arguments that do not fit) is
recorded as failed in the same advance, in words for the model, which then decides anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from jumar.core import exceptions
from jumar.core.call_states import needs_started
from jumar.core.codec import codec_for, digest
from jumar.core.decisions import Decision, ToolCall, written
from jumar.core.limits import MAX_MESSAGE, check_size
from jumar.core.naming import call_id as call_id_of
from jumar.core.naming import slug, storable
from jumar.core.records import Artifact, CallRecord, Failure
from jumar.core.replay import BranchTable
from jumar.core.requests import Flow
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, Phase
from jumar.core.turns import DECIDE, to_ready
from jumar.core.usage import both, split_usage
from jumar.engine.flows.actions import named
from jumar.engine.flows.calls import Call
from jumar.engine.flows.outcomes import load, new_record, not_storable, raised, record_end, record_failure
from jumar.engine.live import LiveRun
from jumar.engine.policy import Codec, ToolPolicy
from jumar.engine.scope import Branch
from jumar.errors import IntegrityError, JumarError, NotStorable, ReplayDiverged, UsageError

_ANY = codec_for(Any)
_LARGEST_ARGUMENTS = 100_000  # bytes of arguments for no tool that are kept
_encode = msgspec.json.Encoder(order="deterministic").encode


class LoopTool(Struct, frozen=True):
    """A tool that a loop agent may call."""

    policy: ToolPolicy
    body: Callable[..., Any]
    waits: bool  # an async one


class LoopPlan(Struct, frozen=True):
    """How a loop agent is driven.

    `decide` is the user's function of the view, `known` the names of all tools there are, for telling a model which of
    its mistakes it made.  `retries` and `timeout` (seconds) hold for each decision and each verification.
    """

    name: str
    decide: Callable[..., Any]
    tools: Mapping[str, LoopTool]
    known: Container[str]
    verify: Callable[..., Any] | None
    max_steps: int
    verify_limit: int
    retries: int
    timeout: float | None
    output_codec: Codec
    waits: bool  # an async agent, whose calls are awaited


class Opened(Struct):
    """A turn whose decision is recorded: the JSON of its output where it finishes, else the calls still to be made."""

    step: str
    seq: int  # of the decision
    output: bytes | None
    calls: list[Call]
    verdict: CallRecord | None = None


# --- Recording a decision. -------------------------------------------------------------------------------------------


def record_decision(
    plan: LoopPlan, refused: int, call: Call, attempt: int, value: Any, started_at: int, ended_at: int, *, new: bool
) -> Flow[Opened]:
    """Record what the agent's function returned, with the calls it plans; `refused` outputs were sent back before."""
    live = call.live
    answer, usage = split_usage(value)
    if call.record is not None:  # an attempt in an earlier life was paid for, too
        usage = both(call.record.usage, usage)
    try:
        decision = _decision(plan, answer)
        output = _output(plan, decision) if decision.finished else None
        data = written(decision, output, refused)
        check_size(data, "the decision has")
    except JumarError as error:
        failure = exceptions.failure_of(error, ErrorClass.PERMANENT, ())
        yield from record_failure(call, attempt, failure, started_at, ended_at, new=new, usage=usage)
        raise raised(call, failure) from error
    calls = _planned(live, plan, call, decision)
    rows, kept = _rows(calls)
    call.phase_after = Phase.DECISION_RECORDED
    yield from record_end(
        call,
        CallState.SUCCEEDED,
        attempt,
        data,
        None,
        usage,
        started_at,
        ended_at,
        new=new,
        planned=rows,
        kept=kept,
        through=to_ready(live.phase),
    )
    open_calls = [each.call for each in calls if each.failure is None]
    return Opened(call.step, call.seq, output, open_calls)


def _decision(plan: LoopPlan, value: Any) -> Decision:
    if isinstance(value, Decision):
        return value
    kind = type(value).__name__
    hint = "Return Decision.act([...]) or Decision.finish(output)."
    if hasattr(value, "choices") or hasattr(value, "stop_reason"):
        hint = "Return Decision.from_openai(response) or Decision.from_anthropic(message)."
    elif value is not None and not isinstance(value, (str, dict)):
        hint += " Of a stream, take the final message first."
    raise UsageError(f"{plan.name} returned {kind}, which is no Decision", safe="Nothing was done.", hint=hint)


def _output(plan: LoopPlan, decision: Decision) -> bytes:
    """The JSON of an output: of its type where it fits, else as it is, for the model to be told."""
    try:
        return plan.output_codec.round_trip(decision.output)[0]
    except Exception as error:  # whatever a type's own hooks raise
        refusal = not_storable(error)
    try:
        return _ANY.encode(decision.output)
    except NotStorable:
        raise NotStorable(f"the output: {refusal.what}", path=refusal.path, hint=refusal.hint) from refusal


# --- Planning calls. -------------------------------------------------------------------------------------------------


class _Planned(Struct):
    call: Call
    failure: Failure | None


def _planned(live: LiveRun, plan: LoopPlan, decision_call: Call, decision: Decision) -> list[_Planned]:
    """The decision's calls, numbered after it; those that cannot be made have a failure."""
    step = decision_call.step
    first = live.take_numbers(len(decision.calls)) if decision.calls else 0
    ordinals = Counter({DECIDE: 1})
    planned = []
    for index, asked in enumerate(decision.calls):
        call, failure = _readable(live, plan, asked)
        name = call.policy.name
        ordinals[name] += 1
        call.seq, call.step, call.ordinal = first + index, step, ordinals[name]
        call.call_id = call_id_of(step, name, call.ordinal, live.generation)
        call.branch = branch_of(live, step, index)
        if failure is None and needs_started(call.policy.effect):
            _match_leftover(call)
        planned.append(_Planned(call, failure))
    return planned


def _match_leftover(call: Call) -> None:
    """A call that was made before the run was rolled back, and stands, answers the same call now: the key says so."""
    call.leftover = call.live.table.take_leftover(call.policy.name, call.args_digest)
    if call.leftover is not None:
        call.key = call.leftover.call_id


def branch_of(live: LiveRun, step: str, index: int) -> Branch:
    """The branch that one call of a decision runs in."""
    return Branch(f"{step}:{index}", BranchTable(), live.root)


def _readable(live: LiveRun, plan: LoopPlan, asked: ToolCall) -> tuple[Call, Failure | None]:
    tool = plan.tools.get(asked.name)
    if tool is None:
        return _unmade(live, asked, None), _no_such_tool(plan, asked)
    assert tool.policy.arguments is not None
    try:
        args, kwargs, canonical = tool.policy.arguments(asked.data())
        call = Call(live, tool.policy, tool.body, args, kwargs, canonical, None)
        named(call)  # which is for the model to mend, too, where its arguments name no action
        return call, None
    except JumarError as error:
        why, hint = error.what, error.hint
    except Exception as error:  # whatever a type's own hooks raise, or arguments nested too deeply
        why, hint = f"{asked.name}: the arguments cannot be read ({type(error).__name__})", ""
    return _unmade(live, asked, tool), _failure("BadArguments", why, hint)


def _no_such_tool(plan: LoopPlan, asked: ToolCall) -> Failure:
    tools = ", ".join(sorted(plan.tools)) or "none"
    shown = repr(asked.name[:80])
    if asked.name in plan.known:
        return _failure("ToolNotAllowed", f"this agent may not call {shown}; its tools are: {tools}", "")
    return _failure("UnknownTool", f"there is no tool {shown}; the tools are: {tools}", "")


def _failure(type_name: str, why: str, hint: str) -> Failure:
    return Failure(type_name, _cut(why), ErrorClass.PERMANENT, hint=_cut(hint))


def _cut(text: str) -> str:
    text = storable(text)
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def _unmade(live: LiveRun, asked: ToolCall, tool: LoopTool | None) -> Call:
    """A call that is never sent: under the tool's name, or what can be kept of the name that the model gave."""
    name = tool.policy.name if tool is not None else slug(asked.name).replace(".", "-")
    effect = tool.policy.effect if tool is not None else Effect.READ
    return Call(live, ToolPolicy(CallKind.TOOL, name, effect, _ANY), _nothing, (), {}, _as_written(asked), None)


def _as_written(asked: ToolCall) -> bytes:
    """The arguments as they stand in the row of a call that is not made: JSON, if only a text of what the model wrote.
    The decision keeps them in full.
    """
    try:
        data = _encode(msgspec.json.decode(asked.data()))
    except Exception:  # no JSON, or nested too deeply
        data = _encode(asked.arguments)
    return data if len(data) <= _LARGEST_ARGUMENTS else _encode(f"({len(data)} bytes)")


def _nothing() -> None:
    return None


def _rows(planned: list[_Planned]) -> tuple[tuple[CallRecord, ...], tuple[Artifact, ...]]:
    """The first records of the calls, and the artifacts that hold large arguments."""
    rows: list[CallRecord] = []
    artifacts: list[Artifact] = []
    for each in planned:
        call, failure = each.call, each.failure
        if failure is None:
            record, kept = new_record(call, CallState.PLANNED, 0)
            call.record = record
        else:
            at = call.live.wall()
            checksum = call.checksum(CallState.FAILED, failure=failure)
            record, kept = new_record(
                call, CallState.FAILED, 0, failure=failure, started_at=at, ended_at=at, checksum=checksum
            )
        rows.append(record)
        artifacts.extend(kept)
    return tuple(rows), tuple(artifacts)


# --- Calls that were planned by another process. ---------------------------------------------------------------------


def taken_up(live: LiveRun, plan: LoopPlan, record: CallRecord) -> Flow[Call]:
    """A planned call, ready to be performed, out of its record."""
    tool = plan.tools.get(record.tool)
    if tool is None:
        raise live.stop(_changed(record, f"agent {plan.name} has no tool {record.tool} any more"))
    data = record.args if record.args is not None else (yield from artifact(live, record.args_artifact))
    assert tool.policy.arguments is not None
    try:
        args, kwargs, _ = tool.policy.arguments(data)
    except JumarError as error:
        raise live.stop(
            _changed(record, f"the arguments of {record.call_id} do not fit any more: {error.what}")
        ) from error
    # Under the arguments as they are recorded, which its idempotency key is made from.
    call = Call(live, tool.policy, tool.body, args, kwargs, data, None)
    call.record, call.call_id, call.seq = record, record.call_id, record.seq
    call.step, call.ordinal = record.step, record.ordinal
    call.branch = Branch(record.branch, BranchTable(), live.root)
    if record.key is not None:
        call.key, call.leftover = record.key, (yield from _leftover(live, record.key))
    return call


def _leftover(live: LiveRun, call_id: str) -> Flow[CallRecord]:
    """The leftover of this id, which answers a planned call."""
    run_no = live.run.run_no
    for record in (yield from load(live, lambda store: store.calls(run_no))):
        if record.call_id == call_id:
            return record
    raise live.stop(IntegrityError(f"call {call_id}, which answers another one, is missing"))


def _changed(record: CallRecord, what: str) -> ReplayDiverged:
    return ReplayDiverged(
        what,
        recorded=record.call_id,
        asked=f"a tool {record.tool}",
        hint="Give the agent the tool back, with the signature it had, until this run has ended.",
    )


def artifact(live: LiveRun, name: bytes | None) -> Flow[bytes]:
    """The bytes of an artifact; IntegrityError stops the run where they are gone or changed."""
    run_no = live.run.run_no
    data = None
    if name is not None:
        wanted = name
        data = yield from load(live, lambda store: store.artifact(run_no, wanted))
    if data is None or digest(data) != name:
        raise live.stop(IntegrityError(f"an artifact of run {live.run_id} is missing or damaged"))
    return data
