"""Names of actions and paths of workspaces: who gets what, in plain Python; as `conformance_rules`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec.structs import replace

from jumar.core.changes import Advance, Guard, Hold, Take
from jumar.core.records import HoldRecord, IdentityRecord, RunRecord
from jumar.core.states import CallState, IdentityScope

Names: TypeAlias = dict[tuple[int | None, str], IdentityRecord]  # by the run within which one reaches, None for all


class Refused(Exception):
    """A guard did not hold."""

    def __init__(self, guard: Guard, why: str) -> None:
        super().__init__(why)
        self.guard = guard


class Taken:
    """All the names and paths that are held, of every run."""

    def __init__(self) -> None:
        self.names: Names = {}
        self.holds: list[HoldRecord] = []

    def copy(self) -> Taken:
        """Others that may be changed without changing these."""
        other = Taken()
        other.names, other.holds = dict(self.names), list(self.holds)
        return other


def give_and_take(held: Taken, run: RunRecord, advance: Advance) -> tuple[int, ...]:
    """Give up and take what an advance says; answers the numbers of the calls that did not get what they wanted."""
    for seq in advance.frees:
        was_undone = any(change.seq == seq and change.state is CallState.COMPENSATED for change in advance.changes)
        free(held.names, run.run_no, seq, undone=was_undone)
    for seq in advance.drops:
        drop(held.holds, run.run_no, seq)
    refused = []
    for seq in dict.fromkeys([*(take.seq for take in advance.takes), *(path.seq for path in advance.holds)]):
        if not _gets_all(held, run, advance, seq):
            refused.append(seq)
    return tuple(sorted(refused))


def _gets_all(held: Taken, run: RunRecord, advance: Advance, seq: int) -> bool:
    paths = [path for path in advance.holds if path.seq == seq]
    if any(_in_the_way(held.holds, path, (run.run_no, seq)) for path in paths):
        return False
    if not all(_take(held.names, run, name) for name in advance.takes if name.seq == seq):
        return False
    for path in paths:
        hold(held.holds, run, path)
    return True


def _take(names: Names, run: RunRecord, wanted: Take) -> bool:
    """Take a name for a call, unless it is another's, or was undone since somebody looked."""
    place = (None if wanted.scope is IdentityScope.STORE else run.run_no, wanted.key)
    holder = names.get(place)
    if wanted.undone != (0 if holder is None else holder.undone):
        return False
    free_to = (None, (0, 0), (run.run_no, wanted.seq), wanted.instead_of)
    if holder is not None and (holder.run_no, holder.call_seq) not in free_to:
        return False
    names[place] = IdentityRecord(
        wanted.scope, wanted.key, run.run_no, run.run_id, wanted.seq, wanted.args_digest, wanted.undone
    )
    return True


def free(names: Names, run_no: int, seq: int, *, undone: bool = False) -> None:
    """Give up all the names of a call.  What was undone, now or before, stays known as nobody's."""
    for place, held in list(names.items()):
        if (held.run_no, held.call_seq) != (run_no, seq):
            continue
        if undone or held.undone:
            names[place] = replace(held, run_no=0, run_id="", call_seq=0, undone=held.undone + undone)
        else:
            del names[place]


def hold(holds: list[HoldRecord], run: RunRecord, wanted: Hold) -> bool:
    """Hold a path for a call, unless another call is in the way."""
    if _in_the_way(holds, wanted, (run.run_no, wanted.seq)):
        return False
    record = HoldRecord(wanted.workspace, wanted.path, run.run_no, run.run_id, wanted.seq)
    if record not in holds:
        holds.append(record)
    return True


def drop(holds: list[HoldRecord], run_no: int, seq: int) -> None:
    """Give up all the paths of a call."""
    holds[:] = [held for held in holds if (held.run_no, held.call_seq) != (run_no, seq)]


def overlapping(holds: Iterable[HoldRecord], workspace: str, path: bytes) -> list[HoldRecord]:
    """Who holds a path, one above or one below it."""
    return [held for held in holds if held.workspace == workspace and _meet(held.path, path)]


def _in_the_way(holds: list[HoldRecord], wanted: Hold, mine: tuple[int, int]) -> bool:
    return any((held.run_no, held.call_seq) != mine for held in overlapping(holds, wanted.workspace, wanted.path))


def _meet(one: bytes, other: bytes) -> bool:
    """Whether one path is the other, or a folder above it.  The whole workspace, b"", is above all."""
    parts, others = one.split(b"/") if one else [], other.split(b"/") if other else []
    shared = min(len(parts), len(others))
    return parts[:shared] == others[:shared]
