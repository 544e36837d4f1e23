"""Which phase may follow which, and which status may follow which.

Both tables are the whole rule: the engine asks `check_phase` before it builds an advance, the store guards with the
masks made from the same tables, and the diagrams in docs/architecture.md are generated from them.
"""

from __future__ import annotations

from jumar.core.states import Control, Phase, Status, mask
from jumar.errors import IllegalTransition

PHASES: dict[Phase, tuple[Phase, ...]] = {
    Phase.READY_TO_DECIDE: (Phase.DECISION_RECORDED, Phase.STOPPED),
    Phase.DECISION_RECORDED: (Phase.AWAITING_RESULTS, Phase.RESULTS_RECORDED, Phase.VERIFYING, Phase.STOPPED),
    Phase.AWAITING_RESULTS: (Phase.AWAITING_RESULTS, Phase.RESULTS_RECORDED, Phase.STOPPED),
    Phase.RESULTS_RECORDED: (Phase.READY_TO_DECIDE, Phase.VERIFYING, Phase.STOPPED),
    Phase.VERIFYING: (Phase.READY_TO_DECIDE, Phase.STOPPED),
    Phase.STOPPED: (),
    Phase.IN_CODE: (Phase.IN_CODE, Phase.STOPPED),
}

STATUSES: dict[Status, tuple[Status, ...]] = {
    Status.QUEUED: (Status.RUNNING, Status.PAUSED, Status.CANCELLED),
    Status.RUNNING: (
        Status.RUNNING,
        Status.QUEUED,
        Status.WAITING,
        Status.PAUSED,
        Status.FAILED,
        Status.COMPLETED,
        Status.CANCELLED,
    ),
    Status.WAITING: (Status.QUEUED, Status.RUNNING, Status.PAUSED, Status.CANCELLED),
    Status.PAUSED: (Status.QUEUED, Status.RUNNING, Status.CANCELLED),
    Status.FAILED: (Status.QUEUED, Status.RUNNING),
    Status.COMPLETED: (),
    Status.CANCELLED: (),
}

FINAL: frozenset[Status] = frozenset({Status.COMPLETED, Status.CANCELLED})
# A FAILED run may be taken up again once the cause is mended: what is recorded answers, failures included.
CLAIMABLE: frozenset[Status] = frozenset(Status) - FINAL
# What may be taken up although nobody asked for this very run.
UNASKED: frozenset[Status] = CLAIMABLE - {Status.FAILED, Status.PAUSED}
# What an operator may claim in order to obey his own order: there is something to pause, or to end.
ORDERABLE: dict[Control, frozenset[Status]] = {
    Control.PAUSE: frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING}),
    Control.CANCEL: CLAIMABLE,
}

# An advance that leaves the phase as it is (a checkpoint, a step, a retry) is legal everywhere.  A run that stopped is
# driven only while it is rolled back, when its status is RUNNING again.
PHASE_BEFORE: dict[Phase, int] = {
    after: mask(*(before for before, followers in PHASES.items() if after in followers or after is before))
    for after in Phase
}
STATUS_BEFORE: dict[Status, int] = {
    after: mask(*(before for before, followers in STATUSES.items() if after in followers)) for after in Status
}


def check_path(before: Phase, *path: Phase) -> None:
    """Raise IllegalTransition unless a run in phase `before` may go through all of `path`, one after the other."""
    for after in path:
        check_phase(before, after)
        before = after


def check_phase(before: Phase, after: Phase) -> None:
    """Raise IllegalTransition unless a run in phase `before` may go to `after`."""
    if PHASE_BEFORE[after] >> before & 1:
        return
    raise IllegalTransition(f"a run in phase {before.label} cannot go to {after.label}")
