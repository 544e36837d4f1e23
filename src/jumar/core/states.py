"""The small closed vocabularies of the protocol, as integers because that is what a row stores.

The numbers are part of the on-disk format: never renumber, only add.
"""

from __future__ import annotations

from enum import IntEnum


class Label(IntEnum):
    """An integer on disk, a lower-case word for people: `Status.WAITING.label == "waiting"`."""

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")


class Status(Label):
    """Where a run stands as a whole."""

    QUEUED = 0
    RUNNING = 1
    WAITING = 2
    PAUSED = 3
    FAILED = 4
    COMPLETED = 5
    CANCELLED = 6


class Phase(Label):
    """Where a run stands inside its agent.  Loop agents walk the table in `phases`; a function agent is IN_CODE."""

    READY_TO_DECIDE = 0
    DECISION_RECORDED = 1
    AWAITING_RESULTS = 2
    RESULTS_RECORDED = 3
    VERIFYING = 4
    STOPPED = 5
    IN_CODE = 6


class CallState(Label):
    """What is known of one call."""

    PLANNED = 0
    AWAITING = 1
    STARTED = 2
    SUCCEEDED = 3
    FAILED = 4
    UNCERTAIN = 5
    REJECTED = 6
    COMPENSATED = 7


class CallKind(Label):
    """What a call is made of."""

    DECISION = 0
    TOOL = 1
    COMPENSATION = 2
    ASK = 3
    SLEEP = 4
    VALUE = 5
    CHECKPOINT = 6
    CHILD = 7
    PLAN = 8


class Effect(Label):
    """What repeating a call would do."""

    READ = 0
    WRITE = 1
    IDEMPOTENT = 2
    EXTERNAL = 3


class Control(Label):
    """What an operator has asked of a run; it only rises."""

    NONE = 0
    PAUSE = 1
    CANCEL = 2


class Level(Label):
    """How much of a run a checkpoint stands for."""

    TASK = 0
    STEP = 1
    TOOL = 2


class ErrorClass(Label):
    """How an error is treated; see `failures`."""

    TRANSIENT = 0
    RATE_LIMITED = 1
    PERMANENT = 2
    POLLUTED = 3
    PARTIAL = 4
    BUDGET = 5
    CANCELLED = 6


class RequestKind(Label):
    """What somebody is asked for."""

    RESOLVE = 0
    APPROVAL = 1
    ASK = 2
    BUDGET = 3
    UNDO = 4


class Verdict(Label):
    """How a request was answered."""

    HAPPENED = 0
    NOT_HAPPENED = 1
    APPROVE = 2
    REJECT = 3
    VALUE = 4
    WITHDRAWN = 5


class EventKind(Label):
    """What no call row tells.  Events are read by people and dashboards; nothing ever decides from one."""

    CREATED = 0
    CLAIMED = 1
    TAKEN_OVER = 2
    CALL_UNCERTAIN = 3
    RETRY = 4
    REQUESTED = 5
    ANSWERED = 6
    WAITING = 7
    RELEASED = 8
    COMPLETED = 9
    FAILED = 10
    PROMPT_CHANGED = 11
    STEP_STARTED = 12
    STEP_ENDED = 13
    DIVERGED = 14
    PROBED = 15
    CALL_STARTED = 16
    ORDERED = 17
    PAUSED = 18
    CANCELLED = 19
    REOPENED = 20
    IDENTITY_HELD = 21
    ROLLBACK_STARTED = 22
    ROLLED_BACK = 23
    RESTORED = 24
    PUT_BACK = 25
    COMPENSATED = 26
    FORKED = 27
    DRIFTED = 28
    FILES_HELD = 29
    UNCAPTURED = 30
    ARRIVED = 31
    MOVED_AWAY = 32
    MATERIALISED = 33
    WRITTEN_BEHIND = 34


class Storage(Label):
    """Where a checkpoint is kept first."""

    COLD = 0
    HOT = 1


class Strategy(Label):
    """What is done about a failure: files and effects are undone, the call is made again, or the rest goes on."""

    ROLLBACK = 0
    RETRY = 1
    FORWARD = 2


class IdentityScope(Label):
    """How far the name of an action reaches: its own run, or every run of the store."""

    RUN = 0
    STORE = 1


def mask(*members: IntEnum) -> int:
    """The set of `members` as bits, so that a guard in SQL can ask `(1 << column) & mask`."""
    bits = 0
    for member in members:
        bits |= 1 << member
    return bits
