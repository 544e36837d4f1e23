"""Leaving out the middle of what is long: a run of three hundred turns is shown by its ends, and by what stands out.

Of the steps and calls under one heading so many stay: the first, the last, and those that hold a call which failed or
is not settled, because those are what somebody looks for.  Each stretch between them becomes one row that says how
many calls it stands for, and how they stand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jumar.harness.results import CallView

T = TypeVar("T")

_SETTLED = ("SUCCEEDED", "COMPENSATED")


@dataclass(frozen=True)
class Fold(Generic[T]):
    """A stretch that is left out."""

    items: Sequence[T]


def stands_out(call: CallView) -> bool:
    """Whether somebody may look for this call: it failed, waits, is under way, or nobody knows how it ended; or a
    rollback left it behind and it stands all the same.
    """
    return call.leftover or (call.state not in _SETTLED and not call.left_behind)


def folded(items: Sequence[T], most: int, matters: Callable[[T], bool]) -> list[T | Fold[T]]:
    """At most about `most` of the items, and the stretches between them; all where there are no more.

    A third are the first ones, a third the last, and the rest those that matter, the newest of them first.
    """
    if len(items) <= most:
        return list(items)
    ends = max(1, most // 3)
    kept = {*range(ends), *range(len(items) - ends, len(items))}
    for at in reversed(range(ends, len(items) - ends)):
        if len(kept) >= most:
            break
        if matters(items[at]):
            kept.add(at)
    rows: list[T | Fold[T]] = []
    begins = 0
    for at in sorted(kept):
        _leave_out(items[begins:at], rows)
        rows.append(items[at])
        begins = at + 1
    return rows


def _leave_out(stretch: Sequence[T], rows: list[T | Fold[T]]) -> None:
    if len(stretch) == 1:  # a row in its place would be no shorter
        rows.append(stretch[0])
    elif stretch:
        rows.append(Fold(stretch))


def states(calls: Sequence[CallView]) -> str:
    """How many calls, and how they stand: `276 calls: 270 succeeded, 6 failed`."""
    counts = Counter(call.state for call in calls)
    parts = [f"{count:,} {state.lower()}" for state, count in counts.items()]
    return f"{len(calls):,} call{'' if len(calls) == 1 else 's'}: {', '.join(parts)}"
