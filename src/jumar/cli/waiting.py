"""What a run waits for, and the commands to type next, for `run`, `resume` and `show` alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.cli.options import Options
from jumar.cli.progress import owner_name
from jumar.cli.times import lasted, when
from jumar.harness.results import RunInfo, WaitingOn

_QUESTIONS = {"resolve": "did {call} happen?"}


@dataclass(frozen=True)
class NextStep:
    """One sentence on why the run stands still, and the commands that move it, each with what it says."""

    reason: str
    commands: tuple[tuple[str, str], ...] = ()


def next_steps(options: Options, short: str, run: RunInfo, waiting_on: Sequence[WaitingOn], now: int) -> list[NextStep]:
    """Why a run stands still and how to move it; nothing for one that has ended."""
    resume = options.command("resume", short)
    if run.status == "WAITING":
        return _waiting(options, short, run, waiting_on, now)
    if run.status == "QUEUED":
        return [NextStep("It is queued: no process drives it.", (("go on", resume),))]
    if run.status != "RUNNING":
        return []
    if run.lease_seconds is None:
        return [NextStep("The process that drove it has gone: its lease ran out.", (("go on", resume),))]
    left = lasted(run.lease_seconds * 1000)
    return [NextStep(f"{owner_name(run.owner)} drives it; its lease has {left} left unless it is renewed.")]


def _waiting(options: Options, short: str, run: RunInfo, waiting_on: Sequence[WaitingOn], now: int) -> list[NextStep]:
    resume = options.command("resume", short)
    if run.wake_at is None:
        steps = [
            _question(options, short, asked, f"It waits for a person, since {when(asked.since, now)}")
            for asked in waiting_on
        ]
        if steps:
            steps[-1] = NextStep(steps[-1].reason, (*steps[-1].commands, ("then", resume)))
        return steps
    sooner = [_question(options, short, asked, "A person may answer before that") for asked in waiting_on]
    about = f" about {run.waiting_on}" if run.waiting_on else ""
    if run.wake_at <= now:
        return [NextStep(f"The time it waited for{about} came at {when(run.wake_at, now)}.", (("go on", resume),))]
    return [NextStep(f"It waits{about} until {when(run.wake_at, now)}.", (("from then on", resume),)), *sooner]


def _question(options: Options, short: str, asked: WaitingOn, reason: str) -> NextStep:
    question = _QUESTIONS.get(asked.kind, "{call} needs an answer").format(call=asked.call_id)
    return NextStep(
        f"{reason}: {question}",
        (
            ("yes", options.command("resolve", short, asked.call_id, "--happened", "JSON", app=False)),
            ("no", options.command("resolve", short, asked.call_id, "--not-happened", app=False)),
        ),
    )
