"""A stand-in for a model, on this machine: it decides by rules, from what the searches found, and says what that cost.

It is asked as a real one would be: `diagnose` and `advise` get the findings and return JSON text with its usage.
Other logs lead it to other decisions.
"""

from __future__ import annotations

import json
import re
from collections import Counter

from jumar import Usage
from jumar.demo.stage import moment, witness

_FAILED_READ = re.compile(r"I/O error, dev (\w+),")
_OUT_OF_MEMORY = re.compile(r"out of memory: Killed process \d+ \(([\w.-]+)\)", re.IGNORECASE)
_ENOUGH = 3  # failed reads of one device that are no accident
_BUSY = 10  # failed requests from which visitors should be told


def diagnose(gateway: list[str], journal: list[str], requests: list[str]) -> tuple[str, Usage]:
    """What is broken, and what to do: `{"broken": ..., "action": "replace" | "restart" | "watch", "why": ...}`."""
    witness("decision", "diagnose")
    return _answer(diagnosis(gateway, journal, requests), gateway, journal, requests)


def diagnosis(gateway: list[str], journal: list[str], requests: list[str]) -> dict[str, str]:
    """What these findings mean, by rules."""
    reads = Counter(found[1] for line in journal if (found := _FAILED_READ.search(line)))
    killed = Counter(found[1] for line in journal if (found := _OUT_OF_MEMORY.search(line)))
    device, errors = reads.most_common(1)[0] if reads else ("", 0)
    if errors >= _ENOUGH:
        why = f"{errors} failed reads on {device}; {len(requests)} requests and {len(gateway)} upstream calls failed"
        return {"broken": device, "action": "replace", "why": why}
    if killed["gunicorn"]:
        why = f"the application ran out of memory {killed['gunicorn']} times"
        return {"broken": "gunicorn", "action": "restart", "why": why}
    return {"broken": "", "action": "watch", "why": "nothing fails often enough"}


def advise(why: str, order: str, requests: list[str]) -> tuple[str, Usage]:
    """What to do until the repair is done: `{"page": "maintenance" | "open", "text": ...}`."""
    witness("decision", "advise")
    moment("advising")
    return _answer(advice(order, requests), [why], [order], requests)


def advice(order: str, requests: list[str]) -> dict[str, str]:
    """What visitors should get until `order` is done, by rules."""
    if len(requests) < _BUSY:
        return {"page": "open", "text": f"stay open; {order} is on its way"}
    text = f"{len(requests)} requests failed: show the maintenance page until {order} is done"
    return {"page": "maintenance", "text": text}


def _answer(decision: dict[str, str], *prompt: list[str]) -> tuple[str, Usage]:
    text = json.dumps(decision)
    size = sum(len(line) for part in prompt for line in part)
    return text, Usage(input_tokens=size // 4, output_tokens=len(text) // 4)
