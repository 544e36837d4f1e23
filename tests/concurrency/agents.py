"""Small agents for the concurrency tests, each as a plain and as an async function."""

from __future__ import annotations

from typing import Any

from jumar import AsyncRun, Harness, Run


def calls_one(harness: Harness, tool: Any, *args: Any, waits: bool) -> None:
    """An agent `work` that calls one tool and answers its result."""
    if not waits:

        @harness.agent
        def work(run: Run, task: None) -> Any:
            return run.call(tool, *args)
    else:

        @harness.agent
        async def work(run: AsyncRun, task: None) -> Any:
            return await run.call(tool, *args)


def gathers(harness: Harness, *tools: Any, waits: bool) -> None:
    """An agent `work` that calls tools without arguments side by side and answers their results."""
    if not waits:

        @harness.agent
        def work(run: Run, task: None) -> list[Any]:
            return list(run.gather(*[tool.bind() for tool in tools]))
    else:

        @harness.agent
        async def work(run: AsyncRun, task: None) -> list[Any]:
            return list(await run.gather(*[tool.bind() for tool in tools]))
