"""An agent whose reads are written behind, and which reads something new each time: so an effect that was sent with
what is not on disk would be asked for differently by the next process.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jumar import AsyncRun, Happened, Harness, NotHappened, Run, current_call
from jumar.testing.crash import World
from jumar.testing.witness import Witness
from tests.crash.agents import RETRIES, TTL
from tests.crash.places import address_of

ALL_HOT = "".join(
    f"  - event: {event}\n    storage: hot\n"
    for event in ("on_task_start", "before_planning_step", "before_external_call", "after_tool", "manual")
)


def opened(folder: Path, *, waits: bool, by: str = "", world: World | None = None) -> Harness:
    """A harness on the folder's database and witness, hot in all that can be."""
    config = folder / "jumar.yaml"
    config.write_text(f"checkpoint_triggers:\n{ALL_HOT}", encoding="utf-8")
    harness = Harness(address_of(folder), lease_ttl=TTL, durability="hot", config=config)
    tools = _tools(harness, Witness(folder / "witness", by=by, world=world))
    (_awaited if waits else _plain)(harness, tools)
    return harness


def _tools(harness: Harness, witness: Witness) -> SimpleNamespace:
    @harness.tool(effect="read")
    def look(name: str) -> str:
        witness.note("read", "look")
        return f"{name}{witness.count('read', 'look')}"

    @harness.tool(effect="idempotent", retries=RETRIES)
    def reserve(seen: str) -> str:
        witness.apply(f"reserve {seen}")
        return f"seat {seen}"

    @harness.tool(effect="external", settle=5.0, retries=RETRIES)
    def pay(seen: str) -> str:
        witness.send(f"pay {seen}")
        return f"paid {seen}"

    @pay.probe
    def _(seen: str) -> Happened[str] | NotHappened:
        assert current_call() is not None
        return Happened(f"paid {seen}") if witness.happened() else NotHappened()

    return SimpleNamespace(look=look, reserve=reserve, pay=pay)


def _plain(harness: Harness, tools: SimpleNamespace) -> None:
    def order(run: Run, item: str) -> Callable[[], str]:
        return lambda: str(run.call(tools.pay, run.call(tools.look, item)))

    @harness.agent
    def work(run: Run, task: str) -> list[Any]:
        first = run.call(tools.look, "a"), run.call(tools.look, "b")
        seat = run.call(tools.reserve, " ".join(first))
        with run.step("order"):
            paid = run.gather(*[order(run, item) for item in ("c", "d")])
        run.context["seat"] = seat
        run.checkpoint("middle")
        seen = [run.call(tools.look, item) for item in ("e", "f")]
        return [first, seat, list(paid), run.call(tools.pay, " ".join(seen)), run.call(tools.look, "g")]


def _awaited(harness: Harness, tools: SimpleNamespace) -> None:
    def order(run: AsyncRun, item: str) -> Callable[[], Any]:
        async def ordered() -> str:
            return str(await run.call(tools.pay, await run.call(tools.look, item)))

        return ordered

    @harness.agent
    async def work(run: AsyncRun, task: str) -> list[Any]:
        first = await run.call(tools.look, "a"), await run.call(tools.look, "b")
        seat = await run.call(tools.reserve, " ".join(first))
        async with run.step("order"):
            paid = await run.gather(*[order(run, item) for item in ("c", "d")])
        run.context["seat"] = seat
        await run.checkpoint("middle")
        seen = [await run.call(tools.look, item) for item in ("e", "f")]
        last = await run.call(tools.pay, " ".join(seen))
        return [first, seat, list(paid), last, await run.call(tools.look, "g")]
