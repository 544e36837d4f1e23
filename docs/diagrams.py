"""Draws the tables of `jumar.core` into docs/architecture.md: states as Mermaid diagrams, choices as tables.

`python docs/diagrams.py` rewrites what stands between the marks; a test checks that nothing is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jumar.core.call_states import CALL_STATES
from jumar.core.phases import PHASES, STATUSES
from jumar.core.states import Effect, ErrorClass
from jumar.core.strategies import STRATEGIES
from jumar.core.uncertain import JUDGEMENTS, RESOLUTION, Ended

PAGE = Path(__file__).with_name("architecture.md")
EFFECTS = (Effect.READ, Effect.WRITE, Effect.IDEMPOTENT, Effect.EXTERNAL)


def state_diagram(table: Mapping[Any, Iterable[Any]]) -> str:
    """A state table as a Mermaid diagram; None is the start."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for before, followers in table.items():
        name = "[*]" if before is None else before.name
        lines.extend(f"    {name} --> {after.name}" for after in followers)
    return "\n".join([*lines, "```"])


def judgement_table() -> str:
    """How an attempt's end is judged, by effect."""
    rows = {ended.value: [JUDGEMENTS[effect][ended].value for effect in EFFECTS] for ended in Ended}
    rows["**left uncertain**"] = [RESOLUTION[effect].value for effect in EFFECTS]
    return _by_effect("how the attempt ended", rows)


def strategy_table() -> str:
    """What is done about a call's failure, by effect and class of error."""
    rows = {each.label: [STRATEGIES[effect][each].label for effect in EFFECTS] for each in ErrorClass}
    return _by_effect("the failure is", rows)


def _by_effect(what: str, rows: Mapping[str, Iterable[str]]) -> str:
    lines = [f"| {what} | " + " | ".join(effect.label for effect in EFFECTS) + " |", "|---|" + "---|" * len(EFFECTS)]
    lines.extend(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())
    return "\n".join(lines)


def drawings() -> dict[str, str]:
    """Every drawing of the page, by its mark."""
    return {
        "statuses": state_diagram(STATUSES),
        "phases": state_diagram(PHASES),
        "calls": state_diagram(CALL_STATES),
        "judgements": judgement_table(),
        "strategies": strategy_table(),
    }


def redrawn(page: str) -> str:
    """The page with every drawing made anew."""
    for mark, drawing in drawings().items():
        pattern = re.compile(rf"(<!-- drawn: {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, count = pattern.subn(lambda match, drawing=drawing: f"{match[1]}{drawing}\n{match[2]}", page)
        if count != 1:
            raise SystemExit(f"the page has {count} places for the drawing {mark}")
    return page


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
