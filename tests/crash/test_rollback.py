"""The sweep over rollbacks: a run that is killed at any point while it is rolled back, and again while it goes on,
ends as if nothing had happened.  Its files are those of the target before it goes on, each thing outside was done and
undone as often as it should be, and what stands is not done again.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jumar import Harness, RunResult
from jumar.errors import WorkspaceConflict
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

    def __init__(self, folder: Path, clock: StoppedClock, *, waits: bool, loops: bool) -> None:
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
        applied = story.witness.count("applied")
        assert [story.witness.count("applied", tool) for tool in ("book 12", "cancel 12")] == [2, 1], applied
        assert [story.witness.count("sent", tool) for tool in ("pay", "refund", "mail")] == [2, 1, 1]
        run = story.record()
        assert (run.generation, run.intent) == (1, None)


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
        info = harness.show(RUN).run
        if info.generation == 0:
            if info.rolling_back_to is None or takeover == "rollback":
                self.roll_back(harness, takeover)
            elif takeover == "worker":
                harness.resume_due()
        while harness.show(RUN).run.status not in ("COMPLETED",):
            result = harness.resume(RUN)
            assert result.status in ("COMPLETED", "WAITING"), result
            if result.wake_at is not None:
                self.stage.clock.move_to_wall(result.wake_at)
            answer(harness, RUN, result, self.witness)
        output = harness.show(RUN).output
        return RunResult(RUN, "COMPLETED", output)

    def roll_back(self, harness: Harness, takeover: str) -> None:
        """Have the run rolled back, answering what is asked; then its files are those of the target."""
        while harness.show(RUN).run.generation == 0:
            if harness.show(RUN).run.rolling_back_to is not None and takeover != "rollback":
                return
            asked = harness.show(RUN).waiting_on
            if asked and harness.show(RUN).run.rolling_back_to is not None:
                answer(harness, RUN, RunResult(RUN, "WAITING", waiting_on=asked), self.witness)
                harness.resume_due()
                continue
            if harness.show(RUN).run.rolling_back_to is not None:
                harness.resume_due()
                continue
            rolled = harness.rollback(RUN, to=self.target(harness))
            if rolled.status == "PAUSED":
                assert read(self.stage.site) == self.stage.before

    def target(self, harness: Harness) -> int | str:
        if not self.stage.loops:
            return "start"
        return next(each.version for each in harness.show(RUN).checkpoints if "_turn-2_step_" in each.name)

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
        for _ in range(3):
            stage.told(first, chance.randint(1, stage.points), takeover=chance.choice(TAKEOVERS))
