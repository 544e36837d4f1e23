"""The demonstration for a person: the story as it happens, then the run's timeline, then promises beside counts.

On a terminal colours carry meaning (red what is killed or broken, green what goes on or holds, yellow what waits, cyan
what is asked outside); every one stands beside a word that says the same, so nothing is lost where there are none.
"""

from __future__ import annotations

import os
import shlex
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from jumar.demo.figures import ActResult, DemoResult
from jumar.demo.piece import Piece
from jumar.demo.play import Beat

# For each kind of beat: its word, and its style.
_KINDS = {
    "start": ("start", "bold"),
    "work": ("work", ""),
    "kill": ("KILL", "bold red"),
    "wait": ("wait", "yellow"),
    "takeover": ("take over", "bold green"),
    "probe": ("ask", "cyan"),
    "back": ("put back", "green"),
    "done": ("done", "bold green"),
}
_STATES = {"SUCCEEDED": "green", "FAILED": "red", "UNCERTAIN": "yellow"}
_WORD = 9  # columns of the longest word
_WIDEST = 100  # columns of running text, however wide the terminal is
_WITNESSES = (
    "Counted in a file to which the agent's tools and model write before they work, and in the service's own book; "
    "Jumar writes to neither."
)
_LOOKS = "The files were looked at by the process that runs no agent, while the others stood still or were dead."
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six")
_KEPT = "nothing done twice, nothing lost, nothing left half-done"
_VERDICTS = {True: ("kept", "green"), False: ("BROKEN", "bold red")}


class Teller:
    """Writes to standard output.  As a context manager it shows, on a terminal, what is being waited for."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        has_width = self._console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
        self._width = min(self._console.width, _WIDEST) if has_width else _WIDEST
        self._status: Status | None = None
        self._acts = 0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("starting", spinner="line")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    # --- While it happens. ---

    def open(self, piece: Piece, directory: Path) -> None:
        """Say what is going to happen."""
        kills = _NUMBERS[piece.kills]
        self._wrapped(f"Two agents are killed {kills} times in all, and each finishes its task once.", "bold")
        self._wrapped("No key and no network are needed.")
        self._line(f"Everything happens in {directory}", "dim")

    def act(self, introduction: str) -> None:
        """Say what an act is about."""
        self._acts += 1
        self.heading(f"Act {self._acts}")
        self._wrapped(introduction)
        self._console.print()

    def beat(self, beat: Beat) -> None:
        """Tell what has just happened."""
        if beat.kind == "act":
            self.act(beat.text)
            return
        if beat.kind == "waiting":
            self._wait(f"waiting for the dead process's lease to run out: {beat.text}")
            return
        self._wait("the agent is at work")
        word, style = _KINDS[beat.kind]
        lead = f"{beat.seconds:5.1f} s  "
        first, *rest = textwrap.wrap(beat.text, self._width - len(lead) - _WORD - 2)
        self._console.print(Text.assemble((lead, "dim"), (f"{word:<{_WORD}}  {first}", style)), soft_wrap=True)
        for line in rest:
            self._line(" " * (len(lead) + _WORD + 2) + line, style)

    def _wait(self, text: str) -> None:
        if self._status is not None:
            self._status.update(text)

    # --- Afterwards. ---

    def heading(self, text: str) -> None:
        """Print a heading."""
        self._console.print()
        self._line(text, "bold")

    def report(self, result: ActResult) -> None:
        """Print what the agent reported."""
        output = result.view.output
        if not isinstance(output, dict):
            return
        self.heading("The agent's report")
        for name, text in result.act.reports(output):
            self._line(f"  {name:<12}  {text}")

    def timeline(self, result: ActResult) -> None:
        """Print the run's calls, one line each, where nobody gave a better way to."""
        self.heading("The run")
        names = max((len(call.call_id) for call in result.view.calls), default=0)
        for call in result.view.calls:
            style = _STATES.get(call.state, "")
            self._console.print(
                Text.assemble(
                    f"  {call.call_id:<{names}}  ", (f"{call.state.lower():<9}", style), f"  by process {call.epoch}"
                ),
                soft_wrap=True,
            )

    def table(self, result: ActResult) -> None:
        """Print promises beside counts, and what the files were."""
        self.heading("What was promised, and what was counted outside")
        names = max(len(row.what) for row in result.promises)
        self._line(f"  {'':<{names}}  promised  counted", "dim")
        for row in result.promises:
            numbers = f"  {row.what:<{names}}  {row.promised:>8}  {row.counted:>7}  "
            self._row(numbers, row.kept, row.note)
        if result.files:
            self._files(result)
        self._console.print()
        self._wrapped(_WITNESSES, "dim")
        if result.files:
            self._wrapped(_LOOKS, "dim")

    def _files(self, result: ActResult) -> None:
        names = [name for name, _ in result.act.paths]
        rows = [(row.when, *row.shown) for row in result.files]
        widths = [max(map(len, column)) for column in zip_longest(("", *names), *rows, fillvalue="")]

        def line(cells: Sequence[str]) -> str:
            return "  " + "".join(f"{cell:<{width}}  " for cell, width in zip_longest(cells, widths, fillvalue=""))

        self.heading("What the files were")
        self._line(line(["", *names]).rstrip(), "dim")
        for row, cells in zip(result.files, rows, strict=True):
            self._row(line(cells), row.kept, row.note)

    def _row(self, cells: str, kept: bool | None, note: str) -> None:
        """A line of a table, with its verdict, and what there is to say of it below."""
        if kept is None:
            self._line(cells.rstrip())
        else:
            self._console.print(Text.assemble(cells, _VERDICTS[kept]), soft_wrap=True)
        for line in textwrap.wrap("" if kept is False else note, self._width - 4):
            self._line(f"    {line}", "dim")

    def close(self, result: DemoResult, is_kept: bool) -> None:
        """Say how it ended, and what to look at next."""
        self._console.print()
        if result.ok:
            self._line(f"Every promise was kept: {_NUMBERS[result.piece.kills]} kills, {_KEPT}.", "bold green")
        else:
            self._line("Not as promised:", "bold red")
            for problem in result.problems:
                self._line(f"  {problem}")
        self._line(f"It took {result.seconds:.1f} s.", "dim")
        if is_kept:
            self._look_around(result)
        else:
            self._line(f"To keep everything and look around in it: {result.piece.command} --keep DIR", "dim")

    def _look_around(self, result: DemoResult) -> None:
        self.heading("Everything is kept. Look around with")
        store = shlex.quote(result.store)
        for command in ("show last", "trace last", "brief last", "diff last 0 now", "runs", "doctor"):
            self._line(f"  jumar {command} --store {store}")
        directory = Path(result.directory)
        for file in (file for act in result.piece.acts for file in act.files(directory) if file.exists()):
            self._line(f"  cat {shlex.quote(str(file))}")

    # --- Lines. ---

    def _line(self, text: str, style: str = "") -> None:
        """One line as it is: the terminal breaks it where it is too long, so that a command can be copied."""
        self._console.print(Text(text, style), soft_wrap=True)

    def _wrapped(self, text: str, style: str = "") -> None:
        for line in textwrap.wrap(text, self._width):
            self._line(line, style)
