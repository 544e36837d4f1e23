"""Agents drawn at random that wait, share the names of actions, fail and are taken up again, in one run or in two of a
store, with whatever may come between: deaths, orders, answers, other workers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jumar import ToolCall
from jumar.errors import CallRejected
from jumar.testing.crash_clock import StoppedClock
from tests.crash import loop_agents
from tests.crash import waiting_agents as agents
from tests.crash.cast import BOTH, chance_of_its_own
from tests.crash.steering import Operator, Steered, judge_cancelled
from tests.crash.tales import RUN, Tale, Told, Whole, judge_tale

Program = list[tuple[Any, ...]]

LEAVES: tuple[tuple[Any, ...], ...] = (
    ("call", "look", "a"),
    ("call", "reserve", "Ada"),
    ("call", "reserve", "Bob"),
    ("call", "pay", "rent", 700),
    ("call", "pay", "fine", 9),
    ("call", "pay", "tip", 5),
    ("call", "wire", "B", 50),
    ("call", "ship", "ink"),
    ("call", "bill", "x", 5),
    ("call", "title", "T", 9),
    ("call", "stamp", "S"),
    ("call", "order", "ink"),
    ("map", "deliver", ["ink", "paper"]),
    ("ask", "Whose is it?"),
    ("ask", "How many?", {"returns": int, "expires": 500.0, "default": 3}),
    ("sleep", 1.5),
    ("sleep", 100.0),
)
CALLS = (
    *(ToolCall("look", {"what": what}) for what in "ab"),
    *(ToolCall("reserve", {"name": name}) for name in ("Ada", "Bob")),
    *(ToolCall("pay", {"what": what, "cents": cents}) for what, cents in (("rent", 700), ("fine", 9), ("tip", 5))),
    *(ToolCall(name, {"bank": "B", "cents": 50}) for name in ("wire", "send")),
    *(ToolCall(name, {"what": "x", "cents": 5}) for name in ("bill", "title")),
    ToolCall("ship", {"item": "ink"}),
    ToolCall("stamp", {"what": "S"}),
    ToolCall("refuse", {"cents": 7}),
    ToolCall("nothing", {}),
)
DEEDS = ("answer", "pause", "work", "due")


def drawn(chance: random.Random, depth: int = 2) -> Program:
    """A program.  Few names are used, so that the same call is made in many places."""
    return [_operation(chance, depth) for _ in range(chance.randint(1, 4))]


def _operation(chance: random.Random, depth: int) -> tuple[Any, ...]:
    kind = chance.choice(("leaf", "leaf", "leaf", "step", "gather")) if depth else "leaf"
    if kind == "step":
        return ("step", chance.choice("ab"), drawn(chance, depth - 1))
    if kind == "gather":
        return ("gather", [drawn(chance, depth - 1) for _ in range(chance.randint(1, 3))])
    return chance.choice(LEAVES)


def script_of(program: Program) -> agents.Script:
    """The script that carries a program out, and answers what all of it came to."""

    def script(task: Any) -> Any:
        answers = []
        for kind, *rest in program:
            try:
                if kind == "step":
                    answers.append((yield kind, rest[0], script_of(rest[1])))
                elif kind == "gather":
                    answers.append(list((yield kind, [script_of(part) for part in rest[0]])))
                else:
                    answers.append((yield kind, *rest))
            except CallRejected:
                answers.append("rejected")
        return msgspec.to_builtins(answers)

    return script


def decided(chance: random.Random) -> list[list[ToolCall]]:
    """The steps of a loop agent."""
    return [chance.choices(CALLS, k=chance.randint(1, 4)) for _ in range(chance.randint(1, 3))]


class Luck:
    """What happens to the tale of one seed."""

    def __init__(self, folder: Path, clock: StoppedClock, seed: int, *, waits: bool) -> None:
        self.chance = random.Random(seed)
        self.program: Any = drawn(self.chance) if self.chance.random() < 0.6 else decided(self.chance)
        loops = isinstance(self.program[0], list)
        self._options: dict[str, Any] = {
            "waits": waits,
            "make": loop_agents.maker(self.program) if loops else agents.maker(script_of(self.program)),
            "runs": BOTH if self.chance.random() < 0.4 else (RUN,),
            "in_turn": False,
        }
        self._folder, self._clock = folder, clock
        whole = self.tale("whole")
        with Told(whole):
            self.whole = Whole(whole)

    def tale(self, name: str) -> Tale:
        """The tale from its beginning."""
        (self._folder / name).mkdir(parents=True)
        return Tale(self._folder / name, self._clock, **self._options)

    def told(self, deaths: int) -> None:
        """One tale, with at most so many deaths."""
        tale, chance = self.tale("told"), self.chance
        cancels = chance.random() < 0.2
        with Told(tale):
            results = None
            while results is None:
                point = chance.randint(1, self.whole.points) if len(tale.trail) < deaths else None
                results = tale.live(world=Steered(tale, self._deeds(tale, cancels), at=point))
            if cancels:
                judge_cancelled(tale, results, self.whole)
            else:
                judge_tale(tale, results, self.whole)

    def _deeds(self, tale: Tale, cancels: bool) -> dict[int, Any]:
        deeds = {}
        for _ in range(self.chance.randint(0, 2)):
            run_id = self.chance.choice(tale.runs)
            operator = Operator(tale, run_id)
            what = self.chance.choice((*DEEDS, "cancel") if cancels else DEEDS)
            deeds[self.chance.randint(1, self.whole.points)] = operator.deed(what)
        return deeds


def lived(folder: Path, clock: StoppedClock, seed: int, *, waits: bool, deaths: int) -> None:
    """The tale of one seed."""
    luck = None
    try:
        luck = Luck(folder, clock, seed, waits=waits)
        luck.told(deaths)
    except BaseException as error:
        error.add_note(f"seed {seed}, the program was {luck and luck.program}")
        raise


@pytest.fixture(params=[False, True], ids=["plain", "asyncio"])
def waits(request: pytest.FixtureRequest) -> bool:
    """Whether the agent is an async one."""
    return bool(request.param)


def test_a_sample_of_agents_drawn_at_random_end_as_if_nothing_had_come_between(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    first = chance_of_its_own().randrange(2**32)
    for number in range(12):
        lived(folder / str(number), clock, first + number, waits=waits, deaths=3)


@pytest.mark.sweep
def test_many_agents_drawn_at_random_end_as_if_nothing_had_come_between(
    folder: Path, clock: StoppedClock, waits: bool
) -> None:
    first = chance_of_its_own().randrange(2**32)
    for number in range(150):
        lived(folder / str(number), clock, first + number, waits=waits, deaths=6)
