"""The piece with loop agents, `agent_loop.operate` and `agent_fix_loop.fix_by_turns`: `jumar demo --loop`."""

from __future__ import annotations

from jumar import Harness
from jumar.demo.counts import Counts
from jumar.demo.model_loop import LOGS
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

_DECISIONS = 6
_REPORTS = 2
_LAST_LOG = "logs/journal.log"

_MOMENTS = (
    Moment(
        f"searching site/{_LAST_LOG}",
        "in the middle of one of its searches, with the others on record",
        ("search", f"{LOGS[_LAST_LOG]} in site/{_LAST_LOG}"),
        searches=2,
    ),
    Moment("ordered", "after the order went out, before that was recorded"),
    Moment(
        f"turn {_DECISIONS}",
        "between what it was told of its report and its next decision",
        ("decision", f"turn {_DECISIONS}"),
    ),
)


def _promises(tally: Tally) -> tuple[Promise, ...]:
    counts = tally.counts
    return (
        Promise(
            "searches made",
            SEARCHES + tally.searches_again,
            counts.searches.total(),
            "the one that a process was killed in was made again; those on record were not",
        ),
        *order_promises(counts),
        Promise(
            "orders without a place that reached it",
            0,
            sum(not place for place in counts.places),
            "the model forgot the place, was told so, and put it right",
        ),
        Promise(
            "times the model was asked",
            _DECISIONS + tally.decisions_again,
            counts.decisions.total(),
            f"for {_DECISIONS} decisions, although killed {len(_MOMENTS)} times: one was asked for twice, because the "
            "first answer was never recorded",
        ),
        Promise(
            "times a report was verified",
            _REPORTS,
            counts.verdicts.total(),
            "the first was sent back with the reason, which outlived the process that was told it",
        ),
        takeover_promise(tally, len(_MOMENTS)),
    )


def _seen(moment: str, counts: Counts, harness: Harness) -> list[Told]:
    if moment == END:
        return []
    if moment == _MOMENTS[0].name:
        return [("work", f"The model asks for {counts.searches.total()} searches at once. Two of them are recorded.")]
    turns = harness.view("last").history
    if moment == "ordered":
        told = next(result.error for turn in turns for result in turn.results if result.state == "FAILED")
        return [
            ("work", "The search that was cut off is made again; those on record are not."),
            ("work", f"The model decides: {turns[1].decision.text}."),
            ("work", f"It orders without saying for which place. Nothing is sent; it is told: {told}"),
            ("work", "It looks the place up, and orders again."),
            ("work", f"The service takes the order and calls it {', '.join(counts.numbers)}."),
        ]
    return [
        *probe_told(counts),
        ("work", f"The model reports, and is told what is wrong with that: {turns[-1].verdict}."),
        ("work", "It is asked for another report."),
    ]


_OPERATE = Act(
    agent="operate",
    introduction=(
        "It is a loop agent: at each step a model decides, seeing what came of the steps before, and the harness does "
        "what it decided. It searches a web shop's logs, three at once, orders a repair from an outside service, and "
        "reports. The model makes two mistakes on the way, and is told. At three bad moments the process is ended with "
        "SIGKILL, and each time another process goes on."
    ),
    searches=SEARCHES,
    decisions=_DECISIONS,
    moments=_MOMENTS,
    recorded=(
        ("search", "SUCCEEDED", SEARCHES),
        ("order_repair", "SUCCEEDED", 1),
        ("order_repair", "FAILED", 1),
        ("decide", "SUCCEEDED", _DECISIONS),
        ("verify", "SUCCEEDED", _REPORTS),
    ),
    promises=_promises,
    seen=_seen,
    reports=repair_reported,
    doubts=repair_doubts,
)

LOOP = Piece(
    "jumar demo --loop", (_OPERATE, second_act("fix_by_turns", "decide", 4, "Another loop agent of the same harness"))
)
