"""The line of a run: which of its versions are the past of its head.

A rollback to version N makes a new head and leaves what came after N behind; nothing is deleted.  So the line is the
head and, followed back through each base, what came before: a run's `line` has (version, base) of every new head, the
oldest first, where `version` is the first of a new generation and `base` the one it goes on from.

    versions   1 .. 7 .. 12 | 13 .. 30 | 31 ..        line ((13, 7), (31, 9))
    the past of 31 is 31.. , then what is at or before 9: since 9 is before 13, that is 1..9, and 13..30 is left behind
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from jumar.core.call_states import ENDED
from jumar.core.checksums import call_agrees
from jumar.core.identities import did_nothing
from jumar.core.records import CallRecord, RunRecord
from jumar.core.states import CallKind, CallState, Effect, Phase

Heads: TypeAlias = tuple[tuple[int, int], ...]

_LASTS = (Effect.EXTERNAL, Effect.IDEMPOTENT)
_FAR = 2**62  # a version that no run reaches


def is_on_line(heads: Heads, version: int) -> bool:
    """Whether a version is the present head or lies in its past."""
    newest: int | None = None
    for first, base in reversed(heads):
        if newest is not None and first > newest:
            continue  # this generation was left behind as a whole
        if version >= first:
            return newest is None or version <= newest
        if version > base:
            return False
        newest = base if newest is None else min(base, newest)
    return newest is None or version <= newest


def counts(heads: Heads, call: CallRecord) -> bool:
    """Whether a call's record is a part of the line: it ended there, or it began there and has not ended at all."""
    if call.state in ENDED:
        return is_on_line(heads, call.ended_version or 0)
    return is_on_line(heads, call.started_version)


def is_leftover(heads: Heads, call: CallRecord) -> bool:
    """Whether a call that was left behind stands all the same: it acted outside, and was not undone.

    One without an attempt did nothing itself: it was answered with what another call had done.
    """
    if call.kind is CallKind.COMPENSATION or call.effect not in _LASTS or not call.attempt:
        return False
    return call.state is CallState.SUCCEEDED and not counts(heads, call)


def is_doubtful(heads: Heads, call: CallRecord) -> bool:
    """Whether a call that was left behind may stand although it failed: its service may know of it under a key that no
    other call has.  So may one that acts outside and whose row is damaged, whatever it says.
    """
    acted = call.kind is CallKind.TOOL and call.effect in _LASTS and call.attempt and not counts(heads, call)
    if acted and call.state is not CallState.COMPENSATED and not call_agrees(call):
        return True
    if call.state is not CallState.FAILED or call.effect is not Effect.IDEMPOTENT or call.identity is not None:
        return False
    return not did_nothing(call.effect, call.attempt, call.failure) and not counts(heads, call)


def is_copied(after: Heads, call: CallRecord) -> bool:
    """Whether a fork with the line `after` has a copy of a call: what had ended, and what was done since and stands."""
    if is_leftover(after, call) or is_doubtful(after, call):
        return True
    return call.state in ENDED and counts(after, call)  # one that was reopened has ended once, and has not now


def left_by(heads: Heads, base: int) -> Heads:
    """The line once a head based on `base` has been made, whatever version that head gets."""
    return (*heads, (_FAR, base))


def answering(run: RunRecord, calls: list[CallRecord]) -> tuple[list[CallRecord], list[CallRecord]]:
    """What answers a run that is taken up: the records that its function is taken through, and the leftovers.

    A loop agent is taken through none.  A call of its that a leftover answers has that one's id as its key.
    """
    here, leftovers = split(run, calls)
    if run.phase is Phase.IN_CODE:
        return here, leftovers
    taken = {call.key for call in here if call.kind is CallKind.TOOL}
    return [], [call for call in leftovers if call.call_id not in taken]


def split(run: RunRecord, calls: Iterable[CallRecord]) -> tuple[list[CallRecord], list[CallRecord]]:
    """The calls on the run's line, and the leftovers beside it (the doubtful ones too), each in the order given."""
    heads = run.line
    if not heads:
        return list(calls), []
    here: list[CallRecord] = []
    leftovers: list[CallRecord] = []
    for call in calls:
        if counts(heads, call):
            here.append(call)
        elif is_leftover(heads, call) or is_doubtful(heads, call):
            leftovers.append(call)
    return here, leftovers
