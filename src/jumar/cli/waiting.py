"""Why a run stands still, and the commands to type next, for `run`, `resume`, `show` and the orders alike.

A run may wait for several things at once: for people, each with a request of its own, and for times and other runs,
which no request tells of but the calls do.  Every one of them is a step of its own, up to a number; the last step has
the command with which the run goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jumar.cli.asked import is_settling, late_step, needs_nobody, step_for
from jumar.cli.failed import failed_step
from jumar.cli.lines import NextStep
from jumar.cli.options import Options
from jumar.cli.progress import owner_name
from jumar.cli.reading import tried_again
from jumar.cli.settling import still_may
from jumar.cli.times import lasted, when
from jumar.cli.words import answer_to, last_of, ordered, pending, rolling_back, to_be
from jumar.harness.results import CallView, HolderView, RunInfo, RunView, WaitingOn

MOST_STEPS = 10


def steps_of(
    options: Options,
    short: str,
    view: RunView,
    now: int,
    *,
    most: int = MOST_STEPS,
    error: BaseException | None = None,
) -> list[NextStep]:
    """Why a run stands still and how to move it; nothing for one that has ended for good and left nothing open.
    `error` is what it failed with, where that happened here.
    """
    run = view.run
    if run.status == "WAITING":
        return _ended(options, short, view, _bounded(options, short, _waits(options, short, view, now), most), now)
    steps = _stands(options, short, view, now, error)
    ended = run.status == "CANCELLED"
    says = "Nobody knows yet" if ended else "It asks a person"
    steps += [step_for(options, short, asked, now, says=says, remakes=not ended) for asked in view.waiting_on]
    return _bounded(options, short, steps, most)


def _bounded(options: Options, short: str, steps: list[NextStep], most: int) -> list[NextStep]:
    if len(steps) <= most:
        return steps
    left = len(steps) - most + 1
    rest = NextStep(f"There are {left:,} more.", (("all", options.command("show", short, "--all", app=False)),))
    return [*steps[: most - 1], rest]


# --- What a run waits for. -------------------------------------------------------------------------------------------


def _waits(options: Options, short: str, view: RunView, now: int) -> list[NextStep]:
    run, asked = view.run, view.waiting_on
    if is_settling(run, asked):
        return [late_step(options, short, run, asked, now)]
    steps = [
        late_step(options, short, run, (each,), now)
        if needs_nobody(run, each)
        else step_for(options, short, each, now, says="It waits for a person")
        for each in asked
    ]
    if run.wake_at is None:
        return steps
    names = [name for name in (run.waiting_on or "").split(", ") if name]
    covered = {each.call_id for each in asked}
    calls = {call.call_id: call for call in view.calls}
    others = [_until(options, run, name, calls.get(name), view, now) for name in names if name not in covered]
    again: Sequence[CallView | None] = [call for call in tried_again(view.calls) if call.call_id not in names]
    if not names:
        again = again or [None]
    return steps + others + [_until(options, run, "", call, view, now) for call in again]


def _until(options: Options, run: RunInfo, name: str, call: CallView | None, view: RunView, now: int) -> NextStep:
    """Why this call waits for a time or for another run."""
    assert run.wake_at is not None
    about = f" about {name}" if name else ""
    if call is not None and call.kind == "sleep" and isinstance(call.result, int):
        verb = "sleeps" if call.result > now else "was to sleep"
        return NextStep(
            f"It {'waits' if call.result > now else 'waited'}: {name} {verb} until {when(call.result, now)}."
        )
    if call is not None and call.held_by is not None:
        return _held(options, run, call, call.held_by, now)
    if _has_come(run, now):
        return NextStep(f"The time it waited for{about} came at {when(run.wake_at, now)}.")
    if call is not None and call.state == "UNCERTAIN":
        answer = answer_to(call, view.answers)
        by = f", as {answer.by} says" if answer is not None and answer.by else ""
        return NextStep(
            f"It waits{about} until {when(run.wake_at, now)} and then goes on by itself: it did not happen so far{by}, "
            f"but until then {still_may(options.timing(call.tool), call.error)}."
        )
    if call is not None and call.state == "PLANNED":
        why = "it is rate-limited" if call.error_class == "rate-limited" else "its last attempt came to nothing"
        return NextStep(
            f"It waits until {when(run.wake_at, now)}, when {call.call_id} is tried again: {why} ({call.error})."
        )
    if _is_about_files(run, name, call):
        whose = "its files" if rolling_back(run) and call is None else "the files that it writes"
        return NextStep(f"It waits{about} until {when(run.wake_at, now)}: somebody else is writing {whose}.")
    if call is not None and call.state == "AWAITING" and call.kind == "tool":
        return NextStep(f"It waited{about} for another call that does the same action; that one has ended.")
    return NextStep(f"It waits{about} until {when(run.wake_at, now)}.")


def _is_about_files(run: RunInfo, name: str, call: CallView | None) -> bool:
    """Whether a run waits because another call, another process or a body that outlived its timeout has the files: of
    a call that is not begun there may be no record yet.
    """
    if run.workspace is None:
        return False
    if call is None:
        return bool(name) or run.rolling_back_to is not None
    return call.effect == "write" and call.error is None


def _held(options: Options, run: RunInfo, call: CallView, holder: HolderView, now: int) -> NextStep:
    """The same action is under way elsewhere."""
    assert run.wake_at is not None
    other = holder.run_id[-8:]
    where = "of this run" if holder.run_id == run.run_id else f"of run {other}"
    state = {"UNCERTAIN": "may have happened", "STARTED": "is under way", "SUCCEEDED": "has happened"}
    how = state.get(holder.state, f"is {holder.state.lower()}")
    again = (
        "is looked at again when it is resumed" if _has_come(run, now) else f"looks again at {when(run.wake_at, now)}"
    )
    if not holder.call_id:
        reason = f"It waits for the files that {call.call_id} writes: a rollback {where} is under way; it {again}."
    elif call.effect == "write":
        reason = (
            f"It waits for another call that writes the files of {call.call_id}: {holder.call_id} {where} {how}; it "
            f"{again}."
        )
    else:
        reason = (
            f"It waits for another call that does the same as {call.call_id}: {holder.call_id} {where} {how}; it "
            f"{again}."
        )
    return NextStep(reason, (("look there", options.command("show", other, app=False)),))


def _has_come(run: RunInfo, now: int) -> bool:
    return run.wake_at is not None and run.wake_at <= now


def _ended(options: Options, short: str, view: RunView, steps: list[NextStep], now: int) -> list[NextStep]:
    """The steps of a run that waits, the last with the command that takes it up again."""
    run = view.run
    resume = options.command("resume", short)
    if not steps:
        return [NextStep("It waits, and nothing is asked any more.", (("go on", resume),))]
    word = "then" if waits_for_person(run, view.waiting_on) else "from then on"
    commands = (*steps[-1].commands, ("go on" if _has_come(run, now) else word, resume))
    order = pending(run)
    more = (_obey(options, short, order),) if order else ()
    return [*steps[:-1], replace(steps[-1], commands=(*commands, *more))]


# --- How a run stands that does not wait. ----------------------------------------------------------------------------


def _stands(options: Options, short: str, view: RunView, now: int, error: BaseException | None) -> list[NextStep]:
    run = view.run
    resume = options.command("resume", short)
    order = pending(run)
    if run.status == "QUEUED":
        why = _rollback_first(run) or _denied(options, view)
        return [NextStep(f"It is queued: no process drives it.{why}", (("go on", resume),))]
    if run.status == "PAUSED":
        line = last_of(view.orders, "paused")
        back = last_of(view.orders, "rolled-back")
        if back is not None and (line is None or line.at <= back.at):
            return [_rolled_back(options, short, run, back.at, now)]
        since = f" since {when(line.at, now)}" if line is not None else ""
        end = ("end it", options.command("cancel", short, app=False))
        return [
            NextStep(f"It is paused{since}{ordered(run)}. It goes on when it is resumed.", (("go on", resume), end))
        ]
    if run.status == "FAILED":
        return [failed_step(resume, view, error)]
    if run.status != "RUNNING":
        return []
    owner = owner_name(run.owner)
    if run.lease_seconds is None:
        gone = f"The process that drove it has gone: its lease ran out.{_rollback_first(run)}"
        if order:
            return [NextStep(f"{gone} It was {to_be(order)}.", (_obey(options, short, order),))]
        return [NextStep(gone, (("go on", resume),))]
    if order:
        line = last_of(view.orders, "ordered")
        since = f" since {when(line.at, now)}" if line is not None else ""
        reason = (
            f"It is {to_be(order)}{since}{ordered(run)}. {owner} drives it, and stops once what it has in flight has "
            "settled."
        )
        return [NextStep(reason, (_obey(options, short, order),))]
    left = lasted(run.lease_seconds * 1000)
    return [NextStep(f"{owner} drives it; its lease has {left} left unless it is renewed.")]


def _rollback_first(run: RunInfo) -> str:
    """What is done first where a rollback was cut off."""
    return f" It is in the middle of {rolling_back(run)}, which is finished first." if rolling_back(run) else ""


def _rolled_back(options: Options, short: str, run: RunInfo, at: int, now: int) -> NextStep:
    """A rollback has left the run paused."""
    to = f" to version {run.line[-1][1]}" if run.line else ""
    return NextStep(
        f"It was rolled back{to}, at {when(at, now)}, and is paused. It goes on from there when it is resumed.",
        (("go on", options.command("resume", short)), ("end it", options.command("cancel", short, app=False))),
    )


def _obey(options: Options, short: str, order: str) -> tuple[str, str]:
    """The command that waits for an order to be obeyed, or carries it out where nobody drives the run any more."""
    return f"{order} it", options.command(order, short, app=False)


def _denied(options: Options, view: RunView) -> str:
    """What is to be said about an answer that a call did not happen, while that is not yet acted on."""
    for call in view.calls:
        answer = answer_to(call, view.answers)
        if answer is not None and answer.verdict == "not-happened":
            may = still_may(options.timing(call.tool), call.error)
            return f" {call.call_id} did not happen, but until that is certain {may}; resume waits for it."
    return ""


def waits_for_person(run: RunInfo, asked: Sequence[WaitingOn]) -> bool:
    """Whether a WAITING run goes on only, or sooner, when somebody answers."""
    return run.wake_at is None or (bool(asked) and not is_settling(run, asked))
