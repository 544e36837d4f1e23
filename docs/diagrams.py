"""Draws the state tables of `jumar.core` as Mermaid diagrams into docs/architecture.md.

`python docs/diagrams.py` rewrites what stands between the marks; a test checks that nothing is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jumar.core.call_states import CALL_STATES
from jumar.core.phases import PHASES, STATUSES
from jumar.core.states import Effect
from jumar.core.uncertain import JUDGEMENTS, RESOLUTION, Ended

PAGE = Path(__file__).with_name("architecture.md")


def state_diagram(table: Mapping[Any, Iterable[Any]]) -> str:
    """A state table as a Mermaid diagram; None is the start."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for before, followers in table.items():
        name = "[*]" if before is None else before.name
        lines.extend(f"    {name} --> {after.name}" for after in followers)
    return "\n".join([*lines, "```"])


def judgement_table() -> str:
    """How an attempt's end is judged, by effect."""
    effects = (Effect.READ, Effect.IDEMPOTENT, Effect.EXTERNAL)
    lines = [
        "| how the attempt ended | " + " | ".join(effect.label for effect in effects) + " |",
        "|---|" + "---|" * len(effects),
    ]
    for ended in Ended:
        cells = " | ".join(JUDGEMENTS[effect][ended].value for effect in effects)
        lines.append(f"| {ended.value} | {cells} |")
    cells = " | ".join(RESOLUTION[effect].value for effect in effects)
    lines.append(f"| **left uncertain** | {cells} |")
    return "\n".join(lines)


def drawings() -> dict[str, str]:
    """Every drawing of the page, by its mark."""
    return {
        "statuses": state_diagram(STATUSES),
        "phases": state_diagram(PHASES),
        "calls": state_diagram(CALL_STATES),
        "judgements": judgement_table(),
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
