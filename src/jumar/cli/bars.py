"""Bars that show when something began and how long it took, on the scale of the whole run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from jumar.cli.screen import Signs


class Scale:
    """The time from `start` to `end` (ms) on `width` columns, in half columns; takeovers are marked in every row."""

    def __init__(self, start: int, end: int, width: int, takeovers: Sequence[int], signs: Signs) -> None:
        self.width = width
        self._start = start
        self._span = max(1, end - start)
        self._end = max(end, start + 1)
        self._signs = signs
        self._marks = {self._half(at) // 2 for at in takeovers}

    def _half(self, at: int) -> int:
        """The half column a moment falls into."""
        most = 2 * self.width - 1
        return min(most, max(0, (at - self._start) * (most + 1) // self._span))

    def bar(self, started_at: int, ended_at: int | None, style: str) -> Text:
        """A row of `width` columns with a bar; one without an end runs to the right edge, broken."""
        if not started_at:
            return self._text([self._empty(column) for column in range(self.width)], style)
        first = self._half(started_at)
        last = self._half(self._end if ended_at is None else max(started_at, ended_at - 1))
        columns = [self._cell(column, first, last, ended_at is None) for column in range(self.width)]
        return self._text(columns, style)

    def _cell(self, column: int, first: int, last: int, is_open: bool) -> str:
        signs = self._signs
        left, right = first <= 2 * column <= last, first <= 2 * column + 1 <= last
        if not left and not right:
            return self._empty(column)
        if is_open:
            return signs.bar_open
        if left and right:
            return signs.bar
        return signs.bar_left if left else signs.bar_right

    def _empty(self, column: int) -> str:
        return self._signs.takeover if column in self._marks else " "

    def _text(self, columns: Sequence[str], style: str) -> Text:
        """The columns as text, one span for each stretch of one style."""
        mark = self._signs.takeover
        text = Text()
        for is_mark, stretch in groupby(columns, key=lambda sign: sign == mark):
            text.append("".join(stretch), "magenta" if is_mark else style)
        return text

    def axis(self, label: str) -> Text:
        """The line above the bars: from 0 to the whole time."""
        rule = self._signs.rule * max(1, self.width - len(label) - 3)
        return Text(f"0 {rule} {label}"[: self.width].ljust(self.width), "dim")
