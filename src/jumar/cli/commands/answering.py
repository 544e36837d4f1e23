"""`approve`, `reject`, `answer` and `resolve`: a person answers what a run asks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click
import msgspec

from jumar.cli.exits import DONE
from jumar.cli.given import Given, tell_given
from jumar.cli.options import Options, opened, with_app, with_json, with_store
from jumar.cli.reading import answered_call, is_there, json_argument, not_happened_from, short_id
from jumar.cli.requested import requested
from jumar.cli.settling import still_may
from jumar.cli.times import now_ms, when
from jumar.cli.words import edits, json_of, original_of
from jumar.core.verdicts import Happened, NotHappened
from jumar.errors import JumarError, UsageError
from jumar.harness.harness import Harness
from jumar.harness.results import WaitingOn

_run = click.argument("run", metavar="RUN")
_call = click.argument("call", metavar="CALL")
_by = click.option("--by", metavar="NAME", help="Who says so; by default the user's name here.")
_note = click.option("--note", metavar="TEXT", help="A remark to keep with the answer.")


@click.command(short_help="Let a call that waits for approval be sent.")
@_run
@_call
@click.option("--args", "given", metavar="JSON", help="Send it with these arguments by name: JSON, @FILE, or -.")
@_by
@_note
@with_store
@with_app
@with_json
@click.pass_obj
def approve(options: Options, run: str, call: str, given: str | None, by: str | None, note: str | None) -> int:
    """Let a call that waits for approval be sent, when the run is resumed.

    --args replaces its arguments, all of them; with --app they are checked against the tool. Of a call that a rollback
    could not undo it says that this is to be tried again. Answered once.
    """
    with _answering(options) as harness:
        run_id = _found(harness, options, run)
        asked = requested(harness, options, run_id, call, "approval", "undo")
        if asked.kind == "undo":
            if given is not None:
                raise UsageError(
                    f"--args cannot be given for {asked.call_id}", hint="It is undone with what it was done with."
                )
            harness.approve(run_id, asked.call_id, by=by, note=note)
            return _about_undoing(harness, options, run_id, asked, "approve", "is to be undone")
        args = None if given is None else _object(json_argument("--args", given))
        harness.approve(run_id, asked.call_id, args=args, by=by, note=note)
        changed = ""
        if args is not None:
            changed = edits(asked.args, args) or "the arguments that were asked for"
        return _told(harness, options, Given(run_id, asked.call_id, "approve", "may be sent", changed=changed))


@click.command(short_help="Keep a call from being sent, or from being sent again.")
@_run
@_call
@_by
@_note
@with_store
@with_app
@with_json
@click.pass_obj
def reject(options: Options, run: str, call: str, by: str | None, note: str | None) -> int:
    """Keep a call that waits for approval from being sent.

    Of a call that may have happened it says that it did not, and is not to be made again. The agent gets CallRejected,
    with the note, when the run is resumed. A call that a rollback could not undo it leaves as it is. Answered once.
    """
    with _answering(options) as harness:
        run_id = _found(harness, options, run)
        asked = requested(harness, options, run_id, call, "approval", "resolve", "undo")
        harness.reject(run_id, asked.call_id, by=by, note=note)
        if asked.kind == "approval":
            return _told(harness, options, Given(run_id, asked.call_id, "reject", "is rejected"))
        if asked.kind == "undo":
            words = "is left as it is, and counts as not undone"
            return _about_undoing(harness, options, run_id, asked, "reject", words)
        words = "did not happen, and is not made again"
        return _told(harness, options, Given(run_id, asked.call_id, "reject", words, reason=asked.reason))


@click.command(short_help="Answer a question.", context_settings={"ignore_unknown_options": True})
@_run
@_call
@click.argument("value", metavar="JSON")
@_by
@_note
@with_store
@with_app
@with_json
@click.pass_obj
def answer(options: Options, run: str, call: str, value: str, by: str | None, note: str | None) -> int:
    """Answer what a run asks: one of the choices as it stands, or JSON, @FILE, or - for standard input.

    Answered once; the run can then be resumed.
    """
    with _answering(options) as harness:
        run_id = _found(harness, options, run)
        asked = requested(harness, options, run_id, call, "ask")
        meant = _meant(asked, value)
        harness.answer(run_id, asked.call_id, meant, by=by, note=note)
        return _told(harness, options, Given(run_id, asked.call_id, "value", f"is answered {json_of(meant)}"))


@click.command()
@_run
@_call
@click.option(
    "--happened", "result", metavar="JSON", help="It did, with this result: JSON, @FILE, or - for standard input."
)
@click.option("--not-happened", "no", is_flag=True, help="It did not.")
@_by
@_note
@with_store
@with_app
@with_json
@click.pass_obj
def resolve(
    options: Options, run: str, call: str, result: str | None, no: bool, by: str | None, note: str | None
) -> int:
    """Say whether a call that may have happened did.

    With --app the result is checked against the tool's type. Of a call that a rollback could not undo it says whether
    it is undone after all. Answered once; the run can then be resumed.
    """
    if (result is None) is not no:
        raise UsageError(
            "resolve takes one of --happened JSON and --not-happened",
            hint="With --happened give what the tool would have returned, null where it returns nothing.",
        )
    with _answering(options) as harness:
        run_id = _found(harness, options, run)
        asked = requested(harness, options, run_id, call, "resolve", "undo")
        before = is_there(harness, run_id)
        harness.resolve(run_id, asked.call_id, _verdict(result), by=by, note=note)
        if asked.kind == "undo":
            verdict, words = ("not-happened", "is to be undone") if no else ("happened", "is undone")
            return _about_undoing(harness, options, run_id, asked, verdict, words)
        if not no:
            given = Given(run_id, asked.call_id, "happened", "happened", reason=asked.reason)
            return _told(harness, options, given)
        known = None
        with suppress(JumarError):  # the answer is recorded, whatever else cannot be read
            record = answered_call(harness, run_id, asked.call_id)
            known = not_happened_from(harness, record) if record is not None else None
        moment = known or (before.wake_at if before is not None else None)
        said = Given(
            run_id,
            asked.call_id,
            "not-happened",
            "did not happen",
            resume_from=moment,
            since=_from(moment, still_may(options.timing(asked.tool), asked.reason)),
            reason=asked.reason,
        )
        return _told(harness, options, said)


def _answering(options: Options) -> Any:
    """The harness to answer with: the app's, where there is one, because it knows the tools' types."""
    return opened(options, code=options.wanted_app() is not None)


def _told(harness: Harness, options: Options, said: Given) -> int:
    tell_given(harness, options, said)
    return DONE


def _about_undoing(harness: Harness, options: Options, run_id: str, asked: WaitingOn, verdict: str, words: str) -> int:
    about = original_of(asked.call_id)
    said = Given(run_id, asked.call_id, verdict, words, reason=asked.reason, about=about)
    return _told(harness, options, said)


def _found(harness: Harness, options: Options, run: str) -> str:
    run_id = harness.find(run)
    options.run = short_id(harness, run_id)
    return run_id


def _object(data: bytes) -> dict[str, Any]:
    args = msgspec.json.decode(data)
    if isinstance(args, dict):
        return args
    raise UsageError(
        "--args takes the arguments by name, as a JSON object", hint="""Such as --args '{"cents": 900}'."""
    )


def _meant(asked: WaitingOn, text: str) -> Any:
    """What is answered: a choice as it stands, or JSON."""
    choices = asked.choices or ()
    if text in choices:
        return text
    try:
        return msgspec.json.decode(json_argument("the answer", text))
    except UsageError as error:
        if not choices:
            raise UsageError(
                error.what, hint="""Quote it for the shell: '"some text"' for a text, 5 for a number."""
            ) from None
        listed = ", ".join(map(json_of, choices))
        raise UsageError(f"{text!r} is none of the choices", hint=f"The choices are {listed}.") from None


def _verdict(result: str | None) -> Happened[Any] | NotHappened:
    if result is None:
        return NotHappened()
    return Happened(msgspec.json.decode(json_argument("--happened", result)))


def _from(moment: int | None, may: str) -> str:
    """From when on the run goes on after "it did not happen", and why not at once; empty where it is time already."""
    now = now_ms()
    if moment is None:
        return f"once it is certain: before that {may}. Until when, resume says."
    return f"{when(moment, now)}: until then {may}." if moment > now else ""
