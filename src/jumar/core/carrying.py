"""What a copy of a run has to bring along, and whether it did.

Bytes and snapshots are named by digests in many places of a run; here is which.  What stands on a lease clock is set to
the other store's: a call that may still be under way must be waited for as long as before, and a deadline under a boot
that the other store does not know would be taken for one long past.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from jumar.core.call_states import ENDED
from jumar.core.intents import Intent, intent_of
from jumar.core.phases import FINAL
from jumar.core.records import CallRecord, IdentityRecord, LeaseTime, RunExport, RunRecord
from jumar.errors import IntegrityError


def named_artifacts(export: RunExport) -> set[bytes]:
    """The digests of all bytes that the run names, its own or those of the run it was made from."""
    run = export.run
    named = {run.input_digest, run.output_digest}
    for call in export.calls:
        named |= {call.args_artifact, call.result_artifact}
    for kept in export.checkpoints:
        named |= {kept.context, kept.environment}
    intent = _intent(run)
    if intent is not None:
        named |= {intent.context, intent.environment}
    return {digest for digest in named if digest is not None}


def named_snapshots(export: RunExport) -> list[bytes]:
    """The digests of all snapshots that the run names, each once, in the order in which they came to be."""
    found: dict[bytes, None] = {}
    for digest in _snapshots(export):
        if digest is not None:
            found[digest] = None
    return list(found)


def _snapshots(export: RunExport) -> Iterator[bytes | None]:
    for kept in export.checkpoints:
        yield kept.tree
    for call in export.calls:
        yield from (call.before, call.after)
    intent = _intent(export.run)
    if intent is not None:
        yield from (intent.tree, intent.known)


def _intent(run: RunRecord) -> Intent | None:
    try:
        return intent_of(run)
    except IntegrityError:
        return None  # whoever claims the run will say so


def on_clock(export: RunExport, here: LeaseTime, there: LeaseTime) -> RunExport:
    """The export with the times of its open calls on the clock of the store it goes to.

    `here` is a reading of the clock of the store it comes from, and `there`, taken after that one, of the other.  What
    was begun under another boot of the first store is over; in the other store too it must not look like a time of its
    own boot.
    """
    calls = tuple(call if call.state in ENDED else _on_clock(call, here, there) for call in export.calls)
    return replace(export, calls=calls)


def _on_clock(call: CallRecord, here: LeaseTime, there: LeaseTime) -> CallRecord:
    if call.boot is None:
        return call
    if call.boot != here.boot:
        return replace(call, boot=b"", dispatch_by=None, over_at=None) if call.boot == there.boot else call
    ahead = there.ms - here.ms
    return replace(
        call,
        boot=there.boot,
        dispatch_by=None if call.dispatch_by is None else call.dispatch_by + ahead,
        over_at=None if call.over_at is None else call.over_at + ahead,
    )


def unlike(first: RunExport, second: RunExport) -> str | None:
    """The first thing in which two stores' rows of a run differ; None where they are the same.

    Numbers of runs are each store's own, as are leases and what stands on a lease clock.  The second may have more
    artifacts, and know of more undoings of a name that is nobody's.
    """
    pairs: tuple[tuple[str, object, object], ...] = (
        ("run", _bare(first.run), _bare(second.run)),
        ("calls", tuple(map(_timeless, first.calls)), tuple(map(_timeless, second.calls))),
        ("checkpoints", first.checkpoints, second.checkpoints),
        ("requests", first.requests, second.requests),
        ("events", first.events, second.events),
        ("names", _names(first), _names(second)),
        ("paths", _paths(first), _paths(second)),
    )
    for what, of_first, of_second in pairs:
        if of_first != of_second:
            return what
    lacking = {artifact.digest for artifact in first.artifacts} - {artifact.digest for artifact in second.artifacts}
    return "artifacts" if lacking else None


def _bare(run: RunRecord) -> RunRecord:
    return replace(run, run_no=0, owner=None, boot=b"", lease_until=0, workspace=None)


def _timeless(call: CallRecord) -> CallRecord:
    return replace(call, boot=None, dispatch_by=None, over_at=None)


def _names(export: RunExport) -> list[IdentityRecord]:
    return [replace(name, run_no=1) for name in export.identities if name.run_no != 0]


def _paths(export: RunExport) -> list[tuple[bytes, int]]:
    return sorted((held.path, held.call_seq) for held in export.holds)


def has_ended(run: RunRecord) -> bool:
    """Whether a run is over for good, so that a copy of it may stand beside it; a FAILED one can be resumed."""
    return run.status in FINAL
