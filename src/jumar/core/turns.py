"""A loop agent's turns: one decision, the calls it plans, and what its output was found to be.

Turn number n (from 1) has the step path `turn`, `turn#2` and so on.  Its decision is a call of kind `decision`, its
tool calls follow in the numbers after it, and the verdict on an output is a call of kind `value`.  Everything about
where a loop stands is read from these rows: nothing is kept elsewhere, and nothing is run again to find out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from jumar.core.checksums import call_agrees
from jumar.core.decisions import Decision, Recorded, ToolCall, read
from jumar.core.naming import entered
from jumar.core.records import CallRecord, Failure
from jumar.core.states import CallKind, CallState, Effect, Phase
from jumar.errors import IntegrityError

DECIDE = "decide"  # what a turn's decision is called
VERIFY = "verify"  # and the verdict on an output
NOT_ACCEPTED = "it was not accepted"  # the reason where `verify` gives none

# What a run passes through from where it stands to READY_TO_DECIDE.  RESULTS_RECORDED has no commit of its own: the
# next decision goes through it.
_TO_READY: dict[Phase, tuple[Phase, ...]] = {
    Phase.READY_TO_DECIDE: (),
    Phase.DECISION_RECORDED: (Phase.RESULTS_RECORDED, Phase.READY_TO_DECIDE),
    Phase.AWAITING_RESULTS: (Phase.RESULTS_RECORDED, Phase.READY_TO_DECIDE),
    Phase.RESULTS_RECORDED: (Phase.READY_TO_DECIDE,),
    Phase.VERIFYING: (Phase.READY_TO_DECIDE,),
}

_PATH = re.compile(r"turn(?:#([0-9]+))?\Z")
_json = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode
_number = msgspec.json.Decoder(dict[str, int])

Load = Callable[[bytes], bytes]  # the bytes of an artifact by its digest


class ToolResult(Struct, frozen=True):
    """What became of one tool call of a decision.

    `value` is the result as plain JSON where the call succeeded; `error` says what went wrong where it failed, was
    rejected (with the person's words), or has not ended.  `state` is the call's own: SUCCEEDED, FAILED, REJECTED,
    UNCERTAIN and so on.
    """

    call_id: str
    call: ToolCall
    state: str
    value: Any = None
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.error is None


class Turn(Struct, frozen=True):
    """One step of a loop agent: its decision, the results in the order of the decision's calls, and the reason why
    its output was not accepted, None where it was, or where there is none.
    """

    index: int
    decision: Decision
    results: tuple[ToolResult, ...] = ()
    verdict: str | None = None


class Limits(Struct, frozen=True):
    """What a loop agent has left: `steps_left` decisions, this one among them, and outputs that may be presented."""

    steps_left: int
    verifications_left: int


def turn_path(number: int) -> str:
    """The step path of a turn."""
    return entered("turn", number)


def turn_number(path: str) -> int:
    """The number of the turn with this step path; IntegrityError where it is no turn's."""
    found = _PATH.match(path)
    if found is None:
        raise IntegrityError(f"{path!r} is no step of a loop agent")
    return int(found[1] or 1)


def to_ready(phase: Phase) -> tuple[Phase, ...]:
    """The phases from `phase` to READY_TO_DECIDE, that one included."""
    return _TO_READY[phase]


# --- Verdicts. -------------------------------------------------------------------------------------------------------


def verdict_of(data: bytes) -> str | None:
    """The reason in a recorded verdict, None where the output was accepted."""
    found = _json.decode(data)
    if found is True:
        return None
    return found if isinstance(found, str) and found.strip() else NOT_ACCEPTED


def refusals(last: CallRecord | None) -> int:
    """How many outputs of a run were refused, by its newest verification: each knows its own number."""
    if last is None:
        return 0
    if not call_agrees(last):
        raise IntegrityError(f"the record of call {last.call_id} does not agree with its checksum")
    number = _number.decode(last.args or b"{}").get("number", 1)
    refused = last.state is CallState.SUCCEEDED and last.result is not None and verdict_of(last.result) is not None
    return number if refused else number - 1


# --- From rows to turns. ---------------------------------------------------------------------------------------------


def grouped(records: Iterable[CallRecord]) -> Iterator[list[CallRecord]]:
    """A run's calls, in the order of their numbers, turn by turn: the decision comes first."""
    rows: list[CallRecord] = []
    for record in records:
        if record.kind is CallKind.DECISION and rows:
            yield rows
            rows = []
        rows.append(record)
    if rows:
        yield rows


def turn_of(rows: Sequence[CallRecord], load: Load) -> Turn | None:
    """The turn that these rows tell of, None where its decision is not recorded yet.

    `load` reads an artifact.  IntegrityError where a row does not agree with its checksum.
    """
    first = rows[0]
    if first.kind is not CallKind.DECISION or first.state is not CallState.SUCCEEDED:
        return None
    decision = decision_of(first, load).decision
    tools = [record for record in rows[1:] if record.kind is CallKind.TOOL]
    verdict = next((record for record in rows[1:] if record.kind is CallKind.VALUE), None)
    reason = None
    if verdict is not None and verdict.state is CallState.SUCCEEDED:
        reason = verdict_of(result_of(verdict, load))
    results = tuple(_result(record, call, load) for record, call in zip(tools, decision.calls, strict=False))
    return Turn(turn_number(first.step), decision, results, reason)


def decision_of(record: CallRecord, load: Load) -> Recorded:
    """What a recorded decision says, with the JSON of its output."""
    try:
        return read(result_of(record, load), record.usage)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"what {record.call_id} decided cannot be read ({error})") from error


def result_of(record: CallRecord, load: Load) -> bytes:
    """The JSON of a recorded result."""
    if not call_agrees(record):
        raise IntegrityError(f"the record of call {record.call_id} does not agree with its checksum")
    if record.result is not None:
        return record.result
    if record.result_artifact is None:
        raise IntegrityError(f"the record of call {record.call_id} has lost its result")
    return load(record.result_artifact)


def _result(record: CallRecord, call: ToolCall, load: Load) -> ToolResult:
    state = record.state
    if state is CallState.SUCCEEDED and record.failure is None:
        return ToolResult(record.call_id, call, state.name, shown(_json.decode(result_of(record, load))))
    return ToolResult(record.call_id, call, state.name, None, _trouble(record))


def shown(value: Any) -> Any:
    """A value that was stored, without the envelope that names which of several types it is of."""
    return value["value"] if isinstance(value, dict) and value.keys() == {"$jumar", "value"} else value


# --- For somebody's own use. ------------------------------------------------------------------------------------------


def apart(turn: Turn) -> Turn:
    """The same turn, sharing nothing with it that can be changed."""
    decision = turn.decision
    calls = tuple(map(_own_call, decision.calls))
    own = copy(decision)
    force_setattr(own, "calls", calls)
    force_setattr(own, "output", _own(decision.output))
    force_setattr(own, "thinking", tuple(map(_own, decision.thinking)))
    results = tuple(_own_result(result, call) for result, call in zip(turn.results, calls, strict=False))
    return Turn(turn.index, own, results, turn.verdict)


def _own_call(call: ToolCall) -> ToolCall:
    if isinstance(call.arguments, str):
        return call
    own = copy(call)
    force_setattr(own, "arguments", _own(call.arguments))
    return own


def _own_result(result: ToolResult, call: ToolCall) -> ToolResult:
    return ToolResult(result.call_id, call, result.state, _own(result.value), result.error)


def _own(value: Any) -> Any:
    """JSON of one's own; what holds nothing can be shared."""
    return _json.decode(_encode(value)) if isinstance(value, (dict, list)) else value


# --- Calls without a result. -----------------------------------------------------------------------------------------

_NOT_ENDED: dict[CallState, str] = {
    CallState.PLANNED: "not made yet: the run was interrupted before this call was sent",
    CallState.AWAITING: "not made yet: it waits for a person, for a time, or for another run",
    CallState.STARTED: "this call may have happened; its result is not known yet",
    CallState.UNCERTAIN: "this call may have happened; its result is not known",
    CallState.COMPENSATED: "this call happened and was undone since",
}


def _trouble(record: CallRecord) -> str:
    """Why a call has no result, in words for a model."""
    told = "" if record.failure is None else failure_text(record.failure)
    if record.state is CallState.REJECTED:
        return told or "a person rejected this call; it was not made"
    if record.state is CallState.SUCCEEDED:
        return f"the call happened, but its result could not be recorded: {told}"
    if record.state is CallState.FAILED:
        return told or "the call failed"
    if record.state is CallState.UNCERTAIN and record.effect is Effect.READ:
        return "not made yet: the run was interrupted before its result was there"
    return _NOT_ENDED[record.state]


def failure_text(failure: Failure) -> str:
    """A recorded failure in one line, with what to do about it where that is known."""
    told = f"{failure.type_name}: {failure.message}"
    return f"{told.rstrip('.')}. {failure.hint}" if failure.hint else told
