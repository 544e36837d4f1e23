"""`resolve`: a person says whether a call that may have happened did."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click
import msgspec

from jumar.cli.exits import DONE
from jumar.cli.messages import write_json
from jumar.cli.options import Options, opened, with_app, with_json, with_store
from jumar.cli.reading import answered_call, is_there, json_argument, not_happened_from, short_id
from jumar.cli.times import now_ms, when
from jumar.cli.waiting import STILL_MAY
from jumar.core.verdicts import Happened, NotHappened
from jumar.errors import JumarError, UsageError


@click.command()
@click.argument("run", metavar="RUN")
@click.argument("call", metavar="CALL")
@click.option(
    "--happened", "result", metavar="JSON", help="It did, with this result: JSON, @FILE, or - for standard input."
)
@click.option("--not-happened", "no", is_flag=True, help="It did not.")
@click.option("--by", metavar="NAME", help="Who says so; by default the user's name here.")
@click.option("--note", metavar="TEXT", help="A remark to keep with the answer.")
@with_store
@with_app
@with_json
@click.pass_obj
def resolve(
    options: Options, run: str, call: str, result: str | None, no: bool, by: str | None, note: str | None
) -> int:
    """Say whether a call that may have happened did.

    With --app the result is checked against the tool's type. Answered once; the run can then be resumed.
    """
    verdict = _verdict(result, no)
    resume_from: int | None = None
    with opened(options, code=options.wanted_app() is not None) as harness:
        run_id = harness.find(run)
        options.run = short_id(harness, run_id)
        before = is_there(harness, run_id)
        harness.resolve(run_id, call, verdict, by=by, note=note)
        with suppress(JumarError):  # the answer is recorded, whatever else cannot be read
            record = answered_call(harness, run_id, call)
            call = record.call_id if record is not None else call
            known = not_happened_from(harness, record) if record is not None and no else None
            resume_from = known or (before.wake_at if before is not None and no else None)
    word = "happened" if isinstance(verdict, Happened) else "did not happen"
    resume = options.command("resume", options.run)
    if options.json:
        verdict_word = "not-happened" if no else "happened"
        write_json(
            {
                "run_id": run_id,
                "call_id": call,
                "verdict": verdict_word,
                "resume_from": resume_from,
                "next": [resume],
            }
        )
    else:
        _told(f"call {call} of run {options.run} {word}", resume, _from(resume_from) if no else "")
    return DONE


def _verdict(result: str | None, no: bool) -> Happened[Any] | NotHappened:
    if (result is None) is not no:
        raise UsageError(
            "resolve takes one of --happened JSON and --not-happened",
            hint="With --happened give what the tool would have returned, null where it returns nothing.",
        )
    if result is None:
        return NotHappened()
    return Happened(msgspec.json.decode(json_argument("--happened", result)))


def _from(moment: int | None) -> str:
    """From when on the run goes on after "it did not happen", and why not at once; empty where it is time already."""
    now = now_ms()
    if moment is None:
        return f"once it is certain: before that {STILL_MAY}. Until when, resume says."
    return f"{when(moment, now)}: until then {STILL_MAY}." if moment > now else ""


def _told(what: str, resume: str, since: str) -> None:
    from rich.text import Text

    from jumar.cli.results import INDENT, line
    from jumar.cli.screen import out

    screen = out()
    line(screen, "recorded", Text(screen.clean(what), "green"))
    line(screen, "go on", Text(resume, "cyan"))
    for number, part in enumerate(screen.wrapped(since, screen.width - INDENT) if since else []):
        line(screen, "" if number else "from", Text(part, "yellow"))
