"""Changes as the functions of the database take them: a JSON document, and beside it the bytes that it names.

JSON holds no bytes, so wherever a field is bytes the document has the place of these in an array, counted from 1.  What
is None is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any

import msgspec
import psycopg
from psycopg.adapt import Dumper
from psycopg.types.json import Jsonb

from jumar.core.call_states import ENDED, STATE_BEFORE, STATE_FIRST
from jumar.core.changes import Advance, Answer, CallChange, Claim, Ending, Hold, Take
from jumar.core.checksums import failure_bytes, sealed
from jumar.core.phases import FINAL, STATUS_BEFORE
from jumar.core.records import CallRecord, CheckpointRecord, EventRecord
from jumar.core.states import CallState, EventKind, IdentityScope, Phase, Status, mask
from jumar.stores.packing import pack
from jumar.stores.rows import numbers_text, usage_bytes

Document = dict[str, Any]

_HEAD = Struct("!iiIii").pack
_LENGTH = Struct("!i").pack
_HEAD_OF_NONE = Struct("!iiI").pack(0, 0, psycopg.adapters.types["bytea"].oid)
_encode = msgspec.json.Encoder().encode
_AWAITING_BEFORE = STATE_BEFORE[CallState.AWAITING]
_RUNNING = Ending(status=Status.RUNNING)
_OPEN_DECISION = mask(Phase.DECISION_RECORDED, Phase.AWAITING_RESULTS)
_NOBODY = (-1, -1)  # no run and no call has these numbers
_CALL_BYTES = ("args_digest", "args", "args_artifact", "result", "result_artifact", "boot", "before", "after")
_CALL_VALUES = (
    *(
        "seq",
        "call_id",
        "branch",
        "step",
        "ordinal",
        "kind",
        "tool",
        "effect",
        "state",
        "attempt",
        "epoch",
        "generation",
    ),
    *("key", "dispatch_by", "started_at", "ended_at", "checksum", "over_at", "identity", "identity_scope", "undone"),
)
_CHANGE_BYTES = ("result", "result_artifact", "boot", "before", "after")
_CHANGE_VALUES = (
    *("seq", "state", "attempt", "epoch", "dispatch_by", "over_at", "started_at", "ended_at", "checksum", "identity"),
    *("identity_scope", "undone"),
)
_CHECKPOINT_BYTES = ("context", "checksum", "tree", "environment")
_CHECKPOINT_VALUES = ("version", "base_version", "name", "level", "trigger", "step", "phase", "created_at", "storage")


def jsonb(document: Document) -> Jsonb:
    """A document as a statement's parameter."""
    return Jsonb(document, dumps=_encode)


class Blobs:
    """The bytes that a document names."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def place(self, data: bytes) -> int:
        """Add bytes; answers their place."""
        self.parts.append(data)
        return len(self.parts)


class _BlobsDumper(Dumper):
    """Sends them as a bytea[].  The driver's own way to send a list takes longer than the rest of an advance."""

    format = psycopg.pq.Format.BINARY
    oid = psycopg.adapters.types["bytea"].array_oid

    def dump(self, obj: Blobs) -> bytes:
        """One dimension, no nulls, bytea, so many from 1 on; then each with its length before it."""
        many = len(obj.parts)
        pieces = [_HEAD(1, 0, psycopg.adapters.types["bytea"].oid, many, 1) if many else _HEAD_OF_NONE]
        for data in obj.parts:
            pieces += (_LENGTH(len(data)), data)
        return b"".join(pieces)


psycopg.adapters.register_dumper(Blobs, _BlobsDumper)


def rest_of(advance: Advance) -> tuple[Document, Blobs]:
    """All that an advance writes besides the run's row."""
    rest: Document = {}
    blobs = Blobs()
    if advance.ending is not None or advance.head is not None or advance.settles:
        _end(advance, advance.ending or _RUNNING, rest, blobs)
    if advance.takes or advance.holds or advance.frees or advance.drops:
        _give_and_take(advance, rest, blobs)
    if advance.intent is not None:
        rest["intent"] = blobs.place(advance.intent)
    if advance.calls:
        rest["calls"] = [_call(record, blobs) for record in advance.calls]
        bad = next((record for record in advance.calls if not STATE_FIRST >> record.state & 1), None)
        if bad is not None:
            rest["bad_call"] = (bad.call_id, int(bad.state))
    if advance.changes:
        rest["changes"] = [change_document(change, blobs) for change in advance.changes]
        rest["awaiting_before"] = _AWAITING_BEFORE
    if advance.artifacts:
        rest["artifacts"] = [_artifact(kept.digest, kept.data, blobs) for kept in advance.artifacts]
    kept = [(advance.before, advance.version), (advance.after, advance.version + 1)]
    if points := [sealed(each, version) for each, version in kept if each is not None]:
        rest["checkpoints"] = [_checkpoint(each, blobs) for each in points]
    if advance.requests:
        rest["requests"] = [
            (each.request_id, each.call_seq, each.call_id, each.attempt, each.kind, each.created_at, each.expires_at)
            for each in advance.requests
        ]
    if advance.withdraws:
        rest["withdraws"] = advance.withdraws
    if advance.events:
        rest["events"] = [_event(line) for line in advance.events]
        rest["call_started"] = EventKind.CALL_STARTED
    return rest, blobs


def claim_rest(claim: Claim) -> tuple[Document, Blobs]:
    """What a claim writes besides the run's row."""
    blobs = Blobs()
    rest: Document = {
        "claimed": EventKind.CLAIMED,
        "taken_over": EventKind.TAKEN_OVER,
        "call_uncertain": EventKind.CALL_UNCERTAIN,
        "open_decision": _OPEN_DECISION,
    }
    events: list[tuple[EventKind, int | None]] = []
    if claim.intent is not None:
        rest["intent"] = blobs.place(claim.intent)
        events.append((EventKind.ROLLBACK_STARTED, None))
    if claim.holds:
        rest["workspaces"] = workspaces(claim.holds)
        rest["holds"] = [_hold(wanted, blobs) for wanted in claim.holds]
    if claim.reopens:
        rest["reopens"] = [change_document(change, blobs) for change in claim.reopens]
        events += [(EventKind.REOPENED, change.seq) for change in claim.reopens]
    if events:
        rest["events"] = events
    return rest, blobs


def answer_rest(given: Answer) -> tuple[Document, Blobs]:
    """What an answer makes of its call, should its run have ended for good."""
    rest: Document = {}
    blobs = Blobs()
    if given.settles is not None:
        rest["settles"] = change_document(given.settles, blobs)
    if given.frees:
        rest["frees"] = True
    return rest, blobs


def workspaces(holds: Iterable[Hold]) -> list[str]:
    """The workspaces of which paths are wanted."""
    return sorted({wanted.workspace for wanted in holds})


def keys(takes: Iterable[Take]) -> list[str]:
    """The names that reach over the whole store and are wanted; others are their run's own, as its row is."""
    return sorted({take.key for take in takes if take.scope is IdentityScope.STORE})


def change_document(change: CallChange, blobs: Blobs) -> Document:
    """A new state for a call."""
    document = _fields(change, _CHANGE_VALUES, _CHANGE_BYTES, blobs)
    document["state_before"] = STATE_BEFORE[change.state]
    _place(document, "failure", failure_bytes(change.failure), blobs)
    _place(document, "usage", usage_bytes(change.usage), blobs)
    if change.state is CallState.STARTED:
        document["starts"] = True
    if change.state in ENDED:
        document["ends"] = True
    return document


def _end(advance: Advance, ending: Ending, rest: Document, blobs: Blobs) -> None:
    end: Document = {
        "status": ending.status,
        "status_before": STATUS_BEFORE[ending.status],
        "final": ending.status in FINAL,
        "wake_at": ending.wake_at,
        "waiting_on": ending.waiting_on,
        "error_class": ending.error_class,
        "error_type": ending.error_type,
        "error_message": ending.error_message,
        "failed_calls": numbers_text(ending.failed_calls),
    }
    _place(end, "output_digest", ending.output_digest, blobs)
    rest["ending"] = end
    if advance.head is not None or advance.settles:
        rest["rebase"] = True
    if advance.head is not None:
        rest["base"] = advance.head.base
    if advance.ending is not None or advance.head is not None:
        rest["open_status"] = ending.status


def _give_and_take(advance: Advance, rest: Document, blobs: Blobs) -> None:
    undone = {change.seq for change in advance.changes if change.state is CallState.COMPENSATED}
    wants: dict[int, Document] = {}
    for take in advance.takes:
        wants.setdefault(take.seq, {"seq": take.seq, "takes": [], "holds": []})["takes"].append(_take(take, blobs))
    for hold in advance.holds:
        wants.setdefault(hold.seq, {"seq": hold.seq, "takes": [], "holds": []})["holds"].append(_hold(hold, blobs))
    rest["gives"] = True
    rest["workspaces"] = workspaces(advance.holds)
    rest["keys"] = keys(advance.takes)
    rest["frees"] = [(seq, seq in undone) for seq in advance.frees]
    rest["drops"] = advance.drops
    rest["wants"] = list(wants.values())


def _take(take: Take, blobs: Blobs) -> Document:
    instead_run, instead_seq = take.instead_of or _NOBODY
    return {
        "everywhere": take.scope is IdentityScope.STORE,
        "key": take.key,
        "args_digest": blobs.place(take.args_digest),
        "undone": take.undone,
        "instead_run": instead_run,
        "instead_seq": instead_seq,
    }


def _hold(hold: Hold, blobs: Blobs) -> Document:
    """A path with those above it, itself the first and the whole workspace the last."""
    path, above = hold.path, [hold.path]
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        above.append(path)
    if path:
        above.append(b"")
    places = [blobs.place(each) for each in above]
    return {"workspace": hold.workspace, "path": places[0], "above": places}


def _call(record: CallRecord, blobs: Blobs) -> Document:
    document = _fields(record, _CALL_VALUES, _CALL_BYTES, blobs)
    _place(document, "failure", failure_bytes(record.failure), blobs)
    _place(document, "usage", usage_bytes(record.usage), blobs)
    document["ends"] = record.state in ENDED
    return document


def _artifact(digest: bytes, data: bytes, blobs: Blobs) -> tuple[int, int, int]:
    packing, packed = pack(data)
    return blobs.place(digest), packing, blobs.place(packed)


def _checkpoint(record: CheckpointRecord, blobs: Blobs) -> Document:
    document = _fields(record, _CHECKPOINT_VALUES, _CHECKPOINT_BYTES, blobs)
    document["refs"] = " ".join(record.refs)  # references hold no spaces
    return document


def _event(line: EventRecord) -> tuple[Any, ...]:
    return line.kind, line.at, line.call_seq, line.epoch, line.detail


def _fields(record: Any, values: Iterable[str], data: Iterable[str], blobs: Blobs) -> Document:
    document = {name: value for name in values if (value := getattr(record, name)) is not None}
    for name in data:
        _place(document, name, getattr(record, name), blobs)
    return document


def _place(document: Document, name: str, data: bytes | None, blobs: Blobs) -> None:
    if data is not None:
        document[name] = blobs.place(data)
