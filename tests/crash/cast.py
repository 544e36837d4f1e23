"""The tales that are swept: which agent, in which runs, and what is special about them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from jumar import Harness
from jumar.testing.crash_clock import StoppedClock
from tests.crash import loop_agents
from tests.crash import waiting_agents as agents
from tests.crash.tales import OTHER, RUN, Tale, Told, Whole, dies, judge_tale

BOTH = (RUN, OTHER)
CAST: dict[str, dict[str, Any]] = {
    "asks": {"make": agents.maker(agents.asks), "in_turn": False},
    "approvals": {"make": agents.maker(agents.approvals)},
    "names": {"make": agents.maker(agents.names), "runs": BOTH, "in_turn": False},
    "questions": {"make": agents.maker(agents.questions)},
    "rivals": {"make": agents.maker(agents.rivals), "runs": BOTH},
    "errands": {"make": agents.maker(agents.errands), "runs": BOTH},
    "fails": {"make": agents.maker(agents.fails)},
    "fails_in_a_map": {"make": agents.maker(agents.fails_in_a_map), "in_turn": False},
    "apologises": {"make": agents.maker(agents.apologises), "ends_failed": True},
    "loops": {"make": loop_agents.maker(loop_agents.TOGETHER), "in_turn": False},
    "loops_one_by_one": {"make": loop_agents.maker(loop_agents.ONE_BY_ONE)},
}


class Stage:
    """A folder in which one tale of the cast is told again and again."""

    def __init__(self, folder: Path, clock: StoppedClock, name: str, *, waits: bool) -> None:
        self._folder = folder
        self._clock = clock
        self._waits = waits
        self._cast = CAST[name]
        self._count = 0
        whole = self.tale()
        with Told(whole):
            self.whole = Whole(whole)

    def tale(self, **rest: Any) -> Tale:
        """The tale, from its beginning."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        options = {**self._cast, **rest}
        make: Callable[..., Harness] = options.pop("make")
        return Tale(folder, self._clock, waits=self._waits, make=make, **options)

    def told(self, *points: int | str | None) -> None:
        """The tale with lives that end at these points, judged."""
        tale = self.tale()
        with Told(tale):
            judge_tale(tale, dies(tale, *points), self.whole)

    @property
    def points(self) -> range:
        """All points of the tale in which nobody dies."""
        return range(1, self.whole.points + 1)

    def points_like(self, pattern: str) -> list[int]:
        """The points whose description matches a regular expression, of which there must be some."""
        points = [number for number, entry in enumerate(self.whole.path, 1) if re.search(pattern, entry)]
        assert points, f"no point is like {pattern}"
        return points

    def pairs(self, chance: random.Random, most: int) -> Iterable[tuple[int, int]]:
        """Points of a first and of a second life: each first one, with as many second ones as `most` allows."""
        each = max(1, most // len(self.points))
        for first in self.points:
            for _ in range(each):
                yield first, chance.choice(self.points)


def chance_of_its_own() -> random.Random:
    """Luck whose seed is printed, so that a test that fails can be told again."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)
