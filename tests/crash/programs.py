"""Agents drawn at random: programs of calls, steps and branches, nested as it comes, with the same call here and there.

A program is a tree of tuples, run alike by a plain and an async agent.  Its tools act on the witness, and what they
return depends on their arguments alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar import AsyncRun, Happened, Harness, NotApplied, NotHappened, Run
from jumar.errors import MapFailed
from jumar.testing.crash import World
from jumar.testing.witness import Witness
from tests.crash.agents import TTL

Program = list[tuple[Any, ...]]
LEAVES = ("read", "decide", "value", "add", "flaky", "pay", "decline", "mark", "mapped", "broken")


class Declined(Exception):
    """What `decline` declares."""


def drawn(chance: random.Random, depth: int = 3) -> Program:
    """A program.  Few names and numbers are used, so that the same call is made in many places."""
    return [_operation(chance, depth) for _ in range(chance.randint(1, 4))]


def _operation(chance: random.Random, depth: int) -> tuple[Any, ...]:
    kind = chance.choice(LEAVES if depth == 0 else (*LEAVES, "step", "step", "gather", "gather"))
    if kind == "step":
        return ("step", chance.choice("ab"), drawn(chance, depth - 1))
    if kind == "gather":
        return ("gather", [drawn(chance, depth - 1) for _ in range(chance.randint(1, 3))])
    if kind in ("mapped", "broken"):
        return (kind, [chance.randint(1, 3) for _ in range(chance.randint(1, 3))])
    return (kind, chance.randint(1, 2))


def maker(program: Program) -> Callable[..., Harness]:
    """What makes harnesses whose agent `work` runs the program."""

    def make(folder: Path, *, waits: bool, by: str = "", world: World | None = None) -> Harness:
        harness = Harness(f"sqlite:///{folder / 'run.db'}", lease_ttl=TTL)
        tools = _tools(harness, Witness(folder / "witness", by=by, world=world))
        (_async_agent if waits else _agent)(harness, tools, program)
        return harness

    return make


def _tools(harness: Harness, witness: Witness) -> dict[str, Any]:
    @harness.tool(effect="read")
    def read(number: int) -> int:
        witness.note("read", "read")
        return 10 * number

    @harness.tool(effect="idempotent")
    def add(number: int) -> int:
        witness.apply("add")
        return 20 * number

    @harness.tool(effect="idempotent", retries=9)
    def flaky(number: int) -> int:
        if witness.is_first():
            raise NotApplied("not yet")
        witness.apply("flaky")
        return 30 * number

    @harness.tool(effect="external", settle=0)
    def pay(number: int) -> int:
        witness.send("pay")
        return 40 * number

    @pay.probe
    def _(number: int) -> Happened[int] | NotHappened:
        return Happened(40 * number) if witness.happened() else NotHappened()

    @harness.tool(effect="external", errors=(Declined,), settle=0)
    def decline(number: int) -> int:
        witness.note("read", "decline")
        raise Declined(number)

    decline.probe(lambda number: NotHappened())
    return {"read": read, "add": add, "flaky": flaky, "pay": pay, "decline": decline}


def think(number: int) -> int:
    """The model: it thinks of the same for the same prompt."""
    return 50 * number


def _agent(harness: Harness, tools: dict[str, Any], program: Program) -> None:
    @harness.agent
    def work(run: Run, task: str) -> Any:
        return run_all(run, program)

    def run_all(run: Run, operations: Program) -> list[Any]:
        return [run_one(run, *operation) for operation in operations]

    def run_one(run: Run, kind: str, *rest: Any) -> Any:
        if kind == "step":
            with run.step(rest[0]):
                return run_all(run, rest[1])
        if kind == "gather":
            return list(run.gather(*[lambda branch=branch: run_all(run, branch) for branch in rest[0]]))
        if kind == "mapped":
            return run.map(tools["add"], rest[0])
        if kind == "broken":
            try:
                return run.map(tools["decline"], rest[0])
            except MapFailed as error:
                return [repr(each) for each in error.results]
        if kind == "mark":
            return run.checkpoint(f"mark {rest[0]}")
        if kind == "value":
            return run.value("value", lambda: rest[0])
        if kind == "decide":
            return run.decide(think, *rest)
        try:
            return run.call(tools[kind], *rest)
        except Declined as error:
            return repr(error)


def _async_agent(harness: Harness, tools: dict[str, Any], program: Program) -> None:
    @harness.agent
    async def work(run: AsyncRun, task: str) -> Any:
        return await run_all(run, program)

    async def run_all(run: AsyncRun, operations: Program) -> list[Any]:
        return [await run_one(run, *operation) for operation in operations]

    async def run_one(run: AsyncRun, kind: str, *rest: Any) -> Any:
        if kind == "step":
            async with run.step(rest[0]):
                return await run_all(run, rest[1])
        if kind == "gather":
            return list(await run.gather(*[lambda branch=branch: run_all(run, branch) for branch in rest[0]]))
        if kind == "mapped":
            return await run.map(tools["add"], rest[0])
        if kind == "broken":
            try:
                return await run.map(tools["decline"], rest[0])
            except MapFailed as error:
                return [repr(each) for each in error.results]
        if kind == "mark":
            return await run.checkpoint(f"mark {rest[0]}")
        if kind == "value":
            return await run.value("value", lambda: rest[0])
        if kind == "decide":
            return await run.decide(think, *rest)
        try:
            return await run.call(tools[kind], *rest)
        except Declined as error:
            return repr(error)
