"""Which requests somebody may still answer.

A request is about one attempt of one call.  What is asked about it may be settled without an answer (by the tool's
probe, or because the call is asked about anew), and is then no longer asked.  Of a run that has ended for good only
what may have happened is still worth knowing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jumar.core.phases import FINAL
from jumar.core.records import CallRecord, RequestRecord
from jumar.core.states import CallState, RequestKind, Status


def attempt_asked(kind: RequestKind, call: CallRecord) -> int:
    """The attempt that a request of this kind about the call as it stands is about: an approval is asked for the one to
    come.
    """
    return call.attempt + 1 if kind is RequestKind.APPROVAL else call.attempt


def newest(requests: Iterable[RequestRecord], *kinds: RequestKind) -> RequestRecord | None:
    """Of requests about one call the newest one, of these kinds where any are given."""
    found = (each for each in requests if not kinds or each.kind in kinds)
    return max(found, key=lambda each: each.attempt, default=None)


def is_open(request: RequestRecord, call: CallRecord | None, status: Status) -> bool:
    """Whether the request is still asked, of a call as it stands in a run of this status."""
    if request.verdict is not None or call is None or request.attempt != attempt_asked(request.kind, call):
        return False
    if request.kind is RequestKind.RESOLVE:
        return call.state is CallState.UNCERTAIN
    if request.kind is RequestKind.UNDO:
        return call.state in (CallState.PLANNED, CallState.UNCERTAIN)
    return status not in FINAL and call.state is CallState.AWAITING


def still_open(requests: Iterable[RequestRecord], calls: Sequence[CallRecord], status: Status) -> list[RequestRecord]:
    """Those of a run's requests that are still asked, in their order."""
    by_number = {call.seq: call for call in calls}
    return [request for request in requests if is_open(request, by_number.get(request.call_seq), status)]
