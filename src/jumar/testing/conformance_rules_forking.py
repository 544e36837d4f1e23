"""What a fork makes of the run it is made from, in plain Python; as `conformance_rules`."""

from __future__ import annotations

from msgspec.structs import replace

from jumar.core.call_states import ENDED
from jumar.core.changes import Fork, Guard
from jumar.core.records import RunRecord
from jumar.core.states import Control, EventKind, Status
from jumar.testing.conformance_rules import RunRows
from jumar.testing.conformance_rules_taking import Refused, Taken


def forked(source: RunRows, fork: Fork, run_no: int, taken: Taken, there: RunRecord | None) -> RunRows:
    """The run that a fork makes; `there` is the run that has its id already."""
    origin = source.record
    if origin.version != fork.version:
        raise Refused(Guard.VERSION, "the run has gone on since")
    if there is not None:
        raise Refused(Guard.EXISTS, "this run is already there")
    version = origin.version + 1
    run = RunRows(
        RunRecord(
            run_no=run_no,
            run_id=fork.run_id,
            agent=origin.agent,
            agent_version=origin.agent_version,
            task=origin.task,
            status=Status.PAUSED,
            phase=fork.phase,
            step=fork.step,
            version=version,
            generation=origin.generation + 1,
            owner=None,
            epoch=0,
            boot=origin.boot,
            lease_until=0,
            control=Control.NONE,
            answers=0,
            wake_at=None,
            waiting_on=None,
            input_digest=origin.input_digest,
            output_digest=None,
            error_class=None,
            error_type=None,
            error_message=None,
            created_at=fork.at,
            updated_at=fork.at,
            line=(*origin.line, (version, fork.base)),
            workspace=origin.workspace if fork.workspace is None else fork.workspace,
            origin=origin.run_id if origin.origin is None else origin.origin,
            forked_from=origin.run_id,
        )
    )
    for seq in fork.calls:
        call = source.calls.get(seq)
        if call is None or call.state not in ENDED:
            raise Refused(Guard.TRANSITION, "a fork has calls that have ended, and no others")
        run.calls[seq] = replace(call, epoch=0)
    run.checkpoints = {place: kept for place, kept in source.checkpoints.items() if place in fork.checkpoints}
    _copy_names(origin, run, fork, taken)
    run.tell(EventKind.FORKED, fork.at, None, 0, f"at version {fork.base}")
    return run


def _copy_names(origin: RunRecord, run: RunRows, fork: Fork, taken: Taken) -> None:
    """Within the fork, its calls hold the names that they hold within its origin; of the rest it is known how often
    they were undone.
    """
    number, run_id = run.record.run_no, fork.run_id
    for (reach, key), name in list(taken.names.items()):
        if reach != origin.run_no:
            continue
        if name.run_no == origin.run_no and name.call_seq in fork.calls:
            taken.names[number, key] = replace(name, run_no=number, run_id=run_id)
        elif name.undone:
            taken.names[number, key] = replace(name, run_no=0, run_id="", call_seq=0)


def was_forked_by(run: RunRecord | None, source: RunRecord, fork: Fork) -> bool:
    """Whether this fork made the run."""
    if run is None or (run.forked_from, run.created_at) != (source.run_id, fork.at):
        return False
    return (fork.version + 1, fork.base) in run.line
