"""Making a brief of what is on record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from jumar.core.briefs.facts import (
    MESSAGE,
    NAME,
    RESULT,
    Facts,
    args_text,
    id_text,
    outside,
    path_text,
    result_text,
    value_of,
)
from jumar.core.briefs.prose import Words, prose, words_in
from jumar.core.briefs.records import MOST, Asked, Brief, DoneStep, Doubt, KeyResult, Standing, Trouble
from jumar.core.briefs.steps import Step, around_now, steps_of
from jumar.core.call_states import ENDED
from jumar.core.open_requests import is_open
from jumar.core.records import CallRecord
from jumar.core.states import CallKind, CallState, Effect, ErrorClass
from jumar.core.turns import VERIFY, failure_text
from jumar.errors import CallFailed

T = TypeVar("T")

_CALL_FAILED = re.compile(r"call \S+ failed with (\w+): (.*)", re.DOTALL)
_PLANS = (CallKind.PLAN, CallKind.CHECKPOINT)
_TELLING = (CallKind.TOOL, CallKind.DECISION, CallKind.VALUE, CallKind.ASK, CallKind.CHILD)
_UNKNOWN = (CallState.STARTED, CallState.UNCERTAIN)


def brief_of(facts: Facts, lang: str = "en") -> Brief:
    """The brief of a run, with its prose in a language that `prose.LANGUAGES` has; UsageError for another."""
    words = words_in(lang)
    run, steps = facts.run, steps_of(facts)
    left_out: dict[str, int] = {}

    def newest(name: str, entries: Sequence[T]) -> tuple[T, ...]:
        if len(entries) > MOST:
            left_out[name] = len(entries) - MOST
        return tuple(entries[-MOST:])

    def first(name: str, entries: Sequence[T]) -> tuple[T, ...]:
        if len(entries) > MOST:
            left_out[name] = len(entries) - MOST
        return tuple(entries[:MOST])

    changed, unnamed = _changed_files(facts)
    to_change = [file for file in dict.fromkeys(steps.files) if file not in changed]
    standing = [(call, True) for call in facts.leftovers] + [(call, False) for call in facts.calls if _stands(call)]
    brief = Brief(
        run.run_id,
        run.agent,
        run.task,
        run.status.label,
        "turn" if steps.is_loop else "step",
        steps.number,
        steps.name,
        max(0, run.epoch - 1),
        len(facts.calls),
        tuple(_told(facts, step, steps.is_loop) for step in newest("done", steps.done)),
        around_now(steps.planned, left_out),
        first("files_changed", [path_text(file) for file in changed]),
        first("files_to_change", [path_text(file) for file in to_change]),
        unnamed,
        _last_error(facts, words),
        tuple(_standing(facts, *each) for each in newest("standing", standing)),
        newest("doubts", _doubts(facts)),
        first("waiting_on", _asked(facts)),
        first("drift", facts.drift),
        run.line[-1][1] if run.line else None,
        run.forked_from,
        left_out,
        lang,
    )
    brief = replace(brief, instruction=words.instruction(brief))
    return replace(brief, prose=prose(brief, lang))


def _changed_files(facts: Facts) -> tuple[list[str], int]:
    """The paths that write calls changed, in the order in which they were first changed, and how many calls may have
    changed files whose paths cannot be told.
    """
    paths: dict[str, None] = {}
    unnamed = 0
    for call in facts.calls:
        if call.effect is not Effect.WRITE or call.state is not CallState.SUCCEEDED or call.before == call.after:
            continue
        named = facts.files.get(call.seq)
        unnamed += named is None
        paths.update(dict.fromkeys(named or ()))
    return list(paths), unnamed


def _stands(call: CallRecord) -> bool:
    return (
        call.effect in (Effect.EXTERNAL, Effect.IDEMPOTENT)
        and call.state is CallState.SUCCEEDED
        and call.kind is not CallKind.COMPENSATION
    )


def _standing(facts: Facts, call: CallRecord, left_behind: bool) -> Standing:
    return Standing(id_text(call), call.tool, args_text(facts, call), result_text(facts, call), left_behind)


def _last_error(facts: Facts, words: Words) -> Trouble | None:
    """Why the run failed; else what its newest call ended with, where that is no result."""
    for run in (facts.run, facts.before):
        if run is not None and run.error_type is not None and run.error_class is not None:
            failed = next((call for call in facts.calls if call.seq in run.failed_calls), None)
            type_name, message = _of_call(run.error_type, run.error_message or "")
            return _trouble(type_name, message, run.error_class, failed, words)
    for call in reversed(facts.calls):
        if call.failure is not None and call.state is not CallState.SUCCEEDED:
            return _trouble(call.failure.type_name, call.failure.message, call.failure.error_class, call, words)
        if call.state is CallState.SUCCEEDED and call.kind not in _PLANS:
            return None
    return None


def _of_call(type_name: str, message: str) -> tuple[str, str]:
    """The exception that a call ended with, out of the words in which CallFailed tells it."""
    found = _CALL_FAILED.match(message) if type_name == CallFailed.__name__ else None
    return (type_name, message) if found is None else (found[1], found[2])


def _trouble(type_name: str, message: str, sort: ErrorClass, call: CallRecord | None, words: Words) -> Trouble:
    where = None if call is None else id_text(call)
    advice = words.advice(sort.label, of_call=call is not None)
    return Trouble(outside(type_name, NAME), outside(message, MESSAGE), sort.label, advice, where)


def _doubts(facts: Facts) -> list[Doubt]:
    if facts.doubts is not None:
        return [_doubt(found, ended) for found, ended in facts.doubts]
    open_calls = [call for call in facts.calls if call.state in _UNKNOWN and call.effect is not Effect.READ]
    return [Doubt(id_text(call), call.tool, "open") for call in open_calls]


def _doubt(found: CallRecord, ended: CallRecord) -> Doubt:
    told = "" if ended.failure is None else outside(failure_text(ended.failure).rstrip("."), MESSAGE)
    outcomes = {CallState.FAILED: "failed", CallState.REJECTED: "rejected"}
    if ended.state is CallState.SUCCEEDED:
        return Doubt(id_text(found), found.tool, "again" if ended.attempt > found.attempt else "happened")
    return Doubt(id_text(found), found.tool, outcomes.get(ended.state, "open"), told)


def _asked(facts: Facts) -> list[Asked]:
    calls = {call.seq: call for call in facts.calls}
    found = []
    for request in facts.requests:
        call = calls.get(request.call_seq)
        if request.verdict is not None or call is None or not is_open(request, call, facts.run.status):
            continue
        args = value_of(facts, call.args, call.args_artifact) if call.kind is CallKind.ASK else None
        question = args.get("question") if isinstance(args, dict) else None
        found.append(Asked(request.kind.label, id_text(call), outside(question, RESULT) if question else ""))
    return found


def _told(facts: Facts, step: Step, is_turn: bool) -> DoneStep:
    telling = [each for each in step.calls if each.kind in _TELLING and each.state in ENDED and each.tool != VERIFY]
    tools = [each for each in telling if each.kind is not CallKind.DECISION] or telling
    acted = [each for each in tools if each.effect is not Effect.READ]
    keys = {each.seq: each for each in (*acted[-1:], *tools[-1:])}
    made = sum(each.kind not in _PLANS for each in step.calls) - is_turn
    results = tuple(_key_result(facts, keys[seq]) for seq in sorted(keys))
    return DoneStep(step.number, outside(step.name, NAME), made, results)


def _key_result(facts: Facts, call: CallRecord) -> KeyResult:
    failed = call.state in (CallState.FAILED, CallState.REJECTED)
    told = "" if call.failure is None else failure_text(call.failure)
    result = outside(told, RESULT) if failed or told else result_text(facts, call)
    return KeyResult(id_text(call), call.tool, args_text(facts, call), result, failed or bool(told))
