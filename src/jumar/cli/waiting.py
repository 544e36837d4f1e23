"""Why a run stands still, and the commands to type next, for `run`, `resume` and `show` alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from jumar.cli.options import Options
from jumar.cli.progress import owner_name
from jumar.cli.times import lasted, when
from jumar.harness.results import AnswerView, CallView, RunInfo, RunView, WaitingOn

_QUESTIONS = {"resolve": "did {call} happen?"}

# What "it did not happen" has to wait for, in the words of the settings that make it long or short.
STILL_MAY = (
    "the attempt itself may go on (for its timeout, or stall_timeout, 600 s by default, where the tool has none), and "
    "after that what it sent may still act (for settle, two lease_ttl by default)"
)


@dataclass(frozen=True)
class NextStep:
    """One sentence on why the run stands still, what is known about it, and the commands that move it, each with what
    it says.
    """

    reason: str
    commands: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


def steps_of(options: Options, short: str, view: RunView, now: int) -> list[NextStep]:
    """`next_steps` of a run that is known with its calls and answers."""
    return next_steps(options, short, view.run, view.waiting_on, now, view.calls, view.answers)


def next_steps(
    options: Options,
    short: str,
    run: RunInfo,
    waiting_on: Sequence[WaitingOn],
    now: int,
    calls: Sequence[CallView] = (),
    answers: Sequence[AnswerView] = (),
) -> list[NextStep]:
    """Why a run stands still and how to move it; nothing for one that has ended for good."""
    resume = options.command("resume", short)
    if run.status == "WAITING":
        return _waiting(options, short, run, waiting_on, now, calls)
    if run.status == "QUEUED":
        return [NextStep(f"It is queued: no process drives it.{_denied(calls, answers)}", (("go on", resume),))]
    if run.status == "FAILED":
        return [
            NextStep(
                "Mend the cause, then resume it; what is recorded, failures included, is not repeated.",
                (("then", resume),),
            )
        ]
    if run.status != "RUNNING":
        return []
    if run.lease_seconds is None:
        return [NextStep("The process that drove it has gone: its lease ran out.", (("go on", resume),))]
    left = lasted(run.lease_seconds * 1000)
    return [NextStep(f"{owner_name(run.owner)} drives it; its lease has {left} left unless it is renewed.")]


def _denied(calls: Sequence[CallView], answers: Sequence[AnswerView]) -> str:
    """What is to be said about an answer that a call did not happen, while that is not yet acted on."""
    for call in calls:
        answer = answer_to(call, answers)
        if answer is not None and answer.verdict == "not-happened":
            return f" {call.call_id} did not happen, but until that is certain {STILL_MAY}; resume waits for it."
    return ""


def answer_to(call: CallView, answers: Sequence[AnswerView]) -> AnswerView | None:
    """What was answered about a call that is uncertain still."""
    if call.state not in ("UNCERTAIN", "STARTED"):
        return None
    return next((each for each in answers if (each.call_id, each.attempt) == (call.call_id, call.attempt)), None)


def said(answer: AnswerView) -> str:
    """An answer in words: `happened, says ana`."""
    word = answer.verdict.replace("not-happened", "did not happen")
    by = "the attempt's own late result" if answer.by == "late-result" else answer.by
    return f"{word}, says {by}" if by else word


def _waiting(
    options: Options,
    short: str,
    run: RunInfo,
    waiting_on: Sequence[WaitingOn],
    now: int,
    calls: Sequence[CallView],
) -> list[NextStep]:
    resume = options.command("resume", short)
    if run.wake_at is not None:
        return _until(options, short, run, run.wake_at, waiting_on, now, calls)
    steps = []
    for asked in waiting_on:
        question = _QUESTIONS.get(asked.kind, "{call} needs an answer").format(call=asked.call_id)
        no = options.command("resolve", short, asked.call_id, "--not-happened", app=False)
        commands = (("yes", _yes(options, short, asked)), ("no", no))
        reason = f"It waits for a person, since {when(asked.since, now)}: {question}"
        steps.append(NextStep(reason, commands, _facts(asked, calls, now)))
    if steps:
        steps[-1] = replace(steps[-1], commands=(*steps[-1].commands, ("then", resume)))
    return steps


def _until(
    options: Options,
    short: str,
    run: RunInfo,
    wake_at: int,
    waiting_on: Sequence[WaitingOn],
    now: int,
    calls: Sequence[CallView],
) -> list[NextStep]:
    """It is known that the call did not happen, and too early to act on it."""
    resume = options.command("resume", short)
    about = f" about {run.waiting_on}" if run.waiting_on else ""
    if wake_at <= now:
        return [NextStep(f"The time it waited for{about} came at {when(wake_at, now)}.", (("go on", resume),))]
    reason = f"It waits{about} until {when(wake_at, now)}: it did not happen so far, but until then {STILL_MAY}."
    facts = tuple(fact for asked in waiting_on for fact in _facts(asked, calls, now))
    late = tuple(("if it happened after all", _yes(options, short, asked)) for asked in waiting_on)
    return [NextStep(reason, (("from then on", resume), *late), facts)]


def _yes(options: Options, short: str, asked: WaitingOn) -> str:
    return options.command("resolve", short, asked.call_id, "--happened", "JSON", app=False)


def _facts(asked: WaitingOn, calls: Sequence[CallView], now: int) -> tuple[tuple[str, str], ...]:
    """What a person needs to look the call up where it may have acted."""
    call = next((call for call in calls if call.call_id == asked.call_id), None)
    if call is None:
        return ()
    return (
        ("call", f"{call.tool} {_json(call.args)}"),
        ("attempt", f"{asked.attempt}, started {when(call.started_at, now)}"),
        ("key", call.idempotency_key),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")
