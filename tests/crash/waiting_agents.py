"""Agents that wait for people, for times and for each other's actions, to be crashed at every point.

Each agent is a script, a generator that yields what it wants done and is sent the answer, so that a plain and an async
agent are one text.  The tools act on a witness that also tells which run a line is of.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import msgspec

from jumar import AsyncRun, Happened, Harness, NotApplied, NotHappened, Run
from jumar.engine.scope import current_call
from jumar.errors import CallRejected, IdentityConflict
from jumar.testing.crash import World
from jumar.testing.witness import Witness
from tests.crash.agents import TTL
from tests.crash.places import address_of

Script = Callable[[Any], Generator[tuple[Any, ...], Any, Any]]
APPROVED = frozenset({"pay", "wire", "ship"})
DEFAULT, EXPIRES = 3, 500.0


class Receipt(msgspec.Struct, frozen=True):
    what: str
    cents: int


class Declined(Exception):
    """What `order` and `deliver` declare."""


class RunWitness(Witness):
    """A witness whose lines tell of which run they are."""

    def _append(self, file: int, what: str, tool: str, key: str) -> None:
        call = current_call()
        self._by = "" if call is None else call.run_id  # the file is locked here
        super()._append(file, what, tool, key)


def opened(
    folder: Path, script: Script, *, waits: bool, by: str = "", world: World | None = None, ttl: float = TTL
) -> Harness:
    """A harness on the folder's database and witness whose agent `work` runs the script."""
    harness = Harness(address_of(folder), lease_ttl=ttl)
    tools = make_tools(harness, RunWitness(folder / "witness", by=by, world=world), waits=waits)
    if waits:

        @harness.agent(name="work")
        async def awaited(run: AsyncRun, task: Any) -> Any:
            return await _aplay(run, tools, script(task))

    else:

        @harness.agent(name="work")
        def work(run: Run, task: Any) -> Any:
            return _play(run, tools, script(task))

    return harness


def maker(script: Script) -> Callable[..., Harness]:
    """What makes harnesses whose agent runs the script."""
    return lambda folder, **options: opened(folder, script, **options)


# --- Tools. ---


def make_tools(harness: Harness, witness: Witness, *, waits: bool) -> dict[str, Any]:
    """The tools by their names; coroutines where the agent `waits`."""
    tools: dict[str, Any] = {}

    def tool(**options: Any) -> Callable[[Any], Any]:
        def declare(body: Any) -> Any:
            tools[body.__name__] = made = harness.tool(**options)(_awaited(body) if waits else body)
            return made

        return declare

    @tool(effect="read")
    def look(what: str) -> str:
        witness.note("read", f"look {what}")
        return f"{what} seen"

    @tool(effect="idempotent")
    def reserve(name: str, seats: int = 1) -> str:
        witness.apply(f"reserve {name}")
        return f"{seats} for {name}"

    _approved_tools(tool, witness)
    _named_tools(tool, witness)
    _failing_tools(tool, witness)
    return tools


def _approved_tools(tool: Any, witness: Witness) -> None:
    @tool(effect="external", approval="always", settle=5.0)
    def pay(what: str, cents: int) -> Receipt:
        witness.send(f"pay {what}")
        return Receipt(what, cents)

    @pay.probe
    def _(what: str, cents: int) -> Any:
        return Happened(Receipt(what, cents)) if witness.happened() else NotHappened()

    @tool(effect="external", approval="always", settle=5.0)
    def wire(bank: str, cents: int) -> str:
        witness.send(f"wire {bank}")
        return f"{cents} to {bank}"

    @tool(effect="idempotent", approval="always", retries=9)
    def ship(item: str) -> str:
        if witness.is_first():
            raise NotApplied("no van")
        witness.apply(f"ship {item}")
        return f"{item} shipped"


def _named_tools(tool: Any, witness: Witness) -> None:
    @tool(effect="external", settle=5.0, identity=lambda what, cents: f"bill:{what}")
    def bill(what: str, cents: int) -> Receipt:
        witness.send(f"bill {what} {current_call().run_id}")  # type: ignore[union-attr]
        return Receipt(what, cents)

    @tool(effect="external", settle=5.0, identity=lambda what, cents: f"title:{what}", identity_scope="store")
    def title(what: str, cents: int) -> Receipt:
        witness.send(f"title {what}")
        return Receipt(what, cents)

    for each in (bill, title):

        @each.probe
        def _(what: str, cents: int) -> Any:
            return Happened(Receipt(what, cents)) if witness.happened() else NotHappened()

    @tool(effect="idempotent", identity=lambda what: f"stamp:{what}", identity_scope="store")
    def stamp(what: str) -> str:
        witness.apply(f"stamp {what}")
        return f"{what} stamped"


def _failing_tools(tool: Any, witness: Witness) -> None:
    """Tools that decline until somebody has mended the cause."""

    @tool(effect="external", errors=(Declined,), settle=5.0)
    def order(item: str) -> str:
        if not witness.count("mended"):
            raise Declined(item)
        witness.send(f"order {item}")
        return f"{item} ordered"

    @order.probe
    def _(item: str) -> Any:
        return Happened(f"{item} ordered") if witness.happened() else NotHappened()

    @tool(effect="idempotent", errors=(Declined,))
    def deliver(item: str) -> str:
        if item == "paper" and not witness.count("mended"):
            raise Declined(item)
        witness.apply(f"deliver {item}")
        return f"{item} delivered"


def _awaited(body: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(body)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return body(*args, **kwargs)

    return awaited


# --- Scripts. ---


def asks(task: Any) -> Any:
    """Questions, one of which nobody answers, two at once; and sleeps, a short and a long one."""
    whose = yield "ask", "Whose is it?", {"choices": ["Ada", "Bob"]}
    yield "sleep", 1.5
    many = yield "ask", "How many?", {"returns": int, "expires": EXPIRES, "default": DEFAULT}
    seat = yield "call", "reserve", whose, many
    yield "sleep", 100.0
    both = yield "gather", (_asking("left?"), _asking("right?"))
    return [whose, many, seat, list(both)]


def _asking(question: str) -> Script:
    def asking(task: Any) -> Any:
        return (yield "ask", question)

    return asking


def approvals(task: Any) -> Any:
    """Calls that a person approves, rejects, changes, and is asked about again where they may have happened."""
    rent = yield "call", "pay", "rent", 700
    try:
        fine = yield "call", "pay", "fine", 9
    except CallRejected as error:
        fine = error.what
    parcel = yield "call", "ship", "ink"
    tip = yield "call", "pay", "tip", 5
    sent = yield "call", "wire", "B", 50
    seen = yield "call", "look", "all"
    return msgspec.to_builtins([rent, fine, parcel, tip, sent, seen])


def names(task: Any) -> Any:
    """Actions with names, wanted more than once in a run and by more than one run."""
    first = yield "call", "bill", "x", 5
    again = yield "call", "bill", "x", 5
    both = yield "gather", (_billing("y", 6), _billing("y", 6))
    deed = yield "call", "title", "T", 9
    mark = yield "call", "stamp", "S"
    try:
        other = yield "call", "bill", "x", 99
    except IdentityConflict:
        other = "a conflict"
    return msgspec.to_builtins([first, again, list(both), deed, mark, other])


def _billing(what: str, cents: int) -> Script:
    def billing(task: Any) -> Any:
        return (yield "call", "bill", what, cents)

    return billing


def errands(task: Any) -> Any:
    """A little of everything, one after the other."""
    seen = yield "call", "look", "all"
    rent = yield "call", "pay", "rent", 700
    whose = yield "ask", "Whose is it?"
    seat = yield "call", "reserve", whose
    bill = yield "call", "bill", "x", 5
    yield "sleep", 100.0
    deed = yield "call", "title", "T", 9
    return msgspec.to_builtins([seen, rent, whose, seat, bill, deed])


def questions(task: Any) -> Any:
    """Little more than what people are asked: an approval, a question, and a call that may have happened."""
    try:
        rent = yield "call", "pay", "rent", 700
    except CallRejected:
        rent = None
    whose = yield "ask", "Whose is it?"
    parcel = yield "call", "ship", "ink"
    return msgspec.to_builtins([rent, whose, parcel])


def rivals(task: Any) -> Any:
    """The same action, with other arguments in each run."""
    try:
        deed = yield "call", "title", "T", int(task[-1])
    except IdentityConflict:
        deed = "a conflict"
    mark = yield "call", "stamp", "S"
    return msgspec.to_builtins([deed, mark])


def fails(task: Any) -> Any:
    """An order that is declined until the cause is mended."""
    seen = yield "call", "look", "shop"
    seat = yield "call", "reserve", "Ada"
    done = yield "call", "order", "ink"
    return [seen, seat, done, (yield "call", "reserve", "Bob")]


def fails_in_a_map(task: Any) -> Any:
    """Three deliveries side by side, one of which is declined until the cause is mended."""
    seat = yield "call", "reserve", "Ada"
    done = yield "map", "deliver", ["ink", "paper", "pens"]
    return [seat, done, (yield "call", "reserve", "Bob")]


def apologises(task: Any) -> Any:
    """An order that is declined, after which something else is done, so that it cannot be made again."""
    try:
        return (yield "call", "order", "ink")
    except Declined:
        yield "call", "reserve", "sorry"
        raise


# --- Playing a script. ---


def _asked(tools: dict[str, Any], wish: tuple[Any, ...]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The method of a run, and its arguments, that a wish stands for."""
    method, *args = wish
    named = args.pop() if args and isinstance(args[-1], dict) else {}
    if method in ("call", "map"):
        args[0] = tools[args[0]]
    return method, tuple(args), named


def _play(run: Run, tools: dict[str, Any], steps: Generator[tuple[Any, ...], Any, Any]) -> Any:
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            wish = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as stop:
            return stop.value
        answer = error = None
        method, args, named = _asked(tools, wish)
        try:
            if method == "gather":
                answer = run.gather(*[functools.partial(_play_part, run, tools, each) for each in args[0]])
            elif method == "step":
                with run.step(args[0]):
                    answer = _play_part(run, tools, args[1])
            else:
                answer = getattr(run, method)(*args, **named)
        except Exception as raised:
            error = raised


def _play_part(run: Run, tools: dict[str, Any], script: Script) -> Any:
    return _play(run, tools, script(None))


async def _aplay(run: AsyncRun, tools: dict[str, Any], steps: Generator[tuple[Any, ...], Any, Any]) -> Any:
    answer: Any = None
    error: Exception | None = None
    while True:
        try:
            wish = steps.send(answer) if error is None else steps.throw(error)
        except StopIteration as stop:
            return stop.value
        answer = error = None
        method, args, named = _asked(tools, wish)
        try:
            if method == "gather":
                answer = await run.gather(*[functools.partial(_aplay_part, run, tools, each) for each in args[0]])
            elif method == "step":
                async with run.step(args[0]):
                    answer = await _aplay_part(run, tools, args[1])
            else:
                answer = await getattr(run, method)(*args, **named)
        except Exception as raised:
            error = raised


async def _aplay_part(run: AsyncRun, tools: dict[str, Any], script: Script) -> Any:
    return await _aplay(run, tools, script(None))
