"""Lives of an agent that talks with a provider through an SDK, each in a process of its own, to be killed somewhere.

The agent is written twice: as a function that keeps the conversation itself, and as a loop agent that takes it from its
view.  Both do the same: ask, make the calls that were asked for, tell the results, until words come back.  On its way
it passes places, and stands still at one of them for its test to kill it there:

- `asking N`: before the request of turn N (from 0);
- `event N`: at the third event of the stream that answers it;
- `unrecorded N`: the answer is there, and nothing is recorded of it;
- `search`, `note`, `noted`: in the body of a tool, before and after the note is made outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar import AsyncRun, Decision, Harness, LoopView, Run
from jumar.errors import RunEnded, RunNotFound
from jumar.testing.witness import Witness
from tests.concurrency import workers
from tests.concurrency.workers import Line
from tests.integration.providers.talks import TALKS
from tests.integration.providers.wire import Say

RUN = "0192f3b0-0000-7000-8000-000000000001"
TASK = "how are things?"
TTL = 0.4
SCRIPT = [
    Say("let me look", (("search", {"word": "error"}), ("note", {"text": "first"}))),
    Say("", (("note", {"text": "second"}),)),
    Say("all is well"),
]

# A process is forked from a server that has the SDKs imported already.
workers._context.set_forkserver_preload(
    ["tests.crash.agents", "jumar.engine.drivers.aio", __name__, "openai", "anthropic"]
)


class Life:
    """Where the agent is, and where it is to stand still."""

    def __init__(self, line: Line | None, place: str | None, witness: Witness) -> None:
        self._line = line
        self._place = place
        self.witness = witness
        self.turn = 0
        self._events = 0

    def passes(self, place: str) -> None:
        """This place is passed."""
        if place == self._place and self._line is not None:
            self._line.pause(place)

    def asks(self, messages: list[Any]) -> None:
        """A request is about to be made."""
        said = [message for message in messages if _role(message) == "assistant"]
        self.turn, self._events = len(said), 0
        self.passes(f"asking {self.turn}")

    def hears(self, event: Any) -> None:
        """An event of a stream."""
        self._events += 1
        if self._events == 3:
            self.passes(f"event {self.turn}")

    def heard(self, answer: Any) -> Any:
        """The whole answer."""
        self.passes(f"unrecorded {self.turn}")
        return answer


def _role(message: Any) -> str:
    role: str = message["role"] if isinstance(message, dict) else message.role
    return role


def opened(folder: Path) -> Harness:
    """The harness on the run's store."""
    return Harness(f"sqlite:///{folder / 'runs.db'}", lease_ttl=TTL)


def harness_of(folder: Path, url: str, way: Any, streams: bool, kind: str, life: Life) -> Harness:
    """A harness with the agent, named `agent`."""
    name, waits = way
    talk = TALKS[name](url, streams=streams, waits=waits)
    harness = opened(folder)

    @harness.tool(effect="read")
    def search(word: str) -> list[str]:
        life.passes("search")
        return [f"no {word}"]

    @harness.tool(effect="idempotent")
    def note(text: str) -> str:
        life.passes("note")
        life.witness.apply("note")
        life.passes("noted")
        return f"noted {text}"

    tools = {"search": search, "note": note}
    if kind == "loop":
        loop = _aloop(talk, life) if waits else _loop(talk, life)
        harness.loop(tools=tools.values(), name="agent")(loop)
    else:
        function = _afunction(talk, life, tools) if waits else _function(talk, life, tools)
        harness.agent(name="agent")(function)
    return harness


# --- The agent as a function. ----------------------------------------------------------------------------------------


def _function(talk: Any, life: Life, tools: dict[str, Any]) -> Callable[[Run, str], str]:
    def ask(messages: list[Any]) -> Any:
        life.asks(messages)
        return talk.stream(messages) if talk.streams else life.heard(talk.create(messages))

    def agent(run: Run, task: str) -> str:
        messages: list[Any] = [{"role": "user", "content": task}]
        while True:
            answer = run.decide(ask, list(messages), on_event=life.hears)
            messages.append(talk.said(answer))
            calls = talk.calls(answer)
            if not calls:
                text: str = talk.text(answer)
                return text
            results = run.gather(*[tools[call.name].bind(**call.arguments) for call in calls])
            messages.extend(talk.results(calls, results))

    return agent


def _afunction(talk: Any, life: Life, tools: dict[str, Any]) -> Callable[[AsyncRun, str], Any]:
    async def acreate(messages: list[Any]) -> Any:
        life.asks(messages)
        return life.heard(await talk.acreate(messages))

    def stream(messages: list[Any]) -> Any:
        life.asks(messages)
        return talk.stream(messages)

    async def agent(run: AsyncRun, task: str) -> str:
        messages: list[Any] = [{"role": "user", "content": task}]
        while True:
            answer: Any = await run.decide(stream if talk.streams else acreate, list(messages), on_event=life.hears)
            messages.append(talk.said(answer))
            calls = talk.calls(answer)
            if not calls:
                text: str = talk.text(answer)
                return text
            results = await run.gather(*[tools[call.name].bind(**call.arguments) for call in calls])
            messages.extend(talk.results(calls, results))

    return agent


# --- The agent as a loop. --------------------------------------------------------------------------------------------


def _loop(talk: Any, life: Life) -> Callable[[LoopView], Any]:
    def agent(view: LoopView) -> Decision:
        messages = view.messages(talk.name)
        life.asks(messages)
        if not talk.streams:
            return talk.decision(life.heard(talk.create(messages)))  # type: ignore[no-any-return]
        with talk.stream(messages) as stream:
            for event in stream:
                life.hears(event)
            return talk.decision(life.heard(talk.final(stream)))  # type: ignore[no-any-return]

    return agent


def _aloop(talk: Any, life: Life) -> Callable[[LoopView], Any]:
    async def agent(view: LoopView) -> Decision:
        messages = view.messages(talk.name)
        life.asks(messages)
        if not talk.streams:
            return talk.decision(life.heard(await talk.acreate(messages)))  # type: ignore[no-any-return]
        async with talk.stream(messages) as stream:
            async for event in stream:
                life.hears(event)
            return talk.decision(life.heard(await talk.final(stream)))  # type: ignore[no-any-return]

    return agent


# --- A life. ---------------------------------------------------------------------------------------------------------


def live(line: Line | None, folder: str, url: str, way: Any, streams: bool, kind: str, place: str | None = None) -> str:
    """Start the run or take it over, and drive it to its end, or to a place to be killed at; answers how it ended."""
    life = Life(line, place, Witness(Path(folder) / "witness"))
    with harness_of(Path(folder), url, way, streams, kind, life) as harness:
        try:
            result = asyncio.run(_aresumed(harness)) if way[1] else _resumed(harness)
        except RunEnded:
            return "COMPLETED before"
        return result.status if result.error is None else f"{result.status}: {result.error}"


def _resumed(harness: Harness) -> Any:
    try:
        return harness.resume(RUN)
    except RunNotFound:
        return harness.run("agent", TASK, run_id=RUN)


async def _aresumed(harness: Harness) -> Any:
    try:
        return await harness.aresume(RUN)
    except RunNotFound:
        return await harness.arun("agent", TASK, run_id=RUN)
