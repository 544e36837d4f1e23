"""A worker that writes, frozen at any point as by SIGSTOP while its lease runs out, and thawed when another has taken
its run over: it never undoes, and never overwrites, what the other has written.

Where it is frozen with the workspace's lock in its hands the other one waits, and nothing is touched until it has come
to its end.
"""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from jumar.core.states import Status
from jumar.testing.crash_clock import StoppedClock
from tests.crash.agents import TTL
from tests.crash.test_frozen import Frozen
from tests.crash.test_writes import Whole, Written
from tests.crash.worlds import RUN, Life


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def whole(folder: Path, clock: StoppedClock, waits: bool) -> Whole:
    (folder / "whole").mkdir()
    return Whole(folder / "whole", clock, waits=waits)


def thawed_late(folder: Path, clock: StoppedClock, whole: Whole, waits: bool, point: int) -> bool:
    """A worker is frozen at a point, another takes its run over, the first one thaws; answers whether the other had to
    wait for it.
    """
    folder.mkdir()
    return _thawed_late(Written(folder, clock, waits=waits), clock, whole, point)


def _thawed_late(story: Written, clock: StoppedClock, whole: Whole, point: int) -> bool:
    story.look_around()
    frozen = Frozen(story, point)
    clock.move(TTL + 0.001)
    try:
        had_to_wait = _taken_over(story, frozen)
        whole.judge(story, story.live())
    except BaseException as error:
        error.add_note(f"frozen {frozen.world.trail[point - 1]}")
        raise
    finally:
        frozen.world.thaw()
    story.remove()
    return had_to_wait


def _taken_over(story: Written, frozen: Frozen) -> bool:
    with closing(story.harness_in(Life(story, None))) as other:
        run = story.run()
        if run is None or run.status is Status.COMPLETED:  # it was frozen before it had made the run, or after its end
            frozen.thaw()
            return False
        story.look_around()
        result = other.resume(RUN)
        if result.status == "WAITING":
            frozen.thaw()
            story.to_the_end(other)
            return True
        assert result.status == "COMPLETED", result
        files, rows, run = story.files(), story.rows(), story.run()
        frozen.thaw()
        assert story.files() == files, "the thawed worker changed a file of a run that another had finished"
        assert (story.rows(), story.run()) == (rows, run)
        return False


def test_a_worker_frozen_at_a_sample_of_points_undoes_nothing_when_it_thaws(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    for point in random.Random(seed).sample(range(3, whole.points + 1), 5):
        thawed_late(folder / str(point), clock, whole, waits, point)


@pytest.mark.parametrize("where", ["before Now", r"before Restore", r"after Restore", r"before Invoke\(rewrite"])
def test_a_worker_frozen_with_the_lock_in_its_hands_is_waited_for(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool, where: str
) -> None:
    points = [point for point in whole.points_like(where) if point > 10]
    assert thawed_late(folder / "one", clock, whole, waits, points[0])


def test_a_recovery_frozen_before_it_puts_files_back_does_not_do_so_when_it_thaws(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool
) -> None:
    """The other one has put them back by then, and made the write anew: to put them back again would take it away."""
    inside = next(point for point in whole.points_like("before Now") if point > 10)
    for point in range(4, 16):
        (folder / str(point)).mkdir()
        story = Written(folder / str(point), clock, waits=waits)
        assert story.live(inside) is None
        _thawed_late(story, clock, whole, point)


@pytest.mark.sweep
@pytest.mark.parametrize("chunk", range(6))
def test_a_worker_frozen_at_any_point_undoes_nothing_when_it_thaws(
    folder: Path, clock: StoppedClock, whole: Whole, waits: bool, chunk: int
) -> None:
    for point in range(3 + chunk, whole.points + 1, 6):
        thawed_late(folder / str(point), clock, whole, waits, point)
