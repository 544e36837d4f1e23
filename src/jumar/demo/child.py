"""A process of the demonstration that runs an agent: `run NAME` starts it, `resume` takes over what another process
left.

What it does with Jumar is one line; the rest tells the parent process how it goes.
"""

from __future__ import annotations

import sys
from typing import Any

from jumar.demo.stage import end_with_parent, say, stop_inside
from jumar.errors import JumarError


def main() -> int:
    """Run the agent, or go on with its last run; the exit code is 0 where the run is finished."""
    end_with_parent()
    from jumar.demo.agent import harness, repair
    from jumar.demo.agent_fix import fix
    from jumar.demo.agent_fix_loop import fix_by_turns
    from jumar.demo.agent_loop import operate

    agents: dict[str, Any] = {agent.__name__: agent for agent in (repair, operate, fix, fix_by_turns)}
    stop_inside("putting back", b"shop.d")
    try:
        with harness:
            if sys.argv[1] == "run":
                result = harness.run(agents[sys.argv[2]], "site")
            else:
                result = harness.resume("last", waiting=lambda seconds: say("waiting", seconds=seconds))
    except JumarError as error:
        say("refused", error=str(error))
        return error.exit_code
    say("ended", status=result.status, error=result.error_message)
    return 0 if result.status == "COMPLETED" else 1


if __name__ == "__main__":
    sys.exit(main())
