"""Which approval lets an attempt of a call be sent.

A yes is given for one attempt to come.  It also covers the retries of attempts that surely were not applied, which a
planned call's failure tells; it never covers an attempt after one that may have happened, nor one of a run that was
reopened after it had failed.
"""

from __future__ import annotations

from collections.abc import Iterable

from jumar.core.open_requests import newest
from jumar.core.records import CallRecord, RequestRecord
from jumar.core.states import CallState, RequestKind, Verdict


def needs_a_yes(call: CallRecord) -> bool:
    """Whether a planned call whose tool asks for approval has to be approved before it goes out: one that was never
    sent, or whose run was reopened.
    """
    return call.attempt == 0 or call.failure is None


def earlier_yes(call: CallRecord, requests: Iterable[RequestRecord]) -> RequestRecord | None:
    """The yes that covers the retry of a call, where one does."""
    if call.state is not CallState.PLANNED or call.failure is None:
        return None
    return newest_yes(requests)


def newest_yes(requests: Iterable[RequestRecord]) -> RequestRecord | None:
    """The newest approval that was given."""
    return newest((each for each in requests if each.verdict is Verdict.APPROVE), RequestKind.APPROVAL)
