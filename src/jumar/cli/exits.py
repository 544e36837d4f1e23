"""What the command line ends with.  An error has its own `exit_code`; a run's end is mapped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jumar.harness.results import RunInfo, WaitingOn

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

# Of several runs the first of these that one of them ends with is the code of all: what is damaged or has failed needs
# somebody at once, what only waits for a time needs nobody.
_WORST_FIRST = (DAMAGED, RUN_FAILED, REFUSED, USAGE, WAITS_FOR_PERSON, STOPPED_BY_PERSON, WAITS_FOR_TIME)


def exit_code(run: RunInfo, asked: Sequence[WaitingOn]) -> int:
    """The code for a run that this process stops driving, as it stands and with what it asks."""
    if run.status != "WAITING":
        return _BY_STATUS.get(run.status, REFUSED)
    from jumar.cli.waiting import waits_for_person

    return WAITS_FOR_PERSON if waits_for_person(run, asked) else WAITS_FOR_TIME


def worst(codes: Iterable[int]) -> int:
    """The one code for several runs; DONE where there are none."""
    found = set(codes)
    return next((code for code in _WORST_FIRST if code in found), max(found, default=DONE))
