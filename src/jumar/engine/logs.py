"""What Jumar itself logs, on the logger "jumar".

A run's start, resumption, takeover and end at INFO; an attempt that is tried again, a call that may have happened and
a lease that cannot be renewed at WARNING.  Each record has `run_id` and `call_id` ("-" where it concerns no single
call).  A recorded call that goes well logs nothing, so that logging costs a run's calls nothing; what happened call
by call is in the trace.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import logging

INFO, WARNING = 20, 30
NOTHING = "-"


@lru_cache(maxsize=1)
def logger() -> logging.Logger:
    """The logger "jumar".  It is made at its first use, because a program that runs nothing needs no `logging`."""
    import logging

    made = logging.getLogger("jumar")
    made.addHandler(logging.NullHandler())  # where the program sets no logging up, a library is silent
    return made


SCANS = "jumar.scan"  # the logger that long scans are told on, so that a progress line can listen to these alone


def log(level: int, run_id: str, call_id: str | None, message: str, *args: Any, scan: bool = False) -> None:
    """Log one record about a run, and about one of its calls where `call_id` is given.  It never raises."""
    try:
        to = logger().getChild(SCANS.rpartition(".")[2]) if scan else logger()
        if to.isEnabledFor(level):
            to.log(level, message, *args, extra={"run_id": run_id, "call_id": call_id or NOTHING}, stacklevel=2)
    except Exception:  # a filter or handler of the program's: a run, and what it has sent, must not hang on that
        return
