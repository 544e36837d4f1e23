"""Where a run may go back to, and what that takes: decided from its rows alone, before anything is done.

The target is a checkpoint on the run's line.  One that is damaged is passed over for the newest sound one before it.
Not every version will do.  A write that lies open there would be gone on with over files that are half its own, and a
decision of a loop agent that lies open there has calls that have ended since, of which only the new state is known.
Nothing may be in flight either, wherever on the line: what may have happened is settled first.

What the new head leaves behind falls into four: what acted outside and can be undone; what did and stands; what waits
for somebody and is no longer asked; and what was planned and will not be made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec
from msgspec import Struct

from jumar.core.call_states import ENDED
from jumar.core.changes import CallChange
from jumar.core.checksums import call_checksum, checkpoint_agrees, failure_bytes
from jumar.core.identities import did_nothing
from jumar.core.lines import Heads, counts, is_leftover, is_on_line, left_by
from jumar.core.records import CallRecord, CheckpointRecord, Failure, RequestRecord, RunRecord
from jumar.core.states import CallKind, CallState, Effect, ErrorClass, Level, Phase
from jumar.core.turns import DECIDE
from jumar.errors import CannotRollBack, CheckpointNotFound

_LEFT = Failure("RolledBack", "the run was rolled back before this call was made", ErrorClass.CANCELLED)
_IN_DECISION = (Phase.DECISION_RECORDED, Phase.AWAITING_RESULTS)
_SHOWN = 3  # how many calls or versions an error names


# --- The target. ----------------------------------------------------------------------------------------------------


class Point(Struct, frozen=True):
    """A version to go back to, and how the run stood there.  `damaged` are versions that were passed over."""

    version: int
    name: str
    phase: Phase
    step: int
    context: bytes | None = None
    tree: bytes | None = None
    environment: bytes | None = None
    damaged: tuple[int, ...] = ()


def find_point(
    run: RunRecord,
    checkpoints: Sequence[CheckpointRecord],
    calls: Sequence[CallRecord],
    to: int | str,
    *,
    first: Phase,
    needs_tree: bool = False,
    nearest: bool = False,
) -> Point:
    """The version that `to` means: a version, a checkpoint's name, or the label it was given.

    `first` is the phase that a run of this agent begins in.  With `needs_tree` it must have a snapshot of the files.
    With `nearest` the newest before it that will do is taken where it does not.
    CheckpointNotFound where nothing is meant, or several are; CannotRollBack where it cannot be gone back to.
    """
    search = _Search(run, checkpoints, calls, first, needs_tree)
    version = search.by_version(to) if isinstance(to, int) else search.by_name(to)
    return search.sound(version, nearest=nearest)


class _Search:
    def __init__(
        self,
        run: RunRecord,
        checkpoints: Sequence[CheckpointRecord],
        calls: Sequence[CallRecord],
        first: Phase,
        needs_tree: bool,
    ) -> None:
        self._run = run
        self._all = {each.version: each for each in checkpoints}
        if 0 not in self._all:
            self._all[0] = CheckpointRecord("start", Level.TASK, "start", version=0, phase=first)
            self._made_up = True
        else:
            self._made_up = False
        self._here = [version for version in sorted(self._all) if is_on_line(run.line, version)]
        self._calls = [call for call in calls if counts(run.line, call)]
        self._labels = labels(calls)
        self._needs_tree = needs_tree

    def by_version(self, version: int) -> int:
        run = self._run
        if not 0 <= version <= run.version:
            raise CheckpointNotFound(f"run {run.run_id} has no version {version}; it is at {run.version}")
        if not is_on_line(run.line, version):
            raise self._left(version)
        if version not in self._all:
            raise CheckpointNotFound(f"no checkpoint was kept at version {version}", hint=self._nearest(version))
        return version

    def by_name(self, name: str) -> int:
        found = {each.version for each in self._all.values() if each.name == name}
        found |= {version for version in self._labels.get(name, ()) if version in self._all}
        here = sorted(version for version in found if version in self._here)
        if len(here) == 1:
            return here[0]
        if here:
            versions = ", ".join(map(str, here))
            raise CheckpointNotFound(
                f"run {self._run.run_id} has several checkpoints {name!r}", hint=f"Give the version: {versions}."
            )
        if found:
            raise self._left(max(found))
        raise CheckpointNotFound(f"run {self._run.run_id} has no checkpoint {name!r}")

    def _left(self, version: int) -> CannotRollBack:
        return CannotRollBack(
            f"version {version} of run {self._run.run_id} was left behind by a rollback", hint=self._nearest(version)
        )

    def sound(self, asked: int, *, nearest: bool) -> Point:
        """The checkpoint of this version, or, where that is damaged, the newest one before it that will do."""
        damaged: list[int] = []
        for version in reversed([each for each in self._here if each <= asked]):
            record = self._all[version]
            if not self._is_intact(record):
                damaged.append(version)
                continue
            why = self._why_not(record)
            if why is None:
                return _point(record, tuple(damaged))
            if version == asked and not nearest:
                raise CannotRollBack(
                    f"run {self._run.run_id} cannot go back to version {version}: {why}", hint=self._nearest(version)
                )
        raise CannotRollBack(f"run {self._run.run_id} has no sound checkpoint at version {asked} or before")

    def _is_intact(self, record: CheckpointRecord) -> bool:
        return (self._made_up and record.version == 0) or checkpoint_agrees(record)

    def _why_not(self, record: CheckpointRecord) -> str | None:
        """Why a sound checkpoint on the line will not do, None where it does."""
        version = record.version
        if record.phase is Phase.STOPPED:
            return "the run had ended there"
        if self._needs_tree and record.tree is None:
            return "no snapshot of the files was kept there"
        lying_open = [call for call in self._calls if _is_open_at(call, version)]
        writes = [call.call_id for call in lying_open if call.effect is Effect.WRITE and call.attempt]
        if writes:
            return f"{_several(writes)} was being made"
        if record.phase in _IN_DECISION and self._has_planned(version):
            return "the calls of a decision were being made"
        return None

    def _has_planned(self, version: int) -> bool:
        """Whether the newest decision of this version has calls that had not ended by then; the number of a call's turn
        does not change, while the version that it began at is that of its newest attempt.
        """
        decided = [call for call in self._calls if call.kind is CallKind.DECISION and call.started_version <= version]
        if not decided:
            return False
        last = decided[-1]
        planned = [call for call in self._calls if call.kind is CallKind.TOOL and call.step == last.step]
        return any(call.state not in ENDED or (call.ended_version or 0) > version for call in planned)

    def _nearest(self, before: int) -> str | None:
        """A hint that names the newest version before this one that would do."""
        for version in reversed([each for each in self._here if each < before]):
            record = self._all[version]
            if self._is_intact(record) and self._why_not(record) is None:
                return f"The nearest before it is version {version} ({record.name})."
        return None


def _point(record: CheckpointRecord, damaged: tuple[int, ...]) -> Point:
    return Point(
        record.version,
        record.name,
        record.phase,
        record.step,
        record.context,
        record.tree,
        record.environment,
        damaged,
    )


_name_of = msgspec.json.Decoder(dict[str, object]).decode


def labels(calls: Iterable[CallRecord]) -> dict[str, list[int]]:
    """The versions of the checkpoints that the agent gave a label, by it."""
    found: dict[str, list[int]] = {}
    for call in calls:
        if call.kind is not CallKind.CHECKPOINT or call.args is None or call.ended_version is None:
            continue
        try:
            label = _name_of(call.args).get("name")
        except msgspec.MsgspecError:
            continue  # a damaged row names nothing
        if isinstance(label, str):
            found.setdefault(label, []).append(call.ended_version)
    return found


def _is_open_at(call: CallRecord, version: int) -> bool:
    """Whether a call on the line was begun at this version and not ended."""
    if call.started_version > version:
        return False
    return call.state not in ENDED or (call.ended_version or 0) > version


def first_phase(checkpoints: Sequence[CheckpointRecord], calls: Sequence[CallRecord]) -> Phase:
    """The phase that a run of this kind of agent begins in, told from its rows."""
    if checkpoints:
        return Phase.IN_CODE if checkpoints[0].phase is Phase.IN_CODE else Phase.READY_TO_DECIDE
    first = calls[0] if calls else None
    decides = first is not None and first.kind is CallKind.DECISION and (first.step, first.tool) == ("turn", DECIDE)
    return Phase.READY_TO_DECIDE if decides else Phase.IN_CODE


def return_point(
    run: RunRecord, checkpoints: Sequence[CheckpointRecord], calls: Sequence[CallRecord], level: Level, failed: int
) -> int:
    """The version that a rollback of this level returns to, of a run on whose line call number `failed` failed.

    To the task: the run as it was received.  To a step: the newest checkpoint before the first call made in it.  To a
    call: the newest one before it was sent.
    """
    here = [call for call in calls if counts(run.line, call)]
    call = next((each for each in here if each.seq == failed), None)
    if level is Level.TASK or call is None:
        return 0
    if level is Level.TOOL:
        bound = call.started_version - 1
    else:
        bound = min(each.started_version for each in here if _is_within(each.step, call.step)) - 1
    found = [each.version for each in checkpoints if each.version <= bound and is_on_line(run.line, each.version)]
    return max(found, default=0)


def failures_left_behind(run: RunRecord, calls: Sequence[CallRecord], failed: int) -> int:
    """How often the run went back from a failure of the same call as number `failed`."""
    call = next((each for each in calls if each.seq == failed), None)
    if call is None:
        return 0
    same = [each for each in calls if each.state is CallState.FAILED and _place(each) == _place(call)]
    return sum(not counts(run.line, each) for each in same)


def _place(call: CallRecord) -> tuple[str, str, str, bytes]:
    return call.branch, call.step, call.tool, call.args_digest


def _is_within(step: str, outer: str) -> bool:
    return step == outer or not outer or step.startswith(f"{outer}.")


# --- What it takes. --------------------------------------------------------------------------------------------------


def check_at_rest(run: RunRecord, calls: Iterable[CallRecord], what: str = "rolled back") -> None:
    """CannotRollBack where a call may have happened and nobody knows yet."""
    doubtful = [call.call_id for call in calls if _is_in_doubt(call)]
    if doubtful:
        raise CannotRollBack(
            f"run {run.run_id} cannot be {what}: whether {_several(doubtful)} happened is not known",
            hint="Resume the run, or answer what it asks (`jumar show RUN`), so that this is settled first.",
        )


def _is_in_doubt(call: CallRecord) -> bool:
    if call.effect is Effect.READ or call.state in ENDED:
        return False
    if call.state in (CallState.STARTED, CallState.UNCERTAIN):
        return True
    return not did_nothing(call.effect, call.attempt, call.failure)


class Undoing(Struct, frozen=True):
    """What acted outside and is left behind: calls to be undone, newest first, and those that stand, with why."""

    undo: tuple[CallRecord, ...] = ()
    stand: tuple[tuple[CallRecord, str], ...] = ()


def undoing(
    heads: Heads,
    base: int,
    calls: Iterable[CallRecord],
    compensates: Callable[[str], bool | None],
    answered_by_others: Collection[int] = (),
) -> Undoing:
    """What has to be undone for a run with this line to go back to version `base`.

    `compensates` says whether a tool can undo its calls, None where it is not known here; `answered_by_others` are the
    numbers of calls whose action another call did, which gave them its result.
    """
    after = left_by(heads, base)
    undo: list[CallRecord] = []
    stand: list[tuple[CallRecord, str]] = []
    for call in calls:
        if not is_leftover(after, call) or not counts(heads, call) or call.seq in answered_by_others:
            continue
        why = _why_it_stands(call, compensates(call.tool))
        if why is None:
            undo.append(call)
        else:
            stand.append((call, why))
    undo.sort(key=lambda call: (call.ended_version or 0, call.seq), reverse=True)
    return Undoing(tuple(undo), tuple(stand))


def _why_it_stands(call: CallRecord, compensates: bool | None) -> str | None:
    if compensates is None:
        return f"no tool {call.tool} is known here"
    if not compensates:
        return f"{call.tool} has no compensation"
    if call.failure is not None or (call.result is None and call.result_artifact is None):
        return "what it returned is not recorded"
    return None


class Closing(Struct, frozen=True):
    """The rows that go before the new head: what is no longer asked, and what will not be made."""

    withdraws: tuple[RequestRecord, ...] = ()
    changes: tuple[CallChange, ...] = ()
    frees: tuple[int, ...] = ()


def closing(
    heads: Heads, base: int, calls: Sequence[CallRecord], requests: Iterable[RequestRecord], at: int
) -> Closing:
    """What is closed where a run with this line goes back to version `base` at wall-clock `at`."""
    after = left_by(heads, base)
    left = {call.seq: call for call in calls if not counts(after, call)}
    withdrawn = tuple(each for each in requests if each.verdict is None and each.call_seq in left)
    still_open = [call for call in left.values() if call.state not in ENDED]
    changes = tuple(_closed(call, at) for call in still_open)
    return Closing(withdrawn, changes, tuple(call.seq for call in still_open if call.identity is not None))


def _closed(call: CallRecord, at: int) -> CallChange:
    """A call that will not be made: nobody sees the difference between the two states, but the table has only these."""
    state = CallState.REJECTED if call.state in (CallState.AWAITING, CallState.UNCERTAIN) else CallState.FAILED
    result = call.result if call.result is not None else call.result_artifact
    checksum = call_checksum(
        call.call_id, call.args_digest, call.kind, call.effect, state, result, failure_bytes(_LEFT)
    )
    return CallChange(
        seq=call.seq,
        state=state,
        attempt=call.attempt,
        epoch=call.epoch,
        failure=_LEFT,
        over_at=call.over_at,
        ended_at=at,
        checksum=checksum,
    )


def _several(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - _SHOWN
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {more} more" if more > 0 else shown
