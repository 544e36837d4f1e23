"""What became of a run that was killed, and what is wrong with it.

A restart is held against the same run of nobody's killing.  Three things are looked at whatever the agent does: that
the run is COMPLETED, that its output is the same, and that the outside world is.  A witness kept by
`jumar.testing.Witness` tells more: what else was sent or applied, and whether a call came back of which it was known
that it had succeeded.  Reads may be made again, and so may a call whose end was not recorded: that is no fault.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct

from jumar.harness.results import CallView
from jumar.testing.restarts_process import LOG
from jumar.testing.witness import Line

_NO_EFFECTS = frozenset({"read", "repeated", "refused"})
_MOST_SHOWN = 5
_MOST_TEXT = 300


class Restart(Struct, frozen=True):
    """One run that was lived through, from its start to its end.

    `kills` names the points at which its processes died, none in the uninterrupted run.  `status`, `output` (as JSON)
    and `error` are how the run stands in the end.  `calls` are its calls then, `calls_before` when the first process
    was dead; `witness` and `witness_before` are what the witness told at these moments.  `lives` are the points that
    each process passed, in order.  `folder` and `store` are what it lived in; `problems` what is wrong with it.
    """

    folder: Path
    store: str
    run_id: str
    kills: tuple[str, ...]
    status: str
    output: Any
    error: str | None
    calls_before: tuple[CallView, ...]
    calls: tuple[CallView, ...]
    witness_before: Any
    witness: Any
    lives: tuple[tuple[str, ...], ...]
    problems: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        """What its processes printed."""
        return self.folder / LOG

    def call(self, call_id: str) -> CallView:
        """One of its calls as it stands in the end; KeyError where there is none of this id."""
        return next((call for call in self.calls if call.call_id == call_id), None) or _no_such(call_id)


def _no_such(call_id: str) -> CallView:
    raise KeyError(call_id)


class RestartSweep(Struct, frozen=True):
    """What a sweep did: the uninterrupted run, its restarts, and the seed they were drawn by.

    `missed` names the points that were not passed when it came to it, as the threads of a run do not come and go in
    the same order each time; there are no restarts for them.
    """

    uninterrupted: Restart
    restarts: tuple[Restart, ...]
    missed: tuple[str, ...]
    seed: int

    @property
    def points(self) -> tuple[str, ...]:
        """The points of the uninterrupted run, by name, in order: what `points=` chooses from."""
        return self.uninterrupted.lives[0]


class RestartsFailed(AssertionError):
    """Something went wrong in a sweep; `sweep` is all of it."""

    def __init__(self, sweep: RestartSweep) -> None:
        super().__init__(_told(sweep))
        self.sweep = sweep


def problems_of(restart: Restart, uninterrupted: Restart, *, same_output: bool, same_witness: bool) -> list[str]:
    """What is wrong with a restart, in sentences; nothing, mostly."""
    found = []
    if restart.status != "COMPLETED":
        error = f": {restart.error}" if restart.error else ""
        found.append(f"the run ended {restart.status}{error}")
    elif same_output and restart.output != uninterrupted.output:
        found.append(f"its output is {_short(restart.output)}, and {_short(uninterrupted.output)} uninterrupted")
    if is_log(restart.witness):
        found += _sent_again(restart)
    if same_witness:
        found += _seen_differently(restart.witness, uninterrupted.witness)
    return found


def is_log(witness: Any) -> bool:
    """Whether this is what `Witness.lines()` answers."""
    return isinstance(witness, list) and any(isinstance(line, Line) for line in witness)


def _sent_again(restart: Restart) -> list[str]:
    succeeded = {call.call_id for call in restart.calls_before if call.state == "SUCCEEDED"}
    later = restart.witness[len(restart.witness_before or ()) :]
    again = dict.fromkeys(line.call_id for line in later if line.call_id in succeeded)
    return [f"{call_id} was made again, although it was recorded as SUCCEEDED" for call_id in again]


def _seen_differently(now: Any, uninterrupted: Any) -> list[str]:
    if not is_log(now) and not is_log(uninterrupted):
        if now == uninterrupted:
            return []
        return [f"the witness tells {_short(now)}, and {_short(uninterrupted)} of the uninterrupted run"]
    mine, theirs = _effects(now), _effects(uninterrupted)
    return [
        f"the witness saw {tool} {what} {mine[what, tool]} times, and {theirs[what, tool]} uninterrupted"
        for what, tool in dict.fromkeys([*theirs, *mine])
        if mine[what, tool] != theirs[what, tool]
    ]


def _effects(lines: list[Line]) -> Counter[tuple[str, str]]:
    return Counter((line.what, line.tool) for line in lines if line.what not in _NO_EFFECTS)


def _told(sweep: RestartSweep) -> str:
    if sweep.uninterrupted.problems:
        return "\n".join(["the run goes wrong even when nobody kills it", *_one(sweep.uninterrupted)])
    bad = [restart for restart in sweep.restarts if restart.problems]
    lines = [f"{len(bad)} of {len(sweep.restarts)} restarts went wrong (seed {sweep.seed})"]
    for restart in bad[:_MOST_SHOWN]:
        lines += _one(restart)
    if len(bad) > _MOST_SHOWN:
        lines.append(f"  and {len(bad) - _MOST_SHOWN} more, in RestartsFailed.sweep")
    return "\n".join(lines)


def _one(restart: Restart) -> list[str]:
    head = [f"  killed {', then '.join(restart.kills)}"] if restart.kills else []
    return [*head, *(f"    {problem}" for problem in restart.problems), f"    kept in {restart.folder}"]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."
