"""What the command line ends with.  An error has its own `exit_code`; a run's end is mapped here."""

from __future__ import annotations

DONE = 0
RUN_FAILED = 1
USAGE = 2
WAITS_FOR_PERSON = 3
REFUSED = 4
DAMAGED = 5
WAITS_FOR_TIME = 6
STOPPED_BY_PERSON = 7
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
PIPE_CLOSED = 141  # 128 + SIGPIPE
TERMINATED = 143  # 128 + SIGTERM

_BY_STATUS = {
    "COMPLETED": DONE,
    "FAILED": RUN_FAILED,
    "PAUSED": STOPPED_BY_PERSON,
    "CANCELLED": STOPPED_BY_PERSON,
}


def exit_code(status: str, wake_at: int | None) -> int:
    """The code for a run that this process stops driving, from its status and when it wakes."""
    if status == "WAITING":
        return WAITS_FOR_PERSON if wake_at is None else WAITS_FOR_TIME
    return _BY_STATUS.get(status, REFUSED)
