"""What the tests of loop agents share: agents that follow a script, and a look at what they commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar import Decision, Harness, LoopView, ToolCall
from jumar.core.changes import Ack, Advance
from jumar.core.phases import check_path
from jumar.core.requests import Commit, Request
from jumar.core.states import Phase
from jumar.core.store import Store
from tests.unit.message_rules import CHECKS

Decide = Callable[[LoopView], Any]


class Script:
    """Decides by the number of the step; what it saw is kept, and every view's messages are held to the rules."""

    def __init__(self, *decisions: Any) -> None:
        self.decisions = decisions
        self.views: list[LoopView] = []

    @property
    def steps(self) -> list[int]:
        """The steps it was asked for, in order."""
        return [view.step_index for view in self.views]

    def __call__(self, view: LoopView) -> Any:
        self.views.append(view)
        for provider, check in CHECKS.items():
            check(view.messages(provider))
        assert [turn.index for turn in view.history] == list(range(1, view.step_index))
        assert (view.brief is None) == (not view.recovered)
        decision = self.decisions[view.step_index - 1]
        return decision(view) if callable(decision) else decision


def declare(harness: Harness, waits: bool, decide: Decide, **options: Any) -> str:
    """A loop agent that decides so, plain or async; answers its name."""
    options.setdefault("tools", [])
    if waits:

        @harness.loop(**options)
        async def operator(view: LoopView) -> Decision:
            decision: Decision = decide(view)
            return decision
    else:

        @harness.loop(**options)
        def operator(view: LoopView) -> Decision:
            decision: Decision = decide(view)
            return decision

    return "operator"


def call(name: str, **arguments: Any) -> ToolCall:
    """A tool call without an id."""
    return ToolCall(name, arguments)


def act(*calls: ToolCall) -> Decision:
    """A decision to make these calls."""
    return Decision.act(calls)


def approved_tools(harness: Harness, sent: list[str]) -> list[Any]:
    """Two tools that need an approval and one that does not; each notes that it was sent."""

    @harness.tool(effect="external", approval="always")
    def send(what: str) -> str:
        sent.append(what)
        return f"{what} sent"

    @harness.tool(effect="read", approval="always")
    def secret(what: str) -> str:
        sent.append(what)
        return f"{what} shown"

    @harness.tool(effect="read")
    def look() -> str:
        sent.append("look")
        return "seen"

    return [send, secret, look]


class Commits:
    """Watches a harness: each advance it makes must walk the table of phases.  To be made before its first run."""

    def __init__(self, harness: Harness) -> None:
        self.advances: list[Advance] = []
        self.phase = Phase.READY_TO_DECIDE
        harness._watcher = self

    def around(self, store: Store) -> Store:
        """The store as it is."""
        return store

    def before(self, request: Request[Any]) -> None:
        """Nothing is looked at yet."""

    def after(self, request: Request[Any], answer: Any) -> None:
        """Follow the phases of what has landed."""
        if not isinstance(request, Commit) or not isinstance(request.change, Advance) or not isinstance(answer, Ack):
            return
        check_path(self.phase, *request.change.through, request.change.phase)
        self.phase = request.change.phase
        self.advances.append(request.change)

    @property
    def phases(self) -> list[str]:
        """Every phase the run went to or through, in order."""
        return [phase.name for change in self.advances for phase in (*change.through, change.phase)]
