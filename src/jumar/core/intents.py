"""A rollback that has been begun: all that whoever takes the run over must know to finish it.

The intent is committed with the claim that begins the rollback, so from then on nothing else is done with the run until
the files are back, the effects after the target are compensated or left by somebody's word, and the new head is
committed.  Every part of it can be done again without harm: files that are back already need nothing, a compensation is
a recorded call, and the new head ends the intent in its own commit.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from jumar.core.records import RunRecord
from jumar.core.states import ErrorClass, Phase, Status
from jumar.errors import IntegrityError


class Former(Struct, frozen=True, omit_defaults=True):
    """How the run stood when it was claimed, to leave it so again where only files were put back."""

    status: Status
    wake_at: int | None = None
    waiting_on: str | None = None
    output_digest: bytes | None = None
    error_class: ErrorClass | None = None
    error_type: str | None = None
    error_message: str | None = None
    failed_calls: tuple[int, ...] = ()

    @classmethod
    def of(cls, run: RunRecord) -> Former:
        """How a run stands."""
        return cls(
            run.status,
            run.wake_at,
            run.waiting_on,
            run.output_digest,
            run.error_class,
            run.error_type,
            run.error_message,
            run.failed_calls,
        )


class Intent(Struct, frozen=True, omit_defaults=True):
    """A rollback to version `target`.

    `tree` is the snapshot that the files go back to and `known` how they were last known; both None where the run has
    no workspace.  With `paths` (texts, globs as in a scope) only files change: no new head, and the run is left as it
    was, which `former` tells.  `undo` are the numbers of calls to be compensated, newest first.  `goes_on` says that a
    strategy chose it, so that the run stays RUNNING; otherwise it is left PAUSED.  Once the files are back it is
    `restored`, and whoever takes the run over later leaves them alone.
    """

    target: int
    phase: Phase
    step: int
    former: Former
    tree: bytes | None = None
    known: bytes | None = None
    paths: tuple[str, ...] = ()
    force: bool = False
    undo: tuple[int, ...] = ()
    goes_on: bool = False
    restored: bool = False
    context: bytes | None = None
    environment: bytes | None = None
    by: str = ""
    note: str | None = None

    @property
    def only_files(self) -> bool:
        """Whether the run's head stays where it is."""
        return bool(self.paths)


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Intent).decode


def pack_intent(intent: Intent) -> bytes:
    """An intent as the run's row keeps it."""
    return _encode(intent)


def intent_of(run: RunRecord) -> Intent | None:
    """The rollback that is under way in a run; IntegrityError where it cannot be read."""
    if run.intent is None:
        return None
    try:
        return _decode(run.intent)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"the rollback that run {run.run_id} is in cannot be read ({error})") from error
