"""Loop agents to be crashed at every point: calls of every effect side by side, an approval in the middle, an output
that is sent back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar import Decision, Happened, Harness, NotHappened, ToolCall
from jumar.testing.crash import World
from jumar.testing.witness import Witness
from tests.crash.agents import TTL
from tests.crash.places import address_of
from tests.crash.waiting_agents import Declined, RunWitness, make_tools

TOGETHER: list[list[ToolCall]] = [
    [
        ToolCall("look", {"what": "a"}, id="c1"),
        ToolCall("reserve", {"name": "Ada"}, id="c2"),
        ToolCall("title", {"what": "T", "cents": 9}, id="c3"),
        ToolCall("send", {"bank": "B", "cents": 50}, id="c4"),
        ToolCall("nothing", {}, id="c5"),
    ],
    [
        ToolCall("pay", {"what": "rent", "cents": 700}),
        ToolCall("pay", {"what": "fine", "cents": 9}),
        ToolCall("ship", {"item": "ink"}),
        ToolCall("look", {"what": "b"}),
        ToolCall("refuse", {"cents": 7}),
    ],
]
ONE_BY_ONE = [[call] for calls in TOGETHER for call in calls if call.name != "ship"]


def maker(steps: list[list[ToolCall]]) -> Callable[..., Harness]:
    """What makes harnesses whose loop agent makes these calls, step by step."""
    return lambda folder, **options: _opened(folder, steps, **options)


def _opened(
    folder: Path, steps: list[list[ToolCall]], *, waits: bool, by: str = "", world: World | None = None
) -> Harness:
    harness = Harness(address_of(folder), lease_ttl=TTL)
    witness = RunWitness(folder / "witness", by=by, world=world)
    tools = make_tools(harness, witness, waits=waits)
    _plain_tools(harness, witness, tools)

    def verify(output: Any) -> bool | str:
        witness.note("read", "verify")
        return True if output != "draft" else "a draft is not enough"

    def decided(view: Any) -> Decision:
        witness.note("read", f"decide {view.step_index}")
        made = len(view.history)
        if made < len(steps):
            return Decision.act(steps[made], text=f"step {made + 1}")
        if view.history[-1].decision.finished:
            assert view.history[-1].verdict == "a draft is not enough"
            return Decision.finish(_told(view))
        return Decision.finish("draft")

    if waits:

        @harness.loop(tools=list(tools.values()), verify=verify, name="work")
        async def awaited(view: Any) -> Decision:
            await asyncio.sleep(0)
            return decided(view)

    else:

        @harness.loop(tools=list(tools.values()), verify=verify, name="work")
        def work(view: Any) -> Decision:
            return decided(view)

    return harness


def _plain_tools(harness: Harness, witness: Witness, tools: dict[str, Any]) -> None:
    """Two more external tools, plain in a plain and in an async agent."""

    @harness.tool(effect="external", settle=5.0)
    def send(bank: str, cents: int) -> str:
        witness.send(f"send {bank}")
        return f"{cents} to {bank}"

    @harness.tool(effect="external", errors=(Declined,), settle=5.0)
    def refuse(cents: int) -> str:
        witness.note("read", "refuse")
        raise Declined("too little")

    @refuse.probe
    def _(cents: int) -> Happened[str] | NotHappened:
        return NotHappened()

    tools["send"], tools["refuse"] = send, refuse


def _told(view: Any) -> list[Any]:
    """What became of every call."""
    return [[result.value, result.error] for turn in view.history for result in turn.results]
