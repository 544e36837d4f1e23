"""What stands above a run's timeline: which run, how it stands, when it began, and what it took so far."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.text import Text

from jumar.cli.lines import INDENT, STATUS_STYLES
from jumar.cli.screen import Screen, cells
from jumar.cli.times import ago, lasted, moment
from jumar.cli.words import is_turn, ordered, pending, rolling_back, to_be
from jumar.harness.results import CallView, RunInfo, RunView

_MANY = 4000  # characters of a value that are looked at before it is cut


def end_of(view: RunView, now: int) -> int:
    """The right edge of the timeline: now, while a process drives the run, else the last that happened."""
    run = view.run
    if is_live(view):
        return max(now, run.updated_at)
    return max(run.updated_at, run.created_at, *(call.ended_at or call.started_at for call in view.calls), 0)


def is_live(view: RunView) -> bool:
    """Whether a process holds the run's lease at this moment."""
    return view.run.status == "RUNNING" and view.run.lease_seconds is not None


def heading(screen: Screen, view: RunView, now: int, end: int) -> list[tuple[str, Text]]:
    """Labelled lines, each within the screen's width."""
    run, width = view.run, screen.width - INDENT
    on_task = "" if run.task == run.agent else f" on {run.task}"
    lines = [
        ("run", Text(run.run_id, "bold")),
        ("agent", Text(screen.cut(screen.clean(run.agent + on_task), width))),
        *_status(screen, run, width),
        (
            "started",
            Text(screen.cut(f"{moment(run.created_at)}, {ago(run.created_at, now)}; {_took(view, end)}", width)),
        ),
    ]
    if view.takeovers:
        times = "once" if len(view.takeovers) == 1 else f"{len(view.takeovers)} times"
        lines.append(("epoch", Text.assemble(f"{run.epoch}, ", (f"taken over {times}", "magenta"))))
    elif run.epoch:
        lines.append(("epoch", Text(str(run.epoch))))
    if run.forked_from is not None:
        lines.append(("fork of", Text(run.forked_from)))
    if run.line:
        lines.append(("line", Text(_line(run), "magenta")))
    if run.workspace is not None:
        lines.append(("files", Text(screen.clean(run.workspace))))
    if _is_loop(view):
        phase = "" if run.phase == "STOPPED" else f", {run.phase.lower().replace('_', ' ')}"
        lines.append(("turn", Text(f"{run.step:,}{phase}")))
    if view.calls:
        lines.append(("calls", Text(screen.cut(_counts(view), width))))
    usage = usage_of([call for call in view.calls if call.usage])
    if usage:
        lines.append(("usage", Text(usage)))
    if view.input is not None:
        lines.append(("input", Text(screen.cut(json_text(screen, view.input), width))))
    return lines


def _status(screen: Screen, run: RunInfo, width: int) -> list[tuple[str, Text]]:
    """How the run stands; an error beside it where it fits, else whole on lines of its own."""
    status = Text(run.status, f"bold {STATUS_STYLES.get(run.status, '')}")
    told = _order(run)
    if told:
        status.append(screen.cut(f"  {screen.clean(told)}", width - len(run.status)), "magenta")
    if run.error_type is None:
        return [("status", status)]
    text = f"{run.error_type}: {run.error_message}"
    if "\n" not in text and cells(screen.clean(text)) + cells(status) + 2 <= width:
        return [("status", status.append(f"  {screen.clean(text)}", "red"))]
    return [("status", status), *_wrapped(screen, "error", text, "red", width)]


def _line(run: RunInfo) -> str:
    """How often the run was rolled back, and to where last; of a fork, from where it goes on."""
    if run.forked_from is not None:
        return f"goes on from version {run.line[-1][1]}; what came after that is left behind"
    times = "once" if run.generation == 1 else f"{run.generation:,} times"
    last = ", last" if run.generation > 1 else ""
    return f"rolled back {times}{last} to version {run.line[-1][1]}; what came after that is left behind"


def _order(run: RunInfo) -> str:
    """The rollback that is under way, the order that the run has yet to obey, or by whom it was ended."""
    if rolling_back(run):
        return f"{rolling_back(run)} is under way{_then(run)}"
    if pending(run):
        return to_be(pending(run)) + ordered(run)
    return ordered(run).removeprefix(", ") if run.status == "CANCELLED" else ""


def _then(run: RunInfo) -> str:
    return f"; then it is {to_be(pending(run))}" if pending(run) else ""


def _is_loop(view: RunView) -> bool:
    """Whether it is a loop agent's run: its calls stand in turns, the first of which it begins with."""
    return view.run.phase != "IN_CODE" and (view.run.phase != "STOPPED" or any(map(is_turn, view.calls[:1])))


def _wrapped(screen: Screen, label: str, text: str, style: str, width: int) -> list[tuple[str, Text]]:
    parts = [part for line in text.splitlines() for part in screen.wrapped(screen.clean(line), width)]
    return [("" if number else label, Text(part, style)) for number, part in enumerate(parts)]


def _took(view: RunView, end: int) -> str:
    whole = lasted(end - view.run.created_at)
    if view.run.status in ("COMPLETED", "FAILED", "CANCELLED"):
        return f"took {whole}"
    return f"running for {whole}" if is_live(view) else f"took {whole} so far"


def _counts(view: RunView) -> str:
    states: dict[str, int] = {}
    for call in view.calls:
        states[call.state] = states.get(call.state, 0) + 1
    parts = [f"{count} {state.lower()}" for state, count in states.items()]
    behind = sum(call.left_behind for call in view.calls)
    parts += [f"{behind} of them left behind"] if behind else []
    kept = len(view.checkpoints)
    points = f"; {kept} checkpoint{'' if kept == 1 else 's'} kept" if kept else ""
    return f"{len(view.calls)}: {', '.join(parts)}{points}"


def usage_of(calls: list[CallView]) -> str:
    """Tokens and money of some decisions together; empty where none is known."""
    tokens = sum(call.usage.get("input_tokens", 0) + call.usage.get("output_tokens", 0) for call in calls)
    usd = sum(call.usage.get("usd") or 0.0 for call in calls)
    parts = [f"{tokens:,} tokens"] if tokens else []
    if usd:
        parts.append(f"${usd:.2f}" if usd >= 1 else f"${usd:.4f}".rstrip("0"))
    return ", ".join(parts)


def json_text(screen: Screen, value: Any) -> str:
    """A value as JSON on one line that the screen can show."""
    return screen.clean(msgspec.json.encode(value)[:_MANY].decode("utf-8", "ignore"))
