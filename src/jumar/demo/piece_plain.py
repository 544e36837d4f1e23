"""The piece with plain agents, `agent.repair` and `agent_fix.fix`: `jumar demo`."""

from __future__ import annotations

from typing import Any

from jumar import Harness
from jumar.demo.counts import Counts
from jumar.demo.piece import (
    END,
    SEARCHES,
    Act,
    Moment,
    Piece,
    Promise,
    Tally,
    Told,
    order_promises,
    probe_told,
    repair_doubts,
    repair_reported,
    takeover_promise,
)
from jumar.demo.second_act import second_act

_MOMENTS = (
    Moment("searched", "just after its search results were recorded"),
    Moment("ordered", "after the order went out, before that was recorded"),
    Moment("advising", "while it waits for the model's answer", ("decision", "advise")),
)


def _promises(tally: Tally) -> tuple[Promise, ...]:
    counts = tally.counts
    return (
        Promise("searches made", SEARCHES, counts.searches.total(), "each one once, over all processes"),
        *order_promises(counts),
        Promise("times the first decision was asked for", 1, counts.decisions["diagnose"]),
        Promise(
            "times the second decision was asked for",
            1 + tally.decisions_again,
            counts.decisions["advise"],
            "asked twice, because the first answer was never recorded; recorded once",
        ),
        takeover_promise(tally, len(_MOMENTS)),
    )


def _seen(moment: str, counts: Counts, harness: Harness) -> list[Told]:
    if moment == "searched":
        return [("work", f"{counts.searches.total()} searches are made and recorded.")]
    if moment == "ordered":
        decided = _diagnosis(harness)
        return [
            ("work", "No search is made again: their results are on record."),
            ("work", f"The model decides: {decided['action']} {decided['broken']} ({decided['why']})."),
            ("work", f"The service takes the order and calls it {', '.join(counts.numbers)}."),
        ]
    if moment == END:
        return []
    return [*probe_told(counts), ("work", "The model is asked what to do until the repair is done.")]


def _diagnosis(harness: Harness) -> dict[str, Any]:
    decided: dict[str, Any] = next(call.result for call in harness.show("last").calls if call.tool == "diagnose")
    return decided


_REPAIR = Act(
    agent="repair",
    introduction=(
        "It searches a web shop's logs, decides what is broken, orders a repair from an outside service, and reports. "
        "At three bad moments its process is ended with SIGKILL, and each time another process goes on."
    ),
    searches=SEARCHES,
    decisions=2,
    moments=_MOMENTS,
    recorded=(
        ("search", "SUCCEEDED", SEARCHES),
        ("order_repair", "SUCCEEDED", 1),
        ("diagnose", "SUCCEEDED", 1),
        ("advise", "SUCCEEDED", 1),
    ),
    promises=_promises,
    seen=_seen,
    reports=repair_reported,
    doubts=repair_doubts,
)

PLAIN = Piece("jumar demo", (_REPAIR, second_act("fix", "maintenance", 2, "Another agent of the same harness")))
