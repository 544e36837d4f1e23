"""Many runs in threads and on a loop, hot changes and waited-for ones at random, over a store that fails at random:
whatever became of each run, what is on disk of it is a beginning of what it made, in order, and everybody was told
the truth.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jumar.core.changes import Ack, Advance, Change, Outcome
from jumar.core.requests import Lane, Written
from jumar.core.store import CommitUnknown
from jumar.errors import StoreBusy, StoreFull, StoreUnavailable
from jumar.stores import behind
from jumar.stores.commits import CommitQueue
from jumar.stores.opening import open_store
from jumar.testing.conformance_scene import Scene, call

SOON = 100.0
RUNS, STEPS = 24, 60
FAILURES = (StoreBusy, StoreFull, StoreUnavailable)


class Moody:
    """A store that fails one time in six: before the write, after it, or without saying which."""

    def __init__(self, store: Any, chance: random.Random) -> None:
        self.store, self.chance = store, chance
        self.is_calm = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def write(self, changes: Sequence[Change], *, wait: bool = True) -> list[Outcome | Exception]:
        mood = 1.0 if self.is_calm else self.chance.random()
        if mood < 0.1:
            raise self.chance.choice([StoreBusy("locked"), StoreFull("full"), StoreUnavailable("gone")])
        if mood < 0.14:
            raise CommitUnknown("lost on the way there")
        answers: list[Outcome | Exception] = self.store.write(changes, wait=wait)
        if mood < 0.18:
            raise CommitUnknown("lost on the way back")
        return answers

    def read_back(self, change: Change) -> Outcome | None:
        if not self.is_calm and self.chance.random() < 0.1:
            raise StoreUnavailable("gone")
        found: Outcome | None = self.store.read_back(change)
        return found


class Made:
    """A run, what it made, and what it was told."""

    def __init__(self, queue: CommitQueue, scene: Scene, chance: random.Random) -> None:
        self.queue, self.scene = queue, scene
        self.run = scene.running()
        self.lane = Lane(0, lambda: True)
        self.hot = [chance.random() < 0.7 for _ in range(STEPS)]
        self.told: dict[int, Outcome | Exception] = {}
        self.made = self.failures = 0

    def next(self) -> Advance:
        self.made += 1
        return self.scene.advance(self.run, calls=(call(self.made),))

    def tells(self, number: int) -> Any:
        def told(outcome: Outcome | Exception, written: Written) -> None:
            assert number not in self.told, "told twice"
            self.told[number] = outcome

        return told

    def lives(self) -> None:
        """In a thread."""
        while self.made < STEPS:
            hot, change = self.hot[self.made], self.next()
            if hot:
                assert self.queue.submit_hot(change, self.lane, self.tells(self.made)) == self.ack(self.made)
                continue
            try:
                self.told[self.made] = self.queue.submit(change, self.lane)
            except FAILURES:
                self.queue.flush(self.lane)
                self.catches_up()
        self.queue.flush(self.lane)

    async def alives(self) -> None:
        """In a task."""
        loop = asyncio.get_running_loop()

        async def flush() -> None:
            future = loop.create_future()
            self.queue.submit_async(None, self.lane, loop, future)
            await future

        while self.made < STEPS:
            hot, change, answer = self.hot[self.made], self.next(), loop.create_future()
            if hot:
                told = self.tells(self.made)
                ack = self.queue.submit_hot_async(change, self.lane, loop, answer, told) or await answer
                assert ack == self.ack(self.made)
                await asyncio.sleep(0)
                continue
            self.queue.submit_async(change, self.lane, loop, answer)
            try:
                self.told[self.made] = await answer
            except FAILURES:
                await flush()
                self.catches_up()
        await flush()

    def catches_up(self) -> None:
        """Go on from what is on disk, as a run does that is left and taken up again."""
        self.failures += 1
        self.made = self.lane.version = self.scene.again(self.run).version
        self.judge()

    def ack(self, version: int) -> Ack:
        return Ack(self.run.run_no, version, 1)

    def judge(self) -> None:
        stored = [(record.seq, record.started_version) for record in self.scene.store.calls(self.run.run_no)]
        assert stored == [(number, number) for number in range(1, self.made + 1)]
        assert self.scene.again(self.run).version == self.made
        assert all(outcome == self.ack(number) for number, outcome in self.told.items())
        # Of a waited-for change that met an error nobody was told whether it landed all the same.
        assert len(self.told) >= self.made - self.failures


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is held back is tried again soon, and there is room for few."""
    monkeypatch.setattr(behind, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(behind, "_LONGEST_PAUSE", 0.005)
    monkeypatch.setattr(behind, "MOST_HOT", 40)
    yield


@pytest.mark.parametrize("round_", range(2))
def test_whatever_fails_what_is_on_disk_is_a_beginning_of_what_was_made(tmp_path: Path, round_: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    store = Moody(open_store(f"sqlite:///{tmp_path / 'runs.db'}"), chance)
    scene = Scene(store.store)
    queue = CommitQueue(store)  # type: ignore[arg-type]
    runs = [Made(queue, scene, chance) for _ in range(RUNS)]

    async def on_a_loop() -> None:
        await asyncio.wait_for(asyncio.gather(*(run.alives() for run in runs[RUNS // 2 :])), SOON)

    threads = [threading.Thread(target=run.lives, daemon=True) for run in runs[: RUNS // 2]]
    threads.append(threading.Thread(target=lambda: asyncio.run(on_a_loop()), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
        assert not thread.is_alive(), "a thread hangs"
    store.is_calm = True
    queue.close()
    stats = queue.stats()
    assert stats.pending == 0 and queue.is_idle()
    for run in runs:
        run.judge()
    assert [run.made for run in runs] == [STEPS] * RUNS
    assert stats.retried > 0
    assert sum(run.failures for run in runs) > 0
    store.close()
