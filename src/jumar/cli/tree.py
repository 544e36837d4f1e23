"""A run's calls as a tree of steps and branches, then as the rows of a timeline.

A call's step is a path such as `scan.deep#2.map:3`.  Each step has a row of its own, with its calls indented under it;
so has a branch of a gather or map that holds several rows, while the only call of a branch carries the branch's name.
Steps and calls stand in the order in which they were first recorded.  A takeover, a pause and a cancellation are rows
between the calls that began before and after them.

A tree of more rows than somebody wants to read is folded: fewer and fewer items of each step are kept until the rows
are few enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jumar.cli.folding import Fold, folded, stands_out
from jumar.harness.results import CallView, TraceLine

MOST_ROWS = 100
_KEPT = (30, 15, 9, 6, 4, 3)  # items of one step that stay, tried one after the other


@dataclass(frozen=True)
class StepRow:
    """A step or branch with its span: when its first call began and its last one ended (None: one is not over)."""

    depth: int
    name: str
    started_at: int
    ended_at: int | None


@dataclass(frozen=True)
class CallRow:
    """One call; its name is what its id has beyond the rows above it."""

    depth: int
    name: str
    call: CallView


@dataclass(frozen=True)
class FoldRow:
    """Calls that are left out, among how many `items` of the step above, and how often the run was taken over, paused
    or cancelled among them.
    """

    depth: int
    items: int
    calls: tuple[CallView, ...]
    marks: int = 0

    @property
    def started_at(self) -> int:
        """When the first of them began; 0 where none did."""
        return min((call.started_at for call in self.calls if call.started_at), default=0)

    @property
    def ended_at(self) -> int | None:
        """When the last of them ended; None where one is not over."""
        return _end(self.calls)


@dataclass(frozen=True)
class MarkRow:
    """Here another process took the run over, or an operator had it paused or cancelled."""

    at: int
    epoch: int
    what: str = "taken-over"


Row = StepRow | CallRow | FoldRow | MarkRow


@dataclass
class _Node:
    name: str
    items: list[_Node | CallView] = field(default_factory=list)
    nodes: dict[str, _Node] = field(default_factory=dict)

    def child(self, name: str) -> _Node:
        if name not in self.nodes:
            self.nodes[name] = _Node(name)
            self.items.append(self.nodes[name])
        return self.nodes[name]

    def calls(self) -> list[CallView]:
        return _calls(self.items)


def _calls(items: Sequence[_Node | CallView]) -> list[CallView]:
    return [call for item in items for call in (item.calls() if isinstance(item, _Node) else [item])]


def rows_of(calls: Sequence[CallView], marks: Sequence[TraceLine], *, whole: bool = True) -> list[Row]:
    """The rows of a timeline, from top to bottom; unless `whole`, long ones are folded."""
    root = _tree(calls)
    rows: list[Row] = []
    _flatten(root, 0, "", rows, len(calls))
    if not whole and len(rows) > MOST_ROWS:
        rows = _few(root)
    return _with_marks(rows, marks)


def _tree(calls: Sequence[CallView]) -> _Node:
    root = _Node("")
    for call in calls:
        node = root
        for part in filter(None, call.step.split(".")):
            node = node.child(part)
        node.items.append(call)
    return root


def _few(root: _Node) -> list[Row]:
    rows: list[Row] = []
    for most in _KEPT:
        rows = []
        _flatten(root, 0, "", rows, most)
        if len(rows) <= MOST_ROWS:
            break
    return rows


def _flatten(node: _Node, depth: int, prefix: str, rows: list[Row], most: int) -> None:
    for item in folded(node.items, most, _matters):
        if isinstance(item, Fold):
            rows.append(FoldRow(depth, len(item.items), tuple(_calls(item.items))))
        elif isinstance(item, CallView):
            rows.append(CallRow(depth, prefix + _tail(item), item))
        elif ":" in item.name and len(item.items) == 1:
            _flatten(item, depth, f"{prefix}{item.name}.", rows, most)
        else:
            rows.append(_step_row(item, depth, prefix))
            _flatten(item, depth + 1, "", rows, most)


def _matters(item: _Node | CallView) -> bool:
    return any(map(stands_out, item.calls())) if isinstance(item, _Node) else stands_out(item)


def _tail(call: CallView) -> str:
    return call.call_id.removeprefix(f"{call.step}.") if call.step else call.call_id


def _step_row(node: _Node, depth: int, prefix: str) -> StepRow:
    calls = node.calls()
    started = min((call.started_at for call in calls if call.started_at), default=0)
    return StepRow(depth, prefix + node.name, started, _end(calls))


def _end(calls: Sequence[CallView]) -> int | None:
    ends = [call.ended_at for call in calls]
    return None if None in ends else max((end for end in ends if end is not None), default=None)


def _with_marks(rows: list[Row], marks: Sequence[TraceLine]) -> list[Row]:
    """Put each mark before the first call that began after it, above the names of the steps that call opens.  One that
    falls between calls that are left out is left out with them, and counted.
    """
    left = sorted(marks, key=lambda line: line.at)
    merged: list[Row] = []
    for row in rows:
        if isinstance(row, FoldRow):
            last = max(call.started_at for call in row.calls)
            inside = [line for line in left if row.started_at < line.at <= last]
            before = [line for line in left if line.at <= row.started_at]
            left = left[len(before) + len(inside) :]
            _insert(before, merged)
            merged.append(FoldRow(row.depth, row.items, row.calls, len(inside)))
            continue
        if isinstance(row, CallRow):
            before = [line for line in left if line.at <= row.call.started_at]
            left = left[len(before) :]
            _insert(before, merged)
        merged.append(row)
    return [*merged, *map(_mark, left)]


def _insert(marks: Sequence[TraceLine], merged: list[Row]) -> None:
    at = len(merged)
    while at and isinstance(merged[at - 1], StepRow):
        at -= 1
    merged[at:at] = map(_mark, marks)


def _mark(line: TraceLine) -> MarkRow:
    return MarkRow(line.at, line.epoch, line.what)
