"""The sweep where reads are written behind: a process that dies loses at most reads that nothing on disk depends on.

Between the moment a hot read is accepted and the moment it is on disk a process can die, so both sides of that moment
are swept.  `behind` is the worst there can be: nothing is written before something is waited for.  `every-other` has
every second hot change on disk before the agent goes on.  In either the queue's own thread writes nothing by itself,
so that a world's points come in the same order each time.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from jumar import RunResult
from jumar.core.call_states import ENDED
from jumar.core.changes import Ack, Advance
from jumar.core.records import CallRecord
from jumar.core.requests import Commit, Request
from jumar.core.states import CallState, Effect
from jumar.errors import JumarError, Stopped
from jumar.stores.behind import WriteBehind
from jumar.stores.commits import CommitQueue
from jumar.testing.crash_clock import StoppedClock
from tests.crash.hot_agents import opened
from tests.crash.places import reader_of
from tests.crash.worlds import Life, Story, _judge_attempts, _judge_versions

EVERY = {"behind": 0, "every-other": 2}  # which hot changes are on disk before the agent goes on


@pytest.fixture(autouse=True)
def no_writer() -> Iterator[None]:
    """The queue's own thread ends as it begins."""
    with patch.object(WriteBehind, "_write_behind", lambda queue: None):
        yield


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


class HotLife(Life):
    """A life in which every so many hot changes come to disk at once."""

    def __init__(self, story: Story, at: int | None, every: int) -> None:
        super().__init__(story, at)
        self.every = every
        self.accepted = 0

    def after(self, request: Request[Any], answer: Any) -> None:
        if isinstance(request, Commit) and request.hot is not None and self.every and not self.dead:
            self.accepted += 1
            if self.accepted % self.every == 0 and self._inhabitant is not None:
                operations = self._inhabitant._operations
                assert operations is not None
                operations._engine.io.queue.flush(request.lane)
        super().after(request, answer)


def lived(story: Story, at: int | None, every: int) -> RunResult[Any] | None:
    return story.live(world=HotLife(story, at, every))


def story_in(folder: Path, clock: StoppedClock, waits: bool) -> Story:
    folder.mkdir()
    return Story(folder, clock, waits=waits, make=opened)


def judge(story: Story, result: RunResult[Any] | None) -> None:
    """What is recorded hangs together, and each effect took place once, with what is recorded."""
    assert result is not None and result.status == "COMPLETED", f"the run ended {result}"
    rows = story.rows()
    assert all(row.state is CallState.SUCCEEDED for row in rows.values())
    values = {call_id: msgspec.json.decode(row.result) for call_id, row in rows.items() if row.result is not None}
    looks = [f"look.{number}" for number in (1, 2)]
    later = [f"look.{number}" for number in (3, 4, 5)]
    branches = [(f"order.gather:{number}.look.1", f"order.gather:{number}.pay.1") for number in (0, 1)]
    assert rows.keys() >= {*looks, *later, *(each for pair in branches for each in pair)}, " ".join(sorted(rows))
    first, last = " ".join(values[each] for each in looks), " ".join(values[each] for each in later[:2])
    sent = {"reserve.1": first, "pay.1": last, **{pay: values[look] for look, pay in branches}}
    output = [[values[each] for each in looks], f"seat {first}", [f"paid {values[look]}" for look, _ in branches]]
    assert msgspec.to_builtins(result.output) == [*output, f"paid {last}", values[later[2]]]
    lines = [line for line in story.witness.lines() if line.what in ("sent", "applied")]
    expected = sorted((call_id, f"{rows[call_id].tool} {seen}") for call_id, seen in sent.items())
    assert sorted((line.call_id, line.tool) for line in lines) == expected, "not what is recorded, or not once"
    for position, ended in story.confirmed:
        again = [line for line in story.witness.lines()[position:] if line.call_id in ended]
        assert not again, f"made again although its end was recorded: {again}"
    _judge_attempts(story, rows)
    _judge_versions(story)
    _judge_depends(story, rows)
    reader = reader_of(story.folder)
    assert reader.inspect().findings == ()
    reader.close()


def _judge_depends(story: Story, rows: dict[str, CallRecord]) -> None:
    """When an effect was first on record, what it was made of was too, in an earlier version."""
    for pay, looks in {"reserve.1": ("look.1", "look.2"), "pay.1": ("look.3", "look.4")}.items():
        for look in looks:
            ended = rows[look].ended_version
            assert ended is not None and ended < rows[pay].started_version


def points_of(folder: Path, clock: StoppedClock, waits: bool, every: int) -> int:
    story = story_in(folder / "unbroken", clock, waits)
    judge(story, lived(story, None, every))
    assert sum(change.calls != () for change, _ in story.advances) >= 12
    return story.points


def dies_at(folder: Path, clock: StoppedClock, waits: bool, every: int, *points: int) -> None:
    story = story_in(folder / "-".join(map(str, points)), clock, waits)
    result = None
    for point in points:
        result = lived(story, point, every)
        if result is not None:
            break
    try:
        judge(story, result or lived(story, None, every))
    except BaseException as error:
        error.add_note(f"its lives ended: {story.trail}")
        raise
    story.remove()


@pytest.mark.parametrize("every", EVERY.values(), ids=EVERY.keys())
def test_a_run_killed_at_a_sample_of_points_loses_only_reads_that_nothing_depends_on(
    folder: Path, clock: StoppedClock, waits: bool, every: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    points = points_of(folder, clock, waits, every)
    for point in range(chance.randint(1, 3), points + 1, 3):
        dies_at(folder, clock, waits, every, point)


@pytest.mark.sweep
@pytest.mark.parametrize("every", EVERY.values(), ids=EVERY.keys())
def test_a_run_killed_at_any_point_and_again_loses_only_reads_that_nothing_depends_on(
    folder: Path, clock: StoppedClock, waits: bool, every: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    points = points_of(folder, clock, waits, every)
    for point in range(1, points + 1):
        dies_at(folder, clock, waits, every, point, chance.randint(1, points), chance.randint(1, points))


def test_reads_that_were_not_on_disk_are_lost_with_the_process(folder: Path, clock: StoppedClock) -> None:
    """Else the sweep would prove nothing."""
    story = story_in(folder / "one", clock, waits=False)
    assert story.live(world=HotLife(story, None, 0)) is not None
    points = range(1, story.points + 1, 4)
    lost = 0
    for point in points:
        other = story_in(folder / str(point), clock, waits=False)
        lived(other, point, 0)
        ended = {call_id for call_id, row in other.rows().items() if row.state in ENDED and row.effect is Effect.READ}
        made = {line.call_id for line in other.witness.lines() if line.tool == "look"}
        lost += bool(made - ended)
        other.remove()
    assert lost > len(points) / 4


# --- The sweep is tested by breaking what it is about. ---


class Broken:
    """A queue in which what is waited for overtakes what is hot."""

    def __init__(self) -> None:
        self.hits = 0
        self.real_hot, self.real, self.real_flush = CommitQueue.submit_hot, CommitQueue.submit, CommitQueue.flush

    def submit_hot(self, queue: Any, change: Advance, lane: Any, told: Any) -> Ack:
        queue.__dict__.setdefault("late", []).append((change, lane, told))
        return Ack(change.run_no, lane.version + 1, change.epoch)

    def submit(self, queue: Any, change: Any, lane: Any = None) -> Any:
        answer = self.real(queue, change, lane)
        self.catch_up(queue)
        return answer

    def flush(self, queue: Any, lane: Any) -> None:
        self.catch_up(queue)
        self.real_flush(queue, lane)

    def catch_up(self, queue: Any) -> None:
        late, queue.__dict__["late"] = queue.__dict__.get("late", []), []
        for each in late:
            self.hits += 1
            self.real_hot(queue, *each)


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one that a class gives its instances to."""

    def called(*args: Any) -> Any:
        return function(*args)

    return called


def caught(check: Callable[[], None]) -> BaseException | None:
    try:
        check()
    except (AssertionError, JumarError, Stopped) as error:
        return error
    return None


def test_an_effect_that_is_committed_before_the_hot_read_it_depends_on_is_caught(
    folder: Path, clock: StoppedClock
) -> None:
    broken = Broken()
    with (
        patch.object(CommitQueue, "submit_hot", method(broken.submit_hot)),
        patch.object(CommitQueue, "submit", method(broken.submit)),
        patch.object(CommitQueue, "flush", method(broken.flush)),
        tempfile.TemporaryDirectory(dir=folder) as inside,
    ):
        found = [
            caught(lambda point=point: dies_at(Path(inside), clock, False, 0, point))  # type: ignore[misc]
            for point in range(10, 40, 3)
        ]
    assert broken.hits > 0
    assert any(found)
    print(f"caught by {next(error for error in found if error is not None)!r}")


def test_the_queue_as_it_is_passes_the_same_check(folder: Path, clock: StoppedClock) -> None:
    for point in range(10, 40, 3):
        dies_at(folder, clock, False, 0, point)
