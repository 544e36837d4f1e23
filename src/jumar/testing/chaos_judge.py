"""What must hold when a storm is over: nothing lost, nothing doubled, none stranded, and every doubt accounted for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from jumar.core.open_requests import still_open
from jumar.core.records import CallRecord, EventRecord, RequestRecord
from jumar.core.states import CallState, Effect, EventKind, Status, Verdict
from jumar.harness.harness import Harness
from jumar.testing.chaos_app import EFFECTS, Terms, expected
from jumar.testing.witness import Line

_MOST = 20  # problems that are told


class Aftermath(Struct, frozen=True):
    """What a storm left: `problems` in words, none where all is well.  `taken_over` counts the runs' takeovers,
    `uncertain` the attempts of which it was not known whether they had happened, and `answers` those a person settled.
    """

    seed: int
    blows: dict[str, int]
    taken_over: int
    uncertain: int
    answers: int
    problems: tuple[str, ...]

    def __str__(self) -> str:
        told = ", ".join(f"{kind} {count}" for kind, count in sorted(self.blows.items()))
        what = (
            f"seed {self.seed}; {told}; {self.taken_over} takeovers, {self.uncertain} uncertain, {self.answers} asked"
        )
        more = f"\n  and {len(self.problems) - _MOST} more" if len(self.problems) > _MOST else ""
        return "\n  ".join([what, *self.problems[:_MOST]]) + more


def run_id_of(number: int) -> str:
    """The id of the run of this number."""
    return f"01a00000-0000-7000-8000-{number:012}"


def judge(harness: Harness, terms: Terms, runs: int, seed: int, blows: Counter[str], notes: list[str]) -> Aftermath:
    """Look at everything."""
    counts: Counter[str] = Counter()
    problems = list(notes)
    for number in range(runs):
        problems += [f"run {number}: {problem}" for problem in _of_run(harness, terms, number, counts)]
    problems += [f"{finding.where}: {finding.what}" for finding in harness.store.inspect().findings]
    files = {each.name for each in terms.files.iterdir()}
    problems += [f"there is a file {name}" for name in sorted(files - {f"{number}.txt" for number in range(runs)})]
    return Aftermath(seed, dict(blows), counts["taken over"], counts["uncertain"], counts["answers"], tuple(problems))


def _of_run(harness: Harness, terms: Terms, number: int, counts: Counter[str]) -> Iterator[str]:
    store = harness.store
    run = store.run(run_id_of(number))
    if run is None:
        yield "it is lost"
        return
    if run.status is not Status.COMPLETED:
        error = f": {run.error_type}: {run.error_message}" if run.error_type else ""
        yield f"it is {run.status.name}, waiting on {run.waiting_on}{error}"
        return
    wanted = expected(number)
    if (output := harness.show(run.run_id).output) != msgspec.to_builtins(wanted):
        yield f"it answered {output}"
    if (text := _text(terms, number)) != wanted.second:
        yield f"its file holds {text!r}"
    calls, events, requests = store.calls(run.run_no), store.events(run.run_no), store.requests(run.run_no)
    lines = terms.witness(number).lines()
    counts["taken over"] += sum(event.kind is EventKind.TAKEN_OVER for event in events)
    counts["uncertain"] += sum(call.attempt - 1 for call in calls if call.effect is not Effect.READ)
    counts["answers"] += sum(request.verdict is not None for request in requests)
    yield from _outside(lines)
    yield from _in_order(calls, events, run.epoch)
    for call in calls:
        yield from _of_call(call, [line for line in lines if line.call_id == call.call_id], requests, events)
    yield from (f"{each.call_id} is still asked about" for each in still_open(requests, calls, run.status))


def _text(terms: Terms, number: int) -> str | None:
    place = terms.files / f"{number}.txt"
    return place.read_text() if place.exists() else None


def _outside(lines: list[Line]) -> Iterator[str]:
    """Each effect took place as often as it should, and under a key of its own."""
    for tool, (what, count) in EFFECTS.items():
        keys = [line.key for line in lines if line.tool == tool and line.what == what]
        if len(keys) != count or len(set(keys)) != count:
            yield f"{tool} took place {len(keys)} times under {len(set(keys))} keys, and not {count} times"


def _in_order(calls: list[CallRecord], events: list[EventRecord], epoch: int) -> Iterator[str]:
    """Nobody wrote under an epoch that was over: in the order of the writing no epoch falls."""
    ended = [call.epoch for call in sorted(calls, key=lambda call: call.ended_version or 0)]
    traced = [event.epoch for event in events if event.epoch]
    for what, epochs in (("a result", ended), ("a line of the trace", traced)):
        if epochs != sorted(epochs) or (epochs and epochs[-1] > epoch):
            yield f"{what} was written under an epoch that was over: {epochs}"


def _of_call(
    call: CallRecord, lines: list[Line], requests: list[RequestRecord], events: list[EventRecord]
) -> Iterator[str]:
    """One call: it succeeded, no attempt acted twice, and what became of each attempt is known."""
    if call.state is not CallState.SUCCEEDED:
        yield f"{call.call_id} is {call.state.name}"
    if call.effect is Effect.READ:
        return
    attempts = [line.attempt for line in lines]
    if len(set(attempts)) != len(attempts) or not set(attempts) <= set(range(1, call.attempt + 1)):
        yield f"attempts {attempts} of {call.call_id} acted, of {call.attempt} that are recorded"
    if call.effect is not Effect.EXTERNAL:
        return
    if attempts != [call.attempt]:
        yield f"attempts {attempts} of {call.call_id} acted, and attempt {call.attempt} is said to have"
    # An attempt that did not act was not sent, which is a retry on the trace, or somebody has said so: a person, or its
    # tool's probe, which is on the trace as well.
    told = sum(request.call_seq == call.seq and request.verdict is Verdict.NOT_HAPPENED for request in requests)
    told += sum(event.call_seq == call.seq and _says_not(event) for event in events)
    if call.attempt - 1 > told:
        yield f"{call.call_id} was made again {call.attempt - 1} times, and {told} times somebody said that it may be"


def _says_not(event: EventRecord) -> bool:
    return event.kind is EventKind.RETRY or (event.kind is EventKind.PROBED and event.detail == "NotHappened")
