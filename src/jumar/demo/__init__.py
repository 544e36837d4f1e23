"""`jumar demo`: an agent is killed three times, goes on each time, and outsiders count what it really did.

No key and no network is needed. `agent` is the agent, and worth reading first, `agent_loop` the same as a loop agent;
`play` runs and kills either; `service` is the outside service, a process of its own; `figures` sets what was promised
beside what was counted; `telling` shows it all to a person.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def run_demo(
    agent: str = "repair",
    *,
    json: bool = False,
    keep: str | None = None,
    show: Callable[[str, str], None] | None = None,
    console: Any = None,
) -> int:
    """Run the demonstration and tell about it on standard output.

    Answers the exit code: 0 where every promise was kept, 1 where one was not. Raises UsageError where `keep` cannot be
    used, another JumarError where the demonstration could not be finished.

    `agent` is "repair", a plain agent, or "operate", a loop agent that does the same. `json` prints the figures and
    nothing else. `keep` names a fresh directory for everything that arises; without it a temporary one is used, and
    removed. `show` is given a store's address and a run's id, to print the run's timeline; `console` is a
    `rich.console.Console` to print on.
    """
    from jumar.demo.performance import perform

    return perform(agent, json=json, keep=keep, show=show, console=console)
