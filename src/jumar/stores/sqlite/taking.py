"""What an advance gives up and takes: names of actions, and paths of workspaces.

A call gets its name and all its paths, or nothing.  One that is not sent must keep others waiting for nothing, and
what it holds from an attempt before stays with it: that attempt may have happened.  So whether the paths are free is
looked at before the name is taken, and they are taken after it.
"""

from __future__ import annotations

import sqlite3

from jumar.core.changes import Advance, Hold, Refusal, Take
from jumar.core.records import RunRecord
from jumar.core.states import CallState
from jumar.stores.refusals import path_held
from jumar.stores.sqlite import holds, names


def give_and_take(connection: sqlite3.Connection, advance: Advance) -> tuple[int, ...]:
    """Give up, then take; answers the numbers of the calls whose names or paths others hold, in order."""
    run_no = advance.run_no
    undone = {change.seq for change in advance.changes if change.state is CallState.COMPENSATED}
    for seq in advance.frees:
        names.free(connection, run_no, seq, undone=seq in undone)
    for seq in advance.drops:
        holds.drop(connection, run_no, seq)
    taken = {seq for seq, takes, paths in _by_call(advance) if not _take(connection, run_no, takes, paths)}
    return tuple(sorted(taken))


def _by_call(advance: Advance) -> list[tuple[int, list[Take], list[Hold]]]:
    """What each call wants, the call that is named first coming first."""
    wanted: dict[int, tuple[int, list[Take], list[Hold]]] = {}
    for take in advance.takes:
        wanted.setdefault(take.seq, (take.seq, [], []))[1].append(take)
    for hold in advance.holds:
        wanted.setdefault(hold.seq, (hold.seq, [], []))[2].append(hold)
    return list(wanted.values())


def _take(connection: sqlite3.Connection, run_no: int, takes: list[Take], paths: list[Hold]) -> bool:
    if not all(holds.is_free(connection, run_no, wanted) for wanted in paths):
        return False
    if not all(names.take(connection, run_no, wanted) for wanted in takes):
        return False
    for wanted in paths:
        holds.insert(connection, run_no, wanted)
    return True


def in_the_way(connection: sqlite3.Connection, run_no: int, wanted: Hold, run: RunRecord | None) -> Refusal:
    """The refusal that says who holds a path which could not be taken."""
    found = holds.overlapping(connection, wanted.workspace, wanted.path)
    other = next(each for each in found if (each.run_no, each.call_seq) != (run_no, wanted.seq))
    return path_held(other.path, other.run_id, other.call_seq, run)
