"""Bars that show when something began and how long it took, on the scale of the whole run."""

from __future__ import annotations

from collections.abc import Sequence

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
        signs = self._signs
        if not started_at:
            return self._track()
        first = self._half(started_at)
        last = self._half(self._end if ended_at is None else max(started_at, ended_at - 1))
        text = Text()
        for column in range(self.width):
            left, right = first <= 2 * column <= last, first <= 2 * column + 1 <= last
            if ended_at is None and (left or right):
                text.append(signs.bar_open, style)
            elif left and right:
                text.append(signs.bar, style)
            elif left:
                text.append(signs.bar_left, style)
            elif right:
                text.append(signs.bar_right, style)
            else:
                text.append_text(self._empty(column))
        return text

    def _track(self) -> Text:
        return Text.assemble(*(self._empty(column) for column in range(self.width)))

    def _empty(self, column: int) -> Text:
        return Text(self._signs.takeover, "magenta") if column in self._marks else Text(" ")

    def axis(self, label: str) -> Text:
        """The line above the bars: from 0 to the whole time."""
        rule = self._signs.rule * max(1, self.width - len(label) - 3)
        return Text(f"0 {rule} {label}"[: self.width].ljust(self.width), "dim")
