"""What is said after a person has answered: what is recorded, how the run stands now, and what to type next."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from jumar.cli.messages import write_json
from jumar.cli.options import Options
from jumar.cli.progress import owner_name
from jumar.cli.reading import info_of, open_requests
from jumar.core.phases import FINAL
from jumar.errors import JumarError
from jumar.harness.harness import Harness
from jumar.harness.results import RunInfo

_FINAL = frozenset(status.name for status in FINAL)


@dataclass(frozen=True)
class Given:
    """An answer that is recorded: about which call, the verdict's own name and its words; what it changed in the call's
    arguments; from when on (ms since 1970) the run goes on after it; what the call's last attempt ended with; and which
    call is told of instead, where that one undoes it.
    """

    run_id: str
    call_id: str
    verdict: str
    words: str
    changed: str = ""
    resume_from: int | None = None
    since: str = ""
    reason: str | None = None
    about: str = ""


def tell_given(harness: Harness, options: Options, given: Given) -> None:
    """Print it, or with `--json` as one object."""
    run: RunInfo | None = None
    open_still = 0
    with suppress(JumarError):  # the answer is recorded, whatever else cannot be read
        run = info_of(harness, given.run_id)
        open_still = len(open_requests(harness, given.run_id))
    short = options.run or given.run_id
    next_ = _next(options, short, run)
    if options.json:
        write_json(
            {
                "run_id": given.run_id,
                "call_id": given.call_id,
                "verdict": given.verdict,
                "status": None if run is None else run.status,
                "reason": given.reason,
                "still_open": open_still,
                "resume_from": given.resume_from,
                "next": [command for _, command in next_],
            }
        )
        return
    from rich.text import Text

    from jumar.cli.lines import line, wrapped_line
    from jumar.cli.screen import out

    screen = out()
    wrapped_line(screen, "recorded", f"call {given.about or given.call_id} of run {short} {given.words}", "green")
    if given.changed:
        wrapped_line(screen, "with", given.changed)
    if given.reason:
        wrapped_line(screen, "reason", given.reason)
    stands = _stands(run)
    if stands:
        wrapped_line(screen, "run", stands)
    if open_still:
        more = "1 more request is" if open_still == 1 else f"{open_still} more requests are"
        look = options.command("show", short, app=False)
        line(screen, "open", Text.assemble((f"{more} open: ", "yellow"), (look, "cyan")))
    for label, command in next_:
        line(screen, label, Text(command, "cyan"))
    if given.since and next_:
        wrapped_line(screen, "from", given.since, "yellow")


def _next(options: Options, short: str, run: RunInfo | None) -> list[tuple[str, str]]:
    """The command that takes the run up again; none for one that has ended, or that a process drives."""
    if run is not None and (run.status in _FINAL or _is_driven(run)):
        return []
    return [("go on", options.command("resume", short))]


def _is_driven(run: RunInfo) -> bool:
    return run.status == "RUNNING" and run.lease_seconds is not None


def _stands(run: RunInfo | None) -> str:
    if run is None:
        return ""
    if run.status in _FINAL:
        return f"it is {run.status.lower()}: the call is settled, and nothing is resumed"
    if _is_driven(run):
        return f"{owner_name(run.owner)} drives it, and takes the answer up by itself"
    return "it is paused, and goes on only when it is resumed" if run.status == "PAUSED" else ""
