"""How a run's files were when it was left, as far as its rows tell: for making them anew on another host.

The newest whole snapshot is where to begin.  What the run's writes did since is grafted into it: of one that succeeded
what it left, of one that failed what was there before it, because its files were put back.  A write that may have been
cut off counts last, as it was before: on another host nothing is half-done, so what a put-back would do is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from jumar.core.call_states import ENDED
from jumar.core.records import CallRecord
from jumar.core.states import CallState, Effect
from jumar.core.uncertain import leaves_no_file


class Since(Struct, frozen=True):
    """What has happened to the files since a snapshot: `parts` are snapshots of declared paths in their order, `lost`
    the ids of writes that succeeded and of which nothing was kept, `unseen` those of other calls that may have changed
    files, which nobody looked at since.
    """

    parts: tuple[bytes, ...] = ()
    lost: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def since(version: int, calls: Sequence[CallRecord]) -> Since:
    """What calls of a run did after the version of its newest snapshot."""
    later = [call for call in calls if call.state not in ENDED or (call.ended_version or 0) > version]
    writes = [call for call in later if call.effect is Effect.WRITE]
    ended = [call for call in writes if call.state in ENDED]
    opened = [call for call in writes if call.state not in ENDED]
    ended.sort(key=lambda call: (call.ended_version or 0, call.seq))
    parts = [_left(call) for call in (*ended, *opened)]
    others = [call for call in later if call.effect not in (Effect.READ, Effect.WRITE) and not leaves_no_file(call)]
    return Since(
        tuple(part for part in parts if part is not None),
        tuple(call.call_id for call in ended if call.state is CallState.SUCCEEDED and call.after is None),
        tuple(call.call_id for call in others),
    )


def _left(call: CallRecord) -> bytes | None:
    return call.after if call.state is CallState.SUCCEEDED else call.before
