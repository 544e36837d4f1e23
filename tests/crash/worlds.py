"""Living through a run whose processes die at chosen points, and judging what is left.

A `Story` is one run in one folder: each of its lives is a harness in a world of its own on the same database and
witness, and the next life begins when the lease of the one before has run out.  It keeps what every life committed,
so that in the end `judge` can hold the records, the witness and the output of the run against those of a run that
never died.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, cast

from jumar import Happened, Harness, NotHappened, RunResult
from jumar.core.call_states import ENDED
from jumar.core.changes import Ack, Advance, Change, Claimed, Outcome
from jumar.core.records import CallRecord, RunRecord
from jumar.core.states import CallState, Effect
from jumar.core.store import Store
from jumar.errors import RunEnded, RunNotFound
from jumar.testing.crash import Crashed, World, inhabit
from jumar.testing.crash_clock import StoppedClock
from jumar.testing.witness import Line, Witness
from tests.crash.agents import TTL, opened
from tests.crash.places import begin, reader_of

RUN = "01a00000-0000-7000-8000-000000000001"
AGENT, TASK = "work", "ERROR"

Confirmed = list[
    tuple[int, frozenset[str]]
]  # lines of the witness at some moment, and the calls that had ended by then


class Life(World):
    """A world that remembers in its story what it committed."""

    def __init__(self, story: Story, at: int | str | None, *, freezes: bool = False) -> None:
        super().__init__(at, freezes=freezes, clock=story.clock)
        self.story = story

    def around(self, store: Store) -> Store:
        """The store, with every change that lands told to the story."""
        return super().around(cast(Store, Recording(store, self.story)))


class Recording:
    """A store that tells a story what landed."""

    def __init__(self, store: Any, story: Story) -> None:
        self._store = store
        self._story = story

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        """Write, and tell."""
        outcomes: list[Outcome | Exception] = self._store.write(changes, wait=wait)
        for change, outcome in zip(changes, outcomes, strict=True):
            self._story.landed(change, outcome)
        return outcomes


class Story:
    """One run in one folder, from its first life to its last."""

    def __init__(
        self, folder: Path, clock: StoppedClock, *, waits: bool, make: Callable[..., Harness] = opened
    ) -> None:
        self.folder = folder
        self.clock = clock
        self.waits = waits
        self.make = make
        self.witness = Witness(folder / "witness")
        self.advances: list[tuple[Advance, Ack]] = []
        self.confirmed: Confirmed = []
        self.trail: list[str] = []
        self._started: frozenset[str] = frozenset()
        begin(folder)

    def live(self, at: int | str | None = None, *, world: Life | None = None) -> RunResult[Any] | None:
        """A process: it starts the run or takes it over, and drives it to the end, a person answering where one is
        asked.  It dies at point `at` of its life; None then, else the result."""
        self.look_around()
        world = Life(self, at) if world is None else world
        harness = self.harness_in(world)
        try:
            return self.to_the_end(harness)
        except Crashed:
            return None
        finally:
            harness.close()
            self.points, self.path = world.points, world.trail
            self.trail.append(world.trail[-1] if world.dead else "the end")
            self.clock.move(TTL + 0.001)

    def harness_in(self, world: World) -> Harness:
        """A harness of this story in a world of its own."""
        harness = self.make(self.folder, waits=self.waits, by=f"life {len(self.trail) + 1}", world=world)
        inhabit(harness, world)
        return harness

    def to_the_end(self, harness: Harness) -> RunResult[Any]:
        """Start the run, or take it over, and drive it until it has ended."""
        try:
            result = harness.resume(RUN)
        except RunNotFound:
            result = harness.run(AGENT, TASK, run_id=RUN)
        except RunEnded:
            return stored(harness)
        while result.status == "WAITING":
            if result.wake_at is not None:
                self.clock.move_to_wall(result.wake_at)
            else:
                answer_wire(harness, result, self.witness)
            result = harness.resume(RUN)
        return result

    def look_around(self) -> None:
        """What the next life finds: calls that have ended, which must not be seen again, and calls under way."""
        rows = self.rows().values()
        self._started = frozenset(row.call_id for row in rows if row.state is CallState.STARTED)
        self.confirmed.append((len(self.witness.lines()), frozenset(row.call_id for row in rows if row.state in ENDED)))

    def landed(self, change: Change, outcome: Outcome | Exception) -> None:
        """A change is on disk, or was refused."""
        if isinstance(outcome, Claimed):
            self._claimed(outcome)
        elif isinstance(outcome, Ack) and isinstance(change, Advance):
            self.advances.append((change, outcome))

    def _claimed(self, claimed: Claimed) -> None:
        """Right after a claim what was STARTED is UNCERTAIN."""
        rows = self.rows()
        for call_id in self._started:
            state = rows[call_id].state
            assert state is CallState.UNCERTAIN, f"{call_id} is {state.name} after the claim"
        assert claimed.uncertain == len(self._started)
        self._started = frozenset()

    def rows(self) -> dict[str, CallRecord]:
        """The run's calls as they are on disk now, read by somebody else."""
        return rows_in(self.folder)

    def run(self) -> RunRecord | None:
        """The run as it is on disk now."""
        with closing(reader_of(self.folder)) as store:
            return store.run(RUN)

    def remove(self) -> None:
        """Forget the story's files."""
        shutil.rmtree(self.folder)

    def copy_to(self, folder: Path) -> Story:
        """The same story so far, to be lived on elsewhere."""
        shutil.copytree(self.folder, folder)
        clock = self.clock
        other = Story(folder, clock, waits=self.waits, make=self.make)
        other.advances, other.confirmed, other.trail = list(self.advances), list(self.confirmed), list(self.trail)
        return other


def rows_in(folder: Path, run_id: str = RUN) -> dict[str, CallRecord]:
    """The run's calls by their ids."""
    with closing(reader_of(folder)) as store:
        run = store.run(run_id)
        return {} if run is None else {call.call_id: call for call in store.calls(run.run_no)}


def calls_ended(folder: Path) -> frozenset[str]:
    """The calls whose end is recorded."""
    return frozenset(row.call_id for row in rows_in(folder).values() if row.state in ENDED)


def answer_wire(harness: Harness, result: RunResult[Any], witness: Witness) -> None:
    """A person who knows what the witness knows answers what is asked about a wire; the other tools have a probe."""
    for waiting in result.waiting_on:
        sent = any(line.call_id == waiting.call_id and line.what == "sent" for line in witness.lines())
        harness.resolve(RUN, waiting.call_id, Happened("5 to B") if sent else NotHappened())


def stored(harness: Harness) -> RunResult[Any]:
    """The result of a run that ended in an earlier life."""
    seen = harness.show(RUN)
    return RunResult(RUN, seen.run.status, seen.output)


class Unbroken:
    """What the run is like when nothing goes wrong: what every other story is held against."""

    def __init__(
        self, folder: Path, clock: StoppedClock, *, waits: bool, make: Callable[..., Harness] = opened
    ) -> None:
        story = Story(folder, clock, waits=waits, make=make)
        self.learn(story, story.live())

    def learn(self, story: Story, result: RunResult[Any] | None) -> None:
        """Take the story of a run that never died for the measure."""
        assert result is not None and result.status == "COMPLETED", f"the run ended {result}"
        self.output = plain(result.output)
        self.rows = {call_id: facts(row) for call_id, row in story.rows().items()}
        self.points = story.points
        self.path = story.path
        self.sent = counted(story.witness.lines())
        judge(story, result, self)

    def points_like(self, pattern: str) -> list[int]:
        """The points whose description matches a regular expression; all, for an empty one."""
        return [number for number, entry in enumerate(self.path, 1) if re.search(pattern, entry)]


def judge(story: Story, result: RunResult[Any] | None, unbroken: Unbroken) -> None:
    """Hold a finished story against the unbroken run; AssertionError where it is not as good."""
    assert result is not None and result.status == "COMPLETED", f"the run ended {result}"
    judge_outside(story.folder, result.output, story.confirmed, unbroken)
    _judge_attempts(story, story.rows())
    _judge_versions(story)


def judge_outside(folder: Path, output: Any, confirmed: Confirmed, unbroken: Unbroken, run_id: str = RUN) -> None:
    """The part of it that needs to know nothing of the lives but what each of them found: the output, the records,
    and what the witness saw.
    """
    assert plain(output) == unbroken.output
    rows = rows_in(folder, run_id)
    assert rows.keys() == unbroken.rows.keys()
    for call_id, row in rows.items():
        assert facts(row) == unbroken.rows[call_id], f"{call_id}: {facts(row)} and not {unbroken.rows[call_id]}"
    lines = Witness(folder / "witness").lines()
    effects = [line for line in lines if line.what in ("sent", "applied")]
    keys = [line.key for line in effects]
    assert len(set(keys)) == len(keys), f"more than one effect under a key: {effects}"
    assert counted(lines) == unbroken.sent, "an effect was repeated, or got another key"
    for position, ended in confirmed:
        again = [line for line in lines[position:] if line.call_id in ended]
        assert not again, f"sent again although its end was recorded: {again}"
    with closing(reader_of(folder)) as store:
        assert store.inspect().findings == ()


def _judge_attempts(story: Story, rows: dict[str, CallRecord]) -> None:
    started: dict[int, list[int]] = {}
    for advance, _ in story.advances:
        for each in (*advance.calls, *advance.changes):
            if each.state is CallState.STARTED:
                started.setdefault(each.seq, []).append(each.attempt)
    for row in rows.values():
        if row.effect is Effect.READ:
            continue
        attempts = started.get(row.seq, [])
        assert attempts, f"{row.call_id} was sent without a record"
        assert attempts == list(range(1, len(attempts) + 1)), f"attempts of {row.call_id}: {attempts}"
        assert row.attempt == len(attempts), f"{row.call_id} counts {row.attempt} of {len(attempts)} attempts"


def _judge_versions(story: Story) -> None:
    versions = sorted(ack.version for _, ack in story.advances)
    assert versions == list(range(1, len(versions) + 1)), "an advance landed twice, or was made on top of another"
    epochs = [advance.epoch for advance, _ in sorted(story.advances, key=lambda pair: pair[1].version)]
    assert epochs == sorted(epochs), "something was written under an older epoch than what came before it"


FACTS = (
    *("call_id", "branch", "step", "ordinal", "kind", "tool", "effect", "state"),
    *("args_digest", "args", "key", "result", "failure", "usage"),
)


def facts(row: CallRecord) -> dict[str, Any]:
    """What of a call must be as in the unbroken run: all but its number, attempts, epochs, versions and times."""
    return {name: getattr(row, name) for name in FACTS}


def counted(lines: list[Line]) -> dict[str, int]:
    """How many effects of each tool took place."""
    counts: dict[str, int] = {}
    for line in lines:
        if line.what in ("sent", "applied"):
            counts[line.tool] = counts.get(line.tool, 0) + 1
    return counts


def plain(output: Any) -> Any:
    """An output as plain data, whether it comes from the run or from the store."""
    import msgspec

    return msgspec.to_builtins(output)
