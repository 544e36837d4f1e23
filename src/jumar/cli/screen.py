"""What is written to: a stream, its width, its colours, and the signs it can show.

Coloured only on a terminal and without NO_COLOR; 100 columns wide where it is none.  Text of runs (names, results,
errors) may hold anything: what a stream cannot encode, and what would move a terminal's cursor, is made visible.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from rich.style import StyleType

PIPED_WIDTH = 100
_LEAST_WIDTH = 20
_WORD = re.compile(" *[^ ]+")  # with the spaces before it


@dataclass(frozen=True)
class Signs:
    """The signs of one encoding: of calls by what repeating them would do, of their states, and those of bars."""

    decision: str
    read: str
    idempotent: str
    write: str
    external: str
    mark: str
    done: str
    failed: str
    uncertain: str
    open: str
    bar: str
    bar_left: str  # fills the left half of its cell
    bar_right: str
    bar_open: str
    takeover: str
    rule: str
    cut: str
    times: str
    dot: str
    fold: str
    spinner: str


UNICODE = Signs(
    decision="◆",
    read="○",
    idempotent="◎",
    write="■",
    external="▲",
    mark="·",
    done="✓",
    failed="✗",
    uncertain="?",
    open="…",
    bar="━",
    bar_left="╸",
    bar_right="╺",
    bar_open="╍",
    takeover="┊",
    rule="─",
    cut="…",
    times="\u00d7",
    dot="·",
    fold="⋮",
    spinner="dots",
)
ASCII = Signs(
    decision="*",
    read="o",
    idempotent="=",
    write="#",
    external="!",
    mark="-",
    done="+",
    failed="x",
    uncertain="?",
    open=".",
    bar="=",
    bar_left="=",
    bar_right="=",
    bar_open="-",
    takeover="|",
    rule="-",
    cut="~",
    times="x",
    dot=",",
    fold=":",
    spinner="line",
)


class _Console(Console):
    """A console that tells a closed pipe, where rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Screen:
    """A stream to write aligned, perhaps coloured, lines to."""

    def __init__(self, file: TextIO) -> None:
        self.console: Console = _Console(file=file, highlight=False, markup=False, emoji=False)
        self.encoding = getattr(file, "encoding", None) or "utf-8"
        self.signs = UNICODE if _can_show(UNICODE, self.encoding) else ASCII
        self.is_terminal = self.console.is_terminal
        self.width = max(_LEAST_WIDTH, self.console.width if self.is_terminal or _columns() else PIPED_WIDTH)

    def print(self, line: Text | str = "", style: StyleType | None = None) -> None:
        """Write one line as it is: neither wrapped nor cut."""
        if not self.is_terminal:  # nothing to colour, and thousands of lines take rich seconds
            self.console.file.write(f"{line.plain.rstrip() if isinstance(line, Text) else line}\n")
            return
        if isinstance(line, Text):
            line = line.copy()
            line.rstrip()
        self.console.print(line, style=style, soft_wrap=True)

    def clean(self, text: str) -> str:
        """`text` on one line, without anything that this stream cannot show or that a terminal would obey."""
        shown = "".join(character if character.isprintable() else _visible(character) for character in text)
        return shown.encode(self.encoding, "backslashreplace").decode(self.encoding, "replace")

    def cut(self, text: str, width: int) -> str:
        """`text` in at most `width` columns, with a sign where something was left out."""
        if cell_len(text) <= width:
            return text
        if width <= 0:
            return ""
        sign = self.signs.cut
        return set_cell_size(text, width - cell_len(sign)).rstrip() + sign

    def crop(self, line: Text) -> Text:
        """A line that ends at the screen's edge."""
        line.truncate(self.width, overflow="crop")
        return line

    def wrapped(self, text: str, width: int, *, breaks: bool = False) -> list[str]:
        """`text` on lines of at most `width` columns, indented as it begins; whole where this is no terminal, because a
        log keeps whole lines.  A longer word, such as an address, stays whole to be copied unless it `breaks`.
        """
        if not self.is_terminal or cell_len(text) <= width:
            return [text]
        start = text[: len(text) - len(text.lstrip(" "))]
        lines = [""]
        for word in _WORD.findall(text[len(start) :]):
            for piece in _pieces(word, max(1, width - len(start)), breaks):
                if lines[-1] and cell_len(start + lines[-1] + piece) > width:
                    lines.append("")
                lines[-1] += piece if lines[-1] else piece.lstrip(" ")
        return [start + line for line in lines]

    def pad(self, text: str, width: int, *, right: bool = False) -> str:
        """`text` in exactly `width` columns."""
        text = self.cut(text, width)
        space = " " * (width - cell_len(text))
        return space + text if right else text + space


def out() -> Screen:
    """Standard output."""
    return Screen(sys.stdout)


def err() -> Screen:
    """Standard error."""
    return Screen(sys.stderr)


def _pieces(word: str, width: int, breaks: bool) -> list[str]:
    """A word, taken apart where it may be, and where it is wide: Chinese has no spaces."""
    length = cell_len(word)
    return chop_cells(word, width) if length > width and (breaks or length > len(word)) else [word]


def _columns() -> bool:
    return os.environ.get("COLUMNS", "").isdigit()


def _can_show(signs: Signs, encoding: str) -> bool:
    try:
        "".join(vars(signs).values()).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    return ascii(character)[1:-1]


def cells(text: Any) -> int:
    """How many columns a text takes."""
    return cell_len(text.plain if isinstance(text, Text) else text)
