"""A stand-in for a model that is asked step by step, on this machine: it decides by rules, from what it is told.

It is asked as OpenAI's is, with messages, and answers as that one does, with a chat completion.  It has no memory: all
that it knows stands in the messages.  Twice it is wrong at first, as models are: it orders a part without saying for
which place, and its report forgets to name the order.  Both times it is told, and puts it right.
"""

from __future__ import annotations

import json

from jumar.demo.completions import Asked, Message, calls, completion, is_result, told_in
from jumar.demo.model import advice, diagnosis
from jumar.demo.stage import moment, witness

# Where in a site's folder it looks, and for what.
LOGS = {
    "logs/error.log": "upstream",
    "logs/journal.log": "I/O error|[Oo]ut of memory",
    "logs/access.log": '" 50[0-9] ',
}
_MACHINE = "config/machine.json"


def complete(messages: list[Message]) -> Message:
    """The next step: tool calls, or the report as JSON."""
    turn = 1 + sum(message["role"] == "assistant" for message in messages)
    witness("decision", f"turn {turn}")
    moment(f"turn {turn}")
    site, told = messages[0]["content"], told_in(messages)
    found = {asked["file"]: json.loads(text) for name, asked, text in told if name == "search" and is_result(text)}
    unread = [log for log in LOGS if f"{site}/{log}" not in found]
    if unread:
        return calls(messages, turn, [_search(f"{site}/{log}", LOGS[log]) for log in unread], "I look at the logs")
    gateway, journal, requests = (found[f"{site}/{log}"] for log in LOGS)
    decided = diagnosis(gateway, journal, requests)
    orders = [text for name, _, text in told if name == "order_repair"]
    number = next((text for text in orders if is_result(text)), None)
    if decided["action"] == "replace" and number is None:
        machine = f"{site}/{_MACHINE}"
        asked = _towards_an_order(decided["broken"], bool(orders), machine, found.get(machine))
        return calls(messages, turn, [asked], f"{decided['action']} {decided['broken']} ({decided['why']})")
    until = number if number is not None and messages[-1]["role"] == "user" else "the repair"
    report = {"diagnosis": decided, "order": number, "advice": advice(until, requests)}
    return completion(messages, {"role": "assistant", "content": json.dumps(report)}, "stop")


def _towards_an_order(part: str, was_tried: bool, machine: str, places: list[str] | None) -> Asked:
    """Order it; when that was refused, look the place up; then order it with the place."""
    if not was_tried:
        return "order_repair", {"part": part}
    if places is None:
        return _search(machine, f'"{part}"')
    return "order_repair", {"part": part, "place": places[0].strip()}


def _search(file: str, pattern: str) -> Asked:
    return "search", {"file": file, "pattern": pattern}
