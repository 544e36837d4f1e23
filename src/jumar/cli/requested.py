"""Which open request a person means, and what is said where there is none: the answer itself is looked at later."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.cli.asked import commands_for
from jumar.cli.notes import goes_on_elsewhere
from jumar.cli.options import Options
from jumar.cli.reading import open_requests
from jumar.cli.words import json_of
from jumar.core.naming import meant
from jumar.errors import RequestNotFound
from jumar.harness.harness import Harness
from jumar.harness.results import AnswerView, RunView, WaitingOn

_ASKS = {
    "resolve": "whether it happened",
    "approval": "for approval",
    "ask": "a question",
    "undo": "whether to undo it again",
}
_MOST = 5


def requested(harness: Harness, options: Options, run_id: str, call: str, *kinds: str) -> WaitingOn:
    """The open request of one of these kinds about a call, named by its id or a unique end of it.  RequestNotFound says
    what is asked instead, how it was answered, or what else waits.
    """
    waiting = open_requests(harness, run_id)
    named = [asked for asked in waiting if asked.call_id == call]
    view, names = None, {call}
    if not named:
        view = harness.show(run_id)
        # Among the answered ones, too: a command that is given twice must not answer what another call asks.
        asked_of = [asked.call_id for asked in waiting] + [answer.call_id for answer in view.answers]
        names = meant(call, asked_of)
        named = [asked for asked in waiting if asked.call_id in names]
    found = next((asked for asked in named if asked.kind in kinds), None)
    if found is not None:
        return found
    short = options.run or run_id
    if named:
        asked = named[0]
        commands = " or ".join(f"`{command}`" for _, command in commands_for(options, short, asked))
        raise RequestNotFound(
            f"{asked.call_id} asks {_ASKS[asked.kind]}, not {_ASKS[kinds[0]]}", hint=f"Answer it: {commands}."
        )
    assert view is not None
    if goes_on_elsewhere(view.run):
        raise RequestNotFound(
            f"run {short} asks nothing here ({view.run.error_type}: {view.run.error_message})",
            hint="Answer it in the store that has it (--store).",
        )
    last = next((answer for answer in reversed(view.answers) if answer.call_id in names), None)
    if last is not None:
        raise RequestNotFound(
            f"what was asked about {last.call_id} has been answered ({_answer(last)})",
            hint=_others(options, short, view),
        )
    ended = view.run.status in ("COMPLETED", "CANCELLED")
    stands = f" is {view.run.status.lower()}, and" if ended else ""
    any_more = " any more" if ended else ""
    raise RequestNotFound(
        f"run {short}{stands} asks nothing about {call}{any_more}", hint=_others(options, short, view)
    )


def _answer(answer: AnswerView) -> str:
    said = json_of(answer.value) if answer.verdict == "value" else answer.verdict
    return f"{said} by {answer.by}" if answer.by else said


def _others(options: Options, short: str, view: RunView) -> str:
    """What does wait for somebody, and where it is shown how it is answered."""
    waits: Sequence[WaitingOn] = view.waiting_on
    names = [each.call_id for each in waits[:_MOST]]
    more = f" and {len(waits) - _MOST} more" if len(waits) > _MOST else ""
    what = f"It asks about {', '.join(names)}{more}" if names else "It asks nobody anything"
    return f"{what}: `{options.command('show', short, app=False)}` shows how it stands."
