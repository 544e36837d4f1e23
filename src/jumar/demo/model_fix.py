"""A stand-in for the model of the second act, on this machine: it decides by rules how a config is to be changed.

Its first answer is cut off, as models' answers are at times, and has nothing in it; nobody notices before the file is
written.  It does better once it is told, by the run's brief, what came of that.
"""

from __future__ import annotations

import json
from typing import Any

from jumar import Usage
from jumar.demo.completions import Asked, Message, calls, completion, is_result, told_in
from jumar.demo.stage import look, witness

REFUSED = "the files are not as they should be"  # what a brief says where a tool's `verify` has refused its files
_FILE = "config/shop.ini"
_MODE = "0640"


def maintenance(config: list[str], brief: str) -> tuple[str, Usage]:
    """The config, given by its lines, with the maintenance page on: `{"text": ..., "mode": ...}`."""
    witness("decision", "again, with the brief" if brief else "the config")
    answer = json.dumps(_wanted(config, brief))
    return answer, Usage(input_tokens=(len(brief) + sum(map(len, config))) // 4, output_tokens=len(answer) // 4)


def complete(messages: list[Message]) -> Message:
    """The next step, as OpenAI's models answer: tool calls, or the report as JSON."""
    brief = "".join(message["content"] for message in messages if message["role"] == "system")
    turn = 1 + sum(message["role"] == "assistant" for message in messages)
    witness("decision", f"turn {turn}")
    told = told_in(messages)
    found = next((json.loads(text) for name, _, text in told if name == "search" and is_result(text)), None)
    sizes = [int(text) for name, _, text in told if name == "rewrite" and is_result(text)]
    if found is None:
        site = next(message["content"] for message in messages if message["role"] == "user")
        return calls(messages, turn, [("search", {"file": f"{site}/{_FILE}", "pattern": ""})], "I look at the config")
    if not sizes:
        asked: Asked = ("rewrite", {"name": "shop", **_wanted(found, brief)})
        return calls(messages, turn, [asked], "I turn the maintenance page on")
    report = {"file": _FILE, "size": sizes[0], "page": "maintenance"}
    return completion(messages, {"role": "assistant", "content": json.dumps(report)}, "stop")


def _wanted(config: list[str], brief: str) -> dict[str, Any]:
    if REFUSED not in brief:
        return {}
    look("asked again")
    witness("brief", brief)
    return {"text": with_maintenance("".join(f"{line}\n" for line in config)), "mode": _MODE}


def with_maintenance(text: str) -> str:
    """A config's text with the maintenance page on, and nothing else changed."""
    return text.replace("enabled = no", "enabled = yes")
