"""One open request as a person meets it: what is asked, what is known about it, and the commands that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumar.cli.lines import NextStep
from jumar.cli.options import Options
from jumar.cli.times import when
from jumar.cli.words import json_of
from jumar.harness.results import RunInfo, WaitingOn

_MOST_CHOICES = 8  # choices that have a command each

# What "it did not happen" has to wait for, in the words of the settings that make it long or short.
STILL_MAY = (
    "the attempt itself may go on (for its timeout, or stall_timeout, 600 s by default, where the tool has none), and "
    "after that what it sent may still act (for settle, two lease_ttl by default)"
)


def question(asked: WaitingOn) -> str:
    """What is asked, in one sentence."""
    if asked.kind == "approval":
        return f"may {asked.call_id} be sent?"
    if asked.kind == "resolve":
        return f"did {asked.call_id} happen?"
    return f"{asked.call_id} asks: {asked.question}" if asked.question else f"{asked.call_id} needs an answer"


def step_for(options: Options, short: str, asked: WaitingOn, now: int, *, says: str) -> NextStep:
    """What is asked and how to answer it; `says` is put before the moment since when."""
    reason = f"{says}, since {when(asked.since, now)}: {question(asked)}"
    return NextStep(reason, commands_for(options, short, asked), facts_for(asked, now))


def late_step(options: Options, short: str, run: RunInfo, asked: Sequence[WaitingOn], now: int) -> NextStep:
    """It is known of these calls that they did not happen, and too early to act on it."""
    assert run.wake_at is not None
    reason = (
        f"It waits about {run.waiting_on} until {when(run.wake_at, now)}: it did not happen so far, but until then "
        f"{STILL_MAY}."
    )
    late = tuple(("if it happened after all", _happened(options, short, each)) for each in asked)
    return NextStep(reason, late, tuple(fact for each in asked for fact in facts_for(each, now)))


def is_settling(run: RunInfo, asked: Sequence[WaitingOn]) -> bool:
    """Whether what is asked is only whether calls happened after all, of which it is known that they did not so far:
    then the run waits for a time, and goes on by itself.
    """
    names = set((run.waiting_on or "").split(", "))
    return (
        run.wake_at is not None
        and bool(asked)
        and all(each.kind == "resolve" and each.call_id in names for each in asked)
        and len(names) == len({each.call_id for each in asked})
    )


def commands_for(options: Options, short: str, asked: WaitingOn) -> tuple[tuple[str, str], ...]:
    """The commands that answer, each with what it says."""
    call = asked.call_id
    if asked.kind == "approval":
        return (
            ("yes", options.command("approve", short, call, app=False)),
            ("yes, changed", options.command("approve", short, call, "--args", "JSON", app=False)),
            ("no", options.command("reject", short, call, app=False)),
        )
    if asked.kind == "ask":
        choices = asked.choices or ()
        if 0 < len(choices) <= _MOST_CHOICES:
            return tuple((each, options.command("answer", short, call, _typed(each), app=False)) for each in choices)
        return (("answer", options.command("answer", short, call, "JSON", app=False)),)
    return (
        ("yes", _happened(options, short, asked)),
        ("no", options.command("resolve", short, call, "--not-happened", app=False)),
    )


def _happened(options: Options, short: str, asked: WaitingOn) -> str:
    return options.command("resolve", short, asked.call_id, "--happened", "JSON", app=False)


def _typed(choice: str) -> str:
    """A choice as an argument: itself, or as JSON where it would be read as something else."""
    return json_of(choice) if choice[0] in "-@\"'" or not choice.isprintable() else choice


def facts_for(asked: WaitingOn, now: int) -> tuple[tuple[str, str], ...]:
    """What a person needs to decide, or to look the call up where it may have acted."""
    if asked.kind == "ask":
        return _about_question(asked, now)
    sends = ("call", f"{asked.tool} {json_of(asked.args)}")
    if asked.kind == "approval":
        again = (("attempt", f"{asked.attempt}, after one of {_at(asked, now)}"),) if asked.attempt > 1 else ()
        return (sends, *again)
    return (sends, ("attempt", f"{asked.attempt}, started {_at(asked, now)}"), ("key", asked.idempotency_key))


def _at(asked: WaitingOn, now: int) -> str:
    return when(asked.started_at, now) if asked.started_at else "a moment that is not known"


def _about_question(asked: WaitingOn, now: int) -> tuple[tuple[str, str], ...]:
    details: Mapping[str, Any] = asked.args if isinstance(asked.args, Mapping) else {}
    facts = []
    if asked.choices and len(asked.choices) > _MOST_CHOICES:
        facts.append(("choices", ", ".join(map(json_of, asked.choices))))
    if isinstance(details.get("type"), str):
        facts.append(("type", f"JSON, {details['type']}"))
    if asked.expires_at is not None:
        default = json_of(details.get("default"))
        over = "then the default is taken" if asked.expires_at > now else "when it is resumed, the default is taken"
        facts.append(("expires", f"{when(asked.expires_at, now)}; {over}: {default}"))
    return tuple(facts)
