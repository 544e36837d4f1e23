"""Runs that are steered while they are driven: what an operator does between two steps of a driver.

A `Steered` life lets somebody act at chosen points of its own; what they do is done there and then, by another harness
on the same store, so that every order of the two is a point of the life.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from jumar import Happened, Harness, NotHappened
from jumar.core.requests import Request
from jumar.errors import IllegalTransition, LeaseHeld, RequestNotFound, RunEnded, RunNotFound
from jumar.testing.crash import Crashed, inhabit
from tests.crash.tales import RUN, Life, Tale, Whole, answer, counted, facts, judge_laws, plain, result_of

Deed = Callable[[], object]


class Steered(Life):
    """A life during which something is done at each of these points."""

    def __init__(self, tale: Tale, deeds: Mapping[int, Deed], at: int | str | None = None) -> None:
        super().__init__(tale, at)
        self._deeds = dict(deeds)
        self._once = threading.Lock()

    def before(self, request: Request[Any]) -> None:
        """Go on, and let somebody act."""
        super().before(request)
        self._act()

    def after(self, request: Request[Any], answer: Any) -> None:
        """Go on, and let somebody act."""
        super().after(request, answer)
        self._act()

    def _act(self) -> None:
        with self._once:
            deed = self._deeds.pop(self.points, None)
        if deed is not None:
            deed()


class Operator:
    """Somebody with a harness of their own: a process that may die at a point of its own."""

    def __init__(self, tale: Tale, run_id: str = RUN) -> None:
        self.tale = tale
        self.run_id = run_id
        self.points = 0

    def acts(self, deed: Callable[[Harness], object], at: int | None = None) -> bool:
        """Do something; False where it could not be done (no such run yet, or no longer), or the process died."""
        world = Life(self.tale, at)
        harness = self.tale.make(self.tale.folder, waits=self.tale.waits, by="an operator", world=world)
        inhabit(harness, world)
        try:
            deed(harness)
            return True
        except (RunNotFound, RunEnded, IllegalTransition, LeaseHeld, RequestNotFound, Crashed):
            return False
        finally:
            harness.close()
            self.points = world.points

    def deed(self, what: str) -> Deed:
        """Something to be done in one moment: to `answer` all that is asked, `approve` or `reject` the first payment,
        `pause` or `cancel` the run, `work` on it as far as it goes, or on all that is `due`.
        """
        match what:
            case "answer":
                return self.answers
            case "approve" | "reject":
                return lambda: self.acts(lambda harness: getattr(harness, what)(self.run_id, "pay.1"))
            case "work":
                return self.works
            case "due":
                return lambda: self._apart(lambda harness: harness.resume_due())
        return lambda: self.orders(what)

    def works(self) -> None:
        """Start the run, or take it up, where nobody drives it."""
        self._apart(partial(self.tale.go_on, run_id=self.run_id, wait=False))

    def _apart(self, deed: Callable[[Harness], object]) -> None:
        """Do something in a thread that has no loop of its own yet."""
        worker = threading.Thread(target=self.acts, args=(deed,))
        worker.start()
        worker.join()

    def orders(self, control: str, at: int | None = None) -> bool:
        """Order the run to `pause` or `cancel`."""
        return self.acts(lambda harness: getattr(harness, control)(self.run_id), at)

    def answers(self) -> bool:
        """Answer all that the run asks just now."""
        return self.acts(self._answer_all)

    def _answer_all(self, harness: Harness) -> None:
        for view in harness.requests():
            if view.run_id == self.run_id:
                answer(harness, self.run_id, view.asked, self.tale.witness.lines())


def judge_cancelled(tale: Tale, results: Any, whole: Whole) -> None:
    """A tale in which runs may have been cancelled: whatever was done is done, nothing else is, and all is known once
    a person has said what may have happened."""
    judge_laws(tale)
    for run_id, result in results.items():
        if result.status != "CANCELLED":
            assert (result.status, plain(result.output)) == (whole.statuses[run_id], whole.outputs[run_id])
        _nothing_left_open(tale, run_id, result.status)
        for call_id, row in tale.rows_of(run_id).items():
            if row.state.name == "SUCCEEDED" and call_id in whole.rows[run_id]:
                assert facts(row) == whole.rows[run_id][call_id]
    effects = counted(tale.witness.lines())
    assert all(count <= whole.effects.get(action, 0) for action, count in effects.items()), effects


def _nothing_left_open(tale: Tale, run_id: str, status: str) -> None:
    """Of a run that has ended every effect that may have happened is asked about, and can be settled."""
    doubted = [
        row for row in tale.rows_of(run_id).values() if row.state.name == "UNCERTAIN" and row.effect.name != "READ"
    ]
    lines = tale.witness.lines()
    harness = tale.make(tale.folder, waits=tale.waits)
    with harness:
        for row in doubted:
            sent = any(
                (line.call_id, line.by) == (row.call_id, run_id) and line.what in ("sent", "applied") for line in lines
            )
            asked = next(each for each in harness.show(run_id).waiting_on if each.call_id == row.call_id)
            harness.resolve(run_id, row.call_id, Happened(result_of(asked)) if sent else NotHappened())
        states = {call.call_id: call.state for call in harness.show(run_id).calls}
        assert not harness.show(run_id).waiting_on or status == "FAILED"
    for row in doubted:
        assert states[row.call_id] in ("SUCCEEDED", "FAILED"), (
            f"{row.call_id} is {states[row.call_id]} after the answer"
        )
