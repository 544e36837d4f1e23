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


def is_open(request: RequestRecord, call: CallRecord | None, status: Status) -> bool:
    """Whether the request is still asked, of a call as it stands in a run of this status."""
    if request.verdict is not None or call is None:
        return False
    if request.kind is RequestKind.RESOLVE:
        return call.state is CallState.UNCERTAIN and call.attempt == request.attempt
    if status in FINAL or call.state is not CallState.AWAITING:
        return False
    to_come = call.attempt + 1 if request.kind is RequestKind.APPROVAL else call.attempt
    return request.attempt == to_come


def still_open(requests: Iterable[RequestRecord], calls: Sequence[CallRecord], status: Status) -> list[RequestRecord]:
    """Those of a run's requests that are still asked, in their order."""
    by_number = {call.seq: call for call in calls}
    return [request for request in requests if is_open(request, by_number.get(request.call_seq), status)]
