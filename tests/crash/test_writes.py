"""The sweep over writes: a run that is killed at any point, the middle of a write among them, ends with the output, the
rows and the files of one that never was; and whenever a write's end is recorded its files are what they should be.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar.core.changes import Ack, Advance, Change, Outcome
from jumar.core.states import CallState, Effect
from jumar.testing.crash import Crashed
from jumar.testing.crash_clock import StoppedClock
from jumar.workspace.calls import FileCalls
from tests.crash.worlds import Life, Story, Unbroken, judge
from tests.crash.writing_agents import opened
from tests.workspace.files import Tree, read

CHUNKS = 12
_ENDED = (CallState.SUCCEEDED, CallState.FAILED)


class Written(Story):
    """A story that remembers what the files of each write were when its end came to disk."""

    def __init__(self, folder: Path, clock: StoppedClock, *, waits: bool) -> None:
        super().__init__(folder, clock, waits=waits, make=opened)
        self.ends: dict[str, Tree] = {}

    def landed(self, change: Change, outcome: Outcome | Exception) -> None:
        super().landed(change, outcome)
        if not isinstance(outcome, Ack) or not isinstance(change, Advance):
            return
        ended = {each.seq for each in change.changes if each.state in _ENDED}
        for row in self.rows().values() if ended else ():
            if row.seq in ended and row.effect is Effect.WRITE and row.tool != "page":
                assert row.call_id not in self.ends, f"{row.call_id} has ended twice"
                self.ends[row.call_id] = self.files()

    def files(self) -> Tree:
        return read(self.folder / "site")


class Whole(Unbroken):
    """The run that never dies, and its files, at each write's end and at its own."""

    def __init__(self, folder: Path, clock: StoppedClock, *, waits: bool) -> None:
        story = Written(folder, clock, waits=waits)
        self.learn(story, story.live())
        self.files, self.ends = story.files(), story.ends

    def judge(self, story: Written, result: Any) -> None:
        judge(story, result, self)
        assert story.files() == self.files
        assert story.ends == self.ends


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def whole(folder: Path, clock: StoppedClock, waits: bool) -> Whole:
    (folder / "whole").mkdir()
    return Whole(folder / "whole", clock, waits=waits)


@pytest.fixture
def chance() -> Iterator[random.Random]:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    yield random.Random(seed)


def lived(folder: Path, clock: StoppedClock, whole: Whole, waits: bool, *points: int) -> None:
    """A run whose lives end at these points, one after the other, is judged at the end of the next."""
    folder.mkdir()
    story = Written(folder, clock, waits=waits)
    result = None
    try:
        for point in points:
            result = story.live(point)
            if result is not None:
                break
        whole.judge(story, result if result is not None else story.live())
    except BaseException as error:
        error.add_note(f"its lives ended: {story.trail}")
        raise
    story.remove()


def test_a_run_that_writes_and_is_killed_at_a_sample_of_points_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool, chance: random.Random
) -> None:
    for point in chance.sample(range(1, whole.points + 1), 12):
        lived(folder / str(point), clock, whole, waits, point)


def test_a_run_that_writes_and_is_killed_in_the_middle_of_its_bodies_has_them_put_back(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool, chance: random.Random
) -> None:
    inside = [number for number, entry in enumerate(whole.path, 1) if entry == "before Now"][2:]
    assert len(inside) >= 11, "the bodies have points of their own"
    for point in chance.sample(inside, 6):
        lived(folder / str(point), clock, whole, waits, point)


def test_a_run_that_writes_and_dies_again_and_again_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool, chance: random.Random
) -> None:
    for number in range(2):
        points = [chance.randint(10, 60) for _ in range(8)]
        lived(folder / str(number), clock, whole, waits, *points)


@pytest.mark.sweep
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_run_that_writes_and_is_killed_at_any_point_and_again_in_its_recovery_ends_as_if_nothing_had_happened(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool, chunk: int, chance: random.Random
) -> None:
    for point in range(1 + chunk, whole.points + 1, CHUNKS):
        lived(folder / str(point), clock, whole, waits, point)
        for again in chance.sample(range(1, 30), 2):
            lived(folder / f"{point}-{again}", clock, whole, waits, point, again)


# --- Inside a put-back. ----------------------------------------------------------------------------------------------

_CHANGING = ("write", "fsync", "rename", "rename_new", "exchange", "unlink", "rmdir", "mkdir", "symlink", "fchmod")


class Cut(Life):
    """A world that ends at a filesystem call of a restore, the `call`-th of those that change something."""

    def __init__(self, story: Story, call: int, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(story, None)
        self.left = call
        for name in _CHANGING:
            monkeypatch.setattr(FileCalls, name, self._counted(getattr(FileCalls, name)))

    def _counted(self, real: Any) -> Any:
        def called(calls: FileCalls, *args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                self.end()
            if self.dead:
                raise Crashed("the world ended in the middle of a put-back")
            return real(calls, *args, **kwargs)

        return called


def cut_off(folder: Path, clock: StoppedClock, whole: Whole, waits: bool, call: int) -> bool:
    """A run whose put-back is cut off at a call is judged at the end of its next life; False where it has fewer."""
    folder.mkdir()
    story = Written(folder, clock, waits=waits)
    with pytest.MonkeyPatch.context() as patched:
        world = Cut(story, call, patched)
        result = story.live(world=world)
    whole.judge(story, result if result is not None else story.live())
    story.remove()
    return world.left <= 0


def test_a_put_back_that_is_cut_off_at_a_sample_of_its_calls_is_finished_by_the_next_life(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool, chance: random.Random
) -> None:
    for call in chance.sample(range(1, 31), 5):
        assert cut_off(folder / str(call), clock, whole, waits, call), "a put-back has more calls than that"


@pytest.mark.sweep
def test_a_put_back_that_is_cut_off_at_any_of_its_calls_is_finished_by_the_next_life(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool
) -> None:
    call = 1
    while cut_off(folder / str(call), clock, whole, waits, call):
        call += 1
