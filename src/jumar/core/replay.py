"""Matching what an agent asks for with what is recorded.

On resume an agent function runs again from the top, and recorded calls answer at once.  Code runs in branches, each
sequential in itself, and each branch has its own table.  The oldest unmatched record of the branch with the same
kind, tool and arguments answers; a decision is answered by the oldest decision of the branch whatever its prompt, and a
sleep by the oldest sleep however long it is now; a call with a `key` is answered by the record with that key alone.

A read that finds no record runs.  A call that is not a read goes out only if neither its branch nor one around it holds
an unmatched record of such a call: otherwise the code does something else than what was done, and going on might do it
twice.  (A branch around it waits for it, so that whatever it recorded later was recorded after this call.)  For the
same reason a call with a key is not sent beside an unmatched record of the same call under another key.  And a new
question is not asked beside one of the branch that nobody has asked again: a person's answer would be thrown away.

Leftovers, which a rollback left behind and which stand all the same, answer like records, in the order in which all of
them were first asked for.  They stand in nobody's way: none blocks a call, and none need be asked for again.  But while
one is unmatched the next call of its tool may be the same thing done twice in other words, so that one needs a
person's approval.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from jumar.core.records import CallRecord
from jumar.core.states import CallKind, CallState, Effect
from jumar.errors import UsageError

_Slot: TypeAlias = tuple[int, str, bytes]
# Looking an enum member up by its class costs a fifth of a microsecond in Python 3.11.
_KIND_DECISION, _KIND_SLEEP, _KIND_ASK, _READ = CallKind.DECISION, CallKind.SLEEP, CallKind.ASK, Effect.READ
_DECISION: _Slot = (_KIND_DECISION, "", b"")
_SLEEP: _Slot = (_KIND_SLEEP, "", b"")


def _slot(kind: CallKind, tool: str, args_digest: bytes) -> _Slot:
    if kind is _KIND_DECISION:
        return _DECISION
    return _SLEEP if kind is _KIND_SLEEP else (kind, tool, args_digest)


class BranchTable:
    """The unmatched records of one branch, oldest first.

    Each record is visited once on loading and once on matching; the calls that are not reads are also kept by every
    step around them, so that closing a step looks at its own alone and a resume costs the same for every call.
    """

    __slots__ = ("_asks", "_effects", "_left", "_slots")

    def __init__(self, left: dict[int, CallRecord] | None = None) -> None:
        self._left = {} if left is None else left  # the unmatched leftovers of the whole run, by their numbers
        self._slots: dict[_Slot, deque[CallRecord]] = {}
        # Ordered dicts, because taking the first of one again and again costs the same however many went before.
        self._effects: dict[str, OrderedDict[int, CallRecord]] = {}
        self._asks: OrderedDict[int, CallRecord] = OrderedDict()

    def add(self, record: CallRecord) -> None:
        """Enter a record; they must be entered in the order of their `seq`."""
        self._slots.setdefault(_slot(record.kind, record.tool, record.args_digest), deque()).append(record)
        if record.kind is _KIND_ASK:
            self._asks[record.seq] = record
        if record.effect is _READ or record.seq in self._left:
            return
        for step in _enclosing(record.step):
            self._effects.setdefault(step, OrderedDict())[record.seq] = record

    def match(self, kind: CallKind, tool: str, args_digest: bytes) -> CallRecord | None:
        """Take the record that answers this call, or None where the call is new."""
        queue = self._slots.get(_slot(kind, tool, args_digest))
        if not queue:
            return None
        record = queue.popleft()
        if kind is _KIND_ASK:
            del self._asks[record.seq]
        if record.effect is not _READ and self._left.pop(record.seq, None) is None:
            for step in _enclosing(record.step):
                del self._effects[step][record.seq]
        return record

    def first_ask(self) -> CallRecord | None:
        """The oldest question that was asked and not asked again."""
        return next(iter(self._asks.values()), None)

    def first_effect(self, step: str = "") -> CallRecord | None:
        """The oldest unmatched record of a call that is not a read, in one entry of a step or, by default, anywhere."""
        left = self._effects.get(step)
        return next(iter(left.values())) if left else None


def _enclosing(step: str) -> Iterator[str]:
    """The root's path, then every path down to `step`: for `a.b`, `""`, `a` and `a.b`."""
    yield ""
    end = step.find(".")
    while end >= 0:
        yield step[:end]
        end = step.find(".", end + 1)
    if step:
        yield step


def _answers(leftover: CallRecord) -> bool:
    """Whether a leftover is known to have happened, and can be asked for as if it was made now."""
    is_given_up = leftover.failure is not None and leftover.failure.cancelled
    return leftover.state is CallState.SUCCEEDED and not is_given_up


class ReplayTable:
    """A run's records by branch, those with a key by their key, and the highest ordinals given so far."""

    __slots__ = ("_asked", "_branches", "_keyed", "_left", "_ordinals", "_twins")

    def __init__(self, records: Iterable[CallRecord] = (), leftovers: Sequence[CallRecord] = ()) -> None:
        self._left = {record.seq: record for record in leftovers}
        self._asked: set[tuple[int, str]] = set()
        self._branches: dict[str, BranchTable] = {}
        self._keyed: dict[tuple[int, str], CallRecord] = {}
        self._ordinals: dict[tuple[str, str], int] = {}
        self._twins: dict[tuple[str, bytes], OrderedDict[int, CallRecord]] = {}
        if leftovers:
            answering = [record for record in leftovers if _answers(record)]
            records = sorted([*records, *answering], key=lambda record: record.seq)
        for record in records:
            self._add(record)

    def _add(self, record: CallRecord) -> None:
        place = (record.step, record.tool)
        if record.ordinal > self._ordinals.get(place, 0):
            self._ordinals[place] = record.ordinal
        if record.key is not None:
            if record.seq in self._left:
                self._keyed.setdefault((record.kind, record.key), record)
                return
            self._keyed[record.kind, record.key] = record
            if record.effect is not _READ:
                self._twins.setdefault((record.tool, record.args_digest), OrderedDict())[record.seq] = record
            return
        self.branch(record.branch).add(record)

    def branch(self, path: str) -> BranchTable:
        """The table of one branch, empty where nothing of it is recorded."""
        table = self._branches.get(path)
        if table is None:
            table = self._branches[path] = BranchTable(self._left)
        return table

    def match_key(self, kind: CallKind, key: str, tool: str = "") -> CallRecord | None:
        """Take the record with this key, or None.  A key names one call: asked for again, it could answer the wrong
        one.  A leftover of another tool than `tool` is passed over.
        """
        if (kind, key) in self._asked:
            raise UsageError(
                f"key {key!r} was given to another call of this run already", hint="Give each call a key of its own."
            )
        self._asked.add((kind, key))
        if self._left and self._is_passed_over((kind, key), tool):
            return None
        record = self._keyed.pop((kind, key), None)
        if record is not None and record.effect is not _READ and self._left.pop(record.seq, None) is None:
            del self._twins[record.tool, record.args_digest][record.seq]
        return record

    def keyed_twin(self, tool: str, args_digest: bytes) -> CallRecord | None:
        """An unmatched record of the same call, not a read, under a key that nobody has asked for yet."""
        left = self._twins.get((tool, args_digest))
        return next(iter(left.values())) if left else None

    def _is_passed_over(self, name: tuple[int, str], tool: str) -> bool:
        record = self._keyed.get(name)
        return record is not None and record.seq in self._left and record.tool != tool

    def leftover(self, tool: str) -> CallRecord | None:
        """An unmatched leftover of a tool."""
        return next((record for record in self._left.values() if record.tool == tool), None) if self._left else None

    def take_leftover(self, tool: str, args_digest: bytes) -> CallRecord | None:
        """Take the oldest leftover of the same call, wherever it was made, or None."""
        for record in self._left.values():
            if record.tool == tool and record.args_digest == args_digest and _answers(record):
                return self._left.pop(record.seq)
        return None

    def unmatched_effects(self) -> list[CallRecord]:
        """The oldest unmatched record that is not a read of every branch, and every such record with a key."""
        firsts = (table.first_effect() for table in self._branches.values())
        found = [record for record in firsts if record is not None]
        keyed = (record for record in self._keyed.values() if record.seq not in self._left)
        found.extend(record for record in keyed if record.effect is not _READ)
        return sorted(found, key=lambda record: record.seq)

    def next_ordinal(self, step: str, tool: str) -> int:
        """The number of a new call of `tool` in `step`: one more than any recorded or given before."""
        place = (step, tool)
        ordinal = self._ordinals.get(place, 0) + 1
        self._ordinals[place] = ordinal
        return ordinal
