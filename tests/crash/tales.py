"""Stories of runs that wait for people, for times and for each other, and that are steered from outside.

A `Tale` is a story of one or more runs in one store.  Each life takes every run up in turn; where all of them wait, a
person answers what is asked, and where nothing is asked the clock moves to the next wake-up.  `judge_tale` holds what
is left against the same tale without a death (`Whole`), and the chronicle of all that landed against the laws.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar import Happened, Harness, NotHappened, RunResult
from jumar.core.call_states import ENDED
from jumar.core.changes import Change, Outcome
from jumar.core.records import CallRecord
from jumar.core.states import CallKind, CallState
from jumar.core.store import Store
from jumar.errors import RequestNotFound, RunEnded, RunExists, RunNotFound
from jumar.testing.crash_clock import StoppedClock
from jumar.testing.witness import Line
from tests.crash.agents import TTL
from tests.crash.chronicle import Chronicle, in_words
from tests.crash.places import reader_of
from tests.crash.waiting_agents import APPROVED, Receipt, RunWitness
from tests.crash.worlds import FACTS, RUN, Life, Story, counted, plain

OTHER = "01a00000-0000-7000-8000-000000000002"
ROUNDS = 200  # of taking every run up, in one life
_OVER = ("COMPLETED", "CANCELLED")

Results = dict[str, RunResult[Any]]


class Tale(Story):
    """Runs in one folder, from the first life to the last.  `ends_failed` says that a failed run stays so; otherwise
    somebody mends the cause and takes it up again.
    """

    def __init__(
        self,
        folder: Path,
        clock: StoppedClock,
        *,
        waits: bool,
        make: Callable[..., Harness],
        runs: tuple[str, ...] = (RUN,),
        in_turn: bool = True,
        ends_failed: bool = False,
    ) -> None:
        super().__init__(folder, clock, waits=waits, make=make)
        self.witness = RunWitness(folder / "witness")
        self.runs = runs
        self.in_turn = in_turn
        self.ends_failed = ends_failed
        self.chronicle = Chronicle(self.reader, self.witness.lines, approved=APPROVED, in_turn=in_turn)
        self._reader: Store | None = None
        self.over: list[tuple[int, frozenset[tuple[str, str]]]] = []  # by lines of the witness: run and call, ended

    def reader(self) -> Store:
        """Somebody else's look at the store."""
        if self._reader is None:
            self._reader = reader_of(self.folder)
        return self._reader

    def rows_of(self, run_id: str) -> dict[str, CallRecord]:
        """A run's calls by their ids, as they are on disk now."""
        run = self.reader().run(run_id)
        return {} if run is None else {call.call_id: call for call in self.reader().calls(run.run_no)}

    def close(self) -> None:
        """Nothing more is looked at."""
        if self._reader is not None:
            self._reader.close()

    def landed(self, change: Change, outcome: Outcome | Exception) -> None:
        """A change is on disk, or was refused."""
        self.chronicle.add(change, outcome)

    def look_around(self) -> None:
        """What the next life finds: calls that have ended, which must not be seen again."""
        ended = frozenset(
            (run_id, row.call_id)
            for run_id in self.runs
            for row in self.rows_of(run_id).values()
            if row.state in ENDED and (row.state is not CallState.FAILED or self.ends_failed)
        )
        self.over.append((len(self.witness.lines()), ended))

    def to_the_end(self, harness: Harness) -> Results:  # type: ignore[override]
        """Take every run up until all have ended.  Every other life begins with the last run."""
        order = self.runs if len(self.trail) % 2 == 0 else self.runs[::-1]
        results: Results = {}
        for _ in range(ROUNDS):
            for run_id in order:
                if run_id not in results or not self.is_over(results[run_id]):
                    results[run_id] = self.go_on(harness, run_id)
            waiting = [result for result in results.values() if not self.is_over(result)]
            if not waiting:
                return results
            answers = [self.answered(harness, result) for result in waiting]
            if not any(answers) and not self.left_open_answered(harness):
                moments = [result.wake_at for result in waiting if result.wake_at is not None]
                assert moments, f"the runs wait for nothing: {waiting}"
                self.clock.move_to_wall(min(moments))
        raise AssertionError(f"the runs do not come to an end: {results}")

    def is_over(self, result: RunResult[Any]) -> bool:
        """Whether nothing more is to come of the run."""
        return result.status in _OVER or (result.status == "FAILED" and self.ends_failed)

    def go_on(self, harness: Harness, run_id: str, *, wait: bool = True) -> RunResult[Any]:
        """Start a run, or take it up; one that failed is taken up again once the cause is mended."""
        if self.ends_failed and (failed := self._failed(harness, run_id)) is not None:
            return failed
        try:
            result = self._taken_up(harness, run_id, wait)
            if result.status != "FAILED" or self.ends_failed:
                return result
            assert result.error_type in ("Declined", "MapFailed"), result
            self.witness.note("mended", "")
            return harness.resume(run_id)
        except RunEnded:
            seen = harness.show(run_id)
            return RunResult(run_id, seen.run.status, seen.output)

    def _taken_up(self, harness: Harness, run_id: str, wait: bool) -> RunResult[Any]:
        try:
            return harness.resume(run_id, wait=wait)
        except RunNotFound:
            pass
        try:
            return harness.run("work", run_id, run_id=run_id)
        except RunExists:  # somebody was quicker
            return harness.resume(run_id, wait=wait)

    def _failed(self, harness: Harness, run_id: str) -> RunResult[Any] | None:
        try:
            info = harness.show(run_id).run
        except RunNotFound:
            return None
        return RunResult(run_id, "FAILED", error_type=info.error_type) if info.status == "FAILED" else None

    def left_open_answered(self, harness: Harness) -> bool:
        """A person answers what cancelled runs left open, as others may wait for it; whether there was anything."""
        asked = [view for view in harness.requests() if view.asked.kind == "resolve"]
        for view in asked:
            answer(harness, view.run_id, view.asked, self.witness.lines())
        return bool(asked)

    def answered(self, harness: Harness, result: RunResult[Any]) -> bool:
        """A person answers what a run asks, the newest question first; whether the run can go on now."""
        if result.status == "RUNNING":  # somebody has it who may be dead
            self.clock.move(TTL + 0.001)
        if result.status in ("PAUSED", "QUEUED", "RUNNING"):
            return True
        answers = [answer(harness, result.run_id, asked, self.witness.lines()) for asked in result.waiting_on[::-1]]
        return any(answers)


def answer(harness: Harness, run_id: str, asked: Any, lines: list[Line]) -> bool:
    """A person answers one request, always the same way; False where it is left to expire.  One that is no longer
    asked, because the run was steered elsewhere, is none of their business.
    """
    try:
        return _answer(harness, run_id, asked, lines)
    except RequestNotFound:
        return True


def _answer(harness: Harness, run_id: str, asked: Any, lines: list[Line]) -> bool:
    if asked.kind == "ask":
        if asked.expires_at is not None:
            return False
        harness.answer(run_id, asked.call_id, asked.choices[0] if asked.choices else f"{asked.question} Yes.")
    elif asked.kind == "resolve":
        sent = any(line.call_id == asked.call_id and line.by == run_id and line.what == "sent" for line in lines)
        harness.resolve(run_id, asked.call_id, Happened(result_of(asked)) if sent else NotHappened())
    elif asked.args.get("what") == "fine":
        harness.reject(run_id, asked.call_id, by="Ann", note="no fines")
    elif asked.args.get("what") == "tip":
        harness.approve(run_id, asked.call_id, args={"what": "tip", "cents": 3})
    else:
        harness.approve(run_id, asked.call_id)
    return True


def result_of(asked: Any) -> Any:
    """What a tool that a person is asked about returned."""
    args = asked.args
    match asked.tool:
        case "wire" | "send":
            return f"{args['cents']} to {args['bank']}"
        case "reserve":
            return f"{args['seats']} for {args['name']}"
        case "ship":
            return f"{args['item']} shipped"
        case "order":
            return f"{args['item']} ordered"
        case "deliver":
            return f"{args['item']} delivered"
        case "stamp":
            return f"{args['what']} stamped"
    return Receipt(**args)


def facts(row: CallRecord) -> dict[str, Any]:
    """What of a call must be as in the whole tale; when a sleep ends is not known before."""
    told = {name: getattr(row, name) for name in FACTS}
    if row.kind is CallKind.SLEEP:
        del told["result"]
    return told


# --- Judging. ---


class Whole:
    """The tale in which nobody dies and nobody steers."""

    def __init__(self, tale: Tale) -> None:
        results = tale.live()
        assert results is not None
        self.outputs = {run_id: plain(result.output) for run_id, result in results.items()}  # type: ignore[attr-defined]
        self.statuses = {run_id: result.status for run_id, result in results.items()}  # type: ignore[attr-defined]
        self.rows = {run_id: {key: facts(row) for key, row in tale.rows_of(run_id).items()} for run_id in tale.runs}
        self.points, self.path = tale.points, tale.path
        self.effects = counted(tale.witness.lines())
        judge_tale(tale, results, self)


def judge_tale(tale: Tale, results: Any, whole: Whole) -> None:
    """Hold a finished tale against the whole one; AssertionError where it is not as good."""
    judge_laws(tale)
    for run_id, result in results.items():
        ended, wanted = (result.status, plain(result.output)), (whole.statuses[run_id], whole.outputs[run_id])
        assert ended == wanted, f"{run_id} ended {ended}, and not {wanted}"
    for run_id in tale.runs:
        rows = tale.rows_of(run_id)
        assert rows.keys() == whole.rows[run_id].keys(), f"other calls: {rows.keys() ^ whole.rows[run_id].keys()}"
        for call_id, row in rows.items():
            wanted = whole.rows[run_id][call_id]
            assert facts(row) == wanted, f"{call_id} of {run_id}: {facts(row)} and not {wanted}"
    assert counted(tale.witness.lines()) == whole.effects, "an effect is missing, or was repeated"


def judge_laws(tale: Tale) -> None:
    """What holds of every tale, however it was steered."""
    lines = tale.witness.lines()
    effects = [line for line in lines if line.what in ("sent", "applied")]
    keys = [line.key for line in effects]
    assert len(set(keys)) == len(keys), f"more than one effect under a key: {effects}"
    actions = [line.tool for line in effects if line.tool.startswith(("title", "stamp", "bill"))]
    assert len(set(actions)) == len(actions), f"a named action was done twice: {actions}"
    for position, ended in tale.over:
        again = [line for line in lines[position:] if (line.by, line.call_id) in ended]
        assert not again, f"sent again although its end was recorded: {again}"
    wrongs = tale.chronicle.settle()
    assert not wrongs, in_words(wrongs, tale.chronicle.told)
    assert tale.reader().inspect().findings == ()


class Told:
    """A tale as long as it lasts: of a failure it says where the tale went, and otherwise its files go."""

    def __init__(self, tale: Tale) -> None:
        self._tale = tale

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._tale.close()
        if error is None:
            self._tale.remove()
            return
        error.add_note(f"its lives ended: {self._tale.trail}\n  what landed: {'; '.join(self._tale.chronicle.told)}")


def dies(tale: Tale, *points: int | str | None) -> Any:
    """Live so often, each life ending at its point, and then to the end; a life with fewer points reaches it."""
    result = None
    for point in (*points, None):
        result = tale.live(point)
        if result is not None:
            break
    return result


__all__ = ["OTHER", "RUN", "Life", "Tale", "Told", "Whole", "dies", "judge_laws", "judge_tale"]
