"""Real processes, really killed, on a real disk: forty SIGKILLs at points spread over the run and its recoveries."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar.testing.crash_clock import stopped_clock
from jumar.testing.witness import Witness
from tests.concurrency.workers import Worker, start
from tests.crash.child import live
from tests.crash.worlds import RUN, Unbroken, calls_ended, judge_outside, opened

__all__ = ["start"]

KILLS = 20  # of each kind of agent
LIVES = 4  # of one run at most, the last of which is let live


def killed_or_done(worker: Worker, at: int, *, exactly: bool) -> str | None:
    """Kill a worker at a point of its life: exactly there, where it stands still, or as soon as it is heard to have
    come there.  None once it is dead, else what it ended with before."""
    points = 0
    while True:
        word = worker.hear()
        assert word is not None, "the worker died by itself"
        points += word == "."
        if word == "here" or (points == at and not exactly):
            worker.kill()
            return None
        if word != ".":
            return word


@pytest.mark.parametrize("waits", [False, True], ids=["plain", "asyncio"])
def test_a_run_whose_processes_are_killed_over_and_over_ends_as_if_nothing_had_happened(
    tmp_path: Path, start: Callable[..., Worker], waits: bool
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with stopped_clock() as clock:
        (tmp_path / "unbroken").mkdir()
        unbroken = Unbroken(tmp_path / "unbroken", clock, waits=waits)
    kills = 0
    number = 0
    while kills < KILLS:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        kills += one_run(folder, start, chance, unbroken, waits)
    print(f"{kills} kills in {number} runs")


def one_run(folder: Path, start: Callable[..., Worker], chance: random.Random, unbroken: Unbroken, waits: bool) -> int:
    """A run whose processes are killed a few times, judged at its end; answers how many were."""
    witness = Witness(folder / "witness")
    confirmed: list[tuple[int, frozenset[str]]] = []
    lives: list[str] = []
    while not lives or not lives[-1].startswith("COMPLETED"):
        assert len(lives) < 10 * LIVES, f"the run gets nowhere: {lives}"
        # Each life begins with the replay of those before, so that a later one dies soon enough at a lower point.
        at = chance.randint(1, unbroken.points if not lives else unbroken.points // 2)
        exactly = chance.random() < 0.5
        spared = len(lives) >= LIVES
        worker = start(live, str(folder), waits, at if exactly and not spared else None)
        word = killed_or_done(worker, -1 if spared else at, exactly=exactly and not spared)
        lives.append(f"killed at {at}" if word is None else word)
        confirmed.append((len(witness.lines()), calls_ended(folder)))
    try:
        with opened(folder, waits=waits) as harness:
            output = harness.show(RUN).output
        judge_outside(folder, output, confirmed, unbroken)
    except BaseException as error:
        error.add_note(f"its lives: {lives}")
        raise
    print(lives)
    return sum(word.startswith("killed") for word in lives)
