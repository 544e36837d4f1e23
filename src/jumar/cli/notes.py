"""Why a run stands where it stands, in one phrase, for lists of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.cli.asked import is_settling, question
from jumar.cli.progress import owner_name
from jumar.cli.times import ago
from jumar.cli.words import holder_name, pending, rolling_back, to_be
from jumar.core.changes import ARRIVING, MOVED
from jumar.harness.results import CallView, HolderView, RunInfo, WaitingOn

Note = tuple[str, str]  # text and style


@dataclass(frozen=True)
class Waits:
    """What a run waits for beside its requests: the call that holds an identity, the call that is to be tried again,
    and whether it sleeps.
    """

    asked: Sequence[WaitingOn] = ()
    holder: HolderView | None = None
    sleeps: bool = False
    again: CallView | None = None


def note_of(run: RunInfo, waits: Waits, now: int) -> Note:
    """What a run waits for or does, since when or until when, and the order it has yet to obey."""
    text, style = _note(run, waits, now)
    if rolling_back(run):
        text, style = f"in {rolling_back(run)}; {text}" if text else f"in {rolling_back(run)}", "magenta"
    order = pending(run)
    if not order:
        return text, style
    return (f"{to_be(order)}; {text}" if text else to_be(order)), "magenta"


def goes_on_elsewhere(run: RunInfo) -> bool:
    """Whether another store has the run, or is to have it."""
    return run.status == "CANCELLED" and run.error_type in (ARRIVING, MOVED)


def _note(run: RunInfo, waits: Waits, now: int) -> Note:
    if run.status == "RUNNING" and run.lease_seconds is None:
        return "its process has gone; resume it", "yellow"
    if run.status == "RUNNING":
        return f"driven by {owner_name(run.owner)}", "dim"
    if run.status == "WAITING":
        return _waits(run, waits, now), "yellow"
    if run.status == "QUEUED":
        return "can go on", "cyan"
    if run.status == "PAUSED":
        return "goes on when it is resumed", "magenta"
    if run.status == "FAILED":
        return f"{run.error_type}: {run.error_message}", "red"
    if goes_on_elsewhere(run):
        return f"{run.error_type}: {run.error_message}", "magenta"
    if waits.asked and run.status == "CANCELLED":
        return f"did {_names(waits.asked)} happen?", "yellow"
    return "", ""


def _waits(run: RunInfo, waits: Waits, now: int) -> str:
    asked = waits.asked
    if asked and not is_settling(run, asked):
        first = min(asked, key=lambda each: each.since)
        more = f", and {len(asked) - 1} more" if len(asked) > 1 else ""
        default = f"; its default {_comes(first.expires_at, now)}" if first.expires_at is not None else ""
        what = first.question if first.kind == "ask" and first.question else question(first)
        return f"asks a person, {ago(first.since, now)}: {what}{more}{default}"
    about = f"waits for {run.waiting_on}" if run.waiting_on else "waits"
    if waits.sleeps:
        about = "sleeps"
    elif waits.holder is not None:
        about = f"waits for {holder_name(waits.holder)}"
    elif waits.again is not None and waits.again.error_class == "rate-limited":
        about = f"rate-limited by {waits.again.call_id}"
    elif waits.again is not None:
        about = f"tries {waits.again.call_id} again"
    return about if run.wake_at is None else f"{about}, {_wakes(run.wake_at, now)}"


def _names(asked: Sequence[WaitingOn]) -> str:
    return ", ".join(each.call_id for each in asked)


def _comes(at: int, now: int) -> str:
    return f"is taken {ago(at, now)}" if at > now else "can be taken"


def _wakes(at: int, now: int) -> str:
    if at > now:
        return f"can go on {ago(at, now)}"
    distance = ago(at, now)
    return f"could go on since {distance.removesuffix(' ago')}" if distance.endswith(" ago") else "can go on now"
