"""Tools that run side by side in one process, and a model that fails after a tool has succeeded."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from jumar import AsyncRun, Harness, Run
from jumar.errors import CallFailed
from tests.concurrency.scenes import ServerError

MANY = 30


@pytest.mark.parametrize("effect", ["read", "idempotent", "external"])
def test_thirty_tools_that_finish_at_one_barrier_are_all_stored(tmp_path: Path, waits: bool, effect: str) -> None:
    with Harness(f"sqlite:///{tmp_path / 'run.db'}") as harness:
        _awaited_barrier(harness, effect) if waits else _barrier(harness, effect)
        result = harness.run("work")
        assert result.output == list(range(MANY))
        with Harness(f"sqlite:///{tmp_path / 'run.db'}") as reader:
            seen = reader.show(result.run_id)
    assert sorted(call.result for call in seen.calls) == list(range(MANY))
    assert {call.state for call in seen.calls} == {"SUCCEEDED"}
    # One advance a result, and one before each effect; the run's end is the last. None was lost, none made twice.
    assert seen.run.version == MANY * (1 if effect == "read" else 2) + 1


def _barrier(harness: Harness, effect: str) -> None:
    barrier = threading.Barrier(MANY)

    @harness.tool(effect=effect)
    def meet(number: int) -> int:
        barrier.wait(30)
        return number

    @harness.agent
    def work(run: Run, task: None) -> list[int]:
        return list(run.gather(*[meet.bind(number) for number in range(MANY)]))


def _awaited_barrier(harness: Harness, effect: str) -> None:
    @harness.tool(effect=effect)
    async def meet(number: int) -> int:
        await barriers[0].wait()
        return number

    barriers: list[asyncio.Barrier] = []

    @harness.agent
    async def work(run: AsyncRun, task: None) -> list[int]:
        barriers.append(asyncio.Barrier(MANY))
        return list(await run.gather(*[meet.bind(number) for number in range(MANY)]))


def thinking(harness: Harness, failures: int, waits: bool, counts: dict[str, int]) -> None:
    """An agent that searches and then asks a model, which fails so many times with an HTTP 500."""

    @harness.tool(effect="read")
    def search() -> str:
        counts["search"] += 1
        return "a.log"

    def model(hit: str) -> str:
        counts["model"] += 1
        if counts["model"] <= failures:
            raise ServerError("internal server error")
        return f"repair {hit}"

    if waits:

        @harness.agent
        async def work(run: AsyncRun, task: None) -> Any:
            return await run.decide(model, await run.call(search), retries=2)
    else:

        @harness.agent
        def work(run: Run, task: None) -> Any:
            return run.decide(model, run.call(search), retries=2)


def test_a_model_that_fails_for_a_while_is_asked_again_and_the_tool_before_it_is_not(
    tmp_path: Path, waits: bool
) -> None:
    counts = {"search": 0, "model": 0}
    with Harness(f"sqlite:///{tmp_path / 'run.db'}") as harness:
        thinking(harness, 2, waits, counts)
        result = harness.run("work")
        assert (result.status, result.output) == ("COMPLETED", "repair a.log")
    assert counts == {"search": 1, "model": 3}


def test_a_model_that_fails_for_good_fails_the_run_and_the_tool_before_it_stays_recorded(
    tmp_path: Path, waits: bool
) -> None:
    counts = {"search": 0, "model": 0}
    with Harness(f"sqlite:///{tmp_path / 'run.db'}") as harness:
        thinking(harness, 99, waits, counts)
        result = harness.run("work")
        for _ in range(2):
            assert result.status == "FAILED"
            assert isinstance(result.error, CallFailed) and result.error.error_class == "transient"
            result = harness.resume(result.run_id)  # the model is asked once more each time, the tool is not
        states = [(call.call_id, call.state, call.attempt) for call in harness.show(result.run_id).calls]
    assert states == [("search.1", "SUCCEEDED", 1), ("model.1", "FAILED", 5)]
    assert counts == {"search": 1, "model": 5}
