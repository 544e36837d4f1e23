"""A call that writes a file, beside what it cannot do without: its two transactions, and a copy of the file as it was.

The body is the same on both sides.  The floor's copy is a plain one that is flushed to disk; Jumar captures the
declared path before and after the body, so that the file can be put back and the next snapshot of the workspace needs
no scan.  The floor's blocks run inside the agent's own body, between those of its calls.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path

from msgspec.structs import replace

from benchmarks.bare import Bare, Transaction, change_of, started
from benchmarks.floors import RESULT, new_run
from benchmarks.measuring import Blocks, Figure, compared
from benchmarks.sizes import Sizes
from jumar import Harness, Run
from jumar.core.changes import Advance, Hold
from jumar.core.checksums import checksum_of
from jumar.core.records import CallRecord
from jumar.core.states import CallState, Phase

BARE, JUMAR = "bare", "jumar"
NAME = "site.ini"


def measure_writes(directory: Path, sizes: Sizes) -> list[Figure]:
    """One call that writes a declared file, over its bare transactions and a copy of the file."""
    calls = (sizes.rounds + 1) * sizes.write_block
    recorded = directory / "recorded"
    run_id = record_writes(recorded, calls)
    root, copy = directory / "files", directory / "copy"
    root.mkdir()
    floor = Writes(directory / "bare.db", recorded / "runs.db", run_id)
    blocks = Blocks(BARE, JUMAR)

    def turns(call: Callable[[int], object]) -> None:
        numbers = count()
        for side in blocks.turns(sizes.rounds):
            if side == BARE:
                prepared = floor.prepare(sizes.write_block)
                with blocks.timed(BARE, sizes.write_block):
                    floor.write(prepared, root / "bare.ini", copy)
                continue
            with blocks.timed(JUMAR, sizes.write_block):
                for number in islice(numbers, sizes.write_block):
                    call(number)

    _run(directory / "jumar.db", root, turns)
    floor.close()
    what = "a call that writes a declared file, over its two bare transactions and a copy of the file"
    return [compared("write-call", what, None, blocks, JUMAR, BARE)]


def record_writes(directory: Path, calls: int) -> str:
    """A run that writes one file so often, recorded in `runs.db`; answers its id."""
    root = directory / "files"
    root.mkdir(parents=True)

    def turns(call: Callable[[int], object]) -> None:
        for number in range(calls):
            call(number)

    return _run(directory / "runs.db", root, turns)


def _run(store: Path, root: Path, turns: Callable[[Callable[[int], object]], None]) -> str:
    """A run that makes the calls of `turns`; answers its id."""
    harness = Harness(f"sqlite:///{store}", workspace=root)

    @harness.tool(effect="write", paths=["{name}"])
    def rewrite(name: str, number: int) -> int:
        return write(root / name, number)

    @harness.agent(tools=[rewrite])
    def writer(run: Run, task: str) -> None:
        turns(lambda number: run.call(rewrite, NAME, number))

    with harness:
        result = harness.run(writer, "x")
    result.unwrap()
    return result.run_id


def write(path: Path, number: int) -> int:
    """The body: three kilobytes, other ones each time."""
    return path.write_text(f"[site {number}]\n{RESULT * 3}\n", encoding="utf-8")


class Writes(Bare):
    """The calls of a run that writes, as so many pairs of bare guarded transactions."""

    def __init__(self, path: Path, recorded: Path, run_id: str) -> None:
        super().__init__(path, recorded, run_id, new_run())
        self._done = 0

    def prepare(self, calls: int) -> list[tuple[int, Transaction, Transaction]]:
        """The transactions of the next so many calls, each with the call's number."""
        found = []
        for number in range(self._done, self._done + calls):
            sent, ended = self._call(self.calls[number])
            found.append((number, self.statements(sent), self.statements(ended)))
        self._done += calls
        return found

    def write(self, prepared: list[tuple[int, Transaction, Transaction]], path: Path, copy: Path) -> None:
        """Make them, with the body between the two."""
        for number, sent, ended in prepared:
            keep(path, copy)
            self.work([sent])
            write(path, number)
            self.work([ended])

    def _call(self, call: CallRecord) -> tuple[Advance, Advance]:
        sent = replace(call, state=CallState.STARTED, result=None, ended_at=None, after=None)
        sent = replace(sent, checksum=checksum_of(sent))
        holds = (Hold(seq=call.seq, workspace=self.workspace, path=os.fsencode(NAME)),)
        ended = change_of(call, CallState.SUCCEEDED, result=call.result, ended_at=call.ended_at, after=call.after)
        return (
            self.advance(0, Phase.IN_CODE, calls=(sent,), events=(started(call),), holds=holds),
            self.advance(0, Phase.IN_CODE, changes=(ended,), drops=(call.seq,)),
        )


def keep(path: Path, copy: Path) -> None:
    """Keep a copy of a file as it is, on disk."""
    if path.exists():
        shutil.copyfile(path, copy)
        with copy.open("rb") as file:
            os.fsync(file.fileno())
