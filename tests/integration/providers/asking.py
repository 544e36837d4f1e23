"""Agents that only ask: one decision, in whichever way a test wants it made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from jumar import AsyncRun, Harness, Run, RunResult
from tests.integration.providers.talks import TALKS

OPENING = [{"role": "user", "content": "how are things?"}]
_numbers = count(1)
WAYS = [(name, waits) for name in TALKS for waits in (False, True)]
NAMES = [f"{name}-{'async' if waits else 'plain'}" for name, waits in WAYS]


def talk_to(url: str, way: tuple[str, bool], *, streams: bool = True, max_retries: int = 0) -> Any:
    """A talk with the provider at `url`."""
    name, waits = way
    return TALKS[name](url, streams=streams, waits=waits, max_retries=max_retries)


def agent_asking(harness: Harness, model: Callable[..., Any], waits: bool, then: Any = None, **options: Any) -> Any:
    """An agent that decides by `model(OPENING)`, calls `then(answer)` and answers what the SDK's answer holds."""
    name = f"asking-{next(_numbers)}"
    if waits:

        @harness.agent(name=name)
        async def aagent(run: AsyncRun, task: str) -> Any:
            return _ended(await run.decide(model, OPENING, **options), then)

        return aagent

    @harness.agent(name=name)
    def agent(run: Run, task: str) -> Any:
        return _ended(run.decide(model, OPENING, **options), then)

    return agent


def _ended(answer: Any, then: Any) -> Any:
    if then is not None:
        then(answer)
    return answer.to_dict(mode="json") if hasattr(answer, "to_dict") else answer


def run(harness: Harness, agent: Any, waits: bool, task: str = "x") -> RunResult[Any]:
    """Run it, in a loop of its own where it is async."""
    return asyncio.run(harness.arun(agent, task)) if waits else harness.run(agent, task)


def resume(harness: Harness, run_id: str, waits: bool) -> RunResult[Any]:
    """Resume it likewise."""
    return asyncio.run(harness.aresume(run_id)) if waits else harness.resume(run_id)
