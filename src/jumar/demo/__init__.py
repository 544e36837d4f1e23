"""`jumar demo`: agents are killed five times, go on each time, and outsiders count what they really did.

No key and no network is needed. In the first act an agent orders a repair, in the second one another changes a file.
`agent` is the first, and worth reading first, `agent_fix` the second, `agent_loop` and `agent_fix_loop` the same as
loop agents; `play` runs and kills them; `service` is the outside service, a process of its own; `figures` sets what was
promised beside what was counted; `telling` shows it all to a person.
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

    `agent` is "repair", plain agents, or "operate", loop agents that do the same. `json` prints the figures and
    nothing else. `keep` names a fresh directory for everything that arises; without it a temporary one is used, and
    removed. `show` is given a store's address and a run's id, to print each run's timeline; `console` is a
    `rich.console.Console` to print on.
    """
    from jumar.demo.performance import perform

    return perform(agent, json=json, keep=keep, show=show, console=console)
