"""A run's calls as a tree of steps and branches, then as the rows of a timeline.

A call's step is a path such as `scan.deep#2.map:3`.  Each step has a row of its own, with its calls indented under it;
so has a branch of a gather or map that holds several rows, while the only call of a branch carries the branch's name.
Steps and calls stand in the order in which they were first recorded.  A takeover is a row between the calls that began
before it and after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jumar.harness.results import CallView, TraceLine


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
class TakeoverRow:
    """Here another process took the run over."""

    at: int
    epoch: int


Row = StepRow | CallRow | TakeoverRow


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
        return [call for item in self.items for call in (item.calls() if isinstance(item, _Node) else [item])]


def rows_of(calls: Sequence[CallView], takeovers: Sequence[TraceLine]) -> list[Row]:
    """The rows of a timeline, from top to bottom."""
    root = _Node("")
    for call in calls:
        node = root
        for part in filter(None, call.step.split(".")):
            node = node.child(part)
        node.items.append(call)
    rows: list[Row] = []
    _flatten(root, 0, "", rows)
    return _with_takeovers(rows, takeovers)


def _flatten(node: _Node, depth: int, prefix: str, rows: list[Row]) -> None:
    for item in node.items:
        if isinstance(item, CallView):
            rows.append(CallRow(depth, prefix + _tail(item), item))
        elif ":" in item.name and len(item.items) == 1:
            _flatten(item, depth, f"{prefix}{item.name}.", rows)
        else:
            rows.append(_step_row(item, depth, prefix))
            _flatten(item, depth + 1, "", rows)


def _tail(call: CallView) -> str:
    return call.call_id.removeprefix(f"{call.step}.") if call.step else call.call_id


def _step_row(node: _Node, depth: int, prefix: str) -> StepRow:
    calls = node.calls()
    started = min((call.started_at for call in calls if call.started_at), default=0)
    ends = [call.ended_at for call in calls]
    ended = None if None in ends else max((end for end in ends if end is not None), default=None)
    return StepRow(depth, prefix + node.name, started, ended)


def _with_takeovers(rows: list[Row], takeovers: Sequence[TraceLine]) -> list[Row]:
    """Put each takeover before the first call that began after it, above the names of the steps that call opens."""
    left = sorted(takeovers, key=lambda line: line.at)
    merged: list[Row] = []
    for row in rows:
        while left and isinstance(row, CallRow) and row.call.started_at >= left[0].at:
            at = len(merged)
            while at and isinstance(merged[at - 1], StepRow):
                at -= 1
            merged.insert(at, TakeoverRow(left[0].at, left[0].epoch))
            left.pop(0)
        merged.append(row)
    return [*merged, *(TakeoverRow(line.at, line.epoch) for line in left)]
