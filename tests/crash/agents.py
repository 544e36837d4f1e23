"""The agent that is crashed at every point: all that a function agent can do, in a dozen calls.

Its tools act on an outside witness alone, and what they return depends on their arguments alone, so that a run's
output and its rows are the same however often it died.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from jumar import AsyncRun, Happened, Harness, NotApplied, NotHappened, Run
from jumar.testing.crash import World
from jumar.testing.witness import Witness
from tests.crash.places import address_of

TTL = 30.0
RETRIES = 60  # an attempt that a death cut off counts, and a run here may die forty times
ORDERS = ("ink", "paper")


class Plan(msgspec.Struct, frozen=True):
    query: str
    orders: list[str]


class Receipt(msgspec.Struct, frozen=True):
    invoice: str
    cents: int


class Report(msgspec.Struct, frozen=True):
    hits: list[str]
    seat: str
    receipts: list[Receipt]
    parcels: list[str]
    refused: str
    booking: str
    wire: str


class Declined(Exception):
    """What the tool `offer` declares."""


class Full(Exception):
    """What the tool `book` lists as surely not applied."""


def build(
    address: str, witness: Witness, *, waits: bool, ttl: float = TTL, stall: float = 600.0, settle: float = 5.0
) -> Harness:
    """A harness with the agent `work`; an async one with `waits`."""
    harness = Harness(address, lease_ttl=ttl, stall_timeout=stall)
    tools = make_tools(harness, witness, settle)
    if waits:
        make_async_tools(harness, witness, settle, tools)
        make_async_agent(harness, tools)
    else:
        make_agent(harness, tools)
    return harness


def opened(folder: Path, *, waits: bool, by: str = "", world: World | None = None, **rest: Any) -> Harness:
    """A harness on the folder's database and witness."""
    return build(address_of(folder), Witness(folder / "witness", by=by, world=world), waits=waits, **rest)


def make_tools(harness: Harness, witness: Witness, settle: float) -> SimpleNamespace:
    def model(task: str) -> str:
        witness.note("read", "model")
        return f'{{"query": "{task}", "orders": ["ink", "paper"]}}'

    @harness.tool(effect="read")
    def search(query: str) -> list[str]:
        witness.note("read", "search")
        return hits_for(query)

    @harness.tool(effect="read")
    def quote(item: str) -> int:
        witness.note("read", "quote")
        return 100 * len(item)

    @harness.tool(effect="idempotent", timeout=60.0)
    def reserve(name: str) -> str:
        witness.apply("reserve")
        return f"seat of {name}"

    @harness.tool(effect="idempotent", retries=RETRIES)
    def ship(item: str, town: str) -> str:
        if not _refused_before(witness, f"ship {item}"):
            witness.note("refused", f"ship {item}")
            raise NotApplied("no van")
        witness.apply("ship")
        return f"{item} to {town}"

    @harness.tool(effect="external", errors=(Declined,), settle=settle)
    def offer(cents: int) -> str:
        witness.note("read", "offer")
        raise Declined("too little", cents)

    @offer.probe
    def _(cents: int) -> NotHappened:
        return NotHappened()

    @harness.tool(effect="external", not_applied=(Full,), settle=settle, retries=RETRIES)
    def book(room: str) -> str:
        if not _refused_before(witness, "book"):
            witness.note("refused", "book")
            raise Full(room)
        witness.send("book")
        return f"room {room}"

    @book.probe
    def _(room: str) -> Happened[str] | NotHappened:
        return Happened(f"room {room}") if witness.happened() else NotHappened()

    @harness.tool(effect="external", settle=settle)
    def wire(bank: str, cents: int) -> str:
        witness.send("wire")
        return f"{cents} to {bank}"

    return SimpleNamespace(
        model=model,
        search=search,
        quote=quote,
        reserve=reserve,
        ship=ship,
        offer=offer,
        book=book,
        wire=wire,
        pay=_make_pay(harness, witness, settle),
    )


def _make_pay(harness: Harness, witness: Witness, settle: float) -> Any:
    @harness.tool(effect="external", settle=settle)
    def pay(invoice: str, cents: int) -> Receipt:
        witness.send("pay")
        return Receipt(invoice, cents)

    @pay.probe
    def _(invoice: str, cents: int) -> Happened[Receipt] | NotHappened:
        return Happened(Receipt(invoice, cents)) if witness.happened() else NotHappened()

    return pay


def make_async_tools(harness: Harness, witness: Witness, settle: float, tools: SimpleNamespace) -> None:
    """Some of the same tools as coroutines; the others stay plain, so that an async agent has both."""

    async def model(task: str) -> str:
        await asyncio.sleep(0)
        witness.note("read", "model")
        return f'{{"query": "{task}", "orders": ["ink", "paper"]}}'

    @harness.tool(name="asearch", effect="read")
    async def search(query: str) -> list[str]:
        witness.note("read", "asearch")
        await asyncio.sleep(0)
        return hits_for(query)

    @harness.tool(name="apay", effect="external", settle=settle)
    async def pay(invoice: str, cents: int) -> Receipt:
        await asyncio.sleep(0)
        witness.send("apay")
        await asyncio.sleep(0)
        return Receipt(invoice, cents)

    @pay.probe
    async def _(invoice: str, cents: int) -> Happened[Receipt] | NotHappened:
        await asyncio.sleep(0)
        return Happened(Receipt(invoice, cents)) if witness.happened() else NotHappened()

    tools.model, tools.search, tools.pay = model, search, pay


def make_agent(harness: Harness, tools: SimpleNamespace) -> None:
    @harness.agent
    def work(run: Run, task: str) -> Report:
        plan = run.decide(tools.model, task, returns=Plan)
        run.plan(["scan", "order"])
        with run.step("scan"):
            hits = tools.search(plan.query)
        with run.step("scan"):
            hits += run.call(tools.search, plan.query)
            seat = run.call(tools.reserve.using(key="seat"), run.value("name", lambda: "Ada"))

        def order(item: str) -> Callable[[], Receipt]:
            return lambda: run.call(tools.pay, item, run.call(tools.quote, item))

        with run.step("order"):
            receipts = run.gather(*[order(item) for item in plan.orders])
            parcels = run.map(tools.ship, [(item, "Zug") for item in plan.orders])
        try:
            refused = run.call(tools.offer, 7)
        except Declined as error:
            refused = repr(error)
        run.context["seat"] = seat
        run.checkpoint("before the end", refs=["claim:c-17"])
        return Report(
            hits, seat, list(receipts), parcels, refused, run.call(tools.book, "12"), run.call(tools.wire, "B", 5)
        )


def make_async_agent(harness: Harness, tools: SimpleNamespace) -> None:
    @harness.agent
    async def work(run: AsyncRun, task: str) -> Report:
        plan = await run.decide(tools.model, task, returns=Plan)
        await run.plan(["scan", "order"])
        async with run.step("scan"):
            hits = await tools.search(plan.query)
        async with run.step("scan"):
            hits += await run.call(tools.search, plan.query)
            seat = await run.call(tools.reserve.using(key="seat"), await run.value("name", lambda: "Ada"))

        def order(item: str) -> Callable[[], Any]:
            async def ordered() -> Receipt:
                return await run.call(tools.pay, item, await run.call(tools.quote, item))

            return ordered

        async with run.step("order"):
            receipts = await run.gather(*[order(item) for item in plan.orders])
            parcels = await run.map(tools.ship, [(item, "Zug") for item in plan.orders])
        try:
            refused = await run.call(tools.offer, 7)
        except Declined as error:
            refused = repr(error)
        run.context["seat"] = seat
        await run.checkpoint("before the end", refs=["claim:c-17"])
        booking, wire = await run.call(tools.book, "12"), await run.call(tools.wire, "B", 5)
        return Report(hits, seat, list(receipts), parcels, refused, booking, wire)


def hits_for(query: str) -> list[str]:
    """What a search finds: more than fits into the row of a call."""
    return [f"{query} in a.log", f"{query} in b.log {'.' * 3000}"]


def _refused_before(witness: Witness, tool: str) -> bool:
    return witness.count("refused", tool) > 0
