"""The person of a storm: looks into the witness's log, and answers by it what is asked about calls that nobody else can
settle.
"""

from __future__ import annotations

import time

from jumar.core.verdicts import Happened, NotHappened
from jumar.errors import IllegalTransition, RequestNotFound
from jumar.harness.harness import Harness
from jumar.harness.results import RequestView
from jumar.testing.chaos_app import Terms, expected

_ALL = 10_000


class Person:
    """Tells the truth.  That something did not happen is the truth only when it can no longer happen: when whoever may
    have been frozen in the middle of it must have been thawed.
    """

    def __init__(self, harness: Harness, terms: Terms) -> None:
        self._harness = harness
        self._terms = terms
        self._seen: dict[tuple[str, str, int], float] = {}
        self.answers = 0
        self.problems: list[str] = []

    def look(self) -> None:
        """Answer what is asked and can be answered now."""
        for view in self._harness.requests(_ALL):
            asked = view.asked
            if asked.tool == "wire":
                self._answer(view)
            elif asked.tool != "book":  # which its probe settles
                self.problems.append(f"somebody is asked about {asked.call_id} of {view.run_id}")

    def _answer(self, view: RequestView) -> None:
        asked = view.asked
        number = asked.args["number"]
        since = self._seen.setdefault((view.run_id, asked.call_id, asked.attempt), time.monotonic())
        lines = self._terms.witness(number).lines()
        sent = any(line.call_id == asked.call_id and line.what == "sent" for line in lines)
        if not sent and time.monotonic() - since < self._terms.frozen + 1.0:
            return
        verdict = Happened(expected(number).wired) if sent else NotHappened()
        try:
            self._harness.resolve(view.run_id, asked.call_id, verdict, by="person")
        except (RequestNotFound, IllegalTransition):
            return  # it has been answered meanwhile: a commit of ours got through whose answer was lost
        self.answers += 1
