"""Why a change was refused: the guard it met, named from the run as the refusing transaction saw it.

The guards themselves are in each dialect's statements; this only says which of them did not hold.
"""

from __future__ import annotations

from jumar.core.changes import Advance, Arrive, Claim, Depart, Fork, Guard, Refusal
from jumar.core.moving import elsewhere, is_elsewhere
from jumar.core.phases import FINAL
from jumar.core.records import LeaseTime, RunRecord
from jumar.core.states import CallState, Status
from jumar.core.working import waits


def claim_refused(run: RunRecord, now: LeaseTime, claim: Claim) -> Refusal:
    """Name the guard that a claim met, from the run as the refusing transaction saw it."""
    if run.owner is not None and run.boot == now.boot and run.lease_until > now.ms:
        left = (run.lease_until - now.ms) / 1000
        return Refusal(Guard.HELD, f"run {run.run_id} is held by {run.owner} for another {left:.1f} s", run)
    if is_elsewhere(run) or (run.status in FINAL and not claim.statuses >> run.status & 1):
        return ended(run)
    if claim.epoch is not None and run.epoch != claim.epoch:
        return Refusal(Guard.VERSION, f"run {run.run_id} was claimed meanwhile (epoch {run.epoch})", run)
    if claim.version is not None and run.version != claim.version:
        return Refusal(Guard.VERSION, f"run {run.run_id} has gone on meanwhile (version {run.version})", run)
    if claim.intent is not None and run.intent is not None:
        return Refusal(Guard.TRANSITION, f"run {run.run_id} is in the middle of a rollback already", run)
    if waits(run, claim.at) and not claim.early:
        return Refusal(Guard.NOT_DUE, f"run {run.run_id} is still waiting", run)
    return Refusal(Guard.TRANSITION, f"run {run.run_id} is {run.status.label} and cannot be claimed so", run)


def advance_refused(run: RunRecord | None, now: LeaseTime, advance: Advance) -> Refusal:
    """Name the guard that an advance met, the most telling one first."""
    if run is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run number {advance.run_no}")
    if run.status in FINAL and run.epoch == advance.epoch:
        return Refusal(Guard.ENDED, f"run {run.run_id} is {run.status.label}", run)
    if run.owner != advance.owner or run.epoch != advance.epoch:
        return Refusal(
            Guard.LEASE,
            f"run {run.run_id} has been taken over (epoch {run.epoch}, this process had {advance.epoch})",
            run,
        )
    if run.boot != now.boot or run.lease_until <= now.ms:
        return Refusal(Guard.LEASE, f"the lease on run {run.run_id} ran out", run)
    if run.version != advance.version:
        return Refusal(Guard.VERSION, f"run {run.run_id} is at version {run.version}, not {advance.version}", run)
    ending = advance.ending
    if ending is not None and (run.control != advance.control or run.answers != advance.answers):
        return Refusal(Guard.NEWS, f"run {run.run_id} was given an answer or an order meanwhile", run)
    after = run.phase.label if ending is None else ending.status.label
    return Refusal(
        Guard.TRANSITION,
        f"run {run.run_id} in phase {run.phase.label} cannot go to {advance.phase.label} ({after})",
        run,
    )


def ended(run: RunRecord) -> Refusal:
    """A run is over for good, or goes on in another store."""
    return Refusal(Guard.ENDED, elsewhere(run) if is_elsewhere(run) else f"run {run.run_id} is {run.status.label}", run)


def adopt_refused(there: RunRecord) -> Refusal:
    """Why a run that this store has cannot be adopted."""
    if not is_elsewhere(there):
        return Refusal(Guard.EXISTS, f"run {there.run_id} is already there", there)
    return Refusal(Guard.VERSION, f"run {there.run_id} stands further there than the one that would replace it", there)


def name_held(key: str, holder: str) -> Refusal:
    """A name in the whole store that a run would bring along is another run's."""
    return Refusal(Guard.EXISTS, f"the action {key!r} is already there, done by run {holder or '(nobody)'}")


def arrive_refused(run: RunRecord | None, arrive: Arrive) -> Refusal:
    """Name the guard that an arrival met."""
    if run is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run {arrive.run_id}")
    return Refusal(Guard.VERSION, f"run {run.run_id} is not what was adopted, or has arrived", run)


def depart_refused(run: RunRecord | None, now: LeaseTime, depart: Depart) -> Refusal:
    """Name the guard that a departure met."""
    if run is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run {depart.run_id}")
    if run.status in FINAL:
        return ended(run)
    if run.owner is not None and run.boot == now.boot and run.lease_until > now.ms:
        return Refusal(Guard.HELD, f"run {run.run_id} is held by {run.owner}", run)
    return Refusal(Guard.VERSION, f"run {run.run_id} has gone on meanwhile (version {run.version})", run)


def fork_refused(source: RunRecord | None, there: RunRecord | None, fork: Fork) -> Refusal:
    """Name the guard that a fork met; `there` is the run that has its id."""
    if source is None:
        return Refusal(Guard.NOT_FOUND, f"there is no run number {fork.source_no}")
    if source.version != fork.version:
        return Refusal(Guard.VERSION, f"run {source.run_id} has gone on meanwhile (version {source.version})", source)
    return Refusal(Guard.EXISTS, f"run {fork.run_id} is already there", there)


# What a change met after some of its rows were written; whoever answers with one of these undoes it.


def no_intent() -> Refusal:
    """There is no rollback under way."""
    return Refusal(Guard.TRANSITION, "the run is in no rollback whose intent could be replaced")


def cannot_begin(call_id: str, state: CallState) -> Refusal:
    """A new call has a state that none begins with."""
    return Refusal(Guard.TRANSITION, f"call {call_id} cannot begin as {state.label}")


def cannot_become(seq: int, state: CallState) -> Refusal:
    """The call's present state does not allow the new one, or there is no such call."""
    return Refusal(Guard.TRANSITION, f"call number {seq} cannot become {state.label}")


def still_open(call_id: str, state: CallState, status: Status) -> Refusal:
    """A call is STARTED, or of one it is not known whether it happened, and the run cannot be `status` with that."""
    return Refusal(Guard.TRANSITION, f"call {call_id} is {state.label}, so the run cannot become {status.label}")


def not_ended(seq: int) -> Refusal:
    """A fork was to have a call that has not ended."""
    return Refusal(Guard.TRANSITION, f"call number {seq} has not ended, so no fork can have it")


def path_held(path: bytes, run_id: str, seq: int, run: RunRecord | None) -> Refusal:
    """A rollback of `run` cannot hold a path because of a call of another run (or another rollback: `seq` 0)."""
    what = path.decode("utf-8", "backslashreplace") or "the whole workspace"
    whose = f"a write of run {run_id}" if seq else f"a rollback of run {run_id}"
    return Refusal(Guard.HOLD, f"{what} is held by {whose} that has not ended", run)
