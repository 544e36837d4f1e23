"""Agents that a sweep is pointed at: sound ones, and ones with a fault that only a restart shows.

What happens outside is told to a witness in the working directory, which is each run's own folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from jumar import AsyncRun, Decision, Happened, Harness, LoopView, NotHappened, Run, ToolCall
from jumar.testing import Witness

harness = Harness("sqlite:///elsewhere.db")
bank = Witness("ledger")


@harness.tool(effect="read")
def price(claim: str) -> int:
    bank.note("read", "price")
    return 700


@harness.tool(effect="external")
def pay(claim: str, cents: int) -> str:
    bank.send("pay")
    return f"paid {cents} for {claim}"


@pay.probe
def _(claim: str, cents: int) -> Happened[str] | NotHappened:
    return Happened(f"paid {cents} for {claim}") if bank.happened() else NotHappened()


@harness.tool(effect="external", settle=0, timeout=20.0)
def wire(cents: int) -> str:
    """Nobody can be asked about this one but a person."""
    bank.send("wire")
    return f"wired {cents}"


@harness.tool(effect="idempotent")
def notify(claim: str) -> str:
    bank.apply("notify")
    return f"told about {claim}"


@harness.agent(tools=[price, pay, notify])
def settle(run: Run, claim: str) -> list[str]:
    """A sound one."""
    with run.step("pay"):
        paid = run.call(pay, claim, run.call(price, claim))
    return [paid, run.call(notify, claim)]


@harness.agent(tools=[price, notify])
async def inform(run: AsyncRun, claims: list[str]) -> list[str]:
    """A sound one whose calls go side by side."""
    await run.gather(*[price.bind(claim) for claim in claims])
    return list(await run.map(notify, claims))


@harness.agent(tools=[wire])
def transfer(run: Run, cents: int) -> str:
    """A sound one that may need a person."""
    return run.call(wire, cents)


@harness.tool(effect="external", approval="always", settle=0, timeout=20.0)
def refund(cents: int) -> str:
    bank.send("refund")
    return f"refunded {cents}"


@refund.probe
def _(cents: int) -> Happened[str] | NotHappened:
    return Happened(f"refunded {cents}") if bank.happened() else NotHappened()


@harness.agent(tools=[refund])
def consults(run: Run, claim: str) -> list[str]:
    """A sound one that sleeps, and asks persons in between."""
    run.sleep(3600)
    cents = run.ask("How much?", returns=int)
    run.sleep(10)  # in place
    tone = run.ask("How polite?", choices=["very", "hardly"], expires=86_400, default="very")
    return [run.call(refund, cents), tone]


@harness.loop(tools=[price, notify])
def operator(view: LoopView) -> Decision:
    """A sound loop agent."""
    if view.step_index == 1:
        return Decision.act([ToolCall("price", {"claim": view.task}), ToolCall("notify", {"claim": view.task})])
    return Decision.finish([result.value for turn in view.history for result in turn.results])


# --- Faults that a restart shows. ---------------------------------------------------------------------------------


@harness.agent(tools=[price])
def mails(run: Run, claim: str) -> int:
    """It sends a mail by itself, and not in a tool."""
    with Path("mails").open("a") as file:
        file.write(f"about {claim}\n")
    return run.call(price, claim)


@harness.tool(effect="read")
def charge(claim: str) -> str:
    """It says that it only reads."""
    bank.send("charge")
    return f"charged for {claim}"


@harness.agent(tools=[charge])
def charges(run: Run, claim: str) -> str:
    return run.call(charge, claim)


@harness.agent(tools=[price])
def remembers(run: Run, claim: str) -> str:
    """Its output is different after a restart: a file tells it that it was here before."""
    been_here = Path("been here").exists()
    Path("been here").touch()
    run.call(price, claim)
    return "again" if been_here else "the first time"


@harness.agent(tools=[price])
def gives_up(run: Run, claim: str) -> None:
    """Its process ends by itself when it finds that there was another one before."""
    if Path("been here").exists():
        print("it is all too much", file=sys.stderr)
        os._exit(3)
    Path("been here").touch()
    run.call(price, claim)


# --- Agents that a sweep has no use for. --------------------------------------------------------------------------


@harness.agent(tools=[price, notify])
def wavers(run: Run, count: str) -> None:
    """It does one thing in the runs with an even number, and another in those with an odd one."""
    with Path(count).open("a") as file:
        file.write(".")
        number = file.tell()
    run.call(price if number % 2 else notify, "c-17")


@harness.agent
def fails(run: Run, claim: str) -> None:
    raise ValueError(f"{claim} is not to be settled")


@harness.agent
def exits(run: Run, claim: str) -> None:
    print("the last words", file=sys.stderr)
    os._exit(7)


@harness.agent
def hangs(run: Run, where: str) -> None:
    """It never ends, and neither does the process that it starts, whose number it writes down."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    Path(where).write_text(str(process.pid), "utf-8")
    threading.Event().wait()
