"""What a rollback did, or would do: a table with a row a path and one with a row a call, and what to type next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from jumar.cli.exits import DONE, REFUSED, exit_code
from jumar.cli.lines import NextStep, commands_of, line, print_step
from jumar.cli.messages import tell, write_json
from jumar.cli.options import Options
from jumar.cli.results import print_status
from jumar.cli.tables import Cell, print_table
from jumar.cli.times import now_ms
from jumar.cli.waiting import steps_of
from jumar.cli.words import original_of
from jumar.core.restoring import Outcome, Report
from jumar.errors import JumarError, WorkspaceConflict
from jumar.harness.harness import Harness
from jumar.harness.results import Rollback, RunView, WaitingOn

if TYPE_CHECKING:
    from jumar.cli.screen import Screen

_STYLES = {
    Outcome.RESTORED: "green",
    Outcome.DELETED: "red",
    Outcome.CONFLICT: "bold yellow",
    Outcome.UNCAPTURED: "dim",
    Outcome.FAILED: "bold red",
}
_WOULD = {Outcome.RESTORED: "to restore", Outcome.DELETED: "to delete"}
_REFUSING = (Outcome.CONFLICT, Outcome.FAILED)


def report(harness: Harness, options: Options, done: Rollback) -> int:
    """Print what a rollback did, or would do, and how the run stands now; answers the exit code."""
    short = options.run or done.run_id
    view = harness.show(done.run_id)
    steps = [] if done.dry_run else steps_of(options, short, view, now_ms())
    if view.run.rolling_back_to is None:
        steps += _undoing(options, short, done)
    if options.json:
        _as_json(view, done, steps)
    else:
        from jumar.cli.screen import out

        _as_text(out(), view, done, steps)
    return _code(view, done)


def _undoing(options: Options, run: str, done: Rollback) -> list[NextStep]:
    """How the files are had again as they were before."""
    kept = _hex(done.report)
    if kept is None:
        return []
    again = options.command("rollback", run, "--to", f"files:{kept[:12]}")
    return [NextStep("The files as they were before are kept.", (("put back", again),))]


def _code(view: RunView, done: Rollback) -> int:
    if done.report is not None and not done.report.complete:
        return REFUSED
    if done.dry_run or view.run.status != "WAITING" or view.run.rolling_back_to is None:
        return DONE
    return exit_code(view.run, view.waiting_on)


def refused(options: Options, error: WorkspaceConflict, again: str, look: Callable[[], Rollback]) -> int:
    """Print that files which somebody else has changed since keep a run from being rolled back; each of them with why,
    as a dry run finds them.  `again` is the command that puts them back all the same.
    """
    error.hint = f"Look at them, then `{again}` puts them back all the same; what that overwrites is kept."
    if not options.json:
        with suppress(JumarError):  # it is the error that has to be told
            found = look().report
            if found is not None:
                from jumar.cli.screen import err

                _print_paths(err(), found, dry=True)
                err().print()
    tell(error, options)
    return error.exit_code


def _as_json(view: RunView, done: Rollback, steps: Sequence[NextStep]) -> None:
    files = [
        {"path": each.text, "outcome": each.outcome.value, "reason": each.reason}
        for each in (done.report.paths if done.report is not None else ())
    ]
    told: dict[str, Any] = {name: getattr(done, name) for name in done.__struct_fields__ if name != "report"}
    write_json(
        {
            **msgspec.to_builtins(told),
            "files": files,
            "safety": _hex(done.report),
            "status": view.run.status,
            "next": commands_of(list(steps)),
        }
    )


def _hex(found: Report | None) -> str | None:
    return None if found is None or found.safety is None else found.safety.hex()


def _as_text(screen: Screen, view: RunView, done: Rollback, steps: Sequence[NextStep]) -> None:
    from rich.text import Text

    print_status(screen, view.run)
    label = "would go" if done.dry_run else "went" if view.run.rolling_back_to is None else "is going"
    line(screen, label, Text(screen.clean(f"back to {done.target}, {done.checkpoint}"), "bold"))
    if done.damaged:
        versions = ", ".join(map(str, done.damaged))
        line(
            screen,
            "",
            Text(f"what was kept at {versions} is damaged; this is the newest before it that is not", "yellow"),
        )
    if done.report is not None:
        line(screen, "files", Text(_counts(done.report, dry=done.dry_run)))
    calls = [
        *_count(len(done.undone), "to undo" if done.dry_run else "undone"),
        *_count(len(done.not_undone), "not undone"),
        *_count(len(_open(done)), "asked about"),
    ]
    if calls:
        line(screen, "calls", Text(", ".join(calls)))
    if done.withdrawn:
        line(screen, "asked", Text(f"no more about {', '.join(done.withdrawn)}"))
    if done.report is not None and done.report.paths:
        screen.print()
        _print_paths(screen, done.report, dry=done.dry_run)
    if calls:
        screen.print()
        _print_calls(screen, done)
    if steps:
        screen.print()
    for step in steps:
        print_step(screen, step)


def _open(done: Rollback) -> list[WaitingOn]:
    """The calls that nobody could undo yet."""
    return [each for each in done.waiting_on if each.kind == "undo"]


def _count(number: int, word: str) -> list[str]:
    return [f"{number:,} {word}"] if number else []


def _counts(found: Report, *, dry: bool) -> str:
    counts = Counter(each.outcome for each in found.paths)
    return ", ".join(f"{counts[each]:,} {_word(each, dry)}" for each in _STYLES if counts[each]) or "as they were then"


def _word(outcome: Outcome, dry: bool) -> str:
    return _WOULD.get(outcome, outcome.value) if dry else outcome.value


def _print_paths(screen: Screen, found: Report, *, dry: bool) -> None:
    rows: list[list[Cell]] = [
        [(_word(each.outcome, dry), _STYLES[each.outcome]), (each.text, _STYLES[each.outcome]), (each.reason, "")]
        for each in found.paths
    ]
    print_table(screen, ("files", "path", "why" if any(each.reason for each in found.paths) else ""), rows, cut=False)


def _print_calls(screen: Screen, done: Rollback) -> None:
    undone = "to undo" if done.dry_run else "undone"
    rows: list[list[Cell]] = [[(undone, "green"), (name, "bold"), ("", "")] for name in done.undone]
    rows += [[("not undone", "yellow"), (each.call_id, "bold"), (each.why, "")] for each in done.not_undone]
    rows += [
        [("asked about", "bold yellow"), (original_of(each.call_id), "bold"), (each.reason or "", "")]
        for each in _open(done)
    ]
    print_table(screen, ("calls", "call", "why"), rows, cut=False)
