"""The sweep over rollbacks: a run that is killed at any point while it is rolled back, and again while it goes on,
ends as if nothing had happened.  Its files are those of the target before it goes on, each thing outside was done and
undone as often as it should be, and what stands is not done again.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness, RunResult
from jumar.errors import CannotRollBack, WorkspaceConflict
from jumar.stores.sqlite.store import SQLiteStore
from jumar.testing.crash import Crashed, World, inhabit
from jumar.testing.crash_clock import StoppedClock
from jumar.testing.witness import Witness
from tests.crash.agents import TTL
from tests.crash.rolling_agents import TASK, answer, furnish, opened
from tests.workspace.files import Tree, read

RUN = "01a00000-0000-7000-8000-000000000001"
TAKEOVERS = ("resume", "worker", "rollback")
CHUNKS = 8


class Stage:
    """A run that has done all its work, to be rolled back again and again, each time in a folder of its own."""

    def __init__(self, folder: Path, clock: StoppedClock, *, waits: bool, loops: bool, rounds: int = 1) -> None:
        self.rounds = rounds  # how often it is rolled back, each time from its end
        self.folder, self.clock, self.waits, self.loops = folder, clock, waits, loops
        self.done = folder / "done"
        self.site = folder / "site"  # every story takes place here, since a run knows its workspace by its path
        furnish(self.site)
        self.before = read(self.site)
        (folder / "live").mkdir()
        self.story = Story(self)
        self.output = self.story.ran()
        self.after = read(self.site)
        self.story.keep(self.done)
        whole = self.told()
        assert whole is not None
        self.points, self.path = self.story.points, self.story.path

    def told(self, *points: int, takeover: str = "resume") -> RunResult[Any] | None:
        """The story with lives that end at these points, one after the other, judged at the end of the last."""
        self.story = story = Story(self)
        story.bring(self.done)
        result = None
        try:
            for point in (*points, None):
                result = story.live(point, takeover)
                if result is not None:
                    break
            assert result is not None
            self.judge(story, result)
        except BaseException as error:
            error.add_note(f"its lives ended: {story.trail}")
            raise
        return result

    def judge(self, story: Story, result: RunResult[Any]) -> None:
        """Everything is as it should be, whoever died on the way."""
        assert (result.status, result.output) == ("COMPLETED", self.output)
        assert read(self.site) == self.after
        run = story.record()
        # One that finds a rollback under way finishes it and goes back once more, when there is nothing to be undone.
        times = story.witness.count("applied", "cancel 12")
        assert 1 <= times <= run.generation and self.rounds <= run.generation and run.intent is None
        assert [story.witness.count("applied", tool) for tool in ("book 12", "cancel 12")] == [times + 1, times]
        assert [story.witness.count("sent", tool) for tool in ("pay", "refund", "mail")] == [times + 1, times, 1]


class Story:
    """One run being rolled back and going on, in one life after another."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.folder = stage.folder / "live"
        self.witness = Witness(self.folder / "witness")
        self.trail: list[str] = []
        self.points, self.path = 0, list[str]()

    def harness(self, world: World | None = None) -> Harness:
        """The next process."""
        stage = self.stage
        made = opened(self.folder, waits=stage.waits, world=world, loops=stage.loops)
        if world is not None:
            inhabit(made, world)
        return made

    def ran(self) -> Any:
        """The run before anybody thinks of rolling it back."""
        (self.folder / "site").symlink_to(self.stage.site)
        with self.harness() as harness:
            return harness.run("work", TASK, run_id=RUN).unwrap()

    def keep(self, place: Path) -> None:
        """Copy all there is."""
        shutil.copytree(self.folder, place, symlinks=True)
        shutil.copytree(self.stage.site, place / "site-files", symlinks=True)

    def bring(self, place: Path) -> None:
        """Begin again from what was kept."""
        shutil.rmtree(self.folder)
        shutil.rmtree(self.stage.site)
        shutil.copytree(place, self.folder, symlinks=True)
        shutil.move(self.folder / "site-files", self.stage.site)

    def live(self, at: int | None, takeover: str) -> RunResult[Any] | None:
        """A process that rolls the run back, or takes it over in the middle of that, and drives it to the end."""
        world = World(at, clock=self.stage.clock)
        harness = self.harness(world)
        try:
            return self.to_the_end(harness, takeover)
        except Crashed:
            return None
        finally:
            harness.close()
            self.points, self.path = world.points, world.trail
            self.trail.append(world.trail[-1] if world.dead and world.trail else "the end")
            self.stage.clock.move(TTL + 0.001)

    def to_the_end(self, harness: Harness, takeover: str) -> RunResult[Any]:
        """Roll the run back as often as it is to be, each time from its end, and drive it there again."""
        while True:
            info = harness.show(RUN).run
            if info.rolling_back_to is not None:
                self.taken_over(harness, takeover)
            elif info.status != "COMPLETED":
                self.gone_on(harness)
            elif info.generation < self.stage.rounds:
                rolled = harness.rollback(RUN, to=self.target(harness))
                if rolled.status == "PAUSED":
                    assert read(self.stage.site) == self.stage.before
            else:
                return RunResult(RUN, "COMPLETED", harness.show(RUN).output)

    def taken_over(self, harness: Harness, takeover: str) -> None:
        """The run is in the middle of a rollback: whoever comes next finishes that, once what is asked is answered."""
        waiting = harness.show(RUN).waiting_on
        if waiting:
            answer(harness, RUN, RunResult(RUN, "WAITING", waiting_on=waiting), self.witness)
        if takeover == "worker":
            harness.resume_due()
        elif takeover == "rollback":  # which goes back once more
            with suppress(CannotRollBack):  # where that one asks something
                harness.rollback(RUN, to=self.target(harness))
        else:
            self.gone_on(harness)

    def gone_on(self, harness: Harness) -> None:
        """Resume the run, and answer what it asks."""
        result = harness.resume(RUN)
        assert result.status in ("COMPLETED", "WAITING"), result
        if result.wake_at is not None:
            self.stage.clock.move_to_wall(result.wake_at)
        answer(harness, RUN, result, self.witness)

    def target(self, harness: Harness) -> int | str:
        if not self.stage.loops:
            return "start"
        points = [each for each in harness.show(RUN).checkpoints if not each.left_behind]
        return next(each.version for each in points if "_turn-2_step_" in each.name)

    def record(self) -> Any:
        """The run's row as it is on disk, read by somebody else."""
        store = SQLiteStore(str(self.folder / "run.db"))
        try:
            return store.run(RUN)
        finally:
            store.close()

    def files(self) -> Tree:
        """The workspace."""
        return read(self.stage.site)


@pytest.fixture(params=["plain", "asyncio", "plain-loop", "asyncio-loop"])
def stage(request: pytest.FixtureRequest, folder: Path, clock: StoppedClock) -> Stage:
    """The run of each kind of agent."""
    return Stage(folder, clock, waits="asyncio" in request.param, loops="loop" in request.param)


@pytest.fixture
def chance() -> Iterator[random.Random]:
    """Luck whose seed is printed."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    yield random.Random(seed)


def test_a_rollback_killed_at_a_sample_of_points_is_finished_by_whoever_comes_next(
    stage: Stage, chance: random.Random
) -> None:
    for point in chance.sample(range(1, stage.points + 1), 14):
        stage.told(point, takeover=chance.choice(TAKEOVERS))


def test_a_rollback_killed_twice_in_a_row_is_finished_all_the_same(stage: Stage, chance: random.Random) -> None:
    for _ in range(6):
        first, second = (chance.randint(1, stage.points) for _ in range(2))
        stage.told(first, second, takeover=chance.choice(TAKEOVERS))


def test_what_somebody_changes_while_a_rollback_is_cut_off_is_not_overwritten_without_force(stage: Stage) -> None:
    story = stage.story = Story(stage)
    story.bring(stage.done)
    restoring = [number for number, entry in enumerate(stage.path, 1) if entry == "before Restore"][-1]
    assert story.live(restoring, "resume") is None
    (stage.site / "conf/site.ini").write_text("mine\n")
    with story.harness(World(clock=stage.clock)) as harness:
        for take_up in (lambda: harness.resume(RUN), lambda: harness.rollback(RUN, to=0)):
            with pytest.raises(WorkspaceConflict):
                take_up()
            info = harness.show(RUN).run
            assert (info.status, info.generation, info.rolling_back_to is None) == ("QUEUED", 0, False)
            assert (stage.site / "conf/site.ini").read_text() == "mine\n"
            assert story.witness.count("applied", "cancel 12") == 0
        harness.rollback(RUN, to=0, force=True)  # which finishes that one first, then goes further back
        assert read(stage.site) == stage.before
        assert (harness.show(RUN).run.status, harness.show(RUN).run.generation) == ("PAUSED", 2)
        assert [story.witness.count("applied", tool) for tool in ("book 12", "cancel 12")] == [1, 1]


def test_two_rollbacks_in_a_row_the_second_in_another_generation_survive_a_death_in_each(
    folder: Path, clock: StoppedClock, chance: random.Random
) -> None:
    stage = Stage(folder, clock, waits=False, loops=chance.random() < 0.5, rounds=2)
    for _ in range(10):
        points = sorted(chance.randint(1, stage.points) for _ in range(2))
        stage.told(*points, takeover=chance.choice(TAKEOVERS))


@pytest.mark.sweep
@pytest.mark.parametrize("loops", [False, True], ids=["function", "loop"])
def test_two_rollbacks_in_a_row_survive_a_death_at_any_point(folder: Path, clock: StoppedClock, loops: bool) -> None:
    stage = Stage(folder, clock, waits=False, loops=loops, rounds=2)
    for point in range(1, stage.points + 1):
        stage.told(point, takeover="resume")


@pytest.mark.sweep
@pytest.mark.parametrize("takeover", TAKEOVERS)
def test_a_rollback_killed_at_any_point_is_finished_by_whoever_comes_next(stage: Stage, takeover: str) -> None:
    for point in range(1, stage.points + 1):
        stage.told(point, takeover=takeover)


@pytest.mark.sweep
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_rollback_killed_twice_at_any_points_is_finished_all_the_same(
    stage: Stage, chance: random.Random, chunk: int
) -> None:
    for first in range(1 + chunk, stage.points + 1, CHUNKS):
        stage.told(first, chance.randint(1, stage.points), takeover=chance.choice(TAKEOVERS))
