"""The steps of a run, as its calls tell them: which are finished, and with which to go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from jumar.core.briefs.facts import NAME, Facts, outside, value_of
from jumar.core.briefs.records import MOST, PlannedStep
from jumar.core.call_states import ENDED
from jumar.core.naming import step_part
from jumar.core.phases import FINAL
from jumar.core.records import CallRecord
from jumar.core.states import CallKind, CallState, Phase, Status
from jumar.core.turns import DECIDE, turn_path


class Step(Struct):
    """A step (a turn) with its calls in the order of their numbers; `number` is 0 where a plan does not name it."""

    name: str
    calls: list[CallRecord]
    number: int = 0


class Steps(Struct):
    """The finished steps, the number and name of the one to go on with, what was planned, and which files."""

    done: list[Step]
    number: int
    name: str | None
    is_loop: bool = False
    planned: Sequence[PlannedStep] = ()
    files: tuple[str, ...] = ()


def steps_of(facts: Facts) -> Steps:
    """The steps of a run: of a loop agent its turns, of a function agent in the light of its newest plan."""
    return _turns(facts) if _is_loop(facts) else _planned(facts, _steps(facts))


def _is_loop(facts: Facts) -> bool:
    """Whether it is a loop agent's run; of one that has ended its first decision tells."""
    if facts.turn is not None or facts.run.phase not in (Phase.IN_CODE, Phase.STOPPED):
        return True
    first = next(iter(facts.calls), None)
    is_turn = first is not None and (first.kind, first.tool, first.step) == (CallKind.DECISION, DECIDE, turn_path(1))
    return is_turn and facts.run.phase is Phase.STOPPED


def _grouped(calls: Iterable[CallRecord]) -> tuple[list[Step], str | None]:
    """The calls by the step they are in, and the step of the newest of them (None: outside of any)."""
    steps: dict[str, Step] = {}
    last = None
    for call in calls:
        if call.kind is CallKind.COMPENSATION:
            continue
        part = call.step.partition(".")[0]
        last = part if part and ":" not in part else None
        if last is not None:
            steps.setdefault(last, Step(last, [])).calls.append(call)
    found = list(steps.values())
    for number, step in enumerate(found, 1):
        step.number = number
    return found, last


def _steps(facts: Facts) -> Steps:
    """Of a function agent: every step but the one that the newest call is in, and what is still open."""
    steps, last = _grouped(facts.calls)
    is_over = facts.run.status in FINAL
    done = [each for each in steps if is_over or (each.name != last and not _is_open(each))]
    going_on = next((each for each in steps if each not in done), None)
    if going_on is None:
        return Steps(done, len(steps) + 1, None)
    return Steps(done, going_on.number, going_on.name)


def _turns(facts: Facts) -> Steps:
    """Of a loop agent: a turn is done once what it decided has ended."""
    steps, _ = _grouped(facts.calls)
    done = [each for each in steps if not _is_open(each) and each.calls[0].state is CallState.SUCCEEDED]
    for number, step in enumerate(steps, 1):
        step.number = _turn_number(step.name, number)
    going_on = next((each.number for each in steps if each not in done), None)
    after = max((each.number for each in steps), default=0) + 1
    number = facts.turn or going_on or after
    return Steps([each for each in done if each.number < number], number, None, is_loop=True)


def _turn_number(name: str, otherwise: int) -> int:
    tail = name.partition("#")[2]
    if not tail:
        return 1 if name == "turn" else otherwise
    return int(tail) if tail.isascii() and tail.isdigit() else otherwise


def _is_open(step: Step) -> bool:
    return any(call.state not in ENDED for call in step.calls)


def _planned(facts: Facts, steps: Steps) -> Steps:
    """The steps seen in the light of the newest plan, and the files that it names."""
    plans = [call for call in facts.calls if call.kind is CallKind.PLAN and call.state is CallState.SUCCEEDED]
    plan = value_of(facts, plans[-1].args, plans[-1].args_artifact) if plans else None
    if not isinstance(plan, dict):
        return steps
    names = [str(name) for name in plan.get("steps") or ()]
    files = tuple(str(file) for file in plan.get("files") or ())
    if not names:
        return Steps(steps.done, steps.number, steps.name, files=files)
    done = {step.name.partition("#")[0] for step in steps.done}
    going_on = None if steps.name is None else steps.name.partition("#")[0]
    parts = [step_part(name, 1) for name in names]
    now = next((n for n, part in enumerate(parts) if part == going_on), None)
    if facts.run.status is Status.COMPLETED:
        now = len(parts)
    elif now is None:
        now = next((n for n, part in enumerate(parts) if part not in done), len(parts))
    states = ["now" if n == now else "done" if part in done else "to do" for n, part in enumerate(parts)]
    planned = [PlannedStep(n + 1, outside(name, NAME), states[n]) for n, name in enumerate(names)]
    numbers = {part: n + 1 for n, part in reversed(list(enumerate(parts)))}
    for step in steps.done:
        step.number = numbers.get(step.name.partition("#")[0], 0)
    name = outside(names[now], NAME) if now < len(names) else None
    return Steps(steps.done, now + 1, name, planned=planned, files=files)


def around_now(planned: Sequence[PlannedStep], left_out: dict[str, int]) -> tuple[PlannedStep, ...]:
    """As much of a plan as a brief holds, around the step to go on with."""
    if len(planned) <= MOST:
        return tuple(planned)
    left_out["planned"] = len(planned) - MOST
    now = next((n for n, step in enumerate(planned) if step.state == "now"), len(planned))
    start = max(0, min(now - MOST // 2, len(planned) - MOST))
    return tuple(planned[start : start + MOST])
