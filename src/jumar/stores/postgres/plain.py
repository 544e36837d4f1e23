"""What most advances are: the run goes on, and a call is recorded that ended with a result in its row.

Such a one is sent without a document, its values in two arrays.  Several of them, each of another run, are sent
together as columns, and the database makes them with one statement.  Either way the aim is few parameters and few
statements: finding out what one means costs the database as much as what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jumar.core.call_states import STATE_FIRST
from jumar.core.changes import Advance, Change
from jumar.core.phases import PHASE_BEFORE
from jumar.stores.rows import is_plain, plain_call_row

Values = tuple[Any, ...]

_OWNER, _CALL_ID, _BRANCH, _STEP, _TOOL = 1, 10, 11, 12, 15  # where the texts are among the values
_TEXTS = frozenset({_OWNER, _CALL_ID, _BRANCH, _STEP, _TOOL})
_NINETEEN = "{" + ",".join(["%d"] * 19) + "}"
_BYTES = slice(21, 24)  # and the digest, the arguments and the result


def is_plain_advance(change: Advance) -> bool:
    """Whether that is all that the advance does."""
    return (
        len(change.calls) == 1
        and is_plain(change.calls[0])
        and bool(STATE_FIRST >> change.calls[0].state & 1)
        and not (change.changes or change.artifacts or change.requests or change.events or change.withdraws)
        and not (change.takes or change.holds or change.frees or change.drops)
        and change.before is None
        and change.after is None
        and change.ending is None
        and change.intent is None
        and change.head is None
        and not change.settles
    )


def guards(change: Advance) -> Values:
    """The run, what must be true of it, and what it becomes."""
    return (
        change.run_no,
        change.owner,
        change.epoch,
        change.version,
        change.phase.value,
        change.step,
        change.ttl_ms,
        change.at,
        PHASE_BEFORE[change.through[0] if change.through else change.phase],
    )


def parameters(change: Advance) -> Values:
    """The parameters of `advance_plain`: numbers, texts, digest, arguments, result."""
    row = _values(change)
    numbers = _NINETEEN % (row[0], *row[2:10], *row[13:15], *row[16:21], *row[24:])
    return (numbers, _texts((row[_OWNER], *row[_CALL_ID : _STEP + 1], row[_TOOL])), *row[_BYTES])


def _values(change: Advance) -> Values:
    """The guards, and the call's row without what the database knows."""
    row = plain_call_row(0, change.calls[0], 0)
    return (*guards(change), *row[1:18], row[20])


def columns(changes: Iterable[Advance]) -> Values:
    """The parameters of `advance_many`: arrays, and the bytes of all with the lengths that say where they are."""
    rows = [_values(change) for change in changes]
    data: list[bytes] = []
    places: list[tuple[int, int, int, int]] = []
    start = 1
    for row in rows:
        digest, args, result = row[_BYTES]
        data += (digest, args, result)
        places.append((start, len(digest), len(args), len(result)))
        start += len(digest) + len(args) + len(result)
    kept = [
        _texts(column) if at in _TEXTS else _numbers(column)
        for at, column in enumerate(zip(*rows, strict=True))
        if not _BYTES.start <= at < _BYTES.stop
    ]
    return (*kept, *map(_numbers, zip(*places, strict=True)), b"".join(data))


def grouped(changes: Sequence[Change]) -> list[Change | list[Advance]]:
    """The changes in their order, those in a list that can be sent together: plain advances of different runs."""
    groups: list[Change | list[Advance]] = []
    open_group: list[Advance] = []
    runs: set[int] = set()
    for change in changes:
        if type(change) is not Advance or not is_plain_advance(change):
            groups.append(change)
            runs.clear()
        elif change.run_no in runs or not runs:
            open_group = [change]
            groups.append(open_group)
            runs = {change.run_no}
        else:
            open_group.append(change)
            runs.add(change.run_no)
    return groups


# Arrays as PostgreSQL writes them: the driver's own way to send a list costs more than all the rest of an advance.


def _numbers(column: Iterable[int]) -> str:
    return "{" + ",".join(map(str, column)) + "}"


def _texts(column: Sequence[str]) -> str:
    every = "".join(column)
    if '"' in every or "\\" in every:  # which is rare
        column = [text.replace("\\", "\\\\").replace('"', '\\"') for text in column]
    return '{"' + '","'.join(column) + '"}'
