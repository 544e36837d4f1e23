"""A brief in English."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.core.briefs.numbers import finished_numbers, ranges
from jumar.core.briefs.records import Asked, Brief, DoneStep, Doubt, Drift, KeyResult, Standing, Trouble

_STATES = {"done": "done", "now": "now", "to do": "not yet"}
_STATUS = {
    "queued": "It is queued, to be taken up.",
    "running": "",
    "waiting": "It waits.",
    "paused": "It is paused.",
    "failed": "It has failed.",
    "completed": "It is completed.",
    "cancelled": "It was cancelled.",
}
_ADVICE = {
    "transient": "It may pass: the same call can be made again.",
    "rate-limited": "The other side asked for fewer calls: wait, then make the same call again.",
    "permanent": "The same call would fail again: change its arguments, or do something else.",
    "polluted": "What was produced was not sound and has been taken back: produce it anew before writing it again.",
    "partial": "A part of it is done: do only what is left.",
    "budget": "The budget is used up: ask for more, or do with less.",
    "cancelled": "It was given up on purpose: make the call again only where it is still wanted.",
}
_MEND = "It would fail so again until the cause is mended."
_ASKED = {
    "approval": "a person's approval of call {call}",
    "resolve": "somebody's word on whether call {call} happened",
    "ask": "an answer to {question} (call {call})",
    "budget": "a larger budget (call {call})",
    "undo": "somebody's word on whether to undo that again (call {call})",
}
_DOUBTS = {
    "open": "that is settled before anything else is sent.",
    "happened": "it had, and it is recorded.",
    "again": "it was sent again, and its result is recorded.",
    "failed": "it came to this: ",
    "rejected": "somebody ruled it out: ",
}


class English:
    """English."""

    def heading(self, brief: Brief) -> str:
        whose = f"agent {brief.agent}, task {brief.task}"
        if not brief.recoveries:
            told = f"This run ({whose}) has not been interrupted so far."
        else:
            times = "once" if brief.recoveries == 1 else f"{brief.recoveries} times"
            told = f"This run ({whose}) goes on after an interruption; it has been taken up {times} so far."
        if not brief.calls:
            return f"{told} Nothing is recorded yet.".strip()
        return f"{told} {_STATUS[brief.status]}".strip()

    def rolled_back(self, version: int, forked_from: str | None) -> str:
        told = f"It was rolled back to version {version}"
        if forked_from is not None:
            told = f"It was forked from run {forked_from} and goes on from version {version}"
        return f"{told}: what was done after that no longer counts, but for what is listed below as standing."

    def finished(self, brief: Brief, count: int) -> str:
        return f"Finished {brief.unit}s ({count}), recorded with their results:"

    def finished_step(self, brief: Brief, step: DoneStep) -> str:
        number = f"{step.number}. " if step.number else ""
        name = f"{brief.unit} {step.number}" if brief.unit == "turn" else step.name
        calls = "1 call" if step.calls == 1 else f"{step.calls} calls"
        results = "; ".join(map(self._result, step.results))
        start = f"- {name}" if brief.unit == "turn" else f"- {number}{name}"
        return f"{start}: {calls}" + (f"; {results}" if results else "")

    def _result(self, result: KeyResult) -> str:
        verb = "failed with" if result.failed else "gave"
        return f"{result.tool}{self._given(result.args)} {verb} {self._quoted(result.result)}"

    def plan(self, steps: Sequence[str], missing: int) -> str:
        return f"The plan: {'; '.join(steps)}{f' (and {missing} more)' if missing else ''}."

    def planned_step(self, number: int, name: str, state: str) -> str:
        return f"{number}. {self._quoted(name)} ({_STATES[state]})"

    def files(self, names: Sequence[str], missing: int, *, changed: bool) -> str:
        what = "Files changed so far" if changed else "Files that the plan names and no write has changed yet"
        return f"{what}: {', '.join(map(self._quoted, names))}{f' and {missing} more' if missing else ''}."

    def unnamed(self, count: int) -> str:
        calls = "1 write" if count == 1 else f"{count} writes"
        return f"{calls} may have changed files whose names cannot be told here."

    def error(self, error: Trouble) -> str:
        where = f" in call {error.call_id}" if error.call_id else ""
        what = f"{error.type}: {self._quoted(error.message)}" if error.message else error.type
        return f"What went wrong last{where}: {what} ({error.error_class}). {error.advice}"

    def advice(self, error_class: str, *, of_call: bool) -> str:
        return _ADVICE[error_class] if of_call or error_class != "permanent" else _MEND

    def standing(self) -> str:
        return "Done outside and on record; it stands, and is not to be done again:"

    def standing_call(self, call: Standing) -> str:
        behind = " (done after the point that the run goes on from, and it stands)" if call.left_behind else ""
        return f"- {call.call_id}: {call.tool}{self._given(call.args)} gave {self._quoted(call.result)}{behind}"

    def doubt(self, doubt: Doubt) -> str:
        told = self._quoted(doubt.told) + "." if doubt.told else ""
        start = "It is not known" if doubt.outcome == "open" else "It was not known"
        had = "happened" if doubt.outcome == "open" else "had happened"
        return f"{start} whether call {doubt.call_id} ({doubt.tool}) {had}; {_DOUBTS[doubt.outcome]}{told}".strip()

    def waiting(self) -> str:
        return "It waits for:"

    def asked(self, asked: Asked) -> str:
        return "- " + _ASKED[asked.kind].format(call=asked.call_id, question=self._quoted(asked.question))

    def drift(self) -> str:
        return "Changed outside since the last snapshot; look before you rely on it:"

    def drifted(self, drift: Drift) -> str:
        return f"- {drift.name}: was {self._reading(drift.before)}, is {self._reading(drift.now)}"

    def _reading(self, text: str | None) -> str:
        return "not known" if text is None else self._quoted(text)

    def earlier(self, count: int) -> str:
        return f"- ({count} earlier {'one is' if count == 1 else 'ones are'} not listed)"

    def more(self, count: int) -> str:
        return f"- (and {count} more)"

    def instruction(self, brief: Brief) -> str:
        if brief.status in ("completed", "cancelled"):
            return "Nothing is left to be done in this run."
        numbers = finished_numbers(brief)
        if brief.plan_is_done:
            return "All steps of the plan are done: do not repeat them, and go on with what comes after."
        unit = brief.unit if len(numbers) == 1 else f"{brief.unit}s"
        name = f" ({self._quoted(brief.step_name)})" if brief.step_name else ""
        go_on = f"Continue {'from' if brief.unit == 'turn' else 'with'} {brief.unit} {brief.step_number}{name}"
        if numbers:
            return f"{go_on}; do not repeat {unit} {ranges(numbers, ' to ', ', ')}."
        if brief.calls and brief.unit == "step":
            return f"{go_on}; what is recorded answers by itself and is not to be done again."
        return f"{go_on}."

    def _given(self, args: str) -> str:
        return f" with {self._quoted(args)}" if args else ""

    def _quoted(self, text: str) -> str:
        inner = text.replace("”", '"')
        return f"“{inner}”"
