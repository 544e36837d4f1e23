"""The agent of `jumar demo`: it searches a site's logs, decides what is broken, orders a repair, and reports.

Read it as an example. What is special to the demonstration is `witness` and `moment`, from `stage`: the first lets
somebody outside count what is really done, the second is where the process can be killed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from jumar import Happened, Harness, NotHappened, Run, current_call
from jumar.demo import model
from jumar.demo.client import find_order, place_order
from jumar.demo.stage import moment, witness

SITE = "site"  # the folder that the agents may change

# The store is the one JUMAR_STORE names. A process that is silent for two seconds counts as dead; another may go on.
harness = Harness(workspace=SITE, lease_ttl=2.0)


@dataclass(frozen=True)
class Diagnosis:
    """What is broken, and what to do: replace, restart or watch."""

    broken: str
    action: str
    why: str


@dataclass(frozen=True)
class Advice:
    """Which page visitors get until the repair is done."""

    page: str
    text: str


@dataclass(frozen=True)
class Report:
    """What the agent reports; `order` is the repair's number, None where none was ordered."""

    diagnosis: Diagnosis
    order: str | None
    advice: Advice


@harness.tool(effect="read")
def search(file: str, pattern: str) -> list[str]:
    """The lines of a file that match a pattern."""
    witness("search", f"{pattern} in {file}")
    moment(f"searching {file}")
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if re.search(pattern, line)]


@harness.tool(effect="external", not_applied=(ConnectionRefusedError,))
def order_repair(part: str, place: str) -> str:
    """Order a repair from the outside service; answers the order's number.  Ordering twice would be paid twice."""
    order = place_order(part, place, this_calls_key())
    moment("ordered")
    return str(order["number"])


@order_repair.probe
def _(part: str, place: str) -> Happened[str] | NotHappened:
    """Asked when nobody knows whether the order went out: the service can tell, by the call's key."""
    order = find_order(this_calls_key())
    return NotHappened() if order is None else Happened(str(order["number"]))


def this_calls_key() -> str:
    """The same for every attempt of one call, in whatever process: what the service can know the order by."""
    call = current_call()
    assert call is not None, "only a call of the agent's has a key"
    return call.idempotency_key


@harness.agent(tools=[search, order_repair])
def repair(run: Run, site: str) -> Report:
    """Find out what is wrong with the site and have it repaired."""
    moment("started")
    run.plan(["scan", "repair"])

    with run.step("scan"):
        gateway, journal, requests = run.gather(
            search.bind(f"{site}/logs/error.log", "upstream"),
            search.bind(f"{site}/logs/journal.log", "I/O error|[Oo]ut of memory"),
            search.bind(f"{site}/logs/access.log", '" 50[0-9] '),
        )
        moment("searched")
        run.checkpoint("evidence is in", refs=["file:error.log", "file:journal.log", "file:access.log"])

    diagnosis = run.decide(model.diagnose, gateway, journal, requests, returns=Diagnosis)

    order = None
    if diagnosis.action == "replace":
        with run.step("repair"):
            where = run.call(search, f"{site}/config/machine.json", f'"{diagnosis.broken}"')
            order = run.call(order_repair, diagnosis.broken, where[0].strip())

    advice = run.decide(model.advise, diagnosis.why, order or "no order", requests, returns=Advice)
    return Report(diagnosis, order, advice)
