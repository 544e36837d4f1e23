"""Killing the processes of your own agent, and looking at what becomes of its run.

    def test_a_settlement_survives_its_process(tmp_path):
        restart_sweep("shop:harness:settle", "c-17", folder=tmp_path, witness="ledger")

A sweep lives through the same run over and over: once with nobody killing it, then once for each chosen point, where
its process is killed by a real SIGKILL and new processes take the run over.  A point is before or after one of the
things that a run asks to be done: a commit, a call's body, a look at the clock.  Each case has a folder of its own,
which is also its processes' working directory, so that a store and a witness named by relative paths are its own too.
It always has the same run id there, and so its calls the same idempotency keys.

The processes import the app afresh, so nothing is left in memory that a crash would have taken.  Nobody waits for
time: `restarts_child` tells how.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from jumar.core.codec import codec_for
from jumar.errors import UsageError
from jumar.harness.results import WaitingOn
from jumar.stores.opening import check_address
from jumar.testing.restarts_app import parts_of
from jumar.testing.restarts_judge import Restart, RestartsFailed, RestartSweep, problems_of
from jumar.testing.restarts_line import Kill
from jumar.testing.restarts_story import Plan, Story, strayed
from jumar.testing.witness import seen

_RUN_ID = "01a00000-0000-7000-8000-000000000001"
_UNINTERRUPTED = "uninterrupted"


def restart_sweep(
    app: str,
    input: Any = None,
    *,
    folder: str | Path,
    points: str | int | Iterable[str] = "all",
    seed: int | None = None,
    again: int = 0,
    exact: bool = True,
    store: str = "sqlite:///{folder}/runs.db",
    env: Mapping[str, str] | None = None,
    prepare: Callable[[Path], Any] | None = None,
    witness: str | Callable[[Path], Any] | None = None,
    answer: Callable[[WaitingOn, Path], Any] | None = None,
    check: Callable[[Restart], Any] | None = None,
    same_output: bool = True,
    same_witness: bool = True,
    deadline: float = 60.0,
) -> RestartSweep:
    """Live through a run of the agent at `app` ("MODULE:HARNESS:AGENT") once undisturbed, and once for each of `points`
    with its process killed there and the run taken over; RestartsFailed, an AssertionError, where that is to be seen.

    Each run lives in a new folder of its own within `folder`; `{folder}` in `store` and in the values of `env`, which
    are added to the environment, stands for it.  A `store` without it has all the runs, under ids of their own; one on
    PostgreSQL needs a schema that nobody else uses, since its clock is moved on too.  `prepare(folder)` is called
    before a run begins, to put things there or to set an outside service back.  `input` is the agent's input.

    `points` are "all" commits and bodies, a number of these to be drawn with `seed`, or regular expressions for the
    names of any points, such as r"after Invoke\\(pay".  `again` is how many more times the process is killed at a point
    drawn at random while it recovers.  With `exact=False` the kill comes from outside, as soon as the point is heard
    of: in the middle of whatever goes on right after it, and each time a little elsewhere.

    `witness` names a file in the run's folder: a log of `jumar.testing.Witness`, or any other text, whose lines must
    then be the same.  Or it is a function that is given the folder and answers what happened outside, as anything that
    can be compared; it is also asked right after the first kill, when there may be no file to look into yet.

    `answer(waiting, folder)` answers what a run waits for: a call's `resolve` with Happened(result) or NotHappened(),
    an approval with True or False, a question with the answer; `...` leaves it open.

    The run must end COMPLETED, with the output of the undisturbed one (unless not `same_output`) and with the witness
    telling the same (unless not `same_witness`); a Witness must also not have seen a call again that was recorded as
    SUCCEEDED.  Then `check(restart)` may look at it: what it raises is a fault, and so is False.  It sees the
    undisturbed run first.

    `deadline` is in seconds, for each process.  UsageError where the agent cannot be found, does not complete even
    undisturbed, or does not do the same twice.
    """
    choose = _chooser(points)
    sweep = _Sweep(
        plan=Plan(
            app=":".join(parts_of(app)),
            input=_as_json(input),
            store=_lasting(store),
            run_id=_RUN_ID if "{folder}" in store else None,
            env=dict(env or {}),
            prepare=_callable("prepare", prepare),
            witness=_witness(witness),
            answer=_callable("answer", answer),
            exact=exact,
            deadline=_positive("deadline", deadline),
        ),
        folder=_new(Path(folder).resolve()),
        seed=random.randrange(2**32) if seed is None else seed,
        again=_whole("again", again, 0),
        check=_callable("check", check),
        same={"same_output": same_output, "same_witness": same_witness},
    )
    return sweep.lived_through(choose)


class _Sweep(Struct, frozen=True):
    """The options of a sweep, checked."""

    plan: Plan
    folder: Path
    seed: int
    again: int
    check: Callable[[Restart], Any] | None
    same: dict[str, bool]

    def lived_through(self, choose: Callable[[list[Kill], random.Random], list[Kill]]) -> RestartSweep:
        """Live through all of it; RestartsFailed where something went wrong."""
        uninterrupted, first_fault = self._judged(self._uninterrupted(), None)
        faults = [] if first_fault is None else [first_fault]
        sweep = RestartSweep(uninterrupted, (), (), self.seed)
        if not uninterrupted.problems:
            restarts, missed = [], []
            for number, kill in enumerate(choose(_kills(sweep.points), random.Random(self.seed)), 1):
                restart = self._restart(number, kill, sweep.points)
                if restart is None:
                    missed.append(str(kill))
                    continue
                restart, fault = self._judged(restart, uninterrupted)
                restarts.append(restart)
                faults += [fault] if fault is not None else []
            sweep = structs.replace(sweep, restarts=tuple(restarts), missed=tuple(missed))
        if any(restart.problems for restart in (sweep.uninterrupted, *sweep.restarts)):
            raise RestartsFailed(sweep) from next(iter(faults), None)
        if not sweep.restarts:
            raise UsageError("no process came to the point where it was to be killed", hint="Choose other points.")
        return sweep

    def _uninterrupted(self) -> Restart:
        story = Story(self.plan, self.folder / _UNINTERRUPTED)
        story.live()
        error = story.error()
        if error is not None:
            raise error
        told = story.told()
        if told.status != "COMPLETED":
            why = f"{': ' if told.status == 'FAILED' else ' '}{told.error}" if told.error else ""
            raise UsageError(
                f"the run ends {told.status}{why}, and nobody had killed it",
                hint="Make it complete first; its processes' log is in "
                f"{told.log}.{' Give answer= for what a person is asked.' if told.status == 'WAITING' else ''}",
            )
        return told

    def _restart(self, number: int, kill: Kill, points: Sequence[str]) -> Restart | None:
        """The run killed at a point, and taken over until it has ended; None where it never came to that point."""
        story = Story(self.plan, self.folder / f"{number:03}")
        killed = story.live(kill)
        if story.fault is None:
            how = strayed(story.lives[0], points, whole=not killed)
            if how is not None:
                raise UsageError(
                    f"the agent does not do the same twice: {how}",
                    hint="Let it decide by its input and its calls' results alone, and set what is outside back with "
                    "prepare=.",
                )
            if not killed:
                return None
        chance = random.Random(f"{self.seed} {number}")
        for _ in range(self.again):
            killed = killed and story.live(Kill(None, chance.randint(1, len(points))))
        if killed:
            story.live()
        return story.told()

    def _judged(self, restart: Restart, uninterrupted: Restart | None) -> tuple[Restart, BaseException | None]:
        """A restart with its problems, and what `check` raised."""
        problems = list(restart.problems)
        if uninterrupted is not None and not problems:
            problems = problems_of(restart, uninterrupted, **self.same)
        raised = None
        if self.check is not None and not problems:
            try:
                if self.check(restart) is False:
                    problems.append("check answered False")
            except Exception as error:
                raised = error
                problems.append(f"check raised {type(error).__name__}: {error}")
        return structs.replace(restart, problems=tuple(problems)), raised


def _kills(points: Sequence[str]) -> list[Kill]:
    seen: Counter[str] = Counter()
    kills = []
    for name in points:
        seen[name] += 1
        kills.append(Kill(name, seen[name]))
    return kills


# --- Options. ------------------------------------------------------------------------------------------------------


def _chooser(points: Any) -> Callable[[list[Kill], random.Random], list[Kill]]:
    if points == "all":
        return lambda kills, chance: _telling(kills)
    if not isinstance(points, (str, Iterable)):
        number = _whole("points", points, 1)
        return lambda kills, chance: _drawn(_telling(kills), number, chance)
    patterns = [_pattern(each) for each in ([points] if isinstance(points, str) else points)]

    def matching(kills: list[Kill], chance: random.Random) -> list[Kill]:
        for pattern in patterns:
            if not any(pattern.search(str(kill.name)) for kill in kills):
                known = "\n    ".join(dict.fromkeys(str(kill.name) for kill in kills))
                raise UsageError(
                    f"no point's name matches {pattern.pattern!r}", hint=f"The run has these points:\n    {known}"
                )
        return [kill for kill in kills if any(pattern.search(str(kill.name)) for pattern in patterns)]

    return matching


def _telling(kills: list[Kill]) -> list[Kill]:
    """Without those where a process only looks or waits: what is left of it is the same as a point before."""
    return [kill for kill in kills if re.search(" (Commit|Invoke)", str(kill.name))]


def _drawn(kills: list[Kill], number: int, chance: random.Random) -> list[Kill]:
    return [kills[place] for place in sorted(chance.sample(range(len(kills)), min(number, len(kills))))]


def _pattern(text: Any) -> re.Pattern[str]:
    try:
        return re.compile(_text("points", text))
    except re.error as error:
        raise UsageError(f"points= lists {text!r}, which is no regular expression: {error}") from error


def _lasting(store: Any) -> str:
    if store == "memory:":
        raise UsageError("store='memory:' does not outlive a process", hint="Leave it out, or give sqlite:///PATH.")
    return check_address(store)


def _witness(witness: Any) -> Callable[[Path], Any] | None:
    if isinstance(witness, str):
        return lambda folder: seen(folder / witness)
    called: Callable[[Path], Any] | None = _callable("witness", witness)
    return called


def _callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise UsageError(f"{name}={value!r} cannot be called")
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r} is no text")
    return value


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise UsageError(f"{name}={value!r} is not a whole number of at least {least}")


def _positive(name: str, value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e8:
        return float(value)
    raise UsageError(f"{name}={value!r} is not a number of seconds above 0")


def _as_json(value: Any) -> bytes:
    return codec_for(Any).encode(value)


def _new(folder: Path) -> Path:
    if (folder / _UNINTERRUPTED).exists():
        raise UsageError(f"{folder} holds another sweep already", hint="Give each sweep a folder of its own.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
