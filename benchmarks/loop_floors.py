"""The floor of a loop agent's turns: the transactions of a run that Jumar recorded, written once more without it.

A turn is a decision that plans one call, and that call.  Its decision and the planned call are one transaction, the
call's result is another, and of an external call the note that it is on its way is one between them.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from benchmarks.bare import Bare, Transaction, change_of, started
from benchmarks.floors import new_run
from jumar.core.changes import Advance
from jumar.core.checksums import checksum_of
from jumar.core.records import CallRecord
from jumar.core.states import CallState, Effect, Phase

_READY = (Phase.RESULTS_RECORDED, Phase.READY_TO_DECIDE)  # what a decision passes through after the first turn


class Turns(Bare):
    """The turns of one run, as so many bare guarded transactions."""

    def __init__(self, path: Path, recorded: Path, run_id: str) -> None:
        super().__init__(path, recorded, run_id, replace(new_run(), phase=Phase.READY_TO_DECIDE))
        self._done = 0

    def prepare(self, count: int) -> list[Transaction]:
        """The transactions of the next so many turns."""
        found: list[Transaction] = []
        for number in range(self._done, self._done + count):
            decision, call = self.calls[2 * number : 2 * number + 2]
            found += [self.statements(change) for change in self._turn(number + 1, decision, call)]
        self._done += count
        return found

    def _turn(self, number: int, decision: CallRecord, call: CallRecord) -> list[Advance]:
        planned = replace(
            call,
            state=CallState.PLANNED,
            attempt=0,
            result=None,
            boot=None,
            dispatch_by=None,
            started_at=0,
            ended_at=None,
        )
        planned = replace(planned, checksum=checksum_of(planned))
        through = () if number == 1 else _READY
        changes = [self.advance(number, Phase.DECISION_RECORDED, calls=(decision, planned), through=through)]
        if call.effect is Effect.EXTERNAL:
            sent = change_of(call, CallState.STARTED, boot=call.boot, dispatch_by=call.dispatch_by)
            rows = {"changes": (sent,), "events": (started(call),)}
            changes.append(self.advance(number, Phase.DECISION_RECORDED, **rows))
        ended = change_of(call, CallState.SUCCEEDED, result=call.result, ended_at=call.ended_at)
        return [*changes, self.advance(number, Phase.RESULTS_RECORDED, changes=(ended,))]
