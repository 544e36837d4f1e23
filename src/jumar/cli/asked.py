"""One open request as a person meets it: what is asked, what is known about it, and the commands that answer it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumar.cli.lines import NextStep
from jumar.cli.options import Options
from jumar.cli.settling import is_timeout, still_may
from jumar.cli.times import when
from jumar.cli.words import json_of, original_of
from jumar.harness.results import RunInfo, WaitingOn

_MOST_CHOICES = 8  # choices that have a command each
_PROBED = {"Unknown": "it does not know", "NotHappened": "it did not happen so far", "Happened": "it happened"}


def question(asked: WaitingOn) -> str:
    """What is asked, in one sentence."""
    if asked.kind == "approval":
        return f"may {asked.call_id} be sent?"
    if asked.kind == "resolve":
        return f"did {asked.call_id} happen?"
    if asked.kind == "undo":
        original = original_of(asked.call_id)
        if not asked.attempt:
            return f"another run counts on what {original} did: undo it all the same, or leave it as it is?"
        if asked.state == "UNCERTAIN":
            return f"nobody knows whether {original} was undone: undo it again, or leave it as it is?"
        return f"{original} could not be undone: again, or leave it as it is?"
    return f"{asked.call_id} asks: {asked.question}" if asked.question else f"{asked.call_id} needs an answer"


def step_for(options: Options, short: str, asked: WaitingOn, now: int, *, says: str, remakes: bool = True) -> NextStep:
    """What is asked and how to answer it; `says` is put before the moment since when.  `remakes` says that the run
    would make a call again that did not happen.
    """
    reason = f"{says}, since {when(asked.since, now)}: {question(asked)}"
    return NextStep(reason, commands_for(options, short, asked, remakes=remakes), facts_for(asked, now))


def late_step(
    options: Options, short: str, run: RunInfo, asked: Sequence[WaitingOn], now: int, *, says: str = "It"
) -> NextStep:
    """It is known of these calls that they did not happen, and the run goes on by itself once that is certain."""
    assert run.wake_at is not None
    names = ", ".join(each.call_id for each in asked)
    probed = [each.probed_at for each in asked if each.probed == "NotHappened"]
    by = f", says the probe, at {when(max(probed), now)}" if probed else ""
    tools, errors = {each.tool for each in asked}, {each.reason for each in asked}
    timing = options.timing(tools.pop()) if len(tools) == 1 else None
    error = errors.pop() if len(errors) == 1 else None
    moment = when(run.wake_at, now)
    if run.wake_at > now:
        reason = (
            f"{says} waits about {names} until {moment} and then goes on by itself, with nobody's answer: it did not "
            f"happen so far{by}, but until then {still_may(timing, error)}."
        )
    else:
        reason = (
            f"{says} waited about {names} until {moment}, and goes on when it is resumed, with nobody's answer: it did "
            f"not happen{by}."
        )
    commands = tuple(command for each in asked for command in _otherwise(options, short, each))
    return NextStep(reason, commands, tuple(fact for each in asked for fact in facts_for(each, now)))


def _otherwise(options: Options, short: str, asked: WaitingOn) -> tuple[tuple[str, str], ...]:
    return (
        ("if it happened after all", _happened(options, short, asked)),
        ("to leave it at that", options.command("reject", short, asked.call_id, app=False)),
    )


def needs_nobody(run: RunInfo, asked: WaitingOn) -> bool:
    """Whether the probe has said that a call did not happen, so that it is only to be waited until that is certain."""
    return run.status == "WAITING" and asked.needs_nobody(run.wake_at)


def is_settling(run: RunInfo, asked: Sequence[WaitingOn]) -> bool:
    """Whether what is asked is only whether calls happened after all, of which it is known that they did not so far:
    then the run waits for a time, and goes on by itself.
    """
    names = set((run.waiting_on or "").split(", "))
    return (
        run.status == "WAITING"
        and run.wake_at is not None
        and bool(asked)
        and all(each.kind == "resolve" and each.call_id in names for each in asked)
        and len(names) == len({each.call_id for each in asked})
    )


def commands_for(
    options: Options, short: str, asked: WaitingOn, *, remakes: bool = True
) -> tuple[tuple[str, str], ...]:
    """The commands that answer, each with what it says."""
    call = asked.call_id
    reject = options.command("reject", short, call, app=False)
    if asked.kind == "approval":
        return (
            ("yes", options.command("approve", short, call, app=False)),
            ("yes, changed", options.command("approve", short, call, "--args", "JSON", app=False)),
            ("no", reject),
        )
    if asked.kind == "undo":
        again = ("again" if asked.attempt else "undo it", options.command("approve", short, call, app=False))
        done = ("it is undone", options.command("resolve", short, call, "--happened", "null", app=False))
        return (again, done, ("leave it as it is", reject)) if asked.attempt else (again, ("leave it as it is", reject))
    if asked.kind == "ask":
        choices = asked.choices or ()
        if 0 < len(choices) <= _MOST_CHOICES:
            return tuple((each, options.command("answer", short, call, _typed(each), app=False)) for each in choices)
        return (("answer", options.command("answer", short, call, "JSON", app=False)),)
    not_happened = options.command("resolve", short, call, "--not-happened", app=False)
    yes = ("yes", _happened(options, short, asked))
    if not remakes:
        return yes, ("no", not_happened)
    return yes, ("no, again", not_happened), ("no, leave it", reject)


def _happened(options: Options, short: str, asked: WaitingOn) -> str:
    return options.command("resolve", short, asked.call_id, "--happened", "JSON", app=False)


def _typed(choice: str) -> str:
    """A choice as an argument: itself, or as JSON where it would be read as something else, with nothing in it that a
    terminal would obey.
    """
    if not choice.isprintable():
        import json  # needed here alone

        return json.dumps(choice)
    return json_of(choice) if choice[0] in "-@\"'" else choice


def facts_for(asked: WaitingOn, now: int) -> tuple[tuple[str, str], ...]:
    """What a person needs to decide, or to look the call up where it may have acted."""
    if asked.kind == "ask":
        return _about_question(asked, now)
    sends = ("call", f"{asked.tool} {json_of(asked.args)}")
    reason = (("reason", asked.reason),) if asked.reason else ()
    if asked.kind == "approval":
        again = (("attempt", f"{asked.attempt}, after one of {_at(asked, now)}"),) if asked.attempt > 1 else ()
        return (sends, *again, *reason)
    if asked.kind == "undo":
        tries = (("attempt", f"{asked.attempt}, at {_at(asked, now)}"),) if asked.attempt else ()
        return (("undoes", sends[1]), *tries, *reason)
    attempt = ("attempt", f"{asked.attempt}, started {_at(asked, now)}")
    return (sends, attempt, *reason, *_probe(asked, now), ("key", asked.idempotency_key), *_advice(asked))


def _probe(asked: WaitingOn, now: int) -> tuple[tuple[str, str], ...]:
    if asked.probed is None:
        return ()
    return (("probe", f"{_PROBED.get(asked.probed, asked.probed)}, at {when(asked.probed_at, now)}"),)


def _advice(asked: WaitingOn) -> tuple[tuple[str, str], ...]:
    """What a tool can be told, so that nobody need be asked about such an exception again."""
    if asked.reason is None or is_timeout(asked.reason):  # which says nothing about what was done
        return ()
    kind = asked.reason.partition(":")[0]
    return (("later", f"where {kind} means that nothing was done, list it in {asked.tool}'s errors= or not_applied="),)


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
